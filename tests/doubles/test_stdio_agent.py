"""The misbehaving agents on stdio do what their modes say."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.scripted import WAIT
from tests.doubles.stdio_agent import AT_START, FILE
from tests.doubles.stdio_host import frame, hosting, message
from tests.doubles.stdio_modes import MODES

pytestmark = pytest.mark.anyio

COMMAND = (sys.executable, str(FILE))
ENDLESS = {name for name in MODES if "endless" in name or name == "floods-events"}
STAYS = {"stops", "leaves-half", "closes-stdin", "closes-stdout", "eats-time", *ENDLESS}
LEAVES = {"dies", "leaves", "is-killed", "dies-in-frame", "dies-in-stream", "dies-with-child"}
FORKS = {"forks", "forks-stubborn", "dies-with-child"}


def call(text: str, number: int = 1, method: str = "SendMessage") -> bytes:
    return frame(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": message(text)}).encode())


def said(mode: str, *calls: bytes, count: int = 3) -> bytes:
    """What it writes to stdout."""
    command = [*COMMAND, mode, str(count)]
    return subprocess.run(command, input=b"".join(calls), capture_output=True, timeout=WAIT, check=False).stdout


@pytest.mark.parametrize("mode", sorted({*MODES, "banner", "wraps", "wraps-away"} - STAYS - LEAVES - FORKS))
def test_what_comes_behind_the_fault_is_answered(mode: str) -> None:
    out = said(mode, call("ok"), call("fault", 2, "SendStreamingMessage"), call("echo after", 3))
    assert out.index(b'"text": "ok"') < out.index(b'"text": "after"')


@pytest.mark.parametrize("mode", sorted(LEAVES - FORKS))
def test_what_dies_answers_nothing_more(mode: str) -> None:
    out = said(mode, call("ok"), call("fault", 2), call("ok", 3))
    assert b'"text": "ok"' in out
    assert b'"id": 3' not in out


@pytest.mark.parametrize("mode", sorted(STAYS))
def test_what_stays_is_there_until_it_is_killed(mode: str) -> None:
    with subprocess.Popen([*COMMAND, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(call("ok") + call("fault", 2))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"Content-Length: ")
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("framing", ["lsp", "ndjson"])
async def test_streams_tasks_headers_and_environment_are_told_as_they_should_be(framing: str) -> None:
    async with hosting(*COMMAND, "behaves", "--framing", framing, framing=framing, env={"TOLD": "so"}) as host:
        for method, older in (("SendStreamingMessage", False), ("message/stream", True)):
            assert len(await host.stream(method, message("stream 1000", older=older))) == 1002
        task = (await host.ask("SendMessage", message("task")))["task"]
        assert await host.ask("GetTask", {"id": task["id"]}) == task
        assert (await host.ask("GetTask", {"id": "x"}))["error"]["code"] == -32001
        told = (await host.ask("SendMessage", message("environment")))["message"]["parts"][1]["data"]
        assert (told["environ"]["TOLD"], told["pid"]) == ("so", host.process.pid)
        headers = (await host.ask("SendMessage", message("headers"), X_A2A_Tenant="acme"))["message"]["parts"][1]
        assert headers["data"]["headers"].get("x-a2a-tenant") == ("acme" if framing == "lsp" else None)


async def test_calls_are_answered_out_of_order() -> None:
    async with hosting(*COMMAND, "reverses", "5") as host:
        queues = [await host.send("SendMessage", message(str(number))) for number in range(5)]
        answers = [await host.answer(queue) for queue in queues]
        assert [each["result"]["message"]["parts"][0]["text"] for each in answers] == list("01234")
        assert [each["id"] for each in host.answers] == [5, 4, 3, 2, 1]


async def test_the_host_is_asked_back() -> None:
    async with hosting(*COMMAND, "asks-back") as host:
        queue = await host.send("SendMessage", message("fault"))
        assert (await host.answer(queue))["method"] == "sampling/createMessage"
        await host.write(frame(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'))
        told = (await host.answer(queue))["result"]["message"]["parts"][1]["data"]
        assert told["error"]["code"] == -32601


@pytest.mark.parametrize("mode", ["ignores-eof", "ignores-term"])
async def test_what_ignores_the_end_has_to_be_killed(mode: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with hosting(*COMMAND, mode, "--journal", str(journal)) as host:
        await host.ask("SendMessage", message("ok"))
        host.writer.close()
        await until_noted(journal, "eof")
        host.process.send_signal(signal.SIGTERM)
        if mode == "ignores-eof":
            assert await host.ended() == -signal.SIGTERM
        else:
            await until_noted(journal, "term")
            assert host.process.returncode is None


@pytest.mark.parametrize("mode", sorted(FORKS))
def test_what_forks_tells_the_journal_of_its_child(mode: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = [*COMMAND, mode, "--journal", str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(call("fault"))
        process.stdin.close()
        process.wait(WAIT)
        [child] = noted(journal, "child")
        os.kill(int(child), signal.SIGKILL)


def test_starts_that_fail_are_told_by_exit_codes() -> None:
    for mode, code in (("exits-at-start", 3), ("exits-at-start-in-silence", 0)):
        assert subprocess.run([*COMMAND, mode], capture_output=True, timeout=WAIT, check=False).returncode == code


def test_a_card_may_come_unasked() -> None:
    assert b'"name": "Misbehaving"' in said("announces", call("ok")).partition(b'"text": "ok"')[0]


def test_every_mode_has_one_meaning() -> None:
    assert set(AT_START).isdisjoint(MODES)


def noted(journal: Path, word: str) -> list[str]:
    """What the journal says behind a word so far."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == word]


async def until_noted(journal: Path, word: str) -> None:
    async with asyncio.timeout(WAIT):
        while not noted(journal, word):  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.01)
