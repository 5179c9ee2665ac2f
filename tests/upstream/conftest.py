"""The upstream side is tested on both loops."""

from tests.doubles.grpc_agent import grpc_over
from tests.loops import both_loops

__all__ = ("grpc_over",)

anyio_backend = both_loops
