"""The public port: health for balancers, the line for everything else, and nothing of what runs behind."""

import pytest

from tests.support.gateway import CALL, JSON, RESULT, Running, fronted, request
from tests.support.scripted import answers, chunk, head, whole
from tests.support.strict import strict_server_only
from tests.table import for_each

pytestmark = pytest.mark.anyio


# ---- Health --------------------------------------------------------------------------------------------------------


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
        assert gateway.series("requests_total") == []
        # Lines come in order, and the first is of what is asked last.
        await gateway.get("/nothing")
        assert (await gateway.line())["path"] == "/nothing"


@for_each("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
async def test_health_is_only_looked_at(method: str) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        for path in ("/-/live", "/-/ready"):
            answer = await gateway.ask(method, path)
            assert (answer.status, answer.body, answer.header("allow")) == (405, b"", "GET, HEAD")
            assert len(answer.id) == 16


@for_each("path", ["/-/started", "/-/config", "/-/agents", "/metrics", "/-/live/", "/-/", "/"])
async def test_nothing_else_of_the_admin_port_is_on_the_public_one(path: str) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        answer = await gateway.get(path)
        assert answer.status == 404
        assert answer.json["error"]["message"] == "there is nothing here"


# ---- The whole gateway on a real connection ------------------------------------------------------------------------


async def raw(gateway: Running, data: bytes) -> bytes:
    client = await gateway.client()
    await client.send(data)
    return await client.ended()


@strict_server_only("invalid requests")
@for_each(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /echo HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"POST /echo HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"POST /echo?" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431),
    ],
)
async def test_a_malformed_request_is_refused_counted_and_logged(data: bytes, status: int) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        said = await raw(gateway, data)
        assert said.startswith(b"HTTP/1.1 %d " % status)
        line = await gateway.line()
        assert (line["status"], line["outcome"], line["reason"]) == (status, "client_error", "bad_request")
        assert line["client_ip"] == "127.0.0.1"
        assert line["detail"].encode() in said
        assert b"(request %b)" % line["request_id"].encode() in said
        assert b"\r\nx-request-id: %b\r\n" % line["request_id"].encode() in said
        assert gateway.metric("rejected_total", reason="bad_request") == 1
        assert backend.requests == []


async def test_a_credential_in_a_trailer_is_none() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        opening = request(
            "POST", "/echo", None, [JSON, (b"Transfer-Encoding", b"chunked"), (b"Trailer", b"X-A2A-Tenant")]
        )
        client = await gateway.client()
        await client.send(opening + chunk(CALL) + b"0\r\nAuthorization: Bearer x\r\nX-A2A-Tenant: acme\r\n\r\n")
        assert (await client.answer()).body == RESULT
        [received] = backend.requests
        assert received.header(b"authorization") is None
        assert received.header(b"x-a2a-tenant") == b"anonymous"
        assert received.header(b"trailer") is None


@for_each("method", ["TRACE", "CONNECT", "PATCH", "BREW"])
async def test_a_method_that_a_path_is_not_for_is_told_so(method: str) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        answer = await gateway.ask(method, "/echo")
        assert answer.status in (404, 405)
        assert backend.requests == []


async def test_a_header_that_http_cannot_have_never_leaves() -> None:
    opening = head(b"content-length: %d" % len(RESULT), b"a2a-extensions: a\x01b", b"a2a-version: 1.0")
    async with fronted(answers(opening + RESULT)) as (gateway, _):
        answer = await gateway.post("/echo")
        assert answer.header("a2a-extensions") is None
