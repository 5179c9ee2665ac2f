"""Makes the client of redis-py that an address asks for: of one server, of a master that Sentinels know, of a cluster.

None of them sends a command twice by itself: what was sent may have been done. Replies have no time limit here;
`redis_client.py` waits for them.
"""

import ssl
from typing import Any, Final, TypeAlias

from redis.asyncio import Connection, ConnectionPool, Redis, RedisCluster, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff

from gateway.tasks.redis_address import RedisAddress

Client: TypeAlias = "Redis | RedisCluster"

CONNECT: Final = 0.25
"""Seconds for a name, a connection and its TLS."""
_SENTINEL: Final = 0.1
"""Seconds for a connection to a Sentinel, and for its reply; the next one is asked then."""


class RedisDial:
    """One client and what it holds.

    Args:
        connections: Most connections to one server.

    Raises:
        StoreBroken: a file of certificates cannot be read.
    """

    def __init__(self, address: RedisAddress, connections: int) -> None:
        self._tls = address.open_tls()
        self._sentinels: Sentinel | None = None
        common: dict[str, Any] = {
            "username": address.user or None,
            "password": address.password or None,
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT,
            "max_connections": connections,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        if address.cluster:
            self.client: Client = self._cluster(address, common)
            return
        common["db"] = address.database
        if address.master:
            self.client = self._master(address, common)
            return
        if address.path:
            place: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": address.path}
        else:
            ((host, port),) = address.hosts
            place = {"connection_class": self._over_tls(Connection, SSLConnection), "host": host, "port": port}
        self.client = Redis.from_pool(ConnectionPool(**place, **common))

    async def memory(self, key: str) -> dict[str, Any]:
        """The section `memory` of INFO, in a cluster that of the server that has a key."""
        client = self.client
        where = {"target_nodes": client.get_node_from_key(key)} if isinstance(client, RedisCluster) else {}
        found: dict[str, Any] = await client.info("memory", **where)
        return found

    async def let_go(self) -> None:
        """Close the connections that nobody uses: behind the name there may be another server now."""
        if isinstance(self.client, RedisCluster):
            await self.client.aclose()
        else:
            await self.client.connection_pool.disconnect(inuse_connections=False)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.client.aclose()
        if self._sentinels is not None:
            await self._sentinels.aclose()

    def _cluster(self, address: RedisAddress, common: dict[str, Any]) -> RedisCluster:
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        # All keys are in one slot: whether others are served is nothing to us.
        cluster = RedisCluster(startup_nodes=nodes, require_full_coverage=False, **common)
        kind = self._over_tls(Connection, SSLConnection)
        cluster.connection_kwargs["connection_class"] = kind
        for node in cluster.startup_nodes:
            node.connection_class = kind
        return cluster

    def _master(self, address: RedisAddress, common: dict[str, Any]) -> Redis:
        entrance: dict[str, Any] = {
            "username": address.sentinel_user or None,
            "password": address.sentinel_password or None,
            "socket_timeout": _SENTINEL,
            "socket_connect_timeout": _SENTINEL,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "connection_class": self._over_tls(Connection, SSLConnection),
        }
        self._sentinels = Sentinel(())  # type: ignore[no-untyped-call]  # redis-py does not type it
        self._sentinels.sentinels = [
            Redis.from_pool(ConnectionPool(host=host, port=port, **entrance)) for host, port in address.hosts
        ]
        kind = self._over_tls(SentinelManagedConnection, SentinelManagedSSLConnection)
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]  # likewise
            address.master, self._sentinels, connection_class=kind, **common
        )
        return Redis.from_pool(pool)

    def _over_tls(self, plain: type[Connection], over_tls: type[SSLConnection]) -> type[Connection]:
        """The kind of a connection; over TLS it verifies by our context, for redis-py's reads the environment."""
        return plain if self._tls is None else _verifying(over_tls, self._tls)


def _verifying(over_tls: type[SSLConnection], context: ssl.SSLContext) -> type[SSLConnection]:
    class Verifying(over_tls):  # type: ignore[valid-type,misc]  # one of two classes of redis-py
        def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's own
            super().__init__(**kwargs)
            self.ssl_context.context = context

    return Verifying
