"""The JSON-RPC envelope (1.0 §9, 0.3 §3.2.1): calls and answers read and written, faults written."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.a2a import document, parameter
from gateway.a2a.bindings import body as bodies
from gateway.a2a.bounds import BOUNDS, BodyBounds
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.document import Members
from gateway.a2a.fault import INTERNAL_ERROR, BadParams, BadRequest, Fault, MethodNotFound, ParseFailed
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.parameter import Parameters
from gateway.a2a.path import PathCall
from gateway.a2a.query import split_query

METHODS: dict[str, tuple[Operation, Version]] = {
    **{operation.value: (operation, Version.V1_0) for operation in Operation if operation is not Operation.GET_CARD},
    # 1.0.0-rc wrote the singular.
    "ListTaskPushNotificationConfig": (Operation.LIST_PUSH_CONFIGS, Version.V1_0),
    "message/send": (Operation.SEND_MESSAGE, Version.V0_3),
    "message/stream": (Operation.SEND_STREAMING_MESSAGE, Version.V0_3),
    "tasks/get": (Operation.GET_TASK, Version.V0_3),
    "tasks/list": (Operation.LIST_TASKS, Version.V0_3),
    "tasks/cancel": (Operation.CANCEL_TASK, Version.V0_3),
    "tasks/resubscribe": (Operation.SUBSCRIBE_TO_TASK, Version.V0_3),
    "tasks/subscribe": (Operation.SUBSCRIBE_TO_TASK, Version.V0_3),
    "tasks/pushNotificationConfig/set": (Operation.CREATE_PUSH_CONFIG, Version.V0_3),
    "tasks/pushNotificationConfig/get": (Operation.GET_PUSH_CONFIG, Version.V0_3),
    "tasks/pushNotificationConfig/list": (Operation.LIST_PUSH_CONFIGS, Version.V0_3),
    "tasks/pushNotificationConfig/delete": (Operation.DELETE_PUSH_CONFIG, Version.V0_3),
    "agent/getAuthenticatedExtendedCard": (Operation.GET_EXTENDED_CARD, Version.V0_3),
    "agent/authenticatedExtendedCard": (Operation.GET_EXTENDED_CARD, Version.V0_3),
    "tasks/send": (Operation.SEND_MESSAGE, Version.V0_1),
    "tasks/sendSubscribe": (Operation.SEND_STREAMING_MESSAGE, Version.V0_1),
    # Names of 0.1 that servers of 0.2 and 0.3 answer too (fasta2a): see `spellings`.
    "tasks/pushNotification/set": (Operation.CREATE_PUSH_CONFIG, Version.V0_1),
    "tasks/pushNotification/get": (Operation.GET_PUSH_CONFIG, Version.V0_1),
}
"""Every method name of every generation, with the aliases seen in the wild: the operation and who spells it so."""

SHARED_WITH_0_1 = frozenset({"tasks/get", "tasks/cancel", "tasks/resubscribe"})
"""Names that 0.1 and 0.3 both have; the agent's own version tells which is meant."""
SHARED_WITH_0_3 = frozenset({"tasks/pushNotification/set", "tasks/pushNotification/get"})
"""Names of 0.1 that servers of later generations still answer."""

_LONGEST_ID = 512


class Envelope(msgspec.Struct, frozen=True):
    """The outer object: its members, and the id that an answer must bear, byte for byte."""

    body: bytes
    members: Members
    id: bytes


def open_envelope(body: bytes, bounds: BodyBounds = BOUNDS) -> Envelope:
    """The envelope of a request.

    Raises:
        ParseFailed, BadRequest, DuplicateKey: as `document.open_body`.
        BadRequest: the id is missing, or no string, integer or null.
    """
    members = document.open_body(body, bounds)
    raw = members.get("id")
    if raw is None:
        # A2A has no notifications, and a message without an id must not run unseen.
        raise BadRequest("the request has no id")
    identity = bytes(raw)
    if not _is_id(identity):
        raise BadRequest(f"the id must be a string or an integer of at most {_LONGEST_ID} bytes")
    return Envelope(body, members, identity)


def read_call(envelope: Envelope, path: PathCall, query: bytes, hint: Version | None) -> Call:
    """The call that an envelope holds.

    Args:
        hint: What the A2A-Version header or query parameter says, or None.

    Raises:
        BadRequest: `jsonrpc` or `method` is missing or wrong.
        MethodNotFound: no generation has such a method.
        BadParams: parameters of a wrong shape, two places that name different tenants or tasks, or a push configuration
            where none can be.
    """
    outer = members = envelope.members
    if "jsonrpc" not in members or bytes(members["jsonrpc"]) != b'"2.0"':
        raise BadRequest('jsonrpc must be "2.0"')
    method = members.get("method")
    name = None if method is None else _decode_string(method)
    if name is None:
        raise BadRequest("method must be a string")
    known = METHODS.get(name)
    if known is None:
        raise MethodNotFound("no such method")
    operation, version = known
    raw = members.get("params")
    members = {}
    if operation is not Operation.GET_EXTENDED_CARD or not _is_unset(raw):
        if raw is None:
            raise BadParams("params is missing")
        members = document.open_object(raw, "params")
    params = parameter.read(operation, members, outer)
    parameter.refuse_strays(operation, params)
    queried, passed = split_query(query)
    tenant = parameter.agreed("tenant", path.tenant, params.tenant, queried)
    version = _meant(operation, version, hint, params)
    task_id, context_id = ids(operation, version, params)
    return Call(
        operation=operation,
        dialect=Dialect(Binding.JSONRPC, version),
        method=name,
        id=envelope.id,
        tenant=tenant,
        task_id=task_id,
        context_id=context_id,
        body=envelope.body,
        query=passed,
        in_body=bool(params.tenants),
        told=params.says(tenant) and (tenant is None or "tenant" in members),
        params=params,
        path=path,
        versioned=hint is not None,
    )


def ids(operation: Operation, version: Version, params: Parameters) -> tuple[str | None, str | None]:
    """The task and the context that a call is about, by its generation's words.

    Raises:
        BadParams: one is no string, or two spellings of it say two things.
    """
    members = params.members
    if operation.sends:
        if version is Version.V0_1:
            return parameter.text(members, "id"), parameter.text(members, "sessionId")
        return parameter.ids(params.message)
    if operation is Operation.LIST_TASKS:
        return None, parameter.text(members, "contextId", "context_id")
    if operation is Operation.GET_EXTENDED_CARD:
        return None, None
    names_task = operation is Operation.CREATE_PUSH_CONFIG and version is not Version.V0_1
    if names_task or (operation.kind is Kind.PUSH and version is Version.V1_0):
        return parameter.text(members, "taskId", "task_id"), None
    return parameter.text(members, "id"), None


def read_params(call: Call, *, typed: bool = True) -> dict[str, Any]:
    """The parameters of a call, as a form gets them; no tenant is among them.

    Args:
        typed: As `body.given`.

    Raises:
        ParseFailed: a value cannot be read.
    """
    return bodies.given(call.params, typed=typed)


def write_call(
    operation: Operation,
    version: Version,
    params: Mapping[str, Any],
    id: bytes,  # noqa: A002 - JSON-RPC's word
) -> tuple[str, bytes]:
    """The method and the body by which an agent is asked.

    Args:
        params: As the agent's form lowered them; values may be `msgspec.Raw`.
        id: As it stands in the body.

    Raises:
        ValueError: the version has no such operation.
    """
    method = _NAMES.get((operation, version))
    if method is None:
        raise ValueError(f"{version} has no {operation}")
    head = b'{"jsonrpc":"2.0","id":%b,"method":"%b"' % (id, method.encode("ascii"))
    if not params and version is not Version.V1_0:
        # The older generations' only operation without parameters has no such member.
        return method, head + b"}"
    return method, b'%b,"params":%b}' % (head, bodies.write(params))


class Answer(msgspec.Struct, frozen=True):
    """What is in an agent's envelope.

    Attributes:
        id: As its bytes came; empty where there is none.
        result: None where there is none; a null is one.
        error: None where there is none, or null.
    """

    id: bytes
    result: msgspec.Raw | None
    error: msgspec.Raw | None


def open_answer(frame: bytes) -> Answer:
    """An agent's answer or event, held to what `progress.read_jsonrpc` holds one to.

    Raises:
        ParseFailed: it is no JSON in UTF-8.
        BadRequest: it is no JSON-RPC answer, or one that clients could read in two ways.
    """
    try:
        if not document.is_utf8(frame):
            raise ParseFailed("the answer is not UTF-8")
        members = _members.decode(frame)
    except msgspec.ValidationError as error:
        raise BadRequest("the answer is not a JSON object") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseFailed("the answer is not valid JSON") from error
    if document.has_twins(frame, members):
        raise BadRequest("a member of the answer stands twice")
    version, result, failure = members.get("jsonrpc"), members.get("result"), members.get("error")
    if version is not None and bytes(version) != b'"2.0"':
        raise BadRequest('jsonrpc must be "2.0"')
    if _is_unset(failure):
        failure = None
    else:
        if not _is_unset(result):
            raise BadRequest("the answer has a result and an error")
        result = None
        _refuse_error(failure)
    if version is None and result is None:
        # Any server on the way may say `{"error": ...}`.
        raise BadRequest("the answer does not say that it is one of JSON-RPC")
    return Answer(bytes(members.get("id", b"")), result, failure)


def write_answer(id: bytes, result: Any) -> bytes:  # noqa: A002, ANN401 - JSON-RPC's word; any JSON
    """The envelope of a result.

    Args:
        id: As the client wrote it.
        result: A tree or `msgspec.Raw`; None for null.
    """
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, bodies.write(result))


def write_error(id: bytes, code: int, message: str) -> bytes:  # noqa: A002 - JSON-RPC's word
    """The answer that is an error of this code, without data."""
    error = msgspec.json.encode({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + error + b"}"


def render(
    fault: Fault,
    *,
    id: bytes,  # noqa: A002 - JSON-RPC's word
    version: Version,
    details: list[dict[str, Any]],
    midway: bool = False,
) -> bytes:
    """The error envelope of a fault, under the id that the client gave.

    Args:
        midway: Whether it is the last event of a stream.
    """
    code = code_of(fault, version, midway=midway)
    error = msgspec.json.encode({"code": code, "message": fault.message, "data": details})
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + error + b"}"


def code_of(fault: Fault, version: Version, *, midway: bool) -> int:
    """Return the code that a client of this version is told."""
    # A fault that breaks a stream is an internal error to its reader (safety R5); the details say which.
    return INTERNAL_ERROR.code if midway else fault.code_toward(version)


_NAMES: dict[tuple[Operation, Version], str] = {}
"""What each generation calls its operations; the first of several names in `METHODS` is its own."""
for _name, _known in METHODS.items():
    _NAMES.setdefault(_known, _name)
    if _name in SHARED_WITH_0_1:
        _NAMES.setdefault((_known[0], Version.V0_1), _name)

_members = msgspec.json.Decoder(Members)


class _Error(msgspec.Struct):
    code: int


_error = msgspec.json.Decoder(_Error)


def _refuse_error(raw: msgspec.Raw | None) -> None:
    try:
        _error.decode(raw or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("the error of the answer has no code") from error


def _is_unset(raw: msgspec.Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def _meant(operation: Operation, version: Version, hint: Version | None, params: Parameters) -> Version:
    """Return the generation whose objects a call is made of, where clients mix it with the method names of another.

    Clients exist that send objects of 1.0 under the method names of 0.3 (protocol trap 14). A message tells by itself
    which it is, and so do the parameters of push configurations; of all else the A2A-Version header tells.

    Args:
        version: The one that has the method's name.
        hint: As `read_call`.
    """
    if params.message:
        contradicts = hint is not version if hint is not None else version is Version.V0_3
        mixes = contradicts and version is not Version.V0_1
        return (_objects_version(params.message) if mixes else None) or version
    if version is not Version.V0_3:
        return version
    told = _push_version(operation, params.members) if operation.kind is Kind.PUSH else None
    return told or (Version.V1_0 if hint is Version.V1_0 else version)


def _push_version(operation: Operation, members: Members) -> Version | None:
    """Return the generation of the parameters of a push configuration; None where they tell of neither or of both."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        older, newer = not _WRAPPED.isdisjoint(members), "url" in members
    else:
        older, newer = not _NAMED_BY_0_3.isdisjoint(members), not _OF_A_TASK.isdisjoint(members)
    if older is newer:
        return None
    return Version.V0_3 if older else Version.V1_0


_WRAPPED = frozenset({"pushNotificationConfig", "push_notification_config"})
_NAMED_BY_0_3 = frozenset({"pushNotificationConfigId", "push_notification_config_id"})
_OF_A_TASK = frozenset({"taskId", "task_id"})


def _objects_version(message: Members) -> Version | None:
    """Which generation's objects a message is made of, where the method's name and the header contradict.

    Objects of 1.0 under the method names of 0.3 exist (protocol trap 14).
    """
    role = document.text(message, "role")
    if role is None:
        return None
    return Version.V1_0 if role.startswith("ROLE_") else Version.V0_3


def _decode_string(raw: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_id(raw: bytes) -> bool:
    if len(raw) > _LONGEST_ID:
        return False
    if raw == b"null":
        return True
    if raw[:1] == b'"':
        return _decode_string(msgspec.Raw(raw)) is not None
    return raw.lstrip(b"-").isdigit()
