"""An agent's own errors are passed where they are A2A's; any other page is told in the gateway's words."""

import pytest

from tests.support.gateway import RESULT, fronted
from tests.support.scripted import Script, answers, whole
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

KEPT = 1 << 20

PAGE = b"<script>alert(1)</script> nginx at http://10.9.8.7:9000/"
PAGES = {
    "html": (PAGE, b"text/html"),
    "json of another server": (b'{"detail":"no upstream at 10.9.8.7"}', b"application/json"),
    "an error of another server": (b'{"error":{"code":500,"message":"10.9.8.7"}}', b"application/json"),
    "half an envelope": (b'{"jsonrpc":"2.0","id":1,"error":"10.9.8.7"}', b"application/json"),
    "a result": (RESULT, b"application/json"),
    "nothing": (b"", b"application/json"),
    "too long": (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"' + b"x" * KEPT + b'"}}', b"application/json"),
}
STATUSES = [b"404 Not Found", b"429 Slow Down", b"500 No", b"503 Busy"]
ERRORS = [(*PAGES["html"], status) for status in STATUSES] + [(*page, STATUSES[0]) for page in PAGES.values()]


def page(body: bytes, content_type: bytes, status: bytes, *fields: bytes) -> Script:
    return answers(whole(body, *fields, status=status).replace(b"application/json", content_type))


@for_each(("body", "content_type", "status"), ERRORS)
async def test_an_error_that_is_no_json_rpc_answer_is_told_in_the_gateways_words(
    body: bytes, content_type: bytes, status: bytes
) -> None:
    script = page(body, content_type, status, b"server: agent/1.0", b"x-powered-by: x")
    async with fronted(script, "connections: { kept: 1MiB }") as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, 1, -32006)
        assert answer.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        assert b"10.9.8.7" not in answer.body
        assert {name for name, _ in answer.headers} == {"content-type", "content-length", "x-request-id"}
        line = await gateway.line()
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")


@for_each(("status", "outcome"), [(b"429 Slow Down", "limited"), (b"503 Busy", "upstream_error")])
@for_each(
    ("fields", "seconds"),
    [
        ((b"retry-after: 7",), "7"),
        ((b"retry-after: 0",), "1"),
        ((b"retry-after: 999999999999",), "86400"),
        ((b"date: Wed, 21 Oct 2026 07:28:00 GMT", b"retry-after: Wed, 21 Oct 2026 07:29:00 GMT"), "60"),
        ((b"date: Wed, 21 Oct 2026 07:28:00 GMT", b"retry-after: Wed, 21 Oct 2020 07:29:00 GMT"), "1"),
    ],
)
async def test_an_agent_that_says_when_to_come_again_keeps_its_status(
    status: bytes, outcome: str, fields: tuple[bytes, ...], seconds: str
) -> None:
    async with fronted(page(PAGE, b"text/html", status, *fields)) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.header("retry-after")) == (int(status[:3]), seconds)
        assert (answer.json["id"], answer.json["error"]["code"]) == (1, -32006)
        rest = await gateway.get("/echo/tasks/t1")
        assert (rest.status, rest.header("retry-after")) == (int(status[:3]), seconds)
        await gateway.until(lambda: len(gateway.lines) == 2)
        assert {(line["reason"], line["outcome"]) for line in gateway.lines} == {("upstream_protocol", outcome)}


@for_each("said", [b"soon", b"-1", b"1.5", b"\xff", b""])
async def test_a_503_without_a_valid_retry_after_is_an_upstream_error(said: bytes) -> None:
    async with fronted(page(PAGE, b"text/html", b"503 Busy", b"retry-after: " + said)) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["error"]["code"], answer.header("retry-after")) == (200, -32006, None)


@for_each("status", STATUSES)
@for_each("identity", [b'"id":1,', b'"id":null,', b""])
async def test_an_agents_json_rpc_error_is_passed_under_its_status(status: bytes, identity: bytes) -> None:
    body = b'{"jsonrpc":"2.0",' + identity + b'"error":{"code":-32001,"message":"no such task"}}'
    async with fronted(answers(whole(body, b"retry-after: 7", b"server: x", status=status))) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.header("retry-after")) == (int(status[:3]), "7")
        assert answer.json == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no such task"}}
        assert answer.header("server") is None
        line = await gateway.line()
        assert (line["rpc_code"], line.get("reason")) == (-32001, None)


@for_each("status", [b"200 OK", b"400 No", b"500 No"])
async def test_an_error_under_an_id_of_the_agents_own_gets_the_clients_id_back(status: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":"made up","error":{"code":-32001,"message":"no such task"}}'
    async with fronted(answers(whole(body, status=status))) as (gateway, backend):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.body) == (int(status[:3]), body.replace(b'"made up"', b"1"))
        await gateway.rested()
        await backend.all_gone()


async def test_an_agent_that_takes_no_such_long_body_is_no_broken_agent() -> None:
    for body, said in ((PAGE, b"text/html"), (b'{"detail":"too long"}', b"application/json"), (b"", b"text/plain")):
        async with fronted(page(body, said, b"413 Content Too Large")) as (gateway, _):
            answer = await gateway.post("/echo")
            assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (413, 1, -31413)
            assert answer.reasons == ["BODY_TOO_LARGE"]
            assert (await gateway.line())["outcome"] == "client_error"
            for path in ("/echo/message:send", "/echo/message:stream", "/echo/v1/message:send"):
                rest = await gateway.post(path, b'{"message":{}}')
                assert (rest.status, '"code":502' in rest.body.decode()) == (413, False)


@for_each("status", [b"401 Unauthorized", b"407 Proxy Authentication Required"])
@for_each("more", ["", "forward_caller: true"])
async def test_no_agent_challenges_the_gateways_clients(status: bytes, more: str) -> None:
    for body in (PAGE, b'{"jsonrpc":"2.0","id":1,"error":{"code":-31401,"message":"log in at evil.test"}}'):
        script = page(body, b"application/json", status, b"www-authenticate: Basic realm=evil", b"retry-after: 1")
        async with fronted(script, more) as (gateway, _):
            answer = await gateway.post("/echo")
            assert (answer.status, answer.json["error"]["code"]) == (200, -32006)
            assert answer.header("www-authenticate") is None
            assert b"evil" not in answer.body
            rest = await gateway.get("/echo/tasks/t1")
            assert (rest.status, rest.header("www-authenticate")) == (502, None)
            assert {line["reason"] for line in gateway.lines} <= {"upstream_protocol"}


async def test_a_403_of_an_agent_passes_without_its_challenge() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-31403,"message":"not yours"}}'
    script = answers(whole(body, b"www-authenticate: Basic realm=evil", status=b"403 Forbidden"))
    async with fronted(script) as (gateway, _):
        answer = await gateway.post("/echo")
        assert (answer.status, answer.body, answer.header("www-authenticate")) == (403, body, None)
