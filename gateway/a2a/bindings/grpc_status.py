"""gRPC statuses of failed calls, read from agents and written for clients (protocol §4.2).

A status is a code, a message, and a `google.rpc.Status` in `grpc-status-details-bin`: code and message once more, and
the typed details that HTTP+JSON has in `error.details` (AIP-193). 0.3 has no details; its message begins with the name
of the error, as a2a-sdk 0.3 writes it: `TaskNotFoundError: no such task`.

a2a-sdk 1.3 reads every `ErrorInfo` of A2A's domain, and raises no A2A exception where the details have another code or
message than the trailers. So there is one such entry, and the message is cut in both places.

An agent may send anything. Reading it costs linear time and raises nothing, and every status that is written is within
`LONGEST_TRAILERS`: most clients take 8 KiB of headers or trailers together.

An entry of an unknown type becomes a `google.protobuf.Struct`: from JSON with its members, from protobuf with its bytes
in base64. Numbers in a `Struct` are doubles.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import msgspec

from gateway.a2a import fault as table
from gateway.a2a.agent_error import (
    LONGEST_DETAILS,
    LONGEST_MESSAGE,
    NOT_ACCEPTED,
    STRUCT,
    AgentError,
    bounded,
    error_info,
    read_event,
    take_own,
    with_own_code,
)
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import (
    A2A_DOMAIN,
    BODY_TOO_LARGE,
    BY_CODE,
    BY_REASON,
    ERROR_INFO,
    GATEWAY_DOMAIN,
    INTERNAL_ERROR,
    KINDS,
    ErrorKind,
    Fault,
)
from gateway.a2a.headers import Pairs
from gateway.a2a.json import Tree, write

LONGEST_TRAILERS = 7 * 1024
"""Bytes of message and details in the trailers of a status; the rest of 8 KiB is for other trailers. gRPC's own library
sometimes refuses more than 8 KiB, and always more than 16 KiB.
"""
LONGEST_WRITTEN = 2 * 1024
"""Bytes of a message in a trailer, with `%xx` for all characters that are not plain ASCII."""

_LONGEST_RAW = 256 * 1024
_MOST_READ = 64

NAMES: Mapping[int, str] = dict(
    enumerate((
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    ))
)  # fmt: skip
"""The codes of gRPC and their names."""

CODES: Mapping[str, int] = {name: code for code, name in NAMES.items()}

# `BODY_TOO_LARGE` has no reason in A2A and shares its gRPC code; the gateway's own word tells it apart.
_TOO_LARGE: Tree = {
    "@type": ERROR_INFO, "reason": "BODY_TOO_LARGE", "domain": GATEWAY_DOMAIN, "metadata": {},
}  # fmt: skip


class Status(msgspec.Struct, frozen=True):
    """The status that ended a call.

    Attributes:
        code: The gRPC code; an agent's may be one that does not exist.
        details: A serialized `google.rpc.Status`, or empty; an agent's may be anything.
    """

    code: int
    message: str
    details: bytes = b""


# ---- Writing ---------------------------------------------------------------------------------------------------------


def of_fault(fault: Fault, *, id: str, version: Version) -> Status:  # noqa: A002 - as every refusal has it
    """Return the status of a fault, for a client of this version; its details name the request `id`."""
    kind = BY_REASON.get(fault.a2a_reason or "")
    return _made(CODES[fault.grpc_status], fault.message, kind, fault.details(id), version)


def of_error(error: AgentError, version: Version) -> Status:
    """Return the status of an agent's error, for a client of this version."""
    error = NOT_ACCEPTED if error.challenges else error
    known = BY_CODE.get(error.code)
    details = list(error.details)
    info, own_kind = take_own(details)
    if known is None:
        info = with_own_code(error.code)
    elif known is not own_kind:
        info = None if known.reason is None else error_info(known)
    if known is BODY_TOO_LARGE and not any(map(_says_too_large, details)):
        info = _TOO_LARGE
    kind = known or INTERNAL_ERROR
    # Clients believe a reason before the code, so none may contradict it.
    others = [
        detail for detail in details if not _is_own(detail) and (known is BODY_TOO_LARGE or not _says_too_large(detail))
    ]
    return _made(CODES[kind.grpc_status], error.message, kind, others if info is None else [info, *others], version)


def trailers(status: Status) -> Pairs:
    """Return the trailers of a failed call, cut to the length that clients accept.

    A code that does not exist, or OK, is written as UNKNOWN.
    """
    code = status.code if status.code in NAMES and status.code != CODES["OK"] else CODES["UNKNOWN"]
    message = _cut(status.message)
    escaped = _escaped(message).encode("ascii")
    pairs = [(b"grpc-status", b"%d" % code)]
    if escaped:
        pairs.append((b"grpc-message", escaped))
    if status.details and (code, message) == (status.code, status.message):
        binary = b64encode(status.details).rstrip(b"=")
        if len(escaped) + len(binary) <= LONGEST_TRAILERS:
            pairs.append((b"grpc-status-details-bin", binary))
    return pairs


def _made(code: int, message: str, kind: ErrorKind | None, details: Iterable[Tree], version: Version) -> Status:
    """Return a status; `kind` is its error in A2A, if there is one."""
    if version is not Version.V1_0 and kind is not None:
        message = f"{kind.name}: {message}"
    message = _cut(message)
    rpc_status = _protobuf().Status(code=code, message=message)
    room = LONGEST_TRAILERS - len(_escaped(message))
    for detail in details:
        _add(rpc_status, detail, room)
    return Status(code, message, rpc_status.SerializeToString() if rpc_status.details else b"")


def _add(rpc_status: Any, detail: Tree, room: int) -> None:  # noqa: ANN401 - protobuf ships no types
    """Add a detail to a `google.rpc.Status` if it fits; a reason may lose its metadata to fit."""
    for part in (detail, {**detail, "metadata": {}}) if detail.get("@type") == ERROR_INFO else (detail,):
        packed = _packed(part)
        if packed is None:
            return
        rpc_status.details.append(packed)
        if 4 * rpc_status.ByteSize() <= 3 * room:
            return
        del rpc_status.details[-1]


def _packed(detail: Tree) -> Any:  # noqa: ANN401 - protobuf ships no types
    """Return a detail as `google.protobuf.Any`, or None where protobuf cannot express it."""
    protobuf = _protobuf()
    if detail.get("@type") == ERROR_INFO and isinstance(detail.get("reason"), str):
        packed = protobuf.Packed()
        packed.Pack(_info(detail))
        return packed
    for whole in (detail, {"@type": STRUCT, "value": detail}):
        try:
            return protobuf.json.Parse(write(whole), protobuf.Packed(), ignore_unknown_fields=True)
        except protobuf.json.ParseError:
            continue
    return None


def _info(detail: Tree) -> Any:  # noqa: ANN401 - protobuf ships no types
    """Return an `ErrorInfo`. Its metadata are strings here; a2a-sdk has objects on the other bindings (§4.2)."""
    domain, metadata = detail.get("domain"), detail.get("metadata")
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    return _protobuf().ErrorInfo(
        reason=_clean(detail["reason"]),
        domain=_clean(domain) if isinstance(domain, str) else "",
        metadata={
            _clean(key): _clean(value) if isinstance(value, str) else write(value).decode() for key, value in pairs
        },
    )


def _is_own(detail: Tree) -> bool:
    """Return whether a detail is an `ErrorInfo` of A2A, or one without a domain."""
    return detail.get("@type") == ERROR_INFO and detail.get("domain") in (None, "", A2A_DOMAIN)


def _says_too_large(detail: Tree) -> bool:
    return all(detail.get(name) == _TOO_LARGE[name] for name in ("@type", "reason", "domain"))


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read(status: Status, version: Version) -> AgentError:
    """Return the error of an agent's status.

    Args:
        version: The agent's; in 0.3 the message begins with the name of the error.
    """
    message = _clean(status.message[: 2 * LONGEST_MESSAGE])
    details = _details(status.details)
    code = NAMES.get(status.code, "UNKNOWN")
    kind = _BY_WORDS.get((code, message.casefold()))
    if any(map(_says_too_large, details)):
        kind = BODY_TOO_LARGE
    if version is Version.V0_3 and (found := _NAMED.match(message)) is not None:
        named = table.of_name(found[1])
        if named is not None:
            kind, message = named, message[found.end() :]
    # Read as the same AIP-193 error in JSON: the reason first, then the name, then the word of the code.
    same: Tree = {"status": code, "message": message, "details": details, "type": "" if kind is None else kind.name}
    event = read_event(write({"error": same}), Binding.REST, version)
    error = cast("AgentError", event)  # it has an error with a status, and no depth
    return msgspec.structs.replace(error, challenges=True) if code == "UNAUTHENTICATED" else error


def _details(raw: bytes) -> tuple[Tree, ...]:
    """Return the typed details, those with a reason of A2A before the others."""
    if not raw or len(raw) > _LONGEST_RAW:
        return ()
    protobuf = _protobuf()
    try:
        rpc_status = protobuf.Status.FromString(raw)
    except protobuf.DecodeError:
        return ()
    details = [
        _read_info(packed) if packed.Is(protobuf.ErrorInfo.DESCRIPTOR) else _unpacked(packed)
        for packed in rpc_status.details[:_MOST_READ]
        if packed.type_url and len(packed.value) <= LONGEST_DETAILS
    ]
    return bounded(sorted((each for each in details if each is not None), key=_is_own, reverse=True))


def _read_info(packed: Any) -> Tree | None:  # noqa: ANN401 - protobuf ships no types
    protobuf = _protobuf()
    try:
        info = protobuf.ErrorInfo.FromString(packed.value)
    except protobuf.DecodeError:
        return None
    return {"@type": ERROR_INFO, "reason": info.reason, "domain": info.domain, "metadata": dict(info.metadata)}


def _unpacked(packed: Any) -> Tree:  # noqa: ANN401 - protobuf ships no types
    """Return a detail as JSON has it; its bytes in base64 where its type is unknown."""
    protobuf = _protobuf()
    try:
        return cast("Tree", protobuf.json.MessageToDict(packed))  # an object, for it has a type
    except (protobuf.DecodeError, protobuf.json.Error, TypeError, ValueError, RecursionError):
        value = b64encode(packed.value).decode("ascii")
        return {"@type": STRUCT, "value": {"@type": packed.type_url, "value": value}}


# As a2a-sdk writes it.
_NAMED = re.compile(r"([A-Za-z]{1,64}Error): ")
# The usual messages tell apart errors of one code, as `fault.of_status` does for HTTP.
_BY_WORDS = {(kind.grpc_status, kind.words.casefold()): kind for kind in KINDS}


# ---- Values ----------------------------------------------------------------------------------------------------------

# Plain in a trailer beside letters and digits: all visible ASCII but `%`.
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def _escaped(message: str) -> str:
    """Return a message as a trailer writes it (gRPC over HTTP/2, Percent-Encoded)."""
    text = quote(message, safe=_PLAIN, errors="replace")
    # HTTP refuses values with a space at an end (RFC 9113 §8.2.1).
    inner = text.lstrip(" ")
    outer = inner.rstrip(" ")
    return "%20" * (len(text) - len(inner)) + outer + "%20" * (len(inner) - len(outer))


def _cut(message: str) -> str:
    """Return as much of a message as fits, cut between characters."""
    message = _clean(message[: LONGEST_WRITTEN + 1])
    if len(_escaped(message)) <= LONGEST_WRITTEN:
        return message
    room = LONGEST_WRITTEN - len(_escaped("…"))
    kept = 0
    while (room := room - len(_escaped(message[kept]))) >= 0:
        kept += 1
    return message[:kept] + "…"


def _clean(text: str) -> str:
    """Return the text with invalid UTF-8 replaced."""
    return text.encode("utf-8", "replace").decode()


@cache
def _protobuf() -> Any:  # noqa: ANN401 - protobuf ships no types
    """Return the classes of protobuf and googleapis that are needed here; only users of gRPC pay for their import."""
    from google.protobuf import any_pb2, json_format, message, struct_pb2  # type: ignore[import-untyped]  # noqa: PLC0415
    from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # noqa: PLC0415

    return SimpleNamespace(
        Packed=any_pb2.Any,
        Status=status_pb2.Status,
        ErrorInfo=error_details_pb2.ErrorInfo,
        # Once it is imported, values of its type can be packed.
        Struct=struct_pb2.Struct,
        DecodeError=message.DecodeError,
        json=json_format,
    )
