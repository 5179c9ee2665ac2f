"""Parameters that HTTP+JSON writes into path and query (1.0 §11.3, §11.5): texts there, typed everywhere else.

Names are camelCase; snake_case is read too, since ProtoJSON has both. Servers differ in what they do with a value that
they cannot read (protocol §8.3: some drop the filter and return everything), so it is refused here. Names that the
protocol does not know are left out, and none that it knows is a list.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote_plus

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.paths import decode_id, encode_id
from gateway.a2a.task_state import HUB_STATES


def read_query(operation: Operation, query: bytes) -> dict[str, Any]:
    """Return the parameters in a query, under their names of 1.0; one without a value is unset.

    Args:
        query: The query that `params.split_query` returned.

    Raises:
        BadParams: a value is not of its parameter's type, or differs under two names of one parameter.
    """
    fields = _BY_NAME.get(operation)
    found: dict[str, Any] = {}
    if not query or fields is None:
        return found
    for pair in query.split(b"&"):
        name, _, raw = pair.decode("ascii").partition("=")
        field = fields.get(name)
        if field is None or not raw:
            continue
        value = field.kind.read(unquote_plus(raw))
        if value is None:
            raise BadParams(f"{name} {field.kind.words}", field=name)
        if value != "" and found.setdefault(field.name, value) != value:
            raise BadParams(f"{name} is another name of {field.name}, which says something else", field=name)
    return found


def write_query(operation: Operation, params: Mapping[str, Any]) -> bytes:
    """Return the query with those of the parameters that the operation has in its query.

    Raises:
        BadParams: as `read_query`; or a value that is too long for a query, or has control characters.
    """
    pairs: list[str] = []
    for field in _IN_QUERY.get(operation, ()):
        said = _said(params, field.spellings, field.kind)
        if said:
            pairs.append(f"{field.name}={_escaped(field.name, said)}")
    return "&".join(pairs).encode("ascii")


def _escaped(name: str, text: str) -> str:
    # Its length comes first, since escapes are made character by character.
    escaped = quote(text, safe="") if len(text) <= _LONGEST and _CONTROL.search(text) is None else ""
    if not 0 < len(escaped) <= _LONGEST:
        raise BadParams(f"{name} is too long for a query, or has control characters", field=name)
    return escaped


def path_id(params: Mapping[str, Any], name: str, *twins: str, verb: bool = False) -> str:
    """Return the id under that name or its twins, which a path can carry.

    Refused are `%` and slashes, which some servers decode twice or before they route, and dot segments.

    Args:
        verb: Whether the path may have a verb behind it, so that it must not end like one itself.

    Raises:
        BadParams: it is missing, no string, differs under two names, or a path cannot carry it.
    """
    found = _said(params, (name, *twins), _TEXT)
    if not found:
        raise BadParams(f"{name} is missing", field=name)
    if _PLAIN.fullmatch(found) is None:
        _refuse_unsafe(name, found, verb=verb)
    return found


def _refuse_unsafe(name: str, value: str, *, verb: bool) -> None:
    if len(value) > _LONGEST_ID:
        raise BadParams(f"{name} has more than {_LONGEST_ID} characters", field=name)
    if value in (".", "..") or _UNSAFE.search(value) is not None or (verb and _VERB.search(value) is not None):
        raise BadParams(f"{name} has characters that a path cannot carry, or ends like a verb", field=name)
    try:
        decode_id(encode_id(value))
    except (BadRequest, UnicodeEncodeError) as error:
        raise BadParams(f"{name} has control characters or a space at an end", field=name) from error


# ---- Kinds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of parameter, read from a text and written as one.

    Attributes:
        words: The message for other values.
        types: The types that it may have in JSON.
        read: Returns the value of a text; None for an invalid one, an empty one for unset.
    """

    words: str
    types: tuple[type, ...]
    read: Callable[[str], object]

    def write(self, value: object) -> str | None:
        """Return the text of a JSON value; None for an invalid one."""
        if type(value) not in self.types:
            return None
        if isinstance(value, Decimal) and -_INT32.stop < value < _INT32.stop and value == int(value):
            value = int(value)
        read = self.read(str(value))
        return None if read is None else str(read).lower() if type(read) is bool else str(read)


def _said(params: Mapping[str, Any], names: tuple[str, ...], kind: _Kind) -> str | None:
    """Return the text of a parameter of several names, or None where it is absent.

    Raises:
        BadParams: its value is none of its type, or two names have different ones.
    """
    found: str | None = None
    for name in names:
        value = params.get(name)
        if type(value) is msgspec.Raw:
            value = strict_json.read(value)
        if value is None:
            continue
        text = kind.write(value)
        if text is None:
            raise BadParams(f"{name} {kind.words}", field=name)
        if found is not None and text != found:
            raise BadParams(f"{name} is another name of {names[0]}, which says something else", field=name)
        found = text
    return found


def _moment(text: str) -> str:
    """Return a timestamp; many clients do not escape its plus, which then arrives as a space."""
    return _LOST_PLUS.sub(r"\1+\2", text)


def _number(text: str) -> int | None:
    """Return an integer of 32 bits; a2a-java pads a single digit with a space."""
    text = text.strip(" ")
    return number if _NUMERAL.fullmatch(text) is not None and (number := int(text)) in _INT32 else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip(" ").lower())


def _state(text: str) -> str | None:
    """Return a task state by its name or number; none in particular is no filter."""
    name = _STATE_NAMES.get(text.strip(" "))
    return "" if name == HUB_STATES[0] else name


_NUMERAL = re.compile("[+-]?[0-9]{1,10}")
_INT32 = range(-(2**31), 2**31)
_LOST_PLUS = re.compile(r"(:[0-9]{2}(?:\.[0-9]+)?) ([0-9]{2}:?[0-9]{2})\Z")
_STATE_NAMES = {
    **{name: name for name in HUB_STATES},
    **{str(number): name for number, name in enumerate(HUB_STATES)},
    "TASK_STATE_CANCELLED": "TASK_STATE_CANCELED",
}

_TEXT = _Kind("must be a string", (str,), str)
_MOMENT = _Kind("must be a timestamp", (str,), _moment)
_COUNT = _Kind("must be an integer of 32 bits", (int, str, Decimal), _number)
_TRUTH = _Kind("must be true or false", (bool,), _truth)
_STATE = _Kind("must be the name of a task state, as TASK_STATE_WORKING", (str, int), _state)

# ---- The parameters of queries ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: _Kind
    spellings: tuple[str, ...]


def _field(kind: _Kind, name: str, *aliases: str) -> _Field:
    snakes = [re.sub("[A-Z]", lambda upper: "_" + upper[0].lower(), each) for each in (name, *aliases)]
    return _Field(name, kind, tuple(dict.fromkeys((name, *aliases, *snakes))))


_HISTORY = _field(_COUNT, "historyLength")
_PAGE = (_field(_COUNT, "pageSize"), _field(_TEXT, "pageToken"))
_IN_QUERY: dict[Operation, tuple[_Field, ...]] = {
    Operation.GET_TASK: (_HISTORY,),
    Operation.LIST_TASKS: (
        _field(_TEXT, "contextId"),
        _field(_STATE, "status"),
        *_PAGE,
        _HISTORY,
        # a2a-go's client has another name for it than its server.
        _field(_MOMENT, "statusTimestampAfter", "lastUpdatedAfter"),
        _field(_TRUTH, "includeArtifacts"),
    ),
    Operation.LIST_PUSH_CONFIGS: _PAGE,
}
_BY_NAME = {
    operation: {name: field for field in fields for name in field.spellings} for operation, fields in _IN_QUERY.items()
}

# Half of what Node takes for a whole head.
_LONGEST = 8 * 1024
_LONGEST_ID = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Ids without escapes that are neither a dot segment nor a verb.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_UNSAFE = re.compile(r"[%/\\]")
_VERB = re.compile(r":(?:cancel|subscribe)\Z", re.IGNORECASE)
