"""The prefix that stands before a caller's contexts at a shared agent, and its removal from what the agent says.

Two tenants may choose one word for a context. At an agent that several owners reach, the gateway therefore writes a
prefix of the owner before the word, and removes it again on the way back (`ownership.py`).
"""

from typing import cast

import msgspec
from msgspec.structs import replace

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.ids import status_without
from gateway.a2a.json import Tree
from gateway.a2a.progress import Progress


class ContextPrefix(msgspec.Struct, frozen=True):
    """The prefix of one caller at one backend; an empty one changes nothing.

    Attributes:
        text: Made of `a-z`, `0-9` and `-`.
        raw: The same, as it stands in bytes of JSON or of protobuf.
    """

    text: str = ""
    raw: bytes = b""

    @classmethod
    def of(cls, text: str) -> "ContextPrefix":
        """Return the prefix with this spelling."""
        return cls(text, text.encode("ascii"))

    def starts(self, id: str) -> bool:  # noqa: A002 - the protocol's word
        """Return whether an id begins with the prefix."""
        return self.text != "" and id.startswith(self.text)

    def remove(self, data: bytes) -> bytes:
        """Return JSON of the agent as the client may see it."""
        return data.replace(self.raw, b"") if self.raw and self.raw in data else data

    def remove_from_status(self, status: Status) -> Status:
        """Return the status that ended a gRPC call as the client may see it."""
        return status_without(status, self.text) if self.text else status

    def remove_from_tree(self, tree: Tree) -> Tree:
        """Return a translated object without the prefix in any of its strings."""
        return cast("Tree", _remove(tree, self.text)) if self.text else tree  # an object stays one

    def remove_from_progress(self, progress: Progress) -> Progress:
        """Return the progress of a frame without the prefix before its ids; the same object if none has it."""
        task, context = progress.task_id or "", progress.context_id or ""
        if not (self.starts(task) or self.starts(context)):
            return progress
        task, context = task.removeprefix(self.text), context.removeprefix(self.text)
        return replace(progress, task_id=task or None, context_id=context or None)


NO_PREFIX = ContextPrefix()


def _remove(value: object, prefix: str) -> object:
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, dict):
        return {key: _remove(inside, prefix) for key, inside in value.items()}
    if isinstance(value, list):
        return [_remove(inside, prefix) for inside in value]
    return value
