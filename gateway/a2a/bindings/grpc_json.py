"""Messages as trees of ProtoJSON and trees as messages, by protobuf's own `json_format`.

Two things are done beside it. The numbers of a Struct are doubles: those that are whole become integers (`42`, not
`42.0`). And protobuf takes no decimals, which the gateway's JSON reader gives for numbers with a point.
"""

import math
import re
from decimal import Decimal
from typing import Any

from google.protobuf.json_format import (  # type: ignore[import-untyped]  # protobuf has no types
    MessageToDict,
    ParseDict,
    ParseError,
    SerializeToJsonError,
)
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # as above

from gateway.a2a.json import Tree
from gateway.a2a.versions.version import Misfit

# Beyond it doubles leave integers out, and nobody knows which one was meant.
_EXACT = 2**53
# Deeper than readers of protobuf go, which are asked afterwards.
_DEEPEST = 1_000
_FIELD = re.compile(r"Failed to parse (\w+) field: ")


def to_tree(message: Message) -> Tree:
    """Return the tree that says what a message says; what is empty and has no presence is left out.

    Raises:
        Misfit: a number or a timestamp is none that JSON has.
    """
    try:
        tree: Tree = MessageToDict(message)
    except SerializeToJsonError as error:
        words = "holds a number that JSON has not, or a timestamp outside of the years 1 to 9999"
        raise Misfit("", words) from error
    _to_integers(tree)
    return tree


def from_tree(tree: object, kind: type[Message]) -> bytes:
    """Return the message of a class that says what a tree says, which is consumed.

    Members that the class does not know are left out. An unknown name of an enumeration is its number 0, which says
    nothing.

    Raises:
        Misfit: a member holds what its field cannot, stands under two names, or is one of several where one may be; or
            the tree is nested deeper than readers of protobuf go, which is 100 messages.
    """
    if type(tree) is not dict:
        raise Misfit("", "must be an object")
    try:
        _to_doubles(tree)
        message = ParseDict(tree, kind(), ignore_unknown_fields=True, max_recursion_depth=_DEEPEST)
        written: bytes = message.SerializeToString()
        kind.FromString(written)
    except (RecursionError, DecodeError) as error:
        raise Misfit("", "is nested too deeply for protobuf") from error
    except ParseError as error:
        # Its text has values, which may be long or secret.
        raise Misfit(".".join(_FIELD.findall(str(error))), "is not what the schema says") from error
    except OverflowError as error:
        raise Misfit("", "holds a number that protobuf has not") from error
    return written


def _to_integers(tree: Any) -> None:  # noqa: ANN401 - any JSON
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        if type(value) is float:
            if value.is_integer() and abs(value) <= _EXACT:
                tree[key] = int(value)
        elif type(value) in (dict, list):
            _to_integers(value)


def _to_doubles(tree: Any) -> None:  # noqa: ANN401 - any JSON
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        if type(value) is Decimal:
            double = float(value)
            if not math.isfinite(double):
                raise OverflowError
            tree[key] = double
        elif type(value) in (dict, list):
            _to_doubles(value)
