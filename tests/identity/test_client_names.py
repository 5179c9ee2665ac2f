"""Patterns of names: what they fit, and which of two is the narrower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.client_names import LONGEST_NAME, ClientName, ClientPattern
from gateway.routing.table import path_segments
from tests.table import for_each

MESH = "spiffe://mesh.test/ns/{tenant}/sa/*"


def uri(text: str) -> ClientPattern:
    return ClientPattern.parse("uri", text)


def dns(text: str) -> ClientPattern:
    return ClientPattern.parse("dns", text)


@for_each(
    ("kind", "pattern", "name", "tenant"),
    [
        ("uri", MESH, "spiffe://mesh.test/ns/acme/sa/x", "acme"),
        ("uri", MESH, "spiffe://mesh.test/ns/acme.eu/sa/x-1_2.3~", "acme.eu"),
        ("uri", "spiffe://mesh.test/ns/a/sa/b", "spiffe://mesh.test/ns/a/sa/b", ""),
        ("uri", "urn:acme:billing", "urn:acme:billing", ""),
        ("uri", "https://acme.test/agents/*", "https://acme.test/agents/a:b", ""),
        ("dns", "*.acme.test", "x.acme.test", ""),
        ("dns", "{tenant}.clients.test", "acme.clients.test", "acme"),
        ("dns", "*.{tenant}.clients.test", "a_1.acme.clients.test", "acme"),
        ("dns", "Reports.ACME.test", "reports.acme.test", ""),
        ("common_name", "fax-7", "fax-7", ""),
        ("common_name", "Jürgen Müller", "Jürgen Müller", ""),
        ("common_name", "*", "whatever it is", ""),
        ("common_name", "{tenant}", "acme", "acme"),
    ],
)
def test_a_pattern_fits_names_of_its_kind(kind: str, pattern: str, name: str, tenant: str) -> None:
    found = ClientPattern.parse(kind, pattern)
    assert found.tenant_of(ClientName(kind, name)) == tenant
    assert found.has_tenant == ("{tenant}" in pattern)
    assert found.is_whole == ("{" not in pattern and "*" not in pattern)
    for other in {"uri", "dns", "common_name"} - {kind}:
        assert found.tenant_of(ClientName(other, name)) is None


@for_each(
    "name",
    [
        "spiffe://mesh.test/ns/acme/sa",
        "spiffe://mesh.test/ns/acme/sa/",
        "spiffe://mesh.test/ns/acme/sa/x/y",
        "spiffe://mesh.test/ns/acme//sa/x",
        "spiffe://mesh.test/ns//sa/x",
        "spiffe://mesh.test/ns/acme/sa/.",
        "spiffe://mesh.test/ns/acme/sa/..",
        "spiffe://mesh.test/ns/acme/sa/%2e%2e",
        "spiffe://mesh.test/ns/acme/sa/x%2Fy",
        "spiffe://mesh.test/ns/acme/sa/x?y",
        "spiffe://mesh.test/ns/acme/sa/x#y",
        "spiffe://mesh.test/ns/acme/sa/x\0",
        "spiffe://mesh.test/ns/acme/sa/x\n",
        "spiffe://mesh.test/ns/acme/sa/*",
        "spiffe://mesh.test/ns/{tenant}/sa/x",
        "spiffe://mesh.test/ns/a*/sa/x",
        "spiffe://mesh.test/ns/../sa/x",
        "spiffe://mesh.test/ns/-/sa/x",
        "spiffe://mesh.test/ns/anonymous/sa/x",
        "spiffe://mesh.test/ns/tasks/sa/x",
        f"spiffe://mesh.test/ns/{'a' * 65}/sa/x",
        "spiffe://mesh.test:443/ns/acme/sa/x",
        "spiffe://user@mesh.test/ns/acme/sa/x",
        "spiffe://MESH.test/ns/acme/sa/x",
        "SPIFFE://mesh.test/ns/acme/sa/x",
        "https://mesh.test/ns/acme/sa/x",
        " spiffe://mesh.test/ns/acme/sa/x",
        f"spiffe://mesh.test/ns/acme/sa/{'x' * LONGEST_NAME}",
        "",
    ],
)
def test_a_pattern_of_uris_fits_nothing_else(name: str) -> None:
    assert uri(MESH).tenant_of(ClientName("uri", name)) is None


@for_each(
    "name",
    ["acme.test", "x.y.acme.test", "*.acme.test", ".acme.test", "x.acme.test.", "-x.acme.test", "x\0.acme.test", "",
     "x .acme.test", "x.acme.test\n", f"{'x' * 64}.acme.test", "xn--é.acme.test"],
)  # fmt: skip
def test_a_pattern_of_dns_names_fits_one_whole_label(name: str) -> None:
    assert dns("*.acme.test").tenant_of(ClientName("dns", name)) is None


@for_each("name", ["", "a\0b", "a\nb", "x" * 65, "\x7f", "a\u202eb", "a\u2028b"])
def test_a_common_name_is_a_line_of_visible_text(name: str) -> None:
    assert ClientPattern.parse("common_name", "*").tenant_of(ClientName("common_name", name)) is None


@given(st.text(max_size=80))
def test_matched_names_have_the_texts_of_the_pattern_and_no_other_slash(name: str) -> None:
    for text in (name, f"spiffe://mesh.test/ns/{name}/sa/x", f"spiffe://mesh.test/ns/acme/sa/{name}"):
        tenant = uri(MESH).tenant_of(ClientName("uri", text))
        if tenant is not None:
            assert text.startswith(f"spiffe://mesh.test/ns/{tenant}/sa/")
            assert len(path_segments("/" + text.split("/", 3)[3])) == 4
            assert text.isprintable()


@for_each(
    ("kind", "text", "fact"),
    [
        ("uri", "spiffe://mesh.test/ns/a*", "has a wildcard that is a part of something"),
        ("uri", "spiffe://mesh.test/ns/**", "has a wildcard that is a part of something"),
        ("uri", "spiffe://mesh.test/ns/{name}", "has a wildcard that is a part of something"),
        ("uri", "spiffe://mesh.test/{tenant}-x", "has a wildcard that is a part of something"),
        ("uri", "urn:acme:*", "has a wildcard that is a part of something"),
        ("uri", "*", "is no URI"),
        ("uri", "", "is no URI"),
        ("uri", "spiffe://mesh.test/a b", "is no URI"),
        ("uri", "mesh.test/a", "is no URI"),
        ("uri", "spiffe://*/a", "has a wildcard before its path"),
        ("uri", "spiffe://{tenant}/a", "has a wildcard before its path"),
        ("uri", "spiffe://x/{tenant}/{tenant}", "has two tenants"),
        ("uri", "spiffe://x/" + "a" * LONGEST_NAME, "is too long for a name"),
        ("dns", "*", "leaves its domain open"),
        ("dns", "a.*", "leaves its domain open"),
        ("dns", "a..test", "is no DNS name"),
        ("dns", "", "is no DNS name"),
        ("dns", "a.test.", "is no DNS name"),
        ("dns", "a b.test", "is no DNS name"),
        ("dns", "a*.test", "has a wildcard that is a part of something"),
        ("common_name", "fax-*", "has a wildcard that is a part of something"),
        ("common_name", "", "is no common name"),
        ("common_name", "a\0b", "is no common name"),
    ],
)
def test_a_malformed_pattern_is_refused_with_a_remedy(kind: str, text: str, fact: str) -> None:
    with pytest.raises(ValueError, match=fact) as refused:
        ClientPattern.parse(kind, text)
    told, remedy = refused.value.args
    assert (told, bool(remedy)) == (fact, True)


def test_a_narrower_pattern_matches_fewer_names() -> None:
    whole, one, two = uri("spiffe://x/a/b"), uri("spiffe://x/a/*"), uri("spiffe://x/{tenant}/*")
    assert whole.is_narrower(one)
    assert one.is_narrower(two)
    assert whole.is_narrower(two)
    for narrow, wide in ((one, whole), (two, one), (two, whole), (one, one)):
        assert not narrow.is_narrower(wide)


@for_each(
    ("one", "other", "meets"),
    [
        ("spiffe://x/a/*", "spiffe://x/*/b", True),
        ("spiffe://x/a/*", "spiffe://x/a/{tenant}", True),
        ("spiffe://x/a/*", "spiffe://x/b/*", False),
        ("spiffe://x/a/*", "spiffe://x/a/*/c", False),
        ("spiffe://x/a/*", "spiffe://y/a/*", False),
    ],
)
def test_patterns_that_cross_meet_and_neither_is_the_narrower(one: str, other: str, *, meets: bool) -> None:
    assert uri(one).meets(uri(other)) == uri(other).meets(uri(one)) == meets
    assert not uri(one).is_narrower(uri(other))
    assert not uri(other).is_narrower(uri(one))
    assert not dns("a.test").meets(ClientPattern.parse("common_name", "a.test"))


@for_each("name", [ClientName("uri", "urn:a"), ClientName("dns", "a.test"), ClientName("common_name", "CN=x")])
def test_a_subject_is_read_as_the_name_that_it_is(name: ClientName) -> None:
    assert ClientName.read(name.subject) == name
