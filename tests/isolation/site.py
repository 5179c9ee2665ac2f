"""The site: agents that trust everybody, the callers, and one gateway between them, which is a new one for every run.

Who reaches what, and how it is kept apart, is told by `Place`; the model goes by nothing else.
"""

import asyncio
import hashlib
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.app import Gateway
from gateway.config.check import examine
from gateway.tasks.state_url import StateUrl
from tests.e2e.agents.server import Server
from tests.edge import IS_ASGI, in_front_of
from tests.identity.issuance import ISSUER, compact, ec_key, jwk
from tests.identity.provider import KEYS, provider
from tests.isolation.agent import Agent, ancient, http_agent
from tests.isolation.agent_over_grpc import agent_over_grpc
from tests.isolation.heard import SESSION, Heard
from tests.isolation.official_agent import official_agent

HOOK = "https://127.0.0.1:9/"
"""The beginning of webhooks' URLs; nobody calls them."""
SEEDED = 16
"""Tasks that the agent has whose tasks are adopted, from before there was a gateway."""
_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Caller:
    """A client and its identity.

    Attributes:
        subject: As agents are told.
        principal: The caller within the tenant; agents may be told the same of two callers.
        credential: A token's or an API key's header.
    """

    name: str
    tenant: str
    subject: str
    principal: str
    credential: tuple[str, str]

    @property
    def tenant_and_subject(self) -> tuple[str, str]:
        """Return the tenant and the subject that agents are told."""
        return self.tenant, self.subject

    def __repr__(self) -> str:
        return self.name


def _key(name: str, tenant: str) -> Caller:
    return Caller(f"{tenant}_{name}_by_key", tenant, name, f"key {name}", ("X-API-Key", _secret(name)))


def _token(name: str, tenant: str) -> Caller:
    claims = {"iss": ISSUER, "aud": "agents", "exp": time.time() + 86_400, "sub": name, "org": tenant}
    token = compact({"alg": "ES256", "kid": "k1"}, claims, ec_key()).decode()
    return Caller(f"{tenant}_{name}", tenant, name, f"token {name}", ("Authorization", f"Bearer {token}"))


def _secret(name: str) -> str:
    return f"{name}-0123456789abcdef0123456789abcdef"


CALLERS = (
    _token("ana", "acme"),
    # The same principal with another tenant.
    _token("ana", "globex"),
    # Other principals with the same tenant; one has a key that is called as another is.
    _key("ben", "acme"),
    _key("ana", "acme"),
    # It may act for both.
    _key("dan", "desk"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """An agent, or each tenant's own, as clients find it.

    Attributes:
        agents: The agents that the callers of a tenant reach.
        by_principal: Whether callers of one tenant are told apart.
        adopts: Whether a task that nobody owns is its first caller's.
        shared: Whether more than one owner reaches an agent of it.
        ancient: Whether its agent has its tasks named by clients.
        grpc: Whether it has an address over gRPC.
        lists: Whether its agent can list tasks.
        speaks: The dialect of its agent, in the words of `Speech`.
        settings: Its settings beside the backend.
    """

    name: str
    agents: dict[str, str]
    by_principal: bool = False
    adopts: bool = False
    shared: bool = True
    ancient: bool = False
    grpc: bool = True
    lists: bool = True
    speaks: tuple[str, ...] = ("jsonrpc 1.0", "rest 1.0")
    settings: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name


def _of_all(name: str) -> dict[str, str]:
    return {"acme": name, "globex": name}


_BY_SESSION = {"identity_headers": {"session": SESSION}}

PLACES = (
    Place("shared", _of_all("shared"), settings=_BY_SESSION),
    Place("private", _of_all("private"), by_principal=True, settings={"isolation": "principal"}),
    Place("own", {"acme": "ownacme", "globex": "ownglobex", "desk": ""}, grpc=False),
    Place("adopting", _of_all("adopting"), adopts=True, speaks=("jsonrpc 1.0",), settings={"unknown_tasks": "adopt"}),
    Place("old", _of_all("old"), speaks=("jsonrpc 0.3",), settings=_BY_SESSION),
    Place("rest", _of_all("re:st"), speaks=("rest 1.0",)),
    Place("wired", _of_all("wired"), speaks=("grpc 1.0",), settings=_BY_SESSION),
    Place("ancient", _of_all("ancient"), ancient=True, lists=False, speaks=("jsonrpc 0.1",)),
    Place("official", _of_all("official")),
    Place("alone", {"acme": "alone"}, by_principal=True, settings={"isolation": "principal"}),
    # Two agents of the file, each for one tenant, with one backend.
    Place("left", {"acme": "twin"}),
    Place("right", {"globex": "twin"}),
)


@asynccontextmanager
async def agents() -> AsyncIterator[dict[str, Agent]]:
    """All agents, by their names."""
    async with AsyncExitStack() as stack:
        found = {}
        for name in ("shared", "private", "ownacme", "ownglobex", "alone", "twin"):
            found[name] = await stack.enter_async_context(http_agent(name, "JSONRPC 1.0", "HTTP+JSON 1.0"))
        found["adopting"] = await stack.enter_async_context(http_agent("adopting", "JSONRPC 1.0", seeded=SEEDED))
        found["re:st"] = await stack.enter_async_context(http_agent("re:st", "HTTP+JSON 1.0"))
        found["old"] = await stack.enter_async_context(http_agent("old", "JSONRPC 0.3"))
        found["wired"] = await stack.enter_async_context(agent_over_grpc("wired"))
        found["ancient"] = await stack.enter_async_context(ancient("ancient"))
        found["official"] = await stack.enter_async_context(official_agent("official"))
        yield found


State = Callable[[int], StateUrl]
"""Returns the URL of a run's ledger; runs are counted from 1."""


class Site:
    """Everything, for as many runs as there are.

    Args:
        found: The agents.
        text: The configuration.
        state: An empty place for each run.
        gateways: The number of gateways that share it.
        relays: Whether they call webhooks themselves.

    Attributes:
        lasts: Whether a gateway finds again what another one has written down.
        addresses: Of each gateway, the port and the address over gRPC.
    """

    def __init__(self, found: dict[str, Agent], text: str, *, state: State, gateways: int, relays: bool) -> None:
        self.agents = found
        self.relays = relays
        self.lasts = state(0).kind != "memory"
        self._text = text
        self._state = state
        self._runs = 0
        self._many = gateways
        self._gateways: list[Gateway] = []
        self._servers = AsyncExitStack()
        self.addresses: list[tuple[int, str]] = []

    async def begin(self) -> None:
        """Start new gateways before agents that have forgotten everything."""
        for agent in self.agents.values():
            agent.forget()
        self._runs += 1
        await self._start()
        self.take()

    async def again(self) -> None:
        """Stop the gateways, and start others with what they have written down."""
        await self.end()
        await self._start()

    async def end(self) -> None:
        """Stop the gateways."""
        hurry = asyncio.Event()
        hurry.set()
        self.addresses.clear()
        await self._servers.aclose()
        while self._gateways:
            await self._gateways.pop().stop(hurry, delay=0.0)

    def take(self) -> list[Heard]:
        """Return the calls that all agents heard since the last time."""
        return [heard for agent in self.agents.values() for heard in agent.take()]

    async def _start(self) -> None:
        examined = examine(Path("gateway.yaml"), {}, text=self._text)
        assert examined.errors == (), examined.errors
        for _ in range(self._many):
            gateway = Gateway(
                examined, access_stream=io.BytesIO(), state=self._state(self._runs), over_http=not IS_ASGI
            )
            self._gateways.append(gateway)
            await gateway.start()
            if IS_ASGI:
                port = await self._servers.enter_async_context(in_front_of(gateway, Server()))
            else:
                port = gateway.listeners.servers[0].port
            self.addresses.append((port, gateway.grpc_address))
            async with asyncio.timeout(_WAIT):
                for backend in gateway.snapshot.backends.values():
                    await backend.source.settled.wait()


def in_memory(_run: int) -> StateUrl:
    """A ledger that nobody finds again."""
    return StateUrl("memory")


@asynccontextmanager
async def site(
    *, state: State = in_memory, gateways: int = 1, push: str = "passthrough", isolation: str | None = None
) -> AsyncIterator[Site]:
    """Start all agents.

    Args:
        state, gateways: As `Site`.
        push: The mode of webhooks.
        isolation: The isolation of all agents, instead of the places' own.
    """
    async with agents() as found, provider() as issuer:
        issuer.publish(jwk(ec_key()))
        text = json.dumps(_file(found, issuer.url + KEYS, push, isolation))
        here = Site(found, text, state=state, gateways=gateways, relays=push == "relay")
        try:
            yield here
        finally:
            await here.end()


def _file(found: dict[str, Agent], keys_url: str, push: str, isolation: str | None) -> dict[str, Any]:
    keys = {
        caller.subject: {
            "sha256": hashlib.sha256(_secret(caller.subject).encode()).hexdigest(),
            "tenant": caller.tenant,
        }
        for caller in CALLERS
        if caller.principal.startswith("key ")
    }
    corp = {"issuer": ISSUER, "audience": "agents", "jwks": keys_url, "tenant_claim": "org"}
    reached: dict[str, Any] = {
        tenant: [place.name for place in PLACES if tenant in place.agents] for tenant in ("acme", "globex")
    }
    reached["desk"] = {"agents": ["own"], "act_for": ["acme", "globex"]}
    listens = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "listen_grpc": "127.0.0.1:0"}
    # One for all gateways, as it is where several serve one file; agents never call it.
    listens["public_url"] = "https://gateway.test"
    return {
        "version": 1,
        "gateway": listens,
        "auth": {"issuers": {"corp": corp}, "api_keys": keys},
        "tenants": reached,
        "push": {"mode": push, "allow": [HOOK + "*"], "block_private_networks": False},
        "agents": {
            place.name: {**_entry(place, found), **({"isolation": isolation} if isolation else {})} for place in PLACES
        },
    }


def _entry(place: Place, found: dict[str, Agent]) -> dict[str, Any]:
    backends = {
        tenant: {"url": found[name].url, **found[name].settings} for tenant, name in place.agents.items() if name
    }
    if place.name == "own":
        return {"by_tenant": {tenant: {"backend": backend["url"]} for tenant, backend in backends.items()}}
    return {**place.settings, "backend": next(iter(backends.values()))}
