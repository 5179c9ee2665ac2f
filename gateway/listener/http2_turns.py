"""Frames of one connection, each in its turn.

One read may hold thousands of them. Calls are begun in the turns of `Turns`, as requests of HTTP/1.1 are, and so is
everything else beyond a few frames; those that follow wait, for the order of frames means something.
"""

import asyncio
from collections.abc import Callable

from gateway.listener.http2_frames import Frame, Frames, Kind
from gateway.listener.turn import Turns

_AT_ONCE = 4
"""Frames that a connection may have read whenever something comes."""
_AT_A_TURN = 16
"""Frames that take as long as the beginning of a call."""
_HEAVY = 2048
"""Bytes of a header block that do."""


class FrameTurns:
    """Gives the frames that have come to whoever acts on them, as far as there are turns.

    Args:
        receive: Acts on a frame; False where no other should follow.
        again: Called in a later turn, for `read` to be called again.

    Attributes:
        waits: Whether frames wait for a turn.
    """

    __slots__ = ("_again", "_frames", "_held", "_highest", "_loop", "_receive", "_turns", "waits")

    def __init__(
        self,
        frames: Frames,
        turns: Turns,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[Frame], bool],
        again: Callable[[], None],
    ) -> None:
        self._frames = frames
        self._turns = turns
        self._loop = loop
        self._receive = receive
        self._again = again
        self._held: Frame | None = None
        self._highest = 0
        self.waits = False

    def clear(self) -> None:
        """Let go of what waits: nobody reads it."""
        self._frames.clear()
        self._held = None

    def read(self, *, granted: bool = False) -> None:
        """Read on.

        Args:
            granted: Whether the next frame has its turn.

        Raises:
            FrameRefused: as `Frames.next`; and whatever `receive` does.
        """
        free = _AT_A_TURN if granted else _AT_ONCE
        while (frame := self._held or self._frames.next()) is not None:
            if frame.kind == Kind.HEADERS and frame.stream > self._highest:
                if not granted and not self._turn():
                    self._wait(frame)
                    return
                granted = False
                self._highest = frame.stream
                for _ in range(frame.size // _HEAVY):
                    # What takes long leaves less for the others.
                    self._turn()
            elif free:
                free -= 1
            elif self._turn():
                free = _AT_A_TURN - 1
            else:
                self._wait(frame)
                return
            self._held = None
            if not self._receive(frame):
                return

    def _turn(self) -> bool:
        return self._turns.take(self._loop)

    def _wait(self, frame: Frame) -> None:
        self._held = frame
        self.waits = True
        self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        self.waits = False
        self._again()
