from gateway.upstream.fuse import Fuse


def failed(fuse: Fuse, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        fuse.failed(now, "no connection")


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    fuse = Fuse(3, 10)
    failed(fuse, 2)
    fuse.succeeded()
    failed(fuse, 2)
    assert fuse.admits(0)
    assert fuse.failed(0, "status 503")
    assert not fuse.admits(9.9)
    assert (fuse.left(4), fuse.why) == (6, "status 503")


def test_one_call_tries_and_the_others_wait_for_it() -> None:
    fuse = Fuse(1, 10)
    failed(fuse, 1)
    assert fuse.admits(10)
    assert fuse.begin(10)
    assert not fuse.admits(19)
    assert not fuse.begin(19)
    assert fuse.succeeded()
    assert fuse.admits(10)
    assert (fuse.failures, fuse.why, fuse.opened) == (0, "", False)


def test_it_is_open_twice_as_long_each_time_up_to_a_bound() -> None:
    fuse, now, spans = Fuse(1, 10, 35), 0.0, []
    for _ in range(4):
        fuse.begin(now)
        assert fuse.failed(now, "no connection")
        spans.append(fuse.left(now))
        now += fuse.left(now)
    assert spans == [10, 20, 35, 35]


def test_a_trial_that_nobody_knows_the_end_of_leaves_the_next_one_to_another() -> None:
    fuse = Fuse(1, 10)
    failed(fuse, 1)
    assert fuse.begin(10)
    fuse.abandoned()
    assert fuse.admits(10)


def test_calls_from_before_do_not_keep_it_open() -> None:
    fuse = Fuse(1, 10)
    failed(fuse, 1)
    assert not fuse.failed(9, "no connection")
    assert fuse.left(9) == 1


def test_it_does_not_open_where_it_may_not_or_never_shall() -> None:
    fuse = Fuse(1, 10)
    assert not fuse.failed(0, "no connection", may_open=False)
    never = Fuse(0, 10)
    failed(never, 100)
    assert never.admits(0)
    assert never.failures == 100


def test_a_trial_that_takes_long_leaves_the_next_one_to_another_too() -> None:
    fuse = Fuse(1, 10)
    failed(fuse, 1)
    assert fuse.begin(10)
    assert not fuse.admits(19)
    assert fuse.admits(20)
    assert fuse.begin(20)


def test_a_call_from_before_that_fails_late_tells_nothing_of_now() -> None:
    fuse = Fuse(1, 10)
    failed(fuse, 1)
    assert fuse.begin(10)
    # What waited in vain was begun while it was closed.
    assert not fuse.failed(11, "no answer in time", trial=False)
    assert not fuse.admits(11)
    assert fuse.succeeded()
    assert fuse.admits(11)
