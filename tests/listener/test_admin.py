"""The admin port: health for everybody, the rest for operators, and no secret in any answer."""

import gzip
import json
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from tests.support.gateway import (
    CALL,
    JSON,
    RESULT,
    Answer,
    Running,
    agent,
    bearer,
    card_of,
    keys,
    running,
    secret,
)
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

TOKEN = "admin-token-0123456789abcdef"
AUTH = (b"Authorization", f"Bearer {TOKEN}".encode())

FILE = """\
gateway:
  listen: 127.0.0.1:0
  admin: {{ listen: "127.0.0.1:0", token: "${{ADMIN_TOKEN}}" }}
{keys}
tenants:
  acme: [support, billing, crm]
  globex: [crm]
defaults: {{ isolation: none }}
agents:
  support:
    backend: {url}
    upstream_auth: {{ bearer: "upstream-bearer-secret" }}
  billing:
    match: {{ path: /a2a, tenant: billing }}
    backend: {url}
    upstream_auth: {{ header: {{ X-Agent-Key: "upstream-header-secret" }} }}
  crm:
    by_tenant:
      acme: {{ backend: "{url}", upstream_auth: {{ bearer: "acme-bearer-secret" }} }}
      globex: {{ backend: "{url}" }}
"""
SECRETS = (TOKEN, "upstream-bearer-secret", "upstream-header-secret", "acme-bearer-secret")


class Site:
    """A gateway with an admin token, and how to ask it."""

    def __init__(self, gateway: Running, backend: ScriptedBackend) -> None:
        self.gateway = gateway
        self.backend = backend

    async def get(self, path: str, *headers: tuple[bytes, bytes]) -> Answer:
        return await self.gateway.get(path, headers or [AUTH], admin=True)

    async def route(self, **question: Any) -> Answer:
        return await self.raw_route(json.dumps(question).encode())

    async def raw_route(self, body: bytes, *headers: tuple[bytes, bytes]) -> Answer:
        return await self.gateway.ask("POST", "/-/route", body, [JSON, *(headers or [AUTH])], admin=True)


@pytest.fixture
async def site(anyio_backend: str) -> Any:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    async with ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        text = FILE.format(keys=keys(acme="acme", globex="globex"), url=backend.url)
        async with running(text, environ={"ADMIN_TOKEN": TOKEN}) as gateway:
            yield Site(gateway, backend)


# ---- Who may ask ---------------------------------------------------------------------------------------------------

GUARDED = ["/metrics", "/-/config", "/-/agents"]
MISSING = ["/", "/-/", "/nothing"]


@for_each("path", GUARDED + MISSING)
@for_each(
    "shown",
    [
        (), (b"Authorization", b"Bearer wrong"), (b"Authorization", TOKEN.encode()), (b"Authorization", b"Bearer "),
        (b"Authorization", b"Basic " + TOKEN.encode()), (b"Authorization", b"Bearer \xff\xfe"),
        (b"X-API-Key", TOKEN.encode()), bearer("acme"),
    ],
)  # fmt: skip
async def test_only_the_token_opens_the_admin_port(
    site: Site, path: str, shown: tuple[bytes, bytes] | tuple[()]
) -> None:
    answer = await site.gateway.get(path, [shown] if shown else [], admin=True)
    assert (answer.status, answer.body) == (401, b"show the admin token\n")
    assert answer.header("www-authenticate") == 'Bearer realm="admin"'


async def test_the_token_is_asked_for_before_the_question_is_read(site: Site) -> None:
    client = await site.gateway.client(admin=True)
    await client.ask("POST", "/-/route", None, [(b"Content-Length", b"9999999")])
    assert (await client.answer()).status == 401


@for_each("path", GUARDED)
async def test_the_token_opens_in_any_case_of_its_scheme(site: Site, path: str) -> None:
    for scheme in (b"Bearer", b"bearer", b"BEARER"):
        answer = await site.gateway.get(path, [(b"Authorization", scheme + b" " + TOKEN.encode())], admin=True)
        assert answer.status == 200


async def test_without_a_token_only_a_loopback_name_is_answered() -> None:
    async with running("agents: { a: http://127.0.0.1:1 }") as gateway:
        for name, status in (("localhost:9090", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example", 421)):
            client = await gateway.client(admin=True)
            await client.send(f"GET /-/config HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert (await client.answer()).status == status, name


async def test_the_token_is_compared_in_constant_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("gateway.listener.admin_access.hmac.compare_digest", compare)
    assert (await site.gateway.get("/metrics", [(b"Authorization", b"Bearer wrong")], admin=True)).status == 401
    assert compared == [(b"wrong", TOKEN.encode())]


async def test_nothing_of_the_public_port_is_on_the_admin_one(site: Site) -> None:
    answer = await site.gateway.ask("POST", "/support", CALL, [JSON, AUTH], admin=True)
    assert answer.status == 404
    assert (await site.gateway.ask("POST", "/support", CALL, [JSON, bearer("acme")], admin=True)).status == 401
    assert site.backend.requests == []


# ---- Health --------------------------------------------------------------------------------------------------------


async def test_health_is_a_word_for_machines_and_more_for_people(site: Site) -> None:
    for path, checks in (
        ("/-/live", {"process": "runs"}),
        ("/-/ready", {"listener": "serving"}),
        ("/-/started", {"listener": "true"}),
    ):
        plain = await site.gateway.get(path, admin=True)
        assert (plain.status, plain.body) == (200, b"ok\n")
        verbose = await site.gateway.get(path + "?verbose", admin=True)
        assert (verbose.status, verbose.json) == (200, {"ok": True, "checks": checks})


async def test_a_key_set_that_was_not_read_is_shown_and_keeps_nobody_from_being_ready() -> None:
    text = """\
auth:
  issuers:
    corp: { issuer: "https://login.example.com", audience: a, tenant: acme, jwks: "http://127.0.0.1:1/keys" }
tenants: { acme: [] }
agents: {}
"""
    async with running(text) as gateway:
        answer = await gateway.get("/-/ready?verbose", admin=True)
        assert answer.status == 200
        assert answer.json["checks"] == {"listener": "serving", "keys of corp": "not read yet"}


# ---- What runs -----------------------------------------------------------------------------------------------------


async def test_the_configuration_is_shown_without_its_secrets(site: Site) -> None:
    answer = await site.get("/-/config")
    said = answer.json
    assert said["last_error"] is None
    assert said["public_url"] == site.gateway.gateway.public_url
    assert said["files"] == ["gateway.yaml"]
    assert len(said["hash"]) == 64
    running = said["running"]
    assert running["agents"]["support"]["backend"][0]["url"] == site.backend.url
    assert set(running["auth"]["api_keys"]) == {"acme", "globex"}
    text = answer.body.decode()
    for hidden in SECRETS:
        assert hidden not in text
    configured = site.gateway.gateway.snapshot.config
    assert configured.auth is not None
    for key in configured.auth.api_keys.values():
        for digest in key.sha256:
            assert str(digest) not in text


async def test_no_answer_of_the_admin_port_shows_a_secret(site: Site) -> None:
    await site.gateway.post("/support", CALL, [bearer("acme")])
    for path in ("/-/config", "/-/agents", "/metrics", "/-/ready?verbose"):
        text = (await site.get(path)).body.decode()
        for hidden in (*SECRETS, secret("acme").decode()):
            assert hidden not in text


async def test_agents_are_shown_with_their_card_and_connections(site: Site) -> None:
    await site.gateway.post("/support", CALL, [bearer("acme")])
    listed = (await site.get("/-/agents")).json["agents"]
    assert [each["backend"] for each in listed] == ["support", "billing", "crm/acme", "crm/globex"]
    support = listed[0]
    assert 0 <= support["card"].pop("age_s") < 60
    assert support == {
        "agent": "support",
        "backend": "support",
        "url": site.backend.url,
        "card": {"read": True, "name": "Scripted", "stale": False, "error": None},
        "speaks": ["JSONRPC 1.0"],
        "connections": {"active": 0, "idle": 1},
        "up": True,
        "replicas": [
            {
                "name": "support",
                "url": site.backend.url,
                "label": None,
                "weight": 100,
                "up": True,
                "state": "up",
                "ejections": 0,
                "connections": {"active": 0, "idle": 1},
            }
        ],
    }


async def test_metrics_are_in_openmetrics_with_exemplars_and_compressed_where_that_is_accepted(site: Site) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    await site.gateway.post(
        "/support", CALL, [bearer("acme"), (b"traceparent", f"00-{trace}-b7ad6b7169203331-01".encode())]
    )
    await site.gateway.rested()
    accept = (b"Accept", b"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    answer = await site.get("/metrics", AUTH, accept, (b"Accept-Encoding", b"gzip, br"))
    assert answer.header("content-type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.header("content-encoding") == "gzip"
    text = gzip.decompress(answer.body).decode()
    read = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in read}
    for name in ("request_duration_seconds", "first_byte_seconds"):
        exemplars = [
            sample.exemplar
            for sample in families[f"a2a_gateway_{name}"].samples
            if sample.labels["agent"] == "support" and sample.exemplar is not None
        ]
        assert [exemplar.labels for exemplar in exemplars] == [{"trace_id": trace}]
    sizes = {
        sample.name.removeprefix("a2a_gateway_"): sample.value
        for name in ("request_body_bytes", "response_body_bytes")
        for sample in families[f"a2a_gateway_{name}"].samples
        if sample.labels["agent"] == "support" and "le" not in sample.labels
    }
    assert sizes["request_body_bytes_count"] == sizes["response_body_bytes_count"] >= 1
    assert sizes["request_body_bytes_sum"] >= len(CALL)
    assert sizes["response_body_bytes_sum"] > 0


# ---- Where a request would go --------------------------------------------------------------------------------------


async def test_a_question_is_answered_with_the_agent_and_the_line(site: Site) -> None:
    said = (await site.route(path="/a2a", tenant="billing", key="acme")).json
    assert (said["agent"], said["backend"], said["reason"]) == ("billing", site.backend.url, None)
    assert said["match_line"].startswith("gateway.yaml:")
    assert said["caller"] == {"tenant": "acme", "method": "api_key", "key": "acme"}
    assert [(each["agent"], each["taken"]) for each in said["candidates"]] == [("billing", True)]


async def test_a_question_nobody_answers_is_answered_with_the_reason(site: Site) -> None:
    assert (await site.route(path="/nothing", **{"as": "acme"})).json["reason"] == "no_route"
    assert (await site.route(path="/support", **{"as": "globex"})).json["reason"] == "tenant_denied"
    assert (await site.route(path="/support")).json["reason"] == "auth_missing"


@for_each(
    ("body", "status", "says"),
    [
        (b"", 400, "not a routing request"),
        (b"{", 400, "not a routing request"),
        (b"[]", 400, "not a routing request"),
        (b'{"path":"/support","host":"a b"}', 400, "'a b' is no host"),
        (b'{"path":"/support","method":"post"}', 400, "'post' is no method of HTTP"),
        (b"\xff\xfe", 400, "not a routing request"),
        (b'{"method":"POST"}', 400, "missing required field `path`"),
        (b'{"path":7}', 400, "Expected `str`"),
        (b'{"path":"/support","colour":1}', 400, "unknown field `colour`"),
        (b'{"path":"/support","key":"nobody"}', 400, "there is no API key 'nobody' in the configuration"),
        (b'{"path":"/support","claim":' + b"[" * 30_000, 400, "not a routing request"),
        (b'{"path":"/' + b"x" * 70_000 + b'"}', 413, "the request is too long"),
    ],
)
async def test_a_question_that_is_none_is_refused_in_words(site: Site, body: bytes, status: int, says: str) -> None:
    answer = await site.raw_route(body)
    assert answer.status == status
    assert says in answer.json["error"]


async def test_admin_requests_beyond_health_and_metrics_are_audited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gateway.audit")
    async with running("agents: { echo: 'http://127.0.0.1:1' }", settled=False) as gateway:
        for path in ("/-/live", "/-/ready", "/metrics"):
            await gateway.get(path, admin=True)
        await gateway.get("/-/config", admin=True)
        await gateway.get("/nowhere", admin=True)
    events = [record.__dict__ for record in caplog.records if record.name == "gateway.audit"]
    assert [event["msg"] % event["args"] for event in events] == [
        "configuration_changed",
        "admin_called",
        "admin_called",
    ]
    assert events[0]["audit_agents"] == 1
    assert [(event["audit_path"], event["audit_status"]) for event in events[1:]] == [
        ("/-/config", 200),
        ("/nowhere", 404),
    ]
    assert events[1]["audit_client_ip"] == "127.0.0.1"
