"""A gateway whose agents some tenants share and others do not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.gateway import RESULT, Running, agent, card_of, keys, running
from tests.support.kept import shared
from tests.support.scripted import Script, ScriptedBackend, answers, whole


@asynccontextmanager
async def guarded(script: Script | None = None) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """Agents that tenants share and do not share, all of them at one backend.

    acme may call support, and billing and research on /a2a; globex support alone; nobody is a tenant without agents.
    """
    play = agent(
        answers(whole(RESULT)) if script is None else script,
        card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0"),
    )
    async with shared("guarded", lambda: _guarded(play)) as ((gateway, backend), used):
        if used:
            await gateway.forget()
            await backend.plays(play)
        yield gateway, backend


@asynccontextmanager
async def _guarded(play: Script) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    async with ScriptedBackend(play) as backend:
        text = f"""\
{keys(acme="acme", globex="globex", idle="idle")}
tenants:
  acme: [support, billing, research, hermit]
  globex: [support, ledger]
  idle: []
defaults: {{ isolation: none }}
agents:
  support: {backend.url}
  billing: {{ match: {{ path: /a2a, tenant: billing }}, backend: {backend.url}, visibility: private }}
  research: {{ match: {{ path: /a2a, key: acme, tenant: research }}, backend: {backend.url}, visibility: private }}
  ledger: {{ match: {{ path: /a2a, tenant: ledger }}, backend: {backend.url}, visibility: private }}
  hermit: {{ backend: {backend.url}, visibility: private }}
"""
        async with running(text) as gateway:
            yield gateway, backend
