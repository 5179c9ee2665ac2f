"""A whole gateway that asks who calls: an issuer whose keys a provider on loopback serves, one API key, one agent."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.identity.corpus.genuine import good, published
from tests.identity.issuance import ISSUER
from tests.identity.provider import KEYS, Provider, provider
from tests.support.gateway import CALL, RESULT, Answer, Running, agent, keys, running, secret
from tests.support.scripted import Script, ScriptedBackend, answers, whole

Header = tuple[bytes, bytes]


def shown(token: bytes) -> Header:
    """The header that shows a token."""
    return b"Authorization", b"Bearer " + token


def key_header(name: str = "acme") -> Header:
    """The header that shows an API key."""
    return b"X-API-Key", secret(name)


@dataclass(frozen=True, slots=True)
class Front:
    """The gateway, its agent and its issuer."""

    gateway: Running
    backend: ScriptedBackend
    served: Provider

    async def call(self, *headers: Header) -> Answer:
        """One call of the agent, on a connection of its own."""
        return await self.gateway.post("/echo", CALL, headers)

    async def good(self, **claims: object) -> Answer:
        """One call with a token that was never seen before."""
        return await self.call(shown(good(time.time(), **claims)))

    async def read(self, times: int = 1) -> None:
        """Wait until keys were asked for so many more times."""
        until = self.served.asked[KEYS] + times
        await self.gateway.until(lambda: self.served.asked[KEYS] >= until)

    @property
    def ready(self) -> bool:
        """Whether there are keys of the issuer."""
        return self.gateway.gateway.snapshot.key_sets["corp"].ready


def issuer(url: str, **more: str) -> str:
    """An issuer as the file has it."""
    written = {"issuer": ISSUER, "audience": "agents", "jwks": url, "algorithms": "[RS256, ES256]", **more}
    if "tenant" not in written:
        written["tenant_claim"] = "org"
    return "{ " + ", ".join(f"{name}: {value}" for name, value in written.items()) + " }"


@asynccontextmanager
async def front(
    verification: Mapping[str, object] | None = None,
    *,
    script: Script | None = None,
    tenants: str = '{ acme: ["*"] }',
    others: str = "",
    more: str = "",
    issuers: Mapping[str, str] | None = None,
    settled: bool = True,
) -> AsyncIterator[Front]:
    """Serve until the end of the block.

    Args:
        verification: `auth.verification`.
        tenants: `tenants`.
        others: More agents, each followed by a comma; {url} is the address of the backend.
        more: More lines of the file, such as `gateway:`.
        issuers: More issuers, by name.
        settled: Wait until the issuer's keys are read.
    """
    bounds: dict[str, Any] = dict(verification or {})
    async with (
        provider() as served,
        ScriptedBackend(agent(answers(whole(RESULT)) if script is None else script)) as backend,
    ):
        served.publish(*published())
        names = "\n".join(
            f"    {name}: {written}" for name, written in {"corp": issuer(served.url + KEYS), **(issuers or {})}.items()
        )
        text = f"""\
{keys(acme="acme", other="acme")}
  issuers:
{names}
  verification: {{ {", ".join(f"{name}: {value}" for name, value in bounds.items())} }}
tenants: {tenants}
agents: {{ {others.format(url=backend.url)} echo: "{backend.url}" }}
{more}
"""
        async with running(text) as gateway:
            whole_front = Front(gateway, backend, served)
            if settled:
                await gateway.until(lambda: whole_front.ready)
            yield whole_front
