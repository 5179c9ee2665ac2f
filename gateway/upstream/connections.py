"""The connections to one origin: bounded, reused newest first, never after anything odd.

A *slot* is the right to have one connection. It is held by a connection that rests in the pool, or by a request from
the moment it gets a connection, or begins to make one, until its answer is complete or given up. While anybody queues
there is neither a free slot nor a resting connection: both go straight to whoever has waited longest.
"""

import asyncio
import math
import ssl
from collections import deque
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from gateway.a2a.fault import Overloaded, UpstreamConnect, UpstreamReset
from gateway.tls_failure import tls_failure
from gateway.upstream.connection import Connection, closed, closing
from gateway.upstream.failure import TlsFailed
from gateway.upstream.plain_head import PlainHeads
from gateway.upstream.read_buffer import ReadBuffer
from gateway.upstream.response import Response


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a pool connects; only ever one that is written in the configuration.

    Attributes:
        scheme: `http` or `https`.
        host: Name or address; an IPv6 address without brackets.
    """

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Value of the Host header: the port only where it is not the scheme's own (RFC 9112 §3.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What one pool may hold.

    Attributes:
        connections: Most connections at a time, resting ones included.
        queue: Most requests that wait for a connection.
        queue_timeout: Seconds that one may wait.
        idle: Seconds that a connection may rest; below the 5 s after which uvicorn and Node.js close theirs.
        header_bytes: Most bytes in the head of an answer, interim answers included.
        header_count: Most headers in it.
    """

    connections: int = 100
    queue: int = 100
    queue_timeout: float = 1.0
    idle: float = 4.0
    header_bytes: int = 32 * 1024
    header_count: int = 100


DEFAULT_LIMITS = PoolLimits()

_NAME_FOR = 25.0
"""Seconds that a connection to a name is used anew: calls without a pause would keep one to an address that the name
has lost. Safety R10 asks for 30 at most, and one that rests is looked at when it is taken."""


def shows(context: ssl.SSLContext, chain: Path, key: Path) -> ssl.SSLContext:
    """The same, with a certificate that the gateway shows to whoever asks for one.

    Raises:
        OSError: as `client_tls`; the files were there when they were checked.
    """
    context.load_cert_chain(chain, key)
    return context


def client_tls(ca_file: str | None = None) -> ssl.SSLContext:
    """How agents are verified: always, by name, with TLS 1.2 or later. Costs milliseconds; make one, share it.

    The environment has no say (safety K9): neither SSL_CERT_FILE and SSL_CERT_DIR nor SSLKEYLOGFILE are read, as
    `ssl.create_default_context` would.

    Args:
        ca_file: PEM file of the authorities to trust instead of the system's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
        return context
    system = ssl.get_default_verify_paths()
    cafile = system.openssl_cafile if Path(system.openssl_cafile).is_file() else None
    context.load_verify_locations(cafile=cafile, capath=system.openssl_capath)
    return context


class ConnectionPool:
    """The connections to one origin."""

    def __init__(
        self,
        origin: Origin,
        limits: PoolLimits = DEFAULT_LIMITS,
        *,
        tls: ssl.SSLContext | None = None,
        address: str | None = None,
        server_name: str | None = None,
        buffer: ReadBuffer | None = None,
    ) -> None:
        """Connect nowhere yet.

        Args:
            address: One of those that the origin's host has, where connections go to no other.
            buffer: Shared between the pools of a process; made here if it is left out.
            server_name: What is asked for over TLS and has to be on the certificate, instead of the origin's host.
            tls: From `client_tls`, shared between pools; made here if it is left out and the scheme is `https`.
        """
        self.origin = origin
        self._host = origin.host if address is None else address
        self._server_name = server_name or origin.host
        self._named = not _is_address(self._host)
        self._limits = limits
        self._tls = (tls or client_tls()) if origin.scheme == "https" else None
        self._slots = 0
        # Insertion order is age: the newest is taken first, and any one leaves in constant time.
        self._resting: dict[Connection, None] = {}
        self._queue: deque[asyncio.Future[Connection | None]] = deque()
        self._open: set[Connection] = set()
        self._closed = False
        self._emptied = asyncio.Event()
        self._plain = PlainHeads(limits.header_bytes, limits.header_count)
        self._buffer = ReadBuffer() if buffer is None else buffer

    @property
    def active(self) -> int:
        """Connections that serve a request, or are being made for one."""
        return self._slots - len(self._resting)

    @property
    def idle(self) -> int:
        """Connections that rest."""
        return len(self._resting)

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection."""
        return len(self._queue)

    async def request(
        self,
        head: bytes,
        body: bytes,
        *,
        connect: float,
        first_byte: float,
        repeatable: bool,
        fresh: bool = False,
    ) -> Response:
        """Send a request; returns when the head of the answer is there.

        A request that met a connection which the agent had closed meanwhile is sent once more, on a new connection,
        if it is `repeatable`: nothing proves that the agent has not seen it. Cancellation closes the connection, or
        leaves the queue.

        Args:
            head: The complete head, as `request_head` makes it.
            connect: Seconds to connect in, name look-up and TLS included.
            first_byte: Seconds from the first byte sent to the complete head of the answer, second try included.
            repeatable: Whether the agent may see the request twice.
            fresh: Whether it goes on a new connection, whatever rests: the agent is known to have closed others.

        Raises:
            UpstreamConnect: no connection; nothing was sent.
            UpstreamTimeout: no answer in time.
            UpstreamReset: the agent closed before it answered.
            UpstreamProtocol: the answer is no HTTP.
            Overloaded: too many wait for a connection, or this one waited too long.
            Unsent: the pool is closed.
            Draining: it was closed meanwhile.
        """
        connection = (None if fresh else self._newest()) or await self._obtain(connect, fresh=fresh)
        deadline = connection.loop.time() + first_byte
        try:
            return await connection.exchange(head, body, deadline)
        except UpstreamReset:
            if not repeatable or not connection.stale or self._closed:
                raise
        connection = await self._obtain(connect, fresh=True)
        return await connection.exchange(head, body, deadline)

    async def aclose(self) -> None:
        """Close every connection, cutting what is on its way; returns when none is left."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(closed())
        for connection in tuple(self._open):
            connection.fail(closing())
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    # ---- Getting a connection ----------------------------------------------------------------------------------

    def _newest(self) -> Connection | None:
        """The connection that rested last, its slot with it; or None."""
        # Newest first: the old ones idle out instead of being kept warm in turn.
        while self._resting:
            connection, _ = self._resting.popitem()
            if connection.usable():
                return connection
            connection.drop()
            self._slots -= 1
        return None

    async def _obtain(self, connect: float, *, fresh: bool) -> Connection:
        """A new connection, or the next one that comes free where there are too many.

        Args:
            fresh: Whether only the place of that one is of use.
        """
        if self._closed:
            raise closed()
        if self._resting and self._slots >= self._limits.connections:
            # A second try wants a connection that cannot be stale; the oldest resting one makes room.
            next(iter(self._resting)).drop()
        if self._slots < self._limits.connections:
            self._slots += 1
        else:
            connection = await self._turn()
            if connection is not None:
                if not fresh and connection.usable():
                    return connection
                connection.drop()
        return await self._connect(connect)

    async def _turn(self) -> Connection | None:
        """Queue for a slot; it may come with a connection."""
        if len(self._queue) >= self._limits.queue:
            raise self._overloaded("queue is full")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._queue.append(turn)
        alarm = loop.call_later(self._limits.queue_timeout, self._expire, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(turn)
            elif turn.exception() is None:
                # The slot arrived in the same moment as the cancellation.
                self._pass_on(turn.result())
            raise
        finally:
            alarm.cancel()

    def _expire(self, turn: "asyncio.Future[Connection | None]") -> None:
        if not turn.done():
            self._leave(turn)
            turn.set_exception(self._overloaded("waited too long"))

    def _leave(self, turn: "asyncio.Future[Connection | None]") -> None:
        if turn in self._queue:
            self._queue.remove(turn)

    def _overloaded(self, detail: str) -> Overloaded:
        return Overloaded(
            "too many calls wait for this agent",
            detail=f"{detail}: {self.active} active, {self.waiting} waiting at {self._place}",
            retry_after=max(1.0, math.ceil(self._limits.queue_timeout)),
        )

    async def _connect(self, seconds: float) -> Connection:
        """Use a slot for a new connection; the slot is free again if there is none."""
        loop = asyncio.get_running_loop()
        limits = self._limits
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
                connection.retires = loop.time() + _NAME_FOR
        except TimeoutError as error:
            raise self._unreachable(f"not connected after {seconds:g} s") from error
        # UnicodeError: a host that IDNA cannot encode.
        except (OSError, UnicodeError) as error:
            failure = None if self._tls is None else tls_failure(error, connecting=True)
            if failure is not None:
                said = f" ({error})" if str(error) else ""
                detail = f"{self._place}: TLS: {failure}{said}"
                raise TlsFailed(_UNREACHABLE, detail=detail, failure=failure) from error
            raise self._unreachable(str(error)) from error
        finally:
            if not connected:
                connection.drop()
                # uvloop 0.23 does not call `connection_lost` where `create_connection` is cancelled after
                # `connection_made`; can go when test_a_call_can_be_cancelled_at_any_turn_of_the_loop passes without.
                self.gone(connection)
                self._pass_on(None)
        return connection

    def _unreachable(self, detail: str) -> UpstreamConnect:
        return UpstreamConnect(_UNREACHABLE, detail=f"{self._place}: {detail}")

    @property
    def _place(self) -> str:
        return f"{self.origin.scheme}://{self.origin.authority}"

    # ---- Giving it back ------------------------------------------------------------------------------------------

    def _pass_on(self, connection: Connection | None) -> None:
        """Give a slot, with its connection if there is one, to whoever waits longest; else let it rest or free it."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None or self._closed:
            self._slots -= 1
        else:
            self._resting[connection] = None
            connection.rest(self._limits.idle)

    # ---- Told by connections -------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A connection is up."""
        self._open.add(connection)

    def settled(self, connection: Connection, *, reusable: bool) -> None:
        """An exchange is over."""
        if reusable and not self._queue and not self._closed:
            # As `_pass_on`, in nearly every case.
            self._resting[connection] = None
            connection.rest(self._limits.idle)
        else:
            self._pass_on(connection if reusable else None)

    def dropped(self, connection: Connection) -> None:
        """A connection was closed outside of an exchange."""
        if connection in self._resting:
            del self._resting[connection]
            self._pass_on(None)

    def gone(self, connection: Connection) -> None:
        """A connection is down."""
        self._open.discard(connection)
        if not self._open:
            self._emptied.set()


_UNREACHABLE = "the agent could not be reached"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
