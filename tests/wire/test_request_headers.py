"""Headers pass by allow-list, both ways; who calls is for the gateway to say."""

import pytest

from tests.support.gateway import (
    CALL,
    LISTENS,
    RESULT,
    agent,
    bearer,
    fronted,
    running,
    secret,
)
from tests.support.scripted import (
    ScriptedBackend,
    answers,
    whole,
)
from tests.support.tenancy import guarded
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]


# ---- Headers -------------------------------------------------------------------------------------------------------

SPOOFED = [
    (b"X-A2A-Tenant", b"evil"), (b"x-a2a-tenant", b"evil"), (b"X_A2A_Tenant", b"evil"), (b"X-A2A_TENANT", b"evil"),
    (b"X-A2A-Subject", b"evil"), (b"X-Forwarded-User", b"evil"), (b"X-Forwarded-For", b"6.6.6.6"),
    (b"X-Forwarded-Host", b"evil"), (b"X-Forwarded-Prefix", b"evil"), (b"X-Forwarded-Proto", b"evil"),
    (b"X-Forwarded-Uri", b"evil"), (b"X-Forwarded-Port", b"evil"), (b"X-Forwarded-Server", b"evil"),
    (b"X-Forwarded-Client-Cert", b"evil"), (b"Client-Cert", b":ZXZpbA==:"), (b"Client-Cert-Chain", b":ZXZpbA==:"),
    (b"X-SSL-Client-Cert", b"evil"), (b"SSL-Client-Verify", b"evil"), (b"SSL-Client-Subject-DN", b"CN=evil"),
    (b"X-Amzn-Mtls-Clientcert", b"evil"), (b"X_Forwarded_User", b"evil"), (b"x_forwarded-for", b"6.6.6.6"),
    (b"X-Tenant", b"evil"), (b"X_Tenant", b"evil"), (b"Tenant", b"evil"), (b"X.A2A.Tenant", b"evil"),
    (b"X-A2A--Tenant", b"evil"), (b"X-A2A-Session", b"evil"), (b"X-Original-Host", b"evil"),
    (b"X-Rewrite-URL", b"evil"), (b"X-Remote-User", b"evil"), (b"Remote-User", b"evil"), (b"X-User", b"evil"),
    (b"X-Auth-Request-User", b"evil"), (b"X-Client-IP", b"6.6.6.6"), (b"X-Cluster-Client-IP", b"6.6.6.6"),
    (b"True-Client-IP", b"6.6.6.6"), (b"X-HTTP-Method", b"DELETE"), (b"X-Method-Override", b"DELETE"),
    (b"A2A_Version", b"evil"), (b"Content_Type", b"evil"), (b"Trailer", b"evil"), (b"Proxy-Connection", b"evil"),
    (b"Proxy-Authenticate", b"evil"), (b"Via", b"1.1 evil"), (b"Accept-Encoding", b"evil"),
    (b"Origin", b"http://evil.test"), (b"Last-Event-ID", b"evil"), (b"X-Original-URL", b"evil"),
    (b"X-Real-IP", b"6.6.6.6"), (b"Forwarded", b"for=6.6.6.6"), (b"X-HTTP-Method-Override", b"DELETE"),
    (b"X-Request-Id", b"evil"), (b"Cookie", b"evil=1"), (b"Proxy-Authorization", b"evil"), (b"Te", b"trailers, evil"),
    (b"Keep-Alive", b"evil"), (b"X-Anything", b"evil"), (b"Referer", b"evil"),
]  # fmt: skip


async def test_identity_headers_are_the_gateways_own_under_every_spelling() -> None:
    async with guarded() as (gateway, backend):
        answer = await gateway.post("/support", CALL, [bearer("acme"), *SPOOFED])
        received = backend.requests[0]
        assert sorted(name.lower() for name, _ in received.headers) == [
            b"accept-encoding", b"content-length", b"content-type", b"host", b"x-a2a-subject", b"x-a2a-tenant",
            b"x-forwarded-for", b"x-request-id",
        ]  # fmt: skip
        assert received.header(b"x-a2a-tenant") == b"acme"
        assert received.header(b"x-a2a-subject") == b"acme"
        assert received.header(b"x-forwarded-for") == b"127.0.0.1"
        assert received.header(b"x-request-id") == answer.id.encode()
        assert received.header(b"accept-encoding") == b"identity"
        assert b"evil" not in repr(received).encode()
        assert secret("acme") not in repr(received).encode()


async def test_a_trace_that_is_none_reaches_no_agent_and_no_log() -> None:
    sent = [(b"traceparent", b"00-evil-01"), (b"tracestate", b"evil=1"), (b"baggage", b"a=1")]
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        await gateway.post("/echo", CALL, sent)
        received = backend.requests[0]
        assert received.header(b"traceparent") is received.header(b"tracestate") is None
        assert received.header(b"baggage") == b"a=1"
        assert (await gateway.line())["trace_id"] is None


async def test_headers_of_a2a_and_tracing_are_forwarded() -> None:
    sent = [
        (b"A2A-Version", b"1.0"),
        (b"A2A-Extensions", b"https://a.test/x, https://b.test/y"),
        (b"X-A2A-Extensions", b"https://c.test"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"tracestate", b"a=1"),
        (b"Accept", b"text/event-stream"),
        (b"Accept-Language", b"de"),
    ]
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        await gateway.post("/echo", CALL, sent)
        received = backend.requests[0]
        for name, value in sent:
            assert received.header(name.lower()) == value
        assert (await gateway.line())["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


async def test_headers_named_by_connection_are_dropped_but_never_the_gateways_own() -> None:
    connection = (b"Connection", b"keep-alive, X-A2A-Tenant, Authorization, traceparent, X-Request-Id")
    async with guarded() as (gateway, backend):
        answer = await gateway.post("/support", CALL, [bearer("acme"), connection, (b"traceparent", b"x")])
        received = backend.requests[0]
        assert (answer.status, received.header(b"x-a2a-tenant")) == (200, b"acme")
        assert received.header(b"traceparent") is None
        assert received.header(b"x-request-id") == answer.id.encode()


async def test_connection_cannot_take_away_the_version_that_was_decided_on() -> None:
    async with guarded() as (gateway, backend):
        headers = [bearer("acme"), (b"A2A-Version", b"1.0"), (b"Connection", b"close, a2a-version")]
        answer = await gateway.post("/support", CALL, headers)
        assert answer.reasons[-1] == "BAD_REQUEST"
        assert backend.requests == []


@for_each("name", [b"A2A-Version", b"Content-Type", b"traceparent", b"Content-Encoding", b"Origin"])
@for_each("second", [b"application/json", b"1.0", b""])
async def test_a_header_that_two_servers_could_read_in_two_ways_is_refused(name: bytes, second: bytes) -> None:
    async with guarded() as (gateway, backend):
        for target in ("/support", "/support/message:send"):
            headers = [bearer("acme"), (name, b"application/json"), (name.lower(), second)]
            answer = await gateway.ask("POST", target, CALL, headers)
            assert answer.reasons[-1] == "BAD_REQUEST"
        assert backend.requests == []


TWO_CREDENTIALS = [
    [bearer("acme"), bearer("globex")],
    [bearer("acme"), bearer("acme")],
    [bearer("acme"), (b"X-API-Key", secret("globex"))],
    [bearer("acme"), (b"x-api-key", secret("acme"))],
    [(b"X-API-Key", secret("acme")), (b"X-API-Key", secret("globex"))],
    [bearer("acme"), (b"AUTHORIZATION", b"Basic YTpi")],
    [bearer("acme"), (b"authorization", b"")],
    [(b"Authorization", bearer("acme")[1] + b", " + bearer("globex")[1])],
    [(b"X-API-Key", secret("acme") + b", " + secret("globex"))],
]


@for_each("shown", TWO_CREDENTIALS)
async def test_two_credentials_in_one_request_are_none(shown: list[tuple[bytes, bytes]]) -> None:
    async with guarded() as (gateway, backend):
        for target in ("/support", "/support/message:send", "/nothing"):
            assert (await gateway.post(target, CALL, shown)).status == 401
        assert backend.requests == []


async def test_configured_headers_are_forwarded_in_one_spelling() -> None:
    async with fronted(answers(whole(RESULT)), "forward_headers: [X-Region, X-Tier]") as (gateway, backend):
        sent = [(b"X-Region", b"eu"), (b"X_Region", b"evil"), (b"x-regioN", b"us"), (b"X.Tier", b"evil")]
        await gateway.post("/echo", CALL, [*sent, (b"X_Tier", b"evil"), (b"Connection", b"close, X-Tier")])
        received = backend.requests[0]
        assert [pair for pair in received.headers if pair[0].startswith((b"x-reg", b"x-tier"))] == [
            (b"x-region", b"eu"),
            (b"x-region", b"us"),
        ]
        assert b"evil" not in repr(received).encode()


async def test_a_host_decides_nothing_and_is_not_passed_on() -> None:
    async with guarded() as (gateway, backend):
        for host in (b"evil.test", b"127.0.0.1:1", b"support", b"A.B.", b"[::1]:80"):
            client = await gateway.client()
            lines = [b"POST /support HTTP/1.1", b"Host: " + host, b": ".join(bearer("acme"))]
            lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(CALL)]
            await client.send(b"\r\n".join(lines) + b"\r\n\r\n" + CALL)
            assert (await client.answer()).status == 200
        assert {request.header(b"host") for request in backend.requests} == {backend.url[7:].encode()}


async def test_an_agents_headers_pass_by_allow_list() -> None:
    fields = (
        b"A2A-Version: 1.0", b"A2A-Extensions: https://a.test/x", b"Server: agent/1", b"Set-Cookie: a=b",
        b"Location: http://127.0.0.1/", b"X-Request-Id: theirs", b"Connection: close, A2A-Version", b"Via: 1.1 agent",
        b"X-A2A-Tenant: theirs", b"Keep-Alive: timeout=5", b"WWW-Authenticate: Basic", b"Warning: 199 agent:80 x",
        b'Alt-Svc: h2=":1"', b"Strict-Transport-Security: max-age=1", b"Content-Language: de", b"Refresh: 0;url=x",
        b"Access-Control-Allow-Origin: *", b"Content-Location: /x", b"Proxy-Authenticate: Basic", b"Upgrade: h2c",
        b"Trailer: X-A2A-Tenant", b"TE: trailers", b"Content-Security-Policy: none", b"ETag: x", b"Age: 1",
        b"A2A_Extensions: x", b"X-Forwarded-For: 6.6.6.6", b"Link: <x>", b"Clear-Site-Data: *", b"Set_Cookie: a",
    )  # fmt: skip
    async with fronted(answers(whole(RESULT, *fields))) as (gateway, _):
        answer = await gateway.post("/echo")
        assert sorted(answer.headers) == [
            ("a2a-extensions", "https://a.test/x"),
            ("cache-control", "no-store"),
            ("content-language", "de"),
            ("content-length", str(len(RESULT))),
            ("content-type", "application/json"),
            ("x-request-id", answer.id),
        ]


@for_each(
    ("trusted", "sent", "seen"),
    [
        ("[]", [b"6.6.6.6"], "127.0.0.1"),
        ("[127.0.0.0/8]", [b"6.6.6.6"], "6.6.6.6"),
        ("[127.0.0.0/8]", [b"6.6.6.6, 7.7.7.7"], "7.7.7.7"),
        ("[127.0.0.0/8]", [b"6.6.6.6", b"7.7.7.7, 127.0.0.5"], "7.7.7.7"),
        ("[127.0.0.0/8]", [b"6.6.6.6, nonsense"], "127.0.0.1"),
        ("[10.0.0.0/8]", [b"6.6.6.6"], "127.0.0.1"),
    ],
)
async def test_a_clients_address_is_believed_from_trusted_proxies_only(
    trusted: str, sent: list[bytes], seen: str
) -> None:
    listens = LISTENS.replace("gateway: {", f"gateway: {{ trusted_proxies: {trusted},")
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        running(f"{listens}\nagents: {{ echo: '{backend.url}' }}") as gateway,
    ):
        await gateway.post("/echo", CALL, [(b"X-Forwarded-For", value) for value in sent])
        assert backend.requests[0].header(b"x-forwarded-for") == seen.encode()
        assert (await gateway.line())["client_ip"] == seen
