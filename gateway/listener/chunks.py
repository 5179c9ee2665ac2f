"""The chunks of a request's body, read by httptools: data comes out, extensions and trailers are dropped."""

from typing import Protocol

import httptools

from gateway.listener.request import Unreadable

_HEAD = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
# What chunks may cost beside the bytes that they bring: a size and two line ends for every byte, and something over.
_COST, _SLACK = 16, 64 * 1024


class Sink(Protocol):
    """Where the data of the chunks goes."""

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""


class Chunks:
    """The chunks of one body.

    Fields behind the last chunk (trailers) are never told to anybody: a credential there would count (safety H4).

    Args:
        longest: Most bytes of trailers, give or take what comes at once.

    Attributes:
        done: Whether the body is whole.
        excess: Whether something else came behind it.
    """

    __slots__ = ("_behind", "_empty", "_longest", "_parser", "_raw", "_sink", "_size", "done", "excess")

    def __init__(self, sink: Sink, longest: int) -> None:
        self._sink = sink
        self._longest = longest
        self._size = self._raw = self._behind = 0
        # Whether no data has come behind the size that was read last: it may be that of the last chunk.
        self._empty = False
        self.done = False
        self.excess = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_HEAD)

    def feed(self, data: bytes) -> int:
        """Read on; the bytes of the body that it brought.

        Raises:
            Unreadable: these are no chunks, or next to nothing in a lot of bytes.
        """
        before, empty = self._size, self._empty
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.done:
                raise Unreadable(400, "the chunks of the body are malformed") from None
            self.excess = True
        self._raw += len(data)
        if self._raw > _SLACK + _COST * self._size:
            raise Unreadable(400, "the chunks are too small")
        if empty and self._size == before:
            self._behind += len(data)
            if self._behind > self._longest:
                raise Unreadable(431, f"the trailers exceed {self._longest} bytes")
        return self._size - before

    # ---- What httptools calls ------------------------------------------------------------------------------------

    def on_chunk_header(self) -> None:
        """The size of a chunk."""
        self._empty = True

    def on_body(self, body: bytes) -> None:
        """Bytes of a chunk."""
        self._empty = False
        self._size += len(body)
        self._sink.feed(body)

    def on_message_begin(self) -> None:
        """Stop at what follows the body.

        Raises:
            ValueError: another request follows; it stops the parser.
        """
        if self.done:
            raise ValueError("a request behind one that is not answered")

    def on_message_complete(self) -> None:
        """The end of the body."""
        self.done = True
