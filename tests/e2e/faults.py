"""Shared by tests of faults: clients of a gateway process on raw sockets, and the gateway's metrics."""

import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.process import GatewayProcess
from tests.support.exposition import series
from tests.support.gateway import CALL, JSON, Answer, Client, Pairs


def figure(row: str, text: str, *, holds: bool = True) -> None:
    """Tell what a row of the table of faults came to; `python -m benchmarks.reliability` reads it.

    Args:
        row: Its name, such as `R5`.
        holds: Whether that is within the target of the row; a test fails only at what no busy machine explains.
    """
    sys.stdout.write(f"\n{row}{'' if holds else ' (over the target)'}: {text}\n")


def quantile(values: Iterable[float], part: float) -> float:
    """The value below which such a part of them lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"


def resident(process: GatewayProcess) -> int:
    """Bytes of memory that it holds."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Caller:
    """A client of one gateway process."""

    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        self._clients: list[Client] = []

    async def client(self, url: str = "") -> Client:
        """A connection of its own."""
        place = urlsplit(url or self.process.url)
        client = Client(*await asyncio.open_connection(place.hostname, place.port))
        self._clients.append(client)
        return client

    async def post(self, target: str, body: bytes = CALL, headers: Pairs = ()) -> Answer:
        """One call on a connection of its own."""
        client = await self.client()
        try:
            await client.ask("POST", target, body, (JSON, *headers))
            return await client.answer()
        finally:
            client.writer.close()

    async def timed(self, target: str, body: bytes = CALL, headers: Pairs = ()) -> tuple[float, Answer]:
        """One call, and the seconds that it took, its connection included."""
        began = now()
        answer = await self.post(target, body, headers)
        return now() - began, answer

    async def ask_admin(self, target: str) -> Answer:
        client = await self.client(self.process.admin)
        try:
            await client.ask("GET", target)
            return await client.answer()
        finally:
            client.writer.close()

    async def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Every series of a metric; the prefix is added."""
        return series((await self.ask_admin("/metrics")).body.decode(), name)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        return sum(value for found, value in await self.series(name) if labels.items() <= found.items())

    async def until_answered(
        self, target: str, status: int, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = CALL
    ) -> float:
        """Call until such a status comes; the seconds that it took."""
        began = now()
        async with asyncio.timeout(60):
            while (await self.post(target, body, headers)).status != status:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        return now() - began

    async def aclose(self) -> None:
        """Close every connection, before the gateway is stopped by who then waits for it."""
        for client in self._clients:
            client.leave()
        for client in self._clients:
            with suppress(OSError):
                await client.writer.wait_closed()


def now() -> float:
    return asyncio.get_running_loop().time()


async def lags(caller: Caller) -> dict[float, float]:
    """Return how often the event loop was at most so late, by seconds."""
    series = await caller.series("event_loop_lag_seconds_bucket")
    return {math.inf if labels["le"] == "+Inf" else float(labels["le"]): number for labels, number in series}


def bound(before: Mapping[float, float], after: Mapping[float, float], part: float) -> float:
    """The least bound below which such a part of what was counted between the two lies."""
    counted = {limit: after[limit] - before[limit] for limit in sorted(after)}
    return next(limit for limit, number in counted.items() if number >= part * counted[math.inf])


@asynccontextmanager
async def calling(process: GatewayProcess) -> AsyncIterator[Caller]:
    """Run clients until the end of the block."""
    caller = Caller(process)
    try:
        yield caller
    finally:
        await caller.aclose()


BUSY = 0.1
"""Part of its time that the event loop's thread may wait for a processor; beyond it lags are the machine's."""


class Starved:
    """The share of time that a process's event loop thread waits for a processor, from now on."""

    def __init__(self, process: GatewayProcess) -> None:
        self._file = Path(f"/proc/{process.pid}/task/{process.pid}/schedstat")
        self._began, self._waited = time.monotonic(), self._waits()

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return (self._waits() - self._waited) / (time.monotonic() - self._began)

    def _waits(self) -> float:
        """Seconds so far, as proc(5) has them; 0 where it does not tell."""
        return int(self._file.read_text().split()[1]) / 1e9 if self._file.exists() else 0.0


def waiting(share: float) -> str:
    """The same in words."""
    told = f"its thread waited {share:.0%} of the time for a processor"
    return f"{told}: too busy a machine to tell" if share > BUSY else told


def site(agents: dict[str, Any], **gateway: Any) -> dict[str, Any]:
    """A file that serves agents to anybody; it is not watched."""
    return {"gateway": {"reload": {"watch": False, "poll": "0s"}, **gateway}, "agents": agents}
