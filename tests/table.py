"""Tables of rows that show one promise in one collected test, and products of which `tests/check` takes some cells."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import product
from typing import Any, cast

import pytest

_Test = Callable[..., Any]
_Param: Any = type(pytest.param())


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[_Test], _Test]:
    """Run a test once for each row, in place of one collected test per row.

    Fixtures are made once for all the rows. The first row that fails ends the test and stands in a note of its error.

    Args:
        names: The parameters that a row fills: one name, or several as a tuple or with commas between them.
        rows: A value for one name, a tuple of values for several; `pytest.param` stands for either.
    """
    parameters = names if isinstance(names, tuple) else tuple(name.strip() for name in names.split(","))
    table = [_values(row) if isinstance(row, _Param) or len(parameters) > 1 else (row,) for row in rows]
    assert table, "a table without rows shows nothing"

    def over(test: _Test) -> _Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            for row in table:
                with _Named(parameters, row):
                    test(**fixtures, **dict(zip(parameters, row, strict=True)))

        @wraps(test)
        async def run_in_loop(**fixtures: Any) -> None:
            for row in table:
                with _Named(parameters, row):
                    await test(**fixtures, **dict(zip(parameters, row, strict=True)))

        made: Any = run_in_loop if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        made.__signature__ = signature.replace(
            parameters=[given for name, given in signature.parameters.items() if name not in parameters]
        )
        return cast("_Test", made)

    return over


def cells(*axes: Sequence[Any]) -> list[Any]:
    """Return every combination as a parameter: each value of each axis is in `tests/check`, the rest in `tests/long`.

    Combine only axes that do not depend on one another, such as the way to an agent and the binding of the call.
    """
    longest = max(map(len, axes))
    taken = {tuple(turn % len(axis) for axis in axes) for turn in range(longest)}
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, places, strict=True)),
            marks=[] if places in taken else pytest.mark.long,
        )
        for places in product(*map(range, map(len, axes)))
    ]


def _values(row: Any) -> tuple[Any, ...]:
    if isinstance(row, _Param):
        assert not row.marks, "a mark concerns a collected test, not a row"
        return tuple(row.values)
    return tuple(row)


class _Named:
    """Adds the row to an error that leaves the block."""

    def __init__(self, names: tuple[str, ...], row: tuple[Any, ...]) -> None:
        self.names = names
        self.row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            shown = (f"{name}={value!r:.300}" for name, value in zip(self.names, self.row, strict=True))
            error.add_note(f"row: {', '.join(shown)}")
