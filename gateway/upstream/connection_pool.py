"""The connections to one origin: bounded, shared fairly between tenants, and reused newest first.

A *place* is the right to have one exchange (`policy/concurrency.py`). A request holds one from the moment that it gets
a connection, or begins to make one, until its answer is complete or given up. There are as many places as connections
may be open, and idle connections make room for new ones, so both together never exceed the limit.

When places run short, tenants take turns by weight. Streams hold their places for hours, so turns are not enough: if a
tenant below its share waits, the newest stream of a tenant above its share ends, or its newest call if it has no
stream, and the client is told `overloaded`.
"""

import asyncio
import math
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from gateway.a2a.fault import Overloaded, UpstreamConnect
from gateway.network.certificate import verifying_context
from gateway.policy.concurrency import ConcurrencyLimiter, Flow, NoSlot
from gateway.telemetry.tls_failure import tls_failure
from gateway.upstream.connection import Connection, closed, closing, read_buffer
from gateway.upstream.outlier_detection import Reclaimed, TlsFailed
from gateway.upstream.response import Response
from gateway.upstream.response_parser import PlainHeads


@dataclass(frozen=True, slots=True)
class Origin:
    """The destination of a pool; always one of the configuration.

    Attributes:
        scheme: `http` or `https`.
        host: Name or address; an IPv6 address without brackets.
    """

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Return the value of the Host header; a default port is left out (RFC 9112 §3.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of one pool.

    Attributes:
        connections: Open connections, idle ones included.
        queue: Requests that wait for a connection.
        queue_timeout: Seconds that a request waits.
        idle: Seconds that a connection stays idle; below the 5 s after which uvicorn and Node.js close theirs.
        header_bytes: Bytes in the head of an answer, interim answers included.
        header_count: Headers in it.
    """

    connections: int = 1024
    queue: int = 100
    queue_timeout: float = 1.0
    idle: float = 4.0
    header_bytes: int = 32 * 1024
    header_count: int = 100


DEFAULT_LIMITS = PoolLimits()

NAME_FOR = 25.0
"""Seconds for which a connection to a name is reused: calls without a pause would keep a connection to an address that
the name has lost. Safety R10 asks for 30 at most."""


def shows(context: ssl.SSLContext, chain: Path, key: Path) -> ssl.SSLContext:
    """Add the gateway's client certificate to a context, and return the context.

    Raises:
        OSError: a file is gone since it was checked.
    """
    context.load_cert_chain(chain, key)
    return context


def client_tls(ca_file: str | None = None) -> ssl.SSLContext:
    """Return the context of connections to agents: `verifying_context`, which speaks HTTP/1.1."""
    context = verifying_context(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


class ConnectionPool:
    """The connections to one origin.

    Attributes:
        connections: All open connections, idle ones included.
        limits: The bounds of the file.
        limiter: Grants connections to tenants.
    """

    def __init__(
        self,
        origin: Origin,
        limits: PoolLimits = DEFAULT_LIMITS,
        *,
        tls: ssl.SSLContext | None = None,
        address: str | None = None,
        server_name: str | None = None,
        buffer: memoryview | None = None,
    ) -> None:
        """Make a pool without connections.

        Args:
            tls: From `client_tls`, shared between pools; made here by default if the scheme is `https`.
            address: The only address of the host to connect to; None for any.
            server_name: The name in the TLS handshake and on the certificate, instead of the origin's host.
            buffer: From `read_buffer`, shared between the pools of a process; made here by default.
        """
        self.origin = origin
        self._host = origin.host if address is None else address
        self._server_name = server_name or origin.host
        self._named = not _is_address(self._host)
        self.limits = limits
        self._tls = (tls or client_tls()) if origin.scheme == "https" else None
        self.limiter = ConcurrencyLimiter(limits.connections, limits.queue, limits.queue_timeout, more=0)
        self._begun = 0
        # In the order of age: the newest is taken first, and any leaves in constant time.
        self._resting: dict[Connection, None] = {}
        self.connections: set[Connection] = set()
        self._closed = False
        self._emptied = asyncio.Event()
        self._plain = PlainHeads(limits.header_bytes, limits.header_count)
        self._buffer = read_buffer() if buffer is None else buffer

    @property
    def active(self) -> int:
        """Return the number of connections that serve a request, or are being made for one."""
        return self.limiter.taken

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""
        return len(self._resting)

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for a connection."""
        return self.limiter.waiting

    async def request(
        self,
        head: bytes,
        body: bytes,
        *,
        connect: float,
        first_byte: float,
        fresh: bool = False,
        tenant: str = "",
        weight: float = 1.0,
        streams: bool = False,
    ) -> Response:
        """Send a request once, and return the answer when its head is there.

        Cancellation closes the connection, or leaves the queue.

        Args:
            head: The complete head, as `request_head` makes it.
            connect: Seconds to connect, DNS and TLS included.
            first_byte: Seconds from the first byte sent to the complete head of the answer.
            fresh: Whether to use a new connection: the agent is known to have closed others.
            tenant: The caller; empty for the gateway itself, for which no other call is ended.
            weight: The tenant's weight in its share of connections.
            streams: Whether the answer may be a stream.

        Raises:
            UpstreamConnect: no connection; nothing was sent.
            UpstreamTimeout: no answer in time.
            UpstreamReset: the agent closed before it answered.
            UpstreamProtocol: the answer is no HTTP.
            Overloaded: too many wait for a connection, or this one waited too long. `Reclaimed` if its connection was
                given to a tenant below its share.
            Unsent: the pool is closed.
            Draining: the pool was closed meanwhile.
        """
        # Other calls of this turn get ready meanwhile, and then all are sent one right after the other: a write between
        # other work wakes an agent that has gone to sleep again (`listener/write_batch.py`).
        await asyncio.sleep(0)
        if self._closed:
            raise closed()
        flow = self.limiter.enter(tenant, weight)
        if flow is None:
            flow = await self._turn(tenant, weight)
        # Without a connection the place is released at once, else at the end of the exchange.
        connection = None if fresh else self.newest()
        if connection is None:
            connection = await self._connect(connect, flow)
        connection.place = flow
        self._begun += 1
        connection.begun = self._begun
        connection.streams = streams
        return await connection.exchange(head, body, connection.loop.time() + first_byte)

    async def aclose(self) -> None:
        """Close every connection and cut open calls; return when no connection is left."""
        self._closed = True
        self.limiter.dismiss(closed)
        for connection in tuple(self.connections):
            connection.fail(closing())
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()

    # ---- Getting a connection ----------------------------------------------------------------------------------

    def newest(self) -> Connection | None:
        """Return the newest idle connection, or None."""
        # Newest first, so that old ones idle out.
        while self._resting:
            connection, _ = self._resting.popitem()
            if connection.usable():
                return connection
            connection.drop()
        return None

    async def _turn(self, tenant: str, weight: float) -> Flow:
        try:
            return await self.limiter.wait(tenant, weight, self._reclaim if tenant else None)
        except NoSlot as error:
            raise Overloaded(
                "too many calls wait for this agent",
                detail=f"{error}: {self.active} active, {self.waiting} waiting at {self._place}",
                retry_after=max(1.0, math.ceil(self.limits.queue_timeout)),
            ) from None

    def _reclaim(self, flow: Flow) -> None:
        """End the newest stream of a tenant, or its newest call if it has no stream."""
        held = [connection for connection in self.connections if connection.place is flow]
        if held:
            newest = max(held, key=lambda each: (each.streams, each.begun))
            what = "subscribe to the task to continue" if newest.streams else "the agent may have acted on this call"
            newest.fail(
                Reclaimed(
                    f"other tenants need this agent's connections: {what}",
                    detail=f"{flow.held} of {self.limits.connections} connections to {self._place} were its tenant's",
                    retry_after=max(1.0, math.ceil(self.limits.queue_timeout)),
                )
            )

    async def _connect(self, seconds: float, flow: Flow) -> Connection:
        """Return a new connection; if there is none, the place is released."""
        loop = asyncio.get_running_loop()
        limits = self.limits
        if self._resting and self.active + len(self._resting) > limits.connections:
            # The oldest idle connection makes room.
            next(iter(self._resting)).drop()
        connection = Connection(self, self._buffer, limits.header_bytes, limits.header_count, plain=self._plain)
        connected = False
        try:
            if self._closed:
                raise closing()
            async with asyncio.timeout(seconds):
                await loop.create_connection(
                    lambda: connection,
                    self._host,
                    self.origin.port,
                    ssl=self._tls,
                    server_hostname=self._server_name if self._tls is not None else None,
                )
            if self._closed:
                raise closing()
            connected = True
            if self._named:
                connection.retires = loop.time() + NAME_FOR
        except TimeoutError as error:
            raise self._unreachable(f"not connected after {seconds:g} s") from error
        # UnicodeError: a host that IDNA cannot encode.
        except (OSError, UnicodeError) as error:
            failure = None if self._tls is None else tls_failure(error, connecting=True)
            if failure is not None:
                reason = f" ({error})" if str(error) else ""
                detail = f"{self._place}: TLS: {failure}{reason}"
                raise TlsFailed(_UNREACHABLE, detail=detail, failure=failure) from error
            raise self._unreachable(str(error)) from error
        finally:
            if not connected:
                connection.drop()
                # uvloop 0.23 does not call `connection_lost` where `create_connection` is cancelled after
                # `connection_made`; can go when test_a_call_can_be_cancelled_at_any_turn_of_the_loop passes without.
                self.gone(connection)
                flow.leave()
        return connection

    def _unreachable(self, detail: str) -> UpstreamConnect:
        return UpstreamConnect(_UNREACHABLE, detail=f"{self._place}: {detail}")

    @property
    def _place(self) -> str:
        return f"{self.origin.scheme}://{self.origin.authority}"

    # ---- Told by connections -------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Note a connection that is up."""
        self.connections.add(connection)

    def settled(self, connection: Connection, *, reusable: bool) -> None:
        """Note the end of an exchange."""
        if reusable and not self._closed:
            self._resting[connection] = None
            connection.rest(self.limits.idle)
        place, connection.place = connection.place, None
        if place is not None:
            # After that, so that the next request finds the connection.
            place.leave()

    def dropped(self, connection: Connection) -> None:
        """Note an idle connection that was closed."""
        self._resting.pop(connection, None)

    def gone(self, connection: Connection) -> None:
        """Note a connection that is down."""
        self.connections.discard(connection)
        if not self.connections:
            self._emptied.set()


_UNREACHABLE = "the agent could not be reached"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
