"""CLAIM and OBSERVE: whose the tasks and contexts are that a call names, and whose those that come back.

An agent hands any task to whoever names it, so the gateway asks its ledger first: each id that a call names, wherever
it stands, must be the caller's own, or the agent is not asked. Another's task and one that never was get one answer.
What an agent's frame names is written down as its receiver's before the frame leaves; a frame that names what is
another's never leaves.

A context may be named by whoever begins it, and two tenants may hit on one word. At a backend that several owners reach
the words of clients therefore go to the agent with a *mark* of their owner before them, and come back without it. So
nobody can be told that a context is another's: under another's word for one, everybody has one of their own. The ids of
tasks of 0.1, which clients make as well, are marked alike.
"""

from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import TaskNotFound, TasksLimited, UpstreamProtocol
from gateway.a2a.mention import Mentions, mentions
from gateway.a2a.progress import Progress
from gateway.a2a.renaming import with_context, with_task, without
from gateway.a2a.tree import Tree
from gateway.principal import Principal
from gateway.tasks.homes import Homes
from gateway.tasks.ledger import Ledger, carried
from gateway.tasks.store import LONGEST_ID, Met, Owner, Sighting, Soon, Task

_TRY_AGAIN = 5.0


@dataclass(frozen=True, slots=True)
class Tenure:
    """How a backend's tasks are kept apart.

    Attributes:
        scope: The key of the backend.
        by_principal: Whether callers of one tenant are told apart.
        adopts: Whether a task that nobody owns becomes its first caller's.
        shared: Whether several owners reach the backend.
        keeps: Whether owners are kept at all; where they are not, only webhooks have one.
        most_open: How many tasks of a tenant may be open at a time; under `*` those of a tenant that is not named.
        homes: Which of its replicas made what; None where that is of no matter.
    """

    ledger: Ledger
    scope: str
    by_principal: bool = False
    adopts: bool = False
    shared: bool = True
    keeps: bool = True
    most_open: Mapping[str, int | None] = field(default_factory=dict)
    homes: Homes | None = None

    @property
    def filters(self) -> bool:
        """Whether a list of tasks has to be gone through: not where all that the agent has is one owner's anyway."""
        return self.keeps and (self.shared or not self.adopts)

    def notified(self, owner: Owner, told: Progress) -> Soon[bool]:
        """Write down what a notification to an owner's webhook names; whether its task is the owner's."""
        return carried(self._notified(owner, told)) if self.keeps else True

    def _notified(self, owner: Owner, told: Progress) -> Generator[Any, Any, bool]:
        sighting = Sighting(owner, told.task_id or "", told.context_id or "", told.state or "", now=self.ledger.now())
        met: Met = yield self.ledger.store.meet(self.scope, sighting)
        return met.task is not None and self.owned(met.task, owner)

    def owned(self, owner: Owner, by: Owner) -> bool:
        """Whether what is one's is another's, too."""
        return owner.tenant == by.tenant and (owner.principal == by.principal or not self.by_principal)

    def of(self, principal: Principal, label: str) -> "Claims":
        """The claims of one caller.

        Args:
            label: What the caller speaks.
        """
        return Claims(self, Owner(principal.tenant, f"{principal.issuer}/{principal.subject}"), label)


class Claims:
    """What the caller of one exchange may name, and what it is told of.

    Attributes:
        owner: Who calls.
        foreign: Whether the call or its answer named what is another's; for the audit.
        replica: Which of the backend's replicas is asked; empty where there is one.
    """

    __slots__ = (
        "_asked", "_context", "_label", "_mark", "_mark_bytes", "_pending", "_state", "_store", "_task", "_tenure",
        "foreign", "ledger", "owner", "replica",
    )  # fmt: skip

    def __init__(self, tenure: Tenure, owner: Owner, label: str) -> None:
        self.owner = owner
        self.foreign = False
        self.replica = ""
        self._tenure = tenure
        self.ledger = tenure.ledger
        self._store = tenure.ledger.store
        self._label = label
        self._mark = ""
        self._mark_bytes = b""
        # What is known to be the caller's already.
        self._task = ""
        self._state = ""
        self._context = ""
        # The context that the agent is asked for.
        self._asked = ""
        self._pending = False

    # ---- There -----------------------------------------------------------------------------------------------------

    def enter(self, call: Call, named: Mentions | None = None) -> Soon[Call]:
        """The call as the agent may get it.

        Args:
            call: What the agent is to be asked, in its own dialect.
            named: What it names, where that is known.

        Raises:
            TaskNotFound: it names a task that is not the caller's.
            TasksLimited: it would make one more than the tenant may have open.
            StateUnavailable: nobody knows whose they are.
            BadParams: an id is none.
        """
        return carried(self._enter(call, named))

    def claim(self, task: str, version: Version) -> Soon[str]:
        """What the agent calls a task that is the caller's.

        Args:
            version: The agent's; in 0.1 tasks are named by clients.

        Raises:
            TaskNotFound: it is not the caller's.
        """
        return carried(self._claim(task, version))

    def _claim(self, id: str, version: Version) -> Generator[Any, Any, str]:  # noqa: A002 - the word
        tenure = self._tenure
        if not tenure.keeps:
            return id
        (task,) = yield self._store.tasks(tenure.scope, (id,))
        if task is not None and self.owns(task.owner):
            return id
        if version is Version.V0_1:
            yield from self._get_mark()
            marked = self._mark + id
            (known,) = yield self._store.tasks(tenure.scope, (marked,))
            if known is not None and self.owns(known.owner):
                return marked
        yield from self._adopt(id, task)
        return id

    def home(self, named: Mentions) -> Soon[tuple[str, bool]]:
        """Which replica a call belongs to, and whether that is by a task; empty for none that is known.

        Args:
            named: What it names. Whose that is is asked later; nobody is told of it here.

        Raises:
            StateUnavailable: nobody knows.
        """
        return carried(self._home(named))

    def _home(self, named: Mentions) -> Generator[Any, Any, tuple[str, bool]]:
        homes = self._tenure.homes
        if homes is None or not (named.tasks or named.context):
            return "", False
        mark = yield from self._marked()
        found: tuple[str, bool] = yield from homes.of(named.tasks, named.context, mark)
        return found

    def marked(self) -> Soon[str]:
        """What stands in the agent's ids before those of the caller; empty where nothing does."""
        return carried(self._marked())

    def _marked(self) -> Generator[Any, Any, str]:
        if self._tenure.shared and self._tenure.keeps:
            yield from self._get_mark()
        return self._mark

    def leave(self) -> None:
        """The call is over, however it ended."""
        if self._pending:
            self._pending = False
            pending, tenant = self.ledger.pending, self.owner.tenant
            left = pending.get(tenant, 0) - 1
            if left > 0:
                pending[tenant] = left
            else:
                pending.pop(tenant, None)

    def _enter(self, call: Call, named: Mentions | None) -> Generator[Any, Any, Call]:
        tenure = self._tenure
        if not tenure.keeps:
            return call
        if tenure.shared or call.dialect.version is Version.V0_1:
            yield from self._get_mark()
        named = mentions(call) if named is None else named
        if named.tasks:
            call = yield from self._enter_tasks(call, named)
        if call.operation.sends and not self._task:
            yield from self._admit_new()
        context = named.context
        if context is not None and context != self._context:
            owner: Owner | None = yield self._store.context(tenure.scope, context)
            if tenure.shared if owner is None else not self.owns(owner):
                yield from self._get_mark()
                context = self._mark + context
                call = with_context(call, context)
        self._asked = context or ""
        return call

    def _enter_tasks(self, call: Call, named: Mentions) -> Generator[Any, Any, Call]:
        found: list[Task | None] = yield self._store.tasks(self._tenure.scope, named.tasks)
        about = named.tasks[0] if len(named.tasks) > len(named.references) else None
        for id, task in zip(named.tasks, found, strict=True):  # noqa: A001 - the word
            if task is not None and self.owns(task.owner):
                if id == about:
                    self._know(id, task)
            elif id == about and call.dialect.version is Version.V0_1:
                call = yield from self._named_by_client(call, id, task)
            else:
                yield from self._adopt(id, task)
        return call

    def _named_by_client(self, call: Call, id: str, task: Task | None) -> Generator[Any, Any, Call]:  # noqa: A002 - the word
        """A call about a task that an agent of 0.1 knows, or is to know, by its client's word."""
        marked = self._mark + id
        (known,) = yield self._store.tasks(self._tenure.scope, (marked,))
        if known is not None and self.owns(known.owner):
            self._know(marked, known)
        elif not call.operation.sends:
            yield from self._adopt(id, task)
            return call
        elif task is None and not self._tenure.shared:
            return call
        return with_task(call, marked)

    def _adopt(self, id: str, task: Task | None) -> Generator[Any, Any, None]:  # noqa: A002 - the word
        """Take a task that nobody owns, where that may be."""
        if task is None and self._tenure.adopts:
            met: Met = yield self._store.meet(
                self._tenure.scope, Sighting(self.owner, task=id, dialect=self._label, now=self.ledger.now())
            )
            if met.task is not None and self.owns(met.task):
                return
        self.foreign = task is not None
        raise TaskNotFound("task not found", detail="it is another's" if self.foreign else "nobody has met it here")

    def _admit_new(self) -> Generator[Any, Any, None]:
        most, tenant = self._tenure.most_open, self.owner.tenant
        bound = most.get(tenant, most.get("*")) if most else None
        if bound is None and self._store.local:
            return
        # Also where nothing is bounded: an agent that nobody's answer may leave from is not asked to begin anything.
        opened: int = yield self._store.open_tasks(tenant)
        if bound is None:
            return
        pending = self.ledger.pending
        if opened + pending.get(tenant, 0) >= bound:
            raise TasksLimited(
                "too many tasks are open", detail=f"{opened} of {bound} are open", retry_after=_TRY_AGAIN
            )
        pending[tenant] = pending.get(tenant, 0) + 1
        self._pending = True

    def _get_mark(self) -> Generator[Any, Any, None]:
        if not self._mark:
            tenure = self._tenure
            seal = yield self.ledger.seal()
            self._mark = self.ledger.mark(seal, tenure.scope, self.owner, by_principal=tenure.by_principal)
            self._mark_bytes = self._mark.encode("ascii")

    def owns(self, owner: Owner) -> bool:
        """Whether what is an owner's is the caller's."""
        return self._tenure.owned(owner, self.owner)

    def _know(self, id: str, task: Task) -> None:  # noqa: A002 - the word
        self._task, self._state, self._context = id, task.state, task.context

    # ---- Back ------------------------------------------------------------------------------------------------------

    def meet(self, told: Progress) -> Awaitable[None] | None:
        """Write down what an agent's frame names, before it leaves; None where that is done.

        Args:
            told: As the agent wrote it.

        Raises:
            UpstreamProtocol: it names what is another's; also from what is awaited.
            StateUnavailable: it cannot be written down.
        """
        if not self._tenure.keeps and not self.replica:
            return None
        task, context, state = told.task_id or "", told.context_id or "", told.state or ""
        if task == self._task and context in ("", self._context) and state in ("", self._state):
            return None
        if not task and not context:
            return None
        return cast("Awaitable[None] | None", carried(self._meet(task, context, state)))

    def _meet(self, task: str, context: str, state: str) -> Generator[Any, Any, None]:
        if len(task) > LONGEST_ID:
            raise UpstreamProtocol("the agent's task has an id that is too long", detail=f"{len(task)} characters")
        if self._tenure.keeps:
            yield from self._meet_owned(task, context, state)
        if self._tenure.homes is not None and self.replica:
            yield from self._tenure.homes.met(self.owner.tenant, task, context, self.replica)
        if task:
            # From here on the store counts it.
            self._task, self._state = task, state or self._state
            self.leave()
        if context:
            self._context = context

    def _meet_owned(self, task: str, context: str, state: str) -> Generator[Any, Any, None]:
        sighting = Sighting(
            self.owner,
            task=task,
            context=context,
            state=state,
            replica=self.replica,
            dialect=self._label,
            now=self.ledger.now(),
        )
        met: Met = yield self._store.meet(self._tenure.scope, sighting)
        if met.task is not None and not self.owns(met.task):
            self._refuse("task")
        ours = bool(self._mark) and context.startswith(self._mark)
        if met.context is not None and not ours and not self.owns(met.context):
            self._refuse("context")

    def _refuse(self, what: str) -> None:
        self.foreign = True
        raise UpstreamProtocol("the agent's answer is not this caller's", detail=f"it names another's {what}")

    @property
    def marks(self) -> bool:
        """Whether frames of the agent may hold the caller's mark."""
        return bool(self._mark)

    def unmarked(self, data: bytes) -> bytes:
        """JSON of the agent's, as the client may see it."""
        mark = self._mark_bytes
        return data.replace(mark, b"") if mark and mark in data else data

    def unmarker(self) -> "Unmarker | None":
        """As `unmarked`, for what comes in pieces; None where there is no mark."""
        return Unmarker(self._mark_bytes) if self._mark else None

    def unmarked_message(self, call: Call, message: bytes, *, event: bool) -> bytes:
        """As `unmarked`, of a message of gRPC.

        Args:
            call: What the agent was asked.
            event: Whether it is one of a stream.
        """
        mark = self._mark_bytes
        if not mark or mark not in message:
            return message
        dialect = call.dialect
        return without(message, mark, dialect.binding, version=dialect.version, operation=call.operation, event=event)

    def unmarked_tree(self, tree: Tree) -> Tree:
        """A tree of the hub's, as the client may see it; it may be changed."""
        return cast("Tree", self._unmarked_value(tree)) if self._mark else tree

    def _unmarked_value(self, value: object) -> object:
        if isinstance(value, str):
            return value.replace(self._mark, "")
        if isinstance(value, dict):
            return {key: self._unmarked_value(inside) for key, inside in value.items()}
        if isinstance(value, list):
            return [self._unmarked_value(inside) for inside in value]
        return value

    def shown(self, told: Progress) -> Progress:
        """What a frame tells, as the client may see it."""
        mark = self._mark
        if not mark:
            return told
        task, context = told.task_id or "", told.context_id or ""
        if not task.startswith(mark) and not context.startswith(mark):
            return told
        task, context = task.removeprefix(mark), context.removeprefix(mark)
        return replace(told, task_id=task or None, context_id=context or None)

    # ---- Lists -----------------------------------------------------------------------------------------------------

    def own(self, ids: list[str]) -> Soon[list[bool]]:
        """Which of some tasks are the caller's."""
        return carried(self._own(ids))

    def _own(self, ids: list[str]) -> Generator[Any, Any, list[bool]]:
        found: list[Task | None] = yield self._store.tasks(self._tenure.scope, ids)
        return [task is not None and self.owns(task.owner) for task in found]

    def count(self) -> Soon[int]:
        """How many tasks of the caller are known; of the one context that the call names, if it does."""
        tenure, owner = self._tenure, self.owner
        whose = owner if tenure.by_principal else Owner(owner.tenant)
        return self._store.count(tenure.scope, whose, self._asked)

    @property
    def scope(self) -> str:
        """The key of the backend."""
        return self._tenure.scope

    @property
    def by_principal(self) -> bool:
        """Whether callers of one tenant are told apart."""
        return self._tenure.by_principal

    @property
    def bound(self) -> tuple[str, ...]:
        """Whose something is that is sealed for the caller."""
        owner, tenure = self.owner, self._tenure
        return tenure.scope, owner.tenant, owner.principal if tenure.by_principal else ""


class Unmarker:
    """Takes a mark out of bytes that come in pieces, wherever they are cut."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be told now."""
        data = (self._rest + piece).replace(self._mark, b"")
        mark = self._mark
        held = next((size for size in range(min(len(mark) - 1, len(data)), 0, -1) if data.endswith(mark[:size])), 0)
        self._rest = data[len(data) - held :] if held else b""
        return data[: len(data) - held] if held else data

    def close(self) -> bytes:
        """What was held back, as no more comes."""
        rest, self._rest = self._rest, b""
        return rest
