"""Memory that an agent can make a gateway hold: a separate process, measured from outside (safety B4, R7, R20).

Each flood is an agent that sends without end, or as much as it can, to a client that reads or does not, while another
client calls the same agent. The figures are how far the process grew at its highest, and how long that client waited;
`pytest -rP` shows them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.process import GatewayProcess, gateway_process
from tests.support.gateway import CALL, JSON, RESULT, STREAM, Client, agent, card_of, request
from tests.support.hostile import BEHAVIOURS, CHUNKED, EVENT
from tests.support.scripted import SSE, Script, ScriptedBackend, Wire, answers, chunk, endless, whole

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc"),
]

CARD = card_of("http://agent/", "JSONRPC 1.0")
MOST = 32 << 20
RETURNS = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""Has glibc give long buffers back to the kernel when they are freed.

By default it keeps some of them, the more the longer they are, so that the resident size says how they came to lie.
"""
KEPT = 16 << 20
"""Bytes of an answer that the file allows; by default it may be as long as what must not be held here."""
ENOUGH = 48 << 20
"""Bytes after which an agent has sent more than a gateway may hold, and may hold of all agents before it together."""
PATIENCE = 1.0
WAITS = 3.0
"""Seconds that another caller may wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Flood:
    """An agent that sends and sends.

    Attributes:
        reads: Whether the client reads what it gets.
        ends: Whether the answer is whole. Until the gateway has judged it and closed the connection, another call may
            be sent there, which the agent never answers.
    """

    script: Script
    stream: bool = True
    reads: bool = True
    ends: bool = False


TINY = b"".join(chunk(EVENT[at : at + 2]) for at in range(0, len(EVENT), 2))
OPEN = CHUNKED + chunk(b'{"jsonrpc":"2.0","id":1,"result":["')
BIG = b"data: " + RESULT.replace(b'"ho"', b'"' + b"x" * (4_000_000) + b'"') + b"\n\n"

FLOODS = {
    **{
        name: Flood(BEHAVIOURS[name].script, stream=BEHAVIOURS[name].stream, ends=name == "100,000 brackets")
        for name in (
            "a header of 4 MiB", "an endless head", "20,000 headers", "a flood of 103", "an endless chunk extension",
            "endless trailers", "a bomb", "100,000 brackets", "an endless line", "an event of 5 MiB in many lines",
            "an event of too many kinds of lines",
        )
    },
    "an endless body": Flood(endless(OPEN, chunk(b"x" * 50_000)), stream=False),
    "an endless body nobody reads": Flood(endless(OPEN, chunk(b"x" * 50_000)), stream=False, reads=False),
    "an endless body of short texts": Flood(endless(OPEN, chunk(b'","' * 20_000)), stream=False),
    "an endless body that nests": Flood(endless(OPEN + chunk(b'"'), chunk(b"[" * 50_000)), stream=False),
    "an endless body that does not say whose it is": Flood(
        endless(CHUNKED + chunk(b'{"result":"'), chunk(b"x" * 50_000)), stream=False
    ),
    "an endless body of tiny chunks": Flood(endless(OPEN, chunk(b"xx") * 5_000), stream=False),
    "endless comments": Flood(endless(SSE, chunk(b":\n\n" * 20_000))),
    "endless comments nobody reads": Flood(endless(SSE, chunk(b": ping\n\n" * 10_000)), reads=False),
    "endless empty lines": Flood(endless(SSE, chunk(b"\n" * 60_000))),
    "endless events": Flood(endless(SSE, chunk(EVENT * 500))),
    "endless events nobody reads": Flood(endless(SSE, chunk(EVENT * 500)), reads=False),
    "endless events that say nothing": Flood(endless(SSE, chunk(b"x\n\n" * 20_000))),
    "endless long events": Flood(endless(SSE, chunk(BIG))),
    "endless long events nobody reads": Flood(endless(SSE, chunk(BIG)), reads=False),
    "endless events in tiny chunks": Flood(endless(SSE, TINY * 50)),
}  # fmt: skip


class Memory:
    """The memory of a process, in bytes."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._first = self._base = self._read("VmRSS")

    def begin(self) -> None:
        """Forget the highest; what is held now is the base."""
        (self._folder / "clear_refs").write_text("5")
        self._base = self._read("VmRSS")

    @property
    def growth(self) -> int:
        """Return how far above the base the peak since then was."""
        return self._read("VmHWM") - self._base

    @property
    def ever(self) -> int:
        """Return how far above the first reading the peak was."""
        return self._read("VmHWM") - self._first

    def _read(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


async def connected(process: GatewayProcess) -> Client:
    url = urlsplit(process.url)
    return Client(*await asyncio.open_connection(url.hostname, url.port))


async def good_call(process: GatewayProcess) -> bytes:
    client = await connected(process)
    try:
        await client.ask("POST", "/echo", CALL, [JSON])
        return (await client.answer()).body
    finally:
        client.writer.close()


class Player:
    """Plays the script that it is given on the next connection, else a good agent."""

    def __init__(self) -> None:
        self._good = answers(whole(RESULT))
        self._next: Script | None = None
        self.wire: Wire | None = None

    def play(self, script: Script) -> None:
        self._next, self.wire = script, None

    async def __call__(self, wire: Wire) -> None:
        script, self._next = self._next, None
        if script is None:
            await self._good(wire)
            return
        self.wire = wire
        await script(wire)


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway that has answered a few calls, and the agent behind it."""

    process: GatewayProcess
    memory: Memory
    player: Player
    backend: ScriptedBackend


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One for all floods."""
    player = Player()
    async with ScriptedBackend(agent(player, CARD)) as backend:
        times = {"send": "2s", "total": "20s", "stream_idle": "2s"}
        echo = {"backend": backend.url, "timeouts": times, "connections": {"idle": "50ms", "kept": KEPT}}
        with gateway_process({"agents": {"echo": echo}}, tmp_path_factory.mktemp("site"), environ=RETURNS) as process:
            for _ in range(5):
                assert await good_call(process) == RESULT
            yield Site(process, Memory(process.pid), player, backend)


RARE = (
    "an endless body of short texts", "an endless body that nests", "an endless body of tiny chunks",
    "endless comments", "endless empty lines", "endless events", "endless events in tiny chunks",
    "endless events that say nothing",
)  # fmt: skip
"""Cases that differ from another one in the pieces alone; the gateway works for as long as they are sent."""


@pytest.mark.parametrize(
    "flood",
    [pytest.param(flood, id=name, marks=[pytest.mark.long] * (name in RARE)) for name, flood in FLOODS.items()],
)
async def test_no_agent_makes_the_gateway_hold_much(flood: Flood, site: Site, request: pytest.FixtureRequest) -> None:
    site.memory.begin()
    sent, waited = await flooded(flood, site)
    growth, ever = site.memory.growth, site.memory.ever
    # The next call is served, and by another connection.
    assert await good_call(site.process) == RESULT
    name = request.node.callspec.id
    held = f"{growth / (1 << 20):.1f} MiB held"
    sys.stdout.write(f"{name}: {sent / (1 << 20):.1f} MiB sent, {held}, others waited {waited * 1e3:.0f} ms\n")
    assert growth < MOST
    # Memory freed before, which may be reused, cannot hold all of this one.
    assert ever < ENOUGH
    assert waited < WAITS


async def flooded(flood: Flood, site: Site) -> tuple[int, float]:
    """Have a client call, and the agent send until it cannot or has sent enough.

    Gives how much that was, and the longest that another caller waited.
    """
    process, player, backend = site.process, site.player, site.backend
    # A connection that rests would be taken; the flood begins with a new one.
    await backend.until(lambda: all(wire.gone for wire in backend.wires))
    player.play(flood.script)
    client = await connected(process)
    await client.send(request_of(flood))
    reading = asyncio.ensure_future(drained(client)) if flood.reads else None
    await backend.until(lambda: player.wire is not None)
    wire = player.wire
    assert wire is not None
    if flood.ends:
        await backend.until(lambda: wire.gone)
        assert await good_call(process) == RESULT
    loop = asyncio.get_running_loop()
    end, before, waited = loop.time() + PATIENCE, -1, 0.0
    while not wire.gone and wire.sent < ENOUGH and loop.time() < end and not (wire.stuck and wire.sent == before):
        before, began = wire.sent, loop.time()
        assert await good_call(process) == RESULT
        waited = max(waited, loop.time() - began)
        await asyncio.sleep(0.25)
    client.leave()
    if reading is not None:
        await reading
    await backend.until(lambda: wire.gone)
    return wire.sent, waited


def request_of(flood: Flood) -> bytes:
    return request("POST", "/echo", STREAM if flood.stream else CALL, [JSON])


async def drained(client: Client) -> None:
    """Read and forget all that comes."""
    try:
        while await client.reader.read(1 << 20):
            pass
    except ConnectionError:
        return
