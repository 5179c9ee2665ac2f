"""Four tenants on agents that they share: no marker of one is ever seen where another is."""

import time
from pathlib import Path

import pytest

from tests.e2e.markers import AGENTS, BINDINGS, OPERATIONS, Searched, soak

SHORT = 200
LONG = 10_000

pytestmark = pytest.mark.anyio


def test_a_marker_of_another_tenant_is_noticed() -> None:
    searched = Searched()
    searched.search("answers", "acme", "marker-of-acme marker-of-acme")
    assert searched.foreign == []
    searched.search("answers", "acme", "marker-of-acme marker-of-globex")
    assert searched.foreign == [("answers", "acme", "marker-of-acme marker-of-globex")]
    searched.search("the gateway's own log", "", "marker-of-acme")
    assert len(searched.foreign) == 2


async def nobody_sees_anothers(calls: int, folder: Path) -> Searched:
    searched = await soak(calls, folder)
    assert searched.foreign == []
    assert searched.calls == calls
    assert {done for done, number in searched.done.items() if number} == {
        (operation, binding) for operation in OPERATIONS for binding in BINDINGS
    }
    # What was searched was there to be found.
    for place in ("answers", *(f"what {agent} was asked" for agent in AGENTS)):
        assert searched.markers[place] > calls / 4, searched
    return searched


async def test_no_marker_of_a_tenant_is_seen_by_another_in_some_hundred_calls(tmp_path: Path) -> None:
    await nobody_sees_anothers(SHORT, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_no_marker_of_a_tenant_is_seen_by_another_in_ten_thousand_calls(tmp_path: Path) -> None:
    began = time.monotonic()
    searched = await nobody_sees_anothers(LONG, tmp_path)
    print(f"\n{searched}\n  in {time.monotonic() - began:.0f} s")  # noqa: T201 - for who runs it by hand
