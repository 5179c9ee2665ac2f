"""The response headers that tell a client how much it may still ask: `RateLimit-Policy` and `RateLimit`.

draft-ietf-httpapi-ratelimit-headers-11, in structured fields (RFC 9651): the policy says `q` requests in `w` seconds
(§3.1) and is the same in each answer; the limit says that no more than `r` can be used within the next `t` seconds
(§4.1). Here `t` is when there will be more than `r`, so that, in a refusal, it is also its `Retry-After`, which should
not be before the end of `t` (§6).

Told is what the *tenant* may ask. What is left of an agent, which others use too, is nobody's business (§8.2). There is
no partition key: who asks is what the quota is for, and every answer goes to whoever asked.
"""

import math
from functools import lru_cache

import msgspec

_POLICY, _LIMIT = b"ratelimit-policy", b"ratelimit"


class Standing(msgspec.Struct, frozen=True):
    """How a tenant stands with its limit of requests.

    Attributes:
        limit: Requests that it may make in a window: of all processes together, as the configuration says, or of this
            one alone where each gives its share.
        window: Seconds, whole ones: the fields know no others (§3.1.3).
        remaining: How many it could make now. More than `limit` where the burst is greater.
        reset: Seconds until there will be one more.
    """

    limit: int
    window: int
    remaining: int
    reset: float


def ratelimit_headers(standing: Standing) -> list[tuple[bytes, bytes]]:
    """Both headers, with lower-case names."""
    # A hair above a whole second is that second.
    reset = math.ceil(standing.reset - 1e-6)
    return [
        (_POLICY, _policy(standing.limit, standing.window)),
        (_LIMIT, b'"requests";r=%d;t=%d' % (standing.remaining, reset)),
    ]


@lru_cache(maxsize=1024)
def _policy(limit: int, window: int) -> bytes:
    return b'"requests";q=%d;w=%d' % (limit, window)
