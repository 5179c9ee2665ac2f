"""Task ids of 0.1 clients, mapped to those of their agents and back (protocol §8.1).

Clients of 0.1 make the ids of their tasks and sessions; agents of all later generations make their own. Requests get
the agent's ids, answers and events the client's. In the other direction, an agent of 0.1 gets its ids from the gateway;
they are recorded, because clients of 0.2 and 0.3 share some method names with 0.1 and are told apart by their tasks.
"""

from collections.abc import Callable

import msgspec

from gateway.a2a.json import Tree
from gateway.a2a.versions.version import Misfit

LONGEST = 512
"""Longest id that is remembered, in characters."""


class Alias(msgspec.Struct, frozen=True):
    """The agent's ids of a task whose client made its own.

    Attributes:
        task_id: The agent's id.
        context_id: The agent's context of the task, if known.
        session_id: The client's id of that context, if known.
        newer: A client of 0.2 or 0.3 has this task from an agent of 0.1. The ids are the agent's, and the client is not
            treated as one of 0.1 where method names are shared.
        mixed: The client made the task with objects of 1.0 under method names of 0.3, and is answered so by default.
            The ids are the agent's.
    """

    task_id: str
    context_id: str | None = None
    session_id: str | None = None
    newer: bool = False
    mixed: bool = False


class Naming:
    """The two sets of ids of one call's task.

    Args:
        alias: The alias of the task that the call names, if known.
        record: Called with the client's task id and the alias, whenever that changes.
        newer: Whether the client is of 0.2 or 0.3 and the agent of 0.1.
        mixed: As of `Alias`; `newer` as well.

    Attributes:
        name: The 0.1 client's id of its task; None where both use the agent's ids.
    """

    __slots__ = ("_alias", "_mixed", "_newer", "_record", "_session", "name")

    def __init__(
        self, alias: Alias | None, record: Callable[[str, Alias], None] | None, *, newer: bool, mixed: bool = False
    ) -> None:
        self._alias = alias
        self._record = record
        self._newer = newer
        self._mixed = mixed
        self._session: str | None = None
        self.name: str | None = None

    @property
    def known(self) -> bool:
        """Return whether the agent's name of the task is known."""
        return self._alias is not None

    @property
    def context_id(self) -> str | None:
        """Return the agent's context of the task, if it is known."""
        return None if self._alias is None else self._alias.context_id

    def for_send(self, message: Tree) -> None:
        """Replace the client's ids by the agent's in a message to be sent; the agent names a new task.

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
        """Replace the client's id by the agent's in the parameters of an operation on a task."""
        alias = self._alias
        if alias is None or alias.newer:
            return
        self.name, self._session = params.get(member), alias.session_id
        params[member] = alias.task_id

    def localise(self, answer: Tree) -> None:
        """Replace the agent's ids by the client's in an answer or event, and record the agent's.

        Args:
            answer: One object of the hub under its kind: `{"task": ...}`; a push configuration is under `config`.
        """
        for kind, body in answer.items():
            if not isinstance(body, dict):
                continue
            member = "id" if kind == "task" else "taskId"
            task, context = body.get(member), body.get("contextId")
            context = context if isinstance(context, str) and context else None
            if isinstance(task, str) and task:
                if task != self.name and kind != "message":
                    self._learn(task, context)
                if self.name is not None:
                    body[member] = self.name
            if context is not None and self._session is not None:
                body["contextId"] = self._session

    def _learn(self, task: str, context: str | None) -> None:
        known = self._alias
        if known is not None and known.task_id == task:
            context = context or known.context_id
        alias = Alias(task, context, self._session, newer=self._newer, mixed=self._mixed)
        if alias == known:
            return
        self._alias = alias
        if self._record is not None and len(task) <= LONGEST and len(context or "") <= LONGEST:
            self._record(self.name or task, alias)
