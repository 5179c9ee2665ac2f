"""The gRPC library, loaded so that grpc-core does not write to standard error, past the log.

Its messages name addresses, and agents and unauthenticated clients can cause any number of them. The variable counts
only if it is set before the library is loaded, so every other module imports the library from here.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # type: ignore[import-untyped]
from grpc import aio
from grpc._cython import cygrpc  # type: ignore[import-untyped]

__all__ = ("aio", "cygrpc", "grpc")
