"""A gateway process and an agent, each in a network of its own, and what becomes of calls when the line between breaks.

    unshare -rn python -m tests.e2e.partitioned FOLDER

Nothing is refused and nothing reset: packets are dropped without a word. Prints seconds from the break, by what was
going on, as JSON.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.faults import Caller, calling, now, site
from tests.e2e.process import ROOT, gateway_process
from tests.support.gateway import CALL, JSON, RESULT, STREAM, agent
from tests.support.scripted import SSE, ScriptedBackend, Wire, chunk, whole

GATEWAY, AGENT = "10.99.0.1", "10.99.0.2"
EVENT = chunk(
    b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
)
HANGS = CALL.replace(b'"hi"', b'"hang"')
MOST = 60.0
"""Seconds after which nothing more is waited for."""


async def plays(wire: Wire) -> None:
    """Answers, or begins a stream, or hangs, as it is asked."""
    while True:
        body = (await wire.request()).body
        if b"hang" in body:
            await wire.hang()
        await wire.send(SSE + EVENT if b"Streaming" in body else whole(RESULT))


async def serve() -> None:
    """Be the agent: wait until there is a line, and say where it listens."""
    await asyncio.to_thread(sys.stdin.readline)
    async with ScriptedBackend(agent(plays), host=AGENT) as backend:
        sys.stdout.write(f"{backend.port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


def run(*words: str) -> None:
    subprocess.run(words, check=True)


async def broken(caller: Caller, far: list[str]) -> dict[str, float]:
    """Break the line under a stream, a call that is waited for, and before two others; how long each lasted."""
    assert (await caller.post("/echo")).status == 200
    stream, waits = await caller.client(), await caller.client()
    await stream.ask("POST", "/echo", STREAM, [JSON])
    await stream.head()
    assert b"WORKING" in await stream.piece()
    await waits.ask("POST", "/echo", HANGS, [JSON])
    # Taken by the agent, as one that is asked behind it is answered.
    assert (await caller.post("/echo")).status == 200
    run(*far, "ip", "addr", "del", f"{AGENT}/24", "dev", "there")
    began = now()

    async def stream_ends() -> float:
        seen = b""
        while True:
            piece = await stream.reader.read(65536)
            seen += piece
            if not piece or b"error" in seen:
                assert b"UPSTREAM_RESET" in seen, seen
                return now() - began

    async def call_ends() -> float:
        answer = await waits.reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b"UPSTREAM_RESET" in await waits.reader.readuntil(b"}}") + await waits.reader.read(2000)
        return now() - began

    async def next_call() -> float:
        """On the connection that rests, where there is nobody any more."""
        client, started = await caller.client(), now()
        await client.ask("POST", "/echo", CALL, [JSON])
        await client.reader.readuntil(b"\r\n\r\n")
        return now() - started

    async def new_call() -> float:
        """On a connection of its own."""
        await asyncio.sleep(5)
        client, started = await caller.client(), now()
        await client.ask("POST", "/echo", CALL, [JSON])
        await client.reader.readuntil(b"\r\n\r\n")
        return now() - started

    async with asyncio.timeout(MOST):
        ends = await asyncio.gather(stream_ends(), call_ends(), next_call(), new_call())
    return dict(zip(("stream", "waiting", "next", "new"), ends, strict=True))


async def called(folder: Path, port: int, far: list[str]) -> dict[str, float]:
    """As `broken`, of a gateway before the agent at a port."""
    backend = {"url": f"http://{AGENT}:{port}", "protocol": "jsonrpc", "a2a_version": "1.0"}
    file = {**site({"echo": {"backend": backend}}), "defaults": {"allow_insecure": True}}
    with gateway_process(file, folder) as process:
        async with calling(process) as caller:
            return await broken(caller, far)


def main(folder: Path) -> None:
    run("ip", "link", "set", "lo", "up")
    there = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-m", "tests.e2e.partitioned"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert there.stdin is not None
    assert there.stdout is not None
    try:
        far = ["nsenter", "-t", str(there.pid), "-n"]
        own, end = Path("/proc/self/ns/net").readlink(), time.monotonic() + MOST
        while Path(f"/proc/{there.pid}/ns/net").readlink() == own and time.monotonic() < end:
            time.sleep(0.01)
        run("ip", "link", "add", "name", "here", "type", "veth", "peer", "name", "there")
        run("ip", "link", "set", "there", "netns", str(there.pid))
        run("ip", "addr", "add", f"{GATEWAY}/24", "dev", "here")
        run("ip", "link", "set", "here", "up")
        run(*far, "ip", "addr", "add", f"{AGENT}/24", "dev", "there")
        run(*far, "ip", "link", "set", "there", "up")
        there.stdin.write(b"go\n")
        there.stdin.flush()
        found = asyncio.run(called(folder, int(there.stdout.readline()), far))
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        there.kill()
        there.wait()


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        asyncio.run(serve())
