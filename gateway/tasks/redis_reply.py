r"""What a Redis answers: bytes in, values out (RESP, version 2). Knows no socket.

    +OK\r\n                 a status: bytes
    -OOM command …\r\n      a `Complaint`
    :7\r\n                  an int
    $2\r\nab\r\n            bytes; a length of -1 is None
    *2\r\n…                 a list of such values; a length of -1 is None

Whatever is neither is a `NoReply`: the peer is no Redis, and nobody knows where its next answer would begin.
"""

from typing import Final, TypeAlias

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of an answer; of those that are asked for here none comes near."""

_DEEPEST: Final = 4
_LENGTH_DIGITS: Final = 20


class Complaint:
    """An error that a Redis tells.

    Attributes:
        word: Its first word, such as `OOM` or `READONLY`; the only one that is safe to show, for the rest may repeat
            what it was asked.
        rest: What follows, for the few words whose meaning is there.
    """

    __slots__ = ("rest", "word")

    def __init__(self, line: bytes) -> None:
        word, _, self.rest = line.partition(b" ")
        self.word = word.decode("ascii", "replace")[:32]


Reply: TypeAlias = "bytes | int | Complaint | list[Reply] | None"


class NoReply(Exception):  # noqa: N818 - it is what it is
    """Bytes that are no answer of a Redis."""


class _Incomplete(Exception):  # noqa: N818 - no error: the rest has not come yet
    pass


class ReplyReader:
    """Puts answers together from what comes in."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Reply]:
        """Answers that are complete now, in order.

        Raises:
            NoReply: there is none, or one that is too long.
        """
        if self._rest:
            data = self._rest + data
        replies: list[Reply] = []
        at, size = 0, len(data)
        try:
            while at < size:
                reply, at = _read(data, at, 0)
                replies.append(reply)
        except _Incomplete:
            if size - at > LARGEST:
                raise NoReply("it does not end") from None
        self._rest = data[at:] if at else data
        if at >= size:
            self._rest = b""
        return replies


def _read(data: bytes, at: int, depth: int) -> tuple[Reply, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    mark = data[at : at + 1]
    after = end + 2
    if mark == b"+":
        return data[at + 1 : end], after
    if mark == b"-":
        return Complaint(data[at + 1 : end]), after
    number = _number(data[at + 1 : end])
    if mark == b":":
        return number, after
    if number < -1 or number > LARGEST:
        raise NoReply("a length that cannot be")
    if mark == b"$":
        return _bulk(data, after, number)
    if mark != b"*" or depth == _DEEPEST:
        raise NoReply("no type of RESP 2")
    if number < 0:
        return None, after
    values: list[Reply] = []
    for _ in range(number):
        value, after = _read(data, after, depth + 1)
        values.append(value)
    return values, after


def _bulk(data: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, at
    end = at + size
    if len(data) < end + 2:
        raise _Incomplete
    if data[end : end + 2] != b"\r\n":
        raise NoReply("a string that is longer than it says")
    return data[at:end], end + 2


def _number(digits: bytes) -> int:
    unsigned = digits[1:] if digits[:1] == b"-" else digits
    if not unsigned.isdigit() or len(digits) > _LENGTH_DIGITS:
        raise NoReply("a number that is none")
    return int(digits)
