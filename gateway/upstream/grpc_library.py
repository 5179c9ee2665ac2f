"""The library of gRPC as it is to be loaded: it writes to the standard error by itself, past the log.

What it says there names addresses, and agents can make it say more than anyone can read. Only what is set before it is
loaded counts.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # type: ignore[import-untyped]
from grpc import aio

__all__ = ("aio", "grpc")
