"""The head of a call over gRPC, read strictly: one reading, or a refusal (gRPC over HTTP/2, Requests; RFC 9113 §8).

h2 could check headers, too, byte by byte, at three times the cost of all else that it does; and it would close the
connection, with every other call on it, where the answer to one is enough.
"""

import re

import msgspec

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.grpc_status import CODES, Status, trailers
from gateway.a2a.call import Head
from gateway.a2a.headers import Pairs, media_type
from gateway.certificate import Certificate
from gateway.listener.request import host_name

CONTENT_TYPE = (b"content-type", b"application/grpc")
IDENTITY = (b"grpc-accept-encoding", b"identity")

_LONGEST_TIMEOUT = 30 * 24 * 3600.0
_OVERHEAD = 32

# RFC 9113 §8.2.1, with the names that RFC 9110 §5.1 allows; values as HTTP/1.1 has them.
_NAMES = re.compile(rb"(?::?[!#$%&'*+.^_`|~0-9a-z-]++\n)*+")
_VALUES = re.compile(rb"(?:[\t\x20-\x7e\x80-\xff]*+\n)*+")
_PSEUDO = frozenset({b":method", b":scheme", b":path", b":authority"})
_CONNECTION = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
"""They belong to HTTP/1.1, and a request that has one is malformed (RFC 9113 §8.2.2)."""
_NO_METADATA = frozenset(
    {b"te", b"content-type", b"content-length", b"host", b"grpc-encoding", b"grpc-accept-encoding"}
)
"""What says how the request is written, and nothing to whoever answers it."""
_ONCE = (b"content-type", b"host", b"grpc-encoding", b"grpc-timeout")
_TYPES = frozenset({b"application/grpc", b"application/grpc+proto"})
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class GrpcBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the connections of clients of gRPC, beside what HTTP/1.1 has as well; times in seconds.

    Attributes:
        connections: Most connections, which `Edge` counts.
        streams: Most calls at once over one connection.
        metadata: Most bytes of a call's headers, each counted with 32 more (RFC 9113 §6.5.2).
        resets: Calls of one connection that may be taken back at once within 30 s.
        keepalive: Silence after which the client is asked whether it is there.
        idle: How long a connection without calls may last.
        deadline: From the connection to its client's settings; and from the first byte of a call's headers to the last.
    """

    connections: int = 10_000
    streams: int = 4096
    metadata: int = 32 * 1024
    resets: int = 200
    keepalive: float = 60.0
    idle: float = 900.0
    deadline: float = 10.0


class CallRefused(Exception):  # noqa: N818 - the word for it; it carries its own answer
    """The headers are no call that this gateway takes.

    Attributes:
        status: Of HTTP, for the log and for clients of it.
        words: For the client.
        code: Of gRPC, for clients of that; None where the client speaks something else.
    """

    def __init__(self, status: int, words: str, code: str | None = None, *more: tuple[bytes, bytes]) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.code = code
        self._more = more

    def headers(self, request_id: str) -> Pairs:
        """The whole answer: headers without a body."""
        known = (b"x-request-id", request_id.encode("ascii"))
        if self.code is None:
            return [(b":status", b"%d" % self.status), *self._more, known]
        status = trailers(Status(CODES[self.code], self.words))
        return [(b":status", b"200"), CONTENT_TYPE, *self._more, known, *status]


class GrpcRequest(msgspec.Struct, frozen=True):
    """The head of a call.

    Attributes:
        timeout: Seconds that the client gives it, or None.
        again: Whether the same head may serve again, while this one is in use: a call that streams lets go of its.
    """

    head: Head
    timeout: float | None
    again: bool


def read_request(
    headers: list[tuple[bytes, bytes]],
    peer: str,
    scheme: str,
    *,
    longest: int,
    most: int,
    certificate: Certificate | None = None,
) -> GrpcRequest:
    """The head of a call.

    Args:
        headers: As they came.
        peer: Address of the client.
        longest: Most bytes, as `GrpcBounds.metadata`.
        most: Most headers.
        certificate: What the client has shown on this connection.

    Raises:
        CallRefused: it is none that this gateway takes.
    """
    _see_size(headers, longest, most)
    _see_syntax(headers)
    pseudo = _pseudo(headers)
    fields = [(name, value.strip(b" \t")) for name, value in headers if name not in _PSEUDO]
    values = dict(fields)
    if len(values) != len(fields):
        _see_once([name for name, _ in fields])
    if not _CONNECTION.isdisjoint(values):
        raise CallRefused(400, "a header belongs to HTTP/1.1")
    path = pseudo.get(b":path", b"")
    if pseudo[b":method"] != b"POST":
        raise CallRefused(405, "calls of gRPC are posted", None, (b"allow", b"POST"))
    if path[:1] != b"/":
        raise CallRefused(400, "the path is none")
    if media_type(values.get(b"content-type")) not in _TYPES:
        raise CallRefused(415, "this is no call of gRPC")
    host = _host(pseudo.get(b":authority"), values.get(b"host"))
    if values.get(b"grpc-encoding", b"identity") != b"identity":
        # gRPC over HTTP/2, Message-Encoding: whoever does not know one says so, and which it knows.
        raise CallRefused(415, "messages must not be compressed", "UNIMPLEMENTED", IDENTITY)
    timeout = _timeout(values.get(b"grpc-timeout"))
    metadata = tuple([field for field in fields if field[0] not in _NO_METADATA])
    method = BY_PATH.get(path.decode("latin-1"))
    head = Head(
        "POST", path, host=host, headers=metadata, peer=peer, scheme=scheme, grpc=method, certificate=certificate
    )
    return GrpcRequest(head, timeout, method is not None and not method.operation.streams)


def _see_size(headers: list[tuple[bytes, bytes]], longest: int, most: int) -> None:
    size = sum([len(name) + len(value) for name, value in headers]) + _OVERHEAD * len(headers)
    if size > longest:
        raise CallRefused(431, f"the metadata exceeds {longest} bytes", "RESOURCE_EXHAUSTED")
    if len(headers) > most:
        raise CallRefused(431, f"there are more than {most} headers", "RESOURCE_EXHAUSTED")


def _see_syntax(headers: list[tuple[bytes, bytes]]) -> None:
    names = b"".join([b"%b\n" % name for name, _ in headers])
    values = b"".join([b"%b\n" % value for _, value in headers])
    whole = names.count(b"\n") == values.count(b"\n") == len(headers)
    if not whole or _NAMES.fullmatch(names) is None or _VALUES.fullmatch(values) is None:
        raise CallRefused(400, "a header is malformed")


def _pseudo(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The pseudo headers: in front, once each, and those of a request (RFC 9113 §8.3)."""
    count = next((at for at, (name, _) in enumerate(headers) if name[0] != 0x3A), len(headers))
    found = dict(headers[:count])
    behind = any(name[0] == 0x3A for name, _ in headers[count:])
    if behind or len(found) != count or not found.keys() <= _PSEUDO or b":method" not in found:
        raise CallRefused(400, "the pseudo headers are not those of a request")
    return found


def _see_once(names: list[bytes]) -> None:
    for name in _ONCE:
        if names.count(name) > 1:
            raise CallRefused(400, f"{name.decode('ascii')} is said twice")


def _host(authority: bytes | None, host: bytes | None) -> str:
    # RFC 9113 §8.3.1: one of the two, and where there are both they say the same.
    if authority is None:
        authority = host
    elif host is not None and host != authority:
        raise CallRefused(400, "there are two hosts")
    found = None if authority is None else host_name(authority)
    if found is None:
        raise CallRefused(400, "the authority is no host")
    return found


def _timeout(value: bytes | None) -> float | None:
    if value is None:
        return None
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise CallRefused(400, "grpc-timeout is no time", "INVALID_ARGUMENT")
    seconds = int(found[1]) * _UNITS[found[2]]
    # No timer rings after years.
    return seconds if seconds <= _LONGEST_TIMEOUT else None
