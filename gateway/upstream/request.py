"""The head of a request to an agent: always our own framing, never a byte that could end a line."""

import re
from collections.abc import Iterable

# RFC 9112 §2.1, §3, §5: every line of the head, and nothing that is not one. Targets are in origin-form (§3.2.1).
_HEAD = re.compile(
    rb"[A-Z]+ /[\x21\x22\x24-\x7e]* HTTP/1\.1\r\n"
    rb"host: [A-Za-z0-9._~:\[\]-]+\r\n"
    rb"(?:[A-Za-z0-9!#$%&'*+.^_`|~-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*"
    rb"\r\n"
)

# The hop is ours: what a client or an operator says about theirs must not frame or keep this one (safety H3, H4, H6).
_OURS = frozenset(
    {
        b"host", b"content-length", b"transfer-encoding", b"connection", b"proxy-connection", b"keep-alive", b"te",
        b"trailer", b"upgrade", b"expect",
    }
)  # fmt: skip


def request_head(
    method: bytes, target: bytes, host: bytes, headers: Iterable[tuple[bytes, bytes]], content_length: int | None
) -> bytes:
    """The complete head of a request, from the request line to the empty line.

    `Accept-Encoding: identity` is added unless `headers` has its own, for ids must be readable.

    Args:
        target: In origin-form: a raw path from `/` on, with its query.
        host: Value of the Host header, as `Origin.authority` gives it.
        headers: End-to-end headers in order.
        content_length: Bytes of the body, or None for a request without one.

    Raises:
        ValueError: something in it is no HTTP, would frame the request, or asks for an answer that cannot be read
            (HEAD, CONNECT). The text names the part, never its value.
    """
    lines = [method + b" " + target + b" HTTP/1.1", b"host: " + host]
    encoding = False
    for name, value in headers:
        lowered = name.lower()
        if lowered in _OURS:
            raise ValueError("a header of the hop itself cannot be set")
        if b":" in name:
            # The line would be well-formed, but of another name.
            raise ValueError("a header name is no HTTP")
        if lowered == b"accept-encoding":
            encoding = True
        lines.append(name + b": " + value)
    if not encoding:
        lines.append(b"accept-encoding: identity")
    if content_length is not None:
        lines.append(b"content-length: %d" % content_length)
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    # Each line is well-formed and there are as many as were put in, so no part brought a line of its own.
    if _HEAD.fullmatch(head) is None or head.count(b"\n") != len(lines) + 1:
        raise ValueError("a part of the request head is no HTTP")
    if method in (b"HEAD", b"CONNECT"):
        raise ValueError("the method has an answer of another shape")
    return head
