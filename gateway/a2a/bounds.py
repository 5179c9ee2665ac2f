"""What a JSON document may hold, measured before anything of it is built (safety H10).

What is measured is the skeleton: the document with each string as one quote, so that no bracket, colon or digit inside
a string counts. Of a valid document the skeleton tells exactly how deep it nests and how many members and elements it
has; one that is not valid the parser refuses afterwards. A long body is gone through in slices: between two of them
another thread may run, for no call here holds the interpreter for longer than a slice takes.
"""

import math
from dataclasses import dataclass
from itertools import accumulate

from gateway.a2a.fault import BadRequest, UpstreamProtocol

SLICE = 256 * 1024
"""Bytes that are looked at in one go."""
LONGEST_NUMBER = 512
"""Characters of a number; the largest that a double holds has 309 digits before its point."""


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """How much structure a body may have.

    Attributes:
        depth: How deep it may nest.
        members: How many members all its objects may have together.
        elements: How many elements all its arrays may have together. They cost the gateway little, but an agent that
            builds a protobuf value of each pays a hundred times the price of reading them.
    """

    depth: int = 64
    members: int = 10_000
    elements: int = 100_000


BOUNDS = BodyBounds()
"""The defaults, for documents that no configuration bounds."""
_SHORT_FRAME = 4 * 1024 * 1024
"""Bytes of an agent's frame up to which it may have as many values as fit into it."""
_OF_LONG_FRAME = BodyBounds(depth=1 << 62, members=2_000_000, elements=4_000_000)
"""Those of a longer one: a member of eight bytes is read into some two hundred. How deep it nests the parser bounds."""


def skeleton(body: bytes, bounds: BodyBounds) -> bytes:
    """The document without what its strings say, once it has proven to be within bounds.

    Raises:
        BadRequest: it nests too deep, or has too many members or elements.
    """
    found = _of_slice(body) if len(body) <= SLICE else _of_slices(body, 4 * bounds.members + 2 * bounds.elements)
    size = len(found)
    if size > bounds.members and found.count(b":") > bounds.members:
        raise BadRequest(f"the body has more than {bounds.members} members")
    containers = found.count(b"[") + found.count(b"{")
    if size > bounds.elements:
        # What stands in a container: what follows a comma, and what is first. What has a name is no element.
        elements = found.count(b",") + containers - found.count(b":")
        if elements > bounds.elements and elements - _empty(found) > bounds.elements:
            raise BadRequest(f"the body has more than {bounds.elements} array elements")
    if containers > bounds.depth:
        steps = memoryview(found.translate(_STEPS, _NO_BRACKET)).cast("b")
        if max(accumulate(steps), default=0) > bounds.depth:
            raise BadRequest(f"the body nests deeper than {bounds.depth} levels")
    return found


def refuse_crowd(frame: bytes) -> None:
    """Refuse a long frame of an agent's with so many values that to read it takes many times its length.

    Raises:
        UpstreamProtocol: it has more than `_OF_LONG_FRAME` allows.
    """
    if len(frame) <= _SHORT_FRAME:
        return
    try:
        skeleton(frame, _OF_LONG_FRAME)
    except BadRequest as error:
        words = "the agent's answer has too many values"
        raise UpstreamProtocol(words, detail=error.message) from error


def refuse_numbers(found: bytes) -> None:
    """Refuse a number that not every reader can hold: a double makes it infinite, or its digits cost too much.

    Args:
        found: The skeleton of a valid document.

    Raises:
        BadRequest: a number is beyond a double, has an exponent of four digits or is longer than `LONGEST_NUMBER`.
    """
    shape = found.translate(_SHAPE, b"+-")
    if b"0e000" not in shape and (len(shape) < _HARMLESS or _LONG not in shape):
        return
    if b"0e0000" in shape:
        raise BadRequest("a number has an exponent of more than three digits")
    numbers = found.translate(_NUMBERS).split()
    if max(map(len, numbers)) > LONGEST_NUMBER:
        raise BadRequest(f"a number has more than {LONGEST_NUMBER} characters")
    long = [number for number in numbers if len(number) > _SHORT]
    if math.inf in map(abs, map(float, long)):
        raise BadRequest("a number is larger than a double can hold")


def _of_slice(body: bytes) -> bytes:
    return b'"'.join(_unescaped(body).split(b'"')[::2])


def _of_slices(body: bytes, quotes: int) -> bytes:
    """As `_of_slice`, of a body that is longer.

    Args:
        quotes: The most that a document within bounds can have; more are not gone through.
    """
    pieces: list[bytes] = []
    inside, carry = False, b""
    for start in range(0, len(body), SLICE):
        piece = carry + body[start : start + SLICE]
        carry = b""
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            # What the last backslash escapes is in the next slice.
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
    """The piece with space for escaped backslashes and quotes; the former first, so that one before a quote escapes it.

    As long as before, because that is twice as fast.
    """
    return piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in piece else piece


def _empty(found: bytes) -> int:
    """How many containers have nothing in them."""
    closed = found.translate(None, b" \t\r\n")
    return closed.count(b"[]") + closed.count(b"{}")


def _table(blank: bytes, **kinds: bytes) -> bytes:
    """A translation that makes of each kind's bytes the kind's letter, and of all others `blank`."""
    table = bytearray(blank * 256)
    for letter, members in kinds.items():
        for byte in members:
            table[byte] = ord(letter.strip("_"))
    return bytes(table)


# Brackets as steps down (1) and up (-1 as a signed byte).
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")
# Digits and points as 0, exponents as e, signs left out: an exponent of three digits is `0e000`.
_SHAPE = _table(b" ", _0=b"0123456789.", e=b"eE")
# Everything but numbers as space. What `true` and `false` leave of themselves is an `e` alone.
_NUMBERS = bytes(byte if byte in b"0123456789+-.eE" else 0x20 for byte in range(256))
# With fewer characters, and an exponent of two digits at most, a number is below 1e300.
_HARMLESS = 200
_LONG = b"0" * _HARMLESS
# 1e309 has five characters.
_SHORT = 4
