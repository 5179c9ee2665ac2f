"""Parameters in path and query."""

import pytest

from gateway.a2a.fault import BadParams
from gateway.a2a.paths import path_id
from tests.table import for_each

# ---- Ids -------------------------------------------------------------------------------------------------------------


def carried(value: object, *, verb: bool = True) -> str:
    return path_id({"id": value}, "id", verb=verb)


@for_each(
    "value",
    [
        "a/b", "a%2Fb", "100%", "a\\b", ".", "..", "", " a", "a ", "a\nb", "a\0", "\u2028", "x:cancel", "x:Subscribe",
        "i" * 513, "\ud800",
    ],
)  # fmt: skip
def test_ids_that_a_path_cannot_carry_are_refused_by_their_name(value: object) -> None:
    with pytest.raises(BadParams, match=r"^id ") as caught:
        carried(value)
    assert caught.value.field == "id"
