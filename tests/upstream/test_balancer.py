"""The replica that gets a call, and the ejection of replicas."""

import random
from collections import Counter
from typing import Any, cast

import pytest

from gateway.a2a.fault import NoHealthyBackend
from gateway.upstream.balancer import Balancer, choose
from gateway.upstream.circuit_breaker import CircuitBreaker
from gateway.upstream.replica import Condition, Replica
from gateway.upstream.upstream import Upstream
from tests.table import for_each

NOW = 1000.0


def replica(name: str, *, active: int = 0, since: float | None = None, after: int = 1, **more: Any) -> Replica:
    condition = Condition(CircuitBreaker(after, 10), since)
    condition.active = active
    return Replica(name, f"a@{name}", cast("Upstream", None), f"http://{name}", condition=condition, **more)


def drawn(replicas: list[Replica], times: int) -> Counter[str]:
    chance = random.Random(1)
    found = [choose(replicas, NOW, chance.random) for _ in range(times)]
    return Counter(each.name for each in found if each is not None)


def balancer(*replicas: Replica, **more: Any) -> Balancer:
    return Balancer(fixed={each.name: each for each in replicas}, clock=lambda: NOW, **more)


def eject(found: Balancer, *names: str) -> list[str]:
    for name in names:
        found.failed(found.replicas[name], "no connection")
    return [each.name for each in found.replicas.values() if each.condition.ejection.is_open]


# ---- Selection -------------------------------------------------------------------------------------------------------


def test_the_replica_with_the_fewest_open_calls_gets_the_next_one() -> None:
    assert drawn([replica("a", active=3), replica("b", active=1), replica("c", active=2)], 10) == {"b": 10}


def test_weights_are_shares_of_calls_and_of_open_calls() -> None:
    assert 140 <= drawn([replica("a", weight=90), replica("b", weight=10)], 2000)["b"] <= 260
    replicas, chance = [replica("a", weight=75), replica("b", weight=25)], random.Random(2)
    for _ in range(400):
        one = choose(replicas, 0.0, chance.random)
        assert one is not None
        one.condition.active += 1
    assert 80 <= replicas[1].condition.active <= 120


def test_a_new_replica_starts_slowly() -> None:
    new = replica("b", since=NOW)
    assert (new.share(NOW), new.share(NOW + 5), new.share(NOW + 10)) == (10.0, 50.0, 100.0)
    assert drawn([replica("a"), replica("b", since=NOW)], 1000)["b"] < 200


def test_unavailable_replicas_and_those_without_weight_come_last() -> None:
    down, gone, ejected, good = map(replica, "abcd")
    down.condition.probed(0, "no connection", fail_after=1, pass_after=1)
    gone.condition.gone = True
    ejected.condition.ejection.failed(NOW, "no connection")
    assert drawn([down, gone, ejected, good], 20) == {"d": 20}
    assert drawn([down, gone, ejected], 20) == {"c": 20}
    assert drawn([gone], 1) == {}
    assert drawn([down, replica("e", weight=0)], 10) == {"a": 10}
    assert drawn([replica("e", weight=0)], 3) == {"e": 3}


def test_a_caller_keeps_its_replica_for_calls_without_a_task() -> None:
    found = balancer(*map(replica, "abc"))
    led = {f"owner {n}": found.steady(f"owner {n}").name for n in range(60)}
    assert set(led.values()) == {"a", "b", "c"}
    eject(found, "a")
    again = {owner: found.steady(owner).name for owner in led}
    assert all(again[owner] == name for owner, name in led.items() if name != "a")
    assert "a" not in again.values()


def test_a_call_whose_replica_is_gone_is_refused_only_if_it_is_bound() -> None:
    found = balancer(*map(replica, "ab"))
    with pytest.raises(NoHealthyBackend, match="gone"):
        found.lead("x", binds=True)
    assert found.lead("x", binds=False).name in ("a", "b")
    eject(found, "a")
    assert found.lead("a", binds=True).name == "a"
    assert found.lead("a", binds=False).name == "b"


# ---- What is known of a replica --------------------------------------------------------------------------------------


@for_each(("names", "most", "ejected"), [("abcd", 50, "ab"), ("ab", 50, "a"), ("abcd", 0, "a")])
def test_a_share_of_the_replicas_is_ejected_at_most_and_one_in_any_case(names: str, most: int, ejected: str) -> None:
    told: list[str] = []
    found = balancer(*map(replica, names), max_ejected=most, on_ejection=lambda each: told.append(each.name))
    assert "".join(eject(found, *names)) == "".join(told) == ejected


def test_a_single_replica_gets_its_calls_all_the_same() -> None:
    found = balancer(replica("a"), on_ejection=lambda _: pytest.fail("it has nowhere to go"))
    eject(found, "a")
    assert found.another(()).name == "a"


def test_health_checks_count_in_a_row() -> None:
    one = Condition()
    told = [one.probed(5.0, why, fail_after=2, pass_after=2) for why in ("no", "", "no", "no", "no", "", "")]
    assert told == [False, False, False, True, False, False, True]
    assert one.is_up
    assert one.state(5.0) == "up; warming, with 10 % of its weight"


def test_operators_read_its_state_in_words() -> None:
    found = balancer(replica("a", after=2), replica("b"))
    one, failed = found.replicas["a"], "calls in a row failed, the last one: no connection"
    told = [one.condition.state(NOW)]
    for _ in range(2):
        eject(found, "a")
        told.append(one.condition.state(NOW + 4))
    told.append(one.condition.state(NOW + 10))
    assert told == [
        "up",
        f"up; 1 {failed}",
        f"ejected for 6 s more: 2 {failed}",
        f"ejected until a call succeeds: 2 {failed}",
    ]
    assert (one.condition.ejections, one.condition.is_up) == (1, False)
    found.clock = lambda: NOW + 10
    trials = found.begin(one)
    assert trials == (True, False)
    found.succeeded(one)
    found.end(one, trials)
    assert one.condition.state(NOW + 30) == "up"
    one.condition.probed(0, "/healthz answers 500", fail_after=1, pass_after=1)
    assert one.condition.state(0) == "down: /healthz answers 500"
    one.condition.gone = True
    assert "no longer one of its name" in one.condition.state(0)
