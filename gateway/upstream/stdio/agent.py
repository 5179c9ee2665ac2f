"""The processes of one agent on stdio: start, restart with backoff, handshake (its card), and end.

A process keeps its tasks in its own memory. So a call about a task goes to the process that made it, a call in a
context to the process that has the context, and any other call to the process with the fewest open calls.

Processes outlive a configuration: an agent whose `Spec` has not changed keeps them, and their tasks (`resources.py`).
Otherwise the new configuration starts its own, and the earlier ones end with their last call.
"""

import asyncio
import logging
import random
import signal
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from gateway.a2a.bindings.jsonrpc import NAMES, read_progress
from gateway.a2a.bindings.stdio import read_message
from gateway.a2a.dialect import Version
from gateway.a2a.fault import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Draining,
    Fault,
    NoHealthyBackend,
    Overloaded,
    UpstreamReset,
)
from gateway.a2a.framing.lsp import LONGEST, Framing
from gateway.a2a.operation import Operation
from gateway.background import Background
from gateway.upstream.stdio.process import Command, ErrorLog, Process, ProcessStartFailed
from gateway.upstream.stdio.rpc import Rpc

LONGEST_FROM_AGENT = 32 * 1024 * 1024
"""The default length of the longest frame from an agent, in bytes: as long as an answer may be."""
NOBODY = ""
"""The tenant of processes that serve all tenants, and of the process that reports the agent's card."""
TENANT_VARIABLE = "A2A_TENANT"
"""The environment variable that names the tenant to a process of that tenant."""
MOST_AFFINITIES = 100_000
"""Tasks and contexts whose process is remembered; the least recently named is forgotten first."""
_LONGEST_ID = 512
_LOOK_AGAIN = 0.1
_END_TOGETHER = 0.2
"""Seconds between the exit of a process and the ends of its pipes."""

EXTENDED = "extended"
PRINTED = "printed"
NONE = "none"
_NO_SUCH_METHOD = frozenset({METHOD_NOT_FOUND.code, INVALID_REQUEST.code, PARSE_ERROR.code})
_NULL = msgspec.Raw(b"null")

logger = logging.getLogger("gateway.upstream.stdio")


class State(StrEnum):
    """The state of a runner, as `/-/agents` shows it."""

    RESTING = "resting"
    """No process runs until the next call: none was needed yet, or it served and exited with 0."""
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    """It failed, and is restarted after a pause."""
    BROKEN = "broken"
    """It keeps failing, and is not restarted for a longer time."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses between failures and restarts, in seconds.

    Attributes:
        first: Pause after the first failure; each next one is twice as long.
        longest: No pause is longer.
        healthy: A process that was ready for so long resets the pauses.
        most: Failures within `window` after which nothing is started for `rest`.
    """

    first: float = 0.5
    longest: float = 30.0
    healthy: float = 60.0
    most: int = 5
    window: float = 60.0
    rest: float = 60.0


class Backoff:
    """The restart backoff of one process."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._failures: deque[float] = deque(maxlen=pace.most)
        self._in_a_row = 0

    def after(self, ready: float, now: float) -> tuple[State, float]:
        """Return the state and the pause in seconds, after a process that was ready for so many seconds."""
        pace = self._pace
        self._in_a_row = 0 if ready >= pace.healthy else self._in_a_row + 1
        if ready < pace.healthy:
            self._failures.append(now)
            if len(self._failures) == pace.most and now - self._failures[0] <= pace.window:
                self._failures.clear()
                return State.BROKEN, pace.rest
        pause = min(pace.first * 2.0 ** min(max(self._in_a_row - 1, 0), 16), pace.longest)
        # Up to a quarter shorter, so that processes that failed together do not start together.
        return State.PAUSED, pause * (1 - random.random() / 4)  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Spec:
    """The settings of one agent's processes. A reload that leaves them equal keeps the processes.

    Attributes:
        card: The source of the card: `extended`, `printed`, `none`, or a method.
        processes: The number of processes; per tenant if each tenant has its own.
        start: Seconds to answer for the first time.
        stop: Seconds to exit once its input is closed, and as many after SIGTERM.
        restart: `always`, `on-failure` or `never`.
        ping: Seconds between pings; 0 for none.
        longest: Bytes of the longest frame from the agent.
        asked: Bytes of the longest frame to it.
        per_tenant: Whether each tenant has processes of its own.
        tenants: Most tenants that have processes at a time.
    """

    command: Command
    card: str = EXTENDED
    framing: Framing = Framing.LSP
    processes: int = 1
    start: float = 30.0
    stop: float = 5.0
    restart: str = "always"
    ping: float = 0.0
    longest: int = LONGEST_FROM_AGENT
    asked: int = LONGEST
    per_tenant: bool = False
    tenants: int = 64
    pace: Pace = Pace()


@dataclass(frozen=True, slots=True)
class CardQuery:
    """The request for an agent's card. A reload may change it; the processes stay.

    Attributes:
        version: The generation that the file writes, or None.
        fields: Header fields of each request except the version, from `header_lines`.
    """

    version: Version | None = None
    fields: bytes = b""


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answer to the request for the card.

    Attributes:
        card: The bytes of its card, or None if it returned none.
        versions: The versions that it answered to, in addition to those of the card.
        query: The request; None if none was sent.
    """

    card: bytes | None = None
    versions: tuple[Version, ...] = ()
    query: CardQuery | None = None


async def shake_hands(rpc: Rpc, card: str, query: CardQuery, seconds: float) -> Handshake:
    """Ask an agent for its card.

    A pipe has no well-known path, and A2A has no method for the public card. So the extended card is requested, in 1.0
    and then in 0.3, or the method that the file names is called. Any answer shows that the agent reads; an error other
    than "method not found" also shows the version.

    Args:
        card: `extended`, `none`, or a method.
        seconds: Timeout of each request.

    Raises:
        UpstreamTimeout, UpstreamReset, NoHealthyBackend, Overloaded: it does not answer.
    """
    if card == NONE:
        return Handshake(query=query)
    asked = (Version.V1_0, Version.V0_3) if query.version is None else (query.version,)
    versions: list[Version] = []
    for version in asked if card == EXTENDED else asked[:1]:
        method = card
        if card == EXTENDED:
            # 0.1 has no such method; any answer to the method of 0.3 shows that the agent is ready.
            method = NAMES[Operation.GET_EXTENDED_CARD, version if version is Version.V1_0 else Version.V0_3]
        fields = query.fields + b"a2a-version: %b\r\n" % version.encode("ascii")
        answer = await rpc.request(method, fields, version, seconds)
        progress = read_progress(answer)
        if card == EXTENDED and progress is not None and progress.error not in _NO_SUCH_METHOD:
            versions.append(version)
        received = read_message(answer)
        result = _NULL if received is None else received.members.get("result", _NULL)
        if result != _NULL:
            return Handshake(bytes(result), tuple(versions), query)
    return Handshake(None, tuple(versions), query)


@dataclass(slots=True)
class ProcessFigures:
    """The counters of one agent.

    Attributes:
        restarts: Starts after the first, of each runner.
        dropped: Frames that went to no call, by reason: `late`, `stray`, `notification`.
    """

    restarts: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class Runner:
    """Keeps one process running, until `stop`.

    Args:
        name: The process, for the log.

    Attributes:
        rpc: The connection, while calls may go there.
        calls: The number of open calls.
        handshake: The last one; None before the first.
        starts: The number of process starts.
        resumes: When the next one is started, in seconds of the loop; None without a pause.
        why: Why the last process ended, or None.
        process: The process; None while there is none.
    """

    def __init__(self, name: str, spec: Spec, pool: "Pool") -> None:
        self.name = name
        self.state = State.RESTING
        self.handshake: Handshake | None = None
        self.starts = 0
        self.resumes: float | None = None
        self.why: str | None = None
        self._spec = spec
        self._pool = pool
        self.process: Process | None = None
        self._rpc: Rpc | None = None
        self._wanted = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def rpc(self) -> Rpc | None:  # noqa: D102 - see above
        is_ready = self.state is State.READY and self._rpc is not None and self._rpc.is_open
        return self._rpc if is_ready else None

    @property
    def pid(self) -> int | None:
        """Return the id of the process, if there is one."""
        return None if self.process is None else self.process.pid

    @property
    def calls(self) -> int:  # noqa: D102 - see above
        return 0 if self._rpc is None else self._rpc.calls

    def want(self) -> None:
        """Start the process if none runs: a call waits for it."""
        self._wanted.set()

    def stop(self) -> None:
        """Fail the open calls and end the process; `run` returns once it is gone."""
        self._stopping.set()
        self._wanted.set()
        if self._rpc is not None:
            self._rpc.close(_shutdown_fault())

    async def run(self) -> None:
        """Start the process, and restart it whenever it ends."""
        backoff, loop = Backoff(self._spec.pace), asyncio.get_running_loop()
        while not self._stopping.is_set():
            ready, is_done = await self._run_once()
            if self._stopping.is_set() or self._spec.restart == "never":
                break
            if is_done and self._spec.restart == "on-failure":
                self._wanted.clear()
                self._become(State.RESTING)
                await self._wanted.wait()
                continue
            state, pause = backoff.after(ready, loop.time())
            if state is State.BROKEN:
                logger.error("%s keeps failing: nothing is started for %.0f s", self.name, pause)
            self.resumes = loop.time() + pause
            self._become(state)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            self.resumes = None
        self._become(State.ENDED)

    async def _run_once(self) -> tuple[float, bool]:
        """Run one process to its end.

        Returns: The seconds for which it was ready, and whether it has served and then exited with 0.
        """
        spec, agent, loop = self._spec, self._pool.agent, asyncio.get_running_loop()
        self._become(State.STARTING)
        self.starts += 1
        agent.figures.restarts += self.starts > 1
        try:
            process = self.process = Process(spec.command)
        except ProcessStartFailed as error:
            self._note(f"it cannot be started: {error}")
            return 0.0, False
        errors = ErrorLog(self.name)
        rpc = self._rpc = Rpc(
            self.name,
            process,
            framing=spec.framing,
            longest=spec.longest,
            asked=spec.asked,
            dropped=agent.figures.dropped,
            learn=self._pool.learn if spec.processes > 1 else None,
        )
        ready_at: float | None = None
        try:
            why = await self._start(process, rpc, errors)
            if not why:
                ready_at = loop.time()
                self._become(State.READY)
                why = await self._watch(process, rpc)
            if not self._stopping.is_set():
                # An exit and the ends of the pipes come in any order.
                await asyncio.wait((process.exited, rpc.broken, errors.ended), timeout=_END_TOGETHER)
            status = process.exited.result() if process.exited.done() else None
            if status is not None:
                why = f"it was ended by signal {-status}" if status < 0 else f"it exited with code {status}"
            self._note(why)
        finally:
            ready = 0.0 if ready_at is None else loop.time() - ready_at
            await self._end(process, rpc)
        # A process that exits without having served has failed, whatever its exit code.
        return ready, status == 0 and (rpc.served > 0 or ready >= spec.pace.healthy)

    async def _start(self, process: Process, rpc: Rpc, errors: ErrorLog) -> str:
        """Connect the process and ask for its card; return why it is not ready, or an empty text."""
        spec = self._spec
        try:
            await process.connect(rpc, errors, rpc.input_closed)
            async with asyncio.timeout(spec.start):
                if spec.card == PRINTED:
                    first = rpc.expect_first()
                    await asyncio.wait((first, rpc.broken), return_when=asyncio.FIRST_COMPLETED)
                    if not first.done() or first.cancelled():
                        return rpc.broken.result()
                    self.handshake = Handshake(first.result())
                else:
                    self.handshake = await shake_hands(rpc, spec.card, self._pool.agent.query, spec.start)
        except TimeoutError:
            return f"no handshake within {spec.start:g} s"
        except OSError as error:
            return f"its pipes cannot be connected: {error.strerror or error}"
        except Fault as fault:
            # It may have failed before the handshake.
            return rpc.broken.result() if rpc.broken.done() else fault.detail or fault.message
        return ""

    async def _watch(self, process: Process, rpc: Rpc) -> str:
        """Wait until the process can no longer be used; return why."""
        ends, pause = (process.exited, rpc.broken), self._spec.ping or None
        while not (await asyncio.wait(ends, timeout=pause, return_when=asyncio.FIRST_COMPLETED))[0]:
            try:
                await rpc.request("ping", b"", Version.V1_0, self._spec.start)
            except Fault as fault:
                return f"it did not answer a ping: {fault.detail or fault.message}"
        return rpc.broken.result() if rpc.broken.done() else "it exited"

    async def _end(self, process: Process, rpc: Rpc) -> None:
        """End the process: at once, or gracefully if the runner is stopped."""
        message = "the agent ended before its answer was complete"
        rpc.close(_shutdown_fault() if self._stopping.is_set() else UpstreamReset(message, detail=self.why or ""))
        if self._stopping.is_set():
            process.close_input()
            if not await process.has_exited(self._spec.stop):
                process.signal(signal.SIGTERM)
                await process.has_exited(self._spec.stop)
        await process.aclose()
        self.process = self._rpc = None

    def _note(self, why: str) -> None:
        if not self._stopping.is_set():
            self.why = why
            logger.warning("%s ended: %s", self.name, why)

    def _become(self, state: State) -> None:
        self.state = state
        self._pool.notice()


def _shutdown_fault() -> Fault:
    return Draining("the gateway is ending this agent", retry_after=1.0)


class Pool:
    """The processes that serve the same tenants."""

    def __init__(self, name: str, spec: Spec, agent: "StdioAgent") -> None:
        self.agent = agent
        names = [name] if spec.processes == 1 else [f"{name} #{number}" for number in range(1, spec.processes + 1)]
        self.runners = tuple(Runner(each, spec, self) for each in names)
        self._background = Background()
        self._running: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._waiting = 0
        self._stopped = False
        self._affinities: OrderedDict[tuple[str, str], Rpc] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Return whether calls are open, or wait for a process."""
        return self._waiting > 0 or any(runner.calls for runner in self.runners)

    @property
    def is_running(self) -> bool:
        """Return whether any of its processes still exists."""
        return not all(task.done() for task in self._running)

    @property
    def handshake(self) -> Handshake | None:
        """Return the last one of a process, or None before the first."""
        return next((runner.handshake for runner in self.runners if runner.handshake is not None), None)

    async def rpc(self, task: str | None, context: str | None, seconds: float) -> Rpc:
        """Return the connection for a call, once there is one.

        Args:
            task: The task that the call is about, or None.
            context: The context of the call, or None.
            seconds: Timeout for a process that is being started.

        Raises:
            NoHealthyBackend: no process is ready by then, or they keep failing.
            Draining: the processes are being ended.
        """
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                while (found := self.rpc_nowait(task, context)) is None:
                    self._refuse_hopeless()
                    self._changed.clear()
                    await self._changed.wait()
                return found
        except TimeoutError as error:
            raise NoHealthyBackend("this agent is still being started", retry_after=1.0, detail=self._why()) from error
        finally:
            self._waiting -= 1

    def rpc_nowait(self, task: str | None = None, context: str | None = None) -> Rpc | None:
        """Return the connection for a call, or None where no process is ready."""
        if not self._running and not self._stopped:
            self._running = [self._background.start(runner.name, runner.run) for runner in self.runners]
        for named in (("task", task or ""), ("context", context or "")):
            known = self._affinities.get(named)
            if known is not None and known.is_open:
                return known
        ready = [runner.rpc for runner in self.runners if runner.rpc is not None]
        if not ready:
            for runner in self.runners:
                runner.want()
            return None
        found = min(ready, key=lambda rpc: rpc.calls)
        if len(self.runners) > 1:
            # The next call of a new context may come before the first is answered.
            self.learn(found, None, context)
        return found

    def learn(self, rpc: Rpc, task: str | None, context: str | None) -> None:
        """Remember which process has a task and a context."""
        for kind, name in (("task", task), ("context", context)):
            if name and len(name) <= _LONGEST_ID:
                self._affinities[kind, name] = rpc
                self._affinities.move_to_end((kind, name))
        while len(self._affinities) > MOST_AFFINITIES:
            self._affinities.popitem(last=False)

    def notice(self) -> None:
        """Wake the calls that wait: the state of a process has changed."""
        self._changed.set()

    def stop(self) -> None:
        """Begin to end every process."""
        self._stopped = True
        for runner in self.runners:
            runner.stop()
        self.notice()

    async def aclose(self) -> None:
        """End every process; return when they are gone."""
        self.stop()
        if self._running:
            await asyncio.wait(self._running)

    def _refuse_hopeless(self) -> None:
        if self._stopped:
            raise _shutdown_fault()
        if all(runner.state in (State.BROKEN, State.ENDED) for runner in self.runners):
            now = asyncio.get_running_loop().time()
            resumes = [runner.resumes - now for runner in self.runners if runner.resumes is not None]
            after = max(min(resumes), 1.0) if resumes else None
            raise NoHealthyBackend("this agent keeps failing", retry_after=after, detail=self._why())

    def _why(self) -> str:
        return next((runner.why for runner in self.runners if runner.why), "")


class StdioAgent:
    """The processes of one agent: one pool, or one for each tenant (`per_tenant`).

    Args:
        name: The key of the backend.

    Attributes:
        query: The request for the card when a process starts.
    """

    def __init__(self, name: str, spec: Spec, query: CardQuery | None = None) -> None:
        self.name = name
        self.spec = spec
        self.query = CardQuery() if query is None else query
        self.figures = ProcessFigures()
        # The least recently used first; then pools of tenants that made room for others.
        self._pools: OrderedDict[str, Pool] = OrderedDict()
        self._leaving: list[Pool] = []
        self._background = Background()
        self._closed = False

    def pool(self, tenant: str) -> Pool:
        """Return the processes for a tenant; the least recently used idle tenant makes room where there are too many.

        Raises:
            Overloaded: all tenants that there is room for have open calls.
            Draining: the processes are being ended.
        """
        if self._closed:
            raise _shutdown_fault()
        if not self.spec.per_tenant:
            tenant = NOBODY
        pool = self._pools.get(tenant)
        if pool is None:
            pool = self._pools[tenant] = self._open(tenant)
        self._pools.move_to_end(tenant)
        return pool

    def runners(self) -> Iterator[tuple[str, Runner]]:
        """Yield every runner, with its tenant."""
        for tenant, pool in self._pools.items():
            for runner in pool.runners:
                yield tenant, runner

    async def handshake(self, query: CardQuery, seconds: float, *, again: bool = False) -> Handshake:
        """Return the handshake of a process; if tenants have their own, of the process without a tenant.

        Args:
            again: Whether to repeat the handshake even if an answer is known.

        Raises:
            NoHealthyBackend, UpstreamTimeout, UpstreamReset, Overloaded, Draining: none answers.
        """
        pool = self.pool(NOBODY)
        rpc = await pool.rpc(None, None, seconds)
        known = pool.handshake
        if known is None or (self.spec.card != PRINTED and (again or known.query != query)):
            return await shake_hands(rpc, self.spec.card, query, seconds)
        return known

    def retire(self) -> None:
        """End the processes once no call is open: no configuration uses them any more."""
        self._background.start(f"{self.name} is drained", self._drain)

    async def aclose(self) -> None:
        """End every process; return when they are gone."""
        self._closed = True
        await self._background.aclose()
        await asyncio.gather(*(pool.aclose() for pool in (*self._pools.values(), *self._leaving)))

    async def _drain(self) -> None:
        while any(pool.is_busy for pool in self._pools.values()):  # noqa: ASYNC110 - calls end without telling
            await asyncio.sleep(_LOOK_AGAIN)
        self._closed = True
        for pool in self._pools.values():
            pool.stop()

    def _open(self, tenant: str) -> Pool:
        spec = self.spec
        if not spec.per_tenant:
            return Pool(self.name, spec, self)
        if tenant == NOBODY:
            return Pool(self.name, replace(spec, processes=1), self)
        tenants = [name for name in self._pools if name != NOBODY]
        if len(tenants) >= spec.tenants:
            idle = next((name for name in tenants if not self._pools[name].is_busy), None)
            if idle is None:
                raise Overloaded("the agent cannot serve one more tenant", retry_after=1.0)
            leaving = self._pools.pop(idle)
            leaving.stop()
            self._leaving = [*(pool for pool in self._leaving if pool.is_running), leaving]
        environment = {**spec.command.environment, TENANT_VARIABLE: tenant}
        own = replace(spec, command=replace(spec.command, environment=environment))
        return Pool(f"{self.name} for {tenant}", own, self)
