"""The site of the tests: seven agents and more behind one gateway, and every way that leads to one of them."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.received import Received
from tests.e2e.process import GatewayProcess
from tests.identity.issuance import ISSUER, compact, rsa_key, sha256
from tests.identity.provider import KEYS, Provider

ACME_KEY = "a2a_the-key-of-acme"
GLOBEX_KEY = "a2a_the-key-of-globex"
DESK_KEY = "a2a_the-key-of-the-desk"
HUB_KEY = "a2a_the-key-of-the-hub"
OLD_KEY = "a2a_the-key-that-has-expired"
UPSTREAM_TOKEN = "what-the-gateway-shows-to-billing"
BODY_LIMIT = 64 * 1024
HOOK = "https://localhost:9/hook"
"""A webhook that nobody calls."""
HOOKS = {"allow": HOOK, "block_private_networks": False}
"""What `push` has to say for it: without, webhooks are public, and that a name is public only the Internet knows."""

# What a client may send and an agent must never see from it.
FORGED = {
    "X-A2A-Tenant": "forged",
    "X_A2A_Tenant": "forged",
    "X-A2A-Subject": "forged",
    "X-Request-Id": "forged",
    "X-Forwarded-Host": "forged",
    "Cookie": "session=forged",
    "X-Anything": "forged",
}

SHAPES = {
    shape.marker: shape
    for shape in (
        Shape("echo"),
        Shape("housed", "/rpc", "/rest", tenant="house"),
        Shape("alpha", "/rpc", "/rest", host="alpha.upstream.example:7001"),
        Shape("beta"),
        Shape("gamma"),
        Shape("billing", "/rpc", "/rest"),
        Shape("sales", "/rpc", "/rest", tenant="house"),
        Shape("crm-acme", "/rpc", "/rest"),
        Shape("crm-globex", tenant="other-house"),
        Shape("bare", extended=False, push=False),
        Shape("hidden"),
    )
}
"""Every agent by its marker."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to an agent.

    Attributes:
        path: Where its card is found, below the gateway's URL.
        headers: The credential.
        agent: The marker of the agent at its end.
        url: The interface URL that the card must show, below the gateway's URL; the same as `path` but for tenants.
        tenant: The A2A tenant that the card must tell the client to send.
        upstream_tenant: The A2A tenant that the agent must receive.
        caller: Tenant and subject of the caller.
    """

    name: str
    path: str
    headers: Mapping[str, str]
    agent: str
    url: str
    caller: tuple[str, str]
    tenant: str = ""
    upstream_tenant: str = ""
    configured: str = ""

    def __str__(self) -> str:
        return self.name


def token(**changes: Any) -> str:
    """A token of tenant acme's Ada for the agent beta, good for an hour; a member that is `...` is left out."""
    said = {"iss": ISSUER, "aud": "agents", "exp": time.time() + 3600, "sub": "ada", "org": "acme", "agent": "beta"}
    claims = {name: value for name, value in {**said, **changes}.items() if value is not ...}
    return compact({"alg": "RS256", "kid": "k1"}, claims, rsa_key()).decode()


def api_key(key: str) -> dict[str, str]:
    return {"X-API-Key": key}


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


_ACME, _GLOBEX = ("acme", "acme-key"), ("globex", "globex-key")

WAYS = (
    Way("path", "/echo", api_key(ACME_KEY), "echo", "/echo", _ACME),
    Way("path-to-a-tenant-of-the-agent", "/housed", api_key(ACME_KEY), "housed", "/housed", _ACME, "", "house"),
    Way("key", "/desk", api_key(DESK_KEY), "alpha", "/desk", ("acme", "desk-key")),
    Way("key-as-bearer", "/desk", bearer(DESK_KEY), "alpha", "/desk", ("acme", "desk-key")),
    Way("claim", "/desk", bearer(token()), "beta", "/desk", ("acme", "ada")),
    Way("tenant", "/a2a/billing", api_key(ACME_KEY), "billing", "/a2a", _ACME, "billing"),
    Way("tenant-to-another-tenant", "/a2a/sales", api_key(GLOBEX_KEY), "sales", "/a2a", _GLOBEX, "sales", "house"),
    Way("path-and-tenant", "/crm", api_key(ACME_KEY), "crm-acme", "/crm", _ACME, "acme", configured="crm"),
    Way(
        "path-and-tenant-of-another",
        "/crm",
        api_key(GLOBEX_KEY),
        "crm-globex",
        "/crm",
        _GLOBEX,
        "globex",
        "other-house",
        "crm",
    ),
)
"""By path, by credential, by `tenant`, by path and tenant together."""


def configuration(agents: Mapping[str, Agent], provider: Provider) -> dict[str, Any]:
    """The file of the site."""
    keys = {
        "acme-key": (ACME_KEY, "acme"),
        "globex-key": (GLOBEX_KEY, "globex"),
        "desk-key": (DESK_KEY, "acme"),
        "hub-key": (HUB_KEY, "hub"),
    }
    everyones = ["echo", "housed", "alpha", "beta", "gamma", "billing", "sales", "crm", "bare"]
    return {
        "gateway": {"body_limit": f"{BODY_LIMIT // 1024}KiB"},
        "auth": {
            "issuers": {
                "corp": {
                    "issuer": ISSUER,
                    "audience": "agents",
                    "jwks": provider.url + KEYS,
                    "tenant_claim": "org",
                }
            },
            "api_keys": {
                **{name: {"sha256": sha256(key.encode()), "tenant": tenant} for name, (key, tenant) in keys.items()},
                "old-key": {"sha256": sha256(OLD_KEY.encode()), "tenant": "acme", "expires": "2026-01-31"},
            },
        },
        "tenants": {
            "acme": everyones,
            "globex": ["sales", "crm"],
            "hub": {"agents": ["crm", "hidden"], "act_for": ["acme", "globex"]},
        },
        "push": HOOKS,
        "agents": {
            "echo": agents["echo"].url,
            "housed": agents["housed"].url,
            "alpha": {"backend": agents["alpha"].url, "match": {"path": "/desk", "key": "desk-key"}},
            "beta": {"backend": agents["beta"].url, "match": {"path": "/desk", "claim": {"agent": "beta"}}},
            "gamma": {"backend": agents["gamma"].url, "match": {"path": "/desk", "tenant": "gamma"}},
            "billing": {
                "backend": agents["billing"].url,
                "match": {"path": "/a2a", "tenant": "billing"},
                "upstream_auth": {"bearer": UPSTREAM_TOKEN},
            },
            "sales": {"backend": agents["sales"].url, "match": {"path": "/a2a", "tenant": "sales"}},
            "crm": {
                "match": {"path": "/crm"},
                "by_tenant": {"acme": agents["crm-acme"].url, "globex": agents["crm-globex"].url},
            },
            "bare": {"backend": agents["bare"].url, "methods": ["SendMessage", "GetTask", "GetExtendedAgentCard"]},
            "hidden": {"backend": agents["hidden"].url, "visibility": "private"},
        },
    }


@dataclass
class Seen:
    """What the agent at the end of a way received, while it was watched."""

    calls: list[Received] = field(default_factory=list)


class Site:
    """The gateway, its agents and who calls them."""

    def __init__(self, gateway: GatewayProcess, agents: Mapping[str, Agent]) -> None:
        self.gateway = gateway
        self.agents = agents

    @property
    def ports(self) -> set[str]:
        """The ports of all agents, as an address has them: no client may ever see one."""
        return {f":{agent.port}" for agent in self.agents.values()}

    @contextmanager
    def only(self, way: Way) -> Iterator[Seen]:
        """Watch that the agent at the end of the way gets every call, and gets it as from the gateway."""
        before = {marker: len(agent.calls) for marker, agent in self.agents.items()}
        seen = Seen()
        yield seen
        for marker, agent in self.agents.items():
            calls = agent.calls[before[marker] :]
            if marker == way.agent:
                seen.calls = calls
            else:
                assert calls == [], f"{marker} was called in place of {way.agent}"
        assert seen.calls
        for call in seen.calls:
            check_identity(call, way)


def check_identity(call: Received, way: Way) -> None:
    """Nothing of the caller's credential, nothing it made up; what the gateway knows of it."""
    tenant, subject = way.caller
    secrets = {value.removeprefix("Bearer ") for value in way.headers.values()}
    assert not any(secret in value for secret in secrets for value in call.headers.values())
    assert not any(secret in call.path + call.query for secret in secrets)
    shown = f"Bearer {UPSTREAM_TOKEN}" if way.agent == "billing" else None
    assert call.headers.get("authorization") == shown
    assert not {"x-api-key", "cookie", "x-anything", "x-forwarded-host", "x_a2a_tenant"} & set(call.names)
    assert call.headers["x-a2a-tenant"] == tenant
    assert call.headers["x-a2a-subject"] == subject
    assert "forged" not in str(call.headers)
    assert (
        call.names.count("x-a2a-tenant") == call.names.count("x-a2a-subject") == call.names.count("x-request-id") == 1
    )
    assert call.headers["x-forwarded-for"] == "127.0.0.1"
    assert call.headers["accept-encoding"] == "identity"
    in_path = call.path.startswith(f"{SHAPES[way.agent].rest}/{way.upstream_tenant}/")
    if way.upstream_tenant:
        assert call.tenant == way.upstream_tenant or (call.tenant is None and in_path)
    else:
        assert call.tenant is None
        assert way.tenant == "" or f"/{way.tenant}/" not in call.path
