"""The typed details of an error (`google.rpc.Status`, AIP-193), read from whatever an agent has in their place.

1.0 has an array of objects with an `@type`. Agents of 0.3 have anything, and a2a-sdk's have pydantic's findings: what
has no type goes into a `google.protobuf.Struct`, so that nothing is lost on readers of 1.0.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from gateway.a2a import error_kind
from gateway.a2a.dialect import Version
from gateway.a2a.error_kind import BY_REASON, INTERNAL_ERROR, ErrorKind
from gateway.a2a.fault import A2A_DOMAIN, BAD_REQUEST, ERROR_INFO
from gateway.a2a.tree import Tree

MOST_DETAILS = 16
LONGEST_DETAILS = 16 * 1024
"""Bytes of all of them together, as they are written."""
DEEPEST_DETAIL = 32
"""Levels of objects and lists."""
STRUCT = "type.googleapis.com/google.protobuf.Struct"

# What is not even looked at. White space and escapes seldom make four times as much of what would be kept.
_LONGEST_RAW = 4 * LONGEST_DETAILS
_LONGEST_ARRAY = 4 * _LONGEST_RAW
_MOST_LOOKED_AT = 4 * MOST_DETAILS

# Where HTTP+JSON, which has no place for it, keeps a code that only the agent knows.
_OWN_CODE = "jsonrpcCode"


def read(raw: msgspec.Raw) -> list[Tree]:
    """The typed objects of `details` or `data`."""
    if not raw or len(raw) > _LONGEST_ARRAY:
        return []
    try:
        elements = _array.decode(raw) if bytes(raw).startswith(b"[") else [raw]
    except (msgspec.DecodeError, RecursionError):
        return []
    typed: list[Tree] = []
    loose: list[object] = []
    for element in elements[:_MOST_LOOKED_AT]:
        found = _value(element)
        if found is msgspec.UNSET:
            found = _salvaged(element)
        if isinstance(found, dict) and found.get("@type") and isinstance(found["@type"], str):
            typed.append(found)
        elif found is not msgspec.UNSET and found not in (None, "", [], {}):
            loose.append(found)
    if loose:
        only = loose[0] if len(loose) == 1 else None
        typed.append({"@type": STRUCT, "value": only if isinstance(only, dict) else {"value": loose}})
    return typed


def violations(raw: msgspec.Raw) -> list[Tree]:
    """The `errors` of a problem, as `google.rpc.BadRequest`."""
    errors = _value(raw)
    if not isinstance(errors, list):
        return []
    found = [
        {"field": error["field"], "description": error["message"]}
        for error in errors
        if isinstance(error, dict) and isinstance(error.get("field"), str) and isinstance(error.get("message"), str)
    ]
    return [{"@type": BAD_REQUEST, "fieldViolations": found}] if found else []


def given(raw: msgspec.Raw) -> object:
    """What `data` holds, for readers of older generations; `msgspec.UNSET` where it is none, or beyond the bounds."""
    found = _value(raw)
    return msgspec.UNSET if found is None else found


def bare(kind: ErrorKind) -> Tree:
    """The `ErrorInfo` of an error."""
    return {"@type": ERROR_INFO, "reason": kind.reason, "domain": A2A_DOMAIN, "metadata": {}}


def take_own(details: list[Tree]) -> tuple[Tree | None, ErrorKind | None]:
    """Take A2A's own `ErrorInfo` out of the details, wherever it is (a2a-go has it last), and what it means."""
    for position, detail in enumerate(details):
        if detail["@type"] != ERROR_INFO or detail.get("domain") not in (None, "", A2A_DOMAIN):
            continue
        reason = detail.get("reason")
        if isinstance(reason, str) and (kind := BY_REASON.get(reason)) is not None:
            del details[position]
            whole = {**detail, "domain": A2A_DOMAIN}
            size = _size(whole)
            return (whole if size is not None and size <= LONGEST_DETAILS else bare(kind)), kind
    return None, None


def keeping(code: int) -> Tree:
    """The `ErrorInfo` of an error that is none of A2A's, with its code."""
    return {**bare(INTERNAL_ERROR), "metadata": {_OWN_CODE: str(code)}}


def kept_code(info: Tree) -> int | None:
    """The code that such an `ErrorInfo` keeps, or None."""
    metadata = info.get("metadata")
    text = metadata.get(_OWN_CODE) if isinstance(metadata, dict) else None
    code = integer(text.encode()) if isinstance(text, str) else None
    return None if code is None or error_kind.of_code(code, Version.V1_0) is not None else code


def bounded(details: Iterable[Tree]) -> tuple[Tree, ...]:
    """Those of the details for which there is room, the first before the others."""
    kept: list[Tree] = []
    room = LONGEST_DETAILS
    for detail in details:
        size = _size(detail)
        if size is not None and size <= room:
            kept.append(detail)
            room -= size
            if len(kept) == MOST_DETAILS:
                break
    return tuple(kept)


def integer(raw: bytes | msgspec.Raw) -> int | None:
    """A number of 32 bits, as all SDKs can hold it, or None."""
    found = _INTEGER.fullmatch(raw)
    number = 0 if found is None else int(found[2])
    return number if found is not None and -(2**31) <= number < 2**31 else None


# Some write it as a fraction or as a string.
_INTEGER = re.compile(rb'("?)(-?\d{1,10})(?:\.0{1,10})?\1')


def _value(raw: msgspec.Raw) -> object:
    """What a member holds, or `msgspec.UNSET` where it is absent, beyond the bounds, or no JSON."""
    if len(raw) > _LONGEST_RAW:
        return msgspec.UNSET
    try:
        found: object = _any.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.UNSET
    size = _size(found)
    return msgspec.UNSET if size is None or size > LONGEST_DETAILS else found


def _size(whole: object) -> int | None:
    """How many bytes a value takes, or None for one that is too deep."""
    level: list[object] = [whole]
    for _ in range(DEEPEST_DETAIL):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return len(encoder.encode(whole))
    return None


def _children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return parent.values()
    return parent if isinstance(parent, list) else ()


class _Info(msgspec.Struct):
    """What matters of an `ErrorInfo`, in which some have much more."""

    type: str = msgspec.field(default="", name="@type")
    reason: str = ""
    domain: str = ""


def _salvaged(raw: msgspec.Raw) -> object:
    """The reason alone, of an `ErrorInfo` that is too much as a whole; `msgspec.UNSET` where it is none of A2A's."""
    try:
        found = _info.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.UNSET
    if found.type != ERROR_INFO or found.reason not in BY_REASON:
        return msgspec.UNSET
    return {"@type": ERROR_INFO, "reason": found.reason, "domain": found.domain, "metadata": {}}


def _number(text: str) -> Decimal:
    """A number as it is written, if a double can hold it."""
    try:
        number = Decimal(text)
    except ArithmeticError as error:
        raise ValueError("an exponent beyond all numbers") from error
    if not math.isfinite(float(text)):
        raise ValueError("a number larger than a double can hold")
    return number


encoder = msgspec.json.Encoder(decimal_format="number")
"""Writes what is read here, numbers digit by digit."""

_any = msgspec.json.Decoder(float_hook=_number)
_array = msgspec.json.Decoder(list[msgspec.Raw])
_info = msgspec.json.Decoder(_Info)
