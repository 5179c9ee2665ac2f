"""The A2A `tenant`: what can be one, and what of it a path can say."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.params import of_card
from gateway.a2a.paths import RESERVED, PathCall, fits_path, is_opaque, is_tenant
from tests.table import for_each


@for_each(
    "tenant",
    ["acme", "orgs/42", "Tasks", "../a", " a", "a ", "Zoë", "x" * 256, "ä" * 128, "a\u200db", "a%2fb", "'\"\\"],
)
def test_a_tenant_is_any_text_without_control_characters(tenant: str) -> None:
    assert is_tenant(tenant)


@for_each(
    "tenant", ["", "a\0", "\n", "a\rb", "\x1b[0m", "\x7f", "\x80", "a\x9fb", "x" * 257, "ä" * 129, "\ud800", "a\udfff"]
)
def test_any_other_is_none(tenant: str) -> None:
    assert not is_tenant(tenant)
    assert not is_opaque(tenant)


@for_each("tenant", sorted(RESERVED))
def test_a_word_of_the_protocols_paths_is_none_anywhere(tenant: str) -> None:
    assert is_opaque(tenant)
    assert not is_tenant(tenant)


@given(st.text(st.characters(codec=None, categories=None), max_size=300))
def test_what_is_one_can_be_written_in_256_bytes(tenant: str) -> None:
    if is_tenant(tenant):
        assert 0 < len(tenant.encode()) <= 256


def test_a_path_can_say_plain_segments_alone() -> None:
    assert all(fits_path(each) for each in (None, "acme", "a.b_c-D", "x" * 64))
    assert not any(fits_path(each) for each in ("orgs/42", "..", "v1", "tasks", "a b", "ä", "x" * 65, "a\n", "acme\n"))


@for_each(
    ("query", "tenant"),
    [
        (b"tenant=orgs%2F42", "orgs/42"),
        (b"tenant=orgs/42&x=1", "orgs/42"),
        (b"a=b&tenant=a%20b", "a b"),
        (b"", None),
        (b"tenant=", None),
        # What a path can say stands in the path.
        (b"tenant=acme", None),
        (b"tenant=a+b", None),
        (b"tenant=a%2Fb&tenant=c%2Fd", None),
        (b"Tenant=a%2Fb", None),
        (b"tenant=a%00b", None),
        (b"tenant=%ff", None),
        (b"tenant=a%C2%85b", None),
        (b"tenant=" + b"%C3%A4" * 129, None),
    ],
)
def test_the_query_of_a_card_names_what_no_path_can(query: bytes, tenant: str | None) -> None:
    assert of_card(PathCall(), query).tenant == tenant
    assert of_card(PathCall(tenant="acme"), query).tenant == "acme"
