"""Cards at their well-known paths: whose, for whom, and how long they may be kept."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest
from a2a.types.a2a_pb2 import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.proxy import card_requests
from tests.support.gateway import LISTENS, RESULT, Running, agent, bearer, card_of, fronted, keys, running
from tests.support.scripted import ScriptedBackend, Wire, answers, whole
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
OLD = "/.well-known/agent.json"


def urls(body: bytes) -> set[tuple[str, str | None]]:
    """Return the URLs of the interfaces with their tenants; those of the old card have none."""
    card = json.loads(body)
    others = card.get("supportedInterfaces") or [card, *card["additionalInterfaces"]]
    return {(each["url"], each.get("tenant")) for each in others}


async def test_a_card_names_the_gateway_at_every_path() -> None:
    card = card_of("http://127.0.0.1:1/deep", "JSONRPC 1.0", "HTTP+JSON 1.0")
    async with fronted(answers(whole(RESULT)), card=card) as (gateway, backend):
        for path in (CARD, OLD):
            answer = await gateway.get(
                "/echo" + path, [(b"X-Forwarded-Host", b"evil.test"), (b"Forwarded", b"host=evil.test")]
            )
            assert (answer.status, answer.header("content-type")) == (200, "application/json")
            assert urls(answer.body) == {(gateway.gateway.public_url + "/echo", None)}
            assert ("supportedInterfaces" in answer.json) is (path == CARD)
            assert b"evil" not in answer.body
            assert str(backend.port) not in answer.body.decode()
        line = await gateway.line(of=2)
        assert (line["operation"], line["agent"], line["status"], line["binding"]) == (
            "GetAgentCard",
            "echo",
            200,
            "rest",
        )
        assert line["bytes_out"] == len(answer.body)


@for_each("path", [CARD, OLD])
async def test_a_card_may_be_kept_and_asked_for_again(path: str) -> None:
    async with fronted(answers(whole(RESULT)), card=card_of("http://127.0.0.1/", "JSONRPC 1.0")) as (gateway, _):
        first = await gateway.get("/echo" + path)
        tag = first.header("etag")
        assert tag is not None
        assert first.header("cache-control") == "public, max-age=60"
        assert first.header("vary") == "Authorization, X-API-Key, Accept, A2A-Version"
        for shown in (tag, f'"other", {tag}', "*", tag.removeprefix("W/")):
            again = await gateway.get("/echo" + path, [(b"If-None-Match", shown.encode())])
            assert (again.status, again.body, again.header("etag")) == (304, b"", tag)
            assert again.header("content-length") is None
        for shown in ('"other"', "", tag + "x"):
            assert (await gateway.get("/echo" + path, [(b"If-None-Match", shown.encode())])).status == 200
        client = await gateway.client()
        await client.send(f"HEAD /echo{path} HTTP/1.1\r\nHost: gw.test\r\n\r\n".encode())
        status, headers = await client.head()
        assert (status, dict(headers)["etag"]) == (200, tag)
        assert dict(headers)["content-length"] == str(len(first.body))


A2A_JSON = b"application/a2a+json"
MODERN = [
    [(b"A2A-Version", b"1.0")],
    [(b"A2A-Version", b"1")],
    [(b"Accept", A2A_JSON)],
    [(b"Accept", b"text/html, Application/A2A+JSON;q=0.5")],
    [(b"Accept", b"application/a2a+json, application/json"), (b"A2A-Version", b"1.0.1")],
    [(b"Accept", b"application/json"), (b"A2A-Version", b"1.0")],
]
DUAL = [
    [],
    [(b"Accept", b"*/*")],
    [(b"Accept", b"application/json")],
    [(b"Accept", b"application/a2a+json;q=0")],
    [(b"A2A-Version", b"0.3")],
    [(b"A2A-Version", b"0.3.0"), (b"Accept", A2A_JSON)],
    [(b"A2A-Version", b"9.9")],
    [(b"A2A-Version", b"")],
]


async def test_a_request_for_1_0_gets_a_card_of_1_0_alone() -> None:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", "JSONRPC 0.3", capabilities={"stateTransitionHistory": True})
    async with ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        text = f"{keys(one='acme')}{LISTENS}\ntenants: {{ acme: ['*'] }}\nagents: {{ echo: '{backend.url}' }}\n"
        async with running(text) as gateway:
            both, tags = (await gateway.get("/echo" + CARD)).json, set()
            ParseDict(both, AgentCard(), ignore_unknown_fields=True)
            assert "url" in both
            for headers in MODERN:
                modern = await gateway.get("/echo" + CARD, headers)
                # Every member of it is one that 1.0 knows, and every way of calling the agent is there.
                ParseDict(modern.json, AgentCard(), ignore_unknown_fields=False)
                assert not modern.json.keys() & {"url", "preferredTransport", "protocolVersion", "security"}
                assert modern.json["supportedInterfaces"] == both["supportedInterfaces"]
                asked = any(A2A_JSON in value.lower() for name, value in headers if name == b"Accept")
                assert modern.header("content-type") == ("application/a2a+json" if asked else "application/json")
                assert modern.header("vary") == "Authorization, X-API-Key, Accept, A2A-Version"
                tag = modern.header("etag") or ""
                tags.add(tag)
                held = [*headers, (b"If-None-Match", tag.encode())]
                assert (await gateway.get("/echo" + CARD, held)).status == 304
                # A cache that holds the one never shows it for the other.
                assert (await gateway.get("/echo" + CARD, [(b"If-None-Match", tag.encode())])).status == 200
            assert (await gateway.get(f"/echo{CARD}?A2A-Version=1.0")).header("etag") == tag
            for headers in DUAL:
                shown = await gateway.get("/echo" + CARD, headers)
                assert (shown.json, shown.header("content-type")) == (both, "application/json")
                tags.add(shown.header("etag") or "")
            assert len(tags) == 2
            for headers in (*MODERN, *DUAL):
                assert "supportedInterfaces" not in (await gateway.get("/echo" + OLD, headers)).json


@for_each("prefix", ["", "/agents"])
async def test_paths_are_appended_to_the_urls_of_an_agent_at_the_root(prefix: str) -> None:
    # Each call has a connection of its own, for every answer has the same id.
    script = answers(whole(RESULT, b"connection: close"))
    async with ScriptedBackend(agent(script, card_of("http://127.0.0.1/", "JSONRPC 1.0"))) as backend:
        text = f"gateway: {{ public_url: 'http://gw.test{prefix}', listen: '127.0.0.1:0', admin: '127.0.0.1:0' }}\n"
        text += f"agents: {{ echo: {{ match: {{ path: / }}, backend: '{backend.url}' }} }}\n"
        async with running(text) as gateway:
            for headers in ([], [(b"A2A-Version", b"1.0")]):
                card = (await gateway.get(prefix + CARD, headers)).json
                interfaces = [(each["url"], each["protocolBinding"]) for each in card["supportedInterfaces"]]
                others = [(each["url"], each["transport"]) for each in card.get("additionalInterfaces", ())]
                for url, binding in (*interfaces, *others):
                    path = url.removeprefix("http://gw.test")
                    if binding == "HTTP+JSON":
                        body = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}'
                        answer = await gateway.post(path + "/message:send", body)
                    else:
                        answer = await gateway.post(path or "/")
                    assert answer.status == 200, (url, binding, answer.body)


async def test_one_card_is_never_taken_for_the_other() -> None:
    async with fronted(answers(whole(RESULT)), card=card_of("http://127.0.0.1/", "JSONRPC 1.0")) as (gateway, _):
        tags = {path: (await gateway.get("/echo" + path)).header("etag") or "" for path in (CARD, OLD)}
        assert tags[CARD] != tags[OLD]
        for path, other in ((CARD, OLD), (OLD, CARD)):
            assert (await gateway.get("/echo" + path, [(b"If-None-Match", tags[other].encode())])).status == 200


SITE = """\
{keys}
gateway: {{ public_url: "https://gw.test/agents", listen: "127.0.0.1:0", admin: "127.0.0.1:0" }}
tenants: {{ acme: {{ agents: ["*"], act_for: [globex] }}, globex: [crm, open] }}
defaults: {{ isolation: none }}
agents:
  open: {url}
  billing: {{ match: {{ path: /a2a, tenant: billing }}, backend: {url} }}
  private: {{ backend: {url}, visibility: private }}
  hosted: {{ match: {{ host: "*.agents.test" }}, backend: {url} }}
  crm: {{ by_tenant: {{ acme: {url}, globex: {url} }} }}
"""


@asynccontextmanager
async def site() -> AsyncIterator[Running]:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", "JSONRPC 0.3")
    async with ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        text = SITE.format(keys=keys(acme="acme", globex="globex"), url=backend.url)
        async with running(text) as gateway:
            yield gateway


async def test_an_agent_picked_by_tenant_has_its_card_below_the_shared_path() -> None:
    async with site() as gateway:
        answer = await gateway.get("/agents/a2a/billing" + CARD)
        assert ("https://gw.test/agents/a2a", "billing") in urls(answer.body)
        # 0.3 has no place for a tenant in a message, so its URL says it.
        assert ("https://gw.test/agents/a2a/billing", None) in urls(answer.body)
        assert answer.json["url"] == "https://gw.test/agents/a2a/billing"
        old = await gateway.get("/agents/a2a/billing" + OLD)
        assert urls(old.body) == {("https://gw.test/agents/a2a/billing", None)}
        assert (await gateway.get("/agents/a2a" + CARD)).status == 401


HOSTS = [
    (b"eu.agents.test", "eu.agents.test"),
    (b"EU.Agents.TEST", "eu.agents.test"),
    (b"eu.agents.test.", "eu.agents.test"),
    (b"eu.agents.test:1", "eu.agents.test"),
    (b"eu.agents.test:", "eu.agents.test"),
    (b"a.b.agents.test", "a.b.agents.test"),
    (b"xn--fa-hia.agents.test", "xn--fa-hia.agents.test"),
    (b"agents.test", None),
    (b".agents.test", None),
    (b"evil..agents.test", None),
    (b"evil.test.agents.test..", None),
    (b"evilagents.test", None),
    (b"agents.test.evil.example", None),
    (b"eu.agents.test@evil.example", None),
    (b"evil.example@eu.agents.test", None),
    (b"evil.example:80.agents.test", None),
    (b"eu.agents.test:80:evil.example", None),
    (b"eu.agents.test:evil", None),
    (b"eu.agents.test:123456", None),
    (b"evil.example#.agents.test", None),
    (b"evil.example/.agents.test", None),
    (b"evil.example\\.agents.test", None),
    (b"evil%2e.agents.test", None),
    (b"evil,.agents.test", None),
    (b"evil .agents.test", None),
    (b"[evil].agents.test", None),
    (b"[::1].agents.test", None),
    (b"*.agents.test", None),
    ("\u00e9vil.agents.test".encode(), None),
    (b"evil\xff.agents.test", None),
    (b"evil" * 63 + b".agents.test", None),
]


async def test_a_card_shows_a_requested_host_only_if_it_fits_the_pattern() -> None:
    async with site() as gateway:
        for (host, shown), name in product(HOSTS, (CARD, OLD)):
            client = await gateway.client()
            others = b"X-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\nX-Forwarded-Port: 666\r\n"
            await client.send(b"GET /agents%b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (name.encode(), host, others))
            answer = await client.answer()
            assert b"evil" not in answer.body
            assert b":1" not in answer.body
            found = {url.rstrip("/") for url, _ in urls(answer.body)} if answer.status == 200 else set()
            # Behind the scheme and the port of the gateway's own.
            assert found == ({f"https://{shown}/agents"} if shown else set()), host


async def test_a_private_card_is_for_those_who_may_call_and_for_no_shared_cache() -> None:
    async with site() as gateway:
        assert (await gateway.get("/agents/private" + CARD)).status == 401
        assert (await gateway.get("/agents/private" + CARD, [bearer("globex")])).status == 404
        shown = await gateway.get("/agents/private" + CARD, [bearer("acme")])
        assert (shown.status, shown.header("cache-control")) == (200, "private, max-age=60")


async def test_a_known_caller_sees_its_own_tenant_and_a_stranger_none() -> None:
    async with site() as gateway:
        stranger = await gateway.get("/agents/crm" + CARD)
        assert {tenant for _, tenant in urls(stranger.body)} == {None}
        assert stranger.header("cache-control") == "private, max-age=60"
        for name in ("acme", "globex"):
            own = await gateway.get("/agents/crm" + CARD, [bearer(name)])
            assert name in {tenant for _, tenant in urls(own.body)}
        for_another = await gateway.get("/agents/crm/globex" + CARD, [bearer("acme")])
        assert "globex" in {tenant for _, tenant in urls(for_another.body)}
        foreign = await gateway.get("/agents/crm/acme" + CARD, [bearer("globex")])
        missing = await gateway.get("/agents/crm/nothing" + CARD, [bearer("globex")])
        assert foreign.anonymous == missing.anonymous


async def test_a_customers_own_card_is_for_that_customer_alone() -> None:
    skill = {"id": "s", "name": "ACME-ONLY", "description": "d", "tags": ["t"]}
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", name="ACME-ONLY", description="ACME-ONLY", skills=[skill])
    async with ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        text = f"""\
{keys(acme="acme", third="third")}
tenants: {{ acme: [crm, product], third: [crm, product] }}
agents:
  crm: {{ by_tenant: {{ acme: "{backend.url}" }} }}
  product: {{ by_tenant: {{ acme: "{backend.url}" }}, card: "{backend.url}/.well-known/agent-card.json" }}
"""
        async with running(text) as gateway:
            own = await gateway.get("/crm" + CARD, [bearer("acme")])
            assert b"ACME-ONLY" in own.body
            here = gateway.gateway.public_url + "/crm"
            assert urls(own.body) == {(here, "acme"), (here + "/acme", None)}
            for headers in ([], [bearer("third")]):
                for path in (CARD, OLD):
                    other = await gateway.get("/crm" + path, headers)
                    assert (other.json["name"], other.json["skills"]) == ("crm", [])
                    assert b"ACME-ONLY" not in other.body
                    # The interfaces are no secret: a client that is given a credential later can call them.
                    assert urls(other.body) == {(here, None)}
                    # A card that the file gives the product is everybody's.
                    assert b"ACME-ONLY" in (await gateway.get("/product" + path, headers)).body


async def test_a_card_that_cannot_be_read_is_a_fault_of_the_agent() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        answer = await gateway.get("/echo" + CARD)
        assert answer.status == 502
        assert answer.json["error"]["details"][0]["reason"] == "UPSTREAM_CONNECT"
        assert str(backend.port) not in answer.body.decode()
        assert (await gateway.line())["reason"] == "upstream_connect"


@undisturbed(0.5)
async def test_the_first_card_is_awaited_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(wire: Wire) -> None:
        await wire.request()
        await wire.hang()

    monkeypatch.setattr(card_requests, "FIRST_CARD", 0.05)
    async with (
        ScriptedBackend(silent) as backend,
        running(f"agents: {{ echo: '{backend.url}' }}", settled=False) as gateway,
    ):
        async with asyncio.timeout(2):
            assert (await gateway.get("/echo" + CARD)).status == 502


async def test_a_card_that_comes_while_it_is_awaited_is_shown() -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def slowly(wire: Wire) -> None:
        await wire.request()
        asked.set()
        await told.wait()
        await wire.send(whole(card_of("http://127.0.0.1/", "JSONRPC 1.0")))

    async with (
        ScriptedBackend(slowly) as backend,
        running(f"agents: {{ echo: '{backend.url}' }}", settled=False) as gateway,
    ):
        client = await gateway.client()
        await client.ask("GET", "/echo" + CARD)
        await asked.wait()
        told.set()
        assert (await client.answer()).json["name"] == "Scripted"
