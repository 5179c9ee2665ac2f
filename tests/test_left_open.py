"""What a test leaves open fails that test, and none that comes after it."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loops import LEFT_OPEN, FastLoop, PlainLoop

ROOT = Path(__file__).parents[1]
LOOPS = pytest.mark.parametrize("kind", [PlainLoop, FastLoop])


async def connected(protocol: Any = asyncio.Protocol) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0)
    transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname()[:2])
    return server, transport


@LOOPS
def test_a_loop_says_what_is_open_when_it_is_closed(kind: Any) -> None:
    loop = kind()
    server, transport = loop.run_until_complete(connected())
    loop.close()
    found = list(LEFT_OPEN)
    LEFT_OPEN.clear()
    assert any("Server" in each for each in found), found
    assert any("Transport" in each for each in found), found
    assert transport.is_closing()
    assert not server.is_serving()


@LOOPS
def test_a_loop_in_which_all_is_closed_says_nothing(kind: Any) -> None:
    async def close() -> None:
        lost = asyncio.Event()

        class Other(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                lost.set()

        server, transport = await connected(Other)
        transport.close()
        async with asyncio.timeout(10):
            await lost.wait()
        server.close()
        await server.wait_closed()

    loop = kind()
    loop.run_until_complete(close())
    loop.close()
    assert LEFT_OPEN == []


LEAVING = """
import asyncio, gc, socket
import pytest
from tests.loops import PLAIN

@pytest.fixture
def anyio_backend():
    return PLAIN

def test_a_socket_that_only_a_circle_has():
    class Circle: pass
    circle = Circle()
    circle.itself, circle.socket = circle, socket.socket()

@pytest.mark.anyio
async def test_a_server_that_somebody_has():
    globals()["server"] = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)

def test_one_that_collects():
    gc.collect()
"""


def test_the_test_that_left_it_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_leaving.py"
    file.write_text(LEAVING)
    asked = [sys.executable, "-m", "pytest", "-rA", "-c", "pyproject.toml", "-p", "tests.conftest", str(file)]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False).stdout
    errors = [line.split(" - ")[0].rpartition("::")[2] for line in said.splitlines() if line.startswith("ERROR ")]
    assert errors == ["test_a_socket_that_only_a_circle_has", "test_a_server_that_somebody_has"], said
    assert "left open: <Server" in said
    assert "PASSED" in next(line for line in said.splitlines() if line.endswith("test_one_that_collects")), said
