"""Looks names up, in threads of its own and for a short while only.

Names of webhooks are whoever's: one whose servers never answer holds the thread that asks for half a minute. The
loop's own threads look up agents, so these are others, and few.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

PATIENCE: Final = 2.0
"""Seconds that a look-up may take, the wait for a thread included."""
THREADS: Final = 8


class Resolver:
    """Looks names up.

    Args:
        look_up: As `socket.getaddrinfo`; blocks.
    """

    def __init__(
        self,
        *,
        patience: float = PATIENCE,
        threads: int = THREADS,
        look_up: Callable[..., Sequence[tuple[Any, ...]]] = socket.getaddrinfo,
    ) -> None:
        self._patience = patience
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(threads, "webhook names")

    async def __call__(self, host: str) -> tuple[str, ...]:
        """The addresses of a host, in the order of preference; none twice.

        Raises:
            OSError: there is none, or nobody knew in time (`TimeoutError`).
        """
        ask = partial(self._look_up, host, None, type=socket.SOCK_STREAM)
        async with asyncio.timeout(self._patience):
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
            except UnicodeError as error:
                raise OSError("no name") from error
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    def close(self) -> None:
        """Let go of the threads; what they are asking still, nobody waits for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
