"""A gateway whose agents some tenants share and others do not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.doubles.gateway import RESULT, Running, agent, card_of, keys, running
from tests.doubles.scripted import Script, ScriptedBackend, answers, whole


@asynccontextmanager
async def guarded(script: Script | None = None) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """Agents that tenants share and do not share, all of them at one backend.

    acme may call support, and billing and research on /a2a; globex support alone; nobody is a tenant without agents.
    """
    play = answers(whole(RESULT)) if script is None else script
    async with ScriptedBackend(agent(play, card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0"))) as backend:
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
