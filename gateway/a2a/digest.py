"""What has been read of an answer that is too long to be kept, and what that tells by now.

It is at any time a short document, of which `progress` tells the meaning: so a long answer means what a short one does.
Its ids are told before the bytes with them go out, though servers that sort members say last what they belong to. So an
`id` is taken for a task's until it turns out that it is none. Lists are not read: whose their push configurations are
nobody knows.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from gateway.a2a import progress
from gateway.a2a.progress import Progress


class Shape(NamedTuple):
    """What is read of an object.

    Attributes:
        kept: Members whose values are kept, if they are strings or scalars.
        opened: Those that are read in their turn, if they are objects.
        noted: Those of which is only told that they are there.
        most: How many members it may have, of whatever name.
        longest: Bytes of a value that is kept; a longer string is an empty one.
    """

    kept: frozenset[bytes]
    opened: Mapping[bytes, "Shape"] = {}
    noted: frozenset[bytes] = frozenset()
    most: int = 1000
    # As much as a ledger keeps of an id, were all of it escaped.
    longest: int = 6 * 1024 + 2

    def reads(self, name: bytes) -> bool:
        """Whether a member is of any interest."""
        return name in self.kept or name in self.opened or name in self.noted


_STATUS = Shape(frozenset({b"state"}))
# In both spellings of ProtoJSON, as `progress` reads them.
_NAMING = frozenset({
    b"id", b"taskId", b"task_id", b"contextId", b"context_id", b"sessionId", b"kind", b"name",
    b"Id", b"TaskId", b"ContextId",
})  # fmt: skip
_WRAPPED = Shape(_NAMING, {b"status": _STATUS})
_WRAPPERS = (
    b"task", b"message", b"msg", b"statusUpdate", b"artifactUpdate", b"status_update", b"artifact_update",
    b"Task", b"Message", b"StatusUpdate", b"ArtifactUpdate",
)  # fmt: skip
_CONFIGS = frozenset({b"pushNotificationConfig", b"push_notification_config", b"configs"})
_NOTED = _CONFIGS | {b"artifact", b"tasks"}
ANSWER = Shape(_NAMING, {b"status": _STATUS, **dict.fromkeys(_WRAPPERS, _WRAPPED)}, _NOTED)
"""A result of any generation: 1.0 wraps what others have as it is."""
ENVELOPE = Shape(frozenset({b"jsonrpc", b"id"}), {b"result": ANSWER}, frozenset({b"error"}), 64, 1024)
"""That of JSON-RPC."""


class Opened:
    """An object, as far as it was read.

    Attributes:
        members: What was read of it: raw values, and objects in their turn.
        names: Those of all its members but the longest.
        count: How many members it has, of whatever name.
        ended: Whether it is complete.
    """

    __slots__ = ("count", "ended", "members", "names", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.members: Members = {}
        self.names: set[bytes] = set()
        self.count = 0
        self.ended = False


Members: TypeAlias = dict[bytes, bytes | Opened]


def meaning(answer: Opened) -> Progress | None:
    """What an answer tells by now; None for what is no JSON."""
    members = answer.members
    if b"[]" in (members.get(b"configs"), members.get(b"tasks")):
        return ILLEGIBLE
    if not answer.ended and b"id" in members and b"status" not in members:
        # One may come, and make the id a task's.
        members = {**members, b"status": b"{}"}
    return progress.read_bare(_written(members))


ILLEGIBLE = Progress(legible=False)
"""What a long list tells."""


def _written(members: Members) -> bytes:
    return b"{%b}" % b",".join([
        b'"%b":%b' % (name, value if isinstance(value, bytes) else _written(value.members))
        for name, value in members.items()
    ])  # fmt: skip
