from gateway.upstream.circuit_breaker import CircuitBreaker


def opened(at: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker(1, 10, 35)
    assert breaker.failed(at, "no connection")
    return breaker


def test_the_breaker_opens_after_so_many_failures_in_a_row() -> None:
    breaker = CircuitBreaker(3, 10)
    for result in ("no", "no", "", "no", "no"):
        assert not (breaker.failed(0, result) if result else breaker.succeeded())
    assert breaker.admits(0)
    assert breaker.failed(0, "status 503")
    assert not breaker.admits(9.9)
    assert (breaker.left(4), breaker.why) == (6, "status 503")


def test_one_call_tries_a_half_open_breaker() -> None:
    breaker = opened()
    assert breaker.admits(10)
    assert breaker.begin(10)
    assert not breaker.admits(19)
    assert not breaker.begin(19)
    assert breaker.succeeded()
    assert (breaker.admits(10), breaker.failures, breaker.why, breaker.is_open) == (True, 0, "", False)


def test_each_failed_trial_doubles_the_time_up_to_a_bound() -> None:
    breaker, now, spans = CircuitBreaker(1, 10, 35), 0.0, []
    for _ in range(4):
        breaker.begin(now)
        assert breaker.failed(now, "no connection")
        spans.append(breaker.left(now))
        now += breaker.left(now)
    assert spans == [10, 20, 35, 35]


def test_a_trial_without_a_result_makes_way_for_another() -> None:
    breaker = opened()
    assert breaker.begin(10)
    assert not breaker.admits(19)
    # It takes long.
    assert breaker.begin(20)
    breaker.abandoned()
    assert breaker.admits(20)


def test_calls_that_began_before_it_opened_change_nothing() -> None:
    breaker = opened()
    assert not breaker.failed(9, "no connection")
    assert breaker.left(9) == 1
    assert breaker.begin(10)
    assert not breaker.failed(11, "no answer in time", half_open=False)
    assert not breaker.admits(11)
    assert breaker.succeeded()


def test_the_breaker_stays_closed_if_it_may_not_open() -> None:
    assert not CircuitBreaker(1, 10).failed(0, "no connection", may_open=False)
    never = CircuitBreaker(0, 10)
    assert not any(never.failed(0, "no connection") for _ in range(100))
    assert (never.admits(0), never.failures) == (True, 100)
