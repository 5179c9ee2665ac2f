"""A store whose operations are counted and timed for the metrics."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Condition, Store

_LABELS = {"record": "meet"}
"""The label of an operation that is called otherwise in the metrics, whose names do not change."""
METHODS = (
    "tasks", "context", "record", "open_tasks", "open_by_scope", "count", "note", "keep", "settle", "drop", "group",
    "due", "expire", "figures", "erase", "rows", "put_rows", "notes",
)  # fmt: skip
OPERATIONS = tuple(_LABELS.get(name, name) for name in METHODS)
"""The closed set of the label `operation`."""

Counts: TypeAlias = dict[str, float]
"""Counts of `ok` and `unavailable` results of an operation; incremented in place."""


class _Counted:
    def __init__(self, store: Store, share: Callable[[str], Counts], timed: Callable[[str, float], None]) -> None:
        self.local, self.shared, self.label = store.local, store.shared, store.label
        self.open, self.aclose = store.open, store.aclose
        self._store = store
        for name in METHODS:
            label = _LABELS.get(name, name)
            setattr(self, name, _counting(getattr(store, name), share(label), partial(timed, label)))

    @property
    def condition(self) -> Condition:
        return self._store.condition


def counted(store: Store, share: Callable[[str], Counts], timed: Callable[[str, float], None]) -> Store:
    """Return the same store, counting.

    Args:
        share: Returns the counts of an operation by its label.
        timed: Called with the label of an operation and its seconds.
    """
    return cast("Store", _Counted(store, share, timed))


def _counting(method: Callable[..., Any], counts: Counts, timed: Callable[[float], None]) -> Callable[..., Any]:
    async def ask(*args: Any) -> Any:  # noqa: ANN401 - the arguments and the result of the operation
        began = time.perf_counter()
        try:
            found = await method(*args)
        except StateUnavailable:
            counts["unavailable"] = counts.get("unavailable", 0) + 1
            raise
        finally:
            timed(time.perf_counter() - began)
        counts["ok"] = counts.get("ok", 0) + 1
        return found

    return ask
