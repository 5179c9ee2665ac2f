"""A store whose every operation is counted."""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Condition, Store

OPERATIONS = (
    "tasks", "context", "meet", "open_tasks", "count", "note", "keep", "settle", "drop", "group", "due", "expire",
    "figures", "erase", "rows", "put_rows", "notes",
)  # fmt: skip
"""The operations of a store; the closed set of the label `operation`."""


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
    """Return the same store, counting.

    Args:
        share: Returns the counts of an operation, which are added to.
    """
    return cast("Store", _Counted(store, share))


def _counting(method: Callable[..., Any], counts: Counts) -> Callable[..., Any]:
    async def ask(*args: Any) -> Any:  # noqa: ANN401 - the arguments and the result of the operation
        try:
            found = await method(*args)
        except StateUnavailable:
            counts["unavailable"] = counts.get("unavailable", 0) + 1
            raise
        counts["ok"] = counts.get("ok", 0) + 1
        return found

    return ask
