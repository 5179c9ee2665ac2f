"""Webhooks on loopback, over TLS with an authority of the tests' own, and what it takes to call them."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trustme

from gateway.config.push import read_pattern
from gateway.push.webhook import WebhookPolicy
from gateway.upstream.connections import client_tls
from tests.doubles.scripted import Script, ScriptedBackend

HOST = "hooks.example"
LOOPBACK = ("127.0.0.1",)
AUTHORITY = trustme.CA()


class Names:
    """A resolver that answers with what comes next; the last answer is kept."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers or (LOOPBACK,)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        found = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if not found:
            raise OSError("no such name")
        return found


def trusting() -> ssl.SSLContext:
    """What the gateway verifies webhooks by."""
    context = client_tls()
    AUTHORITY.configure_trust(context)
    return context


@asynccontextmanager
async def webhook(script: Script, *names: str, authority: trustme.CA = AUTHORITY) -> AsyncIterator[ScriptedBackend]:
    """A webhook that has a certificate for some names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or (HOST,))).configure_cert(context)
    async with ScriptedBackend(script, tls=context) as backend:
        yield backend


def local(backend: ScriptedBackend, names: Names | None = None) -> WebhookPolicy:
    """A policy by which a webhook on loopback may be called, at any path."""
    pattern = read_pattern(f"https://{HOST}:{backend.port}")
    return WebhookPolicy([pattern], block_private=False, resolve=names or Names())


def url(backend: ScriptedBackend, path: str = "/a2a?key=secret") -> str:
    return f"https://{HOST}:{backend.port}{path}"
