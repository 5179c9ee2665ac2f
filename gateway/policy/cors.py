"""Cross-origin requests of browsers (Fetch §3.2, CORS): preflights, headers of answers, and forged requests.

Calls of a page need a preflight, because of `A2A-Version` and the content type. It is answered before authentication,
alike for every path, so it does not tell which paths exist. Origins are compared byte by byte, and no other origin is
ever repeated.

A page needs no permission for a request that an HTML form could have sent, too. The answer is hidden from the page, but
the call would run with the rights of an anonymous caller: such a request is forged, and refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.a2a.call import Head
from gateway.a2a.headers import Pairs, is_json

METHODS = b"GET, POST, DELETE"
"""Methods that a page may use; HEAD needs no permission."""
REQUEST_HEADERS = (
    "A2A-Version", "A2A-Extensions", "X-A2A-Extensions", "Authorization", "X-API-Key", "Content-Type", "Accept",
    "Last-Event-ID", "traceparent", "tracestate", "X-Request-Id",
)  # fmt: skip
"""Request headers that a page may set, beside those of the configuration."""
ANSWER_HEADERS = (
    b"WWW-Authenticate, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, A2A-Version, A2A-Extensions, "
    b"X-A2A-Extensions, ETag, Deprecation, Sunset"
)
"""Answer headers that a page may read."""

_VARY = (b"vary", b"Origin")
# Headers that no page sends without a preflight.
_ASKED_FOR = frozenset({b"a2a-version", b"authorization", b"x-api-key"})


@dataclass(frozen=True, slots=True)
class Policy:
    """The CORS policy, compiled from `gateway.cors`; by default no page may call.

    Attributes:
        anyone: Whether pages of every origin may call.
        granted: Headers of answers to pages that may call, by their origin.
        otherwise: Headers of all other answers.
        allowed: Further headers of a preflight that is granted.
    """

    anyone: bool = False
    granted: Mapping[bytes, tuple[tuple[bytes, bytes], ...]] = field(default_factory=dict)
    otherwise: tuple[tuple[bytes, bytes], ...] = ()
    allowed: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def compile(cls, origins: Sequence[str], headers: Sequence[str], max_age: float, *, credentials: bool) -> "Policy":
        """Return the policy for these origins; `*` allows any, then without credentials.

        Args:
            headers: Request headers that pages may set, beside those of A2A.
            max_age: Seconds for which a browser may cache a preflight.
        """
        exposed = (b"access-control-expose-headers", ANSWER_HEADERS)
        allowed = (
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", ", ".join((*REQUEST_HEADERS, *headers)).encode("ascii")),
            (b"access-control-max-age", b"%d" % max_age),
        )
        if "*" in origins:
            # One answer for all, so that caches may share it; never with credentials, which `check` refuses.
            everyone = ((b"access-control-allow-origin", b"*"), exposed)
            return cls(anyone=True, otherwise=everyone, allowed=allowed)
        granted = {}
        for origin in (written.encode("ascii") for written in origins):
            granting = [(b"access-control-allow-origin", origin), exposed, _VARY]
            if credentials:
                granting.insert(1, (b"access-control-allow-credentials", b"true"))
            granted[origin] = tuple(granting)
        return cls(granted=granted, otherwise=(_VARY,), allowed=allowed)

    def headers(self, head: Head) -> Pairs:
        """Return the headers of every answer to a request, good or bad."""
        return list(self.granted.get(_origin(head) or b"", self.otherwise))

    def preflight(self, head: Head) -> Pairs | None:
        """Return further headers of the answer to a preflight, under status 204; None for any other request.

        For an origin that may not call there are none, and its browser stops there.
        """
        if not self.allowed or head.method != "OPTIONS":
            return None
        origin = _origin(head)
        if origin is None or head.first(b"access-control-request-method") is None:
            return None
        return list(self.allowed) if self._grants(origin) else []

    def is_forged(self, head: Head) -> bool:
        """Return whether a page that may not call could have sent the request without a preflight."""
        if head.method in ("GET", "HEAD", "OPTIONS") or (origin := head.first(b"origin")) is None:
            return False
        if self._grants(origin) or is_json(head.first(b"content-type")):
            return False
        return not any(name in _ASKED_FOR for name, _ in head.headers)

    def _grants(self, origin: bytes) -> bool:
        return self.anyone or origin in self.granted


def _origin(head: Head) -> bytes | None:
    """Return the one origin that a request names, or None."""
    named = head.all(b"origin")
    return named[0] if len(named) == 1 else None
