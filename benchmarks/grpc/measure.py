"""Measurements, round by round: CPU per call, CPU per event of a stream, memory per idle stream.

Rounds are interleaved (A B C, A B C, …), so that a machine that is busy for a while is so for everybody.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import uvloop

from benchmarks.edge import load as http
from benchmarks.edge import workload
from benchmarks.edge.contestant import ROOT
from benchmarks.edge.load import LoadFailed
from benchmarks.edge.measure import Figure
from benchmarks.grpc import agent
from benchmarks.grpc.contestant import Contestant, Field, contestants
from benchmarks.grpc.load import Streams, calls, once
from benchmarks.grpc.workload import events, is_answer, is_json_answer

_PATIENCE = 60.0
_SETTLE = 1.0
_FIRST = 10


# ---- Calls ---------------------------------------------------------------------------------------------------------


def per_call(
    field: Field, proxies: Sequence[str], together: Sequence[int], *, rounds: int, seconds: int
) -> dict[int, list[Figure]]:
    """Microseconds of CPU per call, by the number of calls at a time.

    Raises:
        LoadFailed: a contestant did not answer every call with the agent's answer.
    """
    with agent.running(field.folder, ROOT) as agents, contestants(field, agents, proxies) as found:
        expected = {each.name: check(each) for each in found}
        return {count: _calls_at(field, found, expected, count, rounds=rounds, seconds=seconds) for count in together}


def check(contestant: Contestant) -> bytes:
    """Call once; the answer, which says what the agent said.

    Raises:
        LoadFailed: it does not.
    """
    if contestant.over_grpc:
        answer = uvloop.run(once(contestant))
        good = is_answer(answer)
    else:
        body = workload.call(contestant.tenant)
        answer = asyncio.run(http.once(_url(contestant), contestant.workload.headers, body))
        good = is_json_answer(answer)
    if not good:
        raise LoadFailed(f"{contestant.name} answered something of its own")
    return answer


def _calls_at(
    field: Field,
    found: list[Contestant],
    expected: Mapping[str, bytes],
    together: int,
    *,
    rounds: int,
    seconds: int,
) -> list[Figure]:
    used: dict[str, list[float]] = {each.name: [] for each in found}
    for _ in range(rounds):
        for each in found:
            before = each.process.cpu()
            answered = _called(field, each, expected[each.name], together=together, seconds=seconds)
            used[each.name].append((each.process.cpu() - before) / answered * 1e6)
    return [Figure(each.proxy, each.job, tuple(used[each.name])) for each in found]


def _called(field: Field, contestant: Contestant, expected: bytes, *, together: int, seconds: int) -> int:
    if contestant.over_grpc:
        return uvloop.run(calls(contestant, expected, together=together, seconds=seconds))
    return http.calls(
        _url(contestant),
        contestant.workload.headers,
        workload.call(contestant.tenant),
        expected,
        connections=together,
        seconds=seconds,
        folder=field.folder,
    )


def _url(contestant: Contestant) -> str:
    return f"http://127.0.0.1:{contestant.port}/"


# ---- Events --------------------------------------------------------------------------------------------------------


def per_event(
    field: Field, proxies: Sequence[str], *, streams: int, count: int, every: float, rounds: int
) -> list[Figure]:
    """Microseconds of CPU per event of a stream.

    Args:
        count: Events of one stream.
        every: Seconds between two of them.

    Raises:
        LoadFailed: an event is missing, or is another than the agent's.
    """
    pace = agent.running(field.folder, ROOT, together=streams, events=count, every=every)
    with pace as agents, contestants(field, agents, proxies, _STREAMING) as found:
        used: dict[str, list[float]] = {each.name: [] for each in found}
        for each in found:
            check(each)
        for _ in range(rounds):
            for each in found:
                cpu = uvloop.run(_relayed(each, streams, count, every))
                used[each.name].append(cpu / (streams * (count - 1)) * 1e6)
        return [Figure(each.proxy, each.job, tuple(used[each.name])) for each in found]


_STREAMING = ("plain", "tenant")


async def _relayed(contestant: Contestant, streams: int, count: int, every: float) -> float:
    first, *rest = events(count)
    async with asyncio.timeout(_PATIENCE + count * every), Streams(contestant) as found:
        await found.more(streams, first)
        before = contestant.process.cpu()
        await asyncio.gather(*(stream.read(rest) for stream in found.opened))
        return contestant.process.cpu() - before


# ---- Idle streams --------------------------------------------------------------------------------------------------


def idle(field: Field, proxies: Collection[str], *, streams: int) -> list[Figure]:
    """Bytes of memory per stream that is open and silent.

    Raises:
        LoadFailed: a stream was not to be had, or did not last.
    """
    figures = []
    with agent.running(field.folder, ROOT) as agents:
        for proxy in proxies:
            with contestants(field, agents, [proxy], _STREAMING) as [each]:
                check(each)
                figures.append(Figure(each.proxy, each.job, (uvloop.run(_resting(each, streams)),)))
    return figures


async def _resting(contestant: Contestant, streams: int) -> float:
    """Bytes per stream."""
    [first] = events(0)
    async with asyncio.timeout(_PATIENCE), Streams(contestant) as found:
        # The first ones pay for what is allocated once.
        await found.more(_FIRST, first)
        await asyncio.sleep(_SETTLE)
        before = contestant.process.resident()
        await found.more(streams - _FIRST, first)
        await asyncio.sleep(_SETTLE)
        size = (contestant.process.resident() - before) / (streams - _FIRST)
        if not all(stream.is_open for stream in found.opened):
            raise LoadFailed(f"{contestant.name} did not keep what was open")
        return size
