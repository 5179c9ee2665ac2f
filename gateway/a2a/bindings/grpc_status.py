"""Statuses of failed calls over gRPC, read from agents and written for clients (protocol §4.2).

A status is a code, a message, and a `google.rpc.Status` in `grpc-status-details-bin`: code and message once more, and
the typed details that HTTP+JSON has in `error.details` (AIP-193). 0.3 has no details; there the message begins with
the name of the error, as a2a-sdk 0.3 writes it: `TaskNotFoundError: no such task`.

a2a-sdk 1.3 looks for the exception in every `ErrorInfo` of A2A's domain, and raises none of its own where the details
have another code or message than the trailers. So there is one such entry, and what is cut in one place is in both.

An agent may put anything there. Reading it costs linear time and raises nothing, and what is written, an agent's own
as well, is within `LONGEST_TRAILERS`: clients take 8 KiB of headers or trailers together unless they are told
otherwise.

Details are JSON on the other bindings, which tells two things less than protobuf. An entry of a type that nobody here
knows becomes a `google.protobuf.Struct`, from JSON with its members, from protobuf with its bytes in base64; and
numbers in a `Struct` are doubles.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import msgspec

from gateway.a2a import error_detail, error_kind, fault_detail
from gateway.a2a import fault as faults
from gateway.a2a.agent_error import LONGEST_MESSAGE, NOT_ACCEPTED, AgentError, read_event
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.error_detail import LONGEST_DETAILS, STRUCT, encoder
from gateway.a2a.error_kind import BODY_TOO_LARGE, BY_CODE, BY_REASON, INTERNAL_ERROR, KINDS, ErrorKind
from gateway.a2a.fault import A2A_DOMAIN, ERROR_INFO, GATEWAY_DOMAIN, Fault
from gateway.a2a.headers import Pairs
from gateway.a2a.tree import Tree

LONGEST_TRAILERS = 7 * 1024
"""Bytes of a status, as its trailers write message and details; the rest of 8 KiB is for other trailers.

Clients of gRPC's own library refuse more than 8 KiB now and then, and more than 16 KiB always.
"""
LONGEST_WRITTEN = 2 * 1024
"""Bytes of a message as a trailer writes it, most marks and all letters but those of ASCII as `%xx`."""

_LONGEST_RAW = 256 * 1024
_MOST_LOOKED_AT = 64

NAMES: Mapping[int, str] = dict(
    enumerate((
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    ))
)  # fmt: skip
"""The codes of gRPC, and what each is called."""

CODES: Mapping[str, int] = {name: code for code, name in NAMES.items()}

# One without a reason in A2A that shares its code with another; the gateway's word for it tells them apart.
_TOO_LARGE: Tree = {
    "@type": ERROR_INFO, "reason": faults.BodyTooLarge.reason.upper(), "domain": GATEWAY_DOMAIN, "metadata": {},
}  # fmt: skip


class Status(msgspec.Struct, frozen=True):
    """The status that ended a call.

    Attributes:
        code: Of gRPC; an agent's may be none that there is.
        details: A serialized `google.rpc.Status`, or empty; an agent's may be anything.
    """

    code: int
    message: str
    details: bytes = b""


# ---- Writing ---------------------------------------------------------------------------------------------------------


def of_fault(fault: Fault, *, id: str, version: Version) -> Status:  # noqa: A002 - as every refusal has it
    """The status of a fault, for a client of this version.

    Args:
        id: The request's, which the details name.
    """
    kind = BY_REASON.get(fault.a2a_reason or "")
    return _made(CODES[fault.grpc_status], fault.message, kind, fault_detail.details(fault, id), version)


def of_error(error: AgentError, version: Version) -> Status:
    """The status of an agent's error, for a client of this version."""
    error = NOT_ACCEPTED if error.challenges else error
    known = BY_CODE.get(error.code)
    details = list(error.details)
    info, told = error_detail.take_own(details)
    if known is None:
        info = error_detail.keeping(error.code)
    elif known is not told:
        info = None if known.reason is None else error_detail.bare(known)
    if known is BODY_TOO_LARGE and not any(map(_says_too_large, details)):
        info = _TOO_LARGE
    kind = known or INTERNAL_ERROR
    # One that says another thing than the code would be believed before it.
    others = [
        detail for detail in details if not _is_own(detail) and (known is BODY_TOO_LARGE or not _says_too_large(detail))
    ]
    return _made(CODES[kind.grpc_status], error.message, kind, others if info is None else [info, *others], version)


def trailers(status: Status) -> Pairs:
    """The trailers of a call that failed.

    A code that does not exist, or says that all is well, is UNKNOWN. What clients would not take is cut, or left out.
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
    """A status.

    Args:
        kind: What it is in A2A, or None where A2A has no word for it.
    """
    if version is not Version.V1_0 and kind is not None:
        message = f"{kind.name}: {message}"
    message = _cut(message)
    told = _protobuf().Status(code=code, message=message)
    room = LONGEST_TRAILERS - len(_escaped(message))
    for detail in details:
        _add(told, detail, room)
    return Status(code, message, told.SerializeToString() if told.details else b"")


def _add(told: Any, detail: Tree, room: int) -> None:  # noqa: ANN401 - protobuf ships no types
    """Add a detail to a `google.rpc.Status` if there is room for it; a reason without its metadata if need be."""
    for part in (detail, {**detail, "metadata": {}}) if detail.get("@type") == ERROR_INFO else (detail,):
        packed = _packed(part)
        if packed is None:
            return
        told.details.append(packed)
        if 4 * told.ByteSize() <= 3 * room:
            return
        del told.details[-1]


def _packed(detail: Tree) -> Any:  # noqa: ANN401 - protobuf ships no types
    """A detail as `google.protobuf.Any`, or None for what protobuf cannot say at all."""
    protobuf = _protobuf()
    if detail.get("@type") == ERROR_INFO and isinstance(detail.get("reason"), str):
        packed = protobuf.Packed()
        packed.Pack(_info(detail))
        return packed
    for whole in (detail, {"@type": STRUCT, "value": detail}):
        try:
            return protobuf.json.Parse(encoder.encode(whole), protobuf.Packed(), ignore_unknown_fields=True)
        except protobuf.json.ParseError:
            continue
    return None


def _info(detail: Tree) -> Any:  # noqa: ANN401 - protobuf ships no types
    """An `ErrorInfo`. Its metadata are strings, of which a2a-sdk makes objects on the other bindings (§4.2)."""
    domain, metadata = detail.get("domain"), detail.get("metadata")
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    return _protobuf().ErrorInfo(
        reason=_clean(detail["reason"]),
        domain=_clean(domain) if isinstance(domain, str) else "",
        metadata={
            _clean(key): _clean(value) if isinstance(value, str) else encoder.encode(value).decode()
            for key, value in pairs
        },
    )


def _is_own(detail: Tree) -> bool:
    """Whether a detail is an `ErrorInfo` of A2A, or of nobody."""
    return detail.get("@type") == ERROR_INFO and detail.get("domain") in (None, "", A2A_DOMAIN)


def _says_too_large(detail: Tree) -> bool:
    return all(detail.get(name) == _TOO_LARGE[name] for name in ("@type", "reason", "domain"))


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read(status: Status, version: Version) -> AgentError:
    """Return the error that an agent's status tells.

    Args:
        version: The agent's; in 0.3 the message tells the name of the error.
    """
    # What is behind that is cut in any case.
    message = _clean(status.message[: 2 * LONGEST_MESSAGE])
    details = _details(status.details)
    code = NAMES.get(status.code, "UNKNOWN")
    kind = _BY_WORDS.get((code, message.casefold()))
    if any(map(_says_too_large, details)):
        kind = BODY_TOO_LARGE
    if version is Version.V0_3 and (found := _NAMED.match(message)) is not None:
        named = error_kind.of_name(found[1])
        if named is not None:
            kind, message = named, message[found.end() :]
    # AIP-193 is the same in JSON, so it is read as that: the reason first, then the name, then the word of the code.
    same: Tree = {"status": code, "message": message, "details": details, "type": "" if kind is None else kind.name}
    said = read_event(encoder.encode({"error": same}), Binding.REST, version)
    error = cast("AgentError", said)  # it has an error with a status, and no depth
    return msgspec.structs.replace(error, challenges=True) if code == "UNAUTHENTICATED" else error


def _details(raw: bytes) -> tuple[Tree, ...]:
    """The typed details, those that may say which error of A2A it is before the others."""
    if not raw or len(raw) > _LONGEST_RAW:
        return ()
    protobuf = _protobuf()
    try:
        told = protobuf.Status.FromString(raw)
    except protobuf.DecodeError:
        return ()
    found: list[Tree] = []
    room = LONGEST_DETAILS
    for packed in told.details[:_MOST_LOOKED_AT]:
        size = len(packed.value)
        if packed.Is(protobuf.ErrorInfo.DESCRIPTOR):
            found.extend(_read_info(packed, whole=size <= room))
        elif packed.type_url and size <= room:
            found.append(_unpacked(packed))
        else:
            continue
        room = max(0, room - size)
    return error_detail.bounded(sorted(found, key=_is_own, reverse=True))


def _read_info(packed: Any, *, whole: bool) -> list[Tree]:  # noqa: ANN401 - protobuf ships no types
    """An `ErrorInfo`, or none where it cannot be read.

    Args:
        whole: Whether there is room for its metadata; without, only the reasons of A2A are worth anything.
    """
    protobuf = _protobuf()
    try:
        info = protobuf.ErrorInfo.FromString(packed.value)
    except protobuf.DecodeError:
        return []
    if not whole and info.reason not in BY_REASON:
        return []
    metadata = dict(info.metadata) if whole else {}
    return [{"@type": ERROR_INFO, "reason": info.reason, "domain": info.domain, "metadata": metadata}]


def _unpacked(packed: Any) -> Tree:  # noqa: ANN401 - protobuf ships no types
    """A detail as JSON has it; its bytes, where nobody here knows what they mean."""
    protobuf = _protobuf()
    try:
        return cast("Tree", protobuf.json.MessageToDict(packed))  # an object, for it has a type
    except (protobuf.DecodeError, protobuf.json.Error, TypeError, ValueError, RecursionError):
        value = b64encode(packed.value).decode("ascii")
        return {"@type": STRUCT, "value": {"@type": packed.type_url, "value": value}}


# As a2a-sdk writes it, in both generations of it.
_NAMED = re.compile(r"([A-Za-z]{1,64}Error): ")
# The usual messages, which tell apart what shares a code, as `error_kind.of_status` does for HTTP.
_BY_WORDS = {(kind.grpc_status, kind.words.casefold()): kind for kind in KINDS}


# ---- Values ----------------------------------------------------------------------------------------------------------

# What a trailer may hold as it is, beside letters and digits: all that can be seen, but `%`.
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def _escaped(message: str) -> str:
    """A message as a trailer writes it (gRPC over HTTP/2, Percent-Encoded)."""
    text = quote(message, safe=_PLAIN, errors="replace")
    # HTTP refuses values with a space at an end (RFC 9113 §8.2.1).
    inner = text.lstrip(" ")
    outer = inner.rstrip(" ")
    return "%20" * (len(text) - len(inner)) + outer + "%20" * (len(inner) - len(outer))


def _cut(message: str) -> str:
    """As much of a message as there is room for, cut between characters."""
    message = _clean(message[: LONGEST_WRITTEN + 1])
    if len(_escaped(message)) <= LONGEST_WRITTEN:
        return message
    room = LONGEST_WRITTEN - len(_escaped("…"))
    kept = 0
    while (room := room - len(_escaped(message[kept]))) >= 0:
        kept += 1
    return message[:kept] + "…"


def _clean(text: str) -> str:
    """A text that is UTF-8, whatever it was."""
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
        # Once it is imported, what is of its type can be packed.
        Struct=struct_pb2.Struct,
        DecodeError=message.DecodeError,
        json=json_format,
    )
