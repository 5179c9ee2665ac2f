"""Scripts of hostile or broken agents, by name: the rows of safety B4 and R2 to R8 that bytes can play.

    for name, behaviour in BEHAVIOURS.items(): ...

Each plays one connection. `reason` is what the gateway has to say of it; None where the answer is good, and then only
the connection or the headers are what is wrong.
"""

import asyncio
import gzip
from dataclasses import dataclass

from tests.support.gateway import RESULT
from tests.support.scripted import (
    SSE,
    Script,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    answers_and_resets,
    chunk,
    closes_at_once,
    endless,
    head,
    resets_at_once,
    whole,
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One thing that an agent does.

    Attributes:
        reason: The reason in metrics and log, or None for an answer that passes.
        stream: Whether it is played on a call for a stream.
        large: Whether it is played on a call that no buffer holds.
        reused: Whether the connection serves the next call, for nothing is odd about the answer.
    """

    script: Script
    reason: str | None = "upstream_protocol"
    stream: bool = False
    large: bool = False
    reused: bool = False


CHUNKED = head(b"transfer-encoding: chunked")
SAID = RESULT
EVENT = b"data: " + RESULT + b"\n\n"
METADATA = b"http://169.254.169.254/latest/meta-data/"
ZIPPED = gzip.compress(b'{"jsonrpc":"2.0","id":1,"result":"' + b"0" * (1 << 24) + b'"}')
"""Sixteen megabytes in sixteen kilobytes."""


def says(raw: bytes, reason: str | None = "upstream_protocol") -> Behaviour:
    """Answers with these bytes, and waits for what the gateway does."""
    return Behaviour(answers_and_hangs(raw), reason)


def streams(raw: bytes, reason: str | None = "upstream_protocol") -> Behaviour:
    """Opens a stream, and sends this in a chunk."""
    return Behaviour(answers_and_hangs(SSE + chunk(raw)), reason, stream=True)


def fields(*lines: bytes) -> Behaviour:
    """Gives a good answer with these headers, which must be refused."""
    return says(whole(SAID, *lines))


def dresses(*lines: bytes) -> Behaviour:
    """Gives a good answer with these headers, which must not matter."""
    return good(whole(SAID, *lines))


def good(raw: bytes) -> Behaviour:
    """Gives these bytes, which are a good answer, and another one to the next call."""
    later = whole(SAID.replace(b'"id":1', b'"id":"next"'))
    return Behaviour(answers(raw, later), None, reused=True)


def body(raw: bytes, *lines: bytes) -> Behaviour:
    """Gives this body in a good frame."""
    return says(whole(raw, *lines))


def renames(identity: bytes) -> Behaviour:
    """Gives a good answer under an id of its own; its connection serves nobody else."""
    return Behaviour(answers_and_hangs(whole(SAID.replace(b'"id":1', b'"id":' + identity))), None)


def page(status: bytes, *lines: bytes) -> Behaviour:
    """Gives a page of another server's under this status."""
    return says(whole(b"<p>10.9.8.7</p>", *lines, status=status))


async def answers_early(wire: Wire) -> None:
    """Answers before the request has been read, and reads no more of it."""
    await wire.received(1)
    wire.transport.pause_reading()
    await wire.send(whole(SAID))
    await asyncio.sleep(0.05)
    wire.transport.resume_reading()
    await wire.hang()


async def answers_twice_later(wire: Wire) -> None:
    """Answers, and answers again when the gateway believes the connection to rest."""
    await wire.request()
    await wire.send(whole(SAID))
    await asyncio.sleep(0.05)
    await wire.send(whole(SAID.replace(b'"ho"', b'"of another"')))
    await wire.hang()


async def goes_on_for_ever(wire: Wire) -> None:
    """Ends its stream and sends another."""
    await wire.request()
    await wire.send(SSE + chunk(EVENT) + chunk(b"") + SSE + chunk(EVENT))
    await wire.hang()


DEATHS = {
    "resets when it is called": Behaviour(resets_at_once, "upstream_reset"),
    "closes when it is called": Behaviour(closes_at_once, "upstream_reset"),
    "closes without a byte": Behaviour(answers_and_closes(), "upstream_reset"),
    "resets without a byte": Behaviour(answers_and_resets(), "upstream_reset"),
    "closes in the status line": Behaviour(answers_and_closes(b"HTTP/1.1 2"), "upstream_reset"),
    "resets in the status line": Behaviour(answers_and_resets(b"HTTP/1.1 2"), "upstream_reset"),
    "closes in a header": Behaviour(answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-le"), "upstream_reset"),
    "closes behind an interim answer": Behaviour(
        answers_and_closes(b"HTTP/1.1 100 Continue\r\n\r\n"), "upstream_reset"
    ),
    "closes in the body": Behaviour(answers_and_closes(whole(SAID)[:-1]), "upstream_reset"),
    "resets in the body": Behaviour(answers_and_resets(whole(SAID)[:-1]), "upstream_reset"),
    "closes in a chunk": Behaviour(answers_and_closes(CHUNKED + chunk(SAID)[:-3]), "upstream_reset"),
    "leaves out the last chunk": Behaviour(answers_and_closes(CHUNKED + chunk(SAID)), "upstream_reset"),
    "resets an answer without a length": Behaviour(answers_and_resets(head() + SAID[:-5]), "upstream_reset"),
    "closes an answer without a length half way": Behaviour(answers_and_closes(head() + SAID[:-5])),
    "closes an answer without a length": Behaviour(answers_and_closes(head() + SAID), None),
}

SILENCES = {
    "never answers": says(b"", "upstream_timeout"),
    "falls silent in the status line": says(b"HTTP/1.1", "upstream_timeout"),
    "falls silent in a header": says(b"HTTP/1.1 200 OK\r\ncontent-", "upstream_timeout"),
    "falls silent behind an interim answer": says(b"HTTP/1.1 103 Early Hints\r\n\r\n", "upstream_timeout"),
    "falls silent in the body": says(whole(SAID)[:-1], "upstream_timeout"),
    "falls silent in a chunk": says(CHUNKED + b"ff\r\n{", "upstream_timeout"),
    "answers as if it was asked by HEAD": says(head(b"content-length: 99"), "upstream_timeout"),
    "says it is longer than it is": says(whole(SAID).replace(b"length: 1", b"length: 11"), "upstream_timeout"),
}

NO_HTTP = {
    "garbage": says(bytes(range(256)) * 4),
    "a page of HTTP/0.9": says(b"<html>hello</html>\r\n\r\n"),
    "a preface of HTTP/2": says(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
    "a frame of HTTP/2": says(b"\0\0\0\4\0\0\0\0\0"),
    "an alert of TLS": says(b"\x15\x03\x01\0\x02\x02\x28"),
    "a banner of SMTP": says(b"220 mail ESMTP\r\n"),
    "RTSP": says(b"RTSP/1.0 200 OK\r\n\r\n"),
    "HTTP/2.0 in the status line": says(b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "HTTP/1.2": says(b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "HTTP/0.9 in the status line": says(b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "a request": says(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
    "status 000": says(b"HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n"),
    "status 99": says(b"HTTP/1.1 99 X\r\ncontent-length: 0\r\n\r\n"),
    "status 600": says(b"HTTP/1.1 600 X\r\ncontent-length: 0\r\n\r\n"),
    "status 999": says(b"HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n"),
    "status 1000": says(b"HTTP/1.1 1000 X\r\ncontent-length: 0\r\n\r\n"),
    "status -1": says(b"HTTP/1.1 -1 X\r\ncontent-length: 0\r\n\r\n"),
    "status 2OO": says(b"HTTP/1.1 2OO OK\r\ncontent-length: 0\r\n\r\n"),
    "an upgrade unasked": says(b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81\x05hello"),
    "101 and nothing else": says(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    "a flood of 103": Behaviour(endless(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")),
    "an interim answer with a body": says(b"HTTP/1.1 103 X\r\ncontent-length: 5\r\n\r\nhello" + whole(SAID)),
    "an empty line in front": says(b"\r\n" + whole(SAID)),
}

HEADS = {
    "a header of 4 MiB": says(b"HTTP/1.1 200 OK\r\nx: " + b"y" * (4 << 20) + b"\r\n\r\n"),
    "an endless head": Behaviour(endless(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 100)),
    "20,000 headers": says(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n"),
    "101 headers": says(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 101 + b"\r\n"),
    "a folded header": fields(b"x: y\r\n z"),
    "a header folded by a tab": fields(b"x: y\r\n\tz"),
    "a head of bare LF": says(whole(SAID).replace(b"\r\n", b"\n")),
    "one bare LF": fields(b"x: y\nset-cookie: a=b"),
    "a bare CR": fields(b"x: y\rset-cookie: a=b"),
    "a NUL": fields(b"x: y\0z"),
    "a space before the colon": fields(b"content-length : 5"),
    "a header without a name": fields(b": x"),
    "a line without a colon": fields(b"nothing"),
    "a control character in a name": fields(b"x\x0by: z"),
    "a non-token in a name": fields(b"x(y): z"),
    "two types": fields(b"content-type: text/html"),
    "an encoding": fields(b"content-encoding: gzip"),
    "two encodings": fields(b"content-encoding: identity, gzip"),
    "an encoding in another case": fields(b"Content-ENCODING: BR"),
}

LENGTHS = {
    "its length twice": says(head(b"content-length: 2", b"content-length: 2") + b"{}"),
    "two lengths": says(head(b"content-length: 2", b"content-length: 7") + b"{}"),
    "a list of lengths": says(head(b"content-length: 2, 2") + b"{}"),
    "a length and chunks": says(head(b"content-length: 2", b"transfer-encoding: chunked") + chunk(SAID) + chunk(b"")),
    "chunks and a length": says(head(b"transfer-encoding: chunked", b"content-length: 2") + chunk(SAID) + chunk(b"")),
    "a negative length": says(head(b"content-length: -1") + SAID),
    "a length with a plus": says(head(b"content-length: +5") + SAID),
    "a length in hex": says(head(b"content-length: 0x10") + SAID),
    "a length of 20 digits": says(head(b"content-length: 99999999999999999999") + SAID),
    "an empty length": says(head(b"content-length: ") + SAID),
    "a length with an underscore": says(head(b"content-length: 1_0") + SAID),
    "it is longer than it says": says(head(b"content-length: %d" % (len(SAID) - 2)) + SAID),
    "it closes before it is as long as it says": Behaviour(
        answers_and_closes(head(b"content-length: %d" % (len(SAID) + 2)) + SAID), "upstream_reset"
    ),
    "gzip and chunks": says(head(b"transfer-encoding: gzip, chunked") + chunk(SAID) + chunk(b"")),
    "chunks twice": says(head(b"transfer-encoding: chunked, chunked") + chunk(SAID) + chunk(b"")),
    "two lines of chunks": says(head(b"transfer-encoding: chunked", b"transfer-encoding: chunked") + chunk(b"")),
    "an unknown coding": says(head(b"transfer-encoding: xchunked") + chunk(SAID) + chunk(b"")),
    "the identity coding": says(head(b"transfer-encoding: identity") + SAID),
    "chunks in HTTP/1.0": says(head(b"transfer-encoding: chunked", version=b"1.0") + chunk(SAID) + chunk(b"")),
    "a chunk of no number": says(CHUNKED + b"xyz\r\n{}\r\n0\r\n\r\n"),
    "a chunk of a negative number": says(CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk of 0x2": says(CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a chunk of 17 digits": says(CHUNKED + b"f" * 17 + b"\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": says(CHUNKED + b"2\r\n{}{}\r\n0\r\n\r\n"),
    "a chunk that ends with bare LF": says(CHUNKED + b"2\n{}\n0\n\n"),
    "an endless chunk extension": Behaviour(endless(CHUNKED + b"2;", b"x" * 1000)),
    "a chunk extension of 1 MiB": says(CHUNKED + b"2;" + b"x" * (1 << 20) + b"\r\n{}\r\n0\r\n\r\n"),
    "endless trailers": Behaviour(endless(CHUNKED + chunk(SAID) + b"0\r\n", b"x: y\r\n" * 100)),
    "trailers": says(CHUNKED + chunk(SAID) + b"0\r\nset-cookie: a=b\r\n\r\n", None),
}

DESYNCS = {
    "a second answer glued on": says(whole(SAID) + whole(SAID.replace(b'"ho"', b'"of another"'))),
    "a second answer behind chunks": says(CHUNKED + chunk(SAID) + chunk(b"") + whole(SAID)),
    "one byte too many": says(whole(SAID) + b"\n"),
    "a line end too many behind chunks": says(CHUNKED + chunk(SAID) + chunk(b"") + b"\r\n", None),
    "a second answer a moment later": Behaviour(answers_twice_later, None),
    "an answer before the request is read": Behaviour(answers_early, None, large=True),
    "an answer and a close": Behaviour(answers_and_closes(whole(SAID)), None),
    "an answer that asks to close": Behaviour(answers_and_hangs(whole(SAID, b"connection: close")), None),
    "an answer of HTTP/1.0": Behaviour(
        answers_and_hangs(head(b"content-length: %d" % len(SAID), version=b"1.0") + SAID), None
    ),
    "204 with a body": says(head(b"content-length: 2", status=b"204 No Content") + b"{}"),
    "204 that says it has a body": says(head(b"content-length: 2", status=b"204 No Content")),
    "304": says(head(b"content-length: 2", status=b"304 Not Modified")),
    "a part": says(whole(SAID, status=b"206 Partial Content")),
}

BODIES = {
    "a bomb": says(whole(ZIPPED, b"content-encoding: gzip")),
    "gzip without a word": body(ZIPPED[:10_000]),
    "html": body(b"<script>alert(1)</script>"),
    "html that says so": says(head(b"content-length: 3", content_type=b"text/html") + b"<p>"),
    "JSON that says it is text": says(head(b"content-length: %d" % len(SAID), content_type=b"text/plain") + SAID),
    "nothing": body(b""),
    "half a document": body(SAID[:-2]),
    "two documents": body(SAID + SAID),
    "a document and a byte": body(SAID + b"\0"),
    "a batch": body(b"[" + SAID + b"]"),
    "null": body(b"null"),
    "a string": body(b'"text"'),
    "an empty object": body(b"{}"),
    "UTF-16": body(SAID.decode().encode("utf-16")),
    "UTF-32": body(SAID.decode().encode("utf-32")),
    "a byte-order mark": body(b"\xef\xbb\xbf" + SAID),
    "bytes that are no UTF-8": body(SAID.replace(b"ho", b"\xff\xfe")),
    "an overlong NUL": body(SAID.replace(b"ho", b"\xc0\x80")),
    "half a surrogate": body(SAID.replace(b"ho", b"\\ud800")),
    "NaN": body(SAID.replace(b'"ho"', b"NaN")),
    "a comment": body(b"/* */" + SAID),
    "100,000 brackets": body(SAID.replace(b'"ho"', b"[" * 100_000 + b"]" * 100_000)),
    "100,000 open brackets": body(b"[" * 100_000),
    "an id of its own": renames(b"2"),
    "the id as text": renames(b'"1"'),
    "an id of another type": renames(b'{"id":1}'),
    "a true id": renames(b"true"),
    "two ids": body(SAID.replace(b'"id":1', b'"id":2,"id":1')),
    "an escaped second id": body(SAID.replace(b'"id":1', b'"id":1,"i\\u0064":1')),
    "result and error": body(SAID[:-1] + b',"error":{"code":-32001,"message":"x"}}'),
    "two results": body(SAID[:-1] + b',"result":{}}'),
    "neither result nor error": body(b'{"jsonrpc":"2.0","id":1}'),
    "an error that is text": body(b'{"jsonrpc":"2.0","id":1,"error":"no"}'),
    "JSON-RPC 1.0": body(SAID.replace(b'"2.0"', b'"1.0"')),
    "JSON of another server": body(b'{"detail":"Not Found"}'),
}

PAGES = {
    **{
        f"a redirect {status.decode()} to the metadata service": says(
            whole(b"", b"location: " + METADATA, status=status)
        )
        for status in (b"300 X", b"301 X", b"302 X", b"303 X", b"305 X", b"307 X", b"308 X")
    },
    "a page for 400": page(b"400 Bad Request"),
    "a page for 404": page(b"404 Not Found"),
    "a page for 500": page(b"500 Internal Server Error"),
    "a page for 503": page(b"503 Service Unavailable"),
    "a challenge": page(b"401 Unauthorized", b"www-authenticate: Basic realm=gateway"),
    "a challenge of a proxy": page(b"407 Proxy Authentication Required", b"proxy-authenticate: Basic realm=gateway"),
    "a challenge in an envelope": says(
        whole(
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-31401,"message":"log in"}}',
            b"www-authenticate: Basic realm=gateway",
            status=b"401 Unauthorized",
        )
    ),
}

DRESSES = {
    "cookies": dresses(b"set-cookie: session=evil", b"set-cookie2: a=b"),
    "a challenge beside a good answer": dresses(b"www-authenticate: Basic realm=gateway"),
    "hop-by-hop headers": dresses(
        b"keep-alive: timeout=999", b"proxy-authenticate: Basic", b"trailer: x", b"te: trailers", b"upgrade: h2c"
    ),
    "what a front proxy obeys": dresses(
        b"x-accel-redirect: /internal/", b"x-sendfile: /etc/passwd", b"x-accel-buffering: yes", b"alt-svc: h3=:443"
    ),
    "headers that it names hop-by-hop": dresses(
        b"connection: keep-alive, x-request-id, cache-control, content-type, content-length"
    ),
    "permissions for browsers": dresses(
        b"access-control-allow-origin: *", b"access-control-allow-credentials: true", b"vary: origin"
    ),
    "a request id of its own": dresses(b"x-request-id: forged"),
    "caching": dresses(b"cache-control: public, max-age=9999", b"age: 1", b"etag: x", b"expires: 0"),
    "where it is": dresses(b"location: " + METADATA, b"server: agent/1.0", b"x-powered-by: x", b"via: 1.1 10.9.8.7"),
    "what pages obey": dresses(b"refresh: 0;url=http://evil.test", b"content-disposition: attachment", b"link: <x>"),
    "headers with underscores": dresses(b"x_request_id: forged", b"content_type: text/html"),
    "a charset": good(whole(SAID).replace(b"application/json", b"application/json; charset=utf-7")),
}

STREAMS = {
    "closes in a stream": Behaviour(answers_and_closes(SSE + chunk(EVENT)), "upstream_reset", stream=True),
    "resets in a stream": Behaviour(answers_and_resets(SSE + chunk(EVENT)), "upstream_reset", stream=True),
    "resets in an event": Behaviour(answers_and_resets(SSE + chunk(EVENT[:-9])), "upstream_reset", stream=True),
    "falls silent in a stream": streams(EVENT, "upstream_idle"),
    "falls silent in an event": streams(EVENT[:-9], "upstream_idle"),
    "an event of no JSON": streams(b"data: hello\n\n"),
    "an event of half an object": streams(b"data: {\n\n"),
    "an event of a list": streams(b"data: []\n\n"),
    "an event of html": streams(b"data: <script>\n\n"),
    "an event of UTF-16": streams("data: {}\n\n".encode("utf-16")[2:] + b"\n\ndata: \0{\n\n"),
    "an endless line": Behaviour(endless(SSE, chunk(b"data: " + b"x" * 20_000)), stream=True),
    "an event of 5 MiB in many lines": streams(b"data: x\n" * (5 << 17) + b"\n"),
    "an event of too many kinds of lines": streams(b"data:x\nid:1\n" * 30_000 + b"\n"),
    "a bad chunk in a stream": Behaviour(answers_and_hangs(SSE + chunk(EVENT) + b"zz\r\n"), stream=True),
    "a stream behind a stream": Behaviour(goes_on_for_ever, stream=True),
    "a compressed stream": Behaviour(
        answers_and_hangs(SSE.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")), stream=True
    ),
    "a stream under a 500": Behaviour(answers_and_hangs(SSE.replace(b"200 OK", b"500 No") + chunk(EVENT)), stream=True),
    "a stream that nobody asked for": says(SSE + chunk(EVENT) + chunk(b"")),
    "a page for a stream": Behaviour(answers_and_hangs(whole(b"<p>", status=b"502 Bad Gateway")), stream=True),
}

BEHAVIOURS = DEATHS | SILENCES | NO_HTTP | HEADS | LENGTHS | DESYNCS | BODIES | PAGES | DRESSES | STREAMS
"""All of them."""
