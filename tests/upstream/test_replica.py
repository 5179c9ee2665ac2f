import random
from collections import Counter
from typing import cast

from gateway.upstream.fuse import Fuse
from gateway.upstream.replica import Condition, Replica, choose
from gateway.upstream.upstream import Upstream

NOWHERE = cast("Upstream", None)


def replica(name: str, **more: object) -> Replica:
    condition = Condition(more.pop("ejection", None), more.pop("since", None))  # type: ignore[arg-type]  # as it is told
    return Replica(name, f"a@{name}", NOWHERE, url=f"http://{name}", condition=condition, **more)  # type: ignore[arg-type]  # as it is told


def drawn(replicas: list[Replica], times: int, now: float = 1000.0) -> Counter[str]:
    chance = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(times):
        one = choose(replicas, now, chance.random)
        assert one is not None
        found[one.name] += 1
    return found


def test_of_equals_the_one_with_least_to_do_is_asked() -> None:
    replicas = [replica("a"), replica("b"), replica("c")]
    replicas[0].condition.active, replicas[1].condition.active, replicas[2].condition.active = 3, 1, 2
    assert drawn(replicas, 10) == {"b": 10}


def test_weights_are_shares_while_all_are_quick() -> None:
    found = drawn([replica("a", weight=90), replica("b", weight=10)], 2000)
    assert 140 <= found["b"] <= 260


def test_weights_are_shares_of_what_is_on_its_way_too() -> None:
    replicas = [replica("a", weight=75), replica("b", weight=25)]
    chance = random.Random(2)
    for _ in range(400):
        one = choose(replicas, 0.0, chance.random)
        assert one is not None
        one.condition.active += 1
    assert 80 <= replicas[1].condition.active <= 120


def test_one_that_came_gets_little_at_first_and_all_after_ten_seconds() -> None:
    new = replica("b", since=1000.0)
    assert (new.share(1000.0), new.share(1005.0), new.share(1010.0)) == (10.0, 50.0, 100.0)
    assert drawn([replica("a"), replica("b", since=1000.0)], 1000)["b"] < 200


def test_who_is_down_gone_or_left_alone_is_asked_last() -> None:
    down, gone, ejected, good = replica("a"), replica("b"), replica("c", ejection=Fuse(1, 10)), replica("d")
    down.condition.probed(0, "no connection", fail_after=1, pass_after=1)
    gone.condition.gone = True
    ejected.condition.failed(1000.0, "no connection", may_open=True, trial=False)
    assert drawn([down, gone, ejected, good], 20) == {"d": 20}
    assert drawn([down, gone, ejected], 20) == {"c": 20}
    assert choose([gone], 0.0, random.random) is None


def test_a_weightless_one_is_asked_where_there_is_no_other() -> None:
    assert drawn([replica("a", weight=0)], 3) == {"a": 3}


def test_answers_about_its_health_count_in_a_row() -> None:
    one = Condition()
    told = [one.probed(5.0, why, fail_after=2, pass_after=2) for why in ("no", "", "no", "no", "no", "", "")]
    assert told == [False, False, False, True, False, False, True]
    assert one.is_up
    assert one.state(5.0) == "up; warming, with 10 % of its weight"


def test_its_state_is_told_in_words() -> None:
    one = Condition(Fuse(2, 10))
    assert one.state(0) == "up"
    one.failed(0, "status 503", may_open=True, trial=False)
    assert one.state(0) == "up; 1 calls in a row failed, the last one: status 503"
    one.failed(0, "status 503", may_open=True, trial=False)
    assert one.state(4) == "left alone for 6 s more: 2 calls in a row failed, the last one: status 503"
    assert one.state(10) == "left alone until a call goes well: 2 calls in a row failed, the last one: status 503"
    assert (one.ejections, one.is_up) == (1, False)
    assert one.begin(10)
    one.succeeded(10)
    one.end(trial=True)
    assert one.state(20) == "up"
    one.probed(0, "/healthz answers 500", fail_after=1, pass_after=1)
    assert one.state(0) == "down: /healthz answers 500"
    one.gone = True
    assert "no longer one of its name" in one.state(0)


def test_a_weightless_one_is_not_asked_because_others_are_down() -> None:
    down = replica("a")
    down.condition.probed(0, "no connection", fail_after=1, pass_after=1)
    assert drawn([down, replica("b", weight=0)], 10) == {"a": 10}
