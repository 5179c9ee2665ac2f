"""A configuration is read again: what is known of replicas stays known, and nobody who is with one notices."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gateway.backend.backend import Backend
from gateway.reload import ReloadReport, ReloadResult, Trigger
from gateway.upstream.replica import Condition
from tests.support.assembly import EVENT, streaming, until
from tests.support.gateway import JSON, STREAM, Running, agent, bearer, keys, running, whole_file
from tests.support.replicated import asks, count, named, sent
from tests.support.scripted import WAIT, Script, ScriptedBackend, Wire, chunk

pytestmark = pytest.mark.anyio

AUTH = keys(acme="acme") + "tenants: { acme: ['*'] }\n"
OTHER = "  other: http://127.0.0.1:9\n"
EJECT = "    health: { eject: { after: 1, time: 5m } }\n"


class Site:
    """A gateway that serves a file with one agent, at /echo, and replicas a, b and so on."""

    def __init__(self, gateway: Running, file: Path, backends: list[ScriptedBackend]) -> None:
        self.gateway = gateway
        self.file = file
        self.backends = backends

    async def rewrite(self, text: str) -> ReloadReport:
        self.file.write_text(whole_file(text))
        reloader = self.gateway.gateway.reloader
        assert reloader is not None
        return await reloader.reload(Trigger.ADMIN)

    @property
    def backend(self) -> Backend:
        return self.gateway.gateway.snapshot.backends["echo"]

    def condition(self, name: str) -> Condition:
        [found] = [each.condition for each in self.backend.replicas if each.name == name]
        return found

    async def state(self, name: str) -> str:
        """Return the state of a replica as operators see it."""
        page = (await self.gateway.get("/-/agents", admin=True)).json["agents"]
        [echo] = [each for each in page if each["backend"] == "echo"]
        [found] = [each["state"] for each in echo["replicas"] if each["name"] == name]
        return str(found)


def written(backends: list[ScriptedBackend], more: str = "", lines: tuple[str, ...] = ()) -> str:
    replicas = "".join(
        f"      - {{ url: {each.url}, label: {name}{line} }}\n"
        for each, name, line in zip(backends, "abcd", [*lines, *[""] * 4], strict=False)
    )
    return f"agents:\n  echo:\n    backend:\n{replicas}{more}"


@asynccontextmanager
async def site(folder: Path, *scripts: Script, more: str = "", auth: str = "") -> AsyncIterator[Site]:
    file = folder / "gateway.yaml"
    async with AsyncExitStack() as stack:
        backends = [await stack.enter_async_context(ScriptedBackend(each)) for each in scripts]
        text = auth + written(backends, more)
        gateway = await stack.enter_async_context(running(text, path=file, written=True, settled=False))
        yield Site(gateway, file, backends)


async def broken(wire: Wire) -> None:
    """Ends every connection without an answer, once it was asked."""
    await wire.request()


@pytest.mark.parametrize("auth", ["", AUTH], ids=["nobody is proven", "a ledger is kept"])
async def test_a_reload_keeps_ejections_affinity_and_streams(tmp_path: Path, auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    held = streaming()
    scripts = (named("a"), named("b"), agent(broken), agent(held))
    async with site(tmp_path, *scripts, more=EJECT, auth=auth) as there:
        gateway = there.gateway
        client = await gateway.client()
        # The least loaded replica is asked: the stream goes to the last one once it is the only one.
        weights = (", weight: 0", ", weight: 0", ", weight: 0", "")
        await there.rewrite(auth + written(there.backends, EJECT, weights))
        await client.ask("POST", "/echo", STREAM, [JSON, *headers])
        assert (await client.head())[0] == 200
        assert await client.piece() == EVENT
        weights = ("", "", "", ", weight: 0")
        await there.rewrite(auth + written(there.backends, EJECT, weights))
        while not there.condition("c").ejection.is_open:
            await gateway.post("/echo", headers=headers)
        made: list[str] = []
        while {each[0] for each in made} != {"a", "b"}:
            made.append((await sent(gateway, headers=headers))["result"]["task"]["id"])
        before = {name: there.condition(name) for name in "abcd"}
        pools = [each.upstream.pool for each in there.backend.replicas]  # type: ignore[attr-defined]  # over HTTP
        broken_calls = count(there.backends[2])

        for more in (OTHER, "", OTHER):
            # The watcher of the file may have been first.
            report = await there.rewrite(auth + written(there.backends, EJECT, weights) + more)
            assert report.result is not ReloadResult.REFUSED
            assert ("other" in gateway.gateway.snapshot.backends) == bool(more)
        assert {name: there.condition(name) for name in "abcd"} == before
        assert [each.upstream.pool for each in there.backend.replicas] == pools  # type: ignore[attr-defined]  # over HTTP
        assert "ejected" in await there.state("c")
        assert there.condition("d").active == 1
        for each in made:
            assert (await sent(gateway, asks("GetTask", id=each), headers=headers))["result"]["id"] == each
        assert count(there.backends[2]) == broken_calls
        assert gateway.metric("backend_up", backend="echo@c") == 0

        held.last = chunk(EVENT) + chunk(b"")
        held.go.set()
        assert await client.rest() == EVENT
        await until(lambda: there.condition("d").active == 0)


async def test_a_removed_replica_finishes_its_calls_and_is_closed(tmp_path: Path) -> None:
    held = streaming()
    async with site(tmp_path, agent(held), named("b")) as there:
        client = await there.gateway.client()
        await there.rewrite(written(there.backends, lines=("", ", weight: 0")))
        await client.ask("POST", "/echo", STREAM, [JSON])
        assert await client.head()
        assert await client.piece() == EVENT
        await there.rewrite(f"agents: {{ echo: {{ backend: [{{ url: {there.backends[1].url}, label: b }}] }} }}")
        assert "result" in await sent(there.gateway)
        held.go.set()
        assert await client.rest() == b""
        await there.backends[0].all_gone()
        await until(lambda: not there.gateway.gateway.draining_snapshots)


async def test_requests_for_health_go_on_and_are_made_once(tmp_path: Path) -> None:
    asked = 0

    async def play(wire: Wire) -> None:
        nonlocal asked
        request = await wire.request()
        asked += request.target == b"/healthz"

    health = "    health: { path: /healthz, every: 1h, fail_after: 1 }\n"
    async with site(tmp_path, play, agent(broken), more=health) as there:
        await there.gateway.until(lambda: bool(there.condition("a").down) and bool(there.condition("b").down))
        for more in (OTHER, "", OTHER):
            await there.rewrite(written(there.backends, health) + more)
            assert there.condition("a").down
        await until(lambda: not there.gateway.gateway.draining_snapshots)
        assert asked == 1
        assert "down" in await there.state("a")
        await there.rewrite(written(there.backends, health.replace("1h", "2h")))
        await there.gateway.until(lambda: asked == 2)
        assert "down" in await there.state("a")


async def test_removed_replicas_get_no_health_checks(tmp_path: Path) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def hangs(wire: Wire) -> None:
        await wire.request()
        asked.set()
        try:
            await wire.hang()
        finally:
            left.set()

    health = "    health: { path: /healthz, every: 20ms, timeout: 60s }\n"
    async with site(tmp_path, hangs, agent(broken), more=health) as there:
        async with asyncio.timeout(WAIT):
            await asked.wait()
        await there.rewrite(f"agents: {{ echo: {{ backend: {{ url: {there.backends[1].url}, label: b }} }} }}")
        async with asyncio.timeout(WAIT):
            await left.wait()


async def test_addresses_of_a_name_and_the_connections_to_them_stay(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    async with ScriptedBackend(named("a")) as one:
        text = f"agents:\n  echo: {{ backend: {{ url: 'http://localhost:{one.port}', dns: headless }} }}\n"
        async with running(text, path=file, written=True, settled=False) as gateway:
            there = Site(gateway, file, [one])
            balancer = there.backend.balancer
            [known] = balancer.names
            await known[0].settled.wait()
            made = (await sent(gateway))["result"]["task"]["id"]
            stations = dict(known[0].targets)
            await there.rewrite(text + OTHER)
            now = there.backend.balancer
            assert now is not balancer
            assert now.names[0][0] is known[0]
            assert known[0].targets == stations
            assert (await sent(gateway, asks("GetTask", id=made)))["result"]["id"] == made
            await until(lambda: not gateway.gateway.draining_snapshots)

            # Asked otherwise it is another, whose addresses are known before it is put to use.
            await there.rewrite(text.replace("headless }", "headless }, connections: { max: 3 }"))
            last = there.backend.balancer
            assert last.names[0][0] is not known[0]
            assert last.is_settled
            assert (await sent(gateway, asks("GetTask", id=made)))["result"]["id"] == made


async def test_a_task_of_a_replica_that_left_is_told_to_its_owner_alone(tmp_path: Path) -> None:
    auth = keys(acme="acme", globex="globex") + "tenants: { acme: [echo], globex: [echo] }\n"
    async with site(tmp_path, named("a"), named("b"), auth=auth) as there:
        await there.rewrite(auth + written(there.backends, lines=("", ", weight: 0")))
        made = (await sent(there.gateway, headers=(bearer("acme"),)))["result"]["task"]["id"]
        await there.rewrite(auth + written(there.backends).replace("label: a", "label: c"))
        found = {}
        for who in ("acme", "globex"):
            for id_ in (made, "nobody-s"):
                answer = await there.gateway.post("/echo", asks("GetTask", id=id_), [bearer(who)])
                found[who, id_] = answer.status, answer.json["error"]["code"]
        assert found["acme", made][0] == 503
        assert found["globex", made] == found["globex", "nobody-s"] == found["acme", "nobody-s"]


async def test_an_unknown_task_at_another_replica_does_not_end_the_task(tmp_path: Path) -> None:
    more = "    affinity: { gone: other }\n    retry: { max: 0 }\n"
    begun = {"id": "a-1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}

    async def working(wire: Wire) -> None:
        while True:
            await wire.request()
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": begun}}).encode()
            await wire.send(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            )
            await wire.send(body)

    async with site(tmp_path, agent(working), named("b"), more=more, auth=AUTH) as there:
        await there.rewrite(AUTH + written(there.backends, more, ("", ", weight: 0")))
        headers = (bearer("acme"),)
        assert (await sent(there.gateway, headers=headers))["result"]["task"]["id"] == "a-1"
        await there.rewrite(AUTH + written(there.backends, more).replace("label: a", "label: c, weight: 0"))
        answer = await sent(there.gateway, asks("GetTask", id="a-1"), headers=headers)
        assert answer["error"]["code"] == -32001
        ledger = there.gateway.gateway.ledger
        assert ledger is not None
        [known] = await ledger.store.tasks("echo", ["a-1"])
        assert known is not None
        assert (known.state, known.replica) == ("working", "a")
