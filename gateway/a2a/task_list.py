"""ListTasks at an agent that several owners share: the agent's pages are read, the caller's own page is written.

It is translated through the hub (`translation.py`) even if both sides speak one dialect: the answer is built from parts
of several answers, and the other parts must not reach the caller, such as the agent's total count of tasks.

A malformed task must not hide the tasks of other owners. So each task of a page is read by itself, and a malformed one
is only reported by its id; the calling code knows its owner and decides whether the list fails.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, BadRequest, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.params import NO_PARAMS
from gateway.a2a.translation import FORMS, can_ask
from gateway.a2a.versions import v1_0
from gateway.a2a.versions.version import Memo, Misfit

PAGE = 50
"""Tasks of a page if the client names no size (1.0 §3.1.4)."""
LONGEST_PAGE = 100
"""Most tasks of a page that can be asked for (1.0 §3.1.4)."""


class Page(msgspec.Struct, frozen=True):
    """One page of the agent's.

    Attributes:
        tasks: In the hub's form, in the agent's order.
        next_token: The token of the next page; empty for none.
        broken: The id of each malformed task, and the reason, for the log.
    """

    tasks: list[Tree]
    next_token: str
    broken: dict[str, str]


class TaskListing:
    """One client's ListTasks: its parameters, the calls to the agent, and the answer.

    Args:
        call: The client's call.
        theirs: The agent's dialect; `can_list` holds.
        tenant: The A2A tenant for the agent, or None.
        id: The JSON-RPC id for the agent, without characters that JSON escapes.

    Attributes:
        page_token: The client's; empty for the first page.
        page_size: Most tasks of the client's page, from 1 to `LONGEST_PAGE`.
        context: The context to which the list is limited; empty for any.
        is_filtered: Whether the list is limited to a state or to tasks after a moment.
        filters: The identity of this list, the same for all its pages: the agent's tenant, the context, the state and
            the moment, each empty where there is none.

    Raises:
        BadParams: the parameters break the rules of the client's version, or the page size is out of bounds.
    """

    __slots__ = (
        "_client", "_history", "_id", "_ours", "_params", "_tenant", "_theirs", "context", "filters", "is_filtered",
        "page_size", "page_token",
    )  # fmt: skip

    def __init__(self, call: Call, theirs: Dialect, *, tenant: str | None = None, id: str = "1") -> None:  # noqa: A002 - JSON-RPC's word
        if not can_list(call.dialect, theirs):
            raise ValueError(f"tasks cannot be listed over {theirs}")
        self._client = replace(call, body=b"", params=NO_PARAMS)
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

    # ---- Request -----------------------------------------------------------------------------------------------------

    def ask(self, page_token: str, page_size: int) -> Call:
        """Return the call to the agent for one page.

        Args:
            page_token: The agent's own; empty for the first page.

        Raises:
            BadParams: the agent's dialect cannot express the client's parameters.
            UpstreamProtocol: it cannot express the agent's page token.
        """
        params = {**self._params, "pageSize": page_size}
        if page_token:
            params["pageToken"] = page_token
        lowered = FORMS[self._theirs].lower_params(Operation.LIST_TASKS, params, Memo())
        try:
            return binding.of(self._theirs).make_call(
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

    # ---- Answer ------------------------------------------------------------------------------------------------------

    def read(self, frame: bytes) -> Page:
        """Return the page in a good answer of the agent's.

        Args:
            frame: A whole answer to the request.

        Raises:
            UpstreamProtocol: it is not a page, or a task of it has no id.
        """
        try:
            over_grpc = self._theirs.binding is Binding.GRPC
            token, readers = binding.grpc_binding().split_page(frame) if over_grpc else self._split_json(frame)
        except Misfit as misfit:
            raise _unread(str(misfit)) from misfit
        except (BadRequest, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _unread("no page of tasks") from error
        tasks: list[Tree] = []
        broken: dict[str, str] = {}
        for task_id, read in readers:
            try:
                tasks.append(self._lifted(read()))
            except (Misfit, BadRequest, RecursionError) as error:
                broken[task_id] = str(error)[:200]
        return Page(tasks, token, broken)

    def answer(self, tasks: list[Tree], next_token: str, total: int) -> bytes:
        """Return the client's page, in its envelope.

        Args:
            tasks: In the hub's form; they are consumed.
            next_token: The client's token of the next page; empty for none.
            total: The number of tasks on all pages.

        Raises:
            UpstreamProtocol: the client's dialect cannot express a task.
        """
        result: Tree = {"tasks": tasks, "nextPageToken": next_token, "pageSize": self.page_size, "totalSize": total}
        try:
            return binding.of(self._client.dialect).answer(
                self._client, self._ours.lower_result(Operation.LIST_TASKS, result, Memo())
            )
        except RecursionError as error:
            raise _unread("nested too deeply") from error

    def _split_json(self, frame: bytes) -> "_Split":
        raw = binding.of(self._theirs).raw_result(replace(self._client, dialect=self._theirs), frame)
        page = _page.decode(binding.object_of(raw))
        token, twin = page.next_page_token or "", page.next_page_token_ or ""
        if token and twin and token != twin:
            raise Misfit("next_page_token", "is another name of nextPageToken, which says something else")
        return token or twin, [(_named.decode(task).id, partial(strict_json.read, task)) for task in page.tasks or ()]

    def _lifted(self, task: Any) -> Tree:  # noqa: ANN401 - any JSON
        page = FORMS[self._theirs].lift_result(Operation.LIST_TASKS, {"tasks": [task]}, Memo())
        lifted: Tree = page["tasks"][0]
        history, most = lifted.get("history"), self._history
        if most is not None and history is not None and len(history) > most:
            # 0 is no history in 1.0 and all of it to older agents (protocol §8.2).
            lifted["history"] = history[-most:] if most else []
        return lifted


def can_list(ours: Dialect, theirs: Dialect) -> bool:
    """Return whether a client's call for a list can be asked of an agent in a dialect.

    0.3 has the operation in prose alone, so it is only asked for in the same dialect.
    """
    return can_ask(Operation.LIST_TASKS, theirs) or (ours == theirs and theirs in _IN_PROSE)


def _params(call: Call) -> Tree:
    """Return the client's parameters in the hub's form.

    Unknown members are left out: an agent might take one for a known one, such as another page token.
    """
    params = binding.of(call.dialect).read_params(call)
    try:
        params = FORMS[call.dialect].lift_params(Operation.LIST_TASKS, params, Memo())
        # The hub's own form checks page sizes and names that mean the same; older ones do not.
        params = v1_0.FORM.lift_params(Operation.LIST_TASKS, params, Memo())
    except Misfit as misfit:
        raise BadParams(str(misfit), field=misfit.field) from misfit
    return {name: params[name] for name in _PARAMS if name in params}


_FILTERS = ("status", "statusTimestampAfter")
_PARAMS = ("contextId", *_FILTERS, "pageSize", "pageToken", "historyLength", "includeArtifacts")
_IN_PROSE = frozenset({Dialect(Binding.JSONRPC, Version.V0_3), Dialect(Binding.REST, Version.V0_3)})


# ---- One page, task by task ------------------------------------------------------------------------------------------

_Split: TypeAlias = tuple[str, list[tuple[str, Callable[[], Any]]]]
"""The token of the next page; and each task's id with a function that reads the task."""


class _Page(msgspec.Struct, rename="camel"):
    tasks: list[msgspec.Raw] | None = None
    next_page_token: str | None = None
    # ProtoJSON may write it so.
    next_page_token_: str | None = msgspec.field(default=None, name="next_page_token")


class _Named(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1)]


_page = msgspec.json.Decoder(_Page)
_named = msgspec.json.Decoder(_Named)


def _unread(detail: str) -> UpstreamProtocol:
    words = "the agent's answer is not what its version of A2A says"
    return UpstreamProtocol(words, detail=detail[:200])
