"""Traces, as a collector gets them and as an agent is told of them."""

import asyncio
import json
import logging
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as new
from opentelemetry import trace as opentelemetry
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, http_attributes, rpc_attributes
from opentelemetry.semconv.attributes import (
    client_attributes,
    error_attributes,
    server_attributes,
    url_attributes,
)

from gateway.a2a.operation import Operation
from gateway.telemetry import span_names
from tests.e2e.sharing import workers
from tests.support.collector import Collector, over_grpc, over_http, values
from tests.support.gateway import CALL, RESULT, STREAM, Running, agent, bearer, keys, running, secret
from tests.support.grpc_agent import GrpcAgent, grpc_agent, says
from tests.support.grpc_gateway import LISTENS, GrpcClient, dialled, request
from tests.support.kept import shared
from tests.support.reloading import ECHO, backends, serving
from tests.support.scripted import ScriptedBackend, answers, answers_and_resets, events, in_turn, refused_port, whole

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

GET_TASK = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
TASK = b'{"jsonrpc":"2.0","id":1,"result":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'
ANSWER = new.SendMessageResponse(task=new.Task(id="t", context_id="c", status={"state": 2})).SerializeToString()
KEY = "of-the-collector"


@dataclass
class Site:
    """A gateway that traces, with its collector, two agents, and a client of gRPC."""

    collector: Collector
    gateway: Running
    backend: ScriptedBackend
    grpc: GrpcAgent
    client: GrpcClient


@asynccontextmanager
async def _opened() -> AsyncIterator[Site]:
    async with over_grpc() as collector, ScriptedBackend(agent(ECHO)) as backend, grpc_agent(says(ANSWER)) as behind:
        text = f"""gateway: {{ {LISTENS} }}
{keys(acme="acme")}
tenants: {{ acme: ["*"] }}
defaults: {{ isolation: none }}
observe: {{ tracing: {{ otlp: "{collector.url}", headers: {{ X-Key: {KEY} }} }} }}
agents: {{ echo: "{backend.url}", behind: "{behind.url}" }}
"""
        async with running(text) as gateway, dialled(gateway) as client:
            yield Site(collector, gateway, backend, behind, client)


@asynccontextmanager
async def site(script: Any = ECHO) -> AsyncIterator[Site]:
    async with shared("traced", _opened) as (found, used):
        if used:
            await found.gateway.forget()
        await found.backend.plays(agent(script))
        yield found


def parent(flags: str = "01") -> tuple[str, bytes]:
    """A trace of a caller's, and the header that names it."""
    trace = secrets.token_hex(16)
    return trace, f"00-{trace}-b7ad6b7169203331-{flags}".encode()


def told(span: Span) -> str:
    """The `traceparent` of whom the span calls."""
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


# ---- Exchanges -------------------------------------------------------------------------------------------------------


async def test_a_call_is_a_server_span_below_the_callers_and_a_client_span_below_that() -> None:
    trace, traceparent = parent()
    async with site() as here:
        headers = [bearer("acme"), (b"traceparent", traceparent), (b"tracestate", b"a=1")]
        assert (await here.gateway.post("/echo?key=hidden", CALL, headers)).status == 200
        server, client = await here.collector.trace(trace, 2)
        received = here.backend.requests[0]
        line = await here.gateway.line()
    assert (server.kind, client.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert (server.parent_span_id.hex(), client.parent_span_id) == ("b7ad6b7169203331", server.span_id)
    assert (server.name, client.name) == ("SendMessage echo", "SendMessage echo")
    assert [value for name, value in received.headers if name == b"traceparent"] == [told(client).encode()]
    assert received.header(b"tracestate") == b"a=1"
    assert server.trace_state == client.trace_state == "a=1"
    assert (line["trace_id"], line["request_id"]) == (trace, values(server.attributes)["a2a.gateway.request_id"])
    assert values(server.attributes).items() >= {
        "http.request.method": "POST", "url.path": "/echo", "http.response.status_code": 200,
        "gen_ai.agent.name": "echo", "a2a.operation": "SendMessage", "a2a.protocol.version": "1.0",
        "a2a.gateway.tenant": "acme", "a2a.gateway.outcome": "ok", "a2a.gateway.attempts": 1,
    }.items()  # fmt: skip
    assert values(client.attributes).items() >= {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "echo", "rpc.system.name": "jsonrpc",
        "server.address": "127.0.0.1", "server.port": here.backend.port, "http.response.status_code": 200,
    }.items()  # fmt: skip
    assert here.collector.headers[-1]["x-key"] == KEY
    assert here.collector.services[-1]["service.name"] == "a2a-gateway"
    shown = {str(value) for span in (server, client) for value in values(span.attributes).values()}
    hidden = (secret("acme").decode(), KEY, "hidden", "hi", "ho", "m1", "m2")
    assert [each for each in hidden for value in shown if each in value.replace("echo", "")] == []


async def test_a_stream_tells_the_states_of_its_task_once_each() -> None:
    trace, traceparent = parent()
    states = ("SUBMITTED", "WORKING", "WORKING", "COMPLETED")
    frames = [
        b'{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_%b"}}}}'
        % state.encode()
        for state in states
    ]
    async with site(events(frames)) as here:
        assert (await here.gateway.post("/echo", STREAM, [bearer("acme"), (b"traceparent", traceparent)])).status == 200
        server, client = await here.collector.trace(trace, 2)
    assert [(event.name, values(event.attributes)) for event in server.events] == [
        ("a2a.task.state_changed", {"a2a.task.id": "t", "a2a.task.state": state})
        for state in ("submitted", "working", "completed")
    ]
    assert values(server.attributes).items() >= {"a2a.gateway.stream.events": 4, "a2a.task.state": "completed"}.items()
    assert client.end_time_unix_nano <= server.end_time_unix_nano


async def test_each_attempt_has_a_span_whose_context_the_agent_gets() -> None:
    trace, traceparent = parent()
    async with site(in_turn(answers_and_resets(), answers(whole(TASK)))) as here:
        answer = await here.gateway.post("/echo", GET_TASK, [bearer("acme"), (b"traceparent", traceparent)])
        assert (answer.status, answer.json) == (200, json.loads(TASK))
        server, lost, again = await here.collector.trace(trace, 3)
        received = [each.header(b"traceparent") for each in here.backend.requests]
    assert received == [told(lost).encode(), told(again).encode()]
    assert lost.parent_span_id == again.parent_span_id == server.span_id
    assert lost.end_time_unix_nano < again.start_time_unix_nano
    assert (lost.status.code, values(lost.attributes)["error.type"]) == (Status.STATUS_CODE_ERROR, "upstream_reset")
    assert (again.status.code, values(again.attributes)["http.request.resend_count"]) == (Status.STATUS_CODE_UNSET, 1)
    assert (server.status.code, values(server.attributes)["a2a.gateway.attempts"]) == (Status.STATUS_CODE_UNSET, 2)


async def test_a_call_over_grpc_to_an_agent_over_grpc() -> None:
    trace, traceparent = parent()
    message = new.Message(message_id="m1", role="ROLE_USER", parts=[new.Part(text="hi")])
    async with site() as here:
        here.grpc.asked.clear()
        shown = (b"traceparent", traceparent), bearer("acme")
        metadata = [(name.decode().lower(), value.decode()) for name, value in shown]
        asked = request(Operation.SEND_MESSAGE, tenant="behind", message=message)
        assert (await here.client.ask(Operation.SEND_MESSAGE, asked, *metadata)).code == "OK"
        server, client = await here.collector.trace(trace, 2)
        assert here.grpc.asked[-1].told("traceparent") == [told(client)]
    assert client.parent_span_id == server.span_id
    assert values(client.attributes).items() >= {"rpc.system.name": "grpc", "gen_ai.agent.name": "behind"}.items()
    assert [values(event.attributes)["a2a.task.state"] for event in server.events] == ["working"]


async def test_an_unsampled_trace_reaches_the_agent_and_not_the_collector() -> None:
    (quiet, unsampled), (trace, sampled) = parent("00"), parent()
    async with site() as here:
        client = await here.gateway.client()
        for traceparent in (unsampled, sampled, unsampled):
            await client.ask("POST", "/echo", CALL, [bearer("acme"), (b"traceparent", traceparent)])
            assert (await client.answer()).status == 200
        await here.collector.trace(trace, 2)
        assert here.collector.of(quiet) == []
        first, _, last = [each.header(b"traceparent") or b"" for each in here.backend.requests]
    for received in (first, last):
        assert received.decode().startswith(f"00-{quiet}-")
        assert received.endswith(b"-00")
        assert received != unsampled


# ---- Export ----------------------------------------------------------------------------------------------------------


async def test_a_reload_changes_the_collector_and_no_span_is_lost(tmp_path: Path) -> None:
    (one, before), (two, after) = parent(), parent()
    async with over_grpc() as old, over_http() as fresh, backends(ECHO) as (echo,):
        text = "observe: {{ tracing: {{ otlp: '{}', protocol: {} }} }}\nagents: {{ one: '" + echo.url + "' }}"
        async with serving(tmp_path, text.format(old.url, "grpc")) as here:
            await here.running.post("/one", CALL, [(b"traceparent", before)])
            report = await here.rewrite(text.format(fresh.url, "http/protobuf"))
            assert [str(change).partition(":")[0] for change in report.changed] == [
                "~ observe.tracing.otlp",
                "~ observe.tracing.protocol",
            ]
            assert len(await old.trace(one, 2)) == 2
            await here.running.post("/one", CALL, [(b"traceparent", after)])
        # The gateway has stopped: it has exported what waited.
        assert len(fresh.of(two)) == 2
        assert (old.of(two), fresh.of(one)) == ([], [])
    assert isinstance(opentelemetry.get_tracer_provider(), opentelemetry.ProxyTracerProvider)


async def test_a_collector_that_refuses_is_reported_once_and_once_when_it_takes_spans_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with over_http() as collector, ScriptedBackend(agent(ECHO)) as echo:
        collector.answer = whole(b"", status=b"401 Unauthorized")
        tracing = f"{{ otlp: '{collector.url}/', protocol: http/protobuf }}"
        async with running(f"observe: {{ tracing: {tracing} }}\nagents: {{ one: '{echo.url}' }}") as gateway:
            for exports in (1, 2):
                assert (await gateway.post("/one")).status == 200
                await collector.until(partial(collector.has_more_than, exports - 1))
            collector.answer = whole(b"")
            assert (await gateway.post("/one")).status == 200
    told = [record.getMessage() for record in caplog.records if "opentelemetry" in record.name or "span" in record.msg]
    reason = "Failed to export spans batch code: 401, reason: Unauthorized"
    assert told == [
        f"spans cannot be exported to {collector.url}/ and are dropped: {reason}",
        f"spans are exported to {collector.url}/ again",
    ]


async def test_a_missing_collector_harms_no_call_and_delays_the_end_by_two_seconds_at_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ScriptedBackend(agent(ECHO)) as echo:
        tracing = f"{{ otlp: 'http://127.0.0.1:{refused_port()}' }}"
        async with running(f"observe: {{ tracing: {tracing} }}\nagents: {{ one: '{echo.url}' }}") as gateway:
            answer = await gateway.post("/one")
            assert (answer.status, answer.json) == (200, json.loads(RESULT))
    assert [record.getMessage() for record in caplog.records if "spans" in record.msg][:1] == [
        "the last spans were not exported within 2 s"
    ]


async def test_each_worker_exports_its_spans_and_the_last_of_them_when_it_stops(tmp_path: Path) -> None:
    async with over_grpc() as collector, ScriptedBackend(agent(ECHO)) as echo, httpx.AsyncClient() as client:
        file = {"observe": {"tracing": {"otlp": collector.url}}, "agents": {"one": echo.url}}
        async with workers(file, tmp_path) as process:
            # A connection for each call, so that each may meet another process.
            headers = {"content-type": "application/json", "connection": "close"}
            while len({service["service.instance.id"] for service in collector.services}) < 2:
                seen = len(collector.services)
                for _ in range(20):
                    assert (await client.post(f"{process.url}/one", content=CALL, headers=headers)).status_code == 200
                await collector.until(partial(collector.has_more_than, seen))
            trace, traceparent = parent()
            await client.post(
                f"{process.url}/one", content=CALL, headers={**headers, "traceparent": traceparent.decode()}
            )
            process.signal(signal.SIGTERM)
            assert len(await collector.trace(trace, 2)) == 2
            assert await asyncio.to_thread(process.wait) == 0


def test_the_names_that_are_not_of_a2a_are_those_of_opentelemetry() -> None:
    modules = (
        gen_ai_attributes, http_attributes, rpc_attributes, client_attributes, error_attributes, server_attributes,
        url_attributes,
    )  # fmt: skip
    known = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    constants = {name: value for name, value in vars(span_names).items() if name.isupper() and isinstance(value, str)}
    used = {*constants.values(), *span_names.OF_EXCHANGE.values()} - {span_names.INVOKE_AGENT}
    assert {name for name in used if not name.startswith("a2a.")} <= known
