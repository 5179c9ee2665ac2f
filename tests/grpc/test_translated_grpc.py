"""Answers of agents over HTTP, good and bad, on their way to clients of gRPC."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.support.gateway import Running, agent
from tests.support.grpc_agent import grpc_over
from tests.support.grpc_events import status, status_0_3
from tests.support.grpc_gateway import GrpcClient, fronting, request
from tests.support.scripted import WAIT, Received, Script, ScriptedBackend, Wire, answers, head
from tests.support.translated import (
    TASK_0_3,
    TASK_1_0,
    Answer,
    complaint,
    plain,
    plays,
    result,
    rpc_event,
    stream,
)
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

V0_3, V1_0 = Version.V0_3, Version.V1_0
ANYWHERE = "match: [{ path: /echo }, { path: / }]"
GET, STREAM = Operation.GET_TASK, Operation.SEND_STREAMING_MESSAGE
ASKED = request(GET, id="t-1")
ASKED_0_3 = request(GET, V0_3, name="tasks/t-1")
MESSAGE = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="hi")])
SENT = request(STREAM, message=MESSAGE)
SENT_0_3 = request(STREAM, V0_3, request=old.Message(message_id="m", role="ROLE_USER", content=[old.Part(text="hi")]))
INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}
WORKING = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
COMPLETED = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
EVERY = ["jsonrpc 1.0", "jsonrpc 0.3", "rest 1.0", "rest 0.3"]


@pytest.fixture(scope="module", autouse=True)
async def sites() -> AsyncIterator[dict[str, tuple[Running, GrpcClient, ScriptedBackend]]]:
    """A gateway, a client of gRPC and an agent of each dialect, for all tests."""
    found = {}
    async with AsyncExitStack() as stack:
        for speaks in (*EVERY, "jsonrpc 0.1"):
            binding, _, version = speaks.partition(" ")
            backend = await stack.enter_async_context(ScriptedBackend(agent(answers())))
            spoken = f'protocol: {binding}, a2a_version: "{version}"'
            gateway, client = await stack.enter_async_context(fronting(backend.url, ANYWHERE, backend=spoken))
            found[speaks] = gateway, client, backend
        SITES.update(found)
        yield found
        SITES.clear()


SITES: dict[str, tuple[Running, GrpcClient, ScriptedBackend]] = {}


@asynccontextmanager
async def speaking(script: Script, speaks: str) -> AsyncIterator[tuple[Running, GrpcClient]]:
    """Have the agent of a dialect play a script; gives the gateway in front of it, and a client of gRPC."""
    gateway, client, backend = SITES[speaks]
    await gateway.rested()
    gateway.lines.clear()
    for wire in backend.wires:
        wire.close()
    await backend.all_gone()
    backend.script = agent(script)
    yield gateway, client


# ---- What is well ----------------------------------------------------------------------------------------------------

TASKS = {"jsonrpc 1.0": TASK_1_0, "jsonrpc 0.3": TASK_0_3, "rest 1.0": TASK_1_0, "rest 0.3": TASK_1_0}


def answered(speaks: str, tree: Any) -> Answer:
    return result(tree) if speaks.startswith("jsonrpc") else plain(tree)


@for_each("speaks", EVERY)
async def test_a_task_is_told_as_a_message_of_the_clients_generation(speaks: str) -> None:
    async with speaking(plays(answered(speaks, {**TASKS[speaks], "unheardOf": 1})), speaks) as (gateway, client):
        told = await client.ask(GET, ASKED)
        task = new.Task(id="t-1", context_id="c-1", status=new.TaskStatus(state="TASK_STATE_COMPLETED"))
        assert (told.code, new.Task.FromString(*told.messages)) == ("OK", task)
        assert told.headers.keys() == {"x-request-id"}
        told = await client.ask(GET, ASKED_0_3, version=V0_3)
        older = old.Task(id="t-1", context_id="c-1", status=old.TaskStatus(state="TASK_STATE_COMPLETED"))
        assert (told.code, old.Task.FromString(*told.messages)) == ("OK", older)
        await gateway.line(of=2)
        assert {(line["binding"], line["rpc_code"], line["outcome"]) for line in gateway.lines} == {
            ("grpc", None, "ok")
        }


async def test_only_a2a_headers_of_an_agent_become_metadata() -> None:
    def answer(received: Received) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": json.loads(received.body)["id"], "result": TASK_1_0}).encode()
        lines = [
            b"a2a-extensions: https://ext.example/a",
            b"x-powered-by: 10.0.0.7",
            b"retry-after: 3",
            b"vary: accept",
        ]
        # Metadata is ASCII.
        lines += [b"vary: accept", b"content-language: d\xe9", b"deprecation: true"]
        return head(b"content-length: %d" % len(body), *lines, content_type=b"application/json") + body

    async with speaking(plays(answer), "jsonrpc 1.0") as (_, client):
        told = await client.ask(GET, ASKED)
        assert told.headers.keys() == {"x-request-id", "a2a-extensions", "deprecation"}
        assert told.headers["a2a-extensions"] == "https://ext.example/a"


@for_each(
    "tree",
    [
        {"id": "t-1"},
        {**TASK_1_0, "status": {"state": "TASK_STATE_UNHEARD"}},
        {**TASK_1_0, "artifacts": [{"artifactId": "a", "parts": [{"raw": "!"}]}]},
        {**TASK_1_0, "history": [{"messageId": 5}]},
        None,
        [],
    ],
)
async def test_a_result_that_does_not_fit_the_schema_is_refused(tree: Any) -> None:
    async with speaking(plays(result(tree)), "jsonrpc 1.0") as (_, client):
        told = await client.ask(GET, ASKED)
        assert (told.messages, told.code) == ((), "INTERNAL")
        assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]


# ---- What the agent refuses ------------------------------------------------------------------------------------------

NOT_FOUND = {
    "jsonrpc 1.0": complaint(-32001, "gone", [INFO, {"@type": "type.example.com/agent.Unheard", "of": [1]}]),
    "jsonrpc 0.3": complaint(-32001, "gone"),
    "rest 1.0": plain(
        {"error": {"code": 404, "status": "NOT_FOUND", "message": "gone", "details": [INFO]}}, b"404 Not Found"
    ),
    "rest 0.3": plain({"code": -32001, "type": "TaskNotFoundError", "message": "gone"}, b"404 Not Found"),
}


@for_each("speaks", NOT_FOUND)
async def test_an_agents_own_error_is_a_status_with_its_reason(speaks: str) -> None:
    async with speaking(plays(NOT_FOUND[speaks]), speaks) as (gateway, client):
        told = await client.ask(GET, ASKED)
        assert (told.messages, told.code, told.words) == ((), "NOT_FOUND", "gone")
        assert told.reasons == ["TASK_NOT_FOUND"]
        assert (told.status.code, told.status.message) == (5, "gone")
        assert ("Unheard" in str(told.status)) is (speaks == "jsonrpc 1.0")
        told = await client.ask(GET, ASKED_0_3, version=V0_3)
        assert (told.code, told.words) == ("NOT_FOUND", "TaskNotFoundError: gone")
        await gateway.line(of=2)
        lines = {(line["outcome"], line["rpc_code"], line["reason"]) for line in gateway.lines}
        assert lines == {("client_error", 5, None)}


def page(line: bytes, *headers: bytes, kind: bytes = b"text/html") -> Answer:
    """A page that names an address."""
    body = b"<html>at 10.0.0.7</html>" if kind == b"text/html" else b'{"at":"10.0.0.7"}'
    return lambda _: head(b"content-length: %d" % len(body), *headers, status=line, content_type=kind) + body


PAGES = {
    "200": (page(b"200 OK"), "INTERNAL", "upstream_error"),
    "302": (page(b"302 Found", b"location: http://10.0.0.7/"), "INTERNAL", "upstream_error"),
    "401": (page(b"401 Unauthorized", b'www-authenticate: Basic realm="10.0.0.7"'), "INTERNAL", "upstream_error"),
    "429, and when": (page(b"429 Too Many Requests", b"retry-after: 3"), "RESOURCE_EXHAUSTED", "limited"),
    "503": (page(b"503 Busy"), "INTERNAL", "upstream_error"),
    "503, and when": (page(b"503 Busy", b"retry-after: 3"), "UNAVAILABLE", "upstream_error"),
}


@for_each("name", PAGES)
async def test_a_page_is_no_answer_and_nothing_of_it_is_told(name: str) -> None:
    answer, code, outcome = PAGES[name]
    async with speaking(plays(answer), "jsonrpc 1.0") as (gateway, client):
        for told in (await client.ask(GET, ASKED), await client.stream(STREAM, SENT).end()):
            assert (told.messages, told.code) == ((), code)
            assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
            assert not any(word in told.text for word in ("10.0.0.7", "html", "127.0.0.1", "www-authenticate"))
        await gateway.line(of=2)
        for line in gateway.lines:
            assert (line["reason"], line["outcome"], line["status"]) == ("upstream_protocol", outcome, 200)


# ---- Streams ---------------------------------------------------------------------------------------------------------


def event(speaks: str, received: Received, tree: Any) -> bytes:
    return (
        rpc_event(received, tree) if speaks.startswith("jsonrpc") else b"data: " + json.dumps(tree).encode() + b"\n\n"
    )


def older(tree: Any) -> Any:
    """An event in the words of JSON-RPC 0.3."""
    update = tree["statusUpdate"]
    state = update["status"]["state"].removeprefix("TASK_STATE_").lower()
    return {**update, "kind": "status-update", "status": {"state": state}, "final": state == "completed"}


def streams(speaks: str, *trees: Any, last: bytes = b"", whole: bool = True) -> Answer:
    def answer(received: Received) -> bytes:
        said = [older(tree) for tree in trees] if speaks == "jsonrpc 0.3" else trees
        every = [event(speaks, received, tree) for tree in said]
        return stream(*every, *([last] if last else []), whole=whole)

    return answer


def begun(speaks: str) -> tuple[bytes, bytes]:
    """Return the first event, in 1.0 and in 0.3, of a stream that begins with WORKING: older agents sent no Task."""
    if speaks.endswith("1.0"):
        return status(), status_0_3()
    task = new.Task(id="t", context_id="c", status=new.TaskStatus(state="TASK_STATE_WORKING"))
    older = old.Task(id="t", context_id="c", status=old.TaskStatus(state="TASK_STATE_WORKING"))
    return (
        new.StreamResponse(task=task).SerializeToString(),
        old.StreamResponse(task=older).SerializeToString(),
    )


@for_each("speaks", EVERY)
async def test_a_stream_of_events_is_a_stream_of_messages(speaks: str) -> None:
    async with speaking(plays(streams(speaks, WORKING, COMPLETED)), speaks) as (gateway, client):
        first, first_0_3 = begun(speaks)
        told = await client.stream(STREAM, SENT).end()
        assert (told.messages, told.code) == ((first, status("TASK_STATE_COMPLETED")), "OK")
        told = await client.stream(STREAM, SENT_0_3, version=V0_3).end()
        assert told.messages == (first_0_3, status_0_3("TASK_STATE_COMPLETED", final=True))
        await gateway.line(of=2)
        assert {(line["events"], line["closed_by"]) for line in gateway.lines} == {(2, "agent")}


async def test_the_one_event_that_an_agent_answers_with_is_a_stream() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    async with speaking(plays(result({"message": message})), "jsonrpc 1.0") as (_, client):
        told = await client.stream(STREAM, SENT).end()
        answer = new.StreamResponse.FromString(*told.messages)
        assert (answer.message.message_id, told.code) == ("m", "OK")


ERRORS = {
    "jsonrpc 1.0": {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "gone", "data": [INFO]}},
    "jsonrpc 0.3": {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "gone"}},
    "rest 1.0": {"error": {"code": 404, "status": "NOT_FOUND", "message": "gone", "details": [INFO]}},
}


@for_each("speaks", ERRORS)
async def test_an_error_event_is_the_status_behind_the_messages(speaks: str) -> None:
    last = b"event: error\ndata: " + json.dumps(ERRORS[speaks]).encode() + b"\n\n"
    async with speaking(plays(streams(speaks, WORKING, COMPLETED, last=last)), speaks) as (gateway, client):
        first, first_0_3 = begun(speaks)
        told = await client.stream(STREAM, SENT).end()
        assert told.messages == (first, status("TASK_STATE_COMPLETED"))
        assert (told.code, told.words, told.reasons) == ("NOT_FOUND", "gone", ["TASK_NOT_FOUND"])
        told = await client.stream(STREAM, SENT_0_3, version=V0_3).end()
        # Nothing says any more that it is the last.
        assert told.messages == (first_0_3, status_0_3("TASK_STATE_COMPLETED"))
        assert (told.code, told.words) == ("NOT_FOUND", "TaskNotFoundError: gone")
        await gateway.line(of=2)
        lines = {(line["outcome"], line["rpc_code"], line["closed_by"]) for line in gateway.lines}
        assert lines == {("client_error", 5, "agent")}


async def test_an_error_event_ends_the_call_also_where_the_agent_goes_on() -> None:
    gone = asyncio.Event()

    async def script(wire: Wire) -> None:
        received = await wire.request()
        last = b"data: " + json.dumps(ERRORS["jsonrpc 1.0"]).encode() + b"\n\n"
        await wire.send(
            streams("jsonrpc 1.0", WORKING, last=last + rpc_event(received, WORKING), whole=False)(received)
        )
        await wire.hang()
        gone.set()

    async with speaking(script, "jsonrpc 1.0") as (gateway, client):
        told = await client.stream(STREAM, SENT).end()
        assert (told.messages, told.code, told.words) == ((status(),), "NOT_FOUND", "gone")
        async with asyncio.timeout(WAIT):
            await gone.wait()
        line = await gateway.line()
        assert (line["rpc_code"], line["closed_by"], line["outcome"]) == (5, "agent", "client_error")


@for_each("speaks", EVERY)
async def test_a_broken_stream_sends_the_held_back_event_and_then_the_error(speaks: str) -> None:
    async def script(wire: Wire) -> None:
        received = await wire.request()
        await wire.send(streams(speaks, WORKING, COMPLETED, whole=False)(received))

    async with speaking(script, speaks) as (gateway, client):
        told = await client.stream(STREAM, SENT_0_3, version=V0_3).end()
        assert told.messages[0] == begun(speaks)[1]
        assert old.StreamResponse.FromString(told.messages[1]).status_update.status.state == old.TASK_STATE_COMPLETED
        assert (told.code, told.reasons) == ("UNAVAILABLE", ["UPSTREAM_RESET"])
        assert "127.0.0.1" not in told.text
        line = await gateway.line()
        assert (line["reason"], line["closed_by"], line["rpc_code"]) == ("upstream_reset", "agent", 14)
