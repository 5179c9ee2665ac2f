"""What an agent says, without the mark that stands before a caller's words there (`claims.py`)."""

from typing import cast

from msgspec.structs import replace

from gateway.a2a.progress import Progress
from gateway.a2a.tree import Tree


def unmarked_progress(told: Progress, mark: str) -> Progress:
    """What a frame tells, without the mark before its ids; the same object where none has it."""
    task, context = told.task_id or "", told.context_id or ""
    if not task.startswith(mark) and not context.startswith(mark):
        return told
    task, context = task.removeprefix(mark), context.removeprefix(mark)
    return replace(told, task_id=task or None, context_id=context or None)


def unmarked_tree(tree: Tree, mark: str) -> Tree:
    """A tree without the mark, wherever that stands in its strings."""
    return cast("Tree", _unmarked(tree, mark))  # an object stays one


def _unmarked(value: object, mark: str) -> object:
    if isinstance(value, str):
        return value.replace(mark, "")
    if isinstance(value, dict):
        return {key: _unmarked(inside, mark) for key, inside in value.items()}
    if isinstance(value, list):
        return [_unmarked(inside, mark) for inside in value]
    return value


class Unmarker:
    """Takes a mark out of bytes that come in pieces, wherever they are cut."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be told now."""
        data = (self._rest + piece).replace(self._mark, b"")
        mark = self._mark
        held = next((size for size in range(min(len(mark) - 1, len(data)), 0, -1) if data.endswith(mark[:size])), 0)
        self._rest = data[len(data) - held :] if held else b""
        return data[: len(data) - held] if held else data

    def close(self) -> bytes:
        """What was held back, as no more comes."""
        rest, self._rest = self._rest, b""
        return rest
