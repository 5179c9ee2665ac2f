"""The library of gRPC keeps to itself what it has to say."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio
from gateway.a2a.fault import UpstreamProtocol
from gateway.upstream.grpc_channel import GrpcChannel
from tests.support.http2_server import http2_server

async def main() -> None:
    async with http2_server(lambda turn: turn.head().trailers((b"grpc-status", b"none"))) as server:
        channel = GrpcChannel(server.url, connect=5)
        try:
            await channel.unary("/a2a.v1.A2AService/GetTask", b"", (), timeout=20)
        except UpstreamProtocol:
            print("refused")
        await channel.aclose()

asyncio.run(main())
"""


def test_an_agent_makes_it_write_nothing_past_the_log() -> None:
    # In a process of its own: only what is set before the library is loaded counts.
    environ = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environ, capture_output=True, timeout=60, check=True
    )
    assert (ran.stdout, ran.stderr) == (b"refused\n", b"")
