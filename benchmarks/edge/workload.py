"""The workload: one call of 2 KB, one answer of 1 KB, one good token, and the key set that verifies it."""

import json
import time
from dataclasses import dataclass
from typing import Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

ISSUER = "https://login.example.com"
AUDIENCE = "agents"
ORGANISATION = "acme"
"""Claim `org` of the token: the caller's tenant."""
AGENT_CLAIM = "research"
"""Claim `agent` of the token, for routing by claim."""
TENANT = "billing"
"""The A2A `tenant` field of calls that are routed by it."""

TASK = "5b0a9c8e-0d1f-4a57-8d0e-3f0f5f9a1c22"
CONTEXT = "a7f5c3d1-4b2e-4c39-b7c5-2f8f0e6d9b11"
"""The context in the agent's answers."""

_CALL_SIZE = 2048
_ANSWER_SIZE = 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """Made once a run, so that no contestant gets an easier one.

    Attributes:
        token: A compact RS256 JWT with the claims that an identity provider usually writes; good for a day.
        key_set: The document with its key.
    """

    token: str
    key_set: str

    @classmethod
    def make(cls) -> Self:
        """Generate the key and sign the token."""
        key = rsa.generate_private_key(65537, 2048)
        public = {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k1", "use": "sig", "alg": "RS256"}
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "7c1bb4a2-7b8e-4c55-9f0e-9d3ef4d8b1f3",
            "iat": now,
            "exp": now + 86_400,
            "jti": "0e6b8a3c5d",
            "scope": "openid agents:call agents:read",
            "org": ORGANISATION,
            "agent": AGENT_CLAIM,
        }
        return cls(jwt.encode(claims, key, "RS256", {"kid": "k1"}), json.dumps({"keys": [public]}))

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every call."""
        return {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "A2A-Version": "1.0",
        }


def call(tenant: str | None = None, *, method: str = "SendMessage", size: int = _CALL_SIZE) -> bytes:
    """A JSON-RPC request of `size` bytes."""
    message = {"messageId": "2f1d7b0c-8a4e-4b0e-9d6c-6d1c7a5e8f90", "role": "ROLE_USER", "parts": [{"text": ""}]}
    params = {"message": message} if tenant is None else {"tenant": tenant, "message": message}
    return _padded({"jsonrpc": "2.0", "id": "call-1", "method": method, "params": params}, message["parts"], size)


def answer(size: int = _ANSWER_SIZE) -> bytes:
    """The JSON-RPC response to it, of `size` bytes: a task that is completed, with one artifact."""
    artifact = {"artifactId": "a-1", "parts": [{"text": ""}]}
    task = {
        "id": TASK,
        "contextId": CONTEXT,
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-20T12:00:00Z"},
        "artifacts": [artifact],
    }
    return _padded({"jsonrpc": "2.0", "id": "call-1", "result": {"task": task}}, artifact["parts"], size)


def _padded(document: object, parts: object, size: int) -> bytes:
    """The document as JSON, its first text part grown with words until it has `size` bytes."""
    assert isinstance(parts, list)
    missing = size - len(json.dumps(document, separators=(",", ":")))
    parts[0]["text"] = ("The quick brown fox jumps over the lazy dog. " * (missing // 45 + 1))[:missing]
    return json.dumps(document, separators=(",", ":")).encode()
