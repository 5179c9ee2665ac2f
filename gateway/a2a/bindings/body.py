"""Bodies that are translated: read without the tenant, and written.

What nobody has to look into stays the bytes that it came as, and is written as these.
"""

from decimal import Decimal
from typing import Any

import msgspec

from gateway.a2a.fault import ParseFailed
from gateway.a2a.parameter import Parameters


def given(params: Parameters, *, typed: bool) -> dict[str, Any]:
    """The members that a body has, without any place for a tenant.

    Args:
        typed: Whether their values are trees. Where not, they are `msgspec.Raw`, but for those with a tenant inside.

    Raises:
        ParseFailed: a value cannot be read.
    """
    if not typed and not params.inner:
        return {name: raw for name, raw in params.members.items() if name != "tenant"}
    opened = {way[0][0] for way in params.inner}
    found: dict[str, Any] = {
        name: read(raw) if typed or name in opened else raw for name, raw in params.members.items() if name != "tenant"
    }
    for way in params.inner:
        inside = found
        for name, _ in way:
            inside = inside[name]
        inside.pop("tenant", None)
    return found


def read(raw: msgspec.Raw) -> Any:  # noqa: ANN401 - any JSON
    """A value as a tree; numbers that are no integers keep their digits.

    Raises:
        ParseFailed: it is no JSON, or a number that nothing can hold.
    """
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ArithmeticError) as error:
        raise ParseFailed("the body is not valid JSON") from error


write = msgspec.json.Encoder(decimal_format="number").encode
"""A tree as bytes, every number with the digits that it came with."""

_decoder = msgspec.json.Decoder(float_hook=Decimal)
