"""A store whose every operation is counted."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Store

OPERATIONS = (
    "tasks", "context", "meet", "open_tasks", "count", "note", "keep", "settle", "drop", "group", "due", "expire",
    "figures", "erase", "rows", "put_rows", "notes",
)  # fmt: skip
"""What a store can be asked; the closed set of the label `operation`."""


class _Counted:
    def __init__(self, store: Store, count: Callable[[str, str], None]) -> None:
        self.local, self.shared, self.label = store.local, store.shared, store.label
        self.open, self.aclose = store.open, store.aclose
        for name in OPERATIONS:
            setattr(self, name, _counting(getattr(store, name), name, count))


def counted(store: Store, count: Callable[[str, str], None]) -> Store:
    """The same store.

    Args:
        count: Told each operation, and `ok` or `unavailable`.
    """
    return cast("Store", _Counted(store, count))


def _counting(method: Callable[..., Any], name: str, count: Callable[[str, str], None]) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:  # noqa: ANN401 - whatever the operation takes and gives
        try:
            given = method(*args)
        except StateUnavailable:
            count(name, "unavailable")
            raise
        if hasattr(given, "__await__"):
            return wait(given)
        count(name, "ok")
        return given

    async def wait(given: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
        try:
            found = await given
        except StateUnavailable:
            count(name, "unavailable")
            raise
        count(name, "ok")
        return found

    return ask
