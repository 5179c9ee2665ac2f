"""The JSON-RPC envelope (1.0 §9, 0.3 §3.2.1): calls and answers read and written, faults written.

Not all servers keep ids byte for byte, so those of answers are compared with those of calls.
"""

import math
from typing import Any

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a import progress
from gateway.a2a.agent_error import AgentError, read_jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import INTERNAL_ERROR, BadParams, BadRequest, Fault, MethodNotFound, UpstreamProtocol
from gateway.a2a.framing import sse
from gateway.a2a.json import BOUNDS, UNREADABLE, BodyBounds, Members, Tree, decode_members
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.params import (
    Parameters,
    agreed,
    open_params,
    params_without_tenant,
    refuse_strays,
    split_query,
    task_and_context,
)
from gateway.a2a.paths import PathCall
from gateway.a2a.progress import Progress
from gateway.a2a.spelling import SPELLINGS

METHODS: dict[str, tuple[Operation, Version]] = {}
"""Every method name of every generation: the operation and the generation, the later one where two share a name."""
NAMES: dict[tuple[Operation, Version], str] = {}
"""Each generation's own name of an operation."""
for _operation, _row in SPELLINGS.items():
    _of_1_0 = (_operation.value, *_row.aliases_1_0)
    _versions = ((Version.V1_0, _of_1_0), (Version.V0_3, _row.jsonrpc_0_3), (Version.V0_1, _row.jsonrpc_0_1))
    for _version, _name in ((version, name) for version, names in _versions for name in names):
        METHODS.setdefault(_name, (_operation, _version))
        NAMES.setdefault((_operation, _version), _name)

SHARED_WITH_0_1 = frozenset(name for row in SPELLINGS.values() for name in row.jsonrpc_0_1 if name in row.jsonrpc_0_3)
"""Names that 0.1 and 0.3 both have; the agent's version tells them apart."""
SHARED_WITH_0_3 = frozenset(
    name for operation, row in SPELLINGS.items() if operation.kind is Kind.PUSH for name in row.jsonrpc_0_1
)
"""Names of 0.1 that servers of later generations still answer (fasta2a)."""

_LONGEST_ID = 512


class Envelope(msgspec.Struct, frozen=True):
    """The outer object of a request: its members, and the id that the answer must have, byte for byte."""

    body: bytes
    members: Members
    id: bytes


def open_envelope(body: bytes, bounds: BodyBounds = BOUNDS) -> Envelope:
    """Return the envelope of a request.

    Raises:
        ParseFailed, BadRequest, DuplicateKey: as `strict_json.open_body`.
        BadRequest: the id is missing, or no string, integer or null.
    """
    members = strict_json.open_body(body, bounds)
    raw = members.get("id")
    if raw is None:
        # A2A has no notifications: a call without an id would run without an answer.
        raise BadRequest("the request has no id")
    identity = bytes(raw)
    if not _is_id(identity):
        raise BadRequest(f"the id must be a string or an integer of at most {_LONGEST_ID} bytes")
    return Envelope(body, members, identity)


def read_call(envelope: Envelope, path: PathCall, query: bytes, hint: Version | None) -> Call:
    """Return the call in an envelope.

    Args:
        hint: The version in the A2A-Version header or query parameter, or None.

    Raises:
        BadRequest: `jsonrpc` or `method` is missing or wrong.
        MethodNotFound: no generation has such a method.
        BadParams: parameters of a wrong shape, two places with different tenants or tasks, or a push configuration in
            a wrong place.
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
        members = strict_json.open_object(raw, "params")
    params = open_params(operation, members, outer)
    refuse_strays(operation, params)
    queried, passed = split_query(query)
    tenant = agreed("tenant", path.tenant, params.tenant, queried)
    version = _call_version(operation, version, hint, params)
    task_id, context_id = task_and_context(operation, version, params)
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
        tenant_written=params.says(tenant) and (tenant is None or "tenant" in members),
        params=params,
        path=path,
        versioned=hint is not None,
    )


def read_params(call: Call) -> Tree:
    """As `Codec.read_params`."""
    return params_without_tenant(call.params)


def make_call(
    call: Call,
    operation: Operation,
    theirs: Dialect,
    params: Tree,
    *,
    tenant: str | None,
    id: str,  # noqa: A002 - JSON-RPC's word
    context_id: str | None,
) -> Call:
    """As `Codec.make_call`."""
    if tenant is not None:
        params["tenant"] = tenant
    identity = b'"%b"' % id.encode("ascii")
    method = NAMES[operation, theirs.version]
    # The older generations' only operation without parameters has no such member.
    member = b',"params":' + strict_json.write(params) if params or theirs.version is Version.V1_0 else b""
    body = b'{"jsonrpc":"2.0","id":%b,"method":"%b"%b}' % (identity, method.encode("ascii"), member)
    return Call(
        operation,
        theirs,
        method,
        identity,
        tenant,
        call.task_id,
        context_id,
        body,
        in_body=tenant is not None,
        verb="POST",
    )


class AnswerEnvelope(msgspec.Struct, gc=False):
    """The envelope of an agent's answer or event, each member as its bytes came; one that is absent is empty."""

    jsonrpc: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()

    @property
    def failed(self) -> bool:
        """Return whether it has an error; a null is none."""
        return self.error not in _UNSET


def open_answer(frame: bytes) -> AnswerEnvelope | None:
    """Open an agent's answer or event; None for what is no JSON-RPC answer (JSON-RPC 2.0 §5), or is ambiguous.

    It is a JSON object in UTF-8 with a result or an error and not both, and no member twice. Beside an error the
    version is required: `{"error": ...}` alone may come from any server on the way. a2a-go leaves a null result out
    (protocol §4.3).
    """
    if not (frame.isascii() or strict_json.is_utf8(frame)):
        return None
    try:
        answer = _answer.decode(frame)
    except UNREADABLE:
        return None
    if answer.jsonrpc not in _VERSIONS:
        return None
    if answer.error and answer.error not in _UNSET:
        if answer.result not in _UNSET or not answer.jsonrpc:
            return None
    elif not answer.jsonrpc and not answer.result:
        return None
    # Written as most write it, with a space here and there, it has no place for a member that stands twice.
    values = len(answer.jsonrpc) + len(answer.id) + len(answer.result) + len(answer.error)
    spare = len(frame) - values - _COMPACT
    if (spare >= _TWICE or not answer.jsonrpc or not answer.id) and _has_twins(frame):
        return None
    return answer


def read_progress(frame: bytes, *, void: bool = False) -> Progress | None:
    """Return the progress that an answer or an event tells; None for what is no such answer (`open_answer`).

    An error must have a code, and no member twice in either where ids are looked for.

    Args:
        void: Whether the answer may have neither result nor error.
    """
    answer = open_answer(frame)
    if answer is None:
        return None
    identity = bytes(answer.id)
    if answer.error and answer.error not in _UNSET:
        return progress.read_error(bytes(answer.error), identity)
    if answer.result:
        return progress.read_result(bytes(answer.result), identity)
    return Progress(id=identity) if void else None


def raw_result(_call: Call, frame: bytes) -> msgspec.Raw | None:
    """As `Codec.raw_result`."""
    answer = open_answer(frame)
    if answer is None:
        raise UpstreamProtocol("the agent's answer is no JSON-RPC answer")
    return None if answer.failed or not answer.result else answer.result


def read_result(call: Call, frame: bytes, *, event: bool = False) -> Any:  # noqa: ANN401, ARG001 - any JSON; as the contract
    """As `Codec.read_result`."""
    raw = raw_result(call, frame)
    return None if raw is None else strict_json.read(raw)


def read_error(call: Call, _status: int, frame: bytes) -> AgentError | None:
    """As `Codec.read_error`."""
    answer = open_answer(frame)
    return read_jsonrpc(answer.error, call.dialect.version) if answer is not None and answer.failed else None


def _has_twins(frame: bytes) -> bool:
    try:
        return strict_json.has_twins(frame, decode_members(frame))
    except UNREADABLE:
        # A member that the envelope does not have may be unreadable.
        return True


def answer(call: Call, result: Any) -> bytes:  # noqa: ANN401 - any JSON
    """As `Codec.answer`."""
    return write_answer(call.id, result)


def event(call: Call, result: Any) -> bytes:  # noqa: ANN401 - any JSON
    """As `Codec.event`."""
    return sse.encode(write_answer(call.id, strict_json.on_one_line(result)))


def write_answer(id: bytes, result: Any) -> bytes:  # noqa: A002, ANN401 - JSON-RPC's word; any JSON
    """Return the envelope of a result.

    Args:
        id: The client's raw id.
        result: A tree or `msgspec.Raw`; None for null.
    """
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, strict_json.write(result))


def write_error(id: bytes, code: int, message: str) -> bytes:  # noqa: A002 - JSON-RPC's word
    """Return an error answer of this code, without data."""
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
    """Return the error envelope of a fault, under the id that the client gave.

    Args:
        midway: Whether it ends a stream.
    """
    code = code_of(fault, version, midway=midway)
    error = msgspec.json.encode({"code": code, "message": fault.message, "data": details})
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + error + b"}"


def code_of(fault: Fault, version: Version, *, midway: bool) -> int:
    """Return the code that a client of this version is told."""
    # A fault that breaks a stream is an internal error to its reader (safety R5); the details say which.
    return INTERNAL_ERROR.code if midway else fault.code_toward(version)


_answer = msgspec.json.Decoder(AnswerEnvelope)
_UNSET = (msgspec.Raw(), msgspec.Raw(b"null"))
_VERSIONS = (msgspec.Raw(b'"2.0"'), msgspec.Raw())
# An envelope's bytes beside the values of its members, and the least that a second member of one name adds.
_COMPACT = len('{"jsonrpc":,"id":,"error":}')
_TWICE = len(',"id":0')


def _is_unset(raw: msgspec.Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def _call_version(operation: Operation, version: Version, hint: Version | None, params: Parameters) -> Version:
    """Return the generation of a call's objects; some clients send those of 1.0 under 0.3's method names (trap 14).

    A message tells its own generation, and so do the parameters of push configurations; otherwise the header decides.

    Args:
        version: The generation of the method's name.
        hint: As `read_call`.
    """
    if params.message:
        contradicts = hint is not version if hint is not None else version is Version.V0_3
        mixes = contradicts and version is not Version.V0_1
        return (_objects_version(params.message) if mixes else None) or version
    if version is not Version.V0_3:
        return version
    push_version = _push_version(operation, params.members) if operation.kind is Kind.PUSH else None
    return push_version or (Version.V1_0 if hint is Version.V1_0 else version)


def _push_version(operation: Operation, members: Members) -> Version | None:
    """Return the generation of the parameters of a push configuration; None where they are of neither or of both."""
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
    """Return the generation of a message's objects, by its role; None where it has none."""
    role = strict_json.text(message, "role")
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


# ---- Ids of answers --------------------------------------------------------------------------------------------------

# Six characters for each that an id may have, were all of them escaped.
_LONGEST_ANSWERED = 6 * _LONGEST_ID
_NO_ID = frozenset({b"", b"null"})


def answers(frame_id: bytes, call_id: bytes) -> bool:
    """Return whether an answer's raw id may be that of a call.

    Some servers leave the id out of errors or write null; some read numbers as doubles and change large ones; a string
    may come back with other escapes.
    """
    return frame_id in _NO_ID or _is_same(frame_id, call_id, as_doubles=True)


def is_same(frame_id: bytes, call_id: bytes) -> bool:
    """Return whether two raw ids have the same value, so that clients take the one for the other."""
    return frame_id == call_id or (frame_id not in _NO_ID and _is_same(frame_id, call_id, as_doubles=False))


def _is_same(frame_id: bytes, call_id: bytes, *, as_doubles: bool) -> bool:
    if frame_id == call_id:
        return True
    if len(frame_id) > _LONGEST_ANSWERED:
        return False
    try:
        answered, called = msgspec.json.decode(frame_id), msgspec.json.decode(call_id)
    except UNREADABLE:
        return False
    if isinstance(answered, bool):
        return False
    if as_doubles and isinstance(answered, int | float) and isinstance(called, int):
        return _double(answered) == _double(called)
    return bool(answered == called)


def with_id(frame: bytes, identity: bytes) -> bytes:
    """Return a JSON-RPC answer under another raw id; all other values keep their bytes."""
    return strict_json.put(frame, ("id",), identity)


def _double(number: float) -> float:
    """Return the number as most parsers read it; an integer beyond all doubles is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
