"""An ASGI application behind a connection of ours sees requests and is heard; the admin pages: test_admin.py."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.listener.asgi import HostedApplication
from gateway.listener.http1 import ClientResponder
from tests.listener.front import Front, fronting
from tests.support.gateway import request

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


PAGES = HostedApplication(
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


async def pages(front: Front, head: Head, wire: ClientResponder) -> None:
    await PAGES(head, wire)


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
