"""Failures of a network: counted up to a rate, forgiven with time, within a bound; and verifications in turn."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.verification import FailureLimit, VerificationQueue, network_of
from tests.identity.issuance import run
from tests.table import for_each

HERE, THERE = "192.0.2.1", "192.0.2.2"


def fail(failures: FailureLimit, address: str, now: float, times: int) -> None:
    for _ in range(times):
        assert failures.delay(address, now) == 0.0
        failures.add(address, now)


def test_a_clock_that_stands_still_or_goes_back_forgives_nothing() -> None:
    failures = FailureLimit((3.0, 60.0), 2)
    fail(failures, HERE, 100.0, 3)
    for now in (100.0, 99.0, 0.0):
        assert failures.delay(HERE, now) > 0


@for_each(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8:0:0:ffff::9"),
        ("2001:DB8:0::1", "2001:db8::2"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:0201", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_these_are_one_neighbour(one: str, other: str) -> None:
    assert network_of(one) == network_of(other)


@for_each(
    ("one", "other"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),
        ("::ffff:192.0.2.1", "::1"),
        ("", "192.0.2.1"),
        ("not:an:address", "::1"),
    ],
)
def test_these_are_two_neighbours(one: str, other: str) -> None:
    assert network_of(one) != network_of(other)


@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.lists(st.integers(0, 8).map(lambda eighths: eighths / 8), max_size=200),
)
def test_a_bucket_never_gives_more_than_its_burst_and_what_time_brought(
    count: int, period: int, pauses: list[float]
) -> None:
    failures = FailureLimit((float(count), float(period)), 10)
    now, looked_at = 0.0, 0
    for pause in pauses:
        now += pause
        if failures.delay(HERE, now) == 0.0:
            failures.add(HERE, now)
            looked_at += 1
    # A millisecond of rounding is forgiven.
    assert looked_at <= count + (now + 0.001) * count / period


# ---- Verifications -------------------------------------------------------------------------------------------------


def served(queue: VerificationQueue, count: int, *leaving: int) -> list[list[int]]:
    """The numbers that were served in each turn of the loop; `leaving` are cancelled in line."""

    async def stand() -> list[list[int]]:
        turns: list[list[int]] = []
        done: list[int] = []

        async def one(number: int) -> None:
            await queue.take()
            done.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(count)]
        await asyncio.sleep(0)
        for number in leaving:
            tasks[number].cancel()
        while len(done) < count - len(leaving):
            turns.append(done.copy())
            await asyncio.sleep(0)
        return [*turns, done]

    seen = run(asyncio.wait_for(stand(), 5))
    steps = [after[len(before) :] for before, after in zip([[], *seen], seen, strict=False)]
    return [step for step in steps if step]


def test_so_many_are_verified_in_a_turn_first_come_first_served() -> None:
    assert served(VerificationQueue(2), 5) == [[0, 1], [2, 3], [4]]
    assert served(VerificationQueue(16), 5) == [[0, 1, 2, 3, 4]]
    turns = served(VerificationQueue(4), 40)
    assert [number for turn in turns for number in turn] == list(range(40))
    assert max(map(len, turns)) == 4


def test_a_request_that_leaves_the_line_costs_nobody_a_turn() -> None:
    assert served(VerificationQueue(1), 4, 1, 2) == [[0], [3]]


def test_a_queue_serves_one_loop_turn_after_another() -> None:
    queue = VerificationQueue(1)
    for _ in range(3):
        assert served(queue, 2) == [[0], [1]]
