"""Heads on the side of agents: an answer is read as a strict reader reads it, a request is one and has our headers.

<Banswer                                    the second byte is the size of the pieces an answer comes in
>METHOD|target|host|name=value|name=value   the parts of a request; `|` and `=` stand for the borders between them
"""

import h11
import httptools

from gateway.a2a.fault import UpstreamProtocol, UpstreamReset
from gateway.upstream.request_head import request_head
from gateway.upstream.response_parser import PlainHeads, ResponseParser
from tests.fuzz.driver import run

BYTES, COUNT = 2048, 20
BODY = b"GET /second HTTP/1.1\r\nhost: a\r\n\r\n"
"""The body of every request: a reader that lost its place would take it for another one."""

SEEDS = [
    b"<\x05HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    b"<\x01HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"<\x03HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nlink: x\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n",
    b"<\x09HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nall until the end",
    b"<\x02HTTP/1.1 204 No Content\r\n\r\n",
    b"<\x04HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\ntrailer: x\r\n\r\n",
    b"<\x06HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n",
    b">POST|/rpc?x=1|agent:80|A2A-Version=1.0|x=",
    b">GET|/tasks/%C3%A9|[::1]|accept-encoding=identity|traceparent=00-1-2-03",
    b">DELETE|/|a.b|x-a2a-subject=a b|X=\xe4\t",
]
WORDS = [
    b"\r\n", b"\r", b"\n", b"\n\n", b"\r\n\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x7f", b"\xff", b":", b": ", b" : ",
    b"content-length: 1\r\n", b"content-length: 5\r\n", b"Content-Length:", b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n", b"content-encoding: gzip\r\n", b"connection: close\r\n",
    b"upgrade: h2c\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/1.1 304 X\r\n",
    b"HTTP/0.9", b"HTTP/2.0", b"0\r\n\r\n", b"5\r\nhello\r\n", b"1\r\nx\r\n", b"0x1", b"-1", b"+1", b"ffffffffffffffff",
    b";x", b'="\r\n"', b"0\r\nx: y\r\n\r\n", b"|", b"=", b"|host=b", b"|content-length=0", b"|te=trailers", b"|x_y=1",
    b"|Transfer-Encoding=chunked", b"/", b"*", b"http://b/", b"CONNECT", b"HEAD", b"@b", b"#",
]  # fmt: skip


def target(data: bytes) -> object:
    """Reads an answer, or builds a request."""
    return _answer(data[1:]) if data[:1] == b"<" else _request(data[1:])


# ---- Answers -------------------------------------------------------------------------------------------------------

Outcome = tuple[int, tuple[tuple[bytes, bytes], ...], bytes, str]


def _answer(data: bytes) -> object:
    size, raw = (data[0] if data else 0) + 1, data[1:]
    whole, reusable = _read(raw, len(raw) + 1)
    for each in (1, size):
        cut, also = _read(raw, each)
        # Line ends behind the last chunk: the parser passes over those that come with it, and the pool then closes.
        strayed = cut[3] == "no answer" and not reusable and raw.endswith((b"\r", b"\n"))
        assert cut == whole or strayed, (cut, whole)
        # One in pieces may not be trusted where one at once is, never the other way round.
        assert reusable or not also
    status, headers, body, end = whole
    if end in ("whole", "whole with the connection"):
        _compare(raw, whole, reusable=reusable)
    if reusable:
        assert end == "whole"
        # Nothing behind it, and nothing in it that could be taken for something behind it.
        assert raw.endswith((b"\r\n\r\n", body))
    return status, len(headers), end, reusable


def _read(raw: bytes, size: int) -> tuple[Outcome, bool]:
    reader = ResponseParser(BYTES, COUNT, PlainHeads(BYTES, COUNT))
    end = ""
    for at in range(0, len(raw), size):
        try:
            reader.feed(raw[at : at + size])
        except UpstreamProtocol:
            end = "refused"
            break
    else:
        end = "whole"
        if not reader.ended:
            try:
                reader.close()
                end = "whole with the connection"
            except UpstreamReset:
                end = "cut"
    assert sum(len(name) + len(value) for name, value in reader.headers) <= BYTES
    assert end == "refused" or len(reader.headers) <= COUNT
    assert reader.status == 0 or 200 <= reader.status <= 599
    if end in ("refused", "cut") and not reader.ended:
        # The number of earlier bytes depends on the chunks.
        return (0, (), b"", "no answer"), False
    if end == "refused":
        return (0, (), b"", "no answer"), False
    return (reader.status, tuple(reader.headers), reader.take(), end), reader.reusable and end == "whole"


def _compare(raw: bytes, ours: Outcome, *, reusable: bool) -> None:
    """Another strict reader reads the same, or refuses."""
    strict = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    strict.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    strict.send(h11.EndOfMessage())
    status, headers, body, ended = 0, tuple[tuple[bytes, bytes], ...](), b"", False
    try:
        strict.receive_data(raw)
        strict.receive_data(b"")
        while not ended:
            event = strict.next_event()
            if isinstance(event, h11.Response):
                status, headers = event.status_code, tuple((name, value) for name, value in event.headers)
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                ended = True
            else:
                assert isinstance(event, h11.InformationalResponse), event
    except h11.RemoteProtocolError as error:
        # They do not agree on what may stand in the words behind the status, and in trailers. Nobody reads those here,
        # and a connection on which trailers came serves no other call.
        in_trailers = not reusable and (status, body) == (ours[0], ours[2]) and b"chunked" in raw.lower()
        if "illegal status line" not in str(error) and not in_trailers:
            raise
        return
    # h11 writes the name of the coding in lower case.
    ours_said = tuple((name, value.lower() if name == b"transfer-encoding" else value) for name, value in ours[1])
    assert (status, headers, body) == (ours[0], ours_said, ours[2])


# ---- Requests ------------------------------------------------------------------------------------------------------


def _request(data: bytes) -> object:
    method, goes_to, host, *fields = [*data.split(b"|"), b"", b""][: max(3, data.count(b"|") + 1)]
    pairs = [(name, value) for name, _, value in (field.partition(b"=") for field in fields)]
    try:
        head = request_head(method, goes_to, host, pairs, len(BODY))
    except ValueError as error:
        return str(error)
    wanted = [(b"host", host), *((name.lower(), value.strip(b" \t")) for name, value in pairs)]
    if not any(name == b"accept-encoding" for name, _ in wanted):
        wanted.append((b"accept-encoding", b"identity"))
    wanted.append((b"content-length", b"%d" % len(BODY)))
    raw = head + BODY
    assert _by_lines(raw) == (method, goes_to, wanted, BODY)
    assert _by_h11(raw) == (method, goes_to, wanted, BODY)
    assert _by_httptools(raw) in ((method, goes_to, wanted, BODY), None)
    return method, len(pairs)


Request = tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]


def _by_lines(raw: bytes) -> Request:
    """RFC 9112 to the letter."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, goes_to, version = first.split(b" ")
    assert version == b"HTTP/1.1"
    assert not set(head) & {*range(9), *range(11, 13), *range(14, 32), 0x7F}
    assert head.count(b"\r") == head.count(b"\n") == len(lines)
    pairs = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
    return method, goes_to, pairs, body


def _by_h11(raw: bytes) -> Request:
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    server.receive_data(raw)
    asked = server.next_event()
    assert isinstance(asked, h11.Request)
    body = server.next_event()
    assert isinstance(body, h11.Data)
    assert isinstance(server.next_event(), h11.EndOfMessage)
    assert server.trailing_data == (b"", False)
    return asked.method, asked.target, list(asked.headers), bytes(body.data)


class _Heard:
    def __init__(self) -> None:
        self.begun = 0
        self.target = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.strip(b" \t")))

    def on_body(self, body: bytes) -> None:
        self.body += body


def _by_httptools(raw: bytes) -> Request | None:
    heard = _Heard()
    parser = httptools.HttpRequestParser(heard)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserInvalidMethodError:
        return None
    assert heard.begun == 1
    return parser.get_method(), heard.target, heard.headers, heard.body


if __name__ == "__main__":
    run(target, SEEDS, words=WORDS, longest=8 * 1024)
