"""The client's side of streams: opens one, counts its events, and says when it began and how it ended."""

import asyncio
from collections.abc import Mapping
from typing import Self

import httptools

from benchmarks.edge.load import LoadFailed, address, request
from benchmarks.edge.workload import call

_MARK = b"data:"
"""Once in each event of our agent, and never in a heartbeat."""


class Stream(asyncio.Protocol):
    """One stream on a connection of its own.

    Attributes:
        began: Done when the first event is here.
        ended: Done at the clean end; `LoadFailed` where there is none.
        events: The number of events.
        reads: In how many reads.
    """

    def __init__(self, raw: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.events = 0
        self.reads = 0
        self._raw = raw
        self._tail = b""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def opened(cls, url: str, headers: Mapping[str, str], tenant: str | None) -> Self:
        """Ask for a stream; it is there once its first event is."""
        fields = {**headers, "Accept": "text/event-stream"}
        raw = request(url, fields, call(tenant, method="SendStreamingMessage"))
        _, stream = await asyncio.get_running_loop().create_connection(lambda: cls(raw), *address(url))
        await stream.began
        return stream

    def leave(self) -> None:
        """Close at once."""
        self.ended.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as subclasses.
        self._transport = transport  # type: ignore[assignment]
        self._transport.write(self._raw)  # type: ignore[union-attr]

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(LoadFailed(str(error)))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() != 200:
            self._end(LoadFailed(f"{self._parser.get_status_code()} where a stream was asked for"))

    def on_body(self, body: bytes) -> None:
        text = self._tail + body
        self.events += text.count(_MARK)
        self._tail = text[1 - len(_MARK) :]
        if self.events and not self.began.done():
            self.began.set_result(None)

    def on_message_complete(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LoadFailed(f"a stream was cut: {exc}"))

    def _end(self, error: LoadFailed | None) -> None:
        for waited in (self.began, self.ended):
            if waited.done():
                continue
            if error is None:
                waited.set_result(None)
            else:
                waited.set_exception(error)
                waited.exception()  # it may be that nobody asks
        if self._transport is not None:
            self._transport.close()
