"""Credentials of two tenants, and a webhook."""

import time
from typing import Any

from tests.identity.issuance import ISSUER, compact, rsa_key

ACME_KEY = "a2a_the-key-of-acme"
GLOBEX_KEY = "a2a_the-key-of-globex"
HOOK = "https://localhost:9/hook"
"""A webhook that nobody calls."""
HOOKS = {"allow": HOOK, "block_private_networks": False}
"""Settings of `push` for local webhooks: by default they are public, and only the Internet resolves public names."""


def token(**changes: Any) -> str:
    """A token of tenant acme's Ada, good for an hour, but for these claims."""
    claims = {"iss": ISSUER, "aud": "agents", "exp": time.time() + 3600, "sub": "ada", "org": "acme", **changes}
    return compact({"alg": "RS256", "kid": "k1"}, claims, rsa_key()).decode()


def api_key(key: str) -> dict[str, str]:
    return {"X-API-Key": key}


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}
