"""The headers that tell a client how much it may still ask."""

import re

import pytest

from gateway.policy.ratelimit_headers import Standing, ratelimit_headers

# RFC 9651 §4.1: a string, then parameters that are integers.
_POLICY = re.compile(rb'"[a-z]+";q=\d{1,15};w=[1-9]\d{0,14}')
_LIMIT = re.compile(rb'"[a-z]+";r=\d{1,15};t=\d{1,15}')


def test_a_policy_and_a_limit_are_told_as_structured_fields() -> None:
    assert ratelimit_headers(Standing(600, 60, 599, 0.1)) == [
        (b"ratelimit-policy", b'"requests";q=600;w=60'),
        (b"ratelimit", b'"requests";r=599;t=1'),
    ]


@pytest.mark.parametrize(
    ("reset", "told"), [(0.0, 0), (0.001, 1), (1.0, 1), (1.0000000001, 1), (1.01, 2), (59.999, 60), (3600.0, 3600)]
)
def test_the_window_is_told_in_whole_seconds_never_too_few(reset: float, told: int) -> None:
    assert ratelimit_headers(Standing(1, 3600, 0, reset))[1] == (b"ratelimit", b'"requests";r=0;t=%d' % told)


def test_both_are_integers_whatever_the_figures() -> None:
    for standing in (Standing(999_999_999, 1, 10**9, 0.0), Standing(1, 3600, 0, 3599.5)):
        policy, limit = ratelimit_headers(standing)
        assert _POLICY.fullmatch(policy[1])
        assert _LIMIT.fullmatch(limit[1])
