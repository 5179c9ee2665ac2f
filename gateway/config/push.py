"""Push notifications: the webhooks that clients name, and how the gateway calls them."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from gateway.config.values import Flag, OneOrMany, Part, PeerTls, Positive, Wait, bounded
from gateway.push.webhook_pattern import WebhookPattern, read_pattern


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


_MANY = bounded("is too many", "write at most 100: all of a task's are gone through when one is set", most=100)


class Deliver(Part):
    """Delivery to webhooks, with `mode: relay`."""

    attempts: Positive = 1000
    """Most attempts for one notification within `keep`; by default `keep` decides."""
    timeout: Wait = 10.0
    """Timeout of one attempt."""
    keep: Wait = 86_400.0
    """Time after which a notification is given up."""
    first_pause: Wait = 1.0
    """The pause after the first attempt that failed; each further one is about twice as long."""
    longest_pause: Wait = 300.0
    """The longest pause between two attempts."""
    concurrency: Positive = 16
    """Most deliveries at a time."""
    max_waiting: Positive = 10_000
    """Most notifications of one tenant that wait; beyond it agents are told to come again."""
    max_waiting_bytes: ClassVar[int] = 256 * 1024 * 1024
    # Notifications are mostly a few KiB, so that `max_waiting` comes first; this bounds the store against long ones.


class Push(Part):
    """Webhooks of clients. Https to public addresses only, where nothing else is written."""

    mode: Literal["relay", "passthrough", "none"] = "passthrough"
    """`relay`: the gateway calls them, signed and with retries; `passthrough`: the agent does; `none`: nobody."""
    allow: Annotated[tuple[Pattern, ...], OneOrMany()] = ()
    """Webhooks that may be named, such as `https://*.example.com`; any public one where it is left out."""
    block_private_networks: Flag = True
    """With `false`, what `allow` lists may have a private address, and plain http where `allow` says http."""
    max_per_task: Annotated[Positive, _MANY] = 3
    """Most webhooks of one task, where `mode` is `relay`; 100 at most."""
    max_per_tenant: Positive = 20_000
    """Most webhooks of one tenant, likewise: those of its open tasks, and of those that ended of late."""
    sign: Flag = True
    """Whether deliveries of `relay` are signed; clients verify them by the gateway's key set."""
    deliver: Deliver = Deliver()
    """Delivery with `relay`."""
    tls: PeerTls | None = None
    """Authorities for the webhooks that `relay` calls; those of the system by default."""
