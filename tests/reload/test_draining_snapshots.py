"""A replaced snapshot is released wholly, and holds nobody up meanwhile."""

import gc
import re
import sys
from pathlib import Path

import pytest

from gateway.reload import ReloadResult
from tests.support.assembly import EVENT, streaming, until
from tests.support.gateway import CALL, JSON, STREAM, Client
from tests.support.reloading import ECHO, Site, backends, serving
from tests.support.scripted import ScriptedBackend

pytestmark = pytest.mark.anyio

REMEMBERED = 50
"""Blocks of memory that the process may keep of each reload; a snapshot has hundreds."""


async def test_an_agent_that_is_gone_is_on_the_metrics_until_its_last_stream_is_over(tmp_path: Path) -> None:
    def named() -> set[str]:
        text = site.running.gateway.metrics.render().decode()
        return set(re.findall(r'(?:agent|name)="([^"]*)"', text)) - {"-"}

    def backends_of(agent: str) -> set[str]:
        return {
            labels["backend"] for labels, _ in site.running.series("backend_requests_total") if labels["agent"] == agent
        }

    held = streaming()
    async with backends(ECHO, held, ECHO) as (one, two, three):
        twice = f"{{ backend: [{{ url: '{one.url}', label: a }}, {{ url: '{three.url}', label: b }}] }}"
        async with serving(tmp_path, f"agents: {{ one: {twice}, two: '{two.url}' }}") as site:
            client = await site.running.client()
            await client.ask("POST", "/two", STREAM, [JSON])
            assert (await client.head())[0] == 200
            assert await client.piece() == EVENT
            while backends_of("one") != {"one@a", "one@b"}:
                assert (await site.running.post("/one")).status == 200
            await site.rewrite(f"agents: {{ one: '{one.url}' }}")
            assert (await site.running.post("/one")).status == 200
            assert named() == {"one", "two"}
            assert site.running.metric("streams_open", agent="two") == 1
            held.go.set()
            assert await client.rest() == b""
            await until(lambda: named() == {"one"})
            assert backends_of("one") == {"one"}
            # And it counts from nothing where it is back.
            await site.rewrite(f"agents: {{ one: '{one.url}', two: '{one.url}' }}")
            assert (await site.running.post("/two")).status == 200
            await until(lambda: not site.running.gateway.draining_snapshots)
            assert site.running.metric("requests_total", agent="two") == 1


async def reload_often(site: Site, client: Client, backend: ScriptedBackend, turns: range) -> int:
    """Blocks of memory in use after so many reloads, while callers are refused."""
    for turn in turns:
        several = f"{{ backend: [{{ url: '{backend.url}', label: a }}, {{ url: 'http://127.0.0.1:1', label: b }}] }}"
        report = await site.rewrite(f"agents: {{ one: '{backend.url}', other-{turn % 2}: {several} }}")
        assert report.result is ReloadResult.APPLIED
        for path, status in (("/one", 200), ("/nobody", 404)):
            await client.ask("POST", path, CALL, [JSON])
            assert (await client.answer()).status == status
        # Kept by the test itself.
        site.running.lines.clear()
        backend.requests.clear()
        backend.wires[:] = [wire for wire in backend.wires if not wire.gone]
    await until(lambda: not site.running.gateway.draining_snapshots)
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
async def test_a_gateway_does_not_grow_however_often_it_is_given_another_file(tmp_path: Path, times: int) -> None:
    async with backends(ECHO) as (one,), serving(tmp_path, f"agents: {{ one: '{one.url}' }}") as site:
        client = await site.running.client()
        before = await reload_often(site, client, one, range(20))
        after = await reload_often(site, client, one, range(20, 20 + times))
    assert (after - before) / times < REMEMBERED
