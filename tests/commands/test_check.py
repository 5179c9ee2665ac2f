"""`check --online` meets every agent as the gateway would, and tells of each."""

import json
import re
import ssl
import sys
from pathlib import Path

import msgspec
import pytest
import trustme

from gateway.commands.check import CheckReport, OnlineAnswer, OnlineTarget, check_online
from gateway.config.check import examine
from gateway.config.load import Examined
from gateway.demo.fleet import serving
from gateway.demo.stage import free_port
from tests.identity.corpus.genuine import published
from tests.identity.issuance import key_set_document
from tests.support.answering import answering
from tests.support.grpc_agent import fails, grpc_agent
from tests.support.redis_server import needs_redis, redis_server
from tests.support.scripted import ScriptedBackend, Wire, answers, whole
from tests.support.stdio_agent import FILE as STDIO_AGENT
from tests.upstream.test_grpc_channel import serving as grpc_serving

pytestmark = pytest.mark.anyio

CARD = {
    "name": "A",
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


async def visited(text: str, folder: Path) -> dict[str, OnlineAnswer]:
    """The answers by backend; the file has no errors."""
    examined = examine(folder / "gateway.yaml", {}, text=f"version: 1\n{text}")
    assert examined.errors == ()
    return {each.backend: each for each in await check_online(examined)}


async def test_every_backend_is_visited(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(CARD))
    with serving() as fleet, answering({"/.well-known/agent-card.json": (200, b'{"name":"A"}')}) as mute:
        text = f"""\
agents:
  echo: {fleet}/echo
  gone: {fleet}/gone
  mute: {mute.url}
  written: {{ backend: "{fleet}/gone", card: {{ file: card.json }} }}
  older: {{ backend: {{ url: "{fleet}/gone", protocol: jsonrpc, a2a_version: "0.1" }}, card: {{ file: card.json }} }}
"""
        answers = await visited(text, tmp_path)
    assert answers["echo"] == OnlineAnswer("echo", good=True, fact="JSONRPC 1.0")
    assert not answers["gone"].good
    assert "404" in answers["gone"].fact
    assert line(answers["mute"]) == "mute: no card: its card offers no interface that the gateway speaks"
    assert answers["written"].as_json() == {"backend": "written", "ok": True, "message": "JSONRPC 1.0"}
    # The file overrules the card, as for served calls.
    assert answers["older"].fact == "JSONRPC 0.1"


async def test_every_replica_has_to_answer(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(CARD))
    with serving() as fleet:
        text = f"""\
agents:
  both: {{ backend: ["{fleet}/echo", {{ url: "{fleet}/clock", label: two }}] }}
  half: {{ backend: ["{fleet}/echo", {{ url: "http://127.0.0.1:1", label: away }}] }}
"""
        answers = await visited(text, tmp_path)
    assert answers["both"].good
    assert line(answers["half"]) == "half: no answer from a replica: away: the agent could not be reached"


async def test_grpc_agents_are_asked_at_every_place_of_their_cards(tmp_path: Path) -> None:
    interface = {"url": "tracker:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    (tmp_path / "card.json").write_bytes(msgspec.json.encode({"name": "A", "supportedInterfaces": [interface]}))
    port = free_port(0)
    with serving(grpc=port) as fleet:
        text = f"""\
agents:
  clock: {{ backend: "grpc://127.0.0.1:{port}", card: "{fleet}/clock" }}
  written: {{ backend: "grpc://127.0.0.1:{port}", card: {{ file: card.json }} }}
  mute: grpc://127.0.0.1:{port}
  gone: {{ backend: "grpc://127.0.0.1:1", card: {{ file: card.json }} }}
  other: {{ backend: "{fleet.replace("http", "grpc")}", card: {{ file: card.json }} }}
"""
        answers = await visited(text, tmp_path)
    assert answers["clock"] == OnlineAnswer("clock", good=True, fact="GRPC 1.0")
    assert answers["written"].good
    assert line(answers["mute"]).startswith("mute: no card: the agent gives none when it is asked")
    assert line(answers["gone"]).startswith("gone: no answer: the agent could not be reached: failed to connect")
    assert not answers["other"].good


async def test_an_agent_behind_grpc_may_want_the_callers_credential(tmp_path: Path) -> None:
    interface = {"url": "tracker:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    (tmp_path / "card.json").write_bytes(msgspec.json.encode({"name": "A", "supportedInterfaces": [interface]}))
    async with grpc_agent(fails("UNAUTHENTICATED", "who are you?")) as agent:
        text = f"""\
agents:
  own: {{ backend: "{agent.url}", card: {{ file: card.json }}, upstream_auth: {{ bearer: good }} }}
  callers: {{ backend: "{agent.url}", card: {{ file: card.json }}, forward_caller: true }}
"""
        answers = await visited(text, tmp_path)
        assert {tuple(asked.told("authorization")) for asked in agent.asked} == {("Bearer good",), ()}
    assert line(answers["own"]) == "own: no answer: the agent does not accept the gateway"
    assert answers["callers"].good


def certified(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def line(answer: OnlineAnswer) -> str:
    """The cells of an answer's row, but for the result of a good one and the kind of an agent."""
    to, name, result, fact = answer.as_row()
    return ": ".join([name if to == "agent" else f"{to} {name}", *([] if answer.good else [result]), fact])


async def told(text: str, folder: Path) -> list[str]:
    """Return the lines about agents, without those that have no problem."""
    examined = examine(folder / "gateway.yaml", {}, text=f"version: 1\n{text}")
    assert examined.errors == ()
    answers = await check_online(examined)
    for each in answers:
        if not each.good:
            assert each.problem(examined.marks).place.line > 1
    return [line(each) for each in answers]


async def identity_provider(wire: Wire) -> None:
    """Answer below /good as an issuer does, and nothing else."""
    while True:
        request = await wire.request()
        url = f"https://localhost:{wire.backend.port}"
        good = {
            b"/good/.well-known/openid-configuration": json.dumps({"issuer": f"{url}/good", "jwks_uri": f"{url}/keys"}),
            b"/lost/.well-known/openid-configuration": json.dumps({"issuer": f"{url}/lost", "jwks_uri": f"{url}/no"}),
            b"/keys": key_set_document(*published()).decode(),
        }
        body = good.get(request.target)
        await wire.send(whole(body.encode()) if body else whole(b"", status=b"404 Not Found"))


async def test_issuers_are_asked_for_their_discovery_documents_and_keys(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    async with ScriptedBackend(identity_provider, tls=certified(authority)) as provider:
        url = f"https://localhost:{provider.port}"
        private = "audience: a, tenant: acme, tls: { ca: ca.pem }"
        text = f"""\
auth:
  issuers:
    found: {{ issuer: {url}/good, {private} }}
    keys: {{ issuer: {url}/any, jwks: {url}/keys, {private} }}
    strange: {{ issuer: {url}/none, {private} }}
    lost: {{ issuer: {url}/lost, {private} }}
    public: {{ issuer: {url}/other, jwks: {url}/keys, audience: a, tenant: acme }}
    gone: {{ issuer: http://127.0.0.1:1, audience: a, tenant: acme }}
tenants: {{ acme: [] }}
"""
        assert await told(text, tmp_path) == [
            "issuer found: keys read, by the authorities of ca.pem",
            "issuer keys: keys read, by the authorities of ca.pem",
            "issuer strange: no discovery document: the answer has status 404",
            "issuer lost: no keys: the answer has status 404",
            "issuer public: no keys: ConnectError (TLS: unknown authority)",
            "issuer gone: no discovery document: ConnectError",
        ]


async def test_an_agent_whose_certificate_is_not_trusted_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(CARD))
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    async with (
        ScriptedBackend(answers(whole(b"{}")), tls=certified(authority, "other.example")) as named,
        grpc_agent(fails("INTERNAL", "no"), tls=grpc_serving(trustme.CA(), "localhost")) as strange,
    ):
        text = f"""\
defaults: {{ tls: {{ ca: ca.pem }} }}
agents:
  one: https://localhost:{named.port}
  two: {{ backend: ["https://localhost:{named.port}", {{ url: "https://localhost:{named.port}/b", label: b }}] }}
  other: grpcs://localhost:{strange.port}
"""
        one, two, other = await told(text, tmp_path)
    assert one == "one: no card: not reached: ConnectError (TLS: wrong name)"
    assert "(TLS: wrong name); b: the agent could not be reached (TLS: wrong name)" in two
    assert other.startswith("other: no answer: the agent could not be reached: TLS: unknown authority; ")


@needs_redis
async def test_a_redis_is_asked_for_all_that_is_needed_of_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    with redis_server("--requirepass", "secret") as server:
        place = f"127.0.0.1:{server.port}"
        for url, expected in (
            (f"redis://:secret@{place}/3", f"state redis://{place}/3: can be used"),
            (f"redis://:wrong@{place}", f"state redis://{place}: it cannot be used: the server does not know the user"),
            (f"redis://{place}", f"state redis://{place}: it cannot be used: the server asks for a password"),
            ("redis://127.0.0.1:1", "state redis://127.0.0.1:1: it cannot be used: ConnectionRefusedError"),
            ("memory", ""),
        ):
            found = await told(f"gateway: {{ state: '{url}' }}\n", tmp_path)
            assert len(found) == (1 if expected else 0)
            assert "".join(found).startswith(expected)
            assert "secret" not in "".join(found)
    async with ScriptedBackend(answers(whole(b"")), tls=certified(trustme.CA())) as strange:
        url = f"rediss://localhost:{strange.port}?ssl_ca_certs={tmp_path / 'ca.pem'}"
        (refused,) = await told(f"gateway: {{ state: '{url}' }}\n", tmp_path)
    assert refused.endswith("it cannot be used: SSLCertVerificationError (TLS: unknown authority)")


async def test_configured_authorities_of_webhooks_are_tried(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    async with (
        ScriptedBackend(answers(whole(b"")), tls=certified(authority)) as good,
        ScriptedBackend(answers(whole(b"")), tls=certified(trustme.CA())) as strange,
    ):
        places = [f"https://localhost:{each.port}" for each in (good, strange)]
        text = f"""\
push:
  mode: relay
  allow: ["{places[0]}/a/*", "{places[0]}/b", "{places[1]}", "https://*.example.com", "http://127.0.0.1:1"]
  block_private_networks: false
"""
        assert await told(text, tmp_path) == []
        assert await told(f"{text}  tls: {{ ca: ca.pem }}\n", tmp_path) == [
            f"webhook {places[0]}: TLS can be spoken",
            f"webhook {places[1]}: not reached: SSLCertVerificationError (TLS: unknown authority)",
        ]
        assert good.requests == strange.requests == []


async def test_agents_on_stdio_are_started_asked_and_ended(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    words = [sys.executable, str(STDIO_AGENT), "behaves", "--journal", str(journal)]
    text = f"""\
agents:
  notes: {{ backend: {{ stdio: {json.dumps(words)} }} }}
  gone: {{ backend: {{ stdio: {{ command: no-such-program, start_timeout: 1s }} }} }}
"""
    answers = await visited(text, tmp_path)
    assert answers["notes"] == OnlineAnswer("notes", good=True, fact="JSONRPC 1.0, JSONRPC 0.3")
    assert not answers["gone"].good
    assert "there is no such program" in answers["gone"].fact
    assert "eof" in journal.read_text()


GOOD = """\
version: 1
agents:
  echo: http://127.0.0.1:1
  crm:
    by_tenant: { acme: http://127.0.0.1:2 }
"""
WARNED = "version: 1\n"
BAD = "version: 2\n"
FAILING = GOOD + "tests: [{ name: t, request: /echo, expect: crm }]\n"

UP = OnlineAnswer("echo", good=True, fact="JSONRPC 1.0")
DOWN = OnlineAnswer("echo", good=False, fact="not reached")
DOWN_TENANT = OnlineAnswer("crm/acme", good=False, fact="answered 500")


def of(text: str) -> Examined:
    return examine(Path("gateway.yaml"), {}, text=text)


def test_the_exit_code_tells_the_result() -> None:
    assert CheckReport(of(GOOD)).code == 0
    assert CheckReport(of(GOOD), (UP,)).code == 0
    assert CheckReport(of(GOOD), (UP, DOWN_TENANT)).code == 1
    assert CheckReport(of(WARNED)).code == 0
    assert CheckReport(of(WARNED), strict=True).code == 1
    assert CheckReport(of(BAD)).code == 1
    assert CheckReport(of(FAILING)).code == 3
    assert CheckReport(of(FAILING), (DOWN,)).code == 1


def test_settings_that_several_workers_cannot_share_are_errors() -> None:
    of_one = of("version: 1\ngateway: { state: memory }\ndefaults: { isolation: tenant }\n" + GOOD.partition("\n")[2])
    assert CheckReport(of_one).code == 0
    divided = CheckReport(of_one, workers=2)
    assert divided.code == 1
    [told] = divided.as_json()["problems"]
    assert (told["path"], told["line"]) == ("gateway.state", 2)
    assert "sqlite:///PATH" in divided.as_text()
    assert CheckReport(of(BAD), workers=2).problems == CheckReport(of(BAD)).problems


def test_an_agent_that_is_down_is_an_error_at_its_line_for_github() -> None:
    remedy = " → start the agent, or correct its `backend` or `card`"
    assert CheckReport(of(GOOD), (DOWN, DOWN_TENANT)).as_github().splitlines() == [
        f"::error file=gateway.yaml,line=3,col=3::agents.echo: no card: not reached{remedy}",
        f"::error file=gateway.yaml,line=5,col=18::agents.crm.by_tenant.acme: no card: answered 500{remedy}",
    ]
    assert CheckReport(of(GOOD), (UP,)).as_github() == ""


def test_people_are_told_that_all_is_well_and_of_every_agent() -> None:
    assert CheckReport(of(GOOD)).as_text() == "gateway.yaml: no problems"
    assert CheckReport(of(GOOD), (UP, DOWN)).as_text().splitlines() == [
        "agent  echo  ok       JSONRPC 1.0",
        "agent  echo  no card  not reached",
        "",
        "gateway.yaml: 1 failed answer",
    ]


def test_the_last_line_counts_and_coverage_names_the_matches_without_a_test() -> None:
    assert CheckReport(of(BAD)).as_text().splitlines()[-1].startswith("gateway.yaml: ")
    text = f"{GOOD}tests:\n- {{ name: t, request: /echo, expect: echo }}\n"
    found = of(text)
    assert CheckReport(found).as_text() == "gateway.yaml: no problems (1 test passed)"
    assert "echo" not in CheckReport(found, coverage=True).as_text()
    assert CheckReport(of(GOOD), coverage=True).as_text().startswith("echo: no test takes its match at gateway.yaml:3")


def test_issuers_the_store_and_webhooks_are_told_beside_agents() -> None:
    text = """\
version: 1
gateway: { state: redis://127.0.0.1:6379 }
auth: { issuers: { corp: { issuer: "https://idp.example", audience: a, tenant: acme } } }
tenants: { acme: [echo] }
push: { mode: relay, allow: "https://hooks.example", tls: { ca: system } }
agents: { echo: "http://127.0.0.1:1" }
"""
    found = (
        UP,
        OnlineAnswer("corp", good=False, fact="ConnectError", missed="no keys", to=OnlineTarget.ISSUER),
        OnlineAnswer("redis://127.0.0.1:6379", good=True, fact="can be used", to=OnlineTarget.STATE),
        OnlineAnswer("https://hooks.example", good=False, fact="x", missed="not reached", to=OnlineTarget.WEBHOOK),
    )
    review = CheckReport(of(text), found)
    assert review.code == 1
    assert re.search(r"issuer +corp +no keys +ConnectError", review.as_text())
    told = review.as_json()
    assert told["agents"] == [{"backend": "echo", "ok": True, "message": "JSONRPC 1.0"}]
    assert told["issuers"] == [{"issuer": "corp", "ok": False, "message": "ConnectError"}]
    assert told["state"] == [{"state": "redis://127.0.0.1:6379", "ok": True, "message": "can be used"}]
    assert told["webhooks"] == [{"webhook": "https://hooks.example", "ok": False, "message": "x"}]
    github = review.as_github().splitlines()
    assert [line.partition("::")[2].partition(",col")[0] for line in github if "::error" in line] == [
        "error file=gateway.yaml,line=3",
        "error file=gateway.yaml,line=5",
    ]
