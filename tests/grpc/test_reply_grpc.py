"""Answers of agents behind gRPC: to clients that speak as they do byte by byte, to all others in their own words."""

import asyncio
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from google.protobuf.any_pb2 import Any as Packed  # type: ignore[import-untyped]  # protobuf ships no types
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]  # it ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.a2a.dialect import Version
from gateway.a2a.fault import A2A_DOMAIN
from gateway.a2a.operation import Operation
from tests.support.gateway import Answer, Running, running
from tests.support.grpc_agent import fails, grpc_over, hangs, says
from tests.support.grpc_bytes import text_field
from tests.support.grpc_gateway import ADDRESSES, LISTENS, Site, Told, dialled, grpc_fronted, request
from tests.support.scripted import WAIT, refused_port
from tests.support.undisturbed import undisturbed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

V0_3, V1_0 = Version.V0_3, Version.V1_0
SAYS_1_0 = [(b"A2A-Version", b"1.0")]
GET = b'{"jsonrpc":"2.0","id":"a","method":"%s","params":{"id":"t"}}'
ANYWHERE = "match: [{ path: /echo }, { path: / }]"
"""The plain service of 0.3 has no place for a name."""
SPEAKS_0_3 = 'protocol: grpc, a2a_version: "0.3"'
SPEAKS_1_0 = 'protocol: grpc, a2a_version: "1.0"'
FUTURE = text_field(1000, "from a later generation")
TASK = bytes(new.Task(id="t", context_id="c", status=new.TaskStatus(state=new.TASK_STATE_WORKING)).SerializeToString())
TASK_0_3 = bytes(
    old.Task(id="t", context_id="c", status=old.TaskStatus(state=old.TASK_STATE_WORKING)).SerializeToString()
)
SENT = bytes(new.SendMessageResponse(task=new.Task.FromString(TASK)).SerializeToString())
GARBAGE = b"\x0a\xff\xff\xff\xff\x0f at 10.0.0.7"
"""A field that says it is longer than the message."""


async def asked_in_json(gateway: Running, task: bytes = b"t") -> list[Answer]:
    """The task, as clients of JSON get it: over JSON-RPC and HTTP+JSON, of 1.0 and 0.3."""
    return [
        await gateway.post("/echo", GET % b"GetTask"),
        await gateway.post("/echo", GET % b"tasks/get"),
        await gateway.get("/echo/tasks/" + task.decode(), SAYS_1_0),
        await gateway.get("/echo/v1/tasks/" + task.decode()),
    ]


def hides_addresses(told: Told | Answer, *more: str) -> bool:
    text = told.text if isinstance(told, Told) else str((told.headers, told.body))
    return not any(address in text for address in (*ADDRESSES, *more))


# ---- What is well ----------------------------------------------------------------------------------------------------


ODD = {
    Operation.SEND_MESSAGE: [
        SENT,
        SENT + FUTURE,
        # The same field twice is merged, and the parts of it stand in the wrong order.
        b"\x0a\x04\x1a\x02\x08\x02\x0a\x03\x0a\x01t",
        bytes(new.SendMessageResponse(message=new.Message(message_id="m")).SerializeToString()),
        b"",
    ],
    Operation.GET_TASK: [TASK, FUTURE + TASK, TASK + text_field(3, "\x08\x09"), b""],
    Operation.CANCEL_TASK: [TASK],
    Operation.LIST_TASKS: [bytes(new.ListTasksResponse(total_size=3).SerializeToString()) + FUTURE],
    Operation.DELETE_PUSH_CONFIG: [b"", FUTURE],
}


async def test_an_answer_reaches_who_speaks_as_the_agent_does_byte_by_byte() -> None:
    async with grpc_fronted(says(), ANYWHERE) as site:
        for operation, every in ODD.items():
            for message in every:
                site.play(says(message))
                told = await site.client.ask(operation)
                assert (told.messages, told.code) == ((message,), "OK")
        plain = request(Operation.GET_TASK, V0_3, name="tasks/t")
        for scope in (b"", text_field(100, "echo")):
            site.play(says(TASK_0_3 + FUTURE))
            told = await site.client.ask(Operation.GET_TASK, plain + scope, version=V0_3, scoped=bool(scope))
            assert told.messages == (TASK_0_3 + FUTURE,)
            [asked] = site.agent.asked
            # The scope was the agent's name, and stays here.
            assert (asked.path, asked.message) == ("/a2a.v1.A2AService/GetTask", plain)


async def test_a_long_answer_passes_whole() -> None:
    task = new.Task.FromString(TASK)
    task.artifacts.add(artifact_id="a").parts.add(text="long " * 300_000)
    message = bytes(task.SerializeToString())
    async with grpc_fronted(says(message)) as site:
        told = await site.client.ask(Operation.GET_TASK)
        assert told.messages == (message,)
        for answer in await asked_in_json(site.gateway):
            assert answer.status == 200
            assert b"long long long" in answer.body


async def test_an_answer_is_told_to_every_client_in_its_own_words() -> None:
    async with grpc_fronted(says(TASK + FUTURE), backend=SPEAKS_1_0) as site:
        rpc, older, rest, older_rest = await asked_in_json(site.gateway)
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    assert rpc.json == {"jsonrpc": "2.0", "id": "a", "result": task}
    assert older.json["result"] == {"kind": "task", **task, "status": {"state": "working"}}
    assert rest.json == older_rest.json == task
    assert {answer.header("content-type") for answer in (rpc, older, rest, older_rest)} == {"application/json"}
    assert {answer.header("cache-control") for answer in (rpc, older, rest, older_rest)} == {"no-store"}


async def test_another_generation_of_grpc_is_told_in_its_words_too() -> None:
    async with grpc_fronted(says(TASK_0_3 + FUTURE), ANYWHERE, backend=SPEAKS_0_3) as site:
        told = await site.client.ask(Operation.GET_TASK, request(Operation.GET_TASK, id="t"))
        assert told.messages == (TASK,)
        assert site.agent.asked[-1].message == request(Operation.GET_TASK, V0_3, name="tasks/t")
    async with grpc_fronted(says(TASK), ANYWHERE, backend=SPEAKS_1_0) as site:
        told = await site.client.ask(
            Operation.GET_TASK, request(Operation.GET_TASK, V0_3, name="tasks/t"), version=V0_3
        )
        assert told.messages == (TASK_0_3,)
        # The agent does not get the name that picked it.
        assert site.agent.asked[-1].message == request(Operation.GET_TASK, id="t", tenant="")


async def test_only_extensions_of_an_agents_metadata_pass() -> None:
    own = (("x-powered-by", "10.0.0.7"), ("set-cookie", "a=b"), ("x-trace-bin", b"\x00"))
    async with grpc_fronted(says()) as site:
        for where in ("headers", "trailers"):
            named: dict[str, Any] = {where: (*own, ("a2a-extensions", "https://ext.example/a"))}
            site.play(says(TASK, **named))
            told = await site.client.ask(Operation.GET_TASK)
            assert told.headers.keys() == {"x-request-id", "a2a-extensions"}
            assert told.headers["a2a-extensions"] == "https://ext.example/a"
            assert told.trailers == {}
            rpc, older, *_ = await asked_in_json(site.gateway)
            assert rpc.header("a2a-extensions") == older.header("x-a2a-extensions") == "https://ext.example/a"
            assert not {"x-powered-by", "set-cookie", "x-trace-bin"} & {name for name, _ in rpc.headers}


# ---- What is no answer -----------------------------------------------------------------------------------------------


async def no_answer(site: Site) -> None:
    """See that every client hears of an answer that is none, and nothing of what is in it."""
    told = await site.client.ask(Operation.GET_TASK)
    assert (told.messages, told.code) == ((), "INTERNAL")
    assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
    assert hides_addresses(told, "10.0.0.7", "who is")
    rpc, older, rest, older_rest = await asked_in_json(site.gateway)
    assert [each.status for each in (rpc, older, rest, older_rest)] == [200, 200, 502, 502]
    assert rpc.json["error"]["code"] == older.json["error"]["code"] == -32006
    for answer in (rpc, older, rest, older_rest):
        assert answer.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
        assert hides_addresses(answer, "10.0.0.7", "who is")
        assert answer.header("www-authenticate") is None
    await site.gateway.line(of=5)
    assert {line["reason"] for line in site.gateway.lines} == {"upstream_protocol"}
    assert {line["outcome"] for line in site.gateway.lines} == {"upstream_error"}


CHALLENGE = bytes(Status(code=16, message="who is 10.0.0.7").SerializeToString())


async def test_a_malformed_reply_does_not_reach_the_client() -> None:
    """A challenge neither: what the agent does not accept is what the gateway showed."""
    async with grpc_fronted(says(), backend=SPEAKS_1_0) as site:
        for answer in (
            says(GARBAGE),
            says(b"\x0a\x01\xff"),
            says(b"<html>10.0.0.7"),
            says(b"\x1b\x08\x01\x1c\x1c"),
            says(),
            fails("UNAUTHENTICATED", "who is 10.0.0.7"),
            fails("UNAUTHENTICATED", "who is 10.0.0.7", CHALLENGE),
        ):
            site.play(answer)
            await no_answer(site)


# ---- What the agent refuses ------------------------------------------------------------------------------------------


def packed(message: Any) -> Any:
    found = Packed()
    found.Pack(message)
    return found


UNHEARD_OF = Packed(type_url="type.example.com/agent.Unheard", value=b"\x00\xff")
NOT_FOUND = bytes(
    Status(
        code=5,
        message="no such task",
        details=[
            packed(ErrorInfo(reason="TASK_NOT_FOUND", domain=A2A_DOMAIN, metadata={"taskId": "t"})),
            UNHEARD_OF,
            packed(RetryInfo()),
        ],
    ).SerializeToString()
) + FUTURE  # fmt: skip


# Those that gRPC makes up as well, and one that only agents give.
STATUSES = (
    "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INTERNAL",
    "NOT_FOUND",
)  # fmt: skip


async def test_an_agents_own_error_reaches_who_speaks_as_it_does_as_it_is() -> None:
    async with grpc_fronted(fails("NOT_FOUND", "no such täsk: 100 %", NOT_FOUND), ANYWHERE) as site:
        told = await site.client.ask(Operation.GET_TASK)
        assert (told.messages, told.code, told.words) == ((), "NOT_FOUND", "no such täsk: 100 %")
        assert told.details == NOT_FOUND
        assert set(told.headers | told.trailers) == {"x-request-id"}
        for code in STATUSES:
            site.play(fails(code, "of my own accord"))
            for version in (V1_0, V0_3):
                told = await site.client.ask(Operation.SEND_MESSAGE, version=version)
                assert (told.code, told.words, told.details) == (code, "of my own accord", b"")


async def test_an_agents_own_error_is_told_to_other_clients_in_their_words() -> None:
    async with grpc_fronted(fails("NOT_FOUND", "no such task", NOT_FOUND), backend=SPEAKS_1_0) as site:
        rpc, older, rest, older_rest = await asked_in_json(site.gateway)
    for answer in (rpc, older):
        assert (answer.status, answer.json["id"]) == (200, "a")
        assert answer.json["error"]["code"] == -32001
        assert answer.json["error"]["message"] == "no such task"
    for answer in (rest, older_rest):
        assert answer.status == 404
        assert answer.json["error"]["status"] == "NOT_FOUND"
    for details in (rpc.json["error"]["data"], rest.json["error"]["details"]):
        assert (details[0]["reason"], details[0]["metadata"]) == ("TASK_NOT_FOUND", {"taskId": "t"})
        assert any("Unheard" in str(detail) for detail in details[1:])
    assert older_rest.json["type"] == "TaskNotFoundError"


async def test_the_name_of_an_error_is_told_to_clients_of_0_3_in_front_and_to_those_of_1_0_in_its_details() -> None:
    async with grpc_fronted(
        fails("NOT_FOUND", "TaskNotFoundError: no such task"), ANYWHERE, backend=SPEAKS_0_3
    ) as site:
        told = await site.client.ask(
            Operation.GET_TASK, version=V0_3, message=request(Operation.GET_TASK, V0_3, name="tasks/t")
        )
        assert (told.code, told.words, told.details) == ("NOT_FOUND", "TaskNotFoundError: no such task", b"")
        told = await site.client.ask(Operation.GET_TASK, request(Operation.GET_TASK, id="t"))
        assert (told.code, told.words, told.reasons) == ("NOT_FOUND", "no such task", ["TASK_NOT_FOUND"])
        rpc, *_ = await asked_in_json(site.gateway)
        assert rpc.json["error"]["message"] == "no such task"
    async with grpc_fronted(fails("NOT_FOUND", "no such task", NOT_FOUND), ANYWHERE, backend=SPEAKS_1_0) as site:
        told = await site.client.ask(
            Operation.GET_TASK, version=V0_3, message=request(Operation.GET_TASK, V0_3, name="tasks/t")
        )
        assert (told.code, told.words) == ("NOT_FOUND", "TaskNotFoundError: no such task")
        assert told.reasons == ["TASK_NOT_FOUND"]


async def test_an_endless_error_is_cut_to_what_clients_take() -> None:
    endless = "no " * 1500
    details = bytes(Status(code=5, message=endless, details=[UNHEARD_OF]).SerializeToString())
    async with grpc_fronted(fails("NOT_FOUND", endless, details)) as site:
        told = await site.client.ask(Operation.GET_TASK)
        assert told.code == "NOT_FOUND"
        assert told.words.startswith("no no no")
        assert told.words.endswith("…")
        # They would say something else than the words.
        assert told.details == b""


# ---- What does not come ----------------------------------------------------------------------------------------------


async def unreached(gateway: Running, told: Told, reason: str, codes: tuple[str, int], *more: str) -> None:
    assert (told.messages, told.code, told.reasons) == ((), codes[0], [reason])
    assert hides_addresses(told, *more)
    rpc, older, rest, older_rest = await asked_in_json(gateway)
    assert [each.status for each in (rpc, older, rest, older_rest)] == [200, 200, codes[1], codes[1]]
    assert rpc.json["error"]["code"] == older.json["error"]["code"] == -32603
    for answer in (rpc, older, rest, older_rest):
        assert answer.reasons == [reason]
        assert hides_addresses(answer, *more)


async def test_an_unreachable_agents_address_is_hidden() -> None:
    port = refused_port()
    text = f"gateway: {{ {LISTENS} }}\nagents: {{ echo: 'grpc://127.0.0.1:{port}' }}"
    async with running(text) as gateway, dialled(gateway) as client:
        told = await client.ask(Operation.GET_TASK)
        await unreached(gateway, told, "UPSTREAM_CONNECT", ("UNAVAILABLE", 502), str(port))


async def test_the_address_of_an_agent_that_disconnects_is_hidden() -> None:
    async with grpc_fronted(hangs()) as site:
        answer = asyncio.ensure_future(site.client.ask(Operation.GET_TASK))
        await site.asked()
        await site.agent.server.stop(0)
        told = await answer
        assert (told.messages, told.code, told.reasons) == ((), "UNAVAILABLE", ["UPSTREAM_RESET"])
        assert hides_addresses(told, str(site.agent.port))
        line = await site.gateway.line()
        assert (line["reason"], line["outcome"], line["closed_by"]) == ("upstream_reset", "upstream_error", None)


@undisturbed(0.1)
async def test_an_agent_that_does_not_answer_in_time_has_no_more_of_it() -> None:
    async with grpc_fronted(hangs(), "timeouts: { first_byte: 300ms, send: 300ms }") as site:
        told = await site.client.ask(Operation.GET_TASK)
        assert site.agent.asked[0].timeout is not None
        assert site.agent.asked[0].timeout < 1
        await unreached(site.gateway, told, "UPSTREAM_TIMEOUT", ("DEADLINE_EXCEEDED", 504))
        for asked in site.agent.asked:
            await asked.over.wait()


async def test_a_client_that_takes_its_call_back_takes_it_from_the_agent() -> None:
    async with grpc_fronted(hangs()) as site:
        answer = asyncio.ensure_future(site.client.ask(Operation.GET_TASK))
        asked = await site.asked()
        answer.cancel()
        async with asyncio.timeout(WAIT):
            await asked.cancelled.wait()
        line = await site.gateway.line()
        assert (line["reason"], line["rpc_code"], line["outcome"]) == ("client_gone", None, "client_gone")
        await site.gateway.rested()
