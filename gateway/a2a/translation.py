"""One call between two dialects: the request there, the answer back, a stream event by event.

Hub and spoke (`versions/version.py`): the client's form lifts its request to 1.0, the agent's form lowers it, and the
other way round for the answer. Where both speak one version, and only the envelope differs, the bytes of an answer move
from one envelope into the other.

The agent gets an id of the gateway's own in its JSON-RPC request; the client gets its own id back, byte for byte.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from gateway.a2a import agent_error, push_config
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import binding, jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import (
    INVALID_TASK_STATE_0_1,
    STREAMING_NOT_SUPPORTED_0_1,
    UNSUPPORTED_OPERATION,
    BadParams,
    BadRequest,
    TaskNotFound,
    UpstreamProtocol,
    UpstreamReset,
)
from gateway.a2a.framing.sse import encode
from gateway.a2a.json import Tree
from gateway.a2a.naming import Alias, Naming
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import NO_PARAMS
from gateway.a2a.push_config import forget_tenants
from gateway.a2a.versions import v0_1, v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.version import RESTING, TERMINAL, Form, Memo, Misfit

_T = TypeVar("_T")
_G = TypeVar("_G")

FORMS: Mapping[Dialect, Form] = {
    Dialect(Binding.JSONRPC, Version.V0_1): v0_1.FORM,
    Dialect(Binding.JSONRPC, Version.V0_3): v0_3.FORM,
    Dialect(Binding.REST, Version.V0_3): v0_3_proto.FORM,
    Dialect(Binding.JSONRPC, Version.V1_0): v1_0.FORM,
    Dialect(Binding.REST, Version.V1_0): v1_0.FORM,
    # Protobuf has the objects that ProtoJSON writes.
    Dialect(Binding.GRPC, Version.V0_3): v0_3_proto.FORM,
    Dialect(Binding.GRPC, Version.V1_0): v1_0.FORM,
}
"""The form of each dialect that can be translated."""

JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)


def can_ask(operation: Operation, theirs: Dialect) -> bool:
    """Return whether an agent of a dialect can be asked for an operation, or for another with the same answer."""
    return _agent_operation(operation, theirs) is not None


def is_spoken(dialect: Dialect) -> bool:
    """Return whether a dialect can be translated."""
    return dialect in FORMS


class Translation:
    """One call of a client, translated to its agent's dialect and back.

    Args:
        call: The client's call, in its dialect.
        theirs: The agent's dialect; `can_ask` holds.
        tenant: The A2A tenant for the agent, or None.
        id: The id of the agent's request, without characters that JSON escapes.
        message_id: An id for a message that has none, as those of 0.1.
        new_id: An id for a task that an agent of 0.1 wants its client to name.
        alias: The known names of the task that a client of 0.1 names.
        record: Called with the client's and the agent's name of a task, where they differ and once both are known.
        push: Replaces the push configuration of the call, in the hub's words.

    Attributes:
        call: The agent's call.
        stream_error: The error that ended the agent's stream, if one did.

    Raises:
        BadParams: the parameters break the rules of the client's version.
    """

    __slots__ = (
        "_begun", "_client", "_codec", "_config_id", "_held", "_memo", "_naming", "_operation", "_ours", "_plain",
        "_push", "_tenant", "_their_codec", "_theirs", "call", "client", "stream_error",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        theirs: Dialect,
        *,
        tenant: str | None = None,
        id: str = "1",  # noqa: A002 - JSON-RPC's word
        message_id: str = "",
        new_id: str = "",
        alias: Alias | None = None,
        record: Callable[[str, Alias], None] | None = None,
        push: Tree | None = None,
    ) -> None:
        self._push = push
        self.client = call.dialect
        # Not with its body: a stream may last for hours.
        self._client = replace(call, body=b"", params=NO_PARAMS)
        self._codec, self._their_codec = binding.of(call.dialect), binding.of(theirs)
        self._ours = FORMS[call.dialect]
        self._theirs = FORMS[theirs]
        self._operation = call.operation
        self._tenant = call.tenant
        self._memo = Memo(message_id=message_id, new_id=new_id)
        newer = theirs.version is Version.V0_1
        # Where either the client or the agent is of 0.1, a task has two names; where both are, it has one.
        self._naming: Naming | None = None
        older = call.dialect.version is Version.V0_1
        # Later calls about the task may not show their version by themselves.
        mixed = call.is_mixed and call.operation.sends
        if mixed or (older != newer and (older or call.dialect == JSONRPC_0_3)):
            self._naming = Naming(alias, record, newer=newer or mixed, mixed=mixed)
        self.stream_error: AgentError | None = None
        # Streams of 0.1 cannot hold a Task; agents of 1.0 send it themselves.
        self._begun = call.dialect.version is Version.V0_1 or theirs.version is Version.V1_0
        self._held = _HeldEvent(call.dialect.version)
        # Push configurations hold tenants, a deletion has no answer, and a list has members that some leave out.
        listed = call.operation is Operation.LIST_TASKS
        read_all = call.operation.kind is Kind.PUSH or listed or mixed or call.params.inner or push is not None
        same = self._ours is self._theirs and Binding.GRPC not in (call.dialect.binding, theirs.binding)
        self._plain = same and not read_all
        # The client's name of a push configuration: an agent of 0.1 has one for each task, without a name.
        self._config_id: str | None = None
        self.call = self._request(call, theirs, tenant, id)

    # ---- There -----------------------------------------------------------------------------------------------------

    def _request(self, call: Call, theirs: Dialect, tenant: str | None, id: str) -> Call:  # noqa: A002 - as above
        operation = call.operation
        agent_operation = _agent_operation(operation, theirs)
        if agent_operation is None:
            raise ValueError(f"{operation} cannot be asked over {theirs}")
        params: Tree = {}
        if operation is not Operation.GET_EXTENDED_CARD:
            params = self._codec.read_params(call)
            try:
                params = self._ours.lift_params(operation, params, self._memo)
                agent_operation = self._learn_params(params, agent_operation)
                if self._push is not None:
                    push_config.replace_in_call(operation, params, self._push)
                    if not operation.sends:
                        self._memo.task_id = params.get("taskId") or self._memo.task_id
            except Misfit as misfit:
                raise BadParams(str(misfit), field=misfit.field) from misfit
            params = self._theirs.lower_params(agent_operation, params, self._memo)
        # A send continues in the agent's own context of its task, even if the client names another one.
        context = self._memo.context_id if self._operation.sends else call.context_id
        return self._their_codec.make_call(
            call, agent_operation, theirs, params, tenant=tenant, id=id, context_id=context
        )

    def _learn_params(self, params: Tree, agent_operation: Operation) -> Operation:
        """Remember the ids for the answer, replace the client's by the agent's, and return the operation to ask for."""
        memo, operation = self._memo, self._operation
        history = params.get("historyLength")
        naming = self._naming
        if operation.sends:
            message = params["message"]
            history = (params.get("configuration") or {}).get("historyLength")
            if naming is not None:
                naming.for_send(message)
            memo.task_id = message.get("taskId") or (None if naming is None else naming.name)
            memo.context_id = message.get("contextId")
        elif operation is not Operation.LIST_TASKS:
            member = "taskId" if operation.kind is Kind.PUSH else "id"
            memo.task_id = params.get(member)
            if naming is not None:
                memo.context_id = naming.context_id
                naming.for_task(params, member)
        if self._ours.version is Version.V0_1:
            # A client of 0.1 gets history only where it asks for it.
            history = history or 0
        if isinstance(history, int) and history >= 0 and self._ours is not self._theirs:
            memo.history = history
        if operation in _ONE_CONFIG:
            self._config_id = params.get("id")
        unnamed = operation is Operation.GET_PUSH_CONFIG and self._config_id is None
        if unnamed and self._theirs is v0_3_proto.FORM:
            # Its servers give an unnamed configuration the id of its task; those of Python cannot list configurations.
            params["id"] = params.get("taskId")
        elif unnamed and Operation.LIST_PUSH_CONFIGS in self._theirs.answers:
            # 0.3 may name the task alone, and means its one configuration (protocol §8.2).
            return Operation.LIST_PUSH_CONFIGS
        return agent_operation

    # ---- Back ------------------------------------------------------------------------------------------------------

    def answer(self, frame: bytes) -> bytes:
        """Return a good answer for the client.

        Args:
            frame: The agent's bytes, known to be whole JSON and an answer to the request.

        Raises:
            UpstreamProtocol: its result breaks the rules of the agent's version.
            TaskNotFound: a client asked for the push configuration of a task that has none.
        """
        return _translated(self._plainly if self._plain else self._answer, frame)

    def wrapped(self, result: Any) -> bytes:  # noqa: ANN401 - any JSON
        """Return a result in the client's envelope."""
        return self._codec.answer(self._client, result)

    def _plainly(self, frame: bytes) -> bytes:
        return self.wrapped(binding.object_of(self._their_codec.raw_result(self.call, frame)))

    def result(self, frame: bytes) -> Tree:
        """Return a good answer in the hub's words, for `write_result`.

        Raises:
            UpstreamProtocol, TaskNotFound: as `answer`.
        """
        return _translated(self._result, frame)

    def write_result(self, result: Tree) -> bytes:
        """Return the return value of `result`, possibly changed meanwhile, for the client."""
        return _translated(self._write_result, result)

    def _answer(self, frame: bytes) -> bytes:
        return self._write_result(self._result(frame))

    def _result(self, frame: bytes) -> Tree:
        agent_operation, operation = self.call.operation, self._operation
        if operation is Operation.DELETE_PUSH_CONFIG:
            return {}
        answer = self._their_codec.read_result(self.call, frame)
        result: Tree = self._theirs.lift_result(agent_operation, answer, self._memo)
        return self._instead(result) if agent_operation is not operation else result

    def _write_result(self, result: Tree) -> bytes:
        operation, memo = self._operation, self._memo
        if operation is Operation.DELETE_PUSH_CONFIG:
            return self.wrapped(self._ours.lower_result(operation, {}, memo))
        if operation.kind is Kind.PUSH:
            self._restore_tenants(result)
            self._localise({"config": result})
        elif operation.sends:
            # Other members are not an answer of either kind.
            kind = "task" if "task" in result else "message"
            result = {kind: result[kind]}
            self._localise(result)
        elif operation is Operation.LIST_TASKS:
            for task in result.get("tasks") or ():
                self._localise({"task": task})
        else:
            self._localise({"task": result})
        return self.wrapped(self._ours.lower_result(operation, result, memo))

    def _instead(self, result: Tree) -> Tree:
        """Return the answer to the client's operation, made from the answer to the agent's operation.

        Raises:
            TaskNotFound: there is none.
        """
        if self._operation is Operation.LIST_PUSH_CONFIGS:
            return {"configs": [result] if result.get("url") else []}
        configs: list[Tree] = result.get("configs") or []
        if not configs:
            raise TaskNotFound("the task has no push configuration")
        return configs[0]

    def _restore_tenants(self, result: Tree) -> None:
        """Replace the tenant that configurations echo (protocol §2.1) by the client's own."""
        forget_tenants(result)
        listed = self._operation is Operation.LIST_PUSH_CONFIGS
        configs = (result.get("configs") or ()) if listed else (result,)
        for config in configs:
            if self._tenant is not None and self._ours.version is Version.V1_0:
                config["tenant"] = self._tenant
            if self._config_id is not None and self._theirs.version is Version.V0_1:
                config["id"] = self._config_id

    def _localise(self, answer: Tree) -> None:
        """Trim the history to the requested length, and restore the client's name of the task.

        Args:
            answer: A task, message or event in the hub's wrapper.
        """
        memo, task = self._memo, answer.get("task")
        if memo.history is not None and task is not None:
            history = task.get("history")
            if isinstance(history, list) and len(history) > memo.history:
                # 0 is no history in 1.0 and all of it to older agents (protocol §8.2).
                task["history"] = history[-memo.history :] if memo.history else []
        if self._naming is not None:
            self._naming.localise(answer)
            memo.task_id = self._naming.name or memo.task_id

    # ---- Errors ----------------------------------------------------------------------------------------------------

    def read_error(self, status: int, frame: bytes) -> AgentError | None:
        """Return the error in an agent's answer, or None where it is no error that A2A knows."""
        return self._their_codec.read_error(self.call, status, frame)

    def error(self, error: AgentError) -> tuple[int, bytes]:
        """Return the status and the body of an agent's error for the client."""
        if self.client.binding is Binding.JSONRPC:
            oldest = self.client.version is Version.V0_1
            if oldest and error.code == UNSUPPORTED_OPERATION.code and self._operation.sends and not error.challenges:
                # 0.1 has its own errors for unsupported sends (protocol §4.1).
                known = self._naming is not None and self._naming.known
                code = INVALID_TASK_STATE_0_1 if known else STREAMING_NOT_SUPPORTED_0_1
                if known or self._operation.streams:
                    return 200, jsonrpc.write_error(self._client.id, code, error.message)
            return 200, agent_error.write_jsonrpc(error, id=self._client.id, version=self.client.version)
        return agent_error.write_rest(error, version=self.client.version)

    # ---- Streams ---------------------------------------------------------------------------------------------------

    def event(self, data: bytes) -> bytes:
        """Return the client's events for one event of the agent's stream: none, one or several.

        A stream about a task begins with the Task for clients of 0.3 and 1.0 (1.0 §3.1.2, §3.1.6), also where an agent
        of an older generation begins with an update.

        Versions before 1.0 mark the last event. An event that may be the last, because it ends the task or waits for
        the client, is held back until another comes or the stream ends.

        Raises:
            UpstreamProtocol: the event breaks the rules of the agent's version.
            UpstreamReset: it is an error, and the client's dialect has no event for that.
        """
        theirs = self.call.dialect
        error = None
        if theirs.binding is not Binding.GRPC:
            error = agent_error.read_event(data, theirs.binding, theirs.version)
        if error is not None:
            return self.fail(error)
        if self._plain:
            return self._codec.event(self._client, binding.object_of(self._their_codec.raw_result(self.call, data)))
        event = _translated(self._lift_event, data)
        before = self.held(last=False)
        if not self._begun:
            self._begun = True
            *task, event = _opening(event)
            before += b"".join([self._lowered(each, last=False) for each in task])
        return before if self._held.hold(event) else before + self._lowered(event, last=False)

    def fail(self, error: AgentError) -> bytes:
        """Return the last bytes of a stream that the agent ends with an error; over gRPC the error is in the trailers.

        Raises:
            UpstreamReset: the client's dialect has no event for it.
        """
        self.stream_error = error
        word = self._last_word(error)
        return self.held(last=False) + word

    @property
    def tells_failures(self) -> bool:
        """Return whether a stream of the client's can hold an error; HTTP+JSON of 0.3 has no event for it."""
        return self.client.binding is not Binding.REST or self.client.version is Version.V1_0

    @property
    def holds(self) -> bool:
        """Return whether an event is held back."""
        return self._held.holds

    def held(self, *, last: bool) -> bytes:
        """Return the event that was held back, if there is one.

        Args:
            last: Whether the stream has come to its end.
        """
        # A stream that ended with an error has no last event.
        last = last and self.stream_error is None
        event = self._held.take(last=last)
        return b"" if event is None else self._lowered(event, last=last)

    def release(self) -> bytes:
        """Return the event that was held back, when neither another event nor the end has come for a while."""
        return self.held(last=self._held.is_over)

    def _lift_event(self, data: bytes) -> Tree:
        result = self._their_codec.read_result(self.call, data, event=True)
        if result is None:
            raise Misfit("", "an event without a result")
        event = self._theirs.lift_event(result, self._memo)
        kind = next((kind for kind in _EVENTS if kind in event), None)
        if kind is None:
            raise Misfit("", "an event that tells nothing")
        event = {kind: event[kind]}
        self._localise(event)
        return event

    def _lowered(self, event: Tree, *, last: bool) -> bytes:
        try:
            lowered = self._ours.lower_event(event, self._memo, last=last)
            return b"".join([self._codec.event(self._client, each) for each in lowered])
        except RecursionError as error:
            raise UpstreamProtocol("the agent's event is nested too deeply") from error

    def _last_word(self, error: AgentError) -> bytes:
        if self.client.binding is Binding.GRPC:
            return b""
        if not self.tells_failures:
            # The stream breaks, so that loss never looks like success.
            raise UpstreamReset("the agent ended its stream with an error", detail=error.message[:200])
        return encode(self.error(error)[1], "error" if self.client.version is Version.V1_0 else None)


def _translated(work: Callable[[_G], _T], frame: _G) -> _T:
    """Translate a frame, or its content, with an agent's mistakes as `UpstreamProtocol`.

    Raises:
        UpstreamProtocol: it breaks the rules of the agent's version.
    """
    try:
        return work(frame)
    except Misfit as misfit:
        words = "the agent's answer is not what its version of A2A says"
        raise UpstreamProtocol(words, detail=str(misfit)[:200]) from misfit
    except (BadRequest, RecursionError) as error:
        raise UpstreamProtocol("the agent's answer is no JSON that can be translated") from error


_EVENTS = ("task", "message", "statusUpdate", "artifactUpdate")
_ONE_CONFIG = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG})


def _agent_operation(operation: Operation, theirs: Dialect) -> Operation | None:
    form = FORMS.get(theirs)
    if form is None:
        return None
    if operation in form.answers:
        return operation
    if operation is Operation.LIST_PUSH_CONFIGS and Operation.GET_PUSH_CONFIG in form.answers:
        # 0.1 has one configuration for each task.
        return Operation.GET_PUSH_CONFIG
    return None


# ---- The first and the last event of a stream ------------------------------------------------------------------------


class _HeldEvent:
    """The event of one stream that is held back, in the hub's form, as it may be the last.

    1.0 just closes a stream. Before, the last event says `final: true` (0.3 §7.2.2), and some clients treat a stream
    that closes without it as broken. So an event that may be the last, because the task ends or waits for its client,
    is held back until another one comes or the stream ends.

    Args:
        version: The client's generation.
    """

    __slots__ = ("_held", "_rested", "_version")

    def __init__(self, version: Version) -> None:
        self._version = version
        self._held: Tree | None = None
        # A status that was sent as not final, and may yet have been the last.
        self._rested: Tree | None = None

    @property
    def holds(self) -> bool:
        """Return whether an event is held back."""
        return self._held is not None

    def hold(self, event: Tree) -> bool:
        """Hold an event back if it may be the last, and return whether it is; the one before has been taken."""
        if self._version is Version.V1_0:
            return False
        if self._may_end(event):
            self._held = event
            return True
        if "statusUpdate" in event:
            self._rested = None
        return False

    def take(self, *, last: bool) -> Tree | None:
        """Return the event that was held back, or None.

        Args:
            last: Whether the stream has ended. A final or waiting status that was sent as not final is repeated then.
        """
        event, self._held = self._held, None
        if last:
            event, self._rested = event or self._rested, None
        elif event is not None:
            self._rested = _status_alone(event)
        return event

    @property
    def is_over(self) -> bool:
        """Return whether nothing can follow the event that is held back."""
        return self._held is not None and _state(self._held) in TERMINAL

    def _may_end(self, event: Tree) -> bool:
        oldest = self._version is Version.V0_1
        if "message" in event:
            return oldest
        return ("statusUpdate" in event or (oldest and "task" in event)) and _state(event) in RESTING


def _state(event: Tree) -> str | None:
    body = event.get("statusUpdate") or event.get("task") or {}
    state: str | None = (body.get("status") or {}).get("state")
    return state


def _status_alone(event: Tree) -> Tree | None:
    """Return the status of an event without its message, to repeat it; None where it has none."""
    body = event.get("statusUpdate") or event.get("task")
    if not body:
        return None
    status = {name: value for name, value in body["status"].items() if name != "message"}
    ids = {"taskId": body.get("taskId") or body.get("id"), "contextId": body.get("contextId")}
    return {"statusUpdate": {**ids, "status": status}}


def _opening(event: Tree) -> tuple[Tree, ...]:
    """Return the first events of a stream whose agent begins it with this one.

    A Task or a Message begins a stream (1.0 §3.1.2). An update is preceded by its Task, with id, context and state; an
    update that says no more than that is replaced by it.
    """
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    if update is None:
        return (event,)
    # A task that writes an artifact is working.
    status = update.get("status") or {"state": "TASK_STATE_WORKING"}
    # Without its message: clients move that into the history when the update repeats the status.
    known = {name: status[name] for name in ("state", "timestamp") if name in status}
    ids = {"id": update.get("taskId"), "contextId": update.get("contextId")}
    task = {"task": {**{name: value for name, value in ids.items() if value is not None}, "status": known}}
    is_bare = status.keys() == known.keys() and not any(update[name] for name in update.keys() - _BARE_UPDATE)
    # A final or waiting state is also told by an update, even where the Task has it.
    return (task,) if is_bare and status.get("state") not in RESTING else (task, event)


_BARE_UPDATE = frozenset({"taskId", "contextId", "status"})
