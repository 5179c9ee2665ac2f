"""The parser of one answer: bytes in, a status, headers and a body out. It knows no socket.

States, in order:

    HEAD      `status` is 0. Bytes go to the parser; interim answers (1xx) are swallowed, a few of them.
    BODY      `status` is set. One of three: as many bytes as `Content-Length` says, chunks, or all until the close.
    ENDED     `ended` is set. Any further byte is refused.

Ambiguous framing is refused, not repaired (RFC 9112 §6.3, §11.2): both lengths, several lengths, transfer codings other
than `chunked`, bare line feeds, folded lines, bytes after the end. llhttp sets no limits, so the bytes and fields of
the head are counted here.

Two fast paths avoid llhttp: a plain head in one piece (`PlainHeads`), and a read that is exactly one chunk, as the
events of a stream nearly always are. llhttp reads everything else, and is created when it is needed: an idle stream has
no parser.
"""

import re

import httptools
import msgspec

from gateway.a2a.fault import UpstreamProtocol, UpstreamReset
from gateway.a2a.headers import Pairs
from gateway.network.chunk import SIZE_LINES
from gateway.upstream.reply_cache import ReplyCache

_INTERIM_LIMIT = 8
_HEAD_END = b"\r\n\r\n"
# The end of a chunked answer without trailers. If it ends otherwise, bytes may hide behind the end.
_CHUNKS_END = b"0\r\n\r\n"
# The last position at which the line end behind the size of a chunk may begin: after seven digits.
_SIZE_END = 9
# A head that a parser is fed before the first chunk; the real head was read by another parser.
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_EXCESS = "bytes after the end of the answer"
_LENGTH = b"content-length"
_WATCHED = frozenset({_LENGTH, b"transfer-encoding", b"content-encoding"})

LENGTH_DIGITS = 15
# RFC 9112 §4, §5: printable words behind the status; then names that are tokens, each with a colon at once.
_PLAIN = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9]) [\x20-\x7e]*+\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t\x20-\x7e\x80-\xff]*+\r\n)++\r\n"
)
_BODILESS = frozenset({204, 304})
# They frame or code the body, or ask for another protocol. `Connection: keep-alive` changes nothing.
_TELLING = frozenset({b"transfer-encoding", b"content-encoding", b"upgrade", b"proxy-connection"})
_LONGEST_KEPT = 2048


def unusable(detail: str) -> UpstreamProtocol:
    """Return the fault of an answer that is not HTTP, or that two readers could understand differently."""
    return UpstreamProtocol("the agent's answer is not valid HTTP", detail=detail)


class ResponseParser(msgspec.Struct, eq=False):
    """Parses one answer; a struct, since one is made for each.

    Args:
        header_bytes, header_count: Most bytes and most headers of a head.
        plain: Reads plain heads without a parser; shared by the answers of one agent. None for the parser alone.

    Attributes:
        status: 200 to 599 once the head is complete, 0 before.
        headers: Names in lower case, in order; trailers never join them.
        known: Results that depend on the headers without the length, kept for the next answer with the same ones; None
            if there is none.
        body: Body bytes that wait for `take`.
        held: Bytes in `body`.
        ended: Whether the answer is complete.
        reusable: Whether another exchange may follow on the connection; only meaningful once ended.
        between: Whether no byte of the next chunk has come.
    """

    _header_bytes: int
    _header_count: int
    _plain: "PlainHeads | None" = None
    status: int = 0
    headers: Pairs = []
    known: ReplyCache | None = None
    body: list[bytes] = []
    held: int = 0
    ended: bool = False
    reusable: bool = False
    # One parser for the head and one for the chunks, so that no state is carried over. None while bytes are only
    # counted, and before the first unusual byte.
    _parser: httptools.HttpResponseParser | None = None
    _headed: bool = False  # the parser has seen the end of the head
    _over: bool = False  # the parser has seen the end of the message
    _head_size: int = 0
    _tail: bytes = b""  # the last bytes of an unfinished head, where its end may have begun
    _interim: int = 0
    _left: int | None = None  # body bytes to come, where `Content-Length` says
    _dry: int = 0  # bytes since the last one of the body
    _chunked: bool = False  # the body comes in chunks
    between: bool = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the answer.

        Raises:
            UpstreamProtocol: they cannot follow; what was read before stays in `body`.
        """
        if self.status == 0:
            plain = self._plain
            if plain is not None and not self._head_size and (found := plain.read(data)) is not None:
                head, digits, end = found
                self.headers = headers = head.headers.copy()
                headers[head.at] = (_LENGTH, digits)
                self.known = head.known
                self.reusable = True
                self.status = head.status
                self._left = int(digits)
                data = data[end:]
            else:
                data = self._read_head(data)
                if self.status == 0:
                    return
        if self.ended:
            if data:
                raise unusable(_EXCESS)
        elif self._left is not None:
            self._read_counted(data, self._left)
        elif self._chunked:
            self._read_chunks(data)
        elif data:
            self.keep(data)

    def chunk(self, data: bytes) -> bytes | None:
        """Return the content of `data` if it is exactly one short chunk, else None.

        The content is consumed then; other data is for `feed`.
        """
        if not self.between:
            return None
        at = data.find(b"\r\n", 1, _SIZE_END)
        # Small digits without an extension and without a leading zero, as nearly every server writes them.
        size = len(data) - at - 4
        if at < 0 or not 0 < size < len(SIZE_LINES):
            return None
        if not (data.startswith(SIZE_LINES[size]) and data.endswith(b"\r\n")):
            return None
        if self._dry:
            self._dry = 0
        return data[at + 2 : -2]

    def keep(self, data: bytes) -> None:
        """Keep bytes of the body until `take`."""
        self.body.append(data)
        self.held += len(data)

    def close(self) -> None:
        """End the answer: the agent has closed its side.

        Raises:
            UpstreamReset: the answer was not complete; one without a length ends here (RFC 9112 §6.3 rule 8).
        """
        if self.ended:
            return
        if self.status == 0 or self._left is not None or self._chunked:
            where = "in the body" if self.status else "in the head" if self._head_size else "without an answer"
            raise UpstreamReset(
                "the agent closed the connection before its answer was complete", detail=f"closed {where}"
            )
        self.ended = True

    def stop(self) -> None:
        """Read nothing more; the parser, which refers to this object, is released."""
        self._parser = None

    def take(self) -> bytes:
        """Return the body bytes read so far, and keep them no longer."""
        data = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body.clear()
        self.held = 0
        return data

    # ---- Head --------------------------------------------------------------------------------------------------

    def _read_head(self, data: bytes) -> bytes:
        """Read `data` up to the end of the head; return the rest."""
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpResponseParser(self)
        while data:
            end = self._head_end(data)
            piece = data if end < 0 else data[:end]
            self._head_size += len(piece)
            if self._head_size > self._header_bytes:
                raise unusable(f"head exceeds {self._header_bytes} bytes")
            # llhttp accepts RTSP and ICE as HTTP.
            if not self._tail and piece[0] != 0x48:
                raise unusable("does not start with HTTP")
            self._parse(parser, piece)
            if len(self.headers) > self._header_count:
                raise unusable(f"more than {self._header_count} headers")
            # The parser and we must agree on where the head ends, or the body would begin at two places.
            if self._headed != (end >= 0):
                raise unusable("the end of the head is in doubt")
            if end < 0:
                self._tail = (self._tail + piece)[-3:]
                return b""
            data = data[end:]
            status = parser.get_status_code()
            if status >= 200:
                self._frame(parser, status)
                return data
            parser = self._pass_interim(status)
        return data

    def _head_end(self, data: bytes) -> int:
        """Return the position in `data` where the head ends, or -1."""
        at = (self._tail + data).find(_HEAD_END)
        return at if at < 0 else at + 4 - len(self._tail)

    def _pass_interim(self, status: int) -> httptools.HttpResponseParser:
        """Forget an interim answer (RFC 9110 §15.2). All of them share the limits of one head."""
        if status == 101:
            raise unusable("101 unasked")
        self._interim += 1
        if self._interim > _INTERIM_LIMIT or status < 100:
            raise unusable(f"{self._interim} interim answers, the last one {status}")
        self.headers.clear()
        self._headed = self._over = False
        self._tail = b""
        parser = self._parser = httptools.HttpResponseParser(self)
        return parser

    def _frame(self, parser: httptools.HttpResponseParser, status: int) -> None:
        """Decide from the head where the body ends (RFC 9112 §6.3)."""
        version = parser.get_http_version()
        if version not in ("1.1", "1.0") or status > 599:
            raise unusable(f"HTTP/{version} {status}")
        length, chunked = self._lengths()
        if chunked and (length is not None or version != "1.1"):
            raise unusable("Transfer-Encoding with Content-Length, or in HTTP/1.0")
        self.reusable = self.reusable and version == "1.1"
        self.status = status
        self._parser = None
        if status in _BODILESS:
            # No body, whatever the head says; but if it announces one, one may follow nevertheless.
            self.reusable = self.reusable and not chunked and not length
            self.ended = True
        elif chunked:
            self._chunked = self.between = True
        elif length is not None:
            self._left = length
        else:
            self.reusable = False

    def _lengths(self) -> tuple[int | None, bool]:
        """Return the `Content-Length`, and whether the body comes in chunks."""
        length: int | None = None
        chunked = False
        for name, value in self.headers:
            if name not in _WATCHED:
                continue
            if name == _LENGTH:
                # llhttp refuses a second length too, but not in every version.
                if length is not None or not value.isdigit() or len(value) > LENGTH_DIGITS:
                    raise unusable("Content-Length is no one number")
                length = int(value)
            elif name == b"transfer-encoding":
                if chunked or value.lower() != b"chunked":
                    raise unusable("Transfer-Encoding is not `chunked`")
                chunked = True
            elif value.lower() not in (b"identity", b""):
                # Nothing is ever decompressed (safety H11).
                raise UpstreamProtocol("the agent's answer is compressed", detail="it has a Content-Encoding")
        return length, chunked

    # ---- Body --------------------------------------------------------------------------------------------------

    def _read_counted(self, data: bytes, left: int) -> None:
        if len(data) > left:
            self.keep(data[:left])
            raise unusable(_EXCESS)
        if data:
            self.keep(data)
        self._left = left - len(data)
        self.ended = self._left == 0

    def _read_chunks(self, data: bytes) -> None:
        if not data:
            return
        piece = self.chunk(data)
        if piece is not None:
            self.keep(piece)
            return
        self._dry += len(data)
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpResponseParser(self)
            self._parse(parser, _CHUNKED_HEAD)
        self._parse(parser, data)
        # After a chunk only the beginning of a size can be unread, and that has no line end.
        self.between = self.between and data.endswith(b"\r\n")
        if self._over:
            self.between = False
            self.ended = True
            self.reusable = self.reusable and data.endswith(_CHUNKS_END)
            self._parser = None
        elif self._dry > self._header_bytes:
            # Endless chunk extensions or trailers: the parser would collect them.
            raise unusable("too many bytes between two of the body")

    # ---- Called by the parser ------------------------------------------------------------------------------------

    def _parse(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if parser.get_status_code() == 101:
                raise unusable("101 unasked") from error
            raise unusable(_EXCESS if self._over else str(error)) from error

    def on_message_begin(self) -> None:
        """Refuse a second answer after the first."""
        if self._over:
            raise unusable(_EXCESS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header of the head; drop a trailer (safety H4)."""
        if not self._headed:
            # RFC 9110 §5.5: white space behind a value is not part of it, and the parser leaves it.
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Note the end of the head; only now the parser knows whether the connection closes."""
        if not self._headed and self._parser is not None:
            self._headed = True
            self.reusable = self._parser.should_keep_alive()

    def on_chunk_header(self) -> None:
        """Note the size of a chunk."""
        self.between = False

    def on_chunk_complete(self) -> None:
        """Note the line end of a chunk."""
        self.between = True

    def on_body(self, data: bytes) -> None:
        """Take bytes of a chunk."""
        self._dry = 0
        self.body.append(data)
        self.held += len(data)

    def on_message_complete(self) -> None:
        """Note the end of the message."""
        self._over = True


# ---- Plain heads -----------------------------------------------------------------------------------------------------

# A plain head is HTTP/1.1 with a final status, a body and lines that end with CRLF. No header but `Content-Length`
# frames or codes the body. Nearly every agent writes such a head, and llhttp reads it in the same way.


class PlainHead(msgspec.Struct, frozen=True, eq=False):
    """One head, reused for following heads that differ from it only in the length of the body.

    Attributes:
        headers: As `ResponseParser` has them.
        at: The index of the length in `headers`.
        before: The bytes in front of the digits of the length.
        after: The bytes behind them.
        known: A cache of values that are derived from the head without the length, as `Reply.known`.
    """

    status: int
    headers: Pairs
    at: int
    before: bytes
    after: bytes
    known: ReplyCache


class PlainHeads:
    """Reads the heads of one agent's responses.

    The last head is kept: agents repeat it, except for the length of the body, and once a second the date.

    Args:
        header_bytes: Most bytes in a head.
        header_count: Most headers in it.
    """

    __slots__ = ("_header_bytes", "_header_count", "_last")

    def __init__(self, header_bytes: int, header_count: int) -> None:
        self._header_bytes = header_bytes
        self._header_count = header_count
        self._last: PlainHead | None = None

    def read(self, data: bytes) -> tuple[PlainHead, bytes, int] | None:
        """Return the head that `data` begins with, the digits of its length, and the index of the body.

        None if the head is incomplete or not plain.
        """
        end = data.find(_HEAD_END) + 4
        if end < 4 or end > self._header_bytes:
            return None
        last = self._last
        if last is not None:
            start, behind = len(last.before), end - len(last.after)
            if start < behind <= start + LENGTH_DIGITS and data.startswith(last.before):
                digits = data[start:behind]
                if digits.isdigit() and data.startswith(last.after, behind):
                    return last, digits, end
        head = _read_plain(data[:end], self._header_count)
        if head is None:
            return None
        if end <= _LONGEST_KEPT:
            self._last = head
        return head, head.headers[head.at][1], end


def _read_plain(raw: bytes, most: int) -> PlainHead | None:
    found = _PLAIN.fullmatch(raw)
    if found is None or int(found[1]) in _BODILESS:
        return None
    words, *lines = raw[found.end(1) : -4].split(b"\r\n")
    if len(lines) > most:
        return None
    headers: Pairs = []
    at = -1
    for number, line in enumerate(lines):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name == _LENGTH:
            if at >= 0 or not value.isdigit() or len(value) > LENGTH_DIGITS or not line.endswith(value):
                return None
            at = number
        elif name in _TELLING or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers.append((name, value))
    if at < 0:
        return None
    # The index behind the digits of the length.
    end = found.end(1) + len(words) + sum(len(line) + 2 for line in lines[: at + 1])
    return PlainHead(int(found[1]), headers, at, raw[: end - len(headers[at][1])], raw[end:], ReplyCache())
