"""Agents on stdio that misbehave: their callers are told, everybody else is served, and nothing is left of them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.doubles.gateway import JSON, Answer, Running, running
from tests.doubles.scripted import WAIT
from tests.doubles.stdio_agent import FILE
from tests.doubles.stdio_modes import MODES

pytestmark = pytest.mark.anyio

RESET = ("upstream_reset",)
TIMEOUT = ("upstream_timeout",)
PROTOCOL = ("upstream_protocol",)
UNREADY = ("no_healthy_backend",)


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


@asynccontextmanager
async def site(folder: Path, mode: str, *arguments: str, more: str = "", timeouts: str = "") -> AsyncIterator[Running]:
    """A gateway in front of an agent that misbehaves, `bad`, and of one that does not, `good`."""
    words = json.dumps([sys.executable, str(FILE), mode, *arguments, "--journal", str(folder / "journal")])
    good = json.dumps([sys.executable, str(FILE), "behaves", "--journal", str(folder / "journal")])
    text = f"""\
agents:
  good: {{ backend: {{ stdio: {{ command: {good} }} }} }}
  bad:
    timeouts: {{ send: 1s, connect: 20s, {timeouts} }}
    backend:
      stdio:
        command: {words}
        stop_timeout: 200ms
{indent(more, " " * 8)}
"""
    async with running(text, path=folder / "gateway.yaml", settled=False) as gateway:
        assert told(await gateway.post("/good", call("ok"))) == "ok"
        yield gateway
        assert told(await gateway.post("/good", call("ok"))) == "ok"
    assert left(folder) == []


def left(folder: Path) -> list[int]:
    """The processes of the journal that are still there."""
    journal = folder / "journal"
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


async def recovered(gateway: Running) -> None:
    """Wait until the agent answers as it should again."""
    async with asyncio.timeout(WAIT):
        while told(await gateway.post("/bad", call("ok"))) != "ok":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


_LENIENT = ("length-only", "length-too-long", "length-too-short")


@pytest.mark.parametrize(
    ("mode", "expected"),
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
    ],
    ids=lambda value: value if isinstance(value, str) else "|".join(value),
)
async def test_a_call_is_answered_or_told_why_and_the_next_ones_are_served(
    mode: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    async with site(tmp_path, mode, more="frame: 4MiB") as gateway:
        assert told(await gateway.post("/bad", call("ok"))) == "ok"
        assert told(await gateway.post("/bad", call("now"))) in expected
        await recovered(gateway)


# ---- Streams ---------------------------------------------------------------------------------------------------------


STREAM = "SendStreamingMessage"


async def events(gateway: Running, text: str, target: str = "/bad", identity: object = 1) -> list[dict[str, Any]]:
    """All events of a stream, each for the call that was made."""
    answer = await gateway.post(target, call(text, STREAM, identity))
    found = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    assert all(each["id"] == identity for each in found)
    return found


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("ends-by-field", 5),
        ("ends-by-null", 4),
        ("ends-by-message", 5),
        ("ends-by-error", 5),
        ("goes-on-after-the-end", 3),
    ],
)
async def test_a_stream_ends_where_the_agent_says_so_in_whatever_way(mode: str, count: int, tmp_path: Path) -> None:
    async with site(tmp_path, mode) as gateway:
        found = await events(gateway, "now")
        assert len(found) == count
        assert ("error" in found[-1]) is (mode == "ends-by-error")
        assert len(await events(gateway, "stream 5")) == 7
        await gateway.until(lambda: len(gateway.lines) >= 2)
        assert gateway.lines[1]["closed_by"] == "agent"


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
    async with site(tmp_path, "reverses", "200", timeouts="first_byte: 30s") as gateway:
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


async def test_a_few_frames_that_nobody_asked_for_are_dropped_and_counted(tmp_path: Path) -> None:
    async with site(tmp_path, "floods-stdout", "500") as gateway:
        assert told(await gateway.post("/bad", call("now"))) == "flooded"
        assert gateway.metric("stdio_frames_dropped_total", agent="bad", reason="stray") == 500


@pytest.mark.parametrize(("mode", "count"), [("floods-stderr", "20000"), ("floods-stderr-line", "5000000")])
async def test_a_flood_of_complaints_stops_nobody(mode: str, count: str, tmp_path: Path) -> None:
    async with site(tmp_path, mode, count, timeouts="first_byte: 30s") as gateway:
        assert told(await gateway.post("/bad", call("ok"))) == "ok"
        body = call("now").replace(b"SendMessage", b"SendMessage")
        answers = await asyncio.gather(gateway.post("/bad", body), gateway.post("/good", call("ok")))
        assert told(answers[1]) == "ok"
        assert told(answers[0]) in ("flooded", "upstream_timeout")


async def test_a_frame_beyond_the_bound_ends_the_process_and_one_within_it_passes(tmp_path: Path) -> None:
    for size in ("3000000", "5000000"):
        async with site(tmp_path, "huge", size) as gateway:
            assert len(told(await gateway.post("/bad", call("now")))) == int(size)
    async with site(tmp_path, "huge", "5000000", more="frame: 4MiB") as gateway:
        assert told(await gateway.post("/bad", call("now"))) == "upstream_reset"
        await recovered(gateway)


@pytest.mark.parametrize(
    ("mode", "count", "limit", "expected"),
    [
        ("eats-memory", "600", "memory: 300MiB", RESET),
        ("eats-memory", "20", "memory: 300MiB", ("20 MiB",)),
        ("eats-time", "1", "cpu: 1s", RESET),
        ("eats-files", "100", "files: 40", tuple(str(got) for got in range(20, 40))),
    ],
)
async def test_a_process_has_no_more_than_the_file_says(
    mode: str, count: str, limit: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    limits = f"limits: {{ {limit} }}"
    async with site(tmp_path, mode, count, more=limits, timeouts="first_byte: 30s, stream_idle: 1m") as gateway:
        answer = await gateway.post("/bad", call("now"))
        assert told(answer) in (*expected, *(TIMEOUT if mode == "eats-time" else ()))
        await recovered(gateway)


async def test_an_agent_that_reads_no_more_is_noticed_by_a_ping_and_started_again(tmp_path: Path) -> None:
    for mode in ("stops", "leaves-half"):
        async with site(tmp_path, mode, more="ping: 100ms\nstart_timeout: 3s") as gateway:
            assert told(await gateway.post("/bad", call("now"))) in TIMEOUT + RESET
            await recovered(gateway)


# ---- Starting and ending ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("exits-at-start", "it exited with code 3"),
        ("exits-at-start-in-silence", "it exited with code 0"),
        ("never-starts", "it did not introduce itself within 1 s"),
        ("closes-stdout-at-start", "it closed its standard output"),
        ("banner", "it wrote what is no frame"),
    ],
)
async def test_an_agent_that_does_not_start_is_no_healthy_backend(mode: str, why: str, tmp_path: Path) -> None:
    async with site(tmp_path, mode, more="start_timeout: 1s", timeouts="first_byte: 1s") as gateway:
        agent = gateway.gateway.snapshot.backings["bad"].upstream
        await gateway.until(lambda: any((each["ended"] or "").startswith(why) for each in agent.report()))  # type: ignore[attr-defined]  # it is one on stdio
        assert (await gateway.get("/-/ready")).status == 200
        assert (gateway.metric("backend_up", agent="good"), gateway.metric("backend_up", agent="bad")) == (1, 0)
        good, bad = (await gateway.get("/-/agents", admin=True)).json["agents"]
        assert (good["up"], bad["up"]) == (True, False)
        assert [each["state"] for each in good["replicas"]] == ["up"]
        [shown] = bad["replicas"]
        assert shown["up"] is False
        assert shown["state"].startswith(f"down: {why}")


async def test_what_prints_its_card_first_is_introduced_by_it(tmp_path: Path) -> None:
    async with site(tmp_path, "announces", more="card: printed") as gateway:
        assert told(await gateway.post("/bad", call("ok"))) == "ok"
        assert (await gateway.get("/bad/.well-known/agent-card.json")).json["name"] == "Misbehaving"


@pytest.mark.parametrize(
    "mode", ["ignores-eof", "ignores-term", "slow-to-end", "wraps", "wraps-away", "forks", "forks-stubborn"]
)
async def test_nothing_is_left_of_an_agent_that_does_not_go_or_does_not_go_alone(mode: str, tmp_path: Path) -> None:
    async with site(tmp_path, mode, "50") as gateway:
        assert told(await gateway.post("/bad", call("now"))) != ""
        assert told(await gateway.post("/bad", call("ok"))) == "ok"
        assert len(left(tmp_path)) >= 2
    words = (tmp_path / "journal").read_text()
    assert ("term" in words) is (mode == "ignores-term")


async def test_what_a_process_left_behind_when_it_died_is_ended_too(tmp_path: Path) -> None:
    async with site(tmp_path, "dies-with-child") as gateway:
        assert told(await gateway.post("/bad", call("now"))) == "upstream_reset"
        await recovered(gateway)
        # The two that serve.
        assert len(left(tmp_path)) == 2
