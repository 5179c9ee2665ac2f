"""The agent of the last a2a-sdk 0.3 behind its standard streams: run by the interpreter that has it.

python piped.py MARKER FRAMING
"""

import asyncio
import sys

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from agent import Executor, application
from pipe import serve


async def main(marker: str, framing: str) -> None:
    """Be the agent."""
    handler = DefaultRequestHandler(
        agent_executor=Executor(marker),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    await serve(application(marker, "http://127.0.0.1:1", handler), "/rpc", framing)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
