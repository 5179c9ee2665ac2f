"""Identity headers whose values are claims."""

from tests.config.reading import errors
from tests.table import for_each


def headers(written: str) -> str:
    return f"version: 1\nagents: {{ a: {{ backend: 'http://127.0.0.1:1', identity_headers: {written} }} }}\n"


@for_each(
    ("written", "fact"),
    [
        ("{ session: 'claim:' }", "no claim is named"),
        ("{ session: 'claim:sid', subject: X-A2A-Session }", "'X-A2A-Session' is the header of `session` too"),
        (
            "{ session: Host, claims: { session: sid } }",
            "'Host' has a meaning of its own to agents, or on the way to them",
        ),
        ("{ claims: { who: sid } }", None),
        ("{ claims: 7 }", None),
    ],
)
def test_a_claim_in_a_header_is_named_and_the_header_its_own(written: str, fact: str | None) -> None:
    found = errors(headers(written))
    assert len(found) == 1
    assert fact is None or found[0][1] == fact


def test_forwarded_headers_are_none_that_claims_are_told_in() -> None:
    text = headers("{ session: 'claim:sid' }").replace(
        "identity_headers", "forward_headers: [X-A2A-Session], identity_headers"
    )
    assert [path for path, _ in errors(text)] == ["agents.a.forward_headers[0]"]
