"""Access log lines and metrics of calls over gRPC, and of agents behind it."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.operation import Operation
from tests.support.grpc_agent import Answer, fails, grpc_over, says
from tests.support.grpc_events import artifact, status
from tests.support.grpc_gateway import Site, grpc_fronted, request
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

GET = b'{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"t"}}'
SPEAKS = 'protocol: grpc, a2a_version: "1.0"'
TASK = new.Task(id="t", context_id="c", status=new.TaskStatus(state="TASK_STATE_FAILED"))
SENT = bytes(new.SendMessageResponse(task=TASK).SerializeToString())
OVER = bytes(TASK.SerializeToString())

ENDS: dict[str, tuple[Answer, int | None, int | None, str, str]] = {
    # The end: the code over gRPC, that over JSON-RPC, the outcome, and the counted status of the agent's answer.
    "a failed task": (says(OVER), None, None, "task_failed", "2xx"),
    "not found": (fails("NOT_FOUND", "no such task"), 5, -32001, "client_error", "4xx"),
    "not supported": (
        fails("FAILED_PRECONDITION", "This operation is not supported"),
        9,
        -32004,
        "client_error",
        "4xx",
    ),
    "wrong": (fails("INVALID_ARGUMENT", "no"), 3, -32602, "client_error", "4xx"),
    "broken": (fails("INTERNAL", "no"), 13, -32603, "upstream_error", "5xx"),
    "lost": (fails("DATA_LOSS", "no"), 15, -32603, "upstream_error", "5xx"),
    "garbage": (says(b"\xff"), 13, -32006, "upstream_error", "2xx"),
    "nothing": (says(), 13, -32006, "upstream_error", "error"),
    "challenged": (fails("UNAUTHENTICATED", "who?"), 13, -32006, "upstream_error", "error"),
}


@for_each("name", ENDS)
async def test_a_call_is_counted_and_logged_by_how_it_ended(name: str) -> None:
    answer, over_grpc, over_rpc, outcome, counted = ENDS[name]
    async with grpc_fronted(answer, backend=SPEAKS) as site:
        await site.client.ask(Operation.GET_TASK, request(Operation.GET_TASK, id="t"))
        await site.gateway.post("/echo", GET)
        await site.gateway.line(of=2)
        grpc, rpc = site.gateway.lines
        for line, binding, code in ((grpc, "grpc", over_grpc), (rpc, "jsonrpc", over_rpc)):
            assert (line["binding"], line["rpc_code"], line["outcome"]) == (binding, code, outcome)
            assert (line["agent"], line["backend"], line["operation"]) == ("echo", "echo", "GetTask")
            assert (line["task_id"], line["a2a_version"], line["attempts"]) == ("t", "1.0", 1)
            assert (line["stream"], line["closed_by"], line["status"]) == (False, None, 200)
            assert line["reason"] == (UpstreamProtocol.reason if over_rpc == -32006 else None)
            assert site.gateway.metric("requests_total", binding=binding, operation="GetTask", outcome=outcome) == 1
        assert (grpc["method"], grpc["path"]) == ("POST", "/lf.a2a.v1.A2AService/GetTask")
        assert (grpc["a2a_tenant"], rpc["a2a_tenant"]) == ("echo", None)
        assert site.gateway.metric("backend_requests_total", agent="echo", backend="echo", status=counted) == 2
        assert site.gateway.metric("requests_total") == 2
        rejected = site.gateway.metric("rejected_total", reason="upstream_protocol")
        assert rejected == (2 if over_rpc == -32006 else 0)


async def test_the_task_of_an_answer_is_logged_and_counted() -> None:
    async with grpc_fronted(says(SENT)) as site:
        await site.client.ask(Operation.SEND_MESSAGE)
        line = await site.gateway.line()
        assert (line["task_id"], line["context_id"], line["task_state"]) == ("t", "c", "failed")
        assert line["outcome"] == "task_failed"
        assert line["bytes_in"] == len(request(Operation.SEND_MESSAGE))
        assert line["bytes_out"] == len(SENT) + 5
        assert site.gateway.metric("tasks_total", agent="echo", state="failed") == 1
        times = [line[name] for name in ("overhead_s", "first_byte_s", "duration_s", "upstream_s")]
        assert all(0 <= each <= line["duration_s"] for each in times)


async def stream(site: Site) -> dict[str, Any]:
    await site.client.stream(Operation.SEND_STREAMING_MESSAGE).end()
    return await site.gateway.line()


async def test_a_stream_is_counted_by_its_events_and_by_who_ended_it() -> None:
    messages = (status(), artifact(), artifact(), status("TASK_STATE_COMPLETED"))
    async with grpc_fronted(says(*messages)) as site:
        line = await stream(site)
        assert (line["stream"], line["events"], line["closed_by"]) == (True, 4, "agent")
        assert (line["task_id"], line["task_state"], line["outcome"]) == ("t", "completed", "ok")
        assert (line["rpc_code"], line["status"]) == (None, 200)
        assert line["bytes_out"] == sum(map(len, messages)) + 4 * 5
        for event, count in (("status", 2), ("artifact", 2)):
            assert site.gateway.metric("stream_events_total", agent="echo", event=event) == count
        assert site.gateway.metric("streams_closed_total", agent="echo", by="agent") == 1
        assert site.gateway.metric("backend_requests_total", status="2xx") == 1


@for_each(
    ("answer", "code", "reason", "outcome", "closed_by"),
    [
        (fails("NOT_FOUND", after=(status(),)), 5, None, "client_error", "agent"),
        (fails("ABORTED", after=(status(),)), 10, None, "upstream_error", "agent"),
        (fails("UNAVAILABLE", after=(status(),)), 14, "upstream_reset", "upstream_error", "agent"),
        (says(status(), b"\xff"), 13, "upstream_protocol", "upstream_error", "gateway"),
    ],
)
async def test_a_stream_that_ends_badly_is_counted_by_its_status(
    answer: Answer, code: int, reason: str | None, outcome: str, closed_by: str
) -> None:
    async with grpc_fronted(answer) as site:
        line = await stream(site)
        assert (line["rpc_code"], line["reason"], line["outcome"]) == (code, reason, outcome)
        assert (line["closed_by"], line["events"], line["task_state"]) == (closed_by, 1, "working")
        # The agent had begun to answer.
        assert site.gateway.metric("backend_requests_total", status="2xx") == 1
        assert site.gateway.metric("streams_closed_total", by=closed_by) == 1
