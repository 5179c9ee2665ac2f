"""A gateway that is told to stop while two hundred streams are open ends each of them well."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.fleet import serving
from tests.e2e.faults import figure, ms
from tests.e2e.process import gateway_process

pytestmark = pytest.mark.anyio

STREAMS = 200
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Go"}]}
SEND = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": MESSAGE}}
OLD = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "message/stream",
    "params": {
        "message": {"messageId": "m", "kind": "message", "role": "user", "parts": [{"kind": "text", "text": "Go"}]}
    },
}
WAYS: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
    ("/clock", SEND, {"A2A-Version": "1.0"}),
    ("/clock/message:stream", {"message": MESSAGE}, {"A2A-Version": "1.0"}),
    ("/clock", OLD, {}),
)


@pytest.fixture(scope="module")
def fleet() -> Iterator[str]:
    """Agents that would go on for half an hour."""
    with serving(pace=180.0) as agents:
        yield agents


async def test_every_client_sees_whole_events_a_last_one_and_a_clean_end(fleet: str, tmp_path: Path) -> None:
    clock = {"backend": f"{fleet}/clock", "connections": {"max": 2 * STREAMS}}
    gateway = {"drain": {"delay": "60s", "timeout": "60s"}}
    with gateway_process({"gateway": gateway, "agents": {"clock": clock}}, tmp_path) as process:
        begun = asyncio.Semaphore(0)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(trust_env=False, timeout=60, limits=limits) as http, asyncio.TaskGroup() as group:

            async def stream(number: int) -> str:
                path, body, headers = WAYS[number % len(WAYS)]
                async with http.stream("POST", process.url + path, json=body, headers=headers) as answer:
                    pieces = answer.aiter_text()
                    text = await anext(pieces)
                    begun.release()
                    # A body that ends without its end is an error of httpx.
                    return text + "".join([piece async for piece in pieces])

            streams = [group.create_task(stream(number)) for number in range(STREAMS)]
            for _ in range(STREAMS):
                await begun.acquire()
            process.signal(signal.SIGTERM)
            told = time.monotonic()
            while (ready := await http.get(process.admin + "/-/ready")).status_code == 200:  # noqa: ASYNC110 - as it says
                await asyncio.sleep(0.01)
            assert (ready.status_code, ready.text) == (503, "draining\n")
            flipped = time.monotonic() - told
            # Balancers have noticed; what is left is not waited for.
            process.signal(signal.SIGTERM)
        for task in streams:
            events = task.result().split("\n\n")
            assert events[-1] == ""
            assert all(event.startswith(("data: ", "event: error\ndata: ", ": ", ":\n")) for event in events[:-1]), (
                events
            )
            assert "DRAINING" in events[-2]
            assert events[-2].count("DRAINING") == 1
        assert await asyncio.to_thread(process.wait) == 0
        took = time.monotonic() - told
    figure(
        "R12",
        f"{STREAMS} of {STREAMS} open streams end with whole events, an error event and a clean end; not ready "
        f"{ms(flipped)} after SIGTERM, gone {took:.1f} s after it, exit code 0",
        holds=flipped < 1,
    )
