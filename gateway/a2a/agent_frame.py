"""Read one frame of an agent's reply over any binding, and refuse a frame that is not an A2A answer."""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from gateway.a2a import progress, push_config
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.binding import grpc_binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import BadRequest, UpstreamProtocol
from gateway.a2a.headers import is_json
from gateway.a2a.json import UNREADABLE, refuse_crowd
from gateway.a2a.nested_ids import Ambiguous, nested_in_body
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import Progress

_TWO_WAYS = "the agent's answer can be read in two ways"


def read_answer(call: Call, frame: bytes, content_type: bytes | None) -> Progress:
    """Return the progress that an answer reports; it may be an error in an envelope.

    Args:
        call: The call as the agent got it.
        content_type: As the agent wrote it.

    Raises:
        UpstreamProtocol: it is not an answer to the call.
    """
    binding = call.dialect.binding
    if binding is Binding.GRPC:
        answer: Progress | None = grpc_binding().read_progress(call.operation, call.dialect.version, frame)
        if answer is None:
            raise UpstreamProtocol("the agent's answer is no message of its method")
        return answer
    if frame and content_type is not None and content_type != b"application/json" and not is_json(content_type):
        raise UpstreamProtocol("the agent's answer is no JSON", detail=f"content-type {content_type[:64]!r}")
    refuse_crowd(frame)
    if binding is Binding.JSONRPC:
        answer = jsonrpc.read_progress(frame, void=call.operation is Operation.DELETE_PUSH_CONFIG)
        if answer is None:
            raise UpstreamProtocol("the agent's answer is no JSON-RPC answer")
        return answer
    answer = progress.read_bare(frame)
    if answer is not None:
        return answer
    if frame:
        _refuse_garbage(frame)
    return progress.read_list(frame) or progress.NOTHING


def read_error(call: Call, frame: bytes, content_type: bytes | None) -> Progress | None:
    """Return the progress in the body of an HTTP error status; None if it is no answer of A2A, like an error page.

    Raises:
        UpstreamProtocol: it has a duplicate member where ids are looked for.
    """
    refuse_crowd(frame)
    if not is_json(content_type):
        return None
    if call.dialect.binding is Binding.JSONRPC:
        answer = jsonrpc.read_progress(frame)
        return None if answer is None or answer.error is None else answer
    answer = progress.read_bare(frame)
    if answer is None:
        return None
    try:
        return replace(answer, others=nested_in_body(frame) or answer.others)
    except Ambiguous as error:
        raise UpstreamProtocol(_TWO_WAYS, detail="a member stands twice") from error


def event_reader(call: Call) -> Callable[[bytes], Progress | None]:
    """Return a reader of the events of one stream; it returns None for data that is not an answer."""
    if call.dialect.binding is Binding.JSONRPC:
        return progress.EventReader(jsonrpc.read_progress, lambda data: bytes(jsonrpc.raw_result(call, data) or b""))
    if call.dialect.binding is Binding.REST:
        return progress.EventReader(progress.read_bare)
    return partial(grpc_binding().read_progress, call.operation, call.dialect.version)


def with_tenant(call: Call, frame: bytes) -> bytes:
    """Return an answer whose push configurations have the tenant of the call, or none (protocol §2.1).

    Raises:
        UpstreamProtocol: it can be read in two ways, so that the agent's tenant might slip through.
    """
    if call.dialect.binding is Binding.GRPC:
        restored: bytes = grpc_binding().restore_tenant(call.operation, call.dialect.version, frame, call.tenant)
        return restored
    try:
        return push_config.restore_tenant(frame, call.dialect.binding, call.tenant)
    except BadRequest as error:
        raise UpstreamProtocol(_TWO_WAYS, detail=error.message) from error


def echoes_tenant(operation: Operation) -> bool:
    """Return whether the answer repeats the tenant that the agent was told."""
    return operation.kind is Kind.PUSH and operation is not Operation.DELETE_PUSH_CONFIG


def _refuse_garbage(frame: bytes) -> None:
    try:
        str(frame, "utf-8")
        _any.decode(frame)
    except UNREADABLE as error:
        raise UpstreamProtocol("the agent's answer is no JSON") from error
    if frame.lstrip()[:1] == b"{":
        # An object that `read_bare` refused; a text or a number names no task.
        raise UpstreamProtocol(_TWO_WAYS, detail="a member stands twice")


_any = msgspec.json.Decoder(msgspec.Raw)
