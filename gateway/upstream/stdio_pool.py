"""The processes of one backend on stdio, or of one tenant there: which of them a call goes to.

A process keeps its tasks in its own memory, so a call about a task goes to the process that made it, then one in a
context to the process that has the context, from the first call that names it on; any other to the one with the fewest
open calls.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from gateway.a2a.fault import Draining, NoHealthyBackend
from gateway.background import Background
from gateway.upstream.stdio_introduction import MANNER, PRINTED, Introduction, Manner, introduce
from gateway.upstream.stdio_link import Link
from gateway.upstream.stdio_succession import Stage, Succession
from gateway.upstream.stdio_worker import Spec, State, Worker

MOST_KNOWN = 100_000
"""Tasks and contexts whose process is remembered; what was not named longest is forgotten first."""
_LONGEST_ID = 512
"""Characters of their ids; whoever has a longer one finds its process by chance."""


class StdioPool:
    """The processes.

    Args:
        name: Whose they are, for the log.
        manner: Gives how they are asked for their card.
        after: Done when there is room for them; None for at once.

    Attributes:
        noticed: Called whenever something is another than it was.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        *,
        manner: Callable[[], Manner] = lambda: MANNER,
        after: "asyncio.Future[None] | None" = None,
    ) -> None:
        several = spec.processes > 1
        self._spec = spec
        self.name = name
        self._manner = manner
        self._after = after
        self.workers = tuple(
            Worker(
                f"{name} #{number}" if several else name,
                spec,
                changed=self.notice,
                learn=self._learn if several else None,
                manner=manner,
            )
            for number in range(1, spec.processes + 1)
        )
        self._background = Background()
        self._changed = asyncio.Event()
        self._waiting = 0
        self._succession: Succession | None = None
        self._heir: StdioPool | None = None
        self._succeeding: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Future[None]] = set()
        self.noticed: Callable[[], None] = lambda: None
        self._homes: OrderedDict[tuple[str, str], Link] = OrderedDict()
        self._started = False
        self._closed = False

    @property
    def is_busy(self) -> bool:
        """Whether calls are open, or wait for a process; also of those whose place these take."""
        if self._waiting or any(worker.calls for worker in self.workers):
            return True
        return self.before is not None and self.before.is_busy

    @property
    def is_ready(self) -> bool:
        """Whether calls can go to a process of its own."""
        return any(worker.link is not None and worker.link.is_up for worker in self.workers)

    @property
    def is_hopeless(self) -> bool:
        """Whether none of its own will be started again, or none ever ran."""
        return all(worker.state is State.ENDED or not worker.runs for worker in self.workers)

    @property
    def failures(self) -> int:
        """How many starts in a row have failed, of the one that failed least."""
        return min(worker.failures for worker in self.workers)

    @property
    def before(self) -> "StdioPool | None":
        """Those whose place it takes, while they still run."""
        old = None if self._succession is None else self._succession.old
        return old if isinstance(old, StdioPool) else None

    def start(self) -> None:
        """Start the processes, if they are not started yet."""
        if self._started or self._closed:
            return
        self._started = True
        for number, worker in enumerate(self.workers, 1):
            self._background.start(f"{self.name} #{number}", partial(self._run, worker))

    def hurry(self) -> None:
        """Start those that wait after a failure."""
        for worker in self.workers:
            worker.hurry()

    def succeed(self, old: "StdioPool") -> None:
        """Take the place of other processes, which go on until those of this pool are ready."""
        serving = old.hand_over(self)
        if serving is None:
            self.start()
            return
        serving.noticed = self.notice
        succession = self._succession = Succession(self, serving, partial(serving.again, self.notice), self.notice)
        self._succeeding = self._background.start(f"{self.name} in the place of others", succession.run)

    async def change(self) -> None:
        """Wait until something is another than it was."""
        self._changed.clear()
        await self._changed.wait()

    async def link(self, task: str | None, context: str | None, seconds: float) -> Link:
        """The pipe for a call, once there is one.

        Args:
            task: That the call is about, or None.
            context: Likewise.
            seconds: To wait for a process that is being started.

        Raises:
            NoHealthyBackend: there is none by then, or they keep failing.
            Draining: the pool is closed.
        """
        return await self._link(lambda pool: pool.link_nowait(task, context), seconds)

    def link_nowait(self, task: str | None = None, context: str | None = None) -> Link | None:
        """The pipe for a call, or None where no process is ready."""
        found = self._own(task, context)
        if found is None and self._succession is not None:
            found = self._succession.link_nowait(task, context)
        return found

    def links(self) -> list[Link | None]:
        """The pipe of each process of those that have the calls, in order; None for one that is not ready."""
        if not self.is_ready and self.before is not None:
            return self.before.links()
        return [worker.link if worker.link is not None and worker.link.is_up else None for worker in self.workers]

    async def introduction(self, manner: Manner, seconds: float, *, again: bool = False) -> Introduction:
        """What a process of its own tells of itself; where it takes the place of others, once that is settled.

        Args:
            again: Whether it is asked now, where it has told that before in this manner.

        Raises:
            NoHealthyBackend, UpstreamTimeout, UpstreamReset: nobody answers.
        """
        succession = self._succession
        while succession is not None and succession.stage is not Stage.OVER and not self._closed:
            await self.change()
        link = await self._link(lambda pool: pool._own(None, None), seconds)  # noqa: SLF001 - its own kind
        known = [worker for worker in self.workers if worker.introduction is not None]
        told = known[0].introduction if known else None
        if told is None or (self._spec.card != PRINTED and (again or known[0].greeted != manner)):
            told = await introduce(link, self._spec.card, manner, seconds)
        return told

    async def aclose(self) -> None:
        """End every process; none is left when this was awaited."""
        self._closed = True
        self.notice()
        old = () if self._succession is None else (self._succession.aclose(),)
        await asyncio.gather(*(worker.stop() for worker in self.workers), *old, *self._leaving)
        await self._background.aclose()
        if self._after is not None:
            # Who comes next in this place may start when all that were here before have ended.
            await asyncio.wait((self._after,))

    # ---- Between one pool and its heir -----------------------------------------------------------------------------

    def hand_over(self, heir: "StdioPool") -> "StdioPool | None":
        """Have another pool take the calls; gives the one that serves them until it can, or None where none does.

        That may be the one whose place this one was to take, and never got so far.
        """
        self._heir = heir
        succession = self._succession
        serving: StdioPool | None = self
        if not self.is_ready:
            serving = self.before
            if succession is not None:
                succession.release()
            if self._succeeding is not None:
                self._succeeding.cancel()
            heir.see_out(self.aclose())
        self.notice()
        return serving

    def again(self, noticed: Callable[[], None]) -> "StdioPool":
        """The same processes once more, started anew."""
        made = StdioPool(self.name, self._spec, manner=self._manner)
        made.noticed = noticed
        return made

    def see_out(self, ending: Coroutine[Any, Any, None]) -> None:
        """Have others end beside this one."""
        leaving = asyncio.ensure_future(ending)
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def notice(self) -> None:
        """Something is another than it was."""
        self._changed.set()
        self.noticed()

    async def _run(self, worker: Worker) -> None:
        if self._after is not None:
            await asyncio.wait((self._after,))
        await worker.run()

    def _own(self, task: str | None, context: str | None) -> Link | None:
        self.start()
        home = self._home(task, context)
        if home is not None:
            return home
        ready = [worker.link for worker in self.workers if worker.link is not None]
        ready = [link for link in ready if link.is_up]
        if ready:
            found = min(ready, key=lambda link: link.calls)
            if len(self.workers) > 1 and context:
                # Calls of a client that follow at once must not begin the context anew elsewhere.
                self._learn(found, None, context)
            return found
        for worker in self.workers:
            worker.want()
        return None

    async def _link(self, find: "Callable[[StdioPool], Link | None]", seconds: float) -> Link:
        found = find(self)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(seconds):
                found = await self._wait(find)
                if found is not None:
                    return found
        except TimeoutError as error:
            why = next((worker.why for worker in self.workers if worker.why), "")
            raise NoHealthyBackend("this agent is still being started", retry_after=1.0, detail=why or "") from error
        assert self._heir is not None
        return await self._heir._link(find, seconds)  # noqa: SLF001 - its own kind

    async def _wait(self, find: "Callable[[StdioPool], Link | None]") -> Link | None:
        """A pipe once there is one; None where others have taken the place of these processes."""
        self._waiting += 1
        try:
            while self._heir is None:
                self._refuse_hopeless()
                await self.change()
                found = find(self)
                if found is not None:
                    return found
        finally:
            self._waiting -= 1
        return None

    def _home(self, task: str | None, context: str | None) -> Link | None:
        for key in (("task", task), ("context", context)):
            if key[1] is None:
                continue
            link = self._homes.get((key[0], key[1]))
            if link is not None:
                if link.is_up:
                    return link
                del self._homes[key[0], key[1]]
        return None

    def _learn(self, link: Link, task: str | None, context: str | None) -> None:
        for kind, name in (("task", task), ("context", context)):
            if name and len(name) <= _LONGEST_ID:
                self._homes[kind, name] = link
                self._homes.move_to_end((kind, name))
        while len(self._homes) > MOST_KNOWN:
            self._homes.popitem(last=False)

    def _refuse_hopeless(self) -> None:
        if self._closed:
            raise Draining("the gateway is ending this agent", retry_after=1.0)
        if self._succession is not None and self._succession.stage is not Stage.OVER:
            return
        if all(worker.state in (State.BROKEN, State.ENDED) for worker in self.workers):
            now = asyncio.get_running_loop().time()
            back = [worker.resumes - now for worker in self.workers if worker.resumes is not None]
            why = next((worker.why for worker in self.workers if worker.why), None)
            after = max(min(back), 1.0) if back else None
            raise NoHealthyBackend("this agent keeps failing", retry_after=after, detail=why or "")
