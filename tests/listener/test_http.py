"""Requests become heads, answers become HTTP, and what was not read does not stay."""

import asyncio
from typing import Any

import pytest

from gateway.a2a.fault import BodyTooLarge, ClientGone
from gateway.listener import http
from gateway.listener.http import AsgiWire, head_of, host_name
from tests.doubles.gateway import CALL, JSON, RESULT, Running, card_of, fronted, request
from tests.doubles.scripted import answers, chunk, head, whole

pytestmark = pytest.mark.anyio


# ---- Heads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"Agents.Example.COM", "agents.example.com"),
        (b"agents.example.com:8080", "agents.example.com"),
        (b"agents.example.com.", "agents.example.com"),
        (b"agents.example.com.:80", "agents.example.com"),
        (b"[::1]:8080", "[::1]"),
        (b"[::1]", "[::1]"),
        (b"", ""),
        # No host to anybody, so they are given back as they are.
        (b" x ", " x "),
        (b"\xe4", "ä"),
        (b"h.example:80@evil", "h.example:80@evil"),
        (b"h.example:/../", "h.example:/../"),
        (b"h.example, x.example", "h.example, x.example"),
    ],
)
def test_a_host_is_lower_case_and_has_no_port(value: bytes, name: str) -> None:
    assert host_name(value) == name


def scope(**more: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "raw_path": b"/a%2Fb",
        "path": "/a/b",
        "query_string": b"x=%20",
        "headers": [(b"host", b"One:80"), (b"host", b"two"), (b"x", b"1")],
        "client": ("10.0.0.7", 1234),
        "state": {},
        **more,
    }


def test_a_head_is_raw() -> None:
    found = head_of(scope())
    assert (found.method, found.path, found.query) == ("POST", b"/a%2Fb", b"x=%20")
    # Two Hosts are none.
    assert (found.host, found.peer, found.scheme) == ("one:80, two", "10.0.0.7", "http")
    assert found.headers == ((b"host", b"One:80"), (b"host", b"two"), (b"x", b"1"))


def test_a_head_does_not_grow_with_what_comes_later() -> None:
    given = scope()
    found = head_of(given)
    given["headers"].append((b"authorization", b"Bearer x"))
    assert found.first(b"authorization") is None


def test_a_client_without_an_address_has_none() -> None:
    assert head_of(scope(client=None)).peer == ""
    assert head_of(scope(headers=[])).host == ""


# ---- The wire ------------------------------------------------------------------------------------------------------


class Asgi:
    """The server's side of ASGI: what the client sends, and what it is sent."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.incoming = list(messages)
        self.sent: list[dict[str, Any]] = []
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if not self.incoming:
            await asyncio.sleep(3600)
        return self.incoming.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def wire(self, *headers: tuple[bytes, bytes], method: str = "POST") -> AsgiWire:
        return AsgiWire(scope(method=method, headers=list(headers)), self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


LENGTH = (b"content-length", b"10")
CHUNKED = (b"transfer-encoding", b"chunked")
GONE = {"type": "http.disconnect"}


async def test_a_body_is_read_whole() -> None:
    assert await Asgi(part(b"one")).wire(LENGTH).read(10) == b"one"
    assert await Asgi(part(b"one", more=True), part(b""), part(b"x")).wire(CHUNKED).read(10) == b"one"
    assert await Asgi(part(b"a", more=True), part(b"b", more=True), part(b"c")).wire(CHUNKED).read(3) == b"abc"


async def test_a_request_without_a_body_is_not_waited_for() -> None:
    for headers in ((), ((b"content-length", b"0"),)):
        asgi = Asgi()
        assert await asgi.wire(*headers).read(10) == b""
        assert asgi.asked == 0


async def test_a_body_over_the_limit_is_not_read() -> None:
    asgi = Asgi()
    with pytest.raises(BodyTooLarge):
        await asgi.wire(LENGTH).read(9)
    assert asgi.asked == 0


async def test_a_body_over_the_limit_that_does_not_say_so_is_read_no_further() -> None:
    asgi = Asgi(part(b"12345", more=True), part(b"67890", more=True), part(b"x"))
    with pytest.raises(BodyTooLarge):
        await asgi.wire(CHUNKED).read(9)
    assert asgi.asked == 2


async def test_a_client_that_leaves_in_its_body_is_gone() -> None:
    with pytest.raises(ClientGone):
        await Asgi(part(b"1", more=True), GONE).wire(CHUNKED).read(9)


async def test_an_answer_has_its_length_and_keeps_the_connection() -> None:
    asgi = Asgi(part(b"{}"))
    wire = asgi.wire(LENGTH)
    await wire.read(10)
    assert not wire.opened
    await wire.answer(200, [(b"x", b"1")], b"hello")
    assert wire.opened
    assert asgi.sent[0] == {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"x", b"1"), (b"content-length", b"5")],
    }
    assert asgi.body == b"hello"
    assert asgi.sent[-1].get("more_body", False) is False


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_has_no_length(status: int) -> None:
    asgi = Asgi()
    await asgi.wire().answer(status, [], b"")
    assert asgi.sent[0]["headers"] == []


async def test_the_answer_to_head_has_the_length_of_what_get_would_give() -> None:
    asgi = Asgi()
    await asgi.wire(method="HEAD").answer(200, [], b"hello")
    assert asgi.sent[0]["headers"] == [(b"content-length", b"5")]
    assert asgi.body == b""


async def test_an_early_answer_goes_out_before_the_rest_of_the_request_is_read() -> None:
    asgi = Asgi(part(b"x" * 1000, more=True), part(b"x"))
    await asgi.wire(CHUNKED).answer(401, [], b"no")
    assert (b"connection", b"close") in asgi.sent[0]["headers"]
    # The answer is complete only after a little of the request was read, for its end closes the connection.
    assert [message.get("more_body") for message in asgi.sent] == [None, True, None]
    assert asgi.incoming == []


@pytest.mark.parametrize("end", [part(b""), GONE])
async def test_reading_on_ends_with_the_request(end: dict[str, Any]) -> None:
    asgi = Asgi(end, part(b"never"))
    await asgi.wire(LENGTH).answer(401, [], b"no")
    assert asgi.asked == 1


async def test_reading_on_ends_after_a_little() -> None:
    asgi = Asgi(*[part(b"x" * 65536, more=True)] * 100)
    await asgi.wire(LENGTH).answer(401, [], b"no")
    assert 16 <= asgi.asked <= 17


async def test_reading_on_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_DRAIN_TIME", 0.01)
    asgi = Asgi(part(b"x", more=True))
    async with asyncio.timeout(1):
        await asgi.wire(LENGTH).answer(401, [], b"no")
    assert asgi.sent[-1] == {"type": "http.response.body", "body": b""}


async def test_who_waits_to_be_told_to_go_on_is_not_waited_for() -> None:
    asgi = Asgi()
    await asgi.wire(LENGTH, (b"expect", b"100-continue")).answer(401, [], b"no")
    assert asgi.asked == 0


async def test_an_answer_is_open_only_once_its_head_has_gone_out() -> None:
    class Stuck(Asgi):
        async def send(self, message: dict[str, Any]) -> None:
            await asyncio.sleep(3600)

    wire = Stuck().wire()
    opening = asyncio.ensure_future(wire.open(200, []))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not wire.opened


# ---- Health on the public port -------------------------------------------------------------------------------------


async def test_health_answers_on_the_public_port_and_is_no_exchange() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        for path in ("/-/live", "/-/ready"):
            answer = await gateway.get(path)
            assert (answer.status, answer.body) == (200, b"ok\n")
            assert answer.header("content-type") == "text/plain; charset=utf-8"
            # Like every answer, though no line of the log tells of it.
            assert len(answer.id) == 16
            assert (await gateway.ask("HEAD", path)).status == 200
        gateway.gateway.draining = True
        assert (await gateway.get("/-/live")).status == 200
        ready = await gateway.get("/-/ready")
        assert (ready.status, ready.body) == (503, b"draining\n")
        gateway.gateway.draining = False
        assert gateway.lines == []
        assert gateway.series("requests_total") == []


@pytest.mark.parametrize("path", ["/-/started", "/-/config", "/-/agents", "/metrics", "/-/live/", "/-/", "/"])
async def test_nothing_else_of_the_admin_port_is_on_the_public_one(path: str) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        answer = await gateway.get(path)
        assert answer.status == 404
        assert answer.json["error"]["message"] == "there is nothing here"


# ---- On a real connection ------------------------------------------------------------------------------------------


async def raw(gateway: Running, data: bytes) -> bytes:
    client = await gateway.client()
    await client.send(data)
    return await client.ended()


async def test_no_server_is_named() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        for target in ("/echo", "/-/live", "/nothing"):
            answer = await gateway.get(target)
            assert answer.header("server") is None
            assert b"uvicorn" not in repr(answer).encode()
        assert b"uvicorn" not in (await raw(gateway, b"nonsense\r\n\r\n")).lower()


async def test_what_is_no_http_gets_a_plain_400_and_the_connection_ends() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        for data in (
            b"nonsense\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost : x\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        ):
            said = await raw(gateway, data)
            assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert said.endswith(b"\r\n\r\nInvalid HTTP request received.")
        assert backend.requests == []


async def test_a_chunk_that_is_none_ends_the_connection_and_reaches_nobody() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        opening = request("POST", "/echo", None, [JSON, CHUNKED])
        assert (await raw(gateway, opening + chunk(CALL[:10]) + b"zz\r\n")).startswith(b"HTTP/1.1 400")
        await gateway.rested()
        assert backend.requests == []


async def test_a_card_is_headable() -> None:
    async with fronted(answers(whole(RESULT)), card=card_of("http://127.0.0.1/", "JSONRPC 1.0")) as (gateway, _):
        target = "/echo/.well-known/agent-card.json"
        full, bare = await gateway.get(target), await gateway.ask("HEAD", target)
        assert (bare.status, bare.body) == (200, b"")
        assert bare.header("content-length") == full.header("content-length") == str(len(full.body))
        assert bare.header("etag") == full.header("etag")


async def test_a_header_that_http_cannot_have_never_leaves() -> None:
    opening = head(b"content-length: %d" % len(RESULT), b"a2a-extensions: a\x01b", b"a2a-version: 1.0")
    async with fronted(answers(opening + RESULT)) as (gateway, _):
        answer = await gateway.post("/echo")
        assert answer.header("a2a-extensions") is None
