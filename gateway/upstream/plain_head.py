"""The head of an answer as nearly every agent writes it, read in one go; whatever looks different is left to a parser.

What is read here is a part of what the parser takes, and means the same: HTTP/1.1, a final status with a body, lines
that end with CRLF, no header but `Content-Length` that says how the body ends or how it is coded.
"""

import re

import msgspec

from gateway.a2a.headers import Pairs

LENGTH_DIGITS = 15
_HEAD_END = b"\r\n\r\n"
# RFC 9112 §4, §5: printable words behind the status; then names that are tokens, each with a colon at once.
_PLAIN = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9]) [\x20-\x7e]*+\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t\x20-\x7e\x80-\xff]*+\r\n)++\r\n"
)
_BODILESS = frozenset({204, 304})
# They frame or code the body, or ask for another protocol; `Connection` is read where it says what holds anyway.
_TELLING = frozenset({b"transfer-encoding", b"content-encoding", b"upgrade", b"proxy-connection"})
_LENGTH = b"content-length"
_LONGEST_KEPT = 2048


class PlainHead(msgspec.Struct, frozen=True, eq=False):
    """One head; of the next one that differs in the length of the body alone it tells the same.

    Attributes:
        headers: As `ResponseParser` has them.
        at: Which of them is the length.
        before: The bytes in front of the digits of the length.
        after: Those behind them.
        known: What was worked out from the head but for the length, under keys of whoever did.
    """

    status: int
    headers: Pairs
    at: int
    before: bytes
    after: bytes
    known: dict[object, object]


class PlainHeads:
    """Reads the heads of one agent's answers, and keeps the last one to know the next one by.

    Agents send the same head again and again, but for the length of the body, and the date once a second.

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
        """The head that `data` begins with, the digits of its length, and where the body begins.

        None where it is not whole, or not plain.
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
        head = _read(data[:end], self._header_count)
        if head is None:
            return None
        if end <= _LONGEST_KEPT:
            self._last = head
        return head, head.headers[head.at][1], end


def _read(raw: bytes, most: int) -> PlainHead | None:
    found = _PLAIN.fullmatch(raw)
    if found is None or int(found[1]) in _BODILESS:
        return None
    lines = raw[found.end(1) : -4].split(b"\r\n")
    del lines[0]
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
    # Every line in front of it, and itself, to where its digits begin.
    start = found.end(1) + raw[found.end(1) :].index(b"\r\n") + 2
    start += sum(len(line) + 2 for line in lines[: at + 1]) - 2 - len(headers[at][1])
    return PlainHead(int(found[1]), headers, at, raw[:start], raw[start + len(headers[at][1]) :], {})
