"""Errors that agents answer with: read in any dialect, and written in the client's.

The first of these in the body determines the error: the reason of A2A's `ErrorInfo`, the JSON-RPC code in the meaning
of the agent's generation, the name in `type`, the HTTP status, which up to eight errors share (protocol §4.1). An
`AgentError` has it in the form of 1.0.

An agent may write anything. Reading it costs linear time and raises nothing, and text passed to the client is bounded:
a message of `LONGEST_MESSAGE` characters, details within `MOST_DETAILS`, `LONGEST_DETAILS` and `DEEPEST_DETAIL`.

1.0 has typed details (`google.rpc.Status`, AIP-193): objects with an `@type`. Agents of 0.3 send any JSON, those of
a2a-sdk pydantic's error list. Details without a type go into a `google.protobuf.Struct`.

An agent that rejects a credential rejects the gateway's. Such an error is flagged (`challenges`) and written as an
invalid answer, because the client would take it as a rejection of its own credential. 403 passes.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from gateway.a2a import fault as table
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import (
    A2A_DOMAIN,
    BAD_REQUEST,
    BY_CODE,
    BY_REASON,
    ERROR_INFO,
    INTERNAL_ERROR,
    INVALID_AGENT_RESPONSE,
    ErrorKind,
)
from gateway.a2a.json import UNREADABLE, Tree, decode_elements, write

LONGEST_MESSAGE = 2_000
"""Characters of a message."""
MOST_DETAILS = 16
LONGEST_DETAILS = 16 * 1024
"""Bytes of all details together, as they are written."""
DEEPEST_DETAIL = 32
"""Levels of objects and lists."""
STRUCT = "type.googleapis.com/google.protobuf.Struct"

# Longer arrays of details are not read.
_LONGEST_ARRAY = 16 * LONGEST_DETAILS
_MOST_READ = 4 * MOST_DETAILS

# HTTP+JSON has no place for an agent's own code; the metadata of its `ErrorInfo` keep it.
_OWN_CODE = "jsonrpcCode"


class AgentError(msgspec.Struct, frozen=True):
    """An error of an agent, in the form of 1.0.

    Attributes:
        code: The JSON-RPC code in the meaning of 1.0, or one of the agent's own.
        reason: The word for it in A2A or JSON-RPC, or None if there is no such word.
        message: The text of the agent, cut; never empty.
        details: Typed objects; the one with the reason comes first.
        http_status: The status of HTTP+JSON in 1.0, whatever the agent's was.
        data: The `data` of an agent before 1.0, for clients before 1.0; or `msgspec.UNSET`.
        challenges: Whether it rejects a credential. The caller answers `UpstreamProtocol` then.
    """

    code: int
    reason: str | None
    message: str
    details: tuple[Tree, ...] = ()
    http_status: int = 500
    data: object = msgspec.UNSET
    challenges: bool = False


def error_info(kind: ErrorKind, **metadata: str) -> Tree:
    """Return the `ErrorInfo` of an error."""
    return {"@type": ERROR_INFO, "reason": kind.reason, "domain": A2A_DOMAIN, "metadata": metadata}


NOT_ACCEPTED = AgentError(
    code=INVALID_AGENT_RESPONSE.code,
    reason=INVALID_AGENT_RESPONSE.reason,
    message="the agent does not accept the gateway",
    details=(error_info(INVALID_AGENT_RESPONSE),),
    http_status=502,
)
"""The error that a client gets instead of one that challenges."""


class _Members(msgspec.Struct):
    """The members of an error, or of the object around it, in any dialect; each as it came."""

    error: msgspec.Raw = msgspec.Raw()
    code: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    details: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()
    type: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()
    detail: msgspec.Raw = msgspec.Raw()
    errors: msgspec.Raw = msgspec.Raw()


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read_jsonrpc(error: bytes | msgspec.Raw, version: Version) -> AgentError | None:
    """Read the `error` of a JSON-RPC answer; None where it is no object.

    Args:
        version: The agent's, which decides what its code means.
    """
    members = _open(error)
    if members is None:
        return None
    return _made(
        version,
        code=integer(members.code),
        name=_text(members.type),
        message=_text(members.message),
        details=read_details(members.data),
        data=members.data,
    )


def read_rest(status: int, body: bytes, version: Version) -> AgentError | None:
    """Read the body of an HTTP+JSON error; None if it is not an A2A error: a page, or other JSON.

    It may have any of the shapes that agents use (protocol §4.2): `{"error": {...}}` as AIP-193 writes it;
    `{"message"}`, from agents of 0.3 alone, or from any beside a `type` or `code` that A2A knows; a problem (RFC 9457).
    """
    outer = _open(body)
    if outer is None:
        return None
    inner = _open(outer.error)
    if inner is not None and (integer(inner.code) is not None or _text(inner.message) or _text(inner.status)):
        return _nested(inner, outer, status, version)
    return _flat(outer, status, version) or _problem(outer, status, version)


def read_event(data: bytes, binding: Binding, version: Version) -> AgentError | None:
    """Read an event of a stream that is an error; None for any other event."""
    outer = _open(data)
    if outer is None or not outer.error:
        return None
    if binding is Binding.JSONRPC:
        return read_jsonrpc(outer.error, version)
    inner = _open(outer.error)
    return None if inner is None else _nested(inner, outer, None, version)


def _nested(inner: _Members, outer: _Members, status: int | None, version: Version) -> AgentError:
    """Read an AIP-193 error, maybe beside the members of 0.3; or a JSON-RPC envelope over HTTP+JSON."""
    codes = (integer(inner.code), integer(outer.code))
    if status is None:
        status = next((code for code in codes if code is not None and 400 <= code < 600), None)
    data = outer.data or inner.data
    return _made(
        version,
        code=_negative(*codes),
        name=_text(inner.type) or _text(outer.type),
        status=status,
        word=_text(inner.status) or "",
        message=_text(inner.message) or _text(outer.message),
        details=read_details(inner.details) or read_details(data),
        data=data,
    )


def _flat(members: _Members, status: int, version: Version) -> AgentError | None:
    """Read an error of 0.3: a message alone (a2a-sdk 0.3), with a name, or with a code (a2a-js)."""
    message, name, code = _text(members.message), _text(members.type), _negative(integer(members.code))
    if message is None:
        return None
    if version is Version.V1_0 and code is None and (name is None or table.of_name(name) is None):
        # Many servers on the way answer `{"message": ...}`.
        return None
    details = read_details(members.details) or read_details(members.data)
    return _made(version, code=code, name=name, status=status, message=message, details=details, data=members.data)


def _problem(members: _Members, status: int, version: Version) -> AgentError | None:
    """Read a problem as drafts of 1.0 wrote it (RFC 9457)."""
    name, message = _text(members.type), _text(members.detail) or _text(members.title)
    if name is None or message is None:
        return None
    return _made(version, name=name, status=status, message=message, details=_violations(members.errors))


def _made(
    version: Version,
    *,
    name: str | None,
    message: str | None,
    details: list[Tree],
    code: int | None = None,
    status: int | None = None,
    word: str = "",
    data: msgspec.Raw = msgspec.Raw(),  # noqa: B008 - immutable
) -> AgentError:
    info, kind = take_own(details)
    if info is not None and kind is INTERNAL_ERROR and (kept := _kept_code(info)) is not None:
        code, info, kind = kept, None, None
    elif kind is None:
        kind = _kind(version, code, name)
        if kind is None and code is None:
            kind = table.of_status(status, word, message or "")
        if kind is not None and kind.reason is not None:
            info = error_info(kind)
    if kind is not None:
        code = kind.code
    known = kind or INTERNAL_ERROR
    return AgentError(
        code=known.code if code is None else code,
        reason=None if kind is None else kind.reason,
        message=_cut(message or known.words),
        details=bounded(details if info is None else [info, *details]),
        http_status=known.http_status,
        data=msgspec.UNSET if version is Version.V1_0 else _data_of(data),
        challenges=known.challenges or status in (401, 407),
    )


def _kind(version: Version, code: int | None, name: str | None) -> ErrorKind | None:
    kind = None if code is None else table.of_code(code, version)
    return table.of_name(name) if kind is None and name is not None else kind


# ---- Writing ---------------------------------------------------------------------------------------------------------


def write_jsonrpc(error: AgentError, *, id: bytes, version: Version) -> bytes:  # noqa: A002 - JSON-RPC's word
    """Return the JSON-RPC envelope of an error, for a client of this version.

    Args:
        id: The client's own, as it wrote it.
    """
    error = NOT_ACCEPTED if error.challenges else error
    members: Tree = {"code": table.code_toward(error.code, version), "message": error.message}
    if version is not Version.V1_0 and error.data is not msgspec.UNSET:
        members["data"] = error.data
    elif error.details:
        members["data"] = error.details
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + write(members) + b"}"


def write_rest(error: AgentError, *, version: Version) -> tuple[int, bytes]:
    """Return the HTTP status and the body of an error, for a client of this version.

    1.0 gets AIP-193. 0.3 defines no form of its own and gets AIP-193 with all the members that its clients look for.
    """
    error = NOT_ACCEPTED if error.challenges else error
    kind = BY_CODE.get(error.code)
    details = error.details
    if kind is None:
        details = (with_own_code(error.code), *details)
    known = kind or INTERNAL_ERROR
    status = error.http_status if version is Version.V1_0 else known.status_toward(version)
    inner: Tree = {"code": status, "status": known.grpc_status, "message": error.message, "details": details}
    if version is Version.V1_0:
        return status, write({"error": inner})
    beside: Tree = {} if error.data is msgspec.UNSET else {"data": error.data}
    code = table.code_toward(error.code, version)
    return status, write({
        "code": code, "type": known.name, "message": error.message, **beside, "error": inner,
    })  # fmt: skip


# ---- Details ---------------------------------------------------------------------------------------------------------


def read_details(raw: msgspec.Raw) -> list[Tree]:
    """Return the typed objects of `details` or `data`; those that are too long or too deep are left out."""
    if not raw or len(raw) > _LONGEST_ARRAY:
        return []
    try:
        elements = decode_elements(raw) if bytes(raw).startswith(b"[") else [raw]
    except UNREADABLE:
        return []
    typed: list[Tree] = []
    loose: list[object] = []
    for element in elements[:_MOST_READ]:
        value = _value(element)
        if isinstance(value, dict) and value.get("@type") and isinstance(value["@type"], str):
            typed.append(value)
        elif value not in (msgspec.UNSET, None, "", [], {}):
            loose.append(value)
    if loose:
        only = loose[0] if len(loose) == 1 else None
        typed.append({"@type": STRUCT, "value": only if isinstance(only, dict) else {"value": loose}})
    return typed


def take_own(details: list[Tree]) -> tuple[Tree | None, ErrorKind | None]:
    """Take A2A's own `ErrorInfo` out of the details, wherever it is (a2a-go has it last); return it and its error."""
    for position, detail in enumerate(details):
        if detail["@type"] != ERROR_INFO or detail.get("domain") not in (None, "", A2A_DOMAIN):
            continue
        reason = detail.get("reason")
        if isinstance(reason, str) and (kind := BY_REASON.get(reason)) is not None:
            del details[position]
            return {**detail, "domain": A2A_DOMAIN}, kind
    return None, None


def with_own_code(code: int) -> Tree:
    """Return the `ErrorInfo` of an error that A2A does not define, with its code."""
    return error_info(INTERNAL_ERROR, **{_OWN_CODE: str(code)})


def bounded(details: Iterable[Tree]) -> tuple[Tree, ...]:
    """Return the details that fit, the first before the others."""
    kept: list[Tree] = []
    room = LONGEST_DETAILS
    for detail in details:
        size = room + 1 if _is_deeper(detail, DEEPEST_DETAIL) else len(write(detail))
        if size <= room:
            kept.append(detail)
            room -= size
    return tuple(kept[:MOST_DETAILS])


def _kept_code(info: Tree) -> int | None:
    """Return the agent's own code that an `ErrorInfo` keeps, or None."""
    metadata = info.get("metadata")
    text = metadata.get(_OWN_CODE) if isinstance(metadata, dict) else None
    code = integer(text.encode()) if isinstance(text, str) else None
    return None if code is None or table.of_code(code, Version.V1_0) is not None else code


def _violations(raw: msgspec.Raw) -> list[Tree]:
    """Return the `errors` of a problem as a `google.rpc.BadRequest`."""
    errors = _value(raw)
    if not isinstance(errors, list):
        return []
    violations = [
        {"field": error["field"], "description": error["message"]}
        for error in errors
        if isinstance(error, dict) and isinstance(error.get("field"), str) and isinstance(error.get("message"), str)
    ]
    return [{"@type": BAD_REQUEST, "fieldViolations": violations}] if violations else []


def _data_of(raw: msgspec.Raw) -> object:
    """Return the value of `data`, for readers of older generations; UNSET where it is null or cannot be read."""
    value = _value(raw)
    return msgspec.UNSET if value is None else value


# ---- Values ----------------------------------------------------------------------------------------------------------


def integer(raw: bytes | msgspec.Raw) -> int | None:
    """Return a number of 32 bits, as all SDKs can hold it, or None."""
    found = _INTEGER.fullmatch(raw)
    number = 0 if found is None else int(found[2])
    return number if found is not None and -(2**31) <= number < 2**31 else None


# Some write it as a fraction or as a string.
_INTEGER = re.compile(rb'("?)(-?\d{1,10})(?:\.0{1,10})?\1')


def _number(text: str) -> Decimal:
    """Return a number as it is written, if a double can hold it."""
    number = Decimal(text)
    if not math.isfinite(float(text)):
        raise ValueError("a number larger than a double can hold")
    return number


_any = msgspec.json.Decoder(float_hook=_number)
_members = msgspec.json.Decoder(_Members)
_string = msgspec.json.Decoder(str)


def _value(raw: msgspec.Raw) -> object:
    """Return the value of a member, or UNSET where it is absent, no JSON, too long or too deep."""
    if len(raw) > LONGEST_DETAILS:
        return msgspec.UNSET
    try:
        value: object = _any.decode(raw)
    except (*UNREADABLE, ArithmeticError):
        return msgspec.UNSET
    return msgspec.UNSET if _is_deeper(value, DEEPEST_DETAIL) else value


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether a value has more levels of objects and lists than that."""
    children = list(value.values()) if isinstance(value, dict) else value
    return isinstance(children, list) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in children))


def _open(raw: bytes | msgspec.Raw) -> _Members | None:
    try:
        return _members.decode(raw)
    except UNREADABLE:
        return None


def _negative(*codes: int | None) -> int | None:
    """Return the first that is a JSON-RPC code; positive ones are HTTP statuses."""
    return next((code for code in codes if code is not None and code < 0), None)


def _text(raw: msgspec.Raw) -> str | None:
    """Return a string that is not blank, or None."""
    try:
        text = _string.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if not text or text.isspace() else text


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
