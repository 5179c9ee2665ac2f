"""Parameters that HTTP+JSON writes into path and query (1.0 §11.3, §11.5): texts there, typed everywhere else.

Names are camelCase; snake_case is read too, since ProtoJSON has both. Servers differ in what they do with a value that
they cannot read (protocol §8.3: some drop the filter and return everything), so it is refused here. Names that the
protocol does not know are left out, and none that it knows is a list.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote_plus

from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.paths import decode_id, encode_id
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.versions.schema import snake


def read_query(operation: Operation, query: bytes) -> dict[str, Any]:
    """Return the parameters in a query, under their names of 1.0; one without a value is unset.

    Args:
        query: The query that `params.split_query` returned.

    Raises:
        BadParams: a value is not of its parameter's type, or differs under two names of one parameter.
    """
    known = _IN_QUERY.get(operation, ())
    found: dict[str, Any] = {}
    for pair in query.split(b"&") if query and known else ():
        said, _, raw = pair.decode("ascii").partition("=")
        name = _NAMES.get(said)
        if name not in known or not raw:
            continue
        read, words = _PARAMETERS[name]
        value = read(unquote_plus(raw))
        if value is None:
            raise BadParams(f"{said} {words}", field=said)
        if value != "" and found.setdefault(name, value) != value:
            raise BadParams(f"{said} is another name of {name}, which says something else", field=said)
    return found


def write_query(operation: Operation, params: Mapping[str, Any]) -> bytes:
    """Return the query with those of the parameters that the operation has in its query.

    Args:
        params: In the agent's form, which has checked their types.

    Raises:
        BadParams: a value is too long for a query, or has control characters.
    """
    pairs: list[str] = []
    for name in _IN_QUERY.get(operation, ()):
        value = params.get(name)
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        # The length comes first, since escapes are made character by character.
        if len(text) > _LONGEST or _CONTROL.search(text) is not None or len(escaped := quote(text, safe="")) > _LONGEST:
            raise BadParams(f"{name} is too long for a query, or has control characters", field=name)
        if text:
            pairs.append(f"{name}={escaped}")
    return "&".join(pairs).encode("ascii")


def path_id(params: Mapping[str, Any], name: str, *, verb: bool = False) -> str:
    """Return the id under that name, which a path can carry.

    Refused are `%` and slashes, which some servers decode twice or before they route, and dot segments.

    Args:
        params: In the agent's form.
        verb: Whether the path may have a verb behind it, so that it must not end like one itself.

    Raises:
        BadParams: it is missing, or a path cannot carry it.
    """
    found = params.get(name)
    if not isinstance(found, str) or not found:
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


# ---- The parameters of queries, each with a reader: None for an invalid text, empty for an unset one -----------------


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

_COUNT = (_number, "must be an integer of 32 bits")
_PARAMETERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "contextId": (str, ""),
    "status": (_state, "must be the name of a task state, as TASK_STATE_WORKING"),
    "pageSize": _COUNT,
    "pageToken": (str, ""),
    "historyLength": _COUNT,
    "statusTimestampAfter": (_moment, ""),
    "includeArtifacts": (_truth, "must be true or false"),
}
_IN_QUERY: Mapping[Operation, tuple[str, ...]] = {
    Operation.GET_TASK: ("historyLength",),
    Operation.LIST_TASKS: tuple(_PARAMETERS),
    Operation.LIST_PUSH_CONFIGS: ("pageSize", "pageToken"),
}
_NAMES = {
    **{name: name for name in _PARAMETERS},
    **{snake(name): name for name in _PARAMETERS},
    # a2a-go's client has another name for it than its server.
    "lastUpdatedAfter": "statusTimestampAfter",
    "last_updated_after": "statusTimestampAfter",
}

# Half of what Node takes for a whole head.
_LONGEST = 8 * 1024
_LONGEST_ID = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Ids without escapes that are neither a dot segment nor a verb.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_UNSAFE = re.compile(r"[%/\\]")
_VERB = re.compile(r":(?:cancel|subscribe)\Z", re.IGNORECASE)
