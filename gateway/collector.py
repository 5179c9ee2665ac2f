"""The interpreter's collector of garbage while a configuration is made: never through everything there is in one go.

A whole collection goes through every object, and nobody is served meanwhile: 15 ms with a thousand agents, 50 ms on a
busy machine. So, while one is made, only what is young is gone through, some thousand objects at a time. What was made
is *kept* (frozen, as Python calls it): the collector never looks at it again, and it goes when nobody refers to it.

Kept is also what calls had in use at that moment, and the collector would never find it where it comes to refer to
itself; mostly that is what refused calls leave behind. So there is a bound: once the process has grown by half
since the last whole collection, and nobody is being served, or to four times as much, whoever is served, there is
another, of what is kept too. A gateway that is not given another configuration keeps nothing more, and needs none.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NEVER = 1_000_000_000
_QUIET = 1.5
"""Growth from which on there is a whole collection where nobody notices it."""
_MOST = 4.0
"""Growth from which on there is one in any case.

With a thousand agents it takes 0.1 s and more then, and old configurations that streams still use are growth as well.
"""


class Collector:
    """When there is a whole collection, and when there is none.

    Args:
        idle: Whether nobody is being served.
        in_use: How many blocks of memory are in use; counting them costs some 0.1 ms.

    Attributes:
        whole: How many whole collections there were.
    """

    def __init__(
        self, idle: Callable[[], bool] = lambda: False, in_use: Callable[[], int] = sys.getallocatedblocks
    ) -> None:
        self.whole = 0
        self._idle = idle
        self._in_use = in_use
        self._before = 0

    @contextmanager
    def gently(self) -> Iterator[None]:
        """Go only through what is young, until the end of the block."""
        self._bound()
        young, middle, old = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        try:
            yield
        finally:
            gc.set_threshold(young, middle, old)

    def _bound(self) -> None:
        """Have a whole collection where one is due."""
        in_use = self._in_use()
        if not self._before:
            # Whoever starts has had one by then, and has kept nothing since.
            self._before = in_use
        grown = in_use / self._before
        if grown >= _MOST or (grown >= _QUIET and self._idle()):
            self.whole += 1
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._before = self._in_use()


def keep() -> None:
    """Never look at what there is now again; only what has just become garbage goes before."""
    gc.collect(0)
    gc.freeze()
