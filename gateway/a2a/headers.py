"""Which headers pass, in both directions: what A2A, tracing and content need, and nothing else.

Allow-lists, because a header that nobody thought of is a header that an agent may believe. Names are compared without
case; a name with an underscore never passes (`X_A2A_Tenant` is `X-A2A-Tenant` to many servers).
"""

import re
from collections.abc import Iterable

Pairs = list[tuple[bytes, bytes]]

TO_AGENT = frozenset(
    {
        b"accept", b"accept-language", b"cache-control", b"content-language", b"content-type", b"a2a-version",
        b"a2a-extensions", b"x-a2a-extensions", b"traceparent", b"tracestate", b"baggage",
    }
)  # fmt: skip
"""Client headers that go to the agent."""

TO_CLIENT = frozenset(
    {
        b"content-type", b"content-language", b"a2a-version", b"a2a-extensions", b"x-a2a-extensions",
        b"retry-after", b"x-accel-buffering", b"deprecation", b"sunset",
    }
)  # fmt: skip
"""Agent headers that go to the client."""

NEVER_FORWARDED = frozenset(
    {
        b"authorization", b"proxy-authorization", b"proxy-authenticate", b"x-api-key", b"cookie", b"set-cookie",
        b"host",
        b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect",
        b"forwarded", b"x-a2a-tenant", b"x-a2a-subject", b"x-request-id", b"accept-encoding", b"content-encoding",
    }
)  # fmt: skip
"""Headers that `forward_headers` of the configuration may not name: hop-by-hop, credentials, identity, framing."""

_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


def pass_on(headers: Iterable[tuple[bytes, bytes]], allowed: frozenset[bytes]) -> Pairs:
    """The pairs whose name is allowed, in order; a name that `Connection` lists is hop-by-hop and stays here."""
    kept = [(name, value) for name, value in headers if name in allowed and _VALUE.fullmatch(value) is not None]
    named = [value for name, value in headers if name == b"connection"]
    if not named:
        return kept
    hop = {token.strip().lower() for value in named for token in value.split(b",")}
    return [(name, value) for name, value in kept if name not in hop]


def media_type(value: bytes | None) -> bytes:
    """The type and subtype of a Content-Type, lower case, without parameters; empty where there is none."""
    return b"" if value is None else value.split(b";", 1)[0].strip().lower()


def is_json(value: bytes | None) -> bool:
    """Whether a Content-Type is some JSON."""
    media = media_type(value)
    return media == b"application/json" or (media.startswith(b"application/") and media.endswith(b"+json"))


def is_event_stream(value: bytes | None) -> bool:
    """Whether a Content-Type is server-sent events."""
    return media_type(value) == b"text/event-stream"
