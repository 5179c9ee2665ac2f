"""`Retry-After` of an agent's error page is read by the agent's own clock."""

from gateway.upstream.error_page import seconds_of
from tests.table import for_each

NOW = b"date: Wed, 21 Oct 2026 07:28:00 GMT"


@for_each(
    ("fields", "seconds"),
    [
        ((), None),
        ((b"retry-after: 0",), 0.0),
        ((b"retry-after: 120",), 120.0),
        ((b"retry-after: 99999999999999999999",), 86_400.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT"), 120.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:00:00 GMT"), 0.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2099 07:00:00 GMT"), 86_400.0),
        ((b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT",), 0.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:30:00 -0000"), None),
        ((NOW, b"retry-after: soon"), None),
        ((b"date: now", b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT"), None),
        ((b"retry-after: -1",), None),
        ((b"retry-after: 1e3",), None),
        ((b"retry-after: \xff",), None),
        ((b"retry-after: ",), None),
    ],
)
def test_when_to_come_again_is_read_by_the_agents_own_clock(fields: tuple[bytes, ...], seconds: float | None) -> None:
    found = dict(field.split(b": ", 1) for field in fields)
    assert seconds_of(found.get(b"retry-after"), found.get(b"date")) == seconds
