"""Agents on stdio that misbehave: their callers are told, everybody else is served, and nothing is left of them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import pytest

from gateway.upstream.stdio.upstream import StdioUpstream
from tests.support.gateway import JSON, Answer, Running, running
from tests.support.scripted import WAIT
from tests.support.stdio_agent import FILE
from tests.support.stdio_modes import MODES

pytestmark = pytest.mark.anyio

RESET = ("upstream_reset",)
TIMEOUT = ("upstream_timeout",)
PROTOCOL = ("upstream_protocol",)


def call(text: str, method: str = "SendMessage", identity: object = 1) -> bytes:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": {"message": said}}).encode()


def told(answer: Answer) -> str:
    """The text of a good answer, or the last reason of a bad one."""
    tree = answer.json
    if "error" in tree:
        return answer.reasons[-1].lower()
    parts: list[dict[str, Any]] = tree["result"]["message"]["parts"]
    return str(parts[0]["text"])


@dataclass(frozen=True)
class Bad:
    """An agent that misbehaves.

    Attributes:
        more: Further keys of its command.
        timeouts: Further timeouts of the agent.
        send: The time that a send may take.
    """

    mode: str
    arguments: tuple[str, ...] = ()
    more: str = ""
    timeouts: str = "first_byte: 30s"
    send: str = "1s"


@asynccontextmanager
async def fleet(folder: Path, **agents: Bad) -> AsyncIterator[Running]:
    """A gateway in front of agents that misbehave, and of one that does not, `good`."""
    text = "agents:\n"
    for name, bad in {"good": Bad("behaves", send="30s"), **agents}.items():
        words = json.dumps([sys.executable, "-S", str(FILE), bad.mode, *bad.arguments, "--journal", str(folder / name)])
        more = indent(bad.more, " " * 8)
        text += f"""\
  "{name}":
    timeouts: {{ send: {bad.send}, connect: 20s, {bad.timeouts} }}
    backend:
      stdio:
        command: {words}
        stop_timeout: 200ms
{more}
"""
    async with running(text, path=folder / "gateway.yaml", settled=False) as gateway:
        assert told(await gateway.post("/good", call("ok"))) == "ok"
        yield gateway
        assert told(await gateway.post("/good", call("ok"))) == "ok"
    assert {name: found for name in ("good", *agents) if (found := left(folder, name))} == {}


def site(folder: Path, mode: str, *arguments: str, **more: str) -> AbstractAsyncContextManager[Running]:
    """As `fleet`, with one agent that misbehaves, `bad`."""
    return fleet(folder, bad=Bad(mode, arguments, **more))


async def each(names: Iterable[str], check: Callable[[str], Awaitable[None]]) -> None:
    """Check agents beside one another, and fail with the names of those that fail."""
    names, turns = tuple(names), asyncio.Semaphore(6)

    async def one(name: str) -> None:
        async with turns:
            await check(name)

    ends = await asyncio.gather(*map(one, names), return_exceptions=True)
    assert {name: end for name, end in zip(names, ends, strict=True) if end is not None} == {}


def left(folder: Path, name: str = "journal") -> list[int]:
    """The processes of the journal that are still there."""
    journal = folder / name
    words = [line.split() for line in journal.read_text().splitlines()] if journal.exists() else []
    pids = [int(each[1]) for each in words if each[0] in ("start", "child")]
    return [pid for pid in pids if runs(pid)]


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def recovered(gateway: Running, name: str = "bad") -> None:
    """Wait until the agent answers as it should again."""
    async with asyncio.timeout(WAIT):
        while told(await gateway.post(f"/{name}", call("ok"))) != "ok":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


_LENIENT = ("length-only", "length-too-long", "length-too-short")
ANSWERS: dict[str, tuple[str, ...]] = dict(
    [
        *((mode, RESET) for mode in ("dies", "is-killed", "dies-in-frame", "dies-with-child")),
        *((mode, RESET) for mode in MODES if mode.startswith(("length-", "header")) and mode not in _LENIENT),
        ("length-only", ("lied",)),
        ("length-too-long", TIMEOUT),
        ("length-too-short", PROTOCOL + RESET),
        *((mode, RESET) for mode in ("charset-other", "line-endless", "blank-endless", "garbage")),
        ("byte-order-mark", RESET),
        *((mode, ("behind it",)) for mode in ("log-json", "log-line", "blank-lines")),
        *((mode, TIMEOUT) for mode in ("says-nothing", "no-json", "empty", "batch", "null", "two-ids")),
        *((mode, PROTOCOL) for mode in ("no-result", "result-and-error", "error-of-text", "not-utf-8")),
        ("nested", PROTOCOL + TIMEOUT),
        *((mode, RESET) for mode in ("closes-stdin", "closes-stdout")),
        ("drips", ("drip",)),
        ("answers-twice", ("once",)),
        *((mode, ("mine",)) for mode in ("answers-nobody", "answers-the-last")),
        ("asks-back", ("told",)),
        ("frames-otherwise", ("ndjson",)),
    ]
)
"""The error that a client gets, by the mode of the agent."""


SOME = (
    "dies", "dies-in-frame", "length-only", "length-too-short", "line-endless", "log-json", "says-nothing", "two-ids",
    "result-and-error", "nested", "drips", "answers-nobody", "asks-back",
)  # fmt: skip
"""One of each kind, for the check: each process is a start of Python."""


@pytest.mark.parametrize(
    "modes", [pytest.param(SOME, id="some"), pytest.param(tuple(ANSWERS), id="all", marks=pytest.mark.long)]
)
async def test_a_call_is_answered_or_told_why_and_the_next_ones_are_served(
    modes: tuple[str, ...], tmp_path: Path
) -> None:
    async with fleet(tmp_path, **{mode: Bad(mode, more="frame: 4MiB") for mode in modes}) as gateway:

        async def check(mode: str) -> None:
            assert told(await gateway.post(f"/{mode}", call("ok"))) == "ok"
            assert told(await gateway.post(f"/{mode}", call("now"))) in ANSWERS[mode]
            await recovered(gateway, mode)

        await each(modes, check)


# ---- Streams ---------------------------------------------------------------------------------------------------------


STREAM = "SendStreamingMessage"


async def events(gateway: Running, text: str, target: str = "/bad", identity: object = 1) -> list[dict[str, Any]]:
    """All events of a stream, each for the call that was made."""
    answer = await gateway.post(target, call(text, STREAM, identity))
    found = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    assert all(each["id"] == identity for each in found)
    return found


ENDS = {
    "ends-by-field": 5,
    "ends-by-null": 4,
    "ends-by-message": 5,
    "ends-by-error": 5,
    "goes-on-after-the-end": 3,
}
"""The number of events in a stream, by the mode of the agent."""


async def test_a_stream_ends_with_every_kind_of_final_event(tmp_path: Path) -> None:
    async with fleet(tmp_path, **{mode: Bad(mode) for mode in ENDS}) as gateway:

        async def check(mode: str) -> None:
            found = await events(gateway, "now", f"/{mode}")
            assert len(found) == ENDS[mode]
            assert ("error" in found[-1]) is (mode == "ends-by-error")
            assert len(await events(gateway, "stream 5", f"/{mode}")) == 7

        await each(ENDS, check)
        await gateway.until(lambda: sum(line["closed_by"] == "agent" for line in gateway.lines) == 2 * len(ENDS))


async def test_an_agent_that_dies_in_the_midst_of_a_stream_ends_it_with_an_error(tmp_path: Path) -> None:
    async with site(tmp_path, "dies-in-stream") as gateway:
        found = await events(gateway, "now")
        assert len(found) == 5
        assert found[-1]["error"]["data"][-1]["reason"] == "UPSTREAM_RESET"
        await recovered(gateway)


async def test_a_stream_that_falls_silent_ends_with_an_error_and_the_agent_serves_on(tmp_path: Path) -> None:
    async with site(tmp_path, "never-ends", timeouts="stream_idle: 300ms") as gateway:
        found = await events(gateway, "now")
        assert found[-1]["error"]["data"][-1]["reason"] == "UPSTREAM_IDLE"
        assert told(await gateway.post("/bad", call("ok"))) == "ok"
        assert gateway.metric("stdio_restarts_total", agent="bad") == 0


async def test_streams_that_come_in_turns_are_each_told_their_own(tmp_path: Path) -> None:
    async with site(tmp_path, "interleaves", "20") as gateway:
        streams = await asyncio.gather(*(events(gateway, f"s{number}", identity=f"i{number}") for number in range(20)))
        for number, found in enumerate(streams):
            texts = [each["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"] for each in found[:-1]]
            assert texts == [f"s{number} {turn}" for turn in range(10)]


async def test_answers_in_any_order_go_to_who_asked(tmp_path: Path) -> None:
    async with site(tmp_path, "reverses", "200") as gateway:
        answers = await asyncio.gather(
            *(gateway.post("/bad", call(f"t{number}", identity=number)) for number in range(200)),
        )
        assert [(each.json["id"], told(each)) for each in answers] == [(n, f"t{n}") for n in range(200)]


async def test_a_slow_client_loses_its_stream_and_nobody_else_waits(tmp_path: Path) -> None:
    async with site(tmp_path, "floods-events", more="frame: 256KiB") as gateway:
        client = await gateway.client()
        await client.ask("POST", "/bad", call("now", STREAM), (JSON,))
        await client.head()
        # It reads no more, and the agent writes without end, for nobody after a while.
        await gateway.until(lambda: gateway.metric("stdio_frames_dropped_total", agent="bad", reason="late") > 100)
        assert told(await gateway.post("/good", call("ok"))) == "ok"
        last = (await client.rest()).rpartition(b"data: ")[2]
        assert json.loads(last)["error"]["data"][-1]["reason"] == "OVERLOADED"


# ---- Floods and bounds -----------------------------------------------------------------------------------------------


async def test_a_flood_of_frames_that_nobody_asked_for_ends_the_process(tmp_path: Path) -> None:
    async with site(tmp_path, "floods-stdout", "2000") as gateway:
        assert told(await gateway.post("/bad", call("now"))) == "upstream_reset"
        await recovered(gateway)
        assert gateway.metric("stdio_frames_dropped_total", agent="bad", reason="stray") == 1001


async def test_a_flood_of_complaints_stops_nobody(tmp_path: Path) -> None:
    floods = {"lines": Bad("floods-stderr", ("20000",)), "line": Bad("floods-stderr-line", ("5000000",))}
    async with fleet(tmp_path, **floods) as gateway:
        bodies = [("/lines", call("now")), ("/line", call("now")), ("/good", call("ok"))]
        *flooded, good = await asyncio.gather(*(gateway.post(*each) for each in bodies))
        assert told(good) == "ok"
        assert {told(each) for each in flooded} <= {"flooded", "upstream_timeout"}


async def test_a_frame_beyond_the_bound_ends_the_process_and_one_within_it_passes(tmp_path: Path) -> None:
    sizes = {"small": Bad("huge", ("3000000",)), "large": Bad("huge", ("5000000",))}
    async with fleet(tmp_path, **sizes, bound=Bad("huge", ("5000000",), "frame: 4MiB")) as gateway:
        for name, bad in sizes.items():
            assert len(told(await gateway.post(f"/{name}", call("now")))) == int(bad.arguments[0])
        assert told(await gateway.post("/bound", call("now"))) == "upstream_reset"
        await recovered(gateway, "bound")


LIMITS = {
    "much-memory": (Bad("eats-memory", ("320",), "limits: { memory: 300MiB }", send="30s"), RESET),
    "little-memory": (Bad("eats-memory", ("20",), "limits: { memory: 300MiB }"), ("20 MiB",)),
    "time": (Bad("eats-time", ("1",), "limits: { cpu: 1s }"), RESET + TIMEOUT),
    "files": (Bad("eats-files", ("100",), "limits: { files: 40 }"), tuple(map(str, range(20, 40)))),
}


async def test_a_process_has_no_more_than_the_file_says(tmp_path: Path) -> None:
    async with fleet(tmp_path, **{name: bad for name, (bad, _) in LIMITS.items()}) as gateway:

        async def check(name: str) -> None:
            assert told(await gateway.post(f"/{name}", call("now"))) in LIMITS[name][1]
            await recovered(gateway, name)

        await each(LIMITS, check)


async def test_an_agent_that_reads_no_more_is_noticed_by_a_ping_and_started_again(tmp_path: Path) -> None:
    modes = {mode: Bad(mode, more="ping: 100ms\nstart_timeout: 2s") for mode in ("stops", "leaves-half")}
    async with fleet(tmp_path, **modes) as gateway:

        async def check(mode: str) -> None:
            assert told(await gateway.post(f"/{mode}", call("now"))) in TIMEOUT + RESET
            await recovered(gateway, mode)

        await each(modes, check)


# ---- Starting and ending ---------------------------------------------------------------------------------------------


UNREADY = {
    "exits-at-start": "it exited with code 3",
    "exits-at-start-in-silence": "it exited with code 0",
    "never-starts": "no handshake within 1 s",
    "closes-stdout-at-start": "it closed its standard output",
    "banner": "it wrote an invalid frame",
}


async def test_an_agent_that_does_not_start_is_not_up_and_operators_read_why(tmp_path: Path) -> None:
    async with fleet(tmp_path, **{mode: Bad(mode, more="start_timeout: 1s") for mode in UNREADY}) as gateway:

        async def check(mode: str) -> None:
            agent = cast("StdioUpstream", gateway.gateway.snapshot.backends[mode].upstream)
            await gateway.until(lambda: any((one["ended"] or "").startswith(UNREADY[mode]) for one in agent.report()))

        await each(UNREADY, check)
        assert (await gateway.get("/-/ready")).status == 200
        shown = {one["agent"]: one for one in (await gateway.get("/-/agents", admin=True)).json["agents"]}
        assert {name for name, one in shown.items() if one["up"]} == {"good"}
        for mode, why in UNREADY.items():
            assert gateway.metric("backend_up", agent=mode) == 0
            assert shown[mode]["replicas"][0]["state"].startswith(f"down: {why}")


STUBBORN = ("ignores-eof", "ignores-term", "slow-to-end", "wraps", "wraps-away", "forks", "forks-stubborn")


async def test_nothing_is_left_of_an_agent_that_does_not_go_or_does_not_go_alone(tmp_path: Path) -> None:
    async with fleet(tmp_path, **{mode: Bad(mode, ("50",)) for mode in STUBBORN}) as gateway:

        async def check(mode: str) -> None:
            assert told(await gateway.post(f"/{mode}", call("now"))) != ""
            assert told(await gateway.post(f"/{mode}", call("ok"))) == "ok"
            assert len(left(tmp_path, mode)) >= 1

        await each(STUBBORN, check)
    assert [mode for mode in STUBBORN if "term" in (tmp_path / mode).read_text()] == ["ignores-term"]


async def test_children_of_a_dead_process_are_ended(tmp_path: Path) -> None:
    async with site(tmp_path, "dies-with-child") as gateway:
        assert told(await gateway.post("/bad", call("now"))) == "upstream_reset"
        await recovered(gateway)
        assert len(left(tmp_path, "bad")) == 1
