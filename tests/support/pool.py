"""The connections of a backend that is reached over HTTP."""

from gateway.backing import Backing
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.http import HttpUpstream


def pool_of(backing: Backing) -> ConnectionPool:
    assert isinstance(backing.upstream, HttpUpstream)
    return backing.upstream.pool
