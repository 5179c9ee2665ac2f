"""Agents that mean harm, where their cards are read: an error for operators and nothing else."""

import asyncio

import httpx
import pytest

from gateway.a2a.card import MAX_CARD
from gateway.cards.fetch import CardPlace, CardReport, CardSource
from tests.cards.double import ECHO, Asked, agent, always, reply

pytestmark = pytest.mark.anyio


def nested(depth: int) -> bytes:
    return b'{"name":"x","capabilities":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize(
    ("raw", "report", "why"),
    [
        (reply(b"{" + b" " * 20 * 1024 * 1024 + b"}"), CardReport.INVALID, f"longer than {MAX_CARD} bytes"),
        (reply(nested(5000)), CardReport.INVALID, "nests deeper"),
        (reply(b'{"name":"x","name":"y"}'), CardReport.INVALID, "named twice"),
        (reply({"name": "x", "url": 7}), CardReport.UNUSABLE, "offers no interface"),
        (reply(b"<html>hello</html>"), CardReport.INVALID, "not JSON"),
        (reply(b""), CardReport.INVALID, "not JSON"),
        (reply({**ECHO, "x": [[]] * 25_000}), CardReport.INVALID, "has more than"),
        (reply(ECHO, "Location: http://169.254.169.254/", status=302), CardReport.REFUSED, "not followed"),
        (reply(ECHO, "Content-Encoding: gzip"), CardReport.REFUSED, "encoded body"),
        (reply(b"", status=401), CardReport.REFUSED, "answered 401"),
        (reply(ECHO, status=206), CardReport.REFUSED, "answered 206"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{", CardReport.UNREACHABLE, "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", CardReport.UNREACHABLE, "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", CardReport.UNREACHABLE, "Error"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", CardReport.UNREACHABLE, "RemoteProtocolError"),
        (b"", CardReport.UNREACHABLE, "RemoteProtocolError"),
    ],
    ids=[
        "20 MiB", "deep", "twice", "types", "html", "empty", "parts", "redirect", "gzip", "401", "206", "cut", "ssh",
        "headers", "101", "silence",
    ],
)  # fmt: skip
async def test_a_hostile_answer_is_an_error_for_operators_and_nothing_else(
    client: httpx.AsyncClient, raw: bytes, report: CardReport, why: str
) -> None:
    async with agent(always(raw)) as hostile:
        source = CardSource(CardPlace(hostile.url), client)
        assert await source.refresh() is report
    assert source.error is not None
    assert why in source.error
    assert len(hostile.asked) == 1
    assert (source.card, source.version) == (None, 0)
    assert source.settled.is_set()


async def test_an_endless_body_is_cut_off_at_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def pour(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            await writer.drain()
            sent += 65536

    async with agent(pour) as endless:
        source = CardSource(CardPlace(endless.url), client)
        assert await source.refresh() is CardReport.INVALID
        async with asyncio.timeout(10):
            await endless.over.wait()
    # Bytes beyond the limit in the sockets' buffers depend on the system; they are far from endless.
    assert sent < 64 * 1024 * 1024


async def test_a_slow_drip_ends_at_the_deadline(client: httpx.AsyncClient) -> None:
    async def drip(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with agent(drip) as slow:
        source = CardSource(CardPlace(slow.url, deadline=0.2), client)
        async with asyncio.timeout(5):
            assert await source.refresh() is CardReport.UNREACHABLE
            await slow.over.wait()
    assert source.error == "no complete answer within 0.2 s"


async def test_a_redirect_leads_nowhere(client: httpx.AsyncClient) -> None:
    async with agent(always(reply(ECHO))) as victim:
        async with agent(always(reply(b"", f"Location: {victim.url}/", status=307))) as hostile:
            await CardSource(CardPlace(hostile.url), client).refresh()
        assert victim.asked == []


async def test_twenty_thousand_interfaces_become_a_hundred(client: httpx.AsyncClient) -> None:
    # As many as fit: 20,000 are longer than any card may be, and are refused for that.
    many = [{"url": f"http://a/{number}", "protocolBinding": "JSONRPC"} for number in range(3000)]
    async with agent(always(reply({**ECHO, "supportedInterfaces": many}))) as hostile:
        source = CardSource(CardPlace(hostile.url), client)
        assert await source.refresh() is CardReport.READ
        assert len(source.spoken) == 100
        hostile.answer = always(reply({**ECHO, "supportedInterfaces": many * 7}))
        assert await source.refresh() is CardReport.INVALID
        assert len(source.spoken) == 100


async def test_a_card_that_is_too_much_to_search_is_no_card(client: httpx.AsyncClient) -> None:
    listed = [{"url": f"http://h{number}:{number}/", "protocolBinding": "JSONRPC"} for number in range(100)]
    hostile = {**ECHO, "supportedInterfaces": listed, "description": "x" * 240_000}
    async with agent(always(reply(ECHO, 'ETag: "1"'))) as turning:
        source = CardSource(CardPlace(turning.url), client)
        await source.refresh()
        turning.answer = always(reply(hostile, 'ETag: "2"'))
        assert await source.refresh() is CardReport.INVALID
        assert "hosts to look for" in str(source.error)
        # A 304 about the bad card does not confirm the good one.
        turning.answer = always(reply(b"", status=304))
        assert await source.refresh() is CardReport.INVALID
        assert (source.card, source.version) == (ECHO, 1)


async def test_a_file_that_is_too_much_to_search_is_no_card_and_no_exception(client: httpx.AsyncClient) -> None:
    listed = [{"url": f"http://h{number}:{number}/"} for number in range(100)]
    static = {**ECHO, "supportedInterfaces": listed, "description": "x" * 240_000}
    source = CardSource(CardPlace("http://a/", static=static), client)
    assert source.settled.is_set()
    assert (source.card, source.sanitized) == (None, None)
    assert "hosts to look for" in str(source.error)


async def test_a_card_has_the_size_that_the_operator_allows(client: httpx.AsyncClient) -> None:
    async with agent(always(reply({**ECHO, "description": "x" * 300_000}))) as long:
        assert await CardSource(CardPlace(long.url), client).refresh() is CardReport.INVALID
        assert await CardSource(CardPlace(long.url, longest=400_000), client).refresh() is CardReport.READ
        assert await CardSource(CardPlace(long.url, longest=1000), client).refresh() is CardReport.INVALID


async def test_a_hostile_entity_tag_is_not_sent_back(client: httpx.AsyncClient) -> None:
    async with agent(always(reply(ECHO, f'ETag: "{"x" * 5000}"'))) as hostile:
        source = CardSource(CardPlace(hostile.url), client)
        await source.refresh()
        await source.refresh()
    assert "if-none-match" not in hostile.asked[1].headers


async def test_no_cookie_is_kept(client: httpx.AsyncClient) -> None:
    async with agent(always(reply(ECHO, "Set-Cookie: session=1; Path=/"))) as hostile:
        source = CardSource(CardPlace(hostile.url), client)
        await source.refresh()
        await source.refresh()
    assert "cookie" not in hostile.asked[1].headers


async def test_an_unreachable_agent_raises_no_exception(client: httpx.AsyncClient) -> None:
    async with agent(always(b"")) as gone:
        url = gone.url
    source = CardSource(CardPlace(url), client)
    assert await source.refresh() is CardReport.UNREACHABLE
    assert source.error == "not reached: ConnectError"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://[::1", "http://a b/", "http://\u2603..x/", "ftp://x/", ""]
)
async def test_an_address_that_cannot_be_is_no_exception(client: httpx.AsyncClient, url: str) -> None:
    source = CardSource(CardPlace(url), client)
    assert await source.refresh() is CardReport.UNREACHABLE
