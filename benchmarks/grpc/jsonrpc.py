"""The agent's other side: answers JSON-RPC over HTTP/1.1, each call alike but for its id."""

import asyncio
import re

from benchmarks.edge import workload

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb'"id":"([^"]*)","method"')
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Answering(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self) -> None:
        self._before, _, self._behind = workload.answer().partition(b"call-1")
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as subclasses.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._buffer, 0, head)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return
        body, self._buffer = self._buffer[head + 4 : end], self._buffer[end:]
        asked = _ID.search(body)
        if asked is None:
            # Requests for a card.
            self._transport.write(_NOTHING)
            return
        answer = self._before + asked[1] + self._behind
        self._transport.write(_HEAD % len(answer) + answer)
