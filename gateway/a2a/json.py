"""The one strict JSON reader: documents peeked at, values read whole, members replaced.

A routing decision is made on one reading, so a document that two parsers could read in two ways is refused: a duplicate
member (most parsers keep the last, some the first), a routing member in another spelling (Go's parser ignores case,
others accept `task-id`), or a name that some parsers cut or treat as special. The check covers the objects that are
opened here, never metadata or data. All of a client's body is strict JSON (RFC 8259) in UTF-8 within `BodyBounds`,
without numbers beyond a double.

Bounds are measured before anything is built (safety H10), on the skeleton of the document: each string reduced to one
quote, so that no bracket, colon or digit inside a string counts. A document that is not valid JSON is refused by the
parser afterwards. A long body is reduced in slices, which bounds the memory that it takes.
"""

import codecs
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias

import msgspec

from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed, UpstreamProtocol

Raw: TypeAlias = msgspec.Raw
Members: TypeAlias = dict[str, msgspec.Raw]
Tree: TypeAlias = dict[str, Any]
"""A JSON object as Python values: dict, list, str, int, float, bool, None."""

SLICE = 256 * 1024
"""Bytes that are processed at a time."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of a decoder for bytes that are not JSON, or not of its type."""
_NULL = msgspec.Raw(b"null")
decode_members = msgspec.json.Decoder(Members).decode
"""Returns the members of an object, each as its bytes came; of two with one name the last."""
decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""Returns the elements of a list likewise."""
_string = msgspec.json.Decoder(str)
_value = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


# ---- Peek: open an object, leave its values as bytes -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The most structure that a body may have.

    Attributes:
        depth: Levels of nesting.
        members: Members of all its objects together.
        elements: Elements of all its arrays together. They cost the gateway little, but an agent that builds a protobuf
            value of each pays a hundred times the price of reading them.
    """

    depth: int = 64
    members: int = 10_000
    elements: int = 100_000


BOUNDS = BodyBounds()
"""The defaults, for documents that no configuration bounds."""


def open_body(body: bytes, bounds: BodyBounds = BOUNDS) -> Members:
    """Return the members of a whole body, which must be one JSON object in strict UTF-8.

    Raises:
        ParseFailed: it is no JSON (an empty body, a byte-order mark, UTF-16, `NaN`, half a surrogate pair).
        BadRequest: it is JSON but no object (a batch, for example), or beyond the bounds.
        DuplicateKey: a member is a duplicate, or a routing member in another spelling.
    """
    if not is_utf8(body):
        raise ParseFailed("the body is not UTF-8")
    outline = skeleton(body, bounds)
    try:
        members = decode_members(body)
    except msgspec.ValidationError as error:
        if body.lstrip()[:1] == b"[":
            raise BadRequest("batch requests are not supported: send one request") from error
        raise BadRequest("the body is not a JSON object") from error
    except UNREADABLE as error:
        raise ParseFailed("the body is not valid JSON") from error
    refuse_numbers(outline)
    _refuse_ambiguity(body, members)
    return members


def open_object(raw: msgspec.Raw, name: str) -> Members:
    """Return the members of a value of an opened body that must be an object.

    Raises:
        BadParams: it is not an object.
        DuplicateKey: as `open_body`.
    """
    try:
        members = decode_members(raw)
    except UNREADABLE as error:
        raise BadParams(f"{name} must be an object") from error
    _refuse_ambiguity(raw, members)
    return members


def text(members: Members, key: str) -> str | None:
    """Return a member that must be a string; None where it is absent, null or empty (ProtoJSON: unset).

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


def is_utf8(data: bytes) -> bool:
    """Return whether the bytes are UTF-8; the parser does not check strings that it skips."""
    if data.isascii():
        return True
    # In slices, because decoded text takes up to four times the bytes.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), SLICE):
            decoder.decode(data[start : start + SLICE], final=start + SLICE >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def has_twins(raw: bytes | msgspec.Raw, members: Members) -> bool:
    """Return whether an object that was read as these members has one of them twice.

    A dropped member makes the object longer than its members written again; so do space and escapes in names.
    """
    if len(_encoder.encode(members)) == len(raw):
        return False
    compact = msgspec.json.format(bytes(raw), indent=-1)
    if len(_encoder.encode(decode_members(compact))) == len(compact):
        return False
    try:
        pairs = _PAIRS.decode(compact.decode())
    except RecursionError:
        return True
    return len(pairs) != len(members)


_PAIRS = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str)
_ROUTING = frozenset({
    "jsonrpc", "id", "method", "params", "tenant", "message", "request", "configuration", "taskId", "task_id",
    "contextId", "context_id", "referenceTaskIds", "reference_task_ids", "pushNotificationConfigId",
    "push_notification_config_id", "sessionId", "session_id", "taskPushNotificationConfig",
    "task_push_notification_config", "pushNotificationConfig", "push_notification_config", "pushNotification",
    "push_notification", "config", "configId", "config_id", "name", "parent", "role", "scope", "url",
    "token", "authentication",
})  # fmt: skip
_KNOWN = _ROUTING | {
    "messageId", "parts", "metadata", "extensions", "acceptedOutputModes", "historyLength", "returnImmediately",
    "blocking", "kind", "result", "error",
}  # fmt: skip
"""Names that all parsers read as the same name."""


def _folded(name: str) -> str:
    """Return a name in the one spelling that the most lenient parser would see."""
    # Case as Go folds it: the long s and the Kelvin sign are letters of `params` and `taskId` to its parser.
    return name.casefold().replace("_", "").replace("-", "")


_BY_FOLDED = {_folded(name): name for name in sorted(_ROUTING)}


def _refuse_ambiguity(raw: bytes | msgspec.Raw, members: Members) -> None:
    for key in members.keys() - _KNOWN:
        folded = _folded(key)
        if (exact := _BY_FOLDED.get(folded)) is not None:
            raise DuplicateKey(f"a member has the name {exact!r} in another spelling")
        if "pushnotification" in folded:
            # A plural, or another generation's word: an agent may or may not find a webhook in it.
            raise DuplicateKey("a member has the name of a push configuration in another spelling")
        # In C a name may end at its first NUL; in JavaScript this one is the object's prototype.
        if "\0" in key or key == "__proto__":
            raise DuplicateKey("a member has a name that stands for another to some parsers")
    # As `has_twins`, which would be a call for each object of nearly every request.
    if len(_encoder.encode(members)) != len(raw) and has_twins(raw, members):
        raise DuplicateKey("a member stands twice in one object")


# ---- Value: read and write a whole value -----------------------------------------------------------------------------


def read(raw: msgspec.Raw) -> Any:  # noqa: ANN401 - any JSON
    """Return a value as a tree; numbers that are not integers keep their digits.

    Raises:
        ParseFailed: it is not JSON, or has a number that no type can hold.
    """
    try:
        return _value.decode(raw)
    except (*UNREADABLE, ArithmeticError) as error:
        raise ParseFailed("the body is not valid JSON") from error


write = _encoder.encode
"""Return a tree, or members, as bytes; every number has the digits that it came with."""


class TreeInvalid(ValueError):  # noqa: N818 - named after what is wrong, like the faults
    """Bytes that are not a strict JSON object; the text says why, for operators."""


MAX_DEPTH = 64
MAX_PARTS = 20_000
"""Most members, and most elements, of a tree: each costs the reader time."""


def on_one_line(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a tree as it is, and raw JSON on one line, as an event needs it.

    Raises:
        UpstreamProtocol: it is nested too deeply.
    """
    if isinstance(value, msgspec.Raw):
        written = bytes(value)
        if b"\n" in written or b"\r" in written:
            try:
                return msgspec.Raw(msgspec.json.format(written, indent=-1))
            except RecursionError as error:
                raise UpstreamProtocol("the agent's event is nested too deeply") from error
    return value


def parse_tree(raw: bytes, *, max_bytes: int, max_depth: int = MAX_DEPTH) -> Tree:
    """Read one JSON object, refusing everything that two parsers could read differently.

    Refused are other encodings than UTF-8, a byte order mark, a member named twice anywhere, NaN and infinities,
    integers beyond 64 bits, lone surrogates, nesting deeper than `max_depth`, and more than `MAX_PARTS` values.

    Raises:
        TreeInvalid: it is not such an object.
    """
    if len(raw) > max_bytes:
        raise TreeInvalid(f"longer than {max_bytes} bytes")
    try:
        skeleton(raw, BodyBounds(max_depth, MAX_PARTS, MAX_PARTS))
        # bytes.decode, not json's own guess: json reads UTF-16 and UTF-32 too.
        value = _TREE.decode(raw.decode("utf-8"))
    except BadRequest as error:
        raise TreeInvalid(error.message) from error
    except UnicodeDecodeError as error:
        raise TreeInvalid("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise TreeInvalid(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    if not isinstance(value, dict):
        raise TreeInvalid("not a JSON object")
    # Only an escape can produce a lone surrogate, which UTF-8 cannot encode.
    if b"\\u" in raw:
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError as error:
            raise TreeInvalid("a string holds half a surrogate pair") from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> Tree:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise TreeInvalid(f"member {twice[:64]!r} is named twice")
    return tree


def _integer(digits: str) -> int:
    # 20 characters hold every 64-bit integer; the length comes first, since int() of a megabyte is slow.
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**64:
        raise TreeInvalid("an integer beyond 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise TreeInvalid("a number beyond the range of doubles")
    return number


def _constant(word: str) -> NoReturn:
    raise TreeInvalid(f"{word} is no JSON")


_TREE = json.JSONDecoder(object_pairs_hook=_once, parse_int=_integer, parse_float=_float, parse_constant=_constant)


# ---- Edit: replace one member ----------------------------------------------------------------------------------------


def put(raw: bytes | msgspec.Raw, path: Sequence[str], value: bytes | None) -> bytes:
    """Return an object with another value at a path, or without that member; all other values keep their bytes.

    Args:
        raw: An object that was opened here along the path, or was written by the gateway.
        path: Names of members, outermost first. A missing or null object on the path is created.
        value: JSON; None to remove the member.
    """
    members = decode_members(raw)
    name, *below = path
    if below:
        inside = members.get(name, _NULL)
        value = put(b"{}" if inside == _NULL else inside, below, value)
    if value is None:
        members.pop(name, None)
        return _encoder.encode(members)
    # A new member comes first.
    written = msgspec.Raw(value)
    return _encoder.encode(members | {name: written} if name in members else {name: written, **members})


# ---- Bounds ----------------------------------------------------------------------------------------------------------

_LONGEST_NUMBER = 512
"""Characters of a number; the largest that a double holds has 309 digits before its point."""
_SHORT_FRAME = 4 * 1024 * 1024
"""Bytes of an agent's frame up to which it may have as many values as fit into it."""
_OF_LONG_FRAME = BodyBounds(depth=1 << 62, members=2_000_000, elements=4_000_000)
"""The bounds of a longer frame: a member of eight bytes becomes some two hundred. The parser bounds the depth."""


def skeleton(body: bytes, bounds: BodyBounds) -> bytes:
    """Return the document with each string reduced to one quote.

    Raises:
        BadRequest: it nests too deep, or has too many members or elements.
    """
    outline = _without_strings(body, 4 * bounds.members + 2 * bounds.elements)
    size = len(outline)
    if size > bounds.members and outline.count(b":") > bounds.members:
        raise BadRequest(f"the body has more than {bounds.members} members")
    containers = outline.count(b"[") + outline.count(b"{")
    if size > bounds.elements:
        # In a container there is a first value, and one after each comma. A value with a name is no element.
        elements = outline.count(b",") + containers - outline.count(b":")
        if elements > bounds.elements and elements - _empty(outline) > bounds.elements:
            raise BadRequest(f"the body has more than {bounds.elements} array elements")
    if containers > bounds.depth:
        steps = memoryview(outline.translate(_STEPS, _NO_BRACKET)).cast("b")
        if max(accumulate(steps), default=0) > bounds.depth:
            raise BadRequest(f"the body nests deeper than {bounds.depth} levels")
    return outline


def refuse_crowd(frame: bytes) -> None:
    """Refuse a long frame of an agent's with so many values that reading it takes many times its length.

    Raises:
        UpstreamProtocol: it has more than `_OF_LONG_FRAME` allows.
    """
    if len(frame) <= _SHORT_FRAME:
        return
    try:
        skeleton(frame, _OF_LONG_FRAME)
    except BadRequest as error:
        raise UpstreamProtocol("the agent's answer has too many values", detail=error.message) from error


def refuse_numbers(outline: bytes) -> None:
    """Refuse a number that not every reader can hold: a double makes it infinite, or its digits cost too much.

    Args:
        outline: The skeleton of a valid document.

    Raises:
        BadRequest: a number is beyond a double, has an exponent of four digits or is longer than `_LONGEST_NUMBER`.
    """
    shape = outline.translate(_SHAPE, b"+-")
    if b"0e000" not in shape and (len(shape) < _HARMLESS or _LONG not in shape):
        return
    if b"0e0000" in shape:
        raise BadRequest("a number has an exponent of more than three digits")
    numbers = outline.translate(_NUMBERS).split()
    if max(map(len, numbers)) > _LONGEST_NUMBER:
        raise BadRequest(f"a number has more than {_LONGEST_NUMBER} characters")
    # 1e309 has five characters.
    long = [number for number in numbers if len(number) > 4]
    if math.inf in map(abs, map(float, long)):
        raise BadRequest("a number is larger than a double can hold")


def _without_strings(body: bytes, quotes: int) -> bytes:
    """Return the skeleton, slice by slice.

    Args:
        quotes: The most quotes that a document within bounds can have; a long body with more is not read on.
    """
    if len(body) <= SLICE:
        return b'"'.join(_unescaped(body).split(b'"')[::2])
    pieces: list[bytes] = []
    inside, carry = False, b""
    for start in range(0, len(body), SLICE):
        piece = carry + body[start : start + SLICE]
        carry = b""
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            # The character that the last backslash escapes is in the next slice.
            piece, carry = piece[:-1], b"\\"
        texts = _unescaped(piece).split(b'"')
        quotes -= len(texts) - 1
        if quotes < 0:
            raise BadRequest("the body has too many members or array elements")
        pieces.append(b'"'.join(texts[inside::2]))
        inside ^= len(texts) % 2 == 0
        if inside and len(texts) > 1:
            # The string that this slice opened and did not close.
            pieces.append(b'"')
    return b"".join(pieces)


def _unescaped(piece: bytes) -> bytes:
    """Return the piece with spaces for escaped backslashes, then for escaped quotes; same length, which is faster."""
    return piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in piece else piece


def _empty(outline: bytes) -> int:
    """Return the number of empty containers."""
    closed = outline.translate(None, b" \t\r\n")
    return closed.count(b"[]") + closed.count(b"{}")


def _table(kinds: Mapping[str, bytes]) -> bytes:
    """Return a translation table of each kind's bytes to its letter, and of all other bytes to a space."""
    table = bytearray(b" " * 256)
    for letter, members in kinds.items():
        for byte in members:
            table[byte] = ord(letter)
    return bytes(table)


# Brackets as steps down (1) and up (-1 as a signed byte).
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")
# Digits and points as 0, exponents as e, signs left out: an exponent of three digits is `0e000`.
_SHAPE = _table({"0": b"0123456789.", "e": b"eE"})
# Everything but numbers as space. `true` and `false` leave an `e` alone.
_NUMBERS = bytes(byte if byte in b"0123456789+-.eE" else 0x20 for byte in range(256))
# With fewer characters, and an exponent of two digits at most, a number is below 1e300.
_HARMLESS = 200
_LONG = b"0" * _HARMLESS
