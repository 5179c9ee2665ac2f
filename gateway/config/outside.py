"""Settings from outside the file: flags of the command line, and `A2A_GATEWAY_*` variables of the environment.

A flag wins over a variable, a variable over the file, the file over the default. `settings.SETTINGS` is the one
table: it adds the flags to the commands, names the variables, and makes the table of
`/-/config`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.config.external_settings import PREFIX, SETTINGS, Setting
from gateway.config.model import Config
from gateway.config.problem import KeyPath, Problem, nearest, spell
from gateway.config.yaml import Marks, Position, Value
from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

_OTHERS = (f"{PREFIX}CONFIG", f"{PREFIX}PROGRAM")
"""The file of `gateway.asgi:app`, and the name of the program in its own messages."""
_SERVICE_VARIABLE = re.compile(
    rf"{PREFIX}(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://.*")


_VARIABLES = frozenset(setting.variable for setting in SETTINGS)
_FLAGS = frozenset(setting.flag for setting in SETTINGS)


def with_flags(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment with the flags that were given, each by its name: no reference can name one."""
    written = {flag: value for flag, value in flags.items() if value is not None}
    return {name: value for name, value in environ.items() if name not in _FLAGS} | written


def setting_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags and variables that set something, the one that wins for each setting."""
    return tuple(name for setting in SETTINGS if (name := _source(setting, environ)) is not None)


def is_variable(place: Place) -> bool:
    """Return whether a value comes from a variable."""
    return place.file in _VARIABLES


def _source(setting: Setting, environ: Mapping[str, str]) -> str | None:
    return next((name for name in (setting.flag, setting.variable) if name in environ), None)


def overlaid(tree: dict[str, Value], marks: Marks, environ: Mapping[str, str]) -> Marks:
    """Write the settings from outside into the tree; return its places with theirs, which name the flag or variable.

    A setting below a value that is no mapping is left out: that value is an error.
    """
    for setting in SETTINGS:
        name = _source(setting, environ)
        below = None if name is None else _mapping(tree, setting.path[:-1])
        if name is None or below is None:
            continue
        value = environ[name]
        below[str(setting.path[-1])] = value.split(",") if setting.several and "," in value else value  # type: ignore[assignment]
        marks = _marks_with(marks, setting.path, (name, 0, 0))
    return marks


def _mapping(tree: dict[str, Value], path: KeyPath) -> dict[str, Value] | None:
    for step in path:
        below = tree.get(str(step), {})
        if step == "admin" and isinstance(below, str):
            # The short form of `admin` is its address.
            below = {}
        if not isinstance(below, dict):
            return None
        tree[str(step)] = below
        tree = below
    return tree


def _marks_with(marks: Marks, path: KeyPath, place: Position) -> Marks:
    """Return the marks with another place for a path, and for those above it that the file does not have."""
    above = {path[:end]: place for end in range(1, len(path))}
    keys, values, written = (
        {at: each for at, each in places.items() if at[: len(path)] != path}
        for places in (marks.keys, marks.values, marks.written)
    )
    return Marks({**above, **keys, path: place}, {**above, **values, path: place}, written, marks.start)  # type: ignore[arg-type, dict-item]


def unknown(environ: Mapping[str, str], used: frozenset[str]) -> Iterator[Problem]:
    """Yield an error for each `A2A_GATEWAY_*` variable that sets nothing.

    Kubernetes sets some for a Service whose name begins with `a2a-gateway`; these are ignored.

    Args:
        used: Variables that references of the file name.
    """
    known = (*(setting.variable for setting in SETTINGS), *_OTHERS)
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in known or name in used or _is_service_variable(name, value):
            continue
        # Without the prefix, which makes all names alike.
        close = nearest(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known])
        remedy = close.replace("'", f"'{PREFIX}", 1) or f"unset it; known are: {', '.join(known)}"
        yield Problem(Place(printable(name), 0, 0), (), "unknown variable", remedy)


def _is_service_variable(name: str, value: str) -> bool:
    by_url = name.endswith("_PORT") and _SERVICE_URL.fullmatch(value) is not None
    return by_url or _SERVICE_VARIABLE.fullmatch(name) is not None


def sources(config: Config, marks: Marks, shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each setting with its value and its source, for `/-/config`.

    Args:
        shown: The configuration as `effective.masked` returns it.
    """
    return [_described(setting, config, marks, shown) for setting in SETTINGS]


def _described(setting: Setting, config: Config, marks: Marks, shown: Mapping[str, Any]) -> dict[str, Any]:
    value: Any = shown
    part: Any = config
    written = True
    for step in setting.path:
        written = written and step in part.model_fields_set
        part, value = getattr(part, str(step)), value[step]
    place = marks.place(setting.path)
    source = "flag" if place.file in _FLAGS else "environment" if is_variable(place) else "file"
    return {
        "key": spell(setting.path),
        "value": value,
        "source": source if written else "default",
        "place": str(place) if written else None,
        "flag": setting.flag,
        "variable": setting.variable,
    }
