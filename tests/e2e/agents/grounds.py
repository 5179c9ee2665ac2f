"""The event loop, on a thread of its own, of agents and the identity provider."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

from tests.e2e.agents.agent import Agent
from tests.e2e.agents.server import Server
from tests.identity.provider import Provider, provider

Result = TypeVar("Result")


class Grounds:
    """An event loop on a thread, and the servers on it; they end with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._stack = AsyncExitStack()

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run `work()` on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(30)

    def agent(self, marker: str) -> Agent:
        """Start an agent; it answers when this returns."""

        async def start() -> Agent:
            server = Server()
            agent = Agent(marker, server.port, self.loop)
            await self._stack.enter_async_context(server.serving(agent.app()))
            return agent

        return self.run(start)

    def provider(self) -> Provider:
        """Start an identity provider that has nothing to serve yet."""

        async def start() -> Provider:
            return await self._stack.enter_async_context(provider())

        return self.run(start)

    def close(self) -> None:
        """Stop every server, and what their libraries leave behind."""
        self.run(self._stack.aclose)
        self.run(_end_all_others)


async def _end_all_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def grounds() -> Iterator[Grounds]:
    """A loop on a thread, until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="agents")
    thread.start()
    places = Grounds(loop)
    try:
        yield places
        places.close()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
