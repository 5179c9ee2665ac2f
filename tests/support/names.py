"""Names of webhooks, looked up without a network."""

from typing import Any

from gateway.push.ssrf import Resolver

PUBLIC = "93.184.215.14"


def public_names() -> Resolver:
    """Every name is that of a public host, but for the machine's own and for addresses."""
    return Resolver(look_up=_look_up)


def _look_up(host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
    address = host if host[0].isdigit() else "127.0.0.1" if host == "localhost" else PUBLIC
    return [(None, None, None, None, (address, 0))]
