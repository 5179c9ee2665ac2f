"""The mark that stands before a caller's words at an agent (`claims.py`), and what the agent says, without it."""

from typing import cast

import msgspec
from msgspec.structs import replace

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Call
from gateway.a2a.progress import Progress
from gateway.a2a.renaming import status_without, without
from gateway.a2a.tree import Tree


class Mark(msgspec.Struct, frozen=True):
    """One caller's at one backend; without text where nothing stands before its words, and all stays as it is.

    Attributes:
        text: Of `a-z`, `0-9` and `-`.
        raw: The same, as it stands in bytes of JSON or of protobuf.
    """

    text: str = ""
    raw: bytes = b""

    @classmethod
    def of(cls, text: str) -> "Mark":
        """The mark that is spelled so."""
        return cls(text, text.encode("ascii"))

    def unmarked(self, data: bytes) -> bytes:
        """JSON of the agent's, as the client may see it."""
        mark = self.raw
        return data.replace(mark, b"") if mark and mark in data else data

    def unmarked_message(self, call: Call, message: bytes, *, event: bool) -> bytes:
        """As `unmarked`, of a message of gRPC.

        Args:
            call: What the agent was asked.
            event: Whether it is one of a stream.
        """
        mark = self.raw
        if not mark or mark not in message:
            return message
        dialect = call.dialect
        return without(message, mark, dialect.binding, version=dialect.version, operation=call.operation, event=event)

    def unmarked_status(self, status: Status) -> Status:
        """As `unmarked`, of how a call over gRPC ended."""
        return status_without(status, self.text) if self.text else status

    def unmarked_tree(self, tree: Tree) -> Tree:
        """A tree of the hub's, as the client may see it, wherever the mark stands in its strings; it may be changed."""
        return cast("Tree", _unmarked(tree, self.text)) if self.text else tree  # an object stays one

    def unmarked_progress(self, told: Progress) -> Progress:
        """What a frame tells, without the mark before its ids; the same object where none has it."""
        mark = self.text
        task, context = told.task_id or "", told.context_id or ""
        if not mark or not (task.startswith(mark) or context.startswith(mark)):
            return told
        task, context = task.removeprefix(mark), context.removeprefix(mark)
        return replace(told, task_id=task or None, context_id=context or None)


NO_MARK = Mark()


def _unmarked(value: object, mark: str) -> object:
    if isinstance(value, str):
        return value.replace(mark, "")
    if isinstance(value, dict):
        return {key: _unmarked(inside, mark) for key, inside in value.items()}
    if isinstance(value, list):
        return [_unmarked(inside, mark) for inside in value]
    return value
