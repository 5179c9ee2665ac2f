"""The head of a request to an agent, with the gateway's own framing.

Each part is checked where it is made, so that parts that the next request reuses are not checked again.
"""

import re
from collections.abc import Iterable

# RFC 9112 §2.1, §3, §5: every line of the head, and nothing that is not one. Targets are in origin-form (§3.2.1).
_START = re.compile(rb"[A-Z]+ /[\x21\x22\x24-\x7e]* HTTP/1\.1\r\nhost: [A-Za-z0-9._~:\[\]-]+\r\n")
_LINES = re.compile(rb"(?:[A-Za-z0-9!#$%&'*+.^_`|~-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")

# Headers of the hop, which neither a client nor an operator sets (safety H3, H4, H6).
_OURS = frozenset(
    {
        b"host", b"content-length", b"transfer-encoding", b"connection", b"proxy-connection", b"keep-alive", b"te",
        b"trailer", b"upgrade", b"expect",
    }
)  # fmt: skip


def request_head(
    method: bytes, target: bytes, host: bytes, headers: Iterable[tuple[bytes, bytes]], content_length: int | None
) -> bytes:
    """Return the complete head of a request, from the request line to the empty line.

    `Accept-Encoding: identity` is added unless `headers` has its own.

    Args:
        target: In origin-form: a raw path from `/` on, with its query.
        host: Value of the Host header, as `Origin.authority` gives it.
        headers: End-to-end headers in order.
        content_length: Bytes of the body, or None for a request without one.

    Raises:
        ValueError: a part is not valid HTTP, would frame the request, or is a method with another form of answer (HEAD,
            CONNECT). The text names the part, never its value.
    """
    headers = list(headers)
    if not any(name.lower() == b"accept-encoding" for name, _ in headers):
        headers.append((b"accept-encoding", b"identity"))
    return whole_head(start_lines(method, target, host), header_lines(headers), content_length)


def start_lines(method: bytes, target: bytes, host: bytes) -> bytes:
    """Return the request line and the Host header.

    Raises:
        ValueError: as `request_head`.
    """
    lines = b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method, target, host)
    # Two lines and no third: no part contains a line end.
    if _START.fullmatch(lines) is None or lines.count(b"\n") != 2:
        raise ValueError("a part of the request head is no HTTP")
    if method in (b"HEAD", b"CONNECT"):
        raise ValueError("the method has an answer of another shape")
    return lines


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return end-to-end headers, a line for each.

    Raises:
        ValueError: as `request_head`.
    """
    lines = []
    for name, value in headers:
        if name.lower() in _OURS:
            raise ValueError("a header of the hop itself cannot be set")
        if b":" in name:
            # The line would be well-formed, with another name.
            raise ValueError("a header name is no HTTP")
        lines.append(b"%b: %b\r\n" % (name, value))
    whole = b"".join(lines)
    if _LINES.fullmatch(whole) is None or whole.count(b"\n") != len(lines):
        raise ValueError("a part of the request head is no HTTP")
    return whole


def whole_head(start: bytes, headers: bytes, content_length: int | None) -> bytes:
    """Return the head made of `start_lines` and `header_lines`; `content_length` is as in `request_head`."""
    if content_length is None:
        return b"%b%b\r\n" % (start, headers)
    return b"%b%bcontent-length: %d\r\n\r\n" % (start, headers, content_length)
