"""The processes of one backend on stdio, or of one tenant there: which of them a call goes to.

A process keeps its tasks in its own memory, so a call about a task goes to the process that made it, then one in a
context to the process that has the context; any other to the one with the fewest open calls.
"""

import asyncio
from collections import OrderedDict

from gateway.a2a.fault import Draining, NoHealthyBackend
from gateway.background import Background
from gateway.upstream.stdio_introduction import Introduction, introduce
from gateway.upstream.stdio_link import Link
from gateway.upstream.stdio_worker import Spec, State, Worker

MOST_KNOWN = 100_000
"""Tasks and contexts whose process is remembered; what was not named longest is forgotten first."""
_LONGEST_ID = 512
"""Characters of their ids; whoever has a longer one finds its process by chance."""


class StdioPool:
    """The processes.

    Args:
        name: Whose they are, for the log.
    """

    def __init__(self, name: str, spec: Spec) -> None:
        several = spec.processes > 1
        self._spec = spec
        self._name = name
        self.workers = tuple(
            Worker(
                f"{name} #{number}" if several else name,
                spec,
                changed=self._on_change,
                learn=self._learn if several else None,
            )
            for number in range(1, spec.processes + 1)
        )
        self._background = Background()
        self._changed = asyncio.Event()
        self._homes: OrderedDict[tuple[str, str], Link] = OrderedDict()
        self._started = False
        self._closed = False

    @property
    def calls(self) -> int:
        """How many are open."""
        return sum(worker.calls for worker in self.workers)

    def start(self) -> None:
        """Start the processes, if they are not started yet."""
        if self._started or self._closed:
            return
        self._started = True
        for number, worker in enumerate(self.workers, 1):
            self._background.start(f"{self._name} #{number}", worker.run)

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
        found = self.link_nowait(task, context)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._refuse_hopeless()
                    self._changed.clear()
                    await self._changed.wait()
                    found = self.link_nowait(task, context)
                    if found is not None:
                        return found
        except TimeoutError as error:
            why = next((worker.why for worker in self.workers if worker.why), "")
            raise NoHealthyBackend("this agent is still being started", retry_after=1.0, detail=why or "") from error

    def link_nowait(self, task: str | None = None, context: str | None = None) -> Link | None:
        """The pipe for a call, or None where no process is ready."""
        self.start()
        home = self._home(task, context)
        if home is not None:
            return home
        ready = [worker.link for worker in self.workers if worker.link is not None]
        ready = [link for link in ready if link.is_up]
        if ready:
            return min(ready, key=lambda link: link.calls)
        for worker in self.workers:
            worker.want()
        return None

    async def introduction(self, seconds: float, *, again: bool = False) -> Introduction:
        """What a process tells of itself.

        Args:
            again: Whether it is asked now, where it has told that before.

        Raises:
            NoHealthyBackend, UpstreamTimeout, UpstreamReset: nobody answers.
        """
        link = await self.link(None, None, seconds)
        if again and self._spec.manner.card != "printed":
            return await introduce(link, self._spec.manner, seconds)
        known = [worker.introduction for worker in self.workers if worker.introduction is not None]
        return known[0]

    async def aclose(self) -> None:
        """End every process; none is left when this was awaited."""
        self._closed = True
        self._on_change()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await self._background.aclose()

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
        if all(worker.state in (State.BROKEN, State.ENDED) for worker in self.workers):
            now = asyncio.get_running_loop().time()
            back = [worker.resumes - now for worker in self.workers if worker.resumes is not None]
            why = next((worker.why for worker in self.workers if worker.why), None)
            after = max(min(back), 1.0) if back else None
            raise NoHealthyBackend("this agent keeps failing", retry_after=after, detail=why or "")

    def _on_change(self) -> None:
        self._changed.set()
