"""A client's bytes: cut anywhere they are the same request, and other strict readers read the same, or refuse.

The first byte is the size of the pieces that the rest comes in; the request is served when all of it has come.
"""

import asyncio
from typing import Any

import h11
import httptools

from gateway.a2a.call import Head
from gateway.a2a.fault import ClientGone
from gateway.listener.http1 import ClientConnection, ClientResponder, ListenerState
from tests.fuzz.driver import run
from tests.listener.front import limited

LIMITS = limited(target=200, headers=600, header_count=12)
HOST = b"Host: a\r\n"
SEEDS = [
    b"\x05GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x01\r\nGET /a%2Fb?x=%20 HTTP/1.1\r\nhost: A.example.:80\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n",
    b"\x09POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"\x03POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: u\r\n\r\n",
    b"\x07POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    b"\x02POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    b"\x04GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x06POST / HTTP/1.1\r\nHost: [::1]:1\r\nUpgrade: h2c\r\nX:\t y \r\nx: \xe4\r\nContent-Length: 0\r\n\r\n",
]
WORDS = [
    b"\r\n", b"\r", b"\n", b"\n\n", b"\r\n\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x7f", b"\xff", b":", b": ", b" : ",
    b"content-length: 1\r\n", b"content-length: 5\r\n", b"Content-Length:", b"content-length: 5, 5\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: gzip, chunked\r\n", b"Transfer-Encoding:", b"chunked",
    b"connection: close\r\n", b"upgrade: websocket\r\n", b"expect: 100-continue\r\n", b"Host: b\r\n", HOST,
    b"GET ", b"POST ", b"OPTIONS *", b"CONNECT a:1", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n", b"HTTP/0.9", b"http://b/", b"/", b"?", b"#", b"@b", b"0\r\n\r\n", b"5\r\nhello\r\n",
    b"1\r\nx\r\n", b"0x1", b"-1", b"+1", b"ffffffffffffffff", b";x", b'="\r\n"', b"0\r\nx: y\r\n\r\n", b"\r\n x\r\n",
]  # fmt: skip

Request = tuple[str, bytes, list[tuple[bytes, bytes]], bytes]


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = self.ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "what follows the end of the answers"
        self.said += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = self.ended = True

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class _Client:
    """One connection, and what became of what was sent over it."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.refused: list[int] = []
        self.state = ListenerState(self._serve, LIMITS, lambda _peer, _id, status, _words: self.refused.append(status))
        self.connection = ClientConnection(self.state)
        self.transport = _Transport()
        self.connection.connection_made(self.transport)

    async def _serve(self, head: Head, wire: ClientResponder) -> None:
        target = head.path + (b"?" + head.query if head.query else b"")
        reading: list[tuple[bytes, bytes]] = [pair for pair in head.headers if pair[0] != b"transfer-encoding"]
        try:
            body = await wire.read(10_000)
        except ClientGone:
            return
        self.asked.append((head.method, target, reading, body))
        await wire.answer(200, [], b"")

    async def sends(self, data: bytes, size: int) -> "tuple[Request | int | None, bool]":
        """The request that was read, the status of its refusal, or None where there is neither; then what is left."""
        for at in range(0, len(data), size):
            if self.transport.closed:
                break
            self.connection.data_received(data[at : at + size])
        for _ in range(5):
            await asyncio.sleep(0)
        kept = self.connection.state == "resting" and not self.transport.closed
        answered = self.transport.said.count(b"HTTP/1.1 200 OK\r\n")
        if not self.transport.closed:
            self.connection.eof_received()
        self.connection.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not self.state.tasks
        assert not self.state.connections
        assert not self.connection.unread
        assert len(self.refused) + len(self.asked) <= 1
        assert answered == len(self.asked)
        return (self.asked or self.refused or [None])[0], kept


async def _outcomes(data: bytes, size: int) -> object:
    whole, kept = await _Client().sends(data, len(data) + 1)
    for each in (1, size):
        cut, also = await _Client().sends(data, each)
        # Which of several refusals it is depends on what has come.
        assert cut == whole or (isinstance(cut, int) and isinstance(whole, int)), (cut, whole)
        # Line ends behind the last chunk: the parser passes over those that come with it.
        assert kept == also or data.endswith((b"\r", b"\n")), (kept, also)
    if not isinstance(whole, tuple):
        return whole
    _compare(data.lstrip(b"\r\n"), whole)
    assert b"\0" not in b"".join(name + value for name, value in whole[2])
    return whole[0], len(whole[2]), len(whole[3]), kept


def _compare(data: bytes, ours: Request) -> None:
    """Two other readers read the same, or refuse."""
    for theirs in (_by_h11(data), _by_httptools(data)):
        if theirs is not None:
            assert theirs == ours, (theirs, ours)


def _spelled(raw: bytes) -> bytes:
    """A target without the mark of a query that is empty."""
    path, _, query = raw.partition(b"?")
    return path + (b"?" + query if query else b"")


_FRAMING = (b"content-length", b"transfer-encoding")


def _by_h11(data: bytes) -> Request | None:
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    body = b""
    try:
        server.receive_data(data)
        asked = server.next_event()
        if not isinstance(asked, h11.Request):
            return None
        while isinstance(event := server.next_event(), h11.Data):
            body += bytes(event.data)
    except h11.RemoteProtocolError:
        return None
    assert isinstance(event, h11.EndOfMessage), event
    headers = [(bytes(name), bytes(value)) for name, value in asked.headers if name not in _FRAMING]
    return asked.method.decode(), _spelled(bytes(asked.target)), headers, body


class _Heard:
    def __init__(self) -> None:
        self.done = False
        self.method = ""
        self.target = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.parser: Any = None

    def on_url(self, url: bytes) -> None:
        if not self.done:
            self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Those behind the body are trailers.
        if not self.method and name.lower() not in _FRAMING:
            self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        if not self.done:
            self.method = self.parser.get_method().decode()

    def on_body(self, body: bytes) -> None:
        if not self.done:
            self.body += body

    def on_message_complete(self) -> None:
        self.done = True


def _by_httptools(data: bytes) -> Request | None:
    heard = _Heard()
    heard.parser = httptools.HttpRequestParser(heard)
    try:
        heard.parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        if not heard.done:
            return None
    return heard.method, _spelled(heard.target), heard.headers, heard.body


def target(data: bytes) -> object:
    """Sends a request at once, byte by byte, and in pieces of the size that the first byte says."""
    # A loop for each: one that is kept is nobody's to close.
    return asyncio.run(_outcomes(data[1:], data[0] + 1 if data else 1))


if __name__ == "__main__":
    run(target, SEEDS, words=WORDS, longest=4 * 1024)
