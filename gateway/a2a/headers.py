"""The headers that are forwarded in each direction: those that A2A, tracing and content need.

They are allow-lists, because an agent may trust any header that it gets. Names are compared without case; a name with
an underscore is never forwarded (`X_A2A_Tenant` is `X-A2A-Tenant` to many servers).
"""

import re
from collections.abc import Iterable, Sequence

from gateway.a2a.fault import BadRequest

Pairs = list[tuple[bytes, bytes]]

TO_AGENT = frozenset(
    {
        b"accept", b"accept-language", b"cache-control", b"content-language", b"content-type", b"a2a-version",
        b"a2a-extensions", b"x-a2a-extensions", b"traceparent", b"tracestate", b"baggage",
    }
)  # fmt: skip
"""Client headers that are forwarded to the agent."""

TO_CLIENT = frozenset(
    {
        b"content-type", b"content-language", b"a2a-version", b"a2a-extensions", b"x-a2a-extensions",
        b"retry-after", b"x-accel-buffering", b"deprecation", b"sunset",
    }
)  # fmt: skip
"""Agent headers that are forwarded to the client."""

NEVER_FORWARDED = frozenset(
    {
        b"authorization", b"proxy-authorization", b"proxy-authenticate", b"x-api-key", b"cookie", b"set-cookie",
        b"host",
        b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect",
        b"forwarded", b"x-a2a-tenant", b"x-a2a-subject", b"x-request-id", b"accept-encoding", b"content-encoding",
        b"proxy-connection", b"via", b"x-forwarded-for", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip",
        b"true-client-ip", b"remote-user", b"x-remote-user", b"x-original-url", b"x-original-host", b"x-rewrite-url",
        b"x-http-method", b"x-http-method-override", b"x-method-override",
        b"x-forwarded-client-cert", b"client-cert", b"client-cert-chain", b"x-client-cert", b"x-ssl-client-cert",
        b"ssl-client-cert", b"ssl-client-verify", b"ssl-client-subject-dn", b"ssl-client-issuer-dn",
    }
)  # fmt: skip
"""Headers that `forward_headers` of the configuration may not name: hop-by-hop, credentials, identity, framing."""

TRACEPARENT = re.compile(
    rb"(?!ff)(?:00|(?P<later>(?!00)[0-9a-f]{2}))-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    rb"(?(later)(?:-.*)?)"
)
"""W3C Trace Context §3.2: version, trace id, parent id and flags; not all zeros, and later versions may be longer."""
_TRACE = frozenset({b"traceparent", b"tracestate"})

_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

_ONCE = frozenset(
    {
        b"a2a-version", b"authorization", b"content-encoding", b"content-type", b"origin", b"retry-after",
        b"traceparent", b"x-accel-buffering", b"x-api-key",
    }
)  # fmt: skip
"""Headers that are not lists (RFC 9110 §5.3): of two values, servers may pick different ones."""
_NONE_OF_IT = re.compile(rb"(?:^|;)\s*[qQ]=0(?:\.0*)?\s*(?:;|$)")
_DECIDING = b"a2a-version"


def refuse_ambiguous(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse headers that two servers could read in two ways.

    Raises:
        BadRequest: one that is not a list is repeated, there are two credentials, or `Connection` would remove
            `A2A-Version`.
    """
    names = {name for name, _ in headers}
    if len(names) != len(headers):
        every = [name for name, _ in headers]
        for name in _ONCE & names:
            if every.count(name) > 1:
                raise BadRequest(f"the header {name.decode()} stands twice")
    if b"authorization" in names and b"x-api-key" in names:
        raise BadRequest("show one credential")
    if b"connection" in names:
        for name, value in headers:
            if name == b"connection" and _DECIDING in value.lower():
                raise BadRequest("Connection cannot name A2A-Version")


def pass_on(headers: Iterable[tuple[bytes, bytes]], allowed: frozenset[bytes]) -> Pairs:
    """Return the pairs whose name is allowed, in order, without those that `Connection` makes hop-by-hop.

    If a header that is not a list is repeated, the first value passes, which is the one that was evaluated. An invalid
    `traceparent` does not pass, nor a `tracestate` without one (W3C Trace Context §3.3, §4.3).
    """
    kept = [(name, value) for name, value in headers if name in allowed and _VALUE.fullmatch(value) is not None]
    if len(dict(kept)) != len(kept):
        kept = [pair for at, pair in enumerate(kept) if pair[0] not in _ONCE or pair[0] not in dict(kept[:at])]
    named = [value for name, value in headers if name == b"connection"]
    if named:
        hop = {token.strip().lower() for value in named for token in value.split(b",")}
        kept = [(name, value) for name, value in kept if name not in hop]
    if any(name in _TRACE for name, _ in kept):
        parents = [value for name, value in kept if name == b"traceparent"]
        if not parents or TRACEPARENT.fullmatch(parents[0]) is None:
            return [pair for pair in kept if pair[0] not in _TRACE]
    return kept


def without_parent(headers: Pairs) -> Pairs:
    """Return headers without `traceparent`, which the gateway replaces by that of its own span."""
    return [pair for pair in headers if pair[0] != b"traceparent"]


def media_type(value: bytes | None) -> bytes:
    """Return the type and subtype of a Content-Type, lower case, without parameters; empty where there is none."""
    return b"" if value is None else value.split(b";", 1)[0].strip().lower()


A2A_JSON = b"application/a2a+json"


def accepts(values: Iterable[bytes], media: bytes) -> bool:
    """Return whether Accept headers name a media type, wildcards aside (RFC 9110 §12.5.1)."""
    for value in values:
        for item in value.split(b","):
            named, _, parameters = item.partition(b";")
            if named.strip().lower() == media and _NONE_OF_IT.search(parameters) is None:
                return True
    return False


def is_encoded(value: bytes | None) -> bool:
    """Return whether a Content-Encoding names a coding other than `identity` (RFC 9110 §8.4)."""
    return value is not None and any(name.strip().lower() not in (b"", b"identity") for name in value.split(b","))


def is_json(value: bytes | None) -> bool:
    """Return whether a Content-Type is some JSON."""
    media = media_type(value)
    return media == b"application/json" or (media.startswith(b"application/") and media.endswith(b"+json"))


def is_no_json(value: bytes | None) -> bool:
    """Return whether a Content-Type is something other than JSON; an absent or empty one is not."""
    return value != b"application/json" and media_type(value) != b"" and not is_json(value)


def is_event_stream(value: bytes | None) -> bool:
    """Return whether a Content-Type is server-sent events."""
    return media_type(value) == b"text/event-stream"


def holds(shown: bytes | None, etag: bytes) -> bool:
    """Return whether a client has the representation with an ETag already, by its `If-None-Match` (RFC 9110 §13.1.2).

    The comparison is weak, and `*` stands for any representation.
    """
    if shown is None:
        return False
    return any(tag.strip() in (etag, b"*", etag.removeprefix(b"W/")) for tag in shown.split(b","))
