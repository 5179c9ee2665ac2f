"""Signs notifications by the gateway's own keys.

A signature is a JWT of ES256 (RFC 7519) that is good for five minutes, for one webhook's origin and one body:

    iss  the gateway's public URL          aud  the webhook's origin
    iat, exp, jti                          task_id
    request_body_sha256                    of the body's bytes, in hexadecimal

Receivers find the key by the token's `kid` in the gateway's key set (RFC 7517); `tasks/key_ring.py` rotates the keys.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import jwt

from gateway.a2a.json import Tree
from gateway.tasks.key_ring import ALGORITHM, NOTIFICATIONS, KeyRing
from gateway.tasks.store import Store

LIFETIME: Final = 300
"""Seconds for which a signature is good."""


class Signer:
    """Signs by the keys in the store.

    Args:
        issuer: The gateway's public URL.
        wall: Unix seconds.

    Attributes:
        ring: The keys.
    """

    def __init__(self, store: Store, issuer: str, *, wall: Callable[[], float]) -> None:
        self.ring = KeyRing(store, NOTIFICATIONS, wall=wall)
        self._issuer = issuer
        self._wall = wall

    async def jwks(self) -> Tree:
        """Return the key set that receivers verify by; the key that signs comes first.

        Raises:
            StateUnavailable: as `KeyRing.published`.
        """
        return {"keys": [dict(key.public) for key in await self.ring.published()]}

    async def sign(self, body: bytes, *, audience: str, task_id: str, id: str) -> str:  # noqa: A002 - the word
        """Return a signature of a body.

        Args:
            audience: The origin of the webhook.
            id: `jti`, unique for each signature.

        Raises:
            StateUnavailable: as `KeyRing.published`.
        """
        key, *_ = await self.ring.published()
        now = int(self._wall())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": id,
            "task_id": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        return jwt.encode(claims, key.private, ALGORITHM, {"kid": key.public["kid"]})
