"""The connection to a Redis: the client of redis-py, and whether it can be used.

    up     calls are sent, over as many connections as calls are on their way, up to a bound
    down   a connection failed, a reply was late, or the server is of no use (`_USELESS`): calls fail at once. Attempts
           follow one another, 0.1 to 0.25 s apart, until one succeeds

An attempt runs a script that writes, so that a replica, a server that is still loading or a read-only server does not
count as usable. A call ends within half a second, and every failure is `StateUnavailable`. A command is sent twice only
if the server no longer had the script, or a cluster redirects it: it was not executed then.

redis-py's client is made without retries and without a time limit for replies: this module waits for them. It closes
a connection whose command is cancelled. So each command is a task of its own that goes on when its caller leaves: its
reply is read and dropped. Large commands use connections of their own, four at a time, with a longer timeout, so that
other calls do not wait behind them.
"""

import asyncio
import logging
import random
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

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
from redis.commands.core import AsyncScript
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.a2a.fault import StateUnavailable
from gateway.background import Background
from gateway.network.address import ip_of
from gateway.network.certificate import verifying_context
from gateway.tasks.state_url import RedisAddress
from gateway.tasks.store import StoreBroken
from gateway.telemetry.tls_failure import kind

Client: TypeAlias = "Redis | RedisCluster"
Reply: TypeAlias = "bytes | int | list[Reply] | None"

SCHEMA: Final = 1
"""The version of the data under a prefix; a gateway refuses a newer one."""
ENTER: Final = """
-- Gives the schema that is there, or now is. What is full may still be read, and emptied.
local found = redis.call('GET', KEYS[1]) or ARGV[1]
local written = redis.pcall('SET', KEYS[1], found)
if written.err and not string.find(written.err, 'OOM', 1, true) then return written end
return found
"""

PATIENCE: Final = 0.45
"""Timeout of a call in seconds, with its turn and its connection."""
LONGER: Final = 4.0
"""Timeout of a large call in seconds."""
CONNECT: Final = 0.25
"""Timeout of a name look-up, a connection and its TLS handshake, in seconds."""
_SENTINEL: Final = 0.1
"""Seconds for a connection to a Sentinel, and for its reply; the next one is asked then."""
LOG_EVERY: Final = 10.0
"""Seconds between two log lines about an outage."""

_AT_ONCE: Final = 16
_LARGE_AT_ONCE: Final = 4
_CONNECTIONS: Final = _AT_ONCE + _LARGE_AT_ONCE + 1
PAUSES: Final = (0.1, 0.25)
# After a stall of the loop, the timer fires before a reply that has already arrived is read.
_SECOND_LOOK: Final = 0.01
_USELESS: Final = frozenset({"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "NOAUTH"})
_FAILED: Final = (RedisConnectionError, RedisTimeoutError, RedisClusterException, OSError)
_POLICY = re.compile(r"allkeys-[a-z]+")
_WORD = re.compile(r"[A-Z]{2,32}(?= |$)")

logger = logging.getLogger("gateway.tasks")


# ---- The client of redis-py ------------------------------------------------------------------------------------------


def open_tls(address: RedisAddress) -> ssl.SSLContext | None:
    """Return the TLS context that verifies the server; None without TLS. The environment is ignored (safety K9).

    Raises:
        StoreBroken: a file of certificates cannot be read.
    """
    if not address.tls:
        return None
    try:
        context = verifying_context(address.authorities or None)
        if address.certificate:
            context.load_cert_chain(address.certificate, address.key or None)
    except OSError as error:
        raise StoreBroken(f"{address.label}: its certificate files cannot be used ({type(error).__name__})") from error
    return context


def _open_client(address: RedisAddress) -> tuple[Client, Sentinel | None]:
    """Return the client for an address, and the Sentinels that it asks for the master.

    Raises:
        StoreBroken: a file of certificates cannot be read.
    """
    tls = open_tls(address)
    plain = _over_tls(Connection, SSLConnection, tls)
    common: dict[str, Any] = {
        "username": address.user or None,
        "password": address.password or None,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT,
        "max_connections": _CONNECTIONS,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
    }
    if address.cluster:
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        # All keys are in one slot: it does not matter whether other slots are served.
        cluster = RedisCluster(startup_nodes=nodes, require_full_coverage=False, **common)
        cluster.connection_kwargs["connection_class"] = plain
        for node in cluster.startup_nodes:
            node.connection_class = plain
        return cluster, None
    common["db"] = address.database
    if address.master:
        sentinels = _open_sentinels(address, plain)
        kind = _over_tls(SentinelManagedConnection, SentinelManagedSSLConnection, tls)
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]  # redis-py does not type it
            address.master, sentinels, connection_class=kind, **common
        )
        return Redis.from_pool(pool), sentinels
    if address.path:
        place: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": address.path}
    else:
        ((host, port),) = address.hosts
        place = {"connection_class": plain, "host": host, "port": port}
    return Redis.from_pool(ConnectionPool(**place, **common)), None


def _open_sentinels(address: RedisAddress, plain: type[Connection]) -> Sentinel:
    settings: dict[str, Any] = {
        "username": address.sentinel_user or None,
        "password": address.sentinel_password or None,
        "socket_timeout": _SENTINEL,
        "socket_connect_timeout": _SENTINEL,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "connection_class": plain,
    }
    sentinels = Sentinel(())  # type: ignore[no-untyped-call]  # redis-py does not type it
    sentinels.sentinels = [
        Redis.from_pool(ConnectionPool(host=host, port=port, **settings)) for host, port in address.hosts
    ]
    return sentinels


def _over_tls(
    plain: type[Connection], over_tls: type[SSLConnection], context: ssl.SSLContext | None
) -> type[Connection]:
    """Return the kind of a connection; over TLS it verifies by our context, for redis-py's reads the environment."""
    if context is None:
        return plain

    class Verifying(over_tls):  # type: ignore[valid-type,misc]  # one of two classes of redis-py
        def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's own
            super().__init__(**kwargs)
            self.ssl_context.context = context

    return Verifying


# ---- Calls, and whether it can be used -------------------------------------------------------------------------------


class RedisClient:
    """Runs commands and scripts; opened and used in one event loop.

    Args:
        clock: Monotonic seconds.
        patience: Seconds for a call, where there is more time than `PATIENCE`.

    Attributes:
        up: Whether calls are sent.

    Raises:
        StoreBroken: a file of certificates cannot be read.
    """

    def __init__(
        self, address: RedisAddress, *, clock: Callable[[], float] = time.monotonic, patience: float | None = None
    ) -> None:
        self.address = address
        self.up = False
        self._clock = clock
        self._patience = max(patience or 0.0, PATIENCE)
        self._longer = max(patience or 0.0, LONGER)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._large_turns = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._client: Client | None = None
        self._sentinels: Sentinel | None = None
        self._scripts: dict[str, AsyncScript] = {}
        self._calls: set[asyncio.Task[Reply]] = set()
        self._background = Background()
        self._down = asyncio.Event()
        self._lookup: asyncio.Future[Any] | None = None
        self._down_since = 0.0
        self._logged_at = -LOG_EVERY
        self._down_logged = False
        self._why = ""

    async def open(self) -> None:
        """Try once; if the server does not answer, keep trying in the background.

        Raises:
            StoreBroken: it answers, and can never work as it is configured.
        """
        self._down_since = self._clock()
        try:
            await self.enter()
        except StateUnavailable:
            self._down.set()
        except BaseException:
            await self.aclose()
            raise
        self._background.start("redis", self._stay)

    async def aclose(self) -> None:
        """Close the connections; callers that still wait get `StateUnavailable`."""
        self.up = False
        await self._background.aclose()
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        if self._sentinels is not None:
            await self._sentinels.aclose()

    async def run(
        self, script: str, keys: Sequence[bytes], args: Sequence[bytes] = (), *, large: bool = False
    ) -> Reply:
        """Run a script, and return its result.

        Cancelling is safe, and does not undo it.

        Raises:
            StateUnavailable: it is unknown whether the script was run. While the server is down this is raised without
                waiting, so a caller that retries must yield to the loop in between.
        """
        known = self._scripts.get(script)
        if known is None:
            if self._client is None:
                raise unavailable("Closed")
            known = self._scripts[script] = self._client.register_script(script)
        return await self._call(known, keys, args, large=large)

    async def ask(self, *words: bytes | str, large: bool = False) -> Reply:
        """Run one command; as `run`."""
        if self._client is None:
            raise unavailable("Closed")
        return await self._call(self._client.execute_command, *words, large=large)

    async def enter(self) -> None:
        """Check that the server permits every command that is needed; the client is up then.

        Raises:
            StoreBroken: it does not, until an operator changes its configuration.
            StateUnavailable: it does not at the moment.
        """
        if self._client is None:
            self._scripts.clear()
            self._client, self._sentinels = _open_client(self.address)
        # A cluster, or Sentinels, may have to be asked one after another.
        patience = self._patience + CONNECT * max(0, min(len(self.address.hosts), 3) - 1)
        client = self._client
        try:
            await self._look_up()
            # The name may point to another server now, so idle connections are closed.
            if isinstance(client, RedisCluster):
                await client.aclose()
            else:
                await client.connection_pool.disconnect(inuse_connections=False)
            enter = client.register_script(ENTER)
            schema = await self._finished(enter((self.address.named("schema"),), (b"%d" % SCHEMA,)), patience)
        except Exception as error:
            if remedy := _remedy(error, self.address):
                raise StoreBroken(f"{self.address.label}: {remedy}") from error
            word = _word(error, connecting=self.address.tls)
            self._tell(word, is_down=True)
            raise unavailable(word) from error
        if not isinstance(schema, bytes) or not schema.isdigit() or int(schema) > SCHEMA:
            raise StoreBroken(f"{self.address.label}: {_foreign(self.address)}")
        self.up = True
        self._down.clear()
        if self._down_logged:
            self._down_logged = False
            logger.warning("%s answers again, after %.1f s", self.address.label, self._clock() - self._down_since)
        await self._warn_of_eviction()

    # ---- Calls -------------------------------------------------------------------------------------------------------

    async def _call(self, command: Callable[..., Coroutine[Any, Any, Any]], *args: object, large: bool) -> Reply:
        turns, patience = (self._large_turns, self._longer) if large else (self._turns, self._patience)
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        if self.up:
            try:
                async with asyncio.timeout_at(until):
                    await turns.acquire()
            except TimeoutError:
                raise unavailable("Overloaded") from None
            if not self.up:
                turns.release()
        if not self.up:
            raise unavailable(f"Down, {self._why}" if self._why else "Down")
        try:
            return await self._finished(command(*args), until - clock(), turns)
        except Exception as error:  # noqa: BLE001 - redis-py's, the system's, and those of what reads replies
            word = _word(error)
            # A large answer may be late over a slow line; that is no reason to refuse all other calls.
            is_late = large and isinstance(error, TimeoutError)
            is_down = word in _USELESS or (isinstance(error, _FAILED) and not is_late)
            if is_down and self.up:
                self.up = False
                self._down_since = self._clock()
                self._down.set()
            self._tell(word, is_down=is_down)
            raise unavailable(word) from None

    async def _finished(
        self, work: Coroutine[Any, Any, Any], patience: float, turns: asyncio.Semaphore | None = None
    ) -> Reply:
        """Return the result of work, which outlives its caller and is cancelled at its deadline."""
        task: asyncio.Task[Reply] = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)

        def ended(task: asyncio.Task[Reply]) -> None:
            self._calls.discard(task)
            if turns is not None:
                turns.release()
            if not task.cancelled():
                # The caller may have left.
                task.exception()

        task.add_done_callback(ended)
        await asyncio.wait((task,), timeout=patience)
        if not task.done():
            await asyncio.wait((task,), timeout=_SECOND_LOOK)
        if not task.done():
            task.cancel()
            raise TimeoutError
        if task.cancelled():
            raise RedisConnectionError
        return task.result()

    # ---- Coming back -------------------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        while True:
            await self._down.wait()
            try:
                await self.enter()
            except (StateUnavailable, StoreBroken) as error:
                if isinstance(error, StoreBroken):
                    self._tell(str(error).removeprefix(f"{self.address.label}: "), is_down=True)
                await asyncio.sleep(random.uniform(*PAUSES))  # noqa: S311 - jitter

    async def _look_up(self) -> None:
        """Wait for the names of servers, one lookup at a time.

        The thread of an unanswered lookup cannot be stopped: with one lookup per attempt, all threads of the loop would
        soon wait for names.
        """
        names = [host for host, _ in self.address.hosts if ip_of(host) is None]
        if not names:
            return
        lookup = self._lookup
        if lookup is None or lookup.done():
            loop = asyncio.get_running_loop()
            lookups = (loop.getaddrinfo(name, None) for name in names)
            lookup = self._lookup = asyncio.gather(*lookups, return_exceptions=True)
        await asyncio.wait((lookup,), timeout=CONNECT)
        if not lookup.done():
            raise TimeoutError

    async def _warn_of_eviction(self) -> None:
        if (client := self._client) is None:
            return
        try:
            # In a cluster it is that of the server that has our keys.
            key = self.address.named("schema").decode()
            where = {"target_nodes": client.get_node_from_key(key)} if isinstance(client, RedisCluster) else {}
            info = cast("Coroutine[Any, Any, Any]", client.info("memory", **where))  # redis-py declares less
            memory = cast("Any", await self._finished(info, self._patience))
        except Exception:  # noqa: BLE001 - good to know, and a user may not be let ask for it
            return
        policy = str(memory.get("maxmemory_policy", ""))
        if _POLICY.fullmatch(policy):
            fact = "evicts the owners of tasks when it is full"
            logger.warning("%s %s (maxmemory-policy %s): set noeviction", self.address.label, fact, policy)

    def _tell(self, why: str, *, is_down: bool) -> None:
        if is_down:
            self._why = why
        now = self._clock()
        if now - self._logged_at < LOG_EVERY:
            return
        self._logged_at = now
        self._down_logged = self._down_logged or is_down
        logger.warning("%s cannot be used: %s; calls that need it are refused", self.address.label, why)


def unavailable(word: str) -> StateUnavailable:
    """Return the error for callers, with a word for the log."""
    message = "the owner of this task cannot be read now; try again"
    return StateUnavailable(message, detail=f"redis: {word}", retry_after=1.0)


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    for _ in range(8):
        if each is None:
            return
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _word(error: BaseException, *, connecting: bool = False) -> str:
    """Return a word for the log: the kind of system error, or the first word of the server's text."""
    for each in _causes(error):
        if isinstance(each, TimeoutError | RedisTimeoutError):
            return "TimeoutError"
        if isinstance(each, OSError):
            return kind(each, connecting=connecting)
        if isinstance(each, RedisError):
            word = each.status_code or (found[0] if (found := _WORD.match(str(each))) is not None else "")
            if word:
                return word
    return type(error).__name__


def _remedy(error: BaseException, address: RedisAddress) -> str:
    """Return the remedy for an error that a retry would repeat; empty for any other error."""
    word, texts = _word(error), [str(each) for each in _causes(error) if isinstance(each, RedisError)]
    for words, remedy in _PLAIN_REMEDIES.items() if word == "ERR" else ():
        if any(each in text for each in words for text in texts):
            return remedy
    if word == "NOPERM":
        return f"the server's user may not do what is needed: let it do +@all -@dangerous on ~{{{address.prefix}}}:*"
    if word == "WRONGTYPE":
        return _foreign(address)
    return _REMEDIES.get(word, "")


def _foreign(address: RedisAddress) -> str:
    fact = f"the keys under the prefix {address.prefix} belong to a newer gateway or another program"
    return f"{fact}: use a newer gateway, or another `prefix`"


_UNKNOWN: Final = "the server does not know the user or the password of the URL: write those that it knows"
_REMEDIES: Final = {
    "WRONGPASS": _UNKNOWN,
    "NOAUTH": "the server asks for a password: write redis://:PASSWORD@…",
    "MOVED": "the server is a node of a cluster, and another has the keys: write redis+cluster://HOST:PORT",
}
"""By the first word of the server's error."""
_PLAIN_REMEDIES: Final = {
    # Servers that are too old have no specific first word for these errors.
    ("AUTH", "invalid password"): _UNKNOWN,
    ("DB index", "SELECT"): "the server has no such database: write another number, or none (a cluster has only 0)",
    ("unknown command 'SENTINEL", "unknown command `SENTINEL"): "the server is no Sentinel: write redis://HOST:PORT",
    ("unknown command",): "the server does not offer EVALSHA and SCRIPT LOAD: use one that does",
    ("cluster support disabled",): "the server is no node of a cluster: write redis://HOST:PORT",
}
"""By a part of its text, if that word is ERR."""
