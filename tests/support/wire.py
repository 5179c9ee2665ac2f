"""A client's side of an exchange that keeps what it is told."""

import json
from collections.abc import Callable
from typing import Any

from gateway.a2a.headers import Pairs


class RecordedWire:
    """A `Wire` without a connection.

    Attributes:
        sent: Pieces that were written.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.opened = opened
        self.extra: Pairs = []
        self.status = 0
        self.headers: Pairs = []
        self.body = b""
        self.sent = b""
        self.closed = False
        self.trailers: Pairs | None = None
        self.was_cut = False
        self.leave: Callable[[], None] = lambda: None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def when_gone(self, callback: Callable[[], None]) -> None:
        self.leave = callback

    async def read(self, limit: int) -> bytes:
        return b""

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        self.open(status, headers)
        self.body = body
        self.closed = True

    def open(self, status: int, headers: Pairs) -> None:
        self.opened = True
        self.status = status
        self.headers = [*headers, *self.extra]

    async def write(self, data: bytes) -> None:
        self.sent += data

    def write_nowait(self, data: bytes) -> bool:
        self.sent += data
        return True

    async def drained(self) -> None:
        pass

    async def close(self, trailers: Pairs | None = None) -> None:
        self.closed = True
        self.trailers = trailers

    def cut(self) -> None:
        self.was_cut = True
