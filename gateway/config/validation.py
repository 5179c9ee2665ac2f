"""Errors of the pydantic models in the operator's words: a place, a fact and a remedy."""

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gateway.config.descriptions import description
from gateway.config.model import Config
from gateway.config.problem import KeyPath, Problem, nearest, printable, spell_key
from gateway.config.removed import removed
from gateway.config.secrets import is_secret
from gateway.config.yaml import Marks

_WANTED: Mapping[str, tuple[str, str]] = {
    "dict_type": ("is no mapping", "write `key: value` pairs below it"),
    "model_type": ("is no mapping", "write `key: value` pairs below it"),
    "model_attributes_type": ("is no mapping", "write `key: value` pairs below it"),
    "tuple_type": ("is no list", "write [one, two]"),
    "list_type": ("is no list", "write [one, two]"),
}
_UNTOLD = ("is not valid here", "correct it")
_TEXT = frozenset({"string_type", "string_sub_type"})


def explain(error: ErrorDetails, marks: Marks) -> Problem:
    """Return the problem for a validation error."""
    kind = error["type"]
    at_key = error["loc"][-1:] == ("[key]",)
    loc: KeyPath = error["loc"][:-1] if at_key else error["loc"]
    path = marks.find(loc)
    gone = removed(path) if kind == "extra_forbidden" else None
    if gone is not None:
        return Problem(marks.key(path), path, gone.fact, gone.remedy)
    if kind == "extra_forbidden":
        return Problem(marks.key(path), path, f"unknown key {spell_key(str(loc[-1]))!r}", _known(loc))
    if kind == "missing":
        name = str(loc[-1])
        path = marks.find(loc[:-1])
        return Problem(
            marks.key(path),
            path,
            f"`{name}` is missing",
            "add `version: 1`" if name == "version" else f"add `{name}:`{_manual(loc)}",
        )
    place = marks.key(path) if at_key else marks.place(path)
    shown = _name(loc) if at_key else _shown(error["input"], path, marks)
    if kind in _WANTED:
        fact, remedy = _WANTED[kind]
        return Problem(place, path, f"{shown} {fact}", _keys(loc) or remedy)
    if kind in _TEXT:
        return Problem(place, path, f"{shown} is no text", _quoted(error["input"], path, marks))
    if kind in ("literal_error", "enum"):
        choices = str(error.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
        if ", " not in choices:
            return Problem(place, path, f"{shown} is not {choices.lower()}", f"write {choices.lower()}")
        close = nearest(str(error["input"]), choices.split(", "))
        return Problem(place, path, f"{shown} is none of: {choices}", close or f"write one of: {choices}")
    if kind == "value_error":
        told = error.get("ctx", {}).get("error")
        fact, remedy, *choices_of = told.args if isinstance(told, ValueError) and len(told.args) > 1 else _UNTOLD
        remedy = nearest(str(error["input"]), choices_of) or remedy
        subject = "this" if isinstance(error["input"], dict | list | tuple) else shown
        return Problem(place, path, f"{subject} {fact}", remedy)
    return Problem(place, path, f"{shown} is not valid here", _manual(loc).strip(" ()") or "correct it")


def _shown(value: object, path: KeyPath, marks: Marks) -> str:
    """Return a value as a message shows it: as it is written, and never a secret."""
    if is_secret(path, value if isinstance(value, str) else None) and not isinstance(value, dict | list | tuple):
        return "the value"
    written = marks.written.get(path)
    if written is not None:
        return f"'{printable(written)}'" if "${" in written else printable(written)
    if isinstance(value, str):
        return f"'{printable(value)}'" if value else "an empty text"
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else "the value"


def _name(loc: KeyPath) -> str:
    return f"'{spell_key(str(loc[-1]))}'" if loc else "the key"


def _quoted(value: object, path: KeyPath, marks: Marks) -> str:
    if isinstance(value, dict | list | tuple):
        return "write one text" + _manual(path)
    written = marks.written.get(path)
    return "quote it" if written is None or is_secret(path) else f'quote it: "{written}"'


# ---- look-ups in the models ----------------------------------------------------------------------------------------


def model_at(path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the mapping at a path, or None if there is none."""
    found: Any = Config
    for step in path:
        found = annotation_below(found, step)
    found = bare(found)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def annotation_below(annotation: Any, step: str | int) -> Any:  # noqa: ANN401 - type annotations have no type of their own
    """Return the type of the value at a key or an index, or None if the format has no such key."""
    kind = bare(annotation)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        known = kind.model_fields.get(str(step))
        return None if known is None else known.annotation
    origin, below = get_origin(kind), get_args(kind)
    if origin is dict:
        return below[1]
    if origin is tuple:
        # A single item of a list may be written without the list.
        return below[0] if isinstance(step, int) else annotation_below(below[0], step)
    return None


def bare(annotation: Any) -> Any:  # noqa: ANN401 - as above
    """Return the type without Annotated and None."""
    while True:
        origin = get_origin(annotation)
        if origin is not None and hasattr(annotation, "__metadata__"):
            annotation = get_args(annotation)[0]
        elif origin in (Union, UnionType):
            annotation = next((one for one in get_args(annotation) if one is not type(None)), None)
        else:
            return annotation


def _known(loc: KeyPath) -> str:
    model = model_at(loc[:-1])
    if model is None:
        return "remove it"
    keys = list(model.model_fields)
    return nearest(str(loc[-1]), keys) or f"keys here are: {', '.join(keys)}"


def _keys(loc: KeyPath) -> str:
    model = model_at(loc)
    return "" if model is None else f"write a mapping with the keys {', '.join(model.model_fields)}"


def _manual(loc: KeyPath) -> str:
    """Return the description of a key, in brackets."""
    model = model_at(loc[:-1])
    text = "" if model is None else " ".join(description(model, str(loc[-1])).split())
    return f" ({text.rstrip('.')})" if text else ""
