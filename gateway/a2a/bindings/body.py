"""The bodies of translated calls, answers and events. Values that need not be read stay the bytes that they came as."""

from typing import Any

import msgspec

from gateway.a2a.document import read, write
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.parameter import Parameters

__all__ = ["given", "object_of", "on_one_line", "read", "write"]


def given(params: Parameters, *, typed: bool) -> dict[str, Any]:
    """Return the members of a body, without any place for a tenant.

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


def object_of(raw: msgspec.Raw | None) -> msgspec.Raw:
    """Return a result that must be an object, as all of 1.0 are.

    Raises:
        UpstreamProtocol: it is none.
    """
    if raw is None or bytes(raw).lstrip()[:1] != b"{":
        raise UpstreamProtocol("the agent's answer is not what its version of A2A says", detail="no object")
    return raw


def on_one_line(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a result on one line, as an event needs it.

    Raises:
        UpstreamProtocol: it is nested too deeply.
    """
    written = bytes(raw)
    if b"\n" in written or b"\r" in written:
        try:
            return msgspec.Raw(msgspec.json.format(written, indent=-1))
        except RecursionError as error:
            raise UpstreamProtocol("the agent's event is nested too deeply") from error
    return raw
