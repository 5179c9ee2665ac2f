"""The line: who is let in, in which order, what breaks, and what is written down."""

import time
from typing import Any

import pytest

from gateway.proxy import pipeline
from tests.support.gateway import (
    CALL,
    JSON,
    LISTENS,
    RESULT,
    agent,
    bearer,
    card_of,
    fronted,
    running,
)
from tests.support.scripted import ScriptedBackend, answers, chunk, refused_port, whole
from tests.support.strict import strict_server_only
from tests.support.tenancy import guarded
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

SEND = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}'


# ---- Identity before the body --------------------------------------------------------------------------------------


@for_each("framing", [b"Content-Length: 99999999", b"Transfer-Encoding: chunked"])
@for_each("target", [b"/support", b"/nothing", b"/support/message:send", b"/%2e%2e/", b"/a//b"])
@undisturbed(0.5)
async def test_a_stranger_is_refused_before_the_body_comes(target: bytes, framing: bytes) -> None:
    async with guarded() as (gateway, backend):
        client = await gateway.client()
        began = time.monotonic()
        await client.send(b"POST " + target + b" HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        answer = await client.answer()
        # Nothing was waited for: neither the body nor the end of the time in which a little of it is read.
        assert time.monotonic() - began < 1
        assert answer.status == 401
        assert answer.header("www-authenticate") == 'Bearer realm="a2a"'
        assert answer.reasons == ["AUTH_MISSING"]
        assert backend.requests == []
        client.leave()
        line = await gateway.line()
        assert (line["reason"], line["outcome"], line["bytes_in"], line["status"]) == ("auth_missing", "denied", 0, 401)


# ---- The body ------------------------------------------------------------------------------------------------------


@for_each("chunks", [False, True])
@for_each("path", ["/echo", "/echo/message:send"])
async def test_a_body_over_the_limit_is_refused(path: str, *, chunks: bool) -> None:
    limited = LISTENS.replace("gateway: {", "gateway: { body_limit: 1KiB,")
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        running(f"{limited}\nagents: {{ echo: '{backend.url}' }}") as gateway,
    ):
        body = CALL[:-1] + b" " * 1024 + b"}"
        client = await gateway.client()
        if chunks:
            await client.ask("POST", path, None, [JSON, (b"Transfer-Encoding", b"chunked")])
            await client.send(chunk(body[:700]))
            await client.send(chunk(body[700:]) + chunk(b""))
        else:
            await client.ask("POST", path, body, [JSON])
        answer = await client.answer()
        assert answer.status == 413
        assert answer.reasons == ["BODY_TOO_LARGE"]
        assert answer.json["error"]["code"] == (-31413 if path == "/echo" else 413)
        assert backend.requests == []
        assert (await gateway.line())["reason"] == "body_too_large"


async def test_a_body_of_just_the_limit_is_taken_in_chunks_too() -> None:
    limited = LISTENS.replace("gateway: {", "gateway: { body_limit: 1KiB,")
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        running(f"{limited}\nagents: {{ echo: '{backend.url}' }}") as gateway,
    ):
        body = CALL[:-1] + b" " * (1024 - len(CALL)) + b"}"
        assert (await gateway.post("/echo", body)).body == RESULT
        client = await gateway.client()
        await client.ask("POST", "/echo", None, [JSON, (b"Transfer-Encoding", b"chunked")])
        for start in range(0, 1024, 100):
            await client.send(chunk(body[start : start + 100]))
        await client.send(chunk(b""))
        assert (await client.answer()).body == RESULT
        assert [received.body for received in backend.requests] == [body, body]
        assert backend.requests[1].header(b"content-length") == b"1024"


@for_each("encoding", [b"identity", b"Identity", b"IDENTITY, identity", b""])
async def test_a_body_that_is_not_encoded_may_say_so(encoding: bytes) -> None:
    """Names of codings have no case (RFC 9110 §8.4.1)."""
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        assert (await gateway.post("/echo", CALL, [(b"Content-Encoding", encoding)])).body == RESULT
        assert backend.requests[0].header(b"content-encoding") is None


@for_each("encoding", [b"gzip", b"deflate", b"br", b"identity, gzip"])
async def test_an_encoded_body_is_refused(encoding: bytes) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        for path in ("/echo", "/echo/message:send"):
            assert (await gateway.post(path, b"\x1f\x8b", [(b"Content-Encoding", encoding)])).status == 415
        assert backend.requests == []


NO_JSON = [
    b"text/plain", b"text/plain;charset=UTF-8", b"application/x-www-form-urlencoded", b"multipart/form-data",
    b"application/octet-stream", b"application/xml", b"application/grpc", b"text/html", b"application/jsonx", b"json",
]  # fmt: skip
SOME_JSON = [
    b"application/json", b"Application/JSON; charset=utf-8", b"application/a2a+json", b"application/a2a+json;v=1", b"",
    b"application/vnd.api+json",
]  # fmt: skip


@for_each("said", NO_JSON)
async def test_a_body_of_another_type_is_refused_in_the_words_of_a2a(said: bytes) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        for body, id_ in ((CALL, 1), (b"a=b&c=d", None), (CALL[:-1] + b" " * (1 << 19) + b"}", None)):
            answer = await gateway.ask("POST", "/echo", body, [(b"Content-Type", said)])
            assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (415, id_, -32005)
            assert answer.reasons == ["CONTENT_TYPE_NOT_SUPPORTED", "BAD_REQUEST"]
        for path in ("/echo/message:send", "/echo/message:stream", "/echo/v1/message:send", "/echo/tasks/t:cancel"):
            answer = await gateway.ask("POST", path, b'{"message":{}}', [(b"Content-Type", said)])
            assert (answer.status, answer.reasons[0]) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
        assert backend.requests == []


@for_each("said", SOME_JSON)
async def test_a_body_of_json_is_taken_under_every_name_of_it(said: bytes) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        assert (await gateway.ask("POST", "/echo", CALL, [(b"Content-Type", said)])).body == RESULT
        assert (await gateway.ask("POST", "/echo", CALL)).body == RESULT
        # An answer without a body has no type.
        for method, path in (("GET", "/echo/tasks/t"), ("POST", "/echo/tasks/t:cancel")):
            assert (await gateway.ask(method, path, None, [(b"Content-Type", b"text/plain")])).status == 200


async def test_a_connection_serves_on_after_every_refusal_whose_request_was_read() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        client = await gateway.client()
        for body in (b"", b"{", b"[]", b"{}", b'{"jsonrpc":"2.0","id":1,"method":"x","params":{}}', b"\xff"):
            await client.ask("POST", "/echo", body, [JSON])
            answer = await client.answer()
            assert answer.header("connection") is None
            assert answer.json["error"]["code"] in (-32700, -32600, -32601)
        for method, target, status in (("GET", "/echo", 405), ("DELETE", "/echo/tasks/t", 405), ("GET", "/x", 404)):
            await client.ask(method, target)
            assert (await client.answer()).status == status
        await client.ask("POST", "/echo", CALL, [JSON])
        assert (await client.answer()).body == RESULT


# ---- Methods and targets -------------------------------------------------------------------------------------------


@for_each(
    ("method", "target", "allow"),
    [
        ("GET", "/echo", "POST"), ("HEAD", "/echo", "POST"), ("OPTIONS", "/echo", "POST"), ("TRACE", "/echo", "POST"),
        ("PROPFIND", "/echo", "POST"), ("GET", "/echo/message:send", "POST"), ("PUT", "/echo/tasks/t", "GET"),
        ("POST", "/echo/.well-known/agent-card.json", "GET, HEAD"), ("GET", "/echo/tasks/t:cancel", "POST"),
        ("POST", "/echo/tasks", "GET"), ("POST", "/echo/extendedAgentCard", "GET"),
        ("DELETE", "/echo/tasks/t:subscribe", "POST, GET"),
        ("PUT", "/echo/tasks/t/pushNotificationConfigs/c", "GET, DELETE"),
    ],
)  # fmt: skip
async def test_the_wrong_http_method_is_told_the_right_one(method: str, target: str, allow: str) -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        answer = await gateway.ask(method, target)
        assert (answer.status, answer.header("allow")) == (405, allow)
        if method == "HEAD":
            assert answer.body == b""
        assert backend.requests == []
        assert (await gateway.line())["reason"] == "method_not_allowed"


async def test_an_operation_that_is_not_offered_is_refused() -> None:
    async with fronted(answers(whole(RESULT)), "methods: [SendMessage]") as (gateway, backend):
        refused = await gateway.post("/echo", CALL.replace(b"SendMessage", b"SendStreamingMessage"))
        assert (refused.json["error"]["code"], refused.reasons) == (
            -32004,
            ["UNSUPPORTED_OPERATION", "METHOD_NOT_ALLOWED"],
        )
        assert (await gateway.get("/echo/tasks/t")).status == 400
        assert (await gateway.post("/echo")).body == RESULT
        assert len(backend.requests) == 1


async def test_a_binding_that_the_card_does_not_list_is_answered_all_the_same() -> None:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0")
    for exposed, listed in (("jsonrpc", "JSONRPC"), ("rest", "HTTP+JSON")):
        async with fronted(answers(whole(RESULT)), f"expose: {exposed}", card=card) as (gateway, _):
            shown = (await gateway.get("/echo/.well-known/agent-card.json")).json
            assert {each["protocolBinding"] for each in shown["supportedInterfaces"]} == {listed}
            assert (await gateway.post("/echo")).body == RESULT
            assert (await gateway.post("/echo/message:send", SEND)).body == RESULT


# ---- What breaks inside --------------------------------------------------------------------------------------------


async def test_internal_errors_reveal_nothing(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("upstream at 10.0.0.1 is odd")

    async with fronted(answers(whole(RESULT))) as (gateway, _):
        monkeypatch.setattr(pipeline, "decode", broken)
        answer = await gateway.post("/echo")
        assert answer.status == 500
        assert answer.json["error"]["code"] == -32603
        assert answer.json["error"]["message"] == "internal error"
        assert b"10.0.0.1" not in answer.body
        line = await gateway.line()
        assert (line["reason"], line["outcome"], line["detail"]) == ("internal", "gateway_error", "RuntimeError")
        assert answer.id in caplog.text
        monkeypatch.undo()
        assert (await gateway.post("/echo")).body == RESULT


@strict_server_only("a refusal that fails")
async def test_a_refusal_that_breaks_closes_the_connection_and_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("odd")

    async with guarded() as (gateway, _):
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "refuse", broken)
            client = await gateway.client()
            await client.ask("POST", "/support", CALL, [JSON])
            assert await client.ended() == b""
        await gateway.line()
        await gateway.rested()
        assert "could not be refused" in caplog.text
        assert (await gateway.post("/support", CALL, [bearer("acme")])).body == RESULT


async def test_an_agent_that_cannot_be_reached_is_told_without_its_address() -> None:
    port = refused_port()
    async with running(f"agents: {{ echo: 'http://127.0.0.1:{port}' }}") as gateway:
        rpc, rest = await gateway.post("/echo"), await gateway.post("/echo/message:send", SEND)
        assert (rpc.status, rpc.json["error"]["code"], rpc.reasons) == (200, -32603, ["UPSTREAM_CONNECT"])
        assert (rest.status, rest.reasons) == (502, ["UPSTREAM_CONNECT"])
        assert str(port) not in repr((rpc, rest))
        await gateway.line(of=2)
        assert all(str(port) in line["detail"] for line in gateway.lines)
        assert gateway.metric("backend_requests_total", backend="echo", status="error") == 2
        assert gateway.metric("rejected_total", agent="echo", reason="upstream_connect") == 2


# ---- What is written down ------------------------------------------------------------------------------------------


async def test_a_call_is_told_to_the_log_and_the_metrics_once() -> None:
    result = RESULT.replace(
        b'"message":{', b'"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_FAILED"},'
    )
    async with guarded(answers(whole(result))) as (gateway, backend):
        target = "/a2a?session=hidden"
        call = CALL.replace(b'"params":{', b'"params":{"tenant":"billing",')
        answer = await gateway.post(target, call, [bearer("acme")])
        line = await gateway.line()
        duration, first, upstream, overhead = (
            line.pop(name) for name in ("duration_s", "first_byte_s", "upstream_s", "overhead_s")
        )
        assert 0 < upstream <= first <= duration
        assert overhead < duration
        assert line.pop("time")
        assert {name: value for name, value in line.items() if value is not None} == {
            "request_id": answer.id,
            "agent": "billing",
            "backend": "billing",
            "match_line": line["match_line"],
            "tenant": "acme",
            "principal": "acme",
            "auth_method": "api_key",
            "binding": "jsonrpc",
            "operation": "SendMessage",
            "a2a_version": "1.0",
            "a2a_tenant": "billing",
            "task_id": "t1",
            "context_id": "c1",
            "task_state": "failed",
            "status": 200,
            "outcome": "task_failed",
            "attempts": 1,
            "bytes_in": len(call),
            "bytes_out": len(result),
            "stream": False,
            "events": 0,
            "client_ip": "127.0.0.1",
            "method": "POST",
            "path": "/a2a",
            "host": "127.0.0.1",
            "http_version": "1.1",
            "upstream_address": line["upstream_address"],
        }
        assert line["match_line"].startswith("gateway.yaml:")
        labels = {"agent": "billing", "operation": "SendMessage", "binding": "jsonrpc", "outcome": "task_failed"}
        assert gateway.series("requests_total") == [(labels, 1.0)]
        assert gateway.series("tenant_requests_total") == [
            ({"tenant": "acme", "agent": "billing", "outcome": "task_failed"}, 1.0)
        ]
        assert gateway.metric("tasks_total", agent="billing", state="failed") == 1
        assert gateway.metric("request_duration_seconds_count", agent="billing", kind="send") == 1
        assert gateway.metric("backend_requests_total", backend="billing", status="2xx") == 1
        assert gateway.metric("auth_total", method="api_key", result="ok") == 1
        assert backend.requests[0].target == b"/?session=hidden"
        await gateway.rested()


async def test_one_line_is_written_for_each_ending() -> None:
    async with guarded() as (gateway, _):
        await gateway.post("/support", CALL, [bearer("acme")])
        await gateway.post("/support", b"{", [bearer("acme")])
        await gateway.post("/support", b'{"jsonrpc":"2.0","id":1,"id":2}', [bearer("acme")])
        await gateway.post("/support", CALL, [bearer("acme"), (b"A2A-Version", b"9.9")])
        await gateway.post("/support", CALL)
        await gateway.post("/nothing", CALL, [bearer("acme")])
        await gateway.post("/hermit", CALL, [bearer("globex")])
        await gateway.get("/support/.well-known/agent-card.json")
        await gateway.get("/-/live")
        await gateway.line(of=8)
        told = [(line["outcome"], line.get("reason"), line.get("rpc_code")) for line in gateway.lines]
        assert told == [
            ("ok", None, None),
            ("client_error", "bad_request", -32700),
            ("client_error", "duplicate_key", -32600),
            ("client_error", "version_unsupported", -32009),
            ("denied", "auth_missing", -31401),
            ("denied", "no_route", -31404),
            ("denied", "tenant_denied", -31404),
            ("ok", None, None),
        ]
