"""The outline of a JSON document that is too long to be kept: what it is, and of which task, read while it passes.

States, by what the next byte may be:

    START     white space, or the object or list that the document is        → NAMES, or INSIDE for a list
    NAMES     a name, or the end of an object without members                → NAME, BEHIND or END
    NAME      a byte of a name                                               → COLON
    COLON     the colon behind it                                            → VALUE
    VALUE     the first byte of a value                                      → TEXT, SCALAR, INSIDE or NAMES
    TEXT      a byte of a string                                             → BEHIND
    SCALAR    a byte of a number or a word                                   → BEHIND
    INSIDE    a byte of an object or a list                                  → BEHIND, or END for the whole document
    BEHIND    a comma, or the end of the object                              → NEXT, BEHIND or END
    NEXT      a name                                                         → NAME
    END       white space

Those objects are *opened* that say what an answer is: the envelope, its result (or the whole document, where there is
no envelope), what 1.0 wraps in it (`task`, `message`), and a status. All others, and all lists, are counted through and
not read: whether they are JSON is for who reads them.

Refused in every state is whatever cannot follow, so that a second document, a member that decides something and stands
twice, or half a document is never overlooked. Memory is bounded by `_SLICE`, time is in proportion to the length
whatever the bytes are.
"""

import enum
import re
from itertools import accumulate

import msgspec

from gateway.a2a.digest import ANSWER, ENVELOPE, ILLEGIBLE, Opened, meaning
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.progress import NOTHING, Progress

_SLICE = 64 * 1024
_OF_TASKS = frozenset({b"id", b"taskId", b"task_id"})
_SIGHTED = ("task_id", "context_id", "state", "legible")
# Longer than any name that is read were all of it escaped.
_LONGEST_NAME = 96

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*")
_any = msgspec.json.Decoder(msgspec.Raw)
_STEP = re.compile(rb'["\[\]{}]')
# Brackets as steps down (1) and up (-1 as a signed byte).
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")


class _State(enum.Enum):
    START = enum.auto()
    NAMES = enum.auto()
    NEXT = enum.auto()
    NAME = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    TEXT = enum.auto()
    SCALAR = enum.auto()
    INSIDE = enum.auto()
    BEHIND = enum.auto()
    END = enum.auto()


class Outline:
    """Reads one document, piece by piece.

    Args:
        envelope: Whether it must be an object, the envelope of JSON-RPC; else it is the answer itself.

    Attributes:
        id: The raw value of the envelope's `id` once it is read whole; None before.
        failed: Whether it has an `error` that is not null.
        told: What the answer tells, as far as it was read; but the envelope's id.
        sighted: How often what it tells of the task and its context has changed.
    """

    __slots__ = (
        "_answer", "_answered", "_around", "_depth", "_envelope", "_escaped", "_here", "_kept", "_name", "_quoted",
        "_state", "_window", "failed", "id", "sighted", "told",
    )  # fmt: skip

    def __init__(self, *, envelope: bool) -> None:
        self.id: bytes | None = None
        self.failed = False
        self.told = NOTHING
        self.sighted = 0
        self._envelope = envelope
        self._answered: bool | None = None  # whether the result is not null; None where there is none
        self._state = _State.START
        self._here = Opened(ENVELOPE if envelope else ANSWER)  # the innermost object that is open
        self._around: list[Opened] = []
        self._answer = None if envelope else self._here
        self._name = b""
        self._kept = bytearray()  # a name, or a value that is read
        self._depth = 0  # of what is being counted through
        self._window = 0
        self._quoted = False  # within a string there
        self._escaped = False  # behind a backslash in a string

    @property
    def task_id(self) -> str | None:
        """The task that the answer is or is about; None as long as none is known."""
        return self.told.task_id

    @property
    def context_id(self) -> str | None:
        """Its context; None as long as none is known."""
        return self.told.context_id

    @property
    def state(self) -> str | None:
        """The state of the task, of `task_state.STATES`; None as long as none is known."""
        return self.told.state

    @property
    def ended(self) -> bool:
        """Whether the document is complete; white space may follow."""
        return self._state is _State.END

    @property
    def midway(self) -> bool:
        """Whether a name, or a value that is read, is not complete yet."""
        return bool(self._kept)

    def feed(self, piece: bytes) -> None:
        """Read on.

        Raises:
            UpstreamProtocol: it cannot follow, or a member that is read stands twice, is no JSON or too long.
        """
        for start in range(0, len(piece), _SLICE):
            self._read(piece[start : start + _SLICE])

    def close(self) -> None:
        """There is no more.

        Raises:
            UpstreamProtocol: the document is not complete.
        """
        if not self.ended:
            raise _no_answer("it breaks off")

    def answers_once(self) -> bool:
        """Whether a complete document has a result or an error, and not both."""
        return not self._answered if self.failed else self._answered is not None

    def _read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            state = self._state
            if state is _State.INSIDE:
                at = self._pass_inside(data, at)
            elif state is _State.TEXT or state is _State.NAME:
                at = self._read_text(data, at)
            elif state is _State.SCALAR:
                at = self._read_scalar(data, at)
            else:
                at = _end(_SPACE, data, at)
                if at < len(data):
                    at = self._step(data[at : at + 1], at)

    def _step(self, byte: bytes, at: int) -> int:
        """Decide on one byte between names and values; gives where to read on."""
        match self._state, byte:
            case _State.START, b"{":
                self._state = _State.NAMES
            case _State.START, b"[" if not self._envelope:
                self._count_through()
                self._learn(ILLEGIBLE)
            case ((_State.NAMES | _State.NEXT), b'"'):
                self._state = _State.NAME
            case _State.COLON, b":":
                self._state = _State.VALUE
            case _State.VALUE, b'"':
                self._state = _State.TEXT
                self._keep(byte)
            case _State.VALUE, (b"{" | b"["):
                self._begin(byte)
                self._enter(byte)
            case _State.VALUE, _:
                self._state = _State.SCALAR
                return at
            case _State.BEHIND, b",":
                self._state = _State.NEXT
            case ((_State.BEHIND | _State.NAMES), b"}"):
                self._leave()
            case _:
                raise _no_answer("it is no JSON" if self._state is not _State.END else "bytes behind its end")
        return at + 1

    # ---- Objects that are opened -----------------------------------------------------------------------------------

    def _enter(self, byte: bytes) -> None:
        """An object or a list has begun."""
        shape = self._here.shape.opened.get(self._name) if byte == b"{" else None
        if shape is None:
            self._count_through()
            self._note(b"{}" if byte == b"{" else b"[]")
            if self._here.shape is ENVELOPE and self._name == b"result":
                self._learn(ILLEGIBLE)
            return
        opened = Opened(shape)
        if self._answer is None:
            self._answer = opened
        self._note(opened)
        self._around.append(self._here)
        self._here = opened
        self._state = _State.NAMES

    def _leave(self) -> None:
        """An object has ended."""
        self._here.ended = True
        if not self._around:
            self._state = _State.END
            if not self._envelope:
                self._tell()
            return
        self._here = self._around.pop()
        self._state = _State.BEHIND
        self._tell()

    def _note(self, value: bytes | Opened) -> None:
        """Remember the member that was named last, if it is read."""
        here = self._here
        if here.shape.reads(self._name):
            here.members[self._name] = value
            if here.shape is not ENVELOPE:
                self._tell()

    def _tell(self) -> None:
        """Learn what the answer tells by now."""
        told = None if self._answer is None else meaning(self._answer)
        if told is None:
            raise _no_answer("it is no JSON")
        self._learn(told)

    def _learn(self, told: Progress) -> None:
        before, self.told = self.told, told
        if any(getattr(told, name) != getattr(before, name) for name in _SIGHTED):
            self.sighted += 1

    # ---- Names and values that are read --------------------------------------------------------------------------

    def _read_text(self, data: bytes, at: int) -> int:
        start = at
        if self._escaped:
            self._escaped = False
            at += 1
        at = _end(_TEXT, data, at)
        if at < len(data) and data[at] == 0x5C:
            # A backslash that the slice ends with.
            self._escaped = True
            at += 1
        self._keep(data[start:at])
        if at < len(data):
            self._end_text()
            at += 1
        return at

    def _read_scalar(self, data: bytes, at: int) -> int:
        end = _end(_SCALAR, data, at)
        self._keep(data[at:end])
        if end < len(data):
            try:
                _any.decode(self._kept)
            except msgspec.DecodeError as error:
                raise _no_answer("it is no JSON") from error
            self._begin(bytes(self._kept))
            self._take()
        return end

    def _end_text(self) -> None:
        if self._state is _State.NAME:
            self._name_member(bytes(self._kept))
            self._kept.clear()
            self._state = _State.COLON
            return
        self._begin(b'"')
        self._keep(b'"')
        self._take()

    def _name_member(self, written: bytes) -> None:
        name, here = written, self._here
        if b"\\" in written and len(written) <= _LONGEST_NAME:
            try:
                name = msgspec.json.decode(b'"' + written + b'"', type=str).encode()
            except (msgspec.DecodeError, UnicodeEncodeError) as error:
                raise _no_answer("a name is no text") from error
        if name in here.names:
            raise _no_answer("a member stands twice")
        here.count += 1
        if here.count > here.shape.most:
            raise _no_answer(f"it has more than {here.shape.most} members")
        if len(written) <= _LONGEST_NAME:
            here.names.add(name)
        self._name = name

    def _begin(self, first: bytes) -> None:
        """A value has begun: an object or a list, a string, or a scalar, which is whole."""
        if self._here.shape is not ENVELOPE:
            return
        if self._name == b"error" and first != b"null":
            self.failed = True
            if first != b"{":
                raise _no_answer("its error is none")
        elif self._name == b"result":
            self._answered = first != b"null"
        elif self._name in ENVELOPE.kept and first in (b"{", b"["):
            raise _no_answer("a value of its envelope is an object or a list")

    def _keep(self, data: bytes) -> None:
        """Keep what is read of a name or a value, unless nobody asks for it."""
        if self._state is _State.NAME:
            if len(self._kept) <= _LONGEST_NAME:
                self._kept += data[: _LONGEST_NAME + 1]
            return
        shape = self._here.shape
        if self._state is not _State.SCALAR and self._name not in shape.kept:
            return
        room = shape.longest + 1 - len(self._kept)
        self._kept += data[:room]
        if len(self._kept) > shape.longest and (shape is ENVELOPE or self._state is _State.SCALAR):
            raise _no_answer(f"a value of its {'envelope' if shape is ENVELOPE else 'answer'} is too long")

    def _take(self) -> None:
        """A string or a scalar has ended."""
        if self._here.shape is ENVELOPE:
            if self._name == b"id":
                self.id = bytes(self._kept)
            elif self._name == b"jsonrpc" and self._kept != b'"2.0"':
                raise _no_answer("it is of another JSON-RPC")
        kept = bytes(self._kept)
        if not 0 < len(kept) <= self._here.shape.longest:
            # One that is longer than any id that is known is nobody's, and no other stands in for it.
            kept = b"0" if self._name in _OF_TASKS else b'""'
        self._note(kept)
        self._kept.clear()
        self._state = _State.BEHIND

    # ---- What is counted through -----------------------------------------------------------------------------------

    def _count_through(self) -> None:
        self._state, self._depth, self._window = _State.INSIDE, 1, _FIRST_WINDOW

    def _pass_inside(self, data: bytes, at: int) -> int:
        """Pass what is nested, or the first part of it; gives where it ends."""
        end = at + self._window
        if self._escaped:
            self._escaped = False
            at += 1
        rest = data[at:end]
        # Escaped backslashes go first, so that a backslash before a quote escapes it.
        plain = rest.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in rest else rest
        pieces = plain.split(b'"')
        steps = memoryview(b"".join(pieces[self._quoted :: 2]).translate(_STEPS, _NO_BRACKET)).cast("b")
        depths = list(accumulate(steps, initial=self._depth))
        if min(depths) > 0:
            self._depth = depths[-1]
            self._quoted ^= len(pieces) % 2 == 0
            self._escaped = self._quoted and plain.endswith(b"\\")
            if self._window < _SLICE:
                self._window *= 4
            return end
        return self._walk_out(data, at)

    def _walk_out(self, data: bytes, at: int) -> int:
        """Find where what is nested ends, in a window in which it does."""
        while True:
            if self._quoted:
                at = _end(_TEXT, data, at) + 1
                self._quoted = False
            found = _STEP.search(data, at)
            if found is None:
                raise _no_answer("it is no JSON")
            at = found.end()
            if found[0] == b'"':
                self._quoted = True
                continue
            self._depth += 1 if found[0] in b"[{" else -1
            if self._depth == 0:
                # What is no member of anything is a document that is a list.
                self._state = _State.BEHIND if self._here.count else _State.END
                return at


# What is counted through is taken in windows that grow to `_SLICE`, so that to find its end takes time in proportion to
# its length.
_FIRST_WINDOW = 256


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where a match that may be empty ends."""
    found = pattern.match(data, at)
    return at if found is None else found.end()


def _no_answer(detail: str) -> UpstreamProtocol:
    return UpstreamProtocol("the agent's answer is not one JSON document", detail=detail)
