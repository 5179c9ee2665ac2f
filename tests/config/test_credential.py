from tests.config.reading import HASH, OTHER_HASH, errors, examined, good, warnings
from tests.table import for_each

REST = "tenants: { acme: [a] }\nagents: { a: http://127.0.0.1:1 }\n"


def keys(*entries: str) -> str:
    lines = "".join(f"    k{number}: {{ tenant: acme, {entry} }}\n" for number, entry in enumerate(entries))
    return f"version: 1\nauth:\n  api_keys:\n{lines}{REST}"


def issuer(entry: str) -> str:
    return f"version: 1\nauth: {{ issuers: {{ corp: {{ {entry} }} }} }}\n{REST}"


GOOD = "issuer: 'https://idp.example', audience: agents, tenant: acme"


def test_a_key_may_have_two_hashes_in_any_case_and_empty_ones_do_not_count() -> None:
    config = good(keys(f'sha256: ["{HASH.upper()}", "", {OTHER_HASH}]'))
    assert config.auth is not None
    assert config.auth.api_keys["k0"].sha256 == (HASH, OTHER_HASH)


def test_two_keys_do_not_share_a_hash_and_the_hash_is_not_told() -> None:
    found = examined(keys(f"sha256: {HASH}", f"sha256: [{OTHER_HASH}, {HASH}]", f"sha256: [{'c' * 64}, {'c' * 64}]"))
    assert [(one.place.line, one.fact) for one in found.errors] == [
        (5, "'k0' has the same hash (line 4): its owner would be ambiguous"),
        (6, "the same hash is written twice"),
    ]
    assert HASH not in "".join(one.as_text() for one in found.errors)


def test_an_expired_key_is_worth_a_warning_and_one_that_soon_will_be() -> None:
    text = keys(
        f"sha256: {HASH}, expires: 2025-12-31",
        f"sha256: {OTHER_HASH}, expires: 2026-01-01",
        f"sha256: {'c' * 64}, expires: '2026-02-01'",
    )
    assert warnings(text) == [
        ("auth.api_keys.k0.expires", "the key has expired: its last day was 2025-12-31"),
        ("auth.api_keys.k1.expires", "the key expires soon: its last day is 2026-01-01"),
    ]


@for_each("day", ["2026-13-01", "01.02.2026", "1767225600", "2026-1-1", "2026-W01-1", "2026-01-01T00:00:00"])
def test_a_day_is_written_as_year_month_and_day(day: str) -> None:
    assert [path for path, _ in errors(keys(f"sha256: {HASH}, expires: {day}"))] == ["auth.api_keys.k0.expires"]


@for_each(
    "entry",
    [
        GOOD,
        GOOD.replace("tenant: acme", "tenant_claim: org"),
        "issuer: any text, jwks: 'https://idp.example/k?v=2', audience: [a, b], tenant: acme, leeway: 0s",
        "issuer: 'http://localhost:9', audience: a, tenant: acme, algorithms: [EdDSA]",
        "issuer: x, jwks: 'http://127.0.0.1:9/k', audience: a, tenant: acme",
    ],
)
def test_an_issuer_has_keys_that_come_safely(entry: str) -> None:
    assert errors(issuer(entry)) == []


@for_each(
    ("entry", "path"),
    [
        (GOOD.replace("https", "http"), "issuer"),
        (GOOD.replace("'https://idp.example'", "corp"), "issuer"),
        (GOOD.replace("'https://idp.example'", "''"), "issuer"),
        (GOOD.replace("idp.example", "idp.example?x=1"), "issuer"),
        (GOOD + ", jwks: 'https://u:p@idp.example/k'", "jwks"),
        (GOOD + ", tenant_claim: org", ""),
        (GOOD.replace("tenant: acme", "tenant_claim: ''"), "tenant_claim"),
        (GOOD.replace("audience: agents", "audience: []"), "audience"),
        (GOOD.replace("audience: agents", "audience: ['']"), "audience"),
        (GOOD + ", algorithms: []", "algorithms"),
        (GOOD + ", leeway: 31s", "leeway"),
    ],
)
def test_an_issuer_that_could_be_forged_is_refused(entry: str, path: str) -> None:
    assert [one for one, _ in errors(issuer(entry))] == [f"auth.issuers.corp.{path}".rstrip(".")]


def test_two_issuers_are_not_the_same() -> None:
    text = f"version: 1\nauth:\n  issuers:\n    a: {{ {GOOD} }}\n    b: {{ {GOOD} }}\n{REST}"
    assert errors(text) == [("auth.issuers.b.issuer", "'a' has the same issuer (line 4)")]
