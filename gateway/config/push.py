"""Push notifications: the webhooks that clients name to agents, and who calls them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from gateway.config.part import Part
from gateway.config.peer_tls import PeerTls
from gateway.config.value import Flag, OneOrMany, Positive, Room, Wait
from gateway.config.webhook import WebhookPattern, read_pattern


def _pattern(value: object) -> object:
    if isinstance(value, str):
        return read_pattern(value)
    if isinstance(value, WebhookPattern):
        return value
    raise ValueError(
        "is no pattern of webhooks", "write https://HOST, https://*.SUFFIX, https://HOST:* or https://HOST/PATH/*"
    )


Pattern = Annotated[WebhookPattern, BeforeValidator(_pattern), PlainSerializer(str), WithJsonSchema({"type": "string"})]
"""Which webhooks are meant, such as `https://*.example.com` or `https://hooks.example.com/a2a/*`."""


def _few(value: int) -> int:
    if value > 100:
        raise ValueError("is too many", "write at most 100: all of a task's are gone through when one is set")
    return value


class Deliver(Part):
    """How the gateway calls webhooks, where `mode` is `relay`."""

    attempts: Positive = 1000
    """How often one notification is tried, within `keep`; so often that `keep` decides."""
    timeout: Wait = 10.0
    """How long one attempt may take."""
    keep: Wait = 86_400.0
    """How long a notification is worth delivering."""
    first_pause: Wait = 1.0
    """The pause after the first attempt that failed; each further one is about twice as long."""
    longest_pause: Wait = 300.0
    """The longest pause between two attempts."""
    concurrency: Positive = 16
    """Most deliveries at a time."""
    max_waiting: Positive = 10_000
    """Most notifications of one tenant that wait; beyond it agents are told to come again."""
    max_waiting_bytes: Room = 256 * 1024 * 1024
    """Most bytes of them."""


class Push(Part):
    """Webhooks of clients. Https to public addresses only, where nothing else is written."""

    mode: Literal["relay", "passthrough", "none"] = "passthrough"
    """`relay`: the gateway calls them, signed and with retries; `passthrough`: the agent does; `none`: nobody."""
    allow: Annotated[tuple[Pattern, ...], OneOrMany()] = ()
    """Webhooks that may be named, such as `https://*.example.com`; any public one where it is left out."""
    block_private_networks: Flag = True
    """With `false`, what `allow` lists may have a private address, and plain http where `allow` says http."""
    max_per_task: Annotated[Positive, AfterValidator(_few)] = 3
    """Most webhooks of one task, where `mode` is `relay`; 100 at most."""
    max_per_tenant: Positive = 20_000
    """Most webhooks of one tenant, likewise: those of its open tasks, and of those that ended of late."""
    sign: Flag = True
    """Whether deliveries of `relay` are signed; clients verify them by the gateway's key set."""
    deliver: Deliver = Deliver()
    """How `relay` delivers."""
    tls: PeerTls | None = None
    """Who vouches for the webhooks that `relay` calls; the system's authorities where it is left out."""
