from gateway.upstream.budget import Budget


def taken(budget: Budget, now: float) -> int:
    count = 0
    while budget.take(now):
        count += 1
    return count


def test_without_calls_there_are_twenty() -> None:
    budget = Budget(0.2)
    assert taken(budget, 100) == 20
    assert taken(budget, 109) == 0
    assert taken(budget, 110) == 20


def test_a_share_of_the_calls_of_the_last_ten_seconds_comes_on_top() -> None:
    budget = Budget(0.2)
    for number in range(1000):
        budget.call(100 + number / 100)
    assert abs(taken(budget, 110) - 220) <= 20


def test_calls_from_long_ago_count_nothing() -> None:
    budget = Budget(0.2)
    for _ in range(1000):
        budget.call(100)
    assert taken(budget, 130) == 20
