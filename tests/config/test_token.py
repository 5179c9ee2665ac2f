"""Settings for tokens: tenants by a map, other subjects, and the claims that agents require."""

from tests.config.reading import HASH, errors, good, warnings
from tests.table import for_each

REST = "tenants: { acme: [a] }\nagents: { a: http://127.0.0.1:1 }\n"


def issuer(entry: str, rest: str = REST) -> str:
    base = "issuer: 'https://idp.example', audience: agents"
    return f"version: 1\nauth: {{ issuers: {{ corp: {{ {base}, {entry} }} }} }}\n{rest}"


def requiring(written: str, auth: str = "tenant: acme") -> str:
    agents = f"agents: {{ a: {{ backend: 'http://127.0.0.1:1', require: {written} }} }}\n"
    return issuer(auth, f"tenants: {{ acme: [a] }}\n{agents}")


def test_a_claim_may_be_mapped_to_tenants() -> None:
    config = good(issuer("tenant_claim: tid, tenant_map: { 9188040d-6c67-4c5b-b112-36a304b66dad: acme, '42': acme }"))
    assert config.auth is not None
    assert config.auth.issuers["corp"].tenant_map == {
        "9188040d-6c67-4c5b-b112-36a304b66dad": "acme",
        "42": "acme",
    }
    assert config.auth.issuers["corp"].principal_claim == "sub"


@for_each(
    ("entry", "path", "fact"),
    [
        ("tenant_claim: tid, tenant_map: { x: nobody }", "tenant_map.x", "there is no tenant 'nobody'"),
        (
            "tenant_claim: tid, tenant_map: { x: anonymous }",
            "tenant_map.x",
            "'anonymous' is the tenant of callers without a credential",
        ),
        ("tenant_claim: tid, tenant_map: { x: a/b }", "tenant_map.x", "'a/b' is no name"),
        ("tenant: acme, tenant_map: { x: acme }", "tenant_map", "no claim has its values"),
        ("tenant_claim: tid, tenant_map: {}", "tenant_map", "the map is empty"),
        ("tenant_claim: tid, principal_claim: ''", "principal_claim", "no claim is named"),
        ("tenant_claim: ''", "tenant_claim", "no claim is named"),
    ],
)
def test_a_map_is_of_a_claim_and_to_tenants_of_the_file(entry: str, path: str, fact: str) -> None:
    assert errors(issuer(entry)) == [(f"auth.issuers.corp.{path}", fact)]


@for_each(
    ("written", "path", "fact"),
    [
        ("{}", "", "it requires nothing"),
        ("{ scope: [] }", "", "it requires nothing"),
        ("{ scope: 'a b' }", ".scope[0]", "'a b' is no scope"),
        ("{ scope: ['a', 'b\"'] }", ".scope[1]", "'b\"' is no scope"),
        ("{ scope: '' }", ".scope[0]", "'' is no scope"),
        ("{ role: '' }", ".role", "no role is named"),
        ("{ claim: { '': x } }", ".claim", "no claim is named"),
    ],
)
def test_a_requirement_names_what_a_token_can_have(written: str, path: str, fact: str) -> None:
    [(found, told)] = errors(requiring(written))
    assert found.startswith(f"agents.a.require{path.partition('[')[0]}")
    assert told == fact


def test_a_requirement_is_good() -> None:
    config = good(requiring("{ scope: [a, b], role: x, claim: { realm_access.roles: clerk, flag: true } }"))
    require = config.agents["a"].require
    assert require is not None
    assert (require.scope, require.role, require.claim) == (
        ("a", "b"),
        ("x",),
        {"realm_access.roles": "clerk", "flag": True},
    )


def test_a_requirement_that_nobody_can_meet_is_told() -> None:
    agents = "agents: { a: { backend: 'http://127.0.0.1:1', require: { scope: x } } }\n"
    assert errors(f"version: 1\n{agents}") == [
        ("agents.a.require", "without `auth` no caller has a scope, role or claim")
    ]
    by_key = (
        f"version: 1\nauth: {{ api_keys: {{ k: {{ sha256: {HASH}, tenant: acme }} }} }}\ntenants: {{ acme: [a] }}\n"
    )
    assert ("agents.a.require", "no caller can use this agent: without an issuer no caller has a token") in warnings(
        by_key + agents
    )
