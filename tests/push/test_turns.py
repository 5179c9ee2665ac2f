"""Whose turn it is of the notifications that were taken up."""

from gateway.push.slip import Slip
from gateway.push.turns import MOST_HELD, Held, Turns


def held(key: str, tenant: str = "acme", tried: int = 0, until: float = 9.0) -> Held:
    return Held(key, Slip("hook", "crm", tenant, "task", "application/json", 1.0, tried), until)


def taken(turns: Turns, concurrency: int) -> list[str]:
    found = []
    while (each := turns.next(concurrency)) is not None:
        found.append(each.key)
    return found


def test_tenants_have_turns_and_none_has_more_than_half() -> None:
    turns = Turns()
    for number in range(5):
        turns.hold(held(f"a{number}"))
    for number in range(2):
        turns.hold(held(f"b{number}", "globex"))
    assert taken(turns, 6) == ["a0", "b0", "a1", "b1", "a2"]
    assert turns.sending == 5


def test_whoever_is_done_makes_room() -> None:
    turns = Turns()
    for key in "xyz":
        turns.hold(held(key))
    first = turns.next(2)
    assert first is not None
    assert turns.next(2) is None
    turns.done(first)
    assert taken(turns, 2) == ["y"]
    assert [each.key for each in turns] == ["y", "z"]


def test_what_was_tried_before_has_half_of_its_tenants_share_and_its_turns() -> None:
    turns = Turns()
    for number in range(4):
        turns.hold(held(f"again{number}", tried=1))
    for number in range(4):
        turns.hold(held(f"new{number}"))
    assert taken(turns, 8) == ["new0", "again0", "new1", "again1"]
    only = Turns()
    for number in range(4):
        only.hold(held(f"again{number}", tried=1))
    assert taken(only, 8) == ["again0", "again1"]
    single = Turns()
    single.hold(held("again", tried=3))
    assert taken(single, 1) == ["again"]


def test_no_more_of_a_tenant_is_held_than_goes_out_in_a_moment() -> None:
    turns = Turns()
    assert all(turns.hold(held(f"{number}")) for number in range(MOST_HELD))
    assert not turns.hold(held("one more"))
    # What was tried before does not take the place of what is new, nor the other way round.
    assert turns.hold(held("again", tried=1))
    assert turns.hold(held("other", "globex"))


def test_where_very_many_are_held_every_tenant_has_some_all_the_same() -> None:
    turns = Turns()
    for number in range(16):
        for each in range(MOST_HELD):
            assert turns.hold(held(f"{number}-{each}", f"tenant{number}"))
    few = [turns.hold(held(f"late{number}", "late")) for number in range(20)]
    assert 0 < sum(few) < 20


def test_what_is_given_out_again_while_it_is_here_is_here_once() -> None:
    turns = Turns()
    turns.hold(held("x", until=1.0))
    assert turns.hold(held("x", until=5.0))
    found = turns.next(2)
    assert found is not None
    assert (found.until, turns.next(2)) == (5.0, None)
