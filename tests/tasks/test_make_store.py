"""Each place that a configuration may name has its store."""

import pytest

from gateway.tasks.ledger import make_store
from gateway.tasks.state_url import StateUrl, read_state
from tests.table import for_each


def test_a_url_that_nobody_checked_is_told_without_being_repeated() -> None:
    with pytest.raises(ValueError, match="is no URL") as broken:
        make_store(StateUrl("redis", url="redis://user:hun/hunter2@h"))
    assert "hunter2" not in str(broken.value)


@for_each(
    "text",
    [
        "redis://h", "redis://:p%2Fw@h:7/15", "redis://u:p@[::1]:6379?db=2&prefix=a-b_c.d", "unix:///r.sock?db=3",
        "rediss://h?ssl_ca_certs=%2Fetc%2Fca.pem&ssl_certfile=/c&ssl_keyfile=/k", "unix://:pw@/run/r.sock",
        "redis://h/", "redis://h/0012", "redis://a_b.c-d",
    ],
)  # fmt: skip
def test_redis_urls_of_the_configuration_open_a_redis_store(text: str) -> None:
    assert make_store(read_state(text)).shared
