"""Measurements, round by round: CPU per call, CPU per event, memory per idle stream, and a call among a crowd.

Rounds are interleaved (A B C, A B C, …), so that a machine that is busy for a while is so for everybody.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import uvloop

from benchmarks.edge import agent, nginx
from benchmarks.edge.contestant import ROOT, Contestant, Field, contestants
from benchmarks.edge.load import LoadFailed, address, calls, once, request
from benchmarks.edge.process import free_port
from benchmarks.edge.stream import Stream
from benchmarks.edge.workload import answer, call

_PATIENCE = 60.0
_SETTLE = 1.0
_AT_A_TIME = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One contestant's rounds, in microseconds or bytes."""

    proxy: str
    job: str
    rounds: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median."""
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Crowd:
    """A call to the gateway while many streams and connections rest.

    Attributes:
        worst: Seconds that the slowest call took, wall time, its connection included.
    """

    streams: int
    connections: int
    calls: int
    worst: float


# ---- Calls ---------------------------------------------------------------------------------------------------------


def per_call(
    field: Field, proxies: Sequence[str], connections: Sequence[int], *, rounds: int, seconds: int
) -> dict[int, list[Figure]]:
    """Microseconds of CPU per call, by the number of connections that call at a time.

    Raises:
        LoadFailed: a contestant did not answer every call with the agent's answer.
    """
    port = free_port()
    cheapest = agent.running(field.folder, ROOT, port)
    if nginx.binary() is not None:
        cheapest = nginx.fixed_agent(field.folder, port, answer())
    with cheapest, contestants(field, port, proxies) as found:
        for each in found:
            asyncio.run(check(each))
        return {count: _calls_at(field, found, count, rounds=rounds, seconds=seconds) for count in connections}


async def check(contestant: Contestant) -> None:
    """Call once.

    Raises:
        LoadFailed: the answer is not the agent's.
    """
    if await once(contestant.url, contestant.headers, call(contestant.tenant)) != answer():
        raise LoadFailed(f"{contestant.name} answered something of its own")


def _calls_at(field: Field, found: list[Contestant], connections: int, *, rounds: int, seconds: int) -> list[Figure]:
    used: dict[str, list[float]] = {each.name: [] for each in found}
    for _ in range(rounds):
        for each in found:
            body = call(each.tenant)
            before = each.process.cpu()
            answered = calls(
                each.url, each.headers, body, answer(), connections=connections, seconds=seconds, folder=field.folder
            )
            used[each.name].append((each.process.cpu() - before) / answered * 1e6)
    return [Figure(each.proxy, each.job, tuple(used[each.name])) for each in found]


# ---- Events --------------------------------------------------------------------------------------------------------


def per_event(
    field: Field, proxies: Sequence[str], *, streams: int, events: int, every: float, rounds: int
) -> tuple[list[Figure], dict[str, float]]:
    """Microseconds of CPU per event, and by proxy how many events came in one read of the client.

    Raises:
        LoadFailed: an event is missing.
    """
    port = free_port()
    pace = agent.running(field.folder, ROOT, port, together=streams, events=events, every=every)
    with pace, contestants(field, port, proxies, _JOBS) as found:
        used: dict[str, list[float]] = {each.name: [] for each in found}
        reads: dict[str, int] = {each.proxy: 0 for each in found}
        for each in found:
            asyncio.run(check(each))
        for _ in range(rounds):
            for each in found:
                cpu, read = uvloop.run(_relayed(each, streams, events, every))
                used[each.name].append(cpu / (streams * (events - 1)) * 1e6)
                reads[each.proxy] += read
        together = {proxy: rounds * streams * events / count for proxy, count in reads.items()}
        return [Figure(each.proxy, each.job, tuple(used[each.name])) for each in found], together


async def _relayed(contestant: Contestant, streams: int, events: int, every: float) -> tuple[float, int]:
    async with asyncio.timeout(_PATIENCE + events * every):
        opened = await _open(contestant, streams)
        before = contestant.process.cpu()
        await asyncio.gather(*(stream.ended for stream in opened))
        used = contestant.process.cpu() - before
    if any(stream.events != events for stream in opened):
        raise LoadFailed(f"{contestant.name} lost events")
    return used, sum(stream.reads for stream in opened)


async def _open(contestant: Contestant, count: int) -> list[Stream]:
    opened: list[Stream] = []
    while len(opened) < count:
        more = min(_AT_A_TIME, count - len(opened))
        asked = (Stream.opened(contestant.url, contestant.headers, contestant.tenant) for _ in range(more))
        opened += await asyncio.gather(*asked)
    return opened


_JOBS = ("plain", "path")


# ---- Idle streams --------------------------------------------------------------------------------------------------


def idle(
    field: Field, proxies: Collection[str], *, streams: int, connections: int, tries: int = 20
) -> tuple[list[Figure], Crowd | None]:
    """Bytes of memory per stream that is open and silent, and what a call to the gateway takes beside all of them.

    Raises:
        LoadFailed: a stream or a connection was not to be had, or did not last.
    """
    port = free_port()
    figures = []
    crowd = None
    with agent.running(field.folder, ROOT, port):
        for proxy in proxies:
            with contestants(field, port, [proxy], _IDLE_JOBS[proxy]) as [each]:
                asyncio.run(check(each))
                size, worst = uvloop.run(_resting(each, streams, connections if proxy == "gateway" else 0, tries))
            figures.append(Figure(each.proxy, each.job, (size,)))
            if proxy == "gateway":
                crowd = Crowd(streams, connections, tries, worst)
    return figures, crowd


_IDLE_JOBS: Mapping[str, Sequence[str]] = {
    "gateway": ["path"],
    "before": ["path"],
    "nginx": ["plain"],
    "envoy": ["path"],
    "bare": ["plain"],
}


async def _resting(contestant: Contestant, streams: int, connections: int, tries: int) -> tuple[float, float]:
    """Bytes per stream, and seconds of the slowest of `tries` calls among the crowd."""
    opened: list[Stream] = []
    resting: list[_Resting] = []
    try:
        async with asyncio.timeout(_PATIENCE):
            # The first ones pay for what is allocated once.
            opened = await _open(contestant, _FIRST)
            await asyncio.sleep(_SETTLE)
            before = contestant.process.resident()
            opened += await _open(contestant, streams - _FIRST)
            await asyncio.sleep(_SETTLE)
            size = (contestant.process.resident() - before) / (streams - _FIRST)
            for _ in range(connections):
                _, each = await _called(contestant)
                resting.append(each)
            taken = [(await _called(contestant))[0] for _ in range(tries)]
        if any(stream.ended.done() for stream in opened) or any(each[0].at_eof() for each in resting):
            raise LoadFailed(f"{contestant.name} did not keep what was open")
        return size, max(taken)
    finally:
        for stream in opened:
            stream.leave()
        for _, writer in resting:
            writer.transport.abort()


_FIRST = 10
_Resting = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _called(contestant: Contestant) -> tuple[float, _Resting]:
    """Call on a new connection, which is left open; the seconds from connecting to the answer's end."""
    expected = answer()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(*address(contestant.url))
    writer.write(request(contestant.url, contestant.headers, call(contestant.tenant)))
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or await reader.readexactly(len(expected)) != expected:
        raise LoadFailed(f"{contestant.name} answered something of its own")
    return time.perf_counter() - began, (reader, writer)
