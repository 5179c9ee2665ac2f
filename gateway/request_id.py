"""Request ids: 16 hex digits that nobody can foresee, and that cost next to nothing."""

import os

_AT_ONCE = 4096
_SIZE = 16


class RequestIds:
    """Gives one id after another; the system is asked for randomness once in 512 of them."""

    __slots__ = ("_at", "_digits")

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0

    def take(self) -> str:
        """The next id."""
        at = self._at
        if at >= len(self._digits):
            self._digits = os.urandom(_AT_ONCE).hex()
            at = 0
        self._at = at + _SIZE
        return self._digits[at : at + _SIZE]
