"""Traps of what is around objects: ids, errors, the ends of streams, tenants; through the whole gateway.

Left out here: whose a task is and where pushes come in (traps 41 and 44), which are the ledger's; that tenants stand in
URLs and logs (trap 45), which is no promise to anybody.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import card_of, fronted
from tests.support.scripted import Received, whole
from tests.support.translated import (
    MESSAGE_0_3,
    MESSAGE_1_0,
    TASK_0_3,
    TASK_1_0,
    agent,
    call,
    document,
    events,
    plain,
    plays,
    result,
    rpc_event,
    stream,
)
from tests.table import for_each
from tests.translation.test_traps_dialect import MODERN, bare_event, streamed, told

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

PROTO = {"message": {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "Hello"}]}}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


# ---- Ids -------------------------------------------------------------------------------------------------------------

IDS = [
    b"0", b"-1", b'""', b"null", b'"0"', b'"a\\u0062c"', b'"\xc3\xa4"', b"9007199254740993",
    b"123456789012345678901234567890", b'"f47ac10b-58cc-4372-a567-0e02b2c3d479"',
]  # fmt: skip


@for_each("identity", IDS)
@for_each("speaks", ["rest 1.0", "jsonrpc 0.3"])
async def test_a_client_gets_its_id_back_byte_for_byte(identity: bytes, speaks: str, tmp_path: Path) -> None:
    """Trap of §4.3: servers turn 0 and an empty text into null and round large numbers; clients compare."""
    script = plays(plain(TASK_1_0) if speaks == "rest 1.0" else result(TASK_0_3))
    body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"t-1"}}' % identity
    async with agent(script, tmp_path, speaks) as (gateway, client):
        answer = await client.post(gateway.url, content=body)
        wrong = await client.post(gateway.url, content=body.replace(b'"t-1"', b"7"))
        [request] = gateway.backend.requests
    assert answer.content.startswith(b'{"jsonrpc":"2.0","id":%b,"result":' % identity)
    assert wrong.content.startswith(b'{"jsonrpc":"2.0","id":%b,"error":' % identity)
    if speaks == "jsonrpc 0.3":
        # Never a number, and never the client's own.
        assert isinstance(json.loads(request.body)["id"], str)


@for_each("identity", IDS)
async def test_every_event_bears_the_clients_id_byte_for_byte(identity: bytes, tmp_path: Path) -> None:
    """Trap of §4.3, in streams, whose last event may be an error."""
    error = {"error": {"code": 500, "status": "INTERNAL", "message": "no", "details": []}}
    script = plays(lambda _: stream(bare_event(told("TASK_STATE_WORKING")), bare_event(error)))
    params = json.dumps({"message": MESSAGE_0_3}).encode()
    body = b'{"jsonrpc":"2.0","id":%b,"method":"message/stream","params":%b}' % (identity, params)
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        answer = await client.post(gateway.url, content=body)
    first, last, end = answer.content.split(b"\n\n")
    assert first.startswith(b'data: {"jsonrpc":"2.0","id":%b,"result":' % identity)
    assert last.startswith(b'data: {"jsonrpc":"2.0","id":%b,"error":' % identity)
    assert end == b""


@for_each("identity", [b"1.5", b"1.0", b"true", b"[]", b"{}", b"1e3"])
async def test_a_malformed_id_reaches_no_agent(identity: bytes, tmp_path: Path) -> None:
    """Trap of §4.3: neither a fraction nor a truth is an id, and servers differ on what they make of one."""
    body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"t-1"}}' % identity
    async with agent(plays(plain(TASK_1_0)), tmp_path, "rest 1.0") as (gateway, client):
        answer = (await client.post(gateway.url, content=body)).json()
        nothing = (await client.post(gateway.url, content=body.replace(b'"id":' + identity + b",", b""))).json()
        assert gateway.backend.requests == []
    for each in (answer, nothing):
        assert (each["id"], each["error"]["code"]) == (None, -32600)


@for_each("speaks", ["jsonrpc 0.3", "jsonrpc 1.0", "jsonrpc 0.1"])
async def test_a_null_is_no_task(speaks: str, tmp_path: Path) -> None:
    """Trap 21: a result of null is an answer to a deletion alone; a relay leaves it to its client."""
    async with agent(plays(result(None)), tmp_path, speaks) as (gateway, client):
        path = await client.get(gateway.url + "/tasks/t-1", headers=MODERN)
        method = "GetTask" if speaks == "jsonrpc 1.0" else "tasks/get"
        relayed = await call(client, gateway, method, {"id": "t-1"})
    assert path.status_code == 502
    assert relayed == {"jsonrpc": "2.0", "id": 7, "result": None}


@for_each("raw", [b"", b"null", b"[]", b"1", b'"x"'])
@for_each("speaks", ["rest 1.0", "rest 0.3"])
async def test_an_empty_body_is_no_task(raw: bytes, speaks: str, tmp_path: Path) -> None:
    """Trap 21, over HTTP+JSON."""
    async with agent(plays(lambda _: whole(raw)), tmp_path, speaks) as (gateway, client):
        rpc = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert rpc["error"]["code"] == -32006


# ---- Errors ----------------------------------------------------------------------------------------------------------

INFO = {"@type": ERROR_INFO, "reason": "TASK_NOT_CANCELABLE", "domain": "a2a-protocol.org", "metadata": {}}
SHAPES: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "AIP-193": (
        "rest 1.0",
        b"400 Bad Request",
        {"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "over", "details": [INFO]}},
    ),
    "a2a-go, the reason last": (
        "rest 1.0",
        b"400 Bad Request",
        {
            "error": {
                "code": 400,
                "status": "FAILED_PRECONDITION",
                "message": "over",
                "details": [
                    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []},
                    {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"x": 1}},
                    {**INFO, "metadata": {"timestamp": "2026-01-02T03:04:05Z"}},
                ],
            }
        },
    ),
    "a draft's problem": (
        "rest 1.0",
        b"409 Conflict",
        {"type": "https://a2a-protocol.org/errors/task-not-cancelable", "title": "Over", "detail": "over"},
    ),
    "a2a-python's compatibility": ("rest 0.3", b"409 Conflict", {"type": "TaskNotCancelableError", "message": "over"}),
    "a2a-js of 0.3": ("rest 0.3", b"409 Conflict", {"code": -32002, "message": "over"}),
    "a2a-python 0.3": ("rest 0.3", b"409 Conflict", {"message": "over"}),
    "a2a-python 1.3 speaking 0.3": (
        "rest 0.3",
        b"400 Bad Request",
        {"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "over", "details": [INFO]}},
    ),
}


@for_each("shape", SHAPES)
@for_each("kind", [b"application/json", b"application/a2a+json; charset=utf-8", b"application/problem+json"])
async def test_an_error_is_known_in_every_shape_that_agents_give_it(shape: str, kind: bytes, tmp_path: Path) -> None:
    """Traps 30 and 32: by reason, code, name or status, wherever they stand and whatever JSON it says it is."""
    speaks, status, body = SHAPES[shape]
    async with agent(plays(lambda _: document(body, status, kind)), tmp_path, speaks) as (gateway, client):
        modern = await call(client, gateway, "CancelTask", {"id": "t-1"})
        older = await call(client, gateway, "tasks/cancel", {"id": "t-1"})
    assert modern["error"]["code"] == older["error"]["code"] == -32002
    assert modern["error"]["message"] == older["error"]["message"] == "over"
    assert modern["error"]["data"][0]["reason"] == "TASK_NOT_CANCELABLE"
    if "metadata" in modern["error"]["data"][0] and shape.startswith("a2a-go"):
        assert modern["error"]["data"][0]["metadata"] == {"timestamp": "2026-01-02T03:04:05Z"}
        assert len(modern["error"]["data"]) == 3


@for_each("status", [b"200 OK", b"400 Bad Request", b"404 Not Found", b"500 Internal Server Error"])
@for_each("identity", [{}, {"id": None}])
async def test_an_error_in_an_envelope_counts_with_any_status(
    status: bytes, identity: dict[str, Any], tmp_path: Path
) -> None:
    """Traps 17a and 30: a2a-js has a status of HTTP for it, the others have 200; and some forget the id."""
    body = {"jsonrpc": "2.0", **identity, "error": {"code": -32002, "message": "over"}}
    async with agent(plays(plain(body, status)), tmp_path, "jsonrpc 0.3") as (gateway, client):
        rpc = await call(client, gateway, "CancelTask", {"id": "t-1"})
        path = await client.post(gateway.url + "/tasks/t-1:cancel", headers=MODERN)
    assert rpc["error"]["code"] == -32002
    assert path.status_code == 400
    assert path.json()["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"


async def test_the_findings_of_a_problem_are_kept(tmp_path: Path) -> None:
    """Trap 30 and §4.2: drafts of 1.0 named the fields beside the problem."""
    problem = {
        "type": "https://a2a-protocol.org/errors/invalid-params",
        "title": "Invalid",
        "errors": [{"field": "historyLength", "message": "must not be negative"}],
    }
    script = plays(lambda _: document(problem, b"422 Unprocessable Content", b"application/problem+json"))
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        answer = await call(client, gateway, "GetTask", {"id": "t-1"})
    assert answer["error"]["code"] == -32602
    [violations] = [each for each in answer["error"]["data"] if each["@type"].endswith("BadRequest")]
    assert violations["fieldViolations"] == [{"field": "historyLength", "description": "must not be negative"}]


@for_each("name", [b"", b"event: error\n"])
@for_each("speaks", ["rest 1.0", "jsonrpc 1.0", "jsonrpc 0.3"])
async def test_an_error_ends_a_stream_whether_or_not_its_event_is_named(
    name: bytes, speaks: str, tmp_path: Path
) -> None:
    """Trap of §4.2: a2a-python and a2a-js name the event of an error, a2a-go writes it as any other."""
    detail = {**INFO, "reason": "UNSUPPORTED_OPERATION"}

    def answer(request: Received) -> bytes:
        if speaks == "rest 1.0":
            status = {
                "code": 400,
                "status": "FAILED_PRECONDITION",
                "message": "no",
                "details": [{"@type": "x"}, detail],
            }
            return stream(bare_event(told("TASK_STATE_WORKING")), bare_event({"error": status}, name))
        update = (
            told("TASK_STATE_WORKING")
            if speaks == "jsonrpc 1.0"
            else {
                "kind": "status-update",
                "taskId": "t-1",
                "contextId": "c-1",
                "status": {"state": "working"},
                "final": False,
            }
        )
        identity = json.loads(request.body)["id"]
        error = {"code": -32004, "message": "no"}
        return stream(rpc_event(request, update), bare_event({"jsonrpc": "2.0", "id": identity, "error": error}, name))

    async with agent(plays(answer), tmp_path, speaks) as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        if speaks == "jsonrpc 0.3":
            body |= {"method": "SendStreamingMessage", "params": {"message": MESSAGE_1_0}}
        rpc = await client.post(gateway.url, json=body)
        path = await client.post(gateway.url + "/message:stream", json={"message": MESSAGE_1_0}, headers=MODERN)
    assert [event["error"]["code"] for event in events(rpc.content) if "error" in event] == [-32004]
    assert [event["error"]["message"] for event in events(path.content) if "error" in event] == ["no"]
    assert len(events(rpc.content)) == len(events(path.content)) == 2
    # A relay leaves the name to the agent.
    assert speaks == "rest 1.0" or b"event: error\n" in path.content


# ---- The ends of streams ---------------------------------------------------------------------------------------------


@for_each("state", ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"])
async def test_the_last_status_of_an_older_stream_is_final(state: str, tmp_path: Path) -> None:
    """Trap 39: without it some clients of 0.3 report a stream that was broken off."""
    async with agent(
        plays(streamed(told("TASK_STATE_WORKING"), told(f"TASK_STATE_{state}"))), tmp_path, "jsonrpc 1.0"
    ) as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        rpc = await client.post(gateway.url, json=body)
        path = await client.post(gateway.url + "/v1/message:stream", json=PROTO)
        ancient = {"id": "mine", "message": {"role": "user", "parts": [{"type": "text", "text": "Hello"}]}}
        body |= {"method": "tasks/sendSubscribe", "params": ancient}
        oldest = await client.post(gateway.url, json=body)
    assert [event["result"]["final"] for event in events(rpc.content)] == [False, True]
    # ProtoJSON leaves out what is false.
    assert [event["statusUpdate"].get("final", False) for event in events(path.content)] == [False, True]
    assert [event["result"]["final"] for event in events(oldest.content)] == [False, True]


async def test_a_stream_that_ends_while_the_task_works_has_no_final_event(tmp_path: Path) -> None:
    """Trap 39: the gateway says of no task that it is over."""
    async with agent(plays(streamed(told("TASK_STATE_WORKING"))), tmp_path, "jsonrpc 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        answer = await client.post(gateway.url, json=body)
    assert [event["result"]["final"] for event in events(answer.content)] == [False]


@for_each("begun", [False, True])
async def test_an_error_in_the_place_of_a_stream_is_the_answer(*, begun: bool, tmp_path: Path) -> None:
    """Trap of §4.2: most say it as an ordinary answer, and a2a-go opens the stream first and says it there."""
    error = {"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": []}}
    script = (lambda _: stream(bare_event(error))) if begun else plain(error, b"404 Not Found")
    async with agent(plays(script), tmp_path, "rest 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        answer = await client.post(gateway.url, json=body)
    [said] = events(answer.content) if begun else [answer.json()]
    assert (said["id"], said["error"]["code"]) == (1, -32001)
    assert answer.headers["content-type"] == ("text/event-stream" if begun else "application/json")


FRAMES = [
    b"data: %b\n\n", b"data:%b\r\n\r\n", b": ping - 2026-01-02\r\n\r\ndata: %b\r\n\r\n",
    b"event: message\ndata: %b\n\n", b"id: f47ac10b\nretry: 5\ndata: %b\n\n", b"data: %b",
]  # fmt: skip


@for_each("frame", FRAMES)
async def test_an_event_is_read_in_any_frame(frame: bytes, tmp_path: Path) -> None:
    """Trap of §5: servers differ in line ends, comments, names and ids, and one leaves its last event unended."""
    script = plays(lambda _: stream(frame % json.dumps(told("TASK_STATE_COMPLETED")).encode()))
    async with agent(script, tmp_path, "rest 1.0") as (gateway, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": MESSAGE_0_3}}
        answer = await client.post(gateway.url, json=body)
    [event] = events(answer.content)
    assert event["result"]["status"]["state"] == "completed"


# ---- Versions and tenants --------------------------------------------------------------------------------------------


@for_each(("speaks", "version"), [("rest 1.0", b"1.0"), ("rest 0.3", b"0.3"), ("jsonrpc 0.1", None)])
async def test_an_agent_is_always_told_the_version_that_it_is_asked_in(
    speaks: str, version: bytes | None, tmp_path: Path
) -> None:
    """Trap 40: a2a-js takes whoever says none for a client of 0.3; generations without the header get none."""
    script = plays(plain(TASK_1_0) if speaks.startswith("rest") else result(TASK_0_3))
    async with agent(script, tmp_path, speaks) as (gateway, client):
        await call(client, gateway, "GetTask", {"id": "t-1"})
        [request] = gateway.backend.requests
    assert request.header(b"a2a-version") == version


@for_each(
    ("prefix", "said", "state"),
    [
        ("", None, "TASK_STATE_CANCELED"),
        ("", "", "TASK_STATE_CANCELED"),
        ("", "0.3", "TASK_STATE_CANCELLED"),
        ("/v1", None, "TASK_STATE_CANCELLED"),
        ("/v1", "1.0", "TASK_STATE_CANCELED"),
    ],
)
async def test_a_path_tells_the_generation_of_a_request_without_a_version(
    prefix: str, said: str | None, state: str, tmp_path: Path
) -> None:
    """Trap 40: so that no client of 1.0 is answered as one of 0.3 for want of a header."""
    headers = {} if said is None else {"a2a-version": said}
    task = {**TASK_1_0, "status": {"state": "TASK_STATE_CANCELED"}}
    async with agent(plays(result(task)), tmp_path, "jsonrpc 1.0") as (gateway, client):
        answer = await client.get(gateway.url + prefix + "/tasks/t-1", headers=headers)
    assert answer.json()["status"]["state"] == state


async def test_a_tenant_behind_a_long_message_is_found(tmp_path: Path) -> None:
    """Trap 42: it stands in the body, where JSON has no order."""
    params = {"message": {**MESSAGE_1_0, "parts": [{"text": "x" * 300_000}]}, "tenant": "acme"}
    settings = {"upstream_tenant": "keep"}
    async with agent(plays(plain({"task": TASK_1_0})), tmp_path, "rest 1.0", **settings) as (gateway, client):
        await call(client, gateway, "SendMessage", params)
        [request] = gateway.backend.requests
    assert request.target == b"/acme/message:send"
    assert json.loads(request.body)["tenant"] == "acme"


async def test_an_extended_card_is_kept_by_nobody() -> None:
    """Trap 43: it is made for one caller."""
    card = card_of("https://a.example/", "JSONRPC 1.0")
    told_so = b'{"jsonrpc":"2.0","id":1,"result":%b}' % card

    def answer(request: Received) -> bytes:
        identity = json.dumps(json.loads(request.body)["id"]).encode()
        return whole(told_so.replace(b'"id":1', b'"id":' + identity, 1), b"cache-control: public, max-age=3600")

    body = b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}'
    async with fronted(plays(answer), card=card) as (gateway, _):
        relayed = await gateway.post("/echo", body)
        path = await gateway.get("/echo/v1/card")
    assert (relayed.status, path.status) == (200, 200)
    assert relayed.header("cache-control") == path.header("cache-control") == "no-store"
