"""The agent of the official SDK behind its standard streams: `python -m tests.e2e.piped MARKER FRAMING`."""

import asyncio
import sys

from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.legacy.pipe import serve


async def main(marker: str, framing: str) -> None:
    """Be the agent."""
    agent = Agent(Shape(marker), 1, asyncio.get_running_loop())
    await serve(agent.app(), "/", framing)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
