"""Tokens for agents: one request for all who wait, kept as long as they are good, and nobody else's."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.a2a.fault import UpstreamAuthFailed
from gateway.upstream import oauth2
from gateway.upstream.connection_pool import client_tls
from gateway.upstream.oauth2 import MOST_KEPT, Subject, TokenSource, TokenSpec
from tests.support.scripted import refused_port, whole
from tests.support.token_endpoint import Asked, TokenEndpoint, granted, refused, token_endpoint

pytestmark = pytest.mark.anyio

TLS = client_tls()
SPEC = TokenSpec("", "gw", "s3cret/+ %", scopes=("a", "b"), audience=("agents",), resource=("https://x.test",))


class Times:
    """Both clocks, which stand still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def wall(self) -> float:
        return self.now + 1_800_000_000.0

    def clock(self) -> float:
        return self.now


@asynccontextmanager
async def source(spec: TokenSpec = SPEC) -> AsyncIterator[tuple[TokenSource, TokenEndpoint, Times]]:
    times = Times()
    async with token_endpoint() as endpoint:
        url = spec.token_url or endpoint.url
        tokens = TokenSource(replace(spec, token_url=url), TLS, clock=times.clock, wall=times.wall)
        try:
            yield tokens, endpoint, times
        finally:
            await tokens.aclose()


EXCHANGE = replace(SPEC, exchanges=True)


def subject(name: str, seconds: float = 3600.0) -> Subject:
    return Subject(name, Times().wall() + seconds)


async def failure(waiting: Awaitable[object]) -> UpstreamAuthFailed:
    with pytest.raises(UpstreamAuthFailed) as failed:
        await waiting
    return failed.value


@pytest.mark.parametrize("client_auth", ["basic", "post"])
async def test_client_credentials_are_shown_as_the_server_wants_them(client_auth: str) -> None:
    async with source(replace(SPEC, client_auth=client_auth)) as (tokens, endpoint, _):  # type: ignore[arg-type]
        assert await tokens.pair() == (b"authorization", b"Bearer t1")
        [asked] = endpoint.asked
        shown = asked.client or (asked.one("client_id"), asked.one("client_secret"))
        assert shown == ("gw", "s3cret/+ %")
        assert (asked.client is None) == (client_auth == "post") == ("client_secret" in asked.form)
        form = {name: asked.form[name] for name in ("grant_type", "scope", "audience", "resource")}
        assert form == {
            "grant_type": ["client_credentials"],
            "scope": ["a b"],
            "audience": ["agents"],
            "resource": ["https://x.test"],
        }


async def test_callers_never_get_each_others_token() -> None:
    async with source(EXCHANGE) as (tokens, endpoint, times):
        chance = random.Random(8693)

        def answer(asked: Asked) -> bytes:
            name = f"{asked.one('subject_token')}@{len(endpoint.asked)}"
            broken = [refused(), whole(b"<html>"), refused("x", status=b"500 Oops"), b"no HTTP\r\n\r\n"]
            return chance.choice([granted(name, expires_in=chance.choice([0, 1, 60, ...])), *broken])

        endpoint.answer = answer
        given = 0

        async def one(name: str) -> None:
            nonlocal given
            try:
                shown = await tokens.pair(subject(name, chance.choice([1.0, 100.0])))
            except UpstreamAuthFailed:
                return
            assert shown[1].startswith(f"Bearer {name}@".encode()), (name, shown)
            given += 1
            if chance.random() < 0.3:
                tokens.refused(shown, subject(chance.choice(["a", "b", "c", "d"])))

        for _ in range(60):
            await asyncio.gather(*(one(chance.choice(["a", "b", "c", "d"])) for _ in range(8)))
            times.now += chance.choice([0.0, 1.0, 31.0])
        assert given > 50


@pytest.mark.parametrize(
    ("expires_in", "kept", "gone"),
    [(100, 94, 96), ("100", 94, 96), (..., 294, 296), (10**30, 86_394, 86_396), (2, 1.7, 1.9)],
)
async def test_a_token_is_kept_until_shortly_before_it_expires(expires_in: object, kept: float, gone: float) -> None:
    async with source() as (tokens, endpoint, times):
        endpoint.answer = lambda _: granted(f"t{len(endpoint.asked)}", expires_in=expires_in)
        assert await tokens.token() == "t1"
        endpoint.open.clear()
        times.now += kept
        assert await tokens.token() == "t1"
        await endpoint.until(2)
        times.now += gone - kept
        late = asyncio.ensure_future(tokens.token())
        endpoint.open.set()
        assert (await late, len(endpoint.asked)) == ("t2", 2)


async def test_an_exchanged_token_does_not_outlive_the_callers() -> None:
    async with source(EXCHANGE) as (tokens, _, times):
        caller = subject("ada", 100.0)
        assert await tokens.token(caller) == "ada@1"
        times.now += 94
        assert await tokens.token(caller) == "ada@1"
        times.now += 7
        assert await tokens.token(caller) != "ada@1"


async def test_a_broken_endpoint_is_unnoticed_while_the_token_is_valid() -> None:
    async with source() as (tokens, endpoint, times):
        assert await tokens.token() == "t1"
        endpoint.answer = lambda _: refused("server_error", status=b"500 Oops")
        times.now += 3550
        assert await tokens.token() == "t1"
        await endpoint.until(2)
        times.now += 40
        assert await tokens.token() == "t1"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (refused(), "status 401 (invalid_client)"),
        (refused("the secret", status=b"400 Bad Request"), "status 400"),
        (refused("server_error", status=b"500 Oops"), "status 500 (server_error)"),
        (whole(b"<html>", status=b"502 Bad Gateway"), "status 502"),
        (whole(b"", b"location: http://127.0.0.1/", status=b"302 Found"), "status 302"),
        (whole(b"<html>"), "the answer is no token response"),
        (whole(b"[" * 50_000), "the answer is no token response"),
        (whole(b'{"access_token":7,"token_type":"Bearer"}'), "the answer is no token response"),
        (granted("t", token_type=...), "the answer is no token response"),
        (granted("t", token_type="N_A"), "the token is no bearer token"),
        (granted("t", token_type="DPoP"), "the token is no bearer token"),
        (granted(""), "the token is empty, too long, or has characters that a token cannot have"),
        (granted("a\r\nx: y"), "the token is empty, too long, or has characters that a token cannot have"),
        (granted("a" * 17_000), "the token is empty, too long, or has characters that a token cannot have"),
        (whole(b"a" * 70_000), "the answer is longer than 65536 bytes"),
        (whole(b"{}", b"content-encoding: gzip"), "the answer is compressed"),
        (b"no HTTP\r\n\r\n", "not reached: RemoteProtocolError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_no_token_is_a_fault_with_a_reason_that_tells_no_secret(
    raw: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with source() as (tokens, endpoint, _):
        endpoint.answer = lambda _: raw
        fault = await failure(tokens.token())
        assert fault.detail == why
        told = f"{fault.message} {fault.detail} {caplog.text} {json.dumps(fault.details('id'))} {tokens.spec!r}"
        assert why in caplog.text
        assert "s3cret" not in told
        assert "the secret" not in told


async def test_an_endpoint_that_is_down_or_slow_is_asked_again_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with source(replace(SPEC, token_url=f"http://127.0.0.1:{refused_port()}/token")) as (tokens, _, _):
        assert (await failure(tokens.token())).detail == "not reached: ConnectError"
    monkeypatch.setattr(oauth2, "DEADLINE", 0.05)
    async with source() as (tokens, endpoint, times):
        endpoint.open.clear()
        first = await failure(tokens.token())
        assert first.detail in {"no answer within 0.05 s", "not reached: ReadTimeout"}
        again = await failure(tokens.token())
        assert again.detail == first.detail
        assert (again.retry_after or 0) <= 1.0
        assert len(endpoint.asked) == 1
        pauses = []
        for count in range(2, 9):
            times.now += 31
            pauses.append((await failure(tokens.token())).retry_after or 0)
            assert len(endpoint.asked) == count
        assert pauses[0] < pauses[1] < pauses[2]
        assert max(pauses) <= 30.0


async def test_a_caller_whose_token_is_refused_stops_nobody_else() -> None:
    async with source(EXCHANGE) as (tokens, endpoint, times):
        good = endpoint.answer
        wrong = refused("invalid_request")
        endpoint.answer = lambda asked: wrong if asked.one("subject_token") == "bad" else good(asked)
        for _ in range(3):
            assert (await failure(tokens.token(subject("bad")))).detail == "status 401 (invalid_request)"
        assert await tokens.token(subject("ada")) == "ada@2"
        endpoint.answer = lambda _: refused("x", status=b"503 Busy")
        await failure(tokens.token(subject("bob")))
        # It is busy for all of them, but what is kept serves on.
        assert await failure(tokens.token(subject("eve")))
        assert await tokens.token(subject("ada")) == "ada@2"
        assert len(endpoint.asked) == 3
        endpoint.number()
        times.now += 31
        assert await tokens.token(subject("bad")) == "bad@4"


async def test_a_token_that_an_agent_refuses_is_dropped_once() -> None:
    async with source() as (tokens, _, times):
        first = await tokens.pair()
        assert tokens.refused(first)
        second = await tokens.pair()
        assert second == (b"authorization", b"Bearer t2")
        # A late refusal of the first one is nothing against the second.
        assert tokens.refused(first)
        assert not tokens.refused(second)
        assert await tokens.pair() == second
        times.now += 31
        assert tokens.refused(second)
        assert await tokens.pair() == (b"authorization", b"Bearer t3")


async def test_kept_tokens_are_bounded_and_the_least_recently_used_goes_first() -> None:
    async with source(EXCHANGE) as (tokens, endpoint, _):
        assert await tokens.token(subject("first")) == "first@1"
        assert await tokens.token(subject("second")) == "second@2"
        endpoint.open.clear()
        assert await tokens.token(subject("first")) == "first@1"
        waiting = [asyncio.ensure_future(tokens.token(subject(f"n{number}"))) for number in range(MOST_KEPT - 1)]
        await asyncio.sleep(0)
        assert tokens.kept == MOST_KEPT
        assert await tokens.token(subject("first")) == "first@1"
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_socket_of_a_handshake_that_never_ends_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth2, "CONNECT", 0.05)
    closed = asyncio.Event()

    async def read_to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(read_to_the_end, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        tokens = TokenSource(replace(SPEC, token_url=f"https://127.0.0.1:{port}/token"), TLS)
        assert (await failure(tokens.token())).detail
        await closed.wait()
        await tokens.aclose()
