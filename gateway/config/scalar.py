"""What a plain word of the file means: true, false, null, a decimal number, or text.

YAML 1.1, YAML 1.2 and the tools in use do not agree on the rest: `no` is false to some, `010` is eight, `12:30` is 750.
`surprise` finds what another tool would read as no text, so that one file means one thing everywhere.
"""

import re

Scalar = str | int | float | bool | None

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
"""What a file can say."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_TOO_LONG = re.compile(r"[-+]?[1-9][0-9]{18,}")
_TRUE = frozenset({"y", "yes", "on", "true"})
_FALSE = frozenset({"n", "no", "off", "false"})
_NUMBER = re.compile(
    r"""
    [-+]?(?:
        0b[01_]+
      | 0o[0-7_]+
      | 0x[0-9a-fA-F_]+
      | (?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?
      | \.(?:inf|Inf|INF)
    )
    | \.(?:nan|NaN|NAN)
    """,
    re.VERBOSE,
)
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


def plain(text: str) -> Scalar:
    """The value of a word that is written without quotes."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    first = text[0]
    if first in "+-0123456789":
        if _INT.fullmatch(text) is not None:
            return int(text)
        if _FLOAT.fullmatch(text) is not None:
            return float(text)
    return text


def surprise(text: str) -> tuple[str, str] | None:
    """What another YAML tool makes of a plain word that is text here, and the remedy; None where all agree."""
    lower = text.lower()
    if lower in _TRUE:
        return "true", f'quote it: "{text}", or write true where that is meant'
    if lower in _FALSE:
        return "false", f'quote it: "{text}", or write false where that is meant'
    if lower == "null":
        return "no value at all", f'quote it: "{text}"'
    if text == "=":
        return "a sign of its own", f'quote it: "{text}"'
    if text[:1] in set("+-.0123456789"):
        if _TOO_LONG.fullmatch(text) is not None:
            return "a number", f'quote it: "{text}", or write a number of at most 18 digits'
        if _NUMBER.fullmatch(text) is not None:
            return "a number", f'quote it: "{text}", or write the number in plain decimal digits'
        if _BASE_60.fullmatch(text) is not None:
            return "a number of base 60", f'quote it: "{text}"'
    return None
