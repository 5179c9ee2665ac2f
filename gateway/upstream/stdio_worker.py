"""One place for a process of an agent on stdio: it is kept running.

States, as `/-/agents` tells them:

    RESTING    nothing runs: it was not needed yet, or it served, exited in peace, and is started by the next call
    STARTING   the process runs and has not introduced itself yet
    READY      calls go there. Ends when the process exits, breaks its pipe, or does not answer a ping
    PAUSED     it failed, and is started again after a pause
    BROKEN     it keeps failing, and is not started for longer
    ENDED      it is not started any more: the file says so, or the gateway is closing

Whatever ends a process, all that it started is ended too, before the next one is started.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.a2a.dialect import Version
from gateway.a2a.fault import Draining, Fault, UpstreamReset
from gateway.a2a.framing.lsp import LONGEST, Framing
from gateway.upstream.stdio_child import Child, Command, StartFailed
from gateway.upstream.stdio_complaint import Complaints
from gateway.upstream.stdio_introduction import EXTENDED, MANNER, PRINTED, Introduction, Manner, introduce
from gateway.upstream.stdio_link import LONGEST_HEARD, Link
from gateway.upstream.stdio_pacing import PACE, Pace, Pacing

PING = "ping"

logger = logging.getLogger("gateway.upstream.stdio")


class State(StrEnum):
    """How it stands with a place for a process."""

    RESTING = "resting"
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    BROKEN = "broken"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Spec:
    """How the processes of one backend are run; of two that are equal, one serves.

    Attributes:
        card: How they introduce themselves: `extended`, `printed`, `none`, or a method.
        processes: How many, for each tenant that has its own.
        start: Seconds to introduce itself in.
        stop: Seconds for it to exit once its input is closed, and as many after SIGTERM.
        restart: `always`, `on-failure` or `never`.
        ping: Seconds of silence after which it is asked whether it is there; 0 for never.
        longest: Bytes of the longest frame from the agent.
        asked: Bytes of the longest frame to it.
        per_tenant: Whether each tenant has processes of its own.
        tenants: Most tenants that have some at a time.
    """

    command: Command
    card: str = EXTENDED
    framing: Framing = Framing.LSP
    processes: int = 1
    start: float = 30.0
    stop: float = 5.0
    restart: str = "always"
    ping: float = 0.0
    longest: int = LONGEST_HEARD
    asked: int = LONGEST
    per_tenant: bool = False
    tenants: int = 64
    pace: Pace = field(default=PACE)


class Worker:
    """One place for a process.

    Args:
        name: Whose it is, for the log.
        changed: Called whenever `state` has changed.
        learn: As `Link`'s; None where there is but one place.
        manner: Gives how it is asked for its card.

    Attributes:
        introduction: The last one; None before the first.
        greeted: How it was asked for that.
        starts: How often a process was started.
        failures: How many starts in a row ended before it was ready.
        runs: Whether the last start came so far that the program ran.
        since: When `state` changed last, in monotonic seconds.
        why: What ended the last process, or None.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        *,
        changed: Callable[[], None] = lambda: None,
        learn: Callable[[Link, str | None, str | None], None] | None = None,
        manner: Callable[[], Manner] = lambda: MANNER,
    ) -> None:
        self.state = State.RESTING
        self.introduction: Introduction | None = None
        self.greeted: Manner | None = None
        self.starts = 0
        self.failures = 0
        self.runs = False
        self._late = 0
        self._strays = 0
        self._notices = 0
        self.why: str | None = None
        self._name = name
        self._spec = spec
        self._changed = changed
        self._learn = learn
        self._manner = manner
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self._pacing = Pacing(spec.pace)
        self._wanted = asyncio.Event()
        self._hurried = asyncio.Event()
        self._child: Child | None = None
        self._link: Link | None = None
        self._closing = False
        self._stopped: Child | None = None
        self.resumes: float | None = None

    @property
    def link(self) -> Link | None:
        """The pipe, while calls may go there."""
        return self._link if self.state is State.READY else None

    @property
    def pid(self) -> int | None:
        """That of the process, while there is one."""
        return None if self._child is None else self._child.pid

    @property
    def calls(self) -> int:
        """How many are open."""
        return 0 if self._link is None else self._link.calls

    @property
    def late(self) -> int:
        """Frames of calls that were over."""
        return self._late + (0 if self._link is None else self._link.late)

    @property
    def notices(self) -> int:
        """Its notifications."""
        return self._notices + (0 if self._link is None else self._link.notices)

    @property
    def strays(self) -> int:
        """Frames that were nobody's."""
        return self._strays + (0 if self._link is None else self._link.strays)

    def want(self) -> None:
        """A call is there for it: it rests no longer."""
        self._wanted.set()

    def hurry(self) -> None:
        """Start it now if it failed and waits: what it failed for may be gone."""
        self._hurried.set()

    async def run(self) -> None:
        """Keep a process running, until `stop`."""
        while not self._closing:
            self._hurried.clear()
            began, peaceful = await self._once()
            if self._closing:
                break
            if self._spec.restart == "never":
                self._become(State.ENDED)
                return
            if peaceful and self._spec.restart == "on-failure":
                self._wanted.clear()
                self._become(State.RESTING)
                await self._wanted.wait()
                continue
            now = self._loop.time()
            ran = 0.0 if began is None else now - began
            pause, broken = self._pacing.ended(now, ran, random.random())  # noqa: S311 - no secret
            self.resumes = now + pause
            if broken:
                logger.error("%s keeps failing: nothing is started for %.0f s", self._name, pause)
            self._become(State.BROKEN if broken else State.PAUSED)
            await _set(self._hurried, pause)
            self.resumes = None
        self._become(State.ENDED)

    async def stop(self) -> None:
        """End the process: it is asked to, then told to, then killed; all of it is reaped when this was awaited."""
        self._closing = True
        self._wanted.set()
        self._hurried.set()
        child, link = self._child, self._link
        self._stopped = child
        self._become(State.ENDED)
        if link is not None:
            link.close(_closing())
        if child is None:
            return
        for ask in (child.close_input, child.terminate):
            ask()
            if await _within(child.ended, self._spec.stop):
                break
        await child.aclose()

    async def _once(self) -> tuple[float | None, bool]:
        """Run one process to its end; when it was ready, or None, and whether it has served and exited in peace."""
        self._become(State.STARTING)
        self.starts += 1
        began: float | None = None
        status: int | None = None
        link = self._link = self._connect()
        try:
            try:
                async with asyncio.timeout(self._spec.start):
                    await self._start(link)
            except TimeoutError:
                self.why = f"it did not introduce itself within {self._spec.start:g} s"
            except StartFailed as error:
                self.runs = False
                self.why = f"it cannot be started: {error}"
            except Fault as fault:
                self.why = await self._reason(fault.detail or fault.message)
            except Exception as error:
                # It is tried again with all others that fail, and not by whoever watches over this loop.
                self.why = f"it cannot be started: {error}"
                logger.exception("%s cannot be started", self._name)
            else:
                began = self._loop.time()
                self.failures = 0
                self._become(State.READY)
                self.why = await self._attend(link)
            if not self._closing:
                logger.warning("%s ended: %s", self._name, self.why)
            if began is None:
                self.failures += 1
        finally:
            status = await self._end(link)
        if began is None or status != 0:
            return began, False
        # One that leaves again and again without having served anybody has failed, whatever it says.
        return began, link.served > 0 or self._loop.time() - began >= self._spec.pace.healthy

    def _connect(self) -> Link:
        # The child is there before anything is written.
        return Link(
            self._name,
            framing=self._spec.framing,
            longest=self._spec.longest,
            asked=self._spec.asked,
            write=lambda frame: None if self._child is None else self._child.write(frame),
            unread=lambda: 0 if self._child is None else self._child.waiting,
            learn=self._learn,
        )

    async def _start(self, link: Link) -> None:
        spec = self._spec
        manner = self._manner()
        first = link.expect_first() if spec.card == PRINTED else None
        complaints = Complaints(self._name, self._loop.time)
        self._child = await Child.start(
            spec.command, reads=link.reads, writes=link.writes, complains=lambda: complaints
        )
        self.runs = True
        if first is None:
            self.introduction = await introduce(link, spec.card, manner, spec.start)
        else:
            await asyncio.wait((first, link.broken), return_when=asyncio.FIRST_COMPLETED)
            if not first.done() or first.cancelled():
                raise UpstreamReset("the agent ended", detail=link.broken.result())
            self.introduction = Introduction(first.result())
        self.greeted = manner

    async def _attend(self, link: Link) -> str:
        """Wait until the process is not to be used any more; why."""
        child = self._child
        assert child is not None
        while True:
            pause = self._spec.ping or None
            done, _ = await asyncio.wait((child.ended, link.broken), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return await self._reason(link.broken.result() if link.broken.done() else "")
            try:
                await link.request(PING, b"", Version.V1_0, self._spec.start)
            except Fault as fault:
                return await self._reason(f"it did not answer a ping: {fault.detail or fault.message}")

    async def _reason(self, why: str) -> str:
        """Why a process ended: by its exit, if that follows on the heels of what was seen first."""
        child = self._child
        if child is None or not await _within(child.ended, 0.2):
            return why
        status = child.ended.result()
        if status is None:
            return why or "its supervisor was killed"
        return f"it was ended by signal {-status}" if status < 0 else f"it exited with code {status}"

    async def _end(self, link: Link) -> int | None:
        child, self._child = self._child, self._child
        link.close(_closing() if self._closing else UpstreamReset(_ENDED, detail=self.why or ""))
        self._late += link.late
        self._strays += link.strays
        self._notices += link.notices
        self._link = None
        status: int | None = None
        if child is not None:
            if child is self._stopped:
                # `stop` ends it, more gently.
                await child.ended
            else:
                await child.aclose()
            status = child.ended.result() if child.ended.done() else None
        self._child = None
        return status

    def _become(self, state: State) -> None:
        if self.state is State.ENDED or self.state is state:
            return
        self.state = state
        self.since = self._loop.time()
        self._changed()


_ENDED = "the agent ended before its answer was complete"


def _closing() -> Fault:
    return Draining("the gateway is ending this agent", retry_after=1.0)


async def _set(event: asyncio.Event, seconds: float) -> None:
    """Wait until it is set, so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _within(ended: "asyncio.Future[int | None]", seconds: float) -> bool:
    """Whether a process has ended by then."""
    done, _ = await asyncio.wait((ended,), timeout=seconds)
    return bool(done)
