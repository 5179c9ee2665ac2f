"""A list of tasks that several callers share an agent for: the agent's pages read, the caller's own page written.

Hub and spoke, as every translation (`translation.py`), also where both sides speak one dialect: the answer is made of
parts of several of the agent's, and nothing else of those may reach the caller. What the agent counts, for one, is
everybody's.

Whoever stores a task that nobody can read must not hide the tasks of others. So each task of a page is read by itself,
and one that is not what its generation says is only named; whether that matters is for those to say who know whose it
is.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from gateway.a2a import envelope
from gateway.a2a.bindings import body
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, BadRequest, UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.parameter import NOTHING
from gateway.a2a.translation import can_ask
from gateway.a2a.tree import Tree
from gateway.a2a.versions import FORMS, v1_0
from gateway.a2a.versions.version import Memo, Misfit

PAGE = 50
"""Tasks of a page whose size is not said (1.0 §3.1.4)."""
LONGEST_PAGE = 100
"""Most tasks of a page that can be asked for (1.0 §3.1.4)."""


class Page(msgspec.Struct, frozen=True):
    """One of the agent's.

    Attributes:
        tasks: In the hub's words, in the agent's order.
        next_token: Of the page behind it; empty where there is none.
        broken: Tasks that are not what the agent's generation says: the id of each, and what is wrong, for the log.
    """

    tasks: list[Tree]
    next_token: str
    broken: dict[str, str]


class Listing:
    """One call of a client for a list of tasks: what it asks for, how its agent is asked, how it is answered.

    Args:
        call: What the client asks, in its dialect.
        theirs: The agent's dialect; `can_list` holds.
        tenant: What the agent is told as the A2A tenant, or None.
        id: The id under which it is asked, without characters that JSON escapes.

    Attributes:
        page_token: As the client gives it; empty for the first page.
        page_size: Most tasks of the client's page, from 1 to `LONGEST_PAGE`.
        context: The context that its tasks are of; empty for any.
        is_filtered: Whether it asks for tasks in one state, or after one moment.
        filters: What sets this list apart from others, the same for all its pages, and always as many words: the
            tenant that the agent is told, the context, the state and the moment, each empty where there is none.

    Raises:
        BadParams: the parameters are not what the client's generation says, or the size of a page is out of bounds.
    """

    __slots__ = (
        "_client", "_history", "_id", "_ours", "_params", "_tenant", "_theirs", "context", "filters", "is_filtered",
        "page_size", "page_token",
    )  # fmt: skip

    def __init__(self, call: Call, theirs: Dialect, *, tenant: str | None = None, id: str = "1") -> None:  # noqa: A002 - JSON-RPC's word
        if not can_list(call.dialect, theirs):
            raise ValueError(f"tasks cannot be listed over {theirs}")
        self._client = replace(call, body=b"", params=NOTHING)
        self._ours = FORMS[call.dialect]
        self._theirs = theirs
        self._tenant = tenant
        self._id = id
        params = _params(call)
        self.page_token: str = params.pop("pageToken", "")
        self.page_size: int = params.pop("pageSize", PAGE)
        self.context: str = params.get("contextId", "")
        filters: list[str] = [params.get(name, "") for name in _FILTERS]
        self.is_filtered = any(filters)
        self.filters = (tenant or "", self.context, *filters)
        self._history: int | None = params.get("historyLength")
        self._params = params

    # ---- There -----------------------------------------------------------------------------------------------------

    def ask(self, page_token: str, page_size: int) -> Call:
        """What the agent is asked for one page.

        Args:
            page_token: The agent's own; empty for the first page.

        Raises:
            BadParams: the agent's dialect has no place for what the client asks.
            UpstreamProtocol: it has none for the agent's token.
        """
        params = {**self._params, "pageSize": page_size}
        if page_token:
            params["pageToken"] = page_token
        lowered = FORMS[self._theirs].lower_params(Operation.LIST_TASKS, params, Memo())
        try:
            return envelope.write_call(
                self._client,
                Operation.LIST_TASKS,
                self._theirs,
                lowered,
                tenant=self._tenant,
                id=self._id,
                context_id=self._client.context_id,
            )
        except BadParams as fault:
            if fault.field != "pageToken":
                raise
            raise UpstreamProtocol("the agent's page token is none that it can be asked with") from fault

    # ---- Back ------------------------------------------------------------------------------------------------------

    def read(self, frame: bytes) -> Page:
        """The page in a good answer of the agent's.

        Args:
            frame: As the agent wrote it; it is known to be whole, and an answer to the request.

        Raises:
            UpstreamProtocol: it is no page, or a task of it has no id.
        """
        try:
            split = _split_message if self._theirs.binding is Binding.GRPC else self._split_json
            token, found = split(frame)
        except Misfit as misfit:
            raise _unread(str(misfit)) from misfit
        except (BadRequest, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _unread("no page of tasks") from error
        tasks: list[Tree] = []
        broken: dict[str, str] = {}
        for task_id, read in found:
            try:
                tasks.append(self._lifted(read()))
            except (Misfit, BadRequest, RecursionError) as error:
                broken[task_id] = str(error)[:200]
        return Page(tasks, token, broken)

    def answer(self, tasks: list[Tree], next_token: str, total: int) -> bytes:
        """The client's page, in its envelope.

        Args:
            tasks: In the hub's words; they are consumed.
            next_token: The client's, for the page behind it; empty where there is none.
            total: How many tasks there are on all pages.

        Raises:
            UpstreamProtocol: a task has what the client's dialect has no place for.
        """
        result: Tree = {"tasks": tasks, "nextPageToken": next_token, "pageSize": self.page_size, "totalSize": total}
        try:
            return envelope.answer(self._client, self._ours.lower_result(Operation.LIST_TASKS, result, Memo()))
        except RecursionError as error:
            raise _unread("nested too deeply") from error

    def _split_json(self, frame: bytes) -> "_Split":
        raw = envelope.raw_result(replace(self._client, dialect=self._theirs), frame)
        page = _page.decode(body.object_of(raw))
        token, twin = page.next_page_token or "", page.next_page_token_ or ""
        if token and twin and token != twin:
            raise Misfit("next_page_token", "is another name of nextPageToken, which says something else")
        return token or twin, [(_named.decode(task).id, partial(body.read, task)) for task in page.tasks or ()]

    def _lifted(self, task: Any) -> Tree:  # noqa: ANN401 - any JSON
        page = FORMS[self._theirs].lift_result(Operation.LIST_TASKS, {"tasks": [task]}, Memo())
        lifted: Tree = page["tasks"][0]
        history, most = lifted.get("history"), self._history
        if most is not None and history is not None and len(history) > most:
            # 0 is no history in 1.0 and all of it to older agents (protocol §8.2).
            lifted["history"] = history[-most:] if most else []
        return lifted


def can_list(ours: Dialect, theirs: Dialect) -> bool:
    """Whether a client's call for a list can be asked of an agent in a dialect.

    0.3 has the operation in prose alone: who speaks it is asked for by those who speak the same.
    """
    return can_ask(Operation.LIST_TASKS, theirs) or (ours == theirs and theirs in _IN_PROSE)


def _params(call: Call) -> Tree:
    """What a client asks for in the hub's words, of which each agent knows all.

    A member that nobody knows may be the agent's own word for one that is known, such as another page token: it stays
    behind.
    """
    params = envelope.read_params(call, typed=True)
    try:
        params = FORMS[call.dialect].lift_params(Operation.LIST_TASKS, params, Memo())
        # The hub's own form last: older ones leave open what is no page, and which names mean the same.
        params = v1_0.FORM.lift_params(Operation.LIST_TASKS, params, Memo())
    except Misfit as misfit:
        raise BadParams(str(misfit), field=misfit.field) from misfit
    return {name: params[name] for name in _PARAMS if name in params}


_FILTERS = ("status", "statusTimestampAfter")
_PARAMS = ("contextId", *_FILTERS, "pageSize", "pageToken", "historyLength", "includeArtifacts")
_IN_PROSE = frozenset({Dialect(Binding.JSONRPC, Version.V0_3), Dialect(Binding.REST, Version.V0_3)})


# ---- One page, task by task ------------------------------------------------------------------------------------------

_Split: TypeAlias = tuple[str, list[tuple[str, Callable[[], Any]]]]
"""The token of the next page; and of each task its id, and what reads the rest of it."""


class _Page(msgspec.Struct, rename="camel"):
    tasks: list[msgspec.Raw] | None = None
    next_page_token: str | None = None
    # As ProtoJSON may also write it.
    next_page_token_: str | None = msgspec.field(default=None, name="next_page_token")


class _Named(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1)]


_page = msgspec.json.Decoder(_Page)
_named = msgspec.json.Decoder(_Named)


def _split_message(frame: bytes) -> _Split:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # noqa: PLC0415 - as `envelope._grpc`

    from gateway.a2a.bindings import grpc_json, grpc_schema  # noqa: PLC0415 - as above

    try:
        page = grpc_schema.result_class(Operation.LIST_TASKS, Version.V1_0).FromString(frame)
    except DecodeError as error:
        raise Misfit("", "no message of its method") from error
    if not all(task.id for task in page.tasks):
        raise Misfit("tasks", "one of them has no id")
    return page.next_page_token, [(task.id, partial(grpc_json.to_tree, task)) for task in page.tasks]


def _unread(detail: str) -> UpstreamProtocol:
    words = "the agent's answer is not what its version of A2A says"
    return UpstreamProtocol(words, detail=detail[:200])
