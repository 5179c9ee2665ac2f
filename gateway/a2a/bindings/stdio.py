"""JSON-RPC over one pipe (A2A issue 1074): the addressee of a frame, and the last event of a stream.

The binding is a proposal. Its messages are those of JSON-RPC; but all calls share one pipe, so ids are the gateway's
own, and only its events tell the end of a stream.

An event *ends* its stream if it is `final: true` (0.3 §7.2.2), an error, a message by itself, the end of the task in
1.0, a null result, or has the header `A2A-Stream: end`. It *may end* it if others may follow: the task waits for its
client, or an agent before 1.0 reports the end of the task without `final`, as a2a-python 0.3 does after a cancellation.
"""

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from gateway.a2a.bindings.jsonrpc import write_error
from gateway.a2a.dialect import Version
from gateway.a2a.fault import METHOD_NOT_FOUND, UpstreamProtocol
from gateway.a2a.json import UNREADABLE, Members, decode_members, refuse_crowd
from gateway.a2a.progress import Progress
from gateway.a2a.task_state import INTERRUPTED, TERMINAL

STREAM_HEADER = b"a2a-stream"
"""The frame header with which an agent may mark the `end` of a stream; a convention of this gateway."""


class Course(Enum):
    """The state of a stream after an event."""

    GOES_ON = "goes on"
    MAY_END = "may end"
    ENDS = "ends"


class StdioMessage(msgspec.Struct, frozen=True):
    """A frame from an agent, opened.

    Attributes:
        id: The raw id; empty for none.
        method: Whether it is a request or a notification by the agent.
    """

    id: bytes
    method: bool
    members: Members


def read_message(content: bytes) -> StdioMessage | None:
    """Open a frame from an agent; None if it is not a JSON object, or has too many values."""
    try:
        refuse_crowd(content)
        members = decode_members(content)
    except (UpstreamProtocol, *UNREADABLE):
        return None
    return StdioMessage(bytes(members.get("id", b"")), "method" in members, members)


def addressee(content: bytes) -> bytes:
    """Return the raw id of a frame that is invalid JSON, if it is at either end of it; otherwise empty.

    Python writes NaN, for example. The call of such a frame must not wait for its timeout.
    """
    found = _FIRST.match(content) or _LAST.search(content[-_TAIL:])
    return b"" if found is None else found[1]


def with_id(members: Members, identity: bytes) -> bytes:
    """Return the message under another id, on one line.

    Args:
        identity: The raw id.
    """
    members["id"] = msgspec.Raw(identity)
    frame = _encoder.encode(members)
    # A JSON text has line ends between its tokens only.
    return frame.translate(_FLATTEN) if b"\n" in frame or b"\r" in frame else frame


def error_response(identity: bytes) -> bytes:
    """Return the answer to a request of the agent's: clients serve no methods."""
    return write_error(identity, METHOD_NOT_FOUND.code, "the client serves no methods")


def course(members: Members, progress: Progress | None, version: Version) -> Course:
    """Return the state of a stream after an event.

    Args:
        progress: The event's progress; None if it is not an answer, which the relay refuses.
        version: The agent's generation.
    """
    if progress is None:
        return Course.GOES_ON
    if progress.error is not None or progress.event == "message" or is_empty(members):
        return Course.ENDS
    if progress.event not in ("task", "status"):
        return Course.GOES_ON
    if version is Version.V1_0:
        if progress.state in TERMINAL:
            return Course.ENDS
        return Course.MAY_END if progress.state in INTERRUPTED else Course.GOES_ON
    if progress.event == "status" and _is_final(members):
        return Course.ENDS
    return Course.MAY_END if progress.state in TERMINAL | INTERRUPTED else Course.GOES_ON


def ends_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a frame's header says that it is the last of its stream."""
    return any(name == STREAM_HEADER and value.lower() == b"end" for name, value in headers)


def is_empty(members: Members) -> bool:
    """Return whether an answer has only a null result, which is the end of a stream and no event."""
    return members.get("result") == _NULL and "error" not in members


def _is_final(members: Members) -> bool:
    try:
        return _final.decode(members.get("result", _NULL)).final
    except UNREADABLE:
        return False


class _Final(msgspec.Struct, gc=False):
    final: bool = False


_encoder = msgspec.json.Encoder()
_final = msgspec.json.Decoder(_Final)
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{1,64}")\s*,')
_LAST = re.compile(rb',\s*"id"\s*:\s*("[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_TAIL = 256
_NULL = msgspec.Raw(b"null")
_FLATTEN = bytes.maketrans(b"\r\n", b"  ")
