"""What one client may send that brings no call forward, and how many calls it may take back at once (safety H9).

Pings, settings, priorities, empty frames and grants of nothing cost a server more than they cost a client. Those that
clients really send come with calls and with the data that they get; so these earn them, time earns a few, and whoever
sends many more is asked to go.

A call that is taken back as soon as it was made has cost its client nothing (rapid reset, CVE-2023-44487), and so has
one that the client makes the server take back (CVE-2025-8671), or that has no time to begin with. Calls that lasted, or
were answered, are no such thing: whoever gives up a thousand streams may do so at once.
"""

from collections import deque

from h2.errors import ErrorCodes

from gateway.listener.http2_frames import FrameRefused

_MOST = 2000.0
_AT_FIRST = 1000.0
_PER_SECOND = 20.0
_PER_CALL = 8.0
_PER_DATA = 2.0

RESET_PERIOD = 30.0
"""Seconds in which calls that are taken back are counted."""
SHORT_LIVED = 0.25
"""Seconds after which a call that is taken back counts no more; fewer than `streams` in each of them do not add up."""


class Allowance:
    """What is left of it for one connection.

    Args:
        resets: Calls that may be taken back at once within `RESET_PERIOD`.
        now: Monotonic seconds, as everywhere here.
    """

    __slots__ = ("_left", "_resets", "_since", "_when")

    def __init__(self, resets: int, now: float) -> None:
        self._left = _AT_FIRST
        self._since = now
        self._resets = resets
        self._when: deque[float] | None = None

    def call(self) -> None:
        """A call was made."""
        self._earn(_PER_CALL)

    def data(self) -> None:
        """The client was sent a frame of data, which it may answer by grants and a ping."""
        self._earn(_PER_DATA)

    def idle(self, now: float, cost: int = 1) -> None:
        """The client sent what brings no call forward.

        Raises:
            FrameRefused: it sent too much of it.
        """
        self._earn((now - self._since) * _PER_SECOND)
        self._since = now
        self._left -= cost
        if self._left < 0:
            raise FrameRefused(ErrorCodes.ENHANCE_YOUR_CALM, "there are too many frames that bring no call forward")

    def reset(self, now: float) -> None:
        """A call was taken back at once, or the client made the server take it back.

        Raises:
            FrameRefused: this happened too often.
        """
        if self._when is None:
            self._when = deque()
        when = self._when
        while when and now - when[0] > RESET_PERIOD:
            when.popleft()
        when.append(now)
        if len(when) > self._resets:
            raise FrameRefused(ErrorCodes.ENHANCE_YOUR_CALM, "too many calls are taken back at once")

    def _earn(self, amount: float) -> None:
        self._left = min(self._left + amount, _MOST)
