"""A process of an agent: what it is given, how it ends, and that nothing is left."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.upstream.stdio_child import Child, Command, StartFailed

pytestmark = pytest.mark.anyio
WAIT = 20.0


class Ear(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = asyncio.Event()
        self._news = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._news.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(WAIT):
            while text not in self.heard:
                self._news.clear()
                await self._news.wait()


async def start(*words: str, environment: Mapping[str, str] | None = None, folder: str = "/") -> tuple[Child, Ear, Ear]:
    output, errors = Ear(), Ear()
    command = Command(words, folder, {"PATH": os.environ["PATH"], **(environment or {})})
    child = await Child.start(command, reads=lambda: output, writes=asyncio.BaseProtocol, complains=lambda: errors)
    return child, output, errors


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def warm() -> None:
    """Have the loop open what it opens once."""
    child, _, _ = await start("true")
    await child.aclose()


async def test_what_is_written_is_read_and_what_it_says_is_heard() -> None:
    child, output, errors = await start("sh", "-c", "echo complaint >&2; cat")
    try:
        child.write(b"hello\n")
        await output.until(b"hello\n")
        await errors.until(b"complaint\n")
        assert child.pid > 0
        child.close_input()
        assert await asyncio.wait_for(child.ended, WAIT) == 0
        await asyncio.wait_for(output.ended.wait(), WAIT)
    finally:
        await child.aclose()


async def test_it_gets_its_words_its_folder_its_variables_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "not for agents")
    program = "import os, sys; print(sys.argv[1:], os.getcwd(), sorted(os.environ), flush=True)"
    words = (sys.executable, "-I", "-c", program, "a b", "$HOME", "; rm -rf /")
    child, output, _ = await start(*words, environment={"MINE": "1"}, folder=str(tmp_path))
    try:
        await output.until(b"\n")
        said = output.heard.decode()
        assert "['a b', '$HOME', '; rm -rf /']" in said
        assert str(tmp_path) in said
        assert "'MINE'" in said
        assert "GATEWAY_SECRET" not in said
    finally:
        await child.aclose()


async def test_how_it_ended_is_told() -> None:
    for script, status in (("exit 7", 7), ("kill -9 $$", -9)):
        child, _, _ = await start("sh", "-c", script)
        try:
            assert await asyncio.wait_for(child.ended, WAIT) == status
        finally:
            await child.aclose()


@pytest.mark.parametrize(
    ("words", "folder", "why"),
    [
        (("/no/such/program",), "/", "there is no such program"),
        (("/etc/passwd",), "/", "the program may not be run"),
        (("sh",), "/no/such/folder", "/no/such/folder"),
    ],
)
async def test_what_cannot_be_started_is_told_why(words: tuple[str, ...], folder: str, why: str) -> None:
    await warm()
    before = descriptors()
    with pytest.raises(StartFailed, match=why):
        await start(*words, folder=folder)
    assert descriptors() <= before


async def test_closing_kills_it_and_leaves_no_descriptor() -> None:
    await warm()
    before = descriptors()
    for _ in range(5):
        child, _, _ = await start("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        child.write(b"x" * 1_000_000)
        assert child.waiting > 0
        await child.aclose()
        assert child.ended.done()
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
    await asyncio.sleep(0)
    assert descriptors() <= before


async def test_a_supervisor_that_is_killed_is_an_end_that_nobody_knows() -> None:
    child, _, _ = await start("sh", "-c", "while :; do sleep 1; done")
    try:
        os.kill(child._process.pid, signal.SIGKILL)
        assert await asyncio.wait_for(child.ended, WAIT) is None
    finally:
        await child.aclose()


async def test_it_is_told_to_go() -> None:
    child, _, _ = await start("sh", "-c", "while :; do sleep 1; done")
    try:
        child.terminate()
        assert await asyncio.wait_for(child.ended, WAIT) == -15
    finally:
        await child.aclose()


PROGRAM = """
import asyncio, ctypes, os
from gateway.upstream.stdio_child import Child, Command

async def run():
    command = Command(("true",), "/", {"PATH": os.environ["PATH"]})
    streams = dict(reads=asyncio.Protocol, writes=asyncio.BaseProtocol, complains=asyncio.Protocol)
    child = await Child.start(command, **streams)
    await child.ended
    await child.aclose()

print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
asyncio.run(run())
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such thing")
def test_who_runs_an_agent_cannot_be_looked_into() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "0"]
