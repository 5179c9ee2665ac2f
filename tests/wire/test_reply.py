"""An agent's answer reaches the client byte for byte; other bytes do not reach it at all."""

import json

import pytest

from tests.support.gateway import CALL, RESULT, fronted
from tests.support.scripted import (
    SSE,
    Wire,
    answers,
    chunk,
    head,
    whole,
)
from tests.table import for_each

pytestmark = pytest.mark.anyio

KEPT = 1 << 20

# Odd, and right: spaces, key order, unknown members, a number no double can hold, escapes, an id with an escape.
ODD_CALL = (
    b'{ "params" : {"x":\t123456789012345678901234567890, "metadata":{"z":1,"a":[1.10,2e0]},'
    b' "message":{"role":"ROLE_USER","parts":[{"text":"h\\u00e9 \\/ \xc3\xa9"}],"messageId":"m"}},'
    b'"id":"a\\u0062c" ,"method":"SendMessage","extra":null,"jsonrpc":"2.0" }'
)
ODD_RESULT = (
    b'{"id":"abc",  "result":{"message":{"parts":[{"data":{"big":123456789012345678901234567890,"f":1.0}}],'
    b'"unknown":{"k":[]},"messageId":"m","role":"ROLE_AGENT"}},\r\n"jsonrpc":"2.0"}\n'
)


# ---- Bytes ---------------------------------------------------------------------------------------------------------


async def test_json_rpc_is_passed_byte_for_byte_both_ways() -> None:
    async with fronted(answers(whole(ODD_RESULT))) as (gateway, backend):
        answer = await gateway.post("/echo", ODD_CALL)
        assert answer.body == ODD_RESULT
        assert backend.requests[0].body == ODD_CALL
        assert (backend.requests[0].method, backend.requests[0].target) == (b"POST", b"/")


async def test_http_json_is_passed_byte_for_byte_both_ways() -> None:
    sent = b'{ "message" : {"role":"ROLE_USER" , "parts":[], "n":1e300 }, "zz" :  12345678901234567890 }\n'
    given = b' {"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"},"n":18446744073709551616 } }\r\n'
    script = answers(whole(given, b"x-accel-buffering: no"))
    async with fronted(script) as (gateway, backend):
        answer = await gateway.post("/echo/message:send?A=b%20c&d=%C3%A9&e", sent)
        assert answer.body == given
        received = backend.requests[0]
        assert received.body == sent
        assert received.target == b"/message:send?A=b%20c&d=%C3%A9&e"
        line = await gateway.line()
        assert (line["task_id"], line["task_state"], line["binding"]) == ("t1", "working", "rest")


@for_each("body", [b"", b"{}", b"[]", b"[1]", b"null", b'"text"'])
async def test_any_json_document_or_none_is_an_answer_over_http_json(body: bytes) -> None:
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.get("/echo/tasks/t1")).body == body


@for_each("body", [b'{"x":"\xff"}', b'"\xff"', b"[NaN]", b"1 2", '{"x":1}'.encode("utf-16")])
async def test_an_answer_that_is_no_json_is_refused_over_http_json(body: bytes) -> None:
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.get("/echo/tasks/t1")).status == 502


async def test_an_answer_without_a_body_is_passed() -> None:
    gone = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with fronted(answers(gone)) as (gateway, _):
        answer = await gateway.ask("DELETE", "/echo/tasks/t/pushNotificationConfigs/c")
        assert (answer.status, answer.body) == (204, b"")


# ---- What is no answer ---------------------------------------------------------------------------------------------

NO_ANSWERS = {
    "redirect": whole(b"", b"location: http://{backend}/elsewhere", status=b"307 Temporary Redirect"),
    "not modified": head(status=b"304 Not Modified"),
    "html": whole(b"<p>{backend}</p>").replace(b"application/json", b"text/html; charset=utf-8"),
    "long html": whole(b"<p>{backend}</p>" * (KEPT // 8)).replace(b"application/json", b"text/html"),
    "garbage": whole(b"{backend} says hello"),
    "half a document": whole(b'{"jsonrpc":"2.0","id":1,"result":{'),
    "two documents": whole(RESULT + RESULT),
    "encoded": whole(RESULT, b"content-encoding: gzip"),
    "stream unasked": SSE + chunk(b"data: {}\n\n") + chunk(b""),
    "no HTTP": b"220 {backend} ESMTP\r\n\r\n",
    "two lengths": head(b"content-length: 2", b"content-length: 3") + b"{}",
    "a part": whole(RESULT, status=b"206 Partial Content"),
    "two types": whole(RESULT, b"content-type: text/html"),
    "upgrade": head(b"upgrade: h2c", b"connection: upgrade", status=b"101 Switching Protocols"),
}


@for_each("raw", NO_ANSWERS.values())
@for_each("path", ["/echo", "/echo/message:send", "/echo/v1/message:send"])
async def test_a_malformed_answer_is_refused_in_the_callers_dialect_without_an_address(path: str, raw: bytes) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        place = b"127.0.0.1:%d" % wire.backend.port
        framed = raw.replace(b"{backend}", place)
        if b"content-length" in raw and b"two" not in raw and raw.count(b"content-length") == 1:
            opening, _, body = framed.partition(b"\r\n\r\n")
            fields = [line for line in opening.split(b"\r\n") if not line.startswith(b"content-length")]
            framed = b"\r\n".join([*fields, b"content-length: %d" % len(body)]) + b"\r\n\r\n" + body
        await wire.send(framed)
        await wire.hang()

    async with fronted(script) as (gateway, backend):
        body = CALL if path == "/echo" else b'{"message":{}}'
        answer = await gateway.post(path, body)
        said = answer.json
        if path == "/echo":
            assert (answer.status, said["id"], said["error"]["code"]) == (200, 1, -32006)
            details = said["error"]["data"]
        else:
            assert (answer.status, said["error"]["code"]) == (502, 502)
            assert ("type" in said) == path.startswith("/echo/v1")
            details = said["error"]["details"]
        assert [each["reason"] for each in details] == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        assert {each["metadata"]["requestId"] for each in details} == {answer.id}
        assert str(backend.port) not in repr(answer)
        line = await gateway.line()
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")
        await gateway.rested()


@pytest.mark.parametrize("given", [b'"1"', b"2", b'"x"', b"true", b"[1]", b"{}"])
async def test_an_answer_under_an_id_of_the_agents_own_gets_the_clients_id_back(
    given: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """fasta2a 0.2 makes up an id for each send: the connection carries no other call, so the answer is to this one."""
    foreign = whole(RESULT.replace(b'"id":1', b'"id":' + given))
    async with fronted(answers(foreign)) as (gateway, backend):
        for number in range(1, 4):
            answer = await gateway.post("/echo")
            assert (answer.status, answer.body) == (200, RESULT)
            assert (await gateway.line(of=number))["outcome"] == "ok"
        await gateway.rested()
        # Such an agent cannot show that a connection has got out of step, so that none serves a second call.
        assert len({received.connection for received in backend.requests}) == 3
        await backend.all_gone()
    warnings = [record.getMessage() for record in caplog.records if "ids of its own" in record.getMessage()]
    assert len(warnings) == 1
    assert "agent echo" in warnings[0]


async def test_an_answer_to_an_earlier_call_of_the_connection_is_given_to_nobody() -> None:
    """Ids of an agent's own are taken where a connection carries one call; here the answer may be that to another."""
    first = RESULT.replace(b'"id":1', b'"id":"mine"').replace(b'"ho"', b'"for the first caller"')

    async def repeats(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(whole(first))

    async with fronted(repeats) as (gateway, backend):
        assert (await gateway.post("/echo", CALL.replace(b'"id":1', b'"id":"mine"'))).body == first
        answer = await gateway.post("/echo", CALL)
        assert len({received.connection for received in backend.requests}) == 1
        assert (answer.json["id"], answer.json["error"]["code"]) == (1, -32006)
        assert (await gateway.line(of=2))["reason"] == "upstream_protocol"


async def test_an_agent_with_ids_of_its_own_for_some_calls_gets_one_call_a_connection() -> None:
    async def sends_alone(wire: Wire) -> None:
        while True:
            request = await wire.request()
            own = RESULT if b"GetTask" in request.body else RESULT.replace(b'"id":1', b'"id":"own"')
            await wire.send(whole(own))

    get = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
    async with fronted(sends_alone, "isolation: none") as (gateway, backend):
        for body in (CALL, get, CALL, get, CALL):
            assert (await gateway.post("/echo", body)).body == RESULT
        assert len({received.connection for received in backend.requests}) == 5


@for_each("identity", [b'"\\u0041"', b"123456789012345678901234567890", b'"a\\"b"', b"-0"])
async def test_the_clients_id_comes_back_byte_for_byte(identity: bytes) -> None:
    call, right = (each.replace(b'"id":1', b'"id":' + identity) for each in (CALL, RESULT))
    for body in (
        RESULT.replace(b'"id":1', b'"id":"other"'),
        RESULT.replace(b'"id":1', b'"id":null'),
        RESULT.replace(b'"id":1,', b""),
        b' {"result":{"id":"t","status":{"state":"TASK_STATE_WORKING"}} , "i\\u0064" : "o" ,"jsonrpc":"2.0"}\r\n',
    ):
        async with fronted(answers(whole(body))) as (gateway, _):
            answer = await gateway.post("/echo", call)
            assert b'"id":' + identity in answer.body or b'"i\\u0064" : ' + identity in answer.body
            assert answer.json["id"] == json.loads(identity)
            assert answer.json["result"] == json.loads(body)["result"]
            if b"ROLE_AGENT" in body:
                assert json.loads(answer.body) == json.loads(right)


@for_each("given", [b'"id":1.0,', b'"id": 1 ,'])
async def test_an_id_that_is_written_another_way_passes_as_it_came(given: bytes) -> None:
    body = RESULT.replace(b'"id":1,', given)
    async with fronted(answers(whole(body))) as (gateway, backend):
        for _ in range(2):
            assert (await gateway.post("/echo")).body == body
        assert len({received.connection for received in backend.requests}) == 1


async def test_an_id_that_is_missing_is_filled_in_and_is_no_reason_to_distrust() -> None:
    script = answers(whole(RESULT.replace(b'"id":1', b'"id":null')), whole(RESULT.replace(b'"id":1,', b"")))
    async with fronted(script) as (gateway, backend):
        assert json.loads((await gateway.post("/echo")).body) == json.loads(RESULT)
        assert json.loads((await gateway.post("/echo")).body) == json.loads(RESULT)
        assert len({received.connection for received in backend.requests}) == 1


# ---- What an answer is said to be -----------------------------------------------------------------------------------


@for_each(
    ("said", "passed"),
    [
        (b"application/json; charset=utf-16", "application/json"),
        (b"Application/A2A+JSON; v=1", "application/a2a+json"),
        (b"application/problem+json", "application/problem+json"),
    ],
)
async def test_a_client_reads_an_answer_as_the_gateway_did(said: bytes, passed: str) -> None:
    for body in (b'{"id":"t"}', b'{"id":"' + b"t" * KEPT + b'"}'):
        async with fronted(answers(whole(body).replace(b"application/json", said))) as (gateway, _):
            answer = await gateway.get("/echo/tasks/t1")
            assert (answer.status, answer.header("content-type"), answer.body) == (200, passed, body)


@for_each("field", [b"content-type: application/json", b"connection: content-type", b"content-type:"])
async def test_an_answer_with_a_hidden_content_type_is_json_or_refused(field: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\n" + field + b"\r\ncontent-length: %d\r\n\r\n" % len(RESULT) + RESULT
    async with fronted(answers(raw)) as (gateway, _):
        answer = await gateway.post("/echo")
        if field == b"content-type:":
            assert answer.json["error"]["code"] == -32006
        else:
            assert answer.body == RESULT
        assert answer.header("content-type") == "application/json"


# ---- Envelopes -------------------------------------------------------------------------------------------------------


@for_each(
    "body",
    [
        b"{}", b'{"jsonrpc":"2.0","id":1}', RESULT[:-1] + b',"error":{"code":1,"message":"x"}}',
        RESULT[:-1] + b',"result":{}}', RESULT[:-1] + b',"id":1}', RESULT.replace(b'"2.0"', b'"1.0"'),
        b"[" + RESULT + b"]", b"\xef\xbb\xbf" + RESULT, RESULT.decode().encode("utf-16"),
        RESULT.replace(b'"ho"', b"NaN"), RESULT.replace(b'"ho"', b'"\xff"'),
        RESULT.replace(b'"ho"', b"[" * 100_000 + b"]" * 100_000),
    ],
)  # fmt: skip
async def test_ambiguous_and_unreadable_answers_are_refused(body: bytes) -> None:
    async with fronted(answers(whole(body))) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, 1, -32006)


async def test_a_deletion_may_be_answered_without_a_result() -> None:
    body = b'{"jsonrpc":"2.0","id":1}\n'
    call = b'{"jsonrpc":"2.0","id":1,"method":"DeleteTaskPushNotificationConfig","params":{"taskId":"t","id":"c"}}'
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.post("/echo", call)).body == body


async def test_an_agents_json_rpc_error_is_passed_and_told_to_the_log() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no such task"}}'
    async with fronted(answers(whole(body))) as (gateway, _):
        assert (await gateway.post("/echo")).body == body
        line = await gateway.line()
        assert (line["rpc_code"], line["outcome"], line.get("reason")) == (-32001, "client_error", None)


async def test_an_agents_error_over_http_json_is_counted_by_its_status() -> None:
    raw = whole(b'{"error":{"code":404,"status":"NOT_FOUND","message":"no such task"}}', status=b"404 Not Found")
    async with fronted(answers(raw)) as (gateway, _):
        assert (await gateway.get("/echo/tasks/t1")).status == 404
        line = await gateway.line()
        assert (line["outcome"], line["rpc_code"]) == ("client_error", None)
