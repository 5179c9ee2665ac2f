"""Cards that mean harm, from the agent to what a client reads: nothing of them gets through (safety B1, B2)."""

import asyncio
import copy
import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3.types import AgentCard as LegacyCard

from tests.support.gateway import CALL, RESULT, Running, agent, bearer, card_of, fronted, keys, running
from tests.support.scripted import ScriptedBackend, Wire, answers, whole

pytestmark = pytest.mark.anyio

WELL_KNOWN = "/echo/.well-known/agent-card.json"
OLD = "/echo/.well-known/agent.json"
EVIL = "evil-c4rd"

# What an interface of a hostile card may point at, and what of it nobody may ever read.
PLACES = {
    "metadata": ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
    "metadata-by-name": ("http://metadata.google.internal/computeMetadata/v1", "metadata.google"),
    "decimal": ("http://2852039166/latest", "2852039166"),
    "octal": ("http://0251.0376.0251.0376/", "0251.0376"),
    "hexadecimal": ("http://0xa9fea9fe/", "0xa9fea9fe"),
    "mapped": ("http://[::ffff:169.254.169.254]/", "::ffff"),
    "userinfo": ("http://evil-c4rd:password@10.9.8.7/", "10.9.8.7"),
    "file": ("file:///etc/evil-c4rd", "file:"),
    "gopher": ("gopher://10.9.8.7:70/_evil-c4rd", "gopher"),
    "javascript": ("javascript:alert('evil-c4rd')", "javascript"),
    "no-url": ("evil-c4rd", EVIL),
    "grpc": ("10.9.8.7:50051", "10.9.8.7"),
    "split": ("http://10.9.8.7/\r\nHost: evil-c4rd", "10.9.8.7"),
    "long": ("http://10.9.8.7/" + "x" * 10_000, "10.9.8.7"),
}


def offering(url: str, **members: Any) -> bytes:
    card = json.loads(card_of(url, "JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3"))
    return json.dumps(
        {**card, "url": url, "additionalInterfaces": [{"url": url, "transport": "GRPC"}], **members}
    ).encode()


def urls(value: Any) -> set[str]:
    """Every `url` in a card, wherever it is."""
    if isinstance(value, dict):
        own = {value["url"]} if isinstance(value.get("url"), str) else set()
        return own.union(*(urls(part) for part in value.values()))
    return set().union(*(urls(part) for part in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("place", PLACES)
async def test_clients_see_the_gateway_and_calls_go_to_the_agent_for_every_interface(place: str) -> None:
    url, secret = PLACES[place]
    said = f"Also at {url} and, in other letters, {url.upper()}."
    skills = [{"id": url, "name": url, "description": said, "tags": [url], "examples": [f"curl {url}"]}]
    raw = offering(url, description=said, skills=skills, documentationUrl=url, iconUrl=url)
    async with fronted(answers(whole(RESULT)), card=raw) as (gateway, backend):
        here = f"http://127.0.0.1:{gateway.port}/echo"
        for name in (WELL_KNOWN, OLD):
            shown = await gateway.get(name)
            assert shown.status == 200
            assert urls(shown.json) <= {here}
            if place not in ("file", "javascript", "no-url", "gopher"):
                assert secret.encode() not in shown.body
        answer = await gateway.post("/echo")
        assert answer.json["result"]
        [call] = backend.requests
        assert (call.header(b"host"), call.target.split(b"?")[0]) == (f"127.0.0.1:{backend.port}".encode(), call.target)
        assert b"evil" not in call.target


async def test_tenants_schemes_and_signatures_of_a_card_are_not_repeated() -> None:
    schemes = {
        EVIL: {
            "type": "oauth2",
            "flows": {"implicit": {"authorizationUrl": "https://evil-c4rd.example/login", "scopes": {}}},
        },
        "bearer": {"type": "openIdConnect", "openIdConnectUrl": "https://evil-c4rd.example/"},
    }
    raw = card_of(
        "http://127.0.0.1/",
        "JSONRPC 1.0",
        tenant=EVIL,
        securitySchemes=schemes,
        securityRequirements=[{"schemes": {EVIL: {}}}],
        security=[{EVIL: []}],
        authentication={"schemes": [EVIL], "credentials": EVIL},
        signatures=[{"protected": "e30", "signature": EVIL, "header": {"jku": "https://evil-c4rd.example/jwks"}}],
        skills=[{"id": "s", "name": "s", "security": [{EVIL: []}], "x": EVIL}],
        unknown={"anything": EVIL},
    )
    async with ScriptedBackend(agent(answers(whole(RESULT)), raw)) as backend:
        text = f"{keys(acme='acme')}tenants: {{ acme: [echo] }}\nagents: {{ echo: {backend.url} }}\n"
        async with running(text) as gateway:
            for name in (WELL_KNOWN, OLD):
                shown = await gateway.get(name)
                assert EVIL.encode() not in shown.body
                assert list(shown.json["securitySchemes"]) == ["api_key"] or set(shown.json["securitySchemes"]) == {
                    "api_key",
                    "bearer",
                }
                assert "signatures" not in shown.json


async def test_an_extended_card_belongs_to_who_asked_for_it_however_they_take_turns() -> None:
    async def plays(wire: Wire) -> None:
        while True:
            received = await wire.request()
            name = "public" if received.method == b"GET" else (received.header(b"x-a2a-subject") or b"").decode()
            card = card_of("http://127.0.0.1/", "JSONRPC 1.0", name=f"of {name}", description="x" * 20_000)
            answer = card if name == "public" else b'{"jsonrpc":"2.0","id":1,"result":%b}' % card
            await wire.send(whole(answer))

    async with ScriptedBackend(plays) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [echo], globex: [echo] }}
agents: {{ echo: {backend.url} }}
"""
        call = b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}'
        async with running(text) as gateway:

            async def name(who: str) -> str:
                return str((await gateway.post("/echo", call, [bearer(who)])).json["result"]["name"])

            callers = ["acme", "globex"] * 10
            assert await asyncio.gather(*map(name, callers)) == [f"of {who}" for who in callers]
            assert (await gateway.get(WELL_KNOWN)).json["name"] == "of public"


# ---- What is no card -----------------------------------------------------------------------------------------------

REFUSED = {
    "20 MiB": b'{"name":"' + b"x" * 20 * 1024 * 1024 + b'"}',
    "deep": b'{"name":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a member twice": b'{"name":"evil-c4rd","name":"x","skills":[]}',
    "an escaped twin": b'{"name":"x","\\u006eame":"evil-c4rd"}',
    "no name": b'{"description":"evil-c4rd"}',
    "a list": b'[{"name":"evil-c4rd"}]',
    "wrong types": b'{"name":{"evil-c4rd":1}}',
    "wrong types within": b'{"name":"x","skills":[{"id":1,"name":"evil-c4rd"}]}',
    "not UTF-8": b'{"name":"evil-c4rd \xff"}',
    "UTF-16": '{"name":"evil-c4rd"}'.encode("utf-16"),
    "NaN": b'{"name":"evil-c4rd","x":NaN}',
    "half a pair": b'{"name":"evil-c4rd \\ud800"}',
    "a page": b"<html>evil-c4rd</html>",
    "very many parts": b'{"name":"evil-c4rd","x":[' + b"[]," * 50_000 + b"[]]}",
    "20,000 interfaces": json.dumps(
        {
            "name": EVIL,
            "supportedInterfaces": [{"url": f"http://{n}/", "protocolBinding": "JSONRPC"} for n in range(20_000)],
        }
    ).encode(),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_malformed_card_is_a_fault_that_repeats_nothing(what: str) -> None:
    async with fronted(answers(whole(RESULT)), card=REFUSED[what]) as (gateway, backend):
        for name in (WELL_KNOWN, OLD):
            shown = await gateway.get(name)
            assert shown.status == 502
            assert EVIL.encode() not in shown.body
            assert str(backend.port).encode() not in shown.body
            # A malformed card is told apart from one without an interface.
            assert shown.reasons[-1] == ("UPSTREAM_PROTOCOL" if what == "wrong types within" else "UPSTREAM_CONNECT")
        # Discovery is one thing, calls are another: those go on.
        assert (await gateway.post("/echo")).json["result"]


@pytest.mark.parametrize("what", ["20 MiB", "a member twice", "wrong types", "a page", "20,000 interfaces"])
async def test_a_good_card_outlives_a_bad_one(what: str) -> None:
    card = {"now": card_of("http://127.0.0.1/", "JSONRPC 1.0", name="Good")}

    async def turning(wire: Wire) -> None:
        await agent(answers(whole(RESULT)), card["now"])(wire)

    async with ScriptedBackend(turning) as backend, running(f"agents: {{ echo: {backend.url} }}\n") as gateway:
        before = await gateway.get(WELL_KNOWN)
        card["now"] = REFUSED[what]
        source = gateway.gateway.snapshot.backends["echo"].source
        await source.refresh()
        assert source.error is not None
        after = await gateway.get(WELL_KNOWN)
        assert (after.status, after.body) == (200, before.body)


# ---- Who asks ------------------------------------------------------------------------------------------------------


async def _cards(gateway: Running, *headers: tuple[bytes, bytes]) -> list[tuple[int, str | None, bytes]]:
    found = [await gateway.get(WELL_KNOWN, headers), await gateway.get(OLD, headers)]
    return [(each.status, each.header("etag"), each.body) for each in found]


@pytest.mark.parametrize(
    "headers",
    [
        [(b"X-Forwarded-Host", b"evil-c4rd.example"), (b"X-Forwarded-Proto", b"gopher"), (b"X-Forwarded-Port", b"1")],
        [(b"Forwarded", b"host=evil-c4rd.example;proto=https")],
        [(b"X-Original-URL", b"/evil-c4rd"), (b"X-Forwarded-Prefix", b"/evil-c4rd"), (b"X-Host", b"evil-c4rd")],
        [(b"Origin", b"https://evil-c4rd.example"), (b"Referer", b"https://evil-c4rd.example/")],
        [(b"A2A-Version", b"0.3")],
    ],
)
async def test_no_header_of_one_client_is_on_the_card_of_another(headers: list[tuple[bytes, bytes]]) -> None:
    raw = card_of("http://127.0.0.1/", "JSONRPC 1.0", "JSONRPC 0.3")
    async with fronted(answers(whole(RESULT)), card=raw) as (gateway, _):
        hostile = await _cards(gateway, *headers)
        honest = await _cards(gateway)
        assert hostile == honest
        assert b"evil" not in honest[0][2]


async def test_no_host_of_one_client_is_on_the_card_of_another() -> None:
    raw = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    async with fronted(answers(whole(RESULT)), card=raw) as (gateway, _):
        client = await gateway.client()
        await client.send(f"GET {WELL_KNOWN} HTTP/1.1\r\nHost: evil-c4rd.example\r\n\r\n".encode())
        hostile = await client.answer()
        honest = await gateway.get(WELL_KNOWN)
        assert hostile.status == honest.status == 200
        assert hostile.body == honest.body
        assert EVIL.encode() not in honest.body


SOUND = {"skills": [{"id": "sound", "name": "Sound", "description": "", "tags": []}]}
MALFORMED: dict[str, dict[str, Any]] = {
    "name": {"name": 7},
    "description": {"description": ["x"]},
    "version": {"version": 2},
    "provider": {"provider": "Example"},
    "provider.url": {"provider": {"organization": "Example", "url": 5}},
    "documentationUrl": {"documentationUrl": {}},
    "capabilities": {"capabilities": ["streaming"]},
    "capabilities.streaming": {"capabilities": {"streaming": "yes", "pushNotifications": True}},
    "capabilities.extensions": {"capabilities": {"extensions": {"uri": "https://x.example"}}},
    "capabilities.extensions[0]": {"capabilities": {"extensions": [7, {"uri": "https://x.example", "params": 3}]}},
    "additionalInterfaces": {"additionalInterfaces": 7},
    "additionalInterfaces[1]": {"additionalInterfaces": [{"url": "http://a.example", "transport": "GRPC"}, 7]},
    "securitySchemes": {"securitySchemes": [{"type": "http"}]},
    "securitySchemes[0]": {"securitySchemes": {"a": "http", "b": {"type": "http", "scheme": "Bearer"}}},
    "security[0]": {"security": [7]},
    "securityRequirements": {"securityRequirements": "none"},
    "defaultInputModes[0]": {"defaultInputModes": [7, "text/plain"]},
    "skills[0]": {"skills": [7, *SOUND["skills"]]},
    "skills[0].tags": {"skills": [{**SOUND["skills"][0], "tags": "x"}]},
    "signatures": {"signatures": {"protected": "x"}},
    "signatures[0]": {"signatures": [None]},
    "supportsAuthenticatedExtendedCard": {"supportsAuthenticatedExtendedCard": "yes"},
}


@pytest.mark.parametrize("place", MALFORMED)
async def test_one_malformed_member_of_a_card_is_left_out_and_the_agent_is_served(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = "http://agent.internal:9000"
    raw = json.dumps({**json.loads(card_of(url, "JSONRPC 1.0", "JSONRPC 0.3")), **SOUND, **MALFORMED[place]}).encode()
    async with fronted(answers(whole(RESULT)), card=raw) as (gateway, _):
        shown = await gateway.get(WELL_KNOWN)
        assert shown.status == 200
        assert (await gateway.post("/echo", CALL)).status == 200
        [agent] = (await gateway.get("/-/agents", admin=True)).json["agents"]
    card = shown.json
    assert card["supportedInterfaces"]
    assert [skill["id"] for skill in card["skills"]] == ["sound"]
    assert card["name"] == ("echo" if place == "name" else "Scripted")
    # The strict parsers of both generations.
    parse_agent_card(copy.deepcopy(card))
    LegacyCard.model_validate(card)
    assert (agent["card"]["read"], agent["card"]["error"]) == (True, None)
    assert agent["card"]["warnings"][0].startswith(f"{place} is no ")
    assert f"{place} is no " in caplog.text


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"supportedInterfaces": [7], "additionalInterfaces": [{"url": 7}]},
        {"supportedInterfaces": [{"url": "http://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "9.0"}]},
        {"url": ["http://a.example"]},
    ],
)
async def test_a_card_without_any_interface_that_can_be_used_is_refused_for_that_reason(members: Any) -> None:
    raw = json.dumps({"name": "Echo", **SOUND, **members}).encode()
    async with fronted(answers(whole(RESULT)), card=raw) as (gateway, _):
        shown = await gateway.get(WELL_KNOWN)
        [agent] = (await gateway.get("/-/agents", admin=True)).json["agents"]
    assert shown.status == 502
    assert "offers no interface" in shown.json["error"]["message"]
    assert shown.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
    assert agent["card"]["error"] == "its card offers no interface that the gateway speaks"
