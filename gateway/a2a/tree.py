"""A JSON object whose members are not known beforehand, and the strict way to read one."""

import json
import math
import re
from typing import Any, NoReturn

import msgspec

Tree = dict[str, Any]
"""A JSON object as Python values: dict, list, str, int, float, bool, None."""

MAX_DEPTH = 64
MAX_PARTS = 20_000
"""Most strings, lists and objects of a document together, names of members included: each costs the reader time."""

# Strings are skipped whole, and one that never ends reaches to the end of the text, so that the scan stays linear.
_BRACKET_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|[\[\]{}]', re.DOTALL)


class TreeInvalid(ValueError):  # noqa: N818 - named after what is wrong, as every refusal here
    """Bytes that are no strict JSON object; the text says why, for operators."""


def parse_tree(raw: bytes, *, max_bytes: int, max_depth: int = MAX_DEPTH) -> Tree:
    """Read one JSON object, refusing whatever two parsers could read differently.

    Refused are other encodings than UTF-8, a byte order mark, a member named twice, NaN and infinities, integers
    beyond 64 bits, lone surrogates, nesting deeper than `max_depth`, and more than `MAX_PARTS` strings, lists and
    objects (both found before anything is built).

    Raises:
        TreeInvalid: it is not such an object.
    """
    if len(raw) > max_bytes:
        raise TreeInvalid(f"longer than {max_bytes} bytes")
    _refuse_shape(raw, max_depth)
    try:
        # bytes.decode, not json's own guess: json reads UTF-16 and UTF-32 too.
        value = _DECODER.decode(raw.decode("utf-8", errors="strict"))
    except UnicodeDecodeError as error:
        raise TreeInvalid("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise TreeInvalid(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    if not isinstance(value, dict):
        raise TreeInvalid("not a JSON object")
    # Only an escape can bring a lone surrogate in, and no UTF-8 can carry it out again.
    if b"\\u" in raw:
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError as error:
            raise TreeInvalid("a string holds half a surrogate pair") from error
    return value


def _refuse_shape(raw: bytes, max_depth: int) -> None:
    depth = parts = 0
    for found in _BRACKET_OR_STRING.finditer(raw):
        first = raw[found.start()]
        if first in b"]}":
            depth -= 1
            continue
        parts += 1
        if parts > MAX_PARTS:
            raise TreeInvalid(f"made of more than {MAX_PARTS} strings, lists and objects")
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise TreeInvalid(f"nested deeper than {max_depth} levels")


def _once(pairs: list[tuple[str, Any]]) -> Tree:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise TreeInvalid(f"member {name[:64]!r} is named twice")
            seen.add(name)
    return tree


def _integer(text: str) -> int:
    # 20 characters hold every 64-bit integer; the length comes first, since int() of a megabyte is slow.
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**64:
        raise TreeInvalid("an integer beyond 64 bits")
    return number


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise TreeInvalid("a number beyond the range of doubles")
    return number


def _constant(text: str) -> NoReturn:
    raise TreeInvalid(f"{text} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_int=_integer, parse_float=_float, parse_constant=_constant)
