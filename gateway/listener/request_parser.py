"""A strict parser of the head of an HTTP/1.1 request: one reading, or a refusal.

Where RFC 9112 lets a server be lenient, two servers in a row may differ, which allows request smuggling. So lines end
with CRLF only, a header is a name, a colon and a value on one line, the length of a body is given once and in one way,
and the target is a path. A refusal is plain HTTP, because the client's dialect is not known yet.
"""

import re
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

import httptools
import msgspec

from gateway.a2a.call import Head
from gateway.listener.http_limits import HttpLimits
from gateway.principal import Certificate

_LONGEST_METHOD = 32
_LENGTH_DIGITS = 15
_LONGEST_HOST = 300

# RFC 9112 §3: the target in visible ASCII. The line ends after the version.
_LINE = re.compile(rb"([A-Z][A-Z-]{0,31}+) ([!-~]++) HTTP/([0-9])\.([0-9])")
# RFC 9110 §5.1, §5.5: a token, directly a colon, and a value without control characters. No folded lines.
_FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+")
_AUTHORITY = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{0,5})?")
_ONCE = (b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade")


class Unreadable(Exception):  # noqa: N818 - the word for it; it carries its own answer
    """The bytes are not a request that this gateway accepts.

    Attributes:
        status: The HTTP status of the refusal.
        words: For the client.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


def error_response(status: int, words: str, request_id: str, fixed_headers: bytes) -> bytes:
    """Return the whole plain HTTP answer to an invalid request; the connection ends with it.

    Args:
        words: For the client.
        fixed_headers: The header lines of every answer.
    """
    body = f"{words} (request {request_id})\n".encode()
    return (
        b"HTTP/1.1 %d %b\r\n%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
        b"x-request-id: %b\r\n%bconnection: close\r\n\r\n%b"
        % (
            status,
            HTTPStatus(status).phrase.encode("ascii"),
            fixed_headers,
            len(body),
            request_id.encode("ascii"),
            b"retry-after: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else b"",
            body,
        )
    )


class RequestHead(msgspec.Struct, frozen=True):
    """A head, and the framing of the body.

    Attributes:
        length: Bytes of the body; 0 where it is chunked.
        chunked: Whether the body comes in chunks.
        keeps: Whether the client wants the connection to last.
        dated: Whether the client speaks HTTP/1.0, which has no chunks.
        expects: Whether the client waits for `100 Continue` before it sends the body.
    """

    head: Head
    length: int
    chunked: bool
    keeps: bool
    dated: bool
    expects: bool


def check_start(raw: bytes | bytearray, bounds: HttpLimits, checked: int = 0) -> None:
    """Refuse an incomplete head that cannot become valid.

    Args:
        checked: Bytes of it that were checked before.

    Raises:
        Unreadable: it is not HTTP, or already too long.
    """
    if not 0x41 <= raw[0] <= 0x5A:
        raise Unreadable(400, "this is no HTTP request")
    end = raw.find(b"\r\n")
    if (end >= 0 and end >= checked - 1) or (end < 0 and len(raw) > bounds.target + _LONGEST_METHOD + 16):
        _read_line(bytes(raw[: end if end >= 0 else len(raw)]), bounds)
    # Some clients end lines with a lone line feed, and would wait for an answer.
    fresh = raw[checked - 1 :] if checked and raw[checked - 1] == 0x0D else raw[checked:]
    if fresh.count(b"\n") != fresh.count(b"\r\n"):
        raise Unreadable(400, "lines end with CR and LF")
    if len(raw) - max(end, 0) > bounds.headers:
        raise Unreadable(431, f"the headers exceed {bounds.headers} bytes")


def read_head(
    raw: bytes, peer: str, scheme: str, bounds: HttpLimits, *, certificate: Certificate | None = None
) -> RequestHead:
    """Return the head of a request.

    Args:
        raw: From the first byte to the empty line, both of its CRLF included.
        peer: Address of the client.
        certificate: The certificate of the client on this connection.

    Raises:
        Unreadable: this gateway does not accept it.
    """
    end = raw.find(b"\r\n")
    method, target, dated = _read_line(raw[:end], bounds)
    if len(raw) - end > bounds.headers:
        raise Unreadable(431, f"the headers exceed {bounds.headers} bytes")
    lines = raw[end + 2 : -4].split(b"\r\n") if len(raw) > end + 4 else []
    if len(lines) > bounds.header_count:
        raise Unreadable(431, f"there are more than {bounds.header_count} headers")
    if _FIELDS.fullmatch(raw, end + 2, len(raw) - 2) is None:
        raise Unreadable(400, "a header is malformed")
    headers = []
    for line in lines:
        name, _, value = line.partition(b":")
        headers.append((name.lower(), value.strip(b" \t")))
    head = tuple(headers)
    values = dict(head)
    if len(values) != len(head):
        _refuse_repeated([name for name, _ in head])
    host = _host(values.get(b"host"), dated=dated)
    length, coding = values.get(b"content-length"), values.get(b"transfer-encoding")
    if coding is not None:
        _refuse_coding(coding, dated=dated, length=length)
    expects = b"expect" in values and _expects(values[b"expect"]) and not dated
    if b"upgrade" in values:
        _refuse_upgrade(values[b"upgrade"])
    path, _, query = target.partition(b"?")
    if length is not None:
        # No later step needs the length of the body; a head without it may be reused (`Again`).
        head = tuple([pair for pair in head if pair[0] != b"content-length"])
        del values[b"content-length"]
    return RequestHead(
        Head(
            method,
            path,
            query,
            host,
            head,
            peer,
            scheme,
            values,
            certificate=certificate,
            http_version="1.0" if dated else "1.1",
        ),
        0 if length is None else _length(length),
        coding is not None,
        not dated and not (b"connection" in values and _closes(head)),
        dated,
        expects,
    )


class Again:
    """A head that a connection has sent, compared with the next one, which may differ in the length of its body only.

    Clients repeat the same head. Then the parsed `Head` and its `cache` are reused, because the same bytes mean the
    same.
    """

    __slots__ = ("_after", "_before", "_longest", "_read")

    def __init__(self, raw: bytes, read: RequestHead) -> None:
        found = _LENGTH.search(raw)
        self._before = raw if found is None else raw[: found.start(1)]
        self._after = b"" if found is None else raw[found.end(1) :]
        self._longest = len(raw) if found is None else len(raw) - len(found[1]) + _LENGTH_DIGITS
        self._read = read

    def read(self, raw: bytes) -> RequestHead | None:
        """Return the known head if `raw` is the same, or None."""
        before, after = self._before, self._after
        if len(raw) > self._longest or not raw.startswith(before) or not raw.endswith(after):
            return None
        digits = raw[len(before) : len(raw) - len(after)]
        known = self._read
        if not after:
            return None if digits else known
        if not digits.isdigit():
            return None
        return RequestHead(known.head, int(digits), known.chunked, known.keeps, known.dated, known.expects)


# A parsed head has at most one such line.
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)(?=[ \t]*\r\n)", re.IGNORECASE)


def _read_line(line: bytes, bounds: HttpLimits) -> tuple[str, bytes, bool]:
    """Method, target, and whether the version is 1.0."""
    found = _LINE.fullmatch(line)
    if found is None:
        if len(line) > bounds.target + _LONGEST_METHOD:
            raise Unreadable(414, f"the request target exceeds {bounds.target} bytes")
        raise Unreadable(400, "the request line is malformed")
    method, target, major, minor = found.groups()
    if major != b"1" or minor not in b"01":
        raise Unreadable(505, "this is a server of HTTP/1.1")
    if len(target) > bounds.target:
        raise Unreadable(414, f"the request target exceeds {bounds.target} bytes")
    # RFC 9112 §3.2: neither absolute-form, which may name another host than Host, nor authority-form, nor `*`.
    if target[0] != 0x2F:
        raise Unreadable(400, "the request target is no path")
    return method.decode("ascii"), target, minor == b"0"


def _host(value: bytes | None, *, dated: bool) -> str:
    # RFC 9112 §3.2: a missing or invalid host is refused here. HTTP/1.0 has no such header.
    if value is None:
        if not dated:
            raise Unreadable(400, "the Host header is missing")
        return ""
    host = host_name(value)
    if host is None:
        raise Unreadable(400, "the Host header is no host")
    return host


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > _LENGTH_DIGITS:
        raise Unreadable(400, "content-length is no length")
    return int(value)


def _refuse_repeated(names: list[bytes]) -> None:
    for name in _ONCE:
        if names.count(name) > 1:
            raise Unreadable(400, f"{name.decode('ascii')} stands twice")


def _refuse_coding(coding: bytes, *, dated: bool, length: bytes | None) -> None:
    # RFC 9112 §6.1: HTTP/1.0 has no transfer coding, and only `chunked` is implemented.
    if dated:
        raise Unreadable(400, "HTTP/1.0 knows no transfer-encoding")
    if length is not None:
        raise Unreadable(400, "the length of the body stands twice")
    if coding.lower() != b"chunked":
        raise Unreadable(501, "transfer-encoding may only be chunked")


def _expects(value: bytes) -> bool:
    if value.lower() != b"100-continue":
        raise Unreadable(417, "only 100-continue can be expected")
    return True


def _refuse_upgrade(protocol: bytes) -> None:
    """Refuse other protocols; an offer of HTTP/2 is ignored (RFC 9110 §7.8), because Java's client makes it."""
    if protocol.lower() != b"h2c":
        raise Unreadable(400, "the connection is not upgraded")


def _closes(headers: tuple[tuple[bytes, bytes], ...]) -> bool:
    """Return whether a Connection header has `close`."""
    return any(
        token.strip(b" \t").lower() == b"close"
        for name, value in headers
        if name == b"connection"
        for token in value.split(b",")
    )


def host_name(value: bytes) -> str | None:
    """Return the name in a Host header in lower case, without port and trailing dot; None if it is invalid."""
    return _host_name(value) if len(value) <= _LONGEST_HOST else None


@lru_cache(maxsize=1024)
def _host_name(value: bytes) -> str | None:
    # RFC 9112 §3.2: a name or an address, and an optional port of digits.
    found = _AUTHORITY.fullmatch(value.decode("latin-1").lower())
    return None if found is None else found[1].removesuffix(".") or None


_HEAD = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
# Bound on the framing of chunks without their content: a size and two line ends for every byte, and a reserve.
_COST, _SLACK = 16, 64 * 1024


class BodySink(Protocol):
    """The receiver of the data of the chunks."""

    def feed(self, data: bytes) -> None:
        """Receive bytes of the body."""


class Chunks:
    """The chunks of one body.

    Fields behind the last chunk (trailers) are dropped: a credential there would count (safety H4).

    Args:
        longest: Most bytes of trailers, approximately.

    Attributes:
        done: Whether the body is whole.
        excess: Whether other bytes follow it.
    """

    __slots__ = ("_behind", "_empty", "_longest", "_parser", "_raw", "_sink", "_size", "done", "excess")

    def __init__(self, sink: BodySink, longest: int) -> None:
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
        """Read further bytes; return the number of body bytes in them.

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
        """Take the size of a chunk."""
        self._empty = True

    def on_body(self, body: bytes) -> None:
        """Take bytes of a chunk."""
        self._empty = False
        self._size += len(body)
        self._sink.feed(body)

    def on_message_begin(self) -> None:
        """Stop at bytes that follow the body.

        Raises:
            ValueError: another request follows; it stops the parser.
        """
        if self.done:
            raise ValueError("a request behind one that is not answered")

    def on_message_complete(self) -> None:
        """Take the end of the body."""
        self.done = True


_KEPT_HEAD = 2048
"""Bytes of the longest head that is kept for comparison with the next one."""
_KEPT_HEADERS = 32
"""Most headers of a head that is kept."""
RATE_FROM = 10.0
"""Seconds of a body after which its rate counts."""


class IncomingHeads:
    """Parses the heads of one connection, one after the other.

    Attributes:
        received: The bytes of an incomplete head.
    """

    __slots__ = ("_again", "_bounds", "_checked", "received")

    def __init__(self, bounds: HttpLimits) -> None:
        self._bounds = bounds
        self._again: Again | None = None
        self._checked = 0
        self.received = bytearray()

    @property
    def has_known_head(self) -> bool:
        """Whether a head, and the credential in it, is kept for comparison with the next one."""
        return self._again is not None

    def forget(self) -> None:
        """Drop that head."""
        self._again = None

    def drop(self) -> None:
        """Drop all state: no other head will come."""
        self._again = None
        self.received.clear()

    def feed(
        self, data: bytes, peer: str, scheme: str, certificate: Certificate | None
    ) -> tuple[RequestHead, bytes] | None:
        """Read further bytes; return the head and the bytes after it, or None if it is incomplete.

        Raises:
            Unreadable: it is invalid, or cannot become valid.
        """
        received = self.received
        if received:
            received += data
            end = received.find(b"\r\n\r\n", max(self._checked - 3, 0))
        else:
            end = data.find(b"\r\n\r\n")
        if end < 0:
            if not received:
                received += data
            check_start(received, self._bounds, self._checked)
            self._checked = len(received)
            return None
        if received:
            data = bytes(received)
            received.clear()
            self._checked = 0
        raw = data[: end + 4]
        again = self._again
        head = None if again is None else again.read(raw)
        if head is None:
            head = read_head(raw, peer, scheme, self._bounds, certificate=certificate)
            keeps = end < _KEPT_HEAD and len(head.head.headers) <= _KEPT_HEADERS
            self._again = Again(raw, head) if keeps else None
        return head, data[end + 4 :]


class IncomingBody:
    """A body that did not arrive completely with its head.

    Args:
        sink: Receives its bytes.
        trailers: Most bytes behind its last chunk.
        now: Seconds of the loop's clock.

    Attributes:
        excess: Whether other bytes follow it.
    """

    __slots__ = ("_began", "_chunks", "_left", "_sink", "_size", "excess")

    def __init__(self, sink: BodySink, head: RequestHead, trailers: int, now: float) -> None:
        self._sink = sink
        self._left = head.length
        self._chunks = Chunks(sink, trailers) if head.chunked else None
        self._size = 0
        self._began = now
        self.excess = False

    def feed(self, data: bytes) -> bool:
        """Read further bytes; return whether the body is complete.

        Raises:
            Unreadable: these are no chunks.
        """
        chunks = self._chunks
        if chunks is not None:
            self._size += chunks.feed(data)
            self.excess = chunks.excess
            return chunks.done
        if len(data) > self._left:
            data, self.excess = data[: self._left], True
        self._left -= len(data)
        self._size += len(data)
        self._sink.feed(data)
        return self._left == 0

    def count_from(self, now: float) -> None:
        """Start measuring the body rate: bytes that came before do not show how fast the client sends."""
        self._began = now
        self._size = 0

    def is_slow(self, now: float, rate: int) -> bool:
        """Return whether it has arrived for a while at less than `rate` bytes a second."""
        taken = now - self._began
        return taken > RATE_FROM and self._size < rate * taken
