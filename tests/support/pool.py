"""The connections of a backend that is reached over HTTP."""

from gateway.backend.backend import Backend
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.http import HttpUpstream


def pool_of(backend: Backend) -> ConnectionPool:
    assert isinstance(backend.upstream, HttpUpstream)
    return backend.upstream.pool
