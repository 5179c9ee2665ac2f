"""After the gateway has stopped, or failed to start, nothing of it is left."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.listener.server import ListenFailed
from tests.support.assembly import CARD, SECURED, Held, assembled, certified, streaming, taken, until
from tests.support.gateway import CALL, JSON, RESULT, STREAM, agent, running
from tests.support.scripted import ScriptedBackend, Wire, answers, whole

pytestmark = pytest.mark.anyio


def descriptors() -> set[str]:
    """Return the open file descriptors, as number and target."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{entry.name} {entry.readlink()}")
    return found


def threads() -> set[threading.Thread]:
    """Threads but those of the loop's own pool, which the loop ends."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


async def left_by(work: Callable[[], Coroutine[Any, Any, None]]) -> tuple[set[Any], set[str], set[threading.Thread]]:
    """The tasks, descriptors and threads that are there after some work and were not before."""
    # The loop's own pool, and what libraries open once, are not ours.
    await asyncio.to_thread(lambda: None)
    tasks, open_before, threads_before = asyncio.all_tasks(), descriptors(), threads()
    await work()
    with suppress(TimeoutError):
        await until(
            lambda: descriptors() <= open_before and asyncio.all_tasks() <= tasks and threads() <= threads_before
        )
    return asyncio.all_tasks() - tasks, descriptors() - open_before, threads() - threads_before


proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts descriptors in /proc")


@proc
async def test_after_the_stop_no_task_descriptor_or_thread_is_left(tmp_path: Path) -> None:
    certified(tmp_path)
    held, stream = Held(), streaming()
    started: list[Gateway] = []

    async def serve_and_stop() -> None:
        async def plays(wire: Wire) -> None:
            await (stream if wire.backend.requests else held)(wire)

        quick = ScriptedBackend(agent(answers(whole(RESULT)), CARD))
        async with quick, ScriptedBackend(agent(plays, CARD)) as backend:
            text = f"""\
            auth:
              issuers:
                corp: {{ issuer: "https://i.test", audience: a, tenant: acme, jwks: "{backend.url}/.well-known/keys" }}
            gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", anonymous: true }}
            tenants: {{ anonymous: [echo, quick, gone], acme: [echo] }}
            defaults: {{ isolation: none }}
            agents:
              echo: "{backend.url}"
              quick: "{quick.url}"
              gone: "http://127.0.0.1:1"
              secure: "https://127.0.0.1:1"
            """
            async with running(text, settled=False) as site:
                started.append(site.gateway)
                await site.gateway.snapshot.backends["echo"].source.settled.wait()
                # Whole calls that leave a connection to rest, one that waits, a stream, a client that rests, and two in
                # the middle of their heads.
                assert (await site.get("/metrics", admin=True)).status == 200
                assert (await site.post("/gone")).json["error"]["code"] == -32603
                assert (await site.post("/quick")).status == 200
                waiting = await site.client()
                await waiting.ask("POST", "/echo", CALL, [JSON])
                await held.asked.wait()
                streamed = await site.client()
                await streamed.ask("POST", "/echo", STREAM, [JSON])
                await stream.asked.wait()
                await site.client()
                half = await site.client()
                await half.send(b"POST /echo HTT")
                await (await site.client(admin=True)).send(b"GET /-/conf")
            # At once: what rests would close by itself some seconds later.
            await quick.all_gone()
            await backend.all_gone()

    assert await left_by(serve_and_stop) == (set(), set(), set())


@proc
@pytest.mark.parametrize("fails", ["public", "admin", "tls", "snapshot", "server"])
async def test_a_start_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    certified(tmp_path)
    key_file = tmp_path / "tls/key.pem"
    key_text = key_file.read_text()

    def broken(*_: object, **__: object) -> None:
        raise OSError("a file is gone")

    async with taken() as address:
        text = SECURED
        if fails in ("public", "admin"):
            key = {"public": "listen", "admin": "admin"}[fails]
            text = text.replace(f"{key}: 127.0.0.1:0", f"{key}: {address}")
        if fails == "snapshot":
            monkeypatch.setattr("gateway.app.Snapshot.build", broken)
        if fails == "server":

            async def start(*_: object) -> None:
                raise OSError("no more descriptors")

            monkeypatch.setattr("gateway.startup.HttpServer.start", start)
        # `agents` that would be asked for their cards.
        text = text.replace("agents: {}", 'agents: { echo: "http://127.0.0.1:1" }')

        async def try_to_start() -> None:
            key_file.write_text(key_text)
            gateway = assembled(text, tmp_path / "gateway.yaml")
            if fails == "tls":
                # After it was checked.
                key_file.write_text("nothing of the kind")
            with pytest.raises((ListenFailed, OSError)):
                await gateway.start()

        assert await left_by(try_to_start) == (set(), set(), set())
