"""The library of gRPC keeps to itself what it has to say."""

import os

import pytest

from gateway.a2a.fault import UpstreamProtocol
from gateway.upstream.grpc_channel import GrpcChannel
from tests.doubles.http2_server import http2_server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]


async def test_an_agent_makes_it_write_nothing_past_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    assert os.environ["GRPC_VERBOSITY"] == "NONE"
    async with http2_server(lambda turn: turn.head().trailers((b"grpc-status", b"none"))) as server:
        channel = GrpcChannel(server.url, connect=5)
        try:
            await channel.unary("/a2a.v1.A2AService/GetTask", b"", (), timeout=20)
        except UpstreamProtocol as fault:
            fault.__traceback__ = fault.__cause__ = None
        await channel.aclose()
    assert capfd.readouterr().err == ""
