"""An ASGI application behind a connection of ours sees requests and is heard; the admin pages: test_admin.py."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, BodyTooSlow, ClientGone, Fault
from gateway.listener.pages import PagesListener
from gateway.listener.wire import ClientWire
from tests.doubles.gateway import request
from tests.doubles.wire import RecordedWire
from tests.listener.front import Front, fronting

pytestmark = pytest.mark.anyio


async def shown(request: Request) -> Response:
    return JSONResponse(
        {
            "method": request.method,
            "path": request.scope["path"],
            "raw": request.scope["raw_path"].decode(),
            "query": request.url.query,
            "client": request.client.host if request.client else None,
            "x": request.headers.getlist("x"),
        }
    )


async def echoed(request: Request) -> Response:
    try:
        return Response(await request.body())
    except Fault as fault:
        return PlainTextResponse(type(fault).__name__, status_code=fault.http_status)


async def unread(_request: Request) -> Response:
    return PlainTextResponse("no", status_code=401)


async def streamed(_request: Request) -> Response:
    return StreamingResponse(iter([b"one ", b"two"]), media_type="text/plain")


async def fails(_request: Request) -> Response:
    raise ValueError("secret")


PAGES = PagesListener(
    Starlette(
        routes=[
            Route("/shown/{rest:path}", shown),
            Route("/echo", echoed, methods=["POST"]),
            Route("/unread", unread, methods=["POST"]),
            Route("/streamed", streamed),
            Route("/fails", fails),
        ]
    ),
    longest=1000,
)


async def pages(front: Front, head: Head, wire: ClientWire) -> None:
    await PAGES(head, wire)


async def test_an_application_sees_what_was_asked() -> None:
    async with fronting(pages) as front:
        client = await front.client()
        await client.ask("GET", "/shown/a%2Fb%20c?q=%20", None, [(b"X", b"1"), (b"X", b"2")])
        assert (await client.answer()).json == {
            "method": "GET",
            "path": "/shown/a/b c",
            "raw": "/shown/a%2Fb%20c",
            "query": "q=%20",
            "client": "127.0.0.1",
            "x": ["1", "2"],
        }


async def test_answers_have_one_length_and_keep_the_connection() -> None:
    async with fronting(pages) as front:
        client = await front.client()
        await client.ask("POST", "/echo", b"hello")
        assert (await client.answer()).body == b"hello"
        await client.ask("GET", "/streamed", None)
        answer = await client.answer()
        assert (answer.body, answer.header("content-length")) == (b"one two", "7")
        await client.ask("HEAD", "/streamed", None)
        assert (await client.answer(bodiless=True)).header("content-length") in ("7", "0")
        await client.ask("GET", "/nothing", None)
        assert (await client.answer()).status == 404
        assert len(front.connections) == 1


async def test_a_body_is_read_when_the_application_asks_for_it() -> None:
    async with fronting(pages) as front:
        client = await front.client()
        await client.ask("POST", "/unread", None, [(b"Content-Length", b"99999999")])
        answer = await client.answer()
        assert (answer.status, answer.header("connection")) == (401, "close")


async def test_a_body_over_the_limit_is_a_fault_to_the_application() -> None:
    async with fronting(pages) as front:
        for framing in ([(b"Content-Length", b"1001")], [(b"Transfer-Encoding", b"chunked")]):
            client = await front.client()
            await client.ask("POST", "/echo", None, framing)
            if framing[0][0] == b"Transfer-Encoding":
                await client.send(b"3e9\r\n" + b"x" * 1001 + b"\r\n")
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, b"BodyTooLarge")


async def test_an_application_that_fails_says_so_without_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with fronting(pages) as front:
        client = await front.client()
        await client.send(request("GET", "/fails"))
        answer = await client.answer()
        assert answer.status == 500
        assert b"secret" not in answer.body
    assert "secret" in caplog.text


async def test_an_application_that_never_answers_is_no_answer() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    wire = RecordedWire()
    await PagesListener(silent, 10)(Head("GET", b"/"), wire)
    assert not wire.opened


@pytest.mark.parametrize("fault", [BodyTooLarge, BodyTooSlow, ClientGone])
async def test_a_body_that_cannot_be_read_is_told_to_who_asks(fault: type[Fault]) -> None:
    class Broken(RecordedWire):
        async def read(self, limit: int) -> bytes:
            raise fault("no body")

    wire = Broken()
    await PAGES(Head("POST", b"/echo"), wire)
    assert wire.body == fault.__name__.encode()


async def test_after_the_body_only_the_leave_of_the_client_comes() -> None:
    messages: list[Any] = []
    wire = RecordedWire()

    async def asks(scope: Any, receive: Any, send: Any) -> None:
        messages.append(await receive())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await receive()
        wire.leave()
        messages.append(await receive())

    await PagesListener(asks, 10)(Head("GET", b"/"), wire)
    assert messages == [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
