"""A soak, from the start of the gateway to its end."""

import asyncio
import itertools
import math
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gateway.demo.fleet import serving
from tests.e2e.process import WAIT, GatewayProcess, gateway_process, write
from tests.soak.figure import Look, Trend, look, trend, watch
from tests.soak.load import KEYS, Crowd, Findings
from tests.support.exposition import total

CALLERS = 16
LOAD = 0.6
"""The share of the full load."""
MIB = 1024 * 1024
REMEMBERED = 1000
"""Tasks and contexts of a tenant: the ledger is full before it counts, and forgets as much as it learns.

Until then memory grows, by the pages of its file that are kept (16 MiB at most) and by the names that it knows to be
there (docs/limits.md says how much that comes to with the bounds that it has by itself).
"""
TURNS = 4
"""Different files that come one after the other; what the gateway says of agents that were is bounded so."""


@dataclass(frozen=True, slots=True)
class Length:
    """The durations of a soak, in seconds.

    Attributes:
        full: At full load, which is measured and warms the gateway up.
        warm: At the load that is asked for, before it counts.
        counted: Seconds that count.
        reload: Between two changes of the file.
    """

    full: float
    warm: float
    counted: float
    reload: float


@dataclass(frozen=True, slots=True)
class Soaked:
    """The result of a soak.

    Attributes:
        findings: Of all calls.
        full: Calls per second at full load.
        rate: Calls per second while it counted.
        busy: The share of one core that the gateway took then.
        looks: At the gateway then.
        before: The gateway's resources at rest, after it had been called for the first time.
        after: The same at the end.
        reloads: Files that were read, by what became of them.
        left: Objects open at the end, by name.
    """

    findings: Findings
    full: float
    rate: float
    busy: float
    looks: list[Look]
    before: Look
    after: Look
    reloads: Counter[int]
    left: dict[str, float]

    @property
    def resident(self) -> Trend:
        """Bytes of memory."""
        return trend(self.looks, lambda each: each.resident)

    @property
    def private(self) -> Trend:
        """Return the trend of memory that belongs to no file."""
        return trend(self.looks, lambda each: each.private)

    @property
    def descriptors(self) -> Trend:
        """Files and sockets."""
        return trend(self.looks, lambda each: each.descriptors)

    @property
    def counted(self) -> float:
        """For how many seconds it was looked at."""
        return self.looks[-1].at - self.looks[0].at

    def __str__(self) -> str:
        done, looks = self.findings.done, self.looks
        aborts = done["leave_stream"] + done["leave_call"]
        held = [each.descriptors for each in looks]
        ends = [f"{each.resident / MIB:.2f}" for each in (looks[0], looks[-1])]
        quiet = f"{self.before.descriptors} → {self.after.descriptors}"
        lines = (
            f"calls        {done.total():,}, {aborts:,} of them left; {self.rate:.0f} a second in {self.counted:.0f} s",
            f"load         {self.rate / self.full:.0%} of {self.full:.0f} a second; {self.busy:.0%} of a core",
            f"replies      {self.findings.mixed} mixed up, {self.findings.failed} failed",
            f"reloads      {self.reloads[200]} of good files, {self.reloads[422]} of broken ones",
            f"memory       {ends[0]} → {ends[1]} MiB; {grown(self.resident)}, {grown(self.private)} of them private",
            f"descriptors  {min(held)} to {max(held)}, {self.descriptors.slope * 600:+.1f} in 10 min; quiet {quiet}",
        )
        return "\n".join((*lines, *self.findings.told))


def grown(memory: Trend) -> str:
    """In words."""
    error = f" ± {1.96 * memory.error * 600 / MIB:.2f}" if memory.error < math.inf else ""
    return f"{memory.slope * 600 / MIB:+.2f}{error} MiB in 10 min"


def site(agents: str, turn: int) -> dict[str, Any]:
    """The file at a turn: other agents, other connections, other limits; what is called is always there."""
    connections = {"max": 60 + turn % 2}
    return {
        "gateway": {
            "reload": {"watch": False, "poll": "0s"},
            "drain": {"timeout": "5s"},
            "ledger": {"tasks": REMEMBERED, "contexts": REMEMBERED},
        },
        "auth": {"api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in KEYS.items()}},
        "tenants": {
            name: {
                "agents": [f"echo-{name}", "clock", "travel", "crm", f"turn-{turn % TURNS}"],
                "limits": {"streams": 1000 + turn % TURNS},
            }
            for name in KEYS
        },
        "agents": {
            **{
                f"echo-{name}": {
                    "backend": f"{agents}/echo",
                    "match": {"path": "/echo", "key": name},
                    "connections": dict(connections),
                }
                for name in KEYS
            },
            "clock": f"{agents}/clock",
            "travel": f"{agents}/travel",
            "crm": {"by_tenant": dict.fromkeys(KEYS, f"{agents}/echo")},
            f"turn-{turn % TURNS}": f"{agents}/echo",
        },
    }


async def soak(length: Length, folder: Path) -> Soaked:
    """Run it."""
    with serving(pace=0.05) as agents, gateway_process(site(agents, 0), folder, forked=False) as process:
        found = await _soak(length, process, agents, folder)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        return found


async def _soak(length: Length, process: GatewayProcess, agents: str, folder: Path) -> Soaked:
    reloads: Counter[int] = Counter()
    looks: list[Look] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=WAIT, limits=limits) as http:
        crowd = Crowd(http, CALLERS)
        await crowd.calls(1.0)
    before = await _quiet(process)
    async with httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=WAIT, limits=limits) as http:
        crowd = Crowd(http, CALLERS)
        full = await crowd.calls(length.full)
        changing = asyncio.ensure_future(_change(process, agents, folder, length.reload, reloads))
        watching = asyncio.ensure_future(watch(process.pid, looks))
        try:
            await crowd.calls(length.warm, LOAD * full)
            looks.clear()
            rate = await crowd.calls(length.counted, LOAD * full)
        finally:
            for task in (changing, watching):
                task.cancel()
            ended = await asyncio.gather(changing, watching, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    after = await _quiet(process, before.descriptors)
    busy = (looks[-1].busy - looks[0].busy) / (looks[-1].at - looks[0].at)
    left = await _open(process)
    return Soaked(crowd.findings, full, rate, busy, looks, before, after, reloads, left)


async def _change(process: GatewayProcess, agents: str, folder: Path, every: float, reloads: Counter[int]) -> None:
    """Good files and broken ones in turns."""
    async with httpx.AsyncClient(trust_env=False, timeout=WAIT) as http:
        for turn in itertools.count(1):
            await asyncio.sleep(every)
            if turn % 2:
                write(site(agents, turn // 2 + 1), folder)
            else:
                (folder / "gateway.yaml").write_text("version: 1\nagents: { echo: { backend: ftp://x } }\n")
            answer = await http.post(process.admin + "/-/reload")
            assert answer.status_code == (200 if turn % 2 else 422), answer.text
            reloads[answer.status_code] += 1


async def _quiet(process: GatewayProcess, most: int = 0) -> Look:
    """Return a sample once nothing is open; with `most`, once there are at most so many descriptors, or at the end."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        left, found = await _open(process), look(process.pid)
        if not any(left.values()) and (not most or found.descriptors <= most):
            break
        await asyncio.sleep(0.1)
    return found


async def _open(process: GatewayProcess) -> dict[str, float]:
    """Return the gateway's open connections and calls, by metric; asked over a connection that is closed again."""
    names = ("streams_open", "requests_in_flight", "backend_connections")
    text = await asyncio.to_thread(lambda: httpx.get(process.admin + "/metrics", trust_env=False, timeout=WAIT).text)
    return {name: total(text, name) for name in names}
