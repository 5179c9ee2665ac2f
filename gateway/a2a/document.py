"""One JSON document, peeked at: its members are found, and what nobody needs to read stays bytes.

A routing decision is made on one reading, so a document that two parsers could read in two ways is refused: a member
named twice (most parsers keep the last, some the first) and, where a member decides the route, the same name in
another case (Go's parser takes it). The check is for the objects that are opened here, never inside metadata or data.
Nesting and the number of members are bounded before anything is built (safety H10).
"""

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import TypeAlias

import msgspec

from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed

Raw: TypeAlias = msgspec.Raw
Members: TypeAlias = dict[str, msgspec.Raw]

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()

MAX_DEPTH = 64
"""How deep a body may nest."""
MAX_MEMBERS = 10_000
"""How many members all objects of a body may have together."""

_TELLING = {
    name.casefold(): name
    for name in (
        "jsonrpc", "id", "method", "params", "tenant", "message", "request", "configuration", "taskId", "task_id",
        "contextId", "context_id", "referenceTaskIds", "reference_task_ids", "pushNotificationConfigId", "sessionId",
        "taskPushNotificationConfig", "task_push_notification_config", "role", "scope",
    )
}  # fmt: skip
_EXACT = frozenset(_TELLING.values())


def open_body(body: bytes) -> Members:
    """The members of a whole body, which must be one JSON object in strict UTF-8.

    Raises:
        ParseFailed: it is no JSON (an empty body, a byte-order mark, UTF-16, `NaN`, half a surrogate pair).
        BadRequest: it is JSON, but no object (a batch is one such), or beyond `MAX_DEPTH` or `MAX_MEMBERS`.
        DuplicateKey: a member stands twice, or a telling one in another case.
    """
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise ParseFailed("the body is not UTF-8") from error
    _refuse_excess(body)
    try:
        members = _object.decode(body)
    except msgspec.ValidationError as error:
        if body.lstrip()[:1] == b"[":
            raise BadRequest("batch requests are not supported: send one request") from error
        raise BadRequest("the body is not a JSON object") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ParseFailed("the body is not valid JSON") from error
    _refuse_twins(body, members)
    return members


def open_object(raw: msgspec.Raw, name: str) -> Members:
    """The members of a value that must be an object.

    Raises:
        BadParams: it is none.
        DuplicateKey: as `open_body`.
    """
    try:
        members = _object.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadParams(f"{name} must be an object") from error
    _refuse_twins(bytes(raw), members)
    return members


def text(members: Members, key: str) -> str | None:
    """A member that must be a string; None where it is absent, null or empty (ProtoJSON: unset).

    Raises:
        BadParams: it is of another type.
    """
    raw = members.get(key)
    if raw is None or raw == _NULL:
        return None
    try:
        return _string.decode(raw) or None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParams(f"{key} must be a string") from error


def write(members: Mapping[str, msgspec.Raw | str]) -> bytes:
    """The object again, each value's bytes as they came."""
    return _encoder.encode(members)


_NULL = msgspec.Raw(b"null")


_SHORTEST_MEMBER = 4
# Brackets as steps down (1) and up (-1 as a signed byte).
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _refuse_excess(body: bytes) -> None:
    """Refuse what nests too deep or has too many members; a small body shows by its length and a count that it has not.

    Raises:
        BadRequest: it does.
    """
    many = len(body) > MAX_MEMBERS * _SHORTEST_MEMBER and body.count(b":") > MAX_MEMBERS
    if not many and body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    structure = body
    if b"\\" in body:
        # Escaped backslashes go first, so that a backslash before a quote escapes it.
        structure = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = b"".join(structure.split(b'"')[::2])
    if many and structure.count(b":") > MAX_MEMBERS:
        raise BadRequest(f"the body has more than {MAX_MEMBERS} members")
    steps = memoryview(structure.translate(_STEPS, _NO_BRACKET)).cast("b")
    if max(accumulate(steps), default=0) > MAX_DEPTH:
        raise BadRequest(f"the body nests deeper than {MAX_DEPTH} levels")


def _refuse_twins(raw: bytes, members: Members) -> None:
    spent = 1
    for key, value in members.items():
        spent += len(key.encode()) + len(value) + 4
        # Case as Go folds it: the long s and the Kelvin sign are letters of `params` and `taskId` to its parser.
        if key not in _EXACT and (exact := _TELLING.get(key.casefold())) is not None:
            raise DuplicateKey(f"a member is named like {exact!r} in another case")
    # Compact documents prove themselves: two braces, a comma between members, a colon and two quotes each, and no
    # byte left over for a member that was dropped. Others (with space, or escapes in names) are walked through.
    if members and spent != len(raw) and not _is_all(raw, members):
        raise DuplicateKey("a member stands twice in one object")


_NAME = re.compile(rb'[ \t\r\n]*[{,][ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*')
_END = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")


def _is_all(raw: bytes, members: Members) -> bool:
    """Whether the object is written as these members in this order, with nothing but space between them.

    The parser keeps the place of the first of two equal names and the value of the last. The object is valid, so where
    a name is expected stands a name, and a value that is found there is the whole value or the start of a number.
    """
    position = 0
    for key, value in members.items():
        name = _NAME.match(raw, position)
        if name is None:
            return False
        written, position = name[1], name.end()
        if written[1:-1] != key.encode() and _string.decode(written) != key:
            return False
        if not raw.startswith(value, position):
            return False
        position += len(value)
    return _END.fullmatch(raw, position) is not None
