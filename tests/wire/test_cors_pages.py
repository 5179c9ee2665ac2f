"""Pages of other origins call agents through the gateway, where `gateway.cors` names their origin, and only there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.gateway import CALL, JSON, RESULT, STREAM, Running, agent, bearer, card_of, keys, running
from tests.support.scripted import ScriptedBackend, Wire, chunk, head, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

CONSOLE = "https://console.test"
ORIGIN = (b"Origin", CONSOLE.encode())
OTHER = (b"Origin", b"https://other.test")
ASKS = (b"Access-Control-Request-Method", b"POST")
ALLOWED = ("access-control-allow-origin", CONSOLE)
SENT = (
    "A2A-Version", "A2A-Extensions", "X-A2A-Extensions", "Authorization", "X-API-Key", "Content-Type", "Accept",
    "Last-Event-ID", "traceparent", "tracestate", "X-Request-Id",
)  # fmt: skip
READ = (
    "WWW-Authenticate", "X-Request-Id", "Retry-After", "RateLimit", "RateLimit-Policy", "A2A-Version", "A2A-Extensions",
    "X-A2A-Extensions", "ETag", "Deprecation", "Sunset",
)  # fmt: skip
EXPOSED = (("access-control-expose-headers", ", ".join(READ)), ("vary", "Origin"))
THEIRS = (b"Access-Control-Allow-Origin: *", b"Access-Control-Allow-Credentials: true", b"Vary: Accept")


async def plays(wire: Wire) -> None:
    """Answers a stream with three events, and all else with one message; allows every page itself."""
    received = await wire.request()
    if b"SendStreamingMessage" not in received.body:
        await wire.send(whole(RESULT, *THEIRS))
        return
    await wire.send(head(b"transfer-encoding: chunked", *THEIRS, content_type=b"text/event-stream"))
    for _ in range(3):
        await wire.send(chunk(b"data: " + RESULT + b"\n\n"))
    await wire.send(chunk(b""))


@asynccontextmanager
async def paged(cors: str = f"{{ origins: '{CONSOLE}' }}") -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway with keys, and an agent at /echo; `cors` is what the file says of pages."""
    async with ScriptedBackend(agent(plays, card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0"))) as backend:
        text = f"""\
gateway:
  listen: "127.0.0.1:0"
  admin: "127.0.0.1:0"
  {f"cors: {cors}" if cors else ""}
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [echo, secret], globex: [echo] }}
defaults: {{ isolation: none }}
agents:
  echo: {backend.url}
  secret: {{ backend: {backend.url}, visibility: private }}
"""
        async with running(text) as gateway:
            yield gateway, backend


# ---- Preflights ----------------------------------------------------------------------------------------------------


async def test_a_preflight_is_answered_before_identity_and_the_same_for_every_path() -> None:
    async with paged() as (gateway, backend):
        answers = [
            await gateway.ask("OPTIONS", target, None, [ORIGIN, ASKS, *shown])
            for target in ("/echo", "/secret", "/nothing", "/", "/echo/tasks/t", "/echo/..", "/echo?tenant=a&tenant=b")
            for shown in ([], [bearer("globex")], [(b"Authorization", b"Bearer wrong")])
        ]
        assert {answer.anonymous for answer in answers} == {
            (
                204,
                (
                    ("access-control-allow-methods", "GET, POST, DELETE"),
                    ("access-control-allow-headers", ", ".join(SENT)),
                    ("access-control-max-age", "600"),
                    ("x-request-id", "ID"),
                    ALLOWED,
                    *EXPOSED,
                ),
                b"",
            )
        }
        assert backend.requests == []
        await gateway.line(of=len(answers))
        assert {(line["status"], line["outcome"], line["agent"]) for line in gateway.lines} == {(204, "ok", None)}


async def test_a_preflight_of_another_origin_is_told_nothing() -> None:
    async with paged() as (gateway, _):
        answer = await gateway.ask("OPTIONS", "/echo", None, [OTHER, ASKS])
        assert (answer.status, answer.headers) == (204, (("x-request-id", answer.id), ("vary", "Origin")))


async def test_without_permission_for_pages_options_is_a_method_like_any_other() -> None:
    async with paged("") as (gateway, _):
        for origin in (ORIGIN, OTHER):
            for target, status in (("/echo", 405), ("/nothing", 404)):
                answer = await gateway.ask("OPTIONS", target, None, [origin, ASKS, bearer("acme")])
                assert answer.status == status
                assert not [name for name, _ in answer.headers if name.startswith("access-control-") or name == "vary"]
            stranger = await gateway.ask("OPTIONS", "/echo", None, [origin, ASKS])
            assert stranger.status == 401


async def test_options_that_no_browser_sends_is_a_method_like_any_other() -> None:
    async with paged() as (gateway, _):
        assert (await gateway.ask("OPTIONS", "/echo", None, [ORIGIN, bearer("acme")])).status == 405
        assert (await gateway.ask("OPTIONS", "/echo", None, [ASKS, bearer("acme")])).status == 405


# ---- Answers -------------------------------------------------------------------------------------------------------


async def test_every_answer_to_the_page_says_that_it_may_read_it() -> None:
    async with paged() as (gateway, _):
        answers = [
            await gateway.post("/echo", CALL, [ORIGIN, bearer("acme")]),
            await gateway.post("/echo", STREAM, [ORIGIN, bearer("acme")]),
            await gateway.post("/echo", CALL, [ORIGIN]),
            await gateway.post("/nothing", CALL, [ORIGIN, bearer("acme")]),
            await gateway.post("/echo", b"{", [ORIGIN, bearer("acme")]),
            await gateway.post("/echo", CALL, [ORIGIN, bearer("acme"), (b"Content-Encoding", b"gzip")]),
            await gateway.get("/echo/.well-known/agent-card.json", [ORIGIN]),
            await gateway.ask("PUT", "/echo", b"{}", [ORIGIN, JSON, bearer("acme")]),
        ]
        assert [answer.status for answer in answers] == [200, 200, 401, 404, 200, 415, 200, 405]
        for answer in answers:
            # The agent's own permissions never pass.
            assert [pair for pair in answer.headers if pair[0].startswith("access-control-")] == [ALLOWED, EXPOSED[0]]
            assert ("vary", "Origin") in answer.headers
            assert ("vary", "Accept") not in answer.headers
        card = answers[6]
        again = await gateway.get(
            "/echo/.well-known/agent-card.json", [ORIGIN, (b"If-None-Match", (card.header("etag") or "").encode())]
        )
        assert (again.status, ALLOWED in again.headers) == (304, True)


async def test_any_origin_may_read_what_a_credential_in_a_header_gave() -> None:
    async with paged("{ origins: '*' }") as (gateway, _):
        for headers in ([OTHER], []):
            answer = await gateway.post("/echo", CALL, [*headers, bearer("acme")])
            assert [value for name, value in answer.headers if name == "access-control-allow-origin"] == ["*"]
            assert "vary" not in dict(answer.headers)


@for_each("cors", ["", f"{{ origins: '{CONSOLE}' }}"])
async def test_a_page_that_may_not_call_cannot_make_a_call_run_by_a_form(cors: str) -> None:
    async with ScriptedBackend(agent(plays)) as backend:
        gateway_text = f'gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0"{f", cors: {cors}" if cors else ""} }}'
        async with running(f"{gateway_text}\nagents: {{ echo: '{backend.url}' }}") as gateway:
            for kind in ((b"Content-Type", b"text/plain;charset=UTF-8"), (b"Accept", b"*/*")):
                for target, body in (("/echo", CALL), ("/echo/tasks/t:cancel", None)):
                    answer = await gateway.ask("POST", target, body, [OTHER, kind])
                    assert "bad_request".upper() in answer.reasons
            assert backend.requests == []
            # The same from who is no page runs as ever.
            assert (await gateway.ask("POST", "/echo", CALL, [kind])).status == 200
