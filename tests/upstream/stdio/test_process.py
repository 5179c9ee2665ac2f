"""One process of an agent: what it is given, how it ends, and that nothing of it is left."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.upstream.stdio.process import Command, ErrorLog, Process, ProcessStartFailed
from tests.stdio.test_stdio_misbehaving import runs
from tests.support.scripted import WAIT
from tests.table import for_each

pytestmark = pytest.mark.anyio

ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Output(asyncio.Protocol):
    """Keeps what the process writes."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = asyncio.Event()
        self._news = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.text += data.decode()
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._news.set()

    async def line(self) -> str:
        async with asyncio.timeout(WAIT):
            while "\n" not in self.text:
                self._news.clear()
                await self._news.wait()
        line, _, self.text = self.text.partition("\n")
        return line


class Started:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.output = Output()
        self.errors = ErrorLog("agent")
        self.input_closed = asyncio.Event()

    async def exit(self) -> int:
        return await asyncio.wait_for(asyncio.shield(self.process.exited), WAIT)


@asynccontextmanager
async def started(*words: str, uid: int | None = None, folder: str = "/") -> AsyncIterator[Started]:
    found = Started(Process(Command(words, folder, ENVIRONMENT, uid=uid)))
    try:
        await found.process.connect(found.output, found.errors, found.input_closed.set)
        yield found
    finally:
        await found.process.aclose()
        assert found.process.exited.done()
        assert not runs(found.process.pid)


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


@for_each(
    ("words", "folder", "why"),
    [
        (("/no/such/program",), "/", "there is no such program"),
        (("no-such-program",), "/", "there is no such program"),
        (("/etc/passwd",), "/", "the program may not be run"),
        (("sh",), "/no/such/folder", "its folder /no/such/folder cannot be used"),
    ],
)
async def test_a_failed_start_tells_the_reason(words: tuple[str, ...], folder: str, why: str) -> None:
    with pytest.raises(ProcessStartFailed, match=why):
        Process(Command(words, folder, ENVIRONMENT))


async def test_the_signals_of_the_agent_are_the_usual_ones_and_it_has_no_descriptor_but_its_pipes() -> None:
    program = "import os, signal; print(signal.getsignal(signal.SIGTERM).name, signal.getsignal(signal.SIGPIPE).name, "
    program += "[each for each in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{each}')])"
    async with started(sys.executable, "-I", "-S", "-c", program.replace("SIGPIPE).name", "SIGPIPE)")) as agent:
        line = await agent.output.line()
    # Python itself ignores SIGPIPE.
    assert line.startswith("SIG_DFL 1 ")
    assert sorted(eval(line.partition("[")[1] + line.partition("[")[2])) == ["0", "1", "2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_process_runs_as_the_configured_user() -> None:
    # A number of nobody's: the system counts the processes of a user, wherever on the machine they are.
    async with started(*shell("echo $(id -u) $(id -G); sleep 1000"), uid=64_973) as agent:
        assert await agent.output.line() == "64973 64973"


async def test_lines_of_standard_error_are_logged_within_a_rate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway.upstream.stdio")
    script = "i=0; while [ $i -lt 1000 ]; do echo line $i >&2; i=$((i+1)); done; exec 2>&-; cat"
    async with started(*shell(script)) as agent:
        await asyncio.wait_for(agent.errors.ended, WAIT)
    told = [record.getMessage() for record in caplog.records]
    assert told[:2] == ["agent: line 0", "agent: line 1"]
    assert 100 <= sum("agent: line" in each for each in told) < 300
    assert any("more lines to standard error" in each for each in told)


PROGRAM = """
import asyncio, ctypes, os
from gateway.upstream.stdio.process import Command, Process

async def run():
    process = Process(Command(("true",), "/", {"PATH": os.environ["PATH"]}))
    await process.exited

print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
asyncio.run(run())
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such thing")
def test_a_gateway_with_an_agent_on_stdio_cannot_be_inspected() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "0"]
