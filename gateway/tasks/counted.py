"""A store whose every operation is counted."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Condition, Store

OPERATIONS = (
    "tasks", "context", "meet", "open_tasks", "count", "note", "keep", "settle", "drop", "group", "due", "expire",
    "figures", "erase", "rows", "put_rows", "notes",
)  # fmt: skip
"""What a store can be asked; the closed set of the label `operation`."""


Counts: TypeAlias = dict[str, float]
"""How often an operation came to `ok` and to `unavailable`; added to in place, for each call does it several times."""


class _Counted:
    def __init__(self, store: Store, share: Callable[[str], Counts]) -> None:
        self.local, self.shared, self.label = store.local, store.shared, store.label
        self.open, self.aclose = store.open, store.aclose
        self._store = store
        for name in OPERATIONS:
            setattr(self, name, _counting(getattr(store, name), share(name)))

    @property
    def condition(self) -> Condition:
        return self._store.condition


def counted(store: Store, share: Callable[[str], Counts]) -> Store:
    """The same store.

    Args:
        share: Gives the counts of an operation, to which is added.
    """
    return cast("Store", _Counted(store, share))


def _counting(method: Callable[..., Any], counts: Counts) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:  # noqa: ANN401 - whatever the operation takes and gives
        try:
            given = method(*args)
        except StateUnavailable:
            counts["unavailable"] = counts.get("unavailable", 0) + 1
            raise
        if hasattr(given, "__await__"):
            return wait(given)
        counts["ok"] = counts.get("ok", 0) + 1
        return given

    async def wait(given: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
        try:
            found = await given
        except StateUnavailable:
            counts["unavailable"] = counts.get("unavailable", 0) + 1
            raise
        counts["ok"] = counts.get("ok", 0) + 1
        return found

    return ask
