"""A gateway process whose issuers are down, hang or talk nonsense, and whose wall clock is set: R15, R16 and R21."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults import calling, figure, ms, now, quantile, site
from tests.e2e.process import gateway_process
from tests.identity.corpus.genuine import good, published
from tests.identity.front import shown
from tests.identity.issuance import ISSUER, key_set_document
from tests.identity.provider import KEYS, Provider, provider
from tests.support.gateway import RESULT, STREAM, agent
from tests.support.scripted import SSE, ScriptedBackend, answers, answers_and_hangs, chunk, whole

pytestmark = pytest.mark.anyio

OTHER = "https://other.example.com"


def issuer(url: str, name: str = ISSUER) -> dict[str, Any]:
    return {
        "issuer": name,
        "audience": "agents",
        "jwks": url,
        "algorithms": ["RS256", "ES256"],
        "tenant_claim": "org",
    }


def asking(backend: ScriptedBackend, issuers: dict[str, Any], **verification: str) -> dict[str, Any]:
    """A file that asks who calls."""
    return {
        **site({"echo": {"backend": backend.url, "isolation": "none"}}),
        "auth": {"issuers": issuers, "verification": verification},
        "tenants": {"acme": ["*"]},
    }


# ---- R15 -------------------------------------------------------------------------------------------------------------


async def test_r15_an_issuer_that_is_down_at_the_start_takes_nobody_elses_service(tmp_path: Path) -> None:
    # Connections are refused until it listens.
    down = socket.socket()
    down.bind(("127.0.0.1", 0))
    theirs_url = f"http://127.0.0.1:{down.getsockname()[1]}{KEYS}"
    async with provider() as served, ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        served.publish(*published())
        issuers = {"corp": issuer(served.url + KEYS), "other": issuer(theirs_url, OTHER)}
        began = time.monotonic()
        with gateway_process(asking(backend, issuers), tmp_path) as process:
            started = time.monotonic() - began
            async with calling(process) as caller:
                theirs, ours = shown(good(time.time(), iss=OTHER)), shown(good(time.time()))
                await caller.until_answered("/echo", 200, [ours])
                slowest = 0.0
                for _ in range(20):
                    took, answer = await caller.timed("/echo", headers=[theirs])
                    slowest = max(slowest, took)
                    assert (answer.status, answer.reasons) == (503, ["AUTH_UNAVAILABLE"])
                    assert answer.header("retry-after") is not None
                    assert (await caller.post("/echo", headers=[ours])).status == 200
                ready = await caller.ask_admin("/-/ready?verbose")
                assert (ready.status, ready.json["checks"]["keys of other"]) == (200, "not read yet")
                assert ready.json["checks"]["keys of corp"] == "read"
                # It is back, at the very address.
                document = key_set_document(*published())
                server = await asyncio.start_server(_serving(document), sock=down)
                try:
                    back = await caller.until_answered("/echo", 200, [theirs])
                finally:
                    server.close()
    figure(
        "R15",
        f"serving {started:.1f} s after its start; 20 calls of that issuer 503 within {ms(slowest)} at the worst, "
        f"as many of another 200; served {back:.1f} s after the keys are there",
        holds=slowest < 0.1 and back < 30,
    )


def _serving(document: bytes) -> Any:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + document)
        writer.close()

    return answer


# ---- R16 -------------------------------------------------------------------------------------------------------------

CALLS = 60


async def test_r16_an_issuer_that_fails_later_costs_nobody_anything(tmp_path: Path) -> None:
    async with provider() as served, ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        served.publish(*published())
        file = asking(backend, {"corp": issuer(served.url + KEYS)}, keys_every="50ms")
        with gateway_process(file, tmp_path) as process:
            async with calling(process) as caller:
                known = shown(good(time.time()))
                await caller.until_answered("/echo", 200, [known])

                async def p99() -> float:
                    """Of calls with a token that is known, and as many with one that nobody has seen."""
                    times = []
                    for number in range(CALLS):
                        fresh = shown(good(time.time(), jti=f"{now()}-{number}"))
                        for token in (known, fresh):
                            took, answer = await caller.timed("/echo", headers=[token])
                            assert answer.status == 200
                            times.append(took)
                    return quantile(times, 0.99)

                well = await p99()
                told = {}
                for name, spoil in FAULTS.items():
                    spoil(served)
                    await _asked(served)
                    told[name] = await p99()
                served.open.set()
    figure(
        "R16",
        f"all of {2 * CALLS} calls answered in each state, p99 {ms(well)} while it is well; "
        + ", ".join(f"{ms(took)} {name}" for name, took in told.items()),
        holds=max(told.values()) < well + 0.05,
    )
    # A call that waited for keys would have waited for two seconds.
    assert max(told.values()) < 2


def _down(served: Provider) -> None:
    served.heads[KEYS] = b"HTTP/1.1 500 Oops\r\n"


def _garbage(served: Provider) -> None:
    served.heads[KEYS] = b"garbage\r\n"


def _hangs(served: Provider) -> None:
    served.open.clear()


FAULTS = {"with errors": _down, "with garbage": _garbage, "while it hangs": _hangs}


async def _asked(served: Provider) -> None:
    """Wait until it was asked once more."""
    before = served.asked[KEYS]
    async with asyncio.timeout(60):
        while served.asked[KEYS] == before:
            await served.knocked.get()


# ---- R21 -------------------------------------------------------------------------------------------------------------

CLOCK = """\
import pathlib, time

_own, _file = time.time, pathlib.Path(__file__).with_name("step")
time.time = lambda: _own() + float(_file.read_text())
"""
"""A script that Python runs first: it sets the wall clock ahead by the seconds in a file."""
EVENT = chunk(
    b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
)


async def test_r21_a_wall_clock_that_is_set_ends_no_session_and_moves_no_timer(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.mkdir()
    step = clock / "step"
    (clock / "sitecustomize.py").write_text(CLOCK)

    def set_by(seconds: float) -> None:
        # In one step: nobody reads half of it.
        (clock / "new").write_text(str(seconds))
        (clock / "new").replace(step)

    set_by(0)
    both = {b"/echo": answers(whole(RESULT)), b"/long": answers_and_hangs(SSE + EVENT)}
    async with provider() as served, ScriptedBackend(agent(both[b"/echo"])) as backend:
        served.publish(*published())
        async with ScriptedBackend(agent(both[b"/long"])) as streaming:
            file = asking(backend, {"corp": issuer(served.url + KEYS)}, remember="1h")
            file["agents"]["long"] = {"backend": streaming.url, "isolation": "none"}
            file["gateway"]["heartbeat"] = "200ms"
            with gateway_process(file, tmp_path, environ={"PYTHONPATH": str(clock)}) as process:
                async with calling(process) as caller:
                    session = shown(good(time.time()))
                    await caller.until_answered("/echo", 200, [session])
                    open_one = await caller.client()
                    await open_one.ask("POST", "/long", STREAM, [(b"content-type", b"application/json"), session])
                    assert (await open_one.head())[0] == 200
                    assert b"WORKING" in await open_one.piece()
                    outcomes = {}
                    for seconds in (60, -60, 7200, -7200, 0):
                        set_by(seconds)
                        fresh = shown(good(time.time() + seconds, jti=str(seconds)))
                        old, new = [(await caller.post("/echo", headers=[each])).status for each in (session, fresh)]
                        outcomes[seconds] = (old, new)
                        # Timers go on as they were: neither is the stream given up nor are its heartbeats late.
                        for _ in range(2):
                            assert (await open_one.piece()).startswith(b":")
    # A token that ends by the wall clock has ended by it two hours later, and is good again when it is set back.
    assert outcomes == {60: (200, 200), -60: (200, 200), 7200: (401, 200), -7200: (200, 200), 0: (200, 200)}
    figure(
        "R21",
        "a session outlives steps of +60 s, -60 s and -2 h; after +2 h it has ended (401), one of that time is good, "
        "and with the clock set back both are; the open stream and its heartbeats do not notice",
    )
