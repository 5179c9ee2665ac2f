"""What a client of 0.1 calls its task, and what its agent calls it (protocol §8.1).

Clients of 0.1 make the ids of their tasks and sessions; agents of all later generations make their own. Here the one
stands for the other, in requests and in whatever comes back. The other way round, an agent of 0.1 gets its ids from the
gateway, and clients of 0.2 and 0.3 are remembered by them: their names for some methods are those of 0.1.
"""

from collections.abc import Callable

import msgspec

from gateway.a2a.tree import Tree
from gateway.a2a.versions.version import Misfit

LONGEST = 512
"""Characters of an id that is remembered."""


class Alias(msgspec.Struct, frozen=True):
    """What an agent calls a task that a client of 0.1 named itself.

    Attributes:
        task_id: The agent's id.
        context_id: The agent's context of it, if it said one.
        session_id: What the client calls that context, if it said so.
        newer: The other way round: a client of 0.2 or 0.3 has got this task from an agent of 0.1, and is not taken for
            a client of 0.1 where the method names are the same.
        mixed: The client made the task with objects of 1.0 under the method names of 0.3. Where nothing else tells, it
            is answered in 1.0 under them. Its ids are the agent's, as those of `newer`.
    """

    task_id: str
    context_id: str | None = None
    session_id: str | None = None
    newer: bool = False
    mixed: bool = False


class Naming:
    """The names of one call's task.

    Args:
        alias: What is known of the task that the call names.
        met: Told the client's name of a task and what is known of it, whenever that changes.
        newer: Whether the client is of 0.2 or 0.3 and the agent of 0.1.
        mixed: As of `Alias`; `newer` as well.

    Attributes:
        name: What the client of 0.1 calls its task; None where ids are the agent's for both.
    """

    __slots__ = ("_alias", "_met", "_mixed", "_newer", "_session", "name")

    def __init__(
        self, alias: Alias | None, met: Callable[[str, Alias], None] | None, *, newer: bool, mixed: bool = False
    ) -> None:
        self._alias = alias
        self._met = met
        self._newer = newer
        self._mixed = mixed
        self._session: str | None = None
        self.name: str | None = None

    @property
    def known(self) -> bool:
        """Whether the agent's name of the task is known."""
        return self._alias is not None

    @property
    def context_id(self) -> str | None:
        """The agent's context of the task, if it is known."""
        return None if self._alias is None else self._alias.context_id

    def for_send(self, message: Tree) -> None:
        """Put the agent's ids in place of the client's into a message to be sent; a new task is the agent's to name.

        Raises:
            Misfit: an id is too long.
        """
        if self._newer:
            return
        self.name, self._session = message.pop("taskId", None), message.get("contextId")
        for field, value in (("id", self.name), ("sessionId", self._session)):
            if value is not None and len(value) > LONGEST:
                raise Misfit(field, f"must not be longer than {LONGEST} characters")
        alias = self._alias
        if alias is None:
            return
        message["taskId"] = alias.task_id
        if alias.context_id is not None:
            message["contextId"] = alias.context_id

    def for_task(self, params: Tree, member: str) -> None:
        """Put the agent's id in place of the client's into the parameters of an operation on a task."""
        alias = self._alias
        if alias is None or alias.newer:
            return
        self.name, self._session = params.get(member), alias.session_id
        params[member] = alias.task_id

    def localise(self, answer: Tree) -> None:
        """Put the client's ids in place of the agent's into what comes back, and remember what the agent calls it.

        Args:
            answer: What the hub wraps: `{"task": ...}` and its like. A task's push configuration is one of `config`.
        """
        for kind, body in answer.items():
            if not isinstance(body, dict):
                continue
            member = "id" if kind == "task" else "taskId"
            task, context = body.get(member), body.get("contextId")
            context = context if isinstance(context, str) and context else None
            if isinstance(task, str) and task:
                if task != self.name and kind != "message":
                    self._meet(task, context)
                if self.name is not None:
                    body[member] = self.name
            if context is not None and self._session is not None:
                body["contextId"] = self._session

    def _meet(self, task: str, context: str | None) -> None:
        known = self._alias
        if known is not None and known.task_id == task:
            context = context or known.context_id
        found = Alias(task, context, self._session, newer=self._newer, mixed=self._mixed)
        if found == known:
            return
        self._alias = found
        if self._met is not None and len(task) <= LONGEST and len(context or "") <= LONGEST:
            self._met(self.name or task, found)
