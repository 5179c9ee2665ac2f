"""The upstream side is tested on both loops."""

from tests.loops import both_loops
from tests.support.grpc_agent import grpc_over

__all__ = ("grpc_over",)

anyio_backend = both_loops
