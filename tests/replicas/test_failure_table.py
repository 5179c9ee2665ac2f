"""The table of `docs/replicas.md`: what a call that went wrong counts as, and how often it is sent, row by row.

Every row is played by a real server, over each operation that the row is about. Before each call both circuit
breakers have one failure, so that a failure, an answer and nothing can be told apart: more, none, one.
"""

import base64
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
import pytest

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.framing.grpc import frame
from gateway.a2a.operation import Operation
from gateway.upstream.balancer import Balancer
from gateway.upstream.http import HttpUpstream
from gateway.upstream.replica import Replica
from tests.support.gateway import JSON, Running, card_of, running
from tests.support.grpc_agent import grpc_over
from tests.support.grpc_gateway import LISTENS, request
from tests.support.http2_server import Script as GrpcScript
from tests.support.http2_server import Turn, http2_server
from tests.support.replicated import asks, count, get, named, replicated, sends
from tests.support.scripted import (
    Script,
    ScriptedBackend,
    Wire,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    chunk,
    head,
    refused_port,
    whole,
)
from tests.table import for_each

__all__ = ("grpc_over",)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

MANUAL = Path(__file__).parents[2] / "docs" / "replicas.md"

CALLS = {
    "GetTask": asks("GetTask", id="t"),
    "CancelTask": asks("CancelTask", id="t"),
    "SendMessage": sends(),
    "SendStreamingMessage": sends().replace(b"SendMessage", b"SendStreamingMessage"),
    "SubscribeToTask": asks("SubscribeToTask", id="t"),
}
UNARY = ("GetTask", "CancelTask", "SendMessage")
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
SENT = {
    "no connection": dict.fromkeys(CALLS, 3),
    # Here there is no other replica.
    "no connection, at another replica only": dict.fromkeys(CALLS, 1),
    "no answer": dict.fromkeys(CALLS, 2) | {"SendMessage": 1, "SendStreamingMessage": 1},
    "503": dict.fromkeys(CALLS, 1) | {"GetTask": 2},
    "never": dict.fromkeys(CALLS, 1),
}
"""Number of times that a call is sent, by the word of the last column."""

Ask = Callable[[Running, str], Awaitable[object]]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait for random moments."""
    monkeypatch.setattr(random, "uniform", lambda _low, _high: 0.0)


@dataclass(frozen=True)
class Case:
    """One way in which what a row tells of happens.

    Attributes:
        plays: The agent's script; over gRPC if the row begins with that word. None for nobody at its port.
        more: Further settings of the agent, as YAML in one line without braces.
        calls: The operations for which it can happen.
        ask: The client's way to ask, if it is not the usual one.
        blocked: Whether another call has the agent's only connection.
    """

    plays: Script | GrpcScript | None
    more: str = ""
    calls: tuple[str, ...] = tuple(CALLS)
    ask: Ask | None = None
    blocked: bool = False


# ---- What agents do --------------------------------------------------------------------------------------------------

SSE = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
HURRY = "timeouts: { first_byte: 100ms, send: 100ms, total: 200ms, stream_idle: 100ms }"


async def hangs(wire: Wire) -> None:
    await wire.request()
    await wire.hang()


def says(status: bytes, body: bytes = b"{}", *fields: bytes) -> Script:
    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(whole(body, *fields, status=status))

    return play


def error(code: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no"}}' % code


def ends(status: int, words: bytes = b"in my own words", *fields: tuple[bytes, bytes]) -> GrpcScript:
    return lambda turn: turn.head((b"grpc-status", b"%d" % status), (b"grpc-message", words), *fields, end=True)


def page(status: bytes) -> GrpcScript:
    return lambda turn: turn.head((b"content-type", b"text/html"), (b"retry-after", b"1"), status=status, end=True)


def nothing(_turn: Turn) -> None:
    """Never answers."""


DETAILS = (b"grpc-status-details-bin", base64.b64encode(b"\x08\x0e"))
MESSAGE = b"\x0a\x03\x0a\x01t"
"""A stream's event: the task `t`."""


# ---- What clients do -------------------------------------------------------------------------------------------------


async def posts(gateway: Running, call: str) -> object:
    return await gateway.post("/echo", CALLS[call])


async def leaves(gateway: Running, call: str) -> None:
    client = await gateway.client()
    await client.ask("POST", "/echo", CALLS[call], (JSON,))
    [replica] = balancer_of(gateway).replicas.values()
    await gateway.until(lambda: replica.condition.active > 0)
    client.leave()
    await gateway.until(lambda: replica.condition.active == 0)


async def has_little_time(gateway: Running, _call: str) -> None:
    path = method_of(Operation.GET_TASK, Version.V1_0).path
    async with grpc.aio.insecure_channel(gateway.gateway.grpc_address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(path)(request(Operation.GET_TASK, id="t"), timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


# ---- The rows --------------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[Case, ...]] = {
    "no connection: refused, not made in time, no such name, no TLS": (Case(None),),
    "all connections are taken, and the queue is full": (
        Case(hangs, "connections: { max: 1, queue: 1, queue_timeout: 10ms }", blocked=True),
    ),
    "the connection ends before the head of an answer, or inside an answer that is no stream": (
        Case(answers_and_resets()),
        Case(answers_and_closes()),
        Case(answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-le")),
        Case(answers_and_resets(whole(get("t"))[:-5]), calls=UNARY),
        Case(answers_and_closes(whole(get("t"))[:-5]), calls=UNARY),
    ),
    "a stream breaks off before its first event": (
        Case(answers_and_resets(SSE), calls=STREAMS),
        Case(answers_and_closes(SSE + chunk(b": hello\n\n")), calls=STREAMS),
        Case(answers_and_closes(SSE + chunk(EVENT[:-1])), calls=STREAMS),
    ),
    "a stream breaks off behind its first event": (
        Case(answers_and_resets(SSE + chunk(EVENT)), calls=STREAMS),
        Case(answers_and_closes(SSE + chunk(EVENT)), calls=STREAMS),
    ),
    "no answer within `timeouts.send`, `first_byte` or `total`": (
        Case(hangs, HURRY),
        Case(answers_and_hangs(whole(get("t"))[:-5]), HURRY, UNARY),
    ),
    "a stream begins, and is silent for `timeouts.stream_idle`": (
        Case(answers_and_hangs(SSE), HURRY, STREAMS),
        Case(answers_and_hangs(SSE + chunk(b": hello\n\n")), HURRY, STREAMS),
    ),
    "the head, or the framing of the body, is not valid HTTP": (
        Case(answers_and_closes(b"nonsense\r\n\r\n")),
        Case(answers_and_hangs(head(b"transfer-encoding: chunked") + b"zz\r\n")),
        Case(answers_and_hangs(SSE + b"zz\r\n"), calls=STREAMS),
    ),
    "502, 503 or 504, with any body": (
        Case(says(b"503 Service Unavailable", b"{}", b"retry-after: 0")),
        Case(says(b"503 Service Unavailable", error(-32001), b"retry-after: 0")),
    ),
    "any other status, and any error of A2A's: 500, 429, 404, -32603": (
        Case(says(b"500 Internal Server Error")),
        Case(says(b"429 Too Many Requests", b"{}", b"retry-after: 0")),
        Case(says(b"404 Not Found")),
        Case(says(b"200 OK", error(-32603))),
        Case(says(b"500 Internal Server Error", error(-32001))),
    ),
    "an answer that is not A2A: a page, no JSON, two ids": (
        Case(says(b"200 OK", b"<html>")),
        Case(says(b"200 OK", get("t").replace(b'"id": 1', b'"id": 1, "id": 2'))),
        Case(says(b"302 Found", b"", b"location: /elsewhere")),
    ),
    "gRPC: HTTP's 502, 503 or 504, of a proxy in front of the agent": (
        Case(page(b"502")),
        Case(page(b"503")),
        Case(page(b"504")),
    ),
    "gRPC: UNAVAILABLE without details, or CANCELLED without a message, from any source": (
        Case(ends(14)),
        Case(ends(1, b"")),
        Case(ends(1, b"CANCELLED")),
        Case(Turn.hang_up),
        Case(lambda turn: turn.head().hang_up()),
        Case(lambda turn: turn.reset(7)),
    ),
    "gRPC: UNAVAILABLE with details, which only agents give": (Case(ends(14, b"no", DETAILS)),),
    "gRPC: any other status of the agent's": (
        Case(ends(5)),
        Case(ends(13)),
        Case(ends(8)),
        Case(ends(1)),
        Case(ends(4, b"my own tool did not answer")),
        Case(lambda turn: turn.head().data(frame(MESSAGE)).trailers((b"grpc-status", b"13")), calls=STREAMS),
    ),
    "gRPC: an answer that is not gRPC, and other HTTP statuses": (
        Case(page(b"200")),
        Case(page(b"404")),
        Case(page(b"429")),
    ),
    "the client leaves": (Case(hangs, ask=leaves), Case(answers_and_hangs(SSE), calls=STREAMS, ask=leaves)),
    "the client's own `grpc-timeout` is over": (Case(hangs, calls=("GetTask",), ask=has_little_time),),
}
OVER_GRPC = (
    ("no connection: refused, not made in time, no such name, no TLS", Case(None)),
    ("no answer within `timeouts.send`, `first_byte` or `total`", Case(nothing, HURRY)),
    ("no answer within `timeouts.send`, `first_byte` or `total`", Case(lambda turn: turn.head(), HURRY)),
    ("the client leaves", Case(nothing, ask=leaves)),
    ("the client's own `grpc-timeout` is over", Case(nothing, calls=("GetTask",), ask=has_little_time)),
)
"""Rows that hold over gRPC as well."""
GONE = "the replica's address is gone before the call was sent"
PLAYED = [
    *[(row, case, row.startswith("gRPC:")) for row, cases in CASES.items() for case in cases],
    *[(row, case, True) for row, case in OVER_GRPC],
]


def rows() -> dict[str, tuple[str, str]]:
    """Return the manual's table: the kind of each failure, and the condition for its retry."""
    table = MANUAL.read_text().split("\n| what happened |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return {row: (counts, sent) for row, counts, sent in cells}


def balancer_of(gateway: Running) -> Balancer:
    return gateway.gateway.snapshot.backends["echo"].balancer


@asynccontextmanager
async def site(case: Case, folder: Path, *, over_grpc: bool) -> AsyncIterator[Running]:
    """A gateway in front of one agent that does as the case says, and whose card is a file."""
    async with AsyncExitStack() as stack:
        if case.plays is None:
            url = f"{'grpc' if over_grpc else 'http'}://127.0.0.1:{refused_port()}"
        elif over_grpc:
            url = (await stack.enter_async_context(http2_server(cast("GrpcScript", case.plays)))).url
            # A fault keeps its call, and that its connection, for which the server waits.
            stack.callback(gc.collect)
        else:
            url = (await stack.enter_async_context(ScriptedBackend(cast("Script", case.plays)))).url
        spoken = "GRPC 1.0" if over_grpc else "JSONRPC 1.0"
        (folder / "card.json").write_bytes(card_of(url.removeprefix("grpc://"), spoken))
        lines = ["card: card.json", "health: { breaker: { after: 1000 } }", *([case.more] if case.more else [])]
        # Only who has a deadline of its own calls over gRPC.
        listens = f"gateway: {{ {LISTENS} }}\n" if case.ask is has_little_time else ""
        text = f"{listens}agents:\n  echo:\n    backend: '{url}'\n" + "".join(f"    {line}\n" for line in lines)
        yield await stack.enter_async_context(running(text, path=folder / "gateway.yaml"))


@pytest.mark.parametrize(
    ("row", "case", "over_grpc"), PLAYED, ids=[f"{n}-{row[:40]}" for n, (row, *_) in enumerate(PLAYED)]
)
async def test_a_row_says_what_happens(row: str, case: Case, over_grpc: bool, tmp_path: Path) -> None:  # noqa: FBT001 - pytest gives it
    counts, sent = rows()[row]
    async with site(case, tmp_path, over_grpc=over_grpc) as gateway:
        balancer = balancer_of(gateway)
        [replica] = balancer.replicas.values()
        blocked = 0
        if case.blocked:
            client = await gateway.client()
            await client.ask("POST", "/echo", CALLS["GetTask"], (JSON,))
            await gateway.until(lambda: replica.condition.active > 0)
            blocked = 1
        for number, call in enumerate(case.calls, 1):
            marked(balancer, replica)
            await (posts if case.ask is None else case.ask)(gateway, call)
            await gateway.until(partial(over, gateway, number, replica, blocked))
            attempts = gateway.lines[-1]["attempts"]
            told = (replica.condition.ejection.failures, balancer.breaker.failures)
            expected = {"a failure": 1 + attempts, "an answer": 0, "nothing": 1}[counts]
            assert told == (expected, expected), (call, gateway.lines[-1])
            assert attempts == SENT[sent][call], (call, gateway.lines[-1])


def over(gateway: Running, number: int, replica: Replica, active: int) -> bool:
    """Whether so many calls are over, and so many go on."""
    return len(gateway.lines) == number and replica.condition.active == active


def marked(balancer: Balancer, replica: Replica) -> None:
    """One failure in a row, of the replica and of the backend."""
    balancer.succeeded(replica)
    balancer.failed(replica, "before")


@for_each("call", [*UNARY, "SubscribeToTask"])
async def test_a_call_goes_to_another_replica_where_one_has_just_gone(call: str) -> None:
    assert rows()[GONE] == ("nothing", "at another replica, and that is no repeat")
    async with replicated(named("a"), named("b"), more="    retry: { max: 0 }\n") as (gateway, backends):
        balancer = balancer_of(gateway)
        gone, there = balancer.replicas.values()
        balancer.chance = lambda: 0.0
        marked(balancer, gone)
        await cast("HttpUpstream", gone.upstream).pool.aclose()
        # The call has reached a replica that is up.
        await gateway.post("/echo", CALLS[call].replace(b'"t"', b'"b-1"'))
        assert list(map(count, backends)) == [0, 1]
        line = await gateway.line()
        assert (line["backend"], line["attempts"]) == ("echo@b", 1)
        assert gone.condition.ejection.failures == 1
        assert there.condition.active == gone.condition.active == 0
        assert gateway.metric("backend_retries_total") == 0


async def test_a_call_that_belongs_to_a_replica_that_has_just_gone_is_told_so() -> None:
    async with replicated(named("a"), named("b")) as (gateway, backends):
        balancer = balancer_of(gateway)
        gone, _ = balancer.replicas.values()
        balancer.chance = lambda: 0.0
        made = (await gateway.post("/echo", sends())).json["result"]["task"]["id"]
        gone.condition.gone = True
        await cast("HttpUpstream", gone.upstream).pool.aclose()
        answer = await gateway.post("/echo", asks("GetTask", id=made))
        assert (answer.status, answer.json["error"]["data"][0]["reason"]) == (503, "NO_HEALTHY_BACKEND")
        assert list(map(count, backends)) == [1, 0]


def test_every_row_is_played_and_no_other() -> None:
    assert rows().keys() == {*CASES, GONE}
