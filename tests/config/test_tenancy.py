import pytest

from tests.config.reading import HASH, OTHER_HASH, errors, warnings

AUTH = f"""\
auth:
  api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }}, bat: {{ sha256: {OTHER_HASH}, tenant: globex }} }}
"""


def text(tenants: str, agents: str, auth: str = AUTH) -> str:
    return f"version: 1\n{auth}tenants: {{ {tenants} }}\nagents: {{ {agents} }}\n"


A = "a: http://127.0.0.1:1"
NONE = "a: { backend: http://127.0.0.1:1, isolation: none }"


@pytest.mark.parametrize(
    ("tenants", "agents", "path", "fact"),
    [
        ("acme: [b], globex: [a]", A, "tenants.acme", "there is no agent 'b'"),
        ("acme: [a], globex: { act_for: [acne] }", A, "tenants.globex.act_for[0]", "there is no tenant 'acne'"),
        (
            "acme: [a], globex: []",
            "a: { backend: http://127.0.0.1:1, allow: [acme, x1] }",
            "agents.a.allow[1]",
            "there is no tenant 'x1'",
        ),
        (
            "acme: [a], globex: []",
            "a: { by_tenant: { acme: http://127.0.0.1:1, glob: http://127.0.0.1:2 } }",
            "agents.a.by_tenant.glob",
            "there is no tenant 'glob'",
        ),
        (
            "acme: [a], globex: []",
            "a: { backend: http://127.0.0.1:1, match: { path: /x, key: bt } }",
            "agents.a.match.key",
            "there is no API key 'bt'",
        ),
    ],
)
def test_a_name_that_is_nowhere_else_is_refused(tenants: str, agents: str, path: str, fact: str) -> None:
    assert errors(text(tenants, agents)) == [(path, fact)]


def test_names_of_keys_and_their_agents_are_known() -> None:
    auth = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acm, agents: [b] }} }} }}\n"
    assert errors(text("acme: [a]", A, auth)) == [
        ("auth.api_keys.bot.tenant", "there is no tenant 'acm'"),
        ("auth.api_keys.bot.agents[0]", "there is no agent 'b'"),
    ]


def test_without_auth_and_tenants_the_names_of_by_tenant_are_free() -> None:
    assert errors("version: 1\nagents: { a: { by_tenant: { acme: http://127.0.0.1:1 } } }\n") == []


def test_both_sides_agree_where_both_are_written() -> None:
    agents = "a: { backend: http://127.0.0.1:1, allow: [acme] }, b: http://127.0.0.1:2"
    assert errors(text("acme: [b], globex: [a]", agents)) == [
        ("tenants.globex", "'a' does not allow 'globex' (line 5)"),
        ("agents.a.allow[0]", "the tenant 'acme' does not list 'a' (line 4)"),
    ]


def test_one_side_may_speak_for_all() -> None:
    agents = "a: { backend: http://127.0.0.1:1, allow: [acme] }, b: { backend: http://127.0.0.1:2, isolation: none }"
    assert errors(text("acme: '*', globex: '*'", agents)) == []
    assert errors(text("acme: [a], globex: [a]", NONE[:-2] + ", allow: '*' }")) == []


def test_an_agent_that_nobody_may_call_is_worth_a_warning() -> None:
    assert warnings(text("acme: [a], globex: []", A + ", b: http://127.0.0.1:2")) == [
        ("agents.b", "no tenant may call this agent")
    ]
    assert warnings("version: 1\nagents: { a: { backend: http://127.0.0.1:1, allow: [] } }\n") == [
        ("agents.a.allow", "no tenant may call this agent")
    ]


@pytest.mark.parametrize("written", ["key: bot", "claim: { x: z }"])
def test_a_match_by_credential_needs_credentials(written: str) -> None:
    found = errors(
        f"version: 1\nagents: {{ a: {{ backend: http://127.0.0.1:1, match: {{ path: /x, {written} }} }} }}\n"
    )
    assert [fact for _, fact in found] == ["without `auth` no caller has a key or a claim"]


def test_a_match_by_a_key_that_may_not_call_is_worth_a_warning() -> None:
    agents = "a: { backend: http://127.0.0.1:1, match: { path: /x, key: bat } }"
    assert [path for path, _ in warnings(text("acme: [a], globex: []", agents))] == ["agents.a.match.key"]


# ---- isolation -----------------------------------------------------------------------------------------------------

SHARED = "tasks have no owners yet"


@pytest.mark.parametrize(
    ("tenants", "agents"),
    [
        ("acme: [a], globex: [a]", A),
        ("acme: [a], globex: [], '*': [a]", A),
        ("acme: [], globex: [], '*': [a]", A),
        ("acme: [a], globex: [b]", A + ", b: { backend: 'http://127.0.0.1:1/' }"),
        ("acme: [a], globex: [b]", A + ", b: http://localhost:1"),
        ("acme: [a], globex: [b]", A + ", b: 'http://[::1]:1/'"),
        ("acme: , globex: ", "a: { backend: http://127.0.0.1:1, allow: [acme, globex] }"),
        ("acme: [a], globex: { agents: [a], act_for: [acme] }", "a: { by_tenant: { acme: http://127.0.0.1:1 } }"),
        ("acme: [a], globex: [b]", "a: { by_tenant: { acme: http://127.0.0.1:1 } }, b: http://127.0.0.1:1"),
    ],
)
def test_a_backend_that_several_tenants_may_call_must_say_so(tenants: str, agents: str) -> None:
    found = errors(text(tenants, agents))
    assert found
    assert all(SHARED in fact for _, fact in found)
    assert errors(text(tenants, agents).replace("version: 1\n", "version: 1\ndefaults: { isolation: none }\n")) == []


@pytest.mark.parametrize(
    ("tenants", "agents"),
    [
        ("acme: [a], globex: []", A),
        ("acme: [a], globex: [b]", A + ", b: http://127.0.0.1:2"),
        ("acme: [a], globex: [a]", "a: { by_tenant: { acme: http://127.0.0.1:1, globex: http://127.0.0.1:2 } }"),
        ("acme: [a], globex: { act_for: [acme] }", "a: { by_tenant: { acme: http://127.0.0.1:1 } }"),
        ("acme: [a], globex: '*'", "a: { backend: http://127.0.0.1:1, allow: [acme] }"),
    ],
)
def test_a_backend_that_one_tenant_may_call_needs_no_word(tenants: str, agents: str) -> None:
    assert errors(text(tenants, agents)) == []


def test_anonymous_callers_are_one_tenant() -> None:
    assert errors(f"version: 1\nagents: {{ {A} }}\n") == []
    assert errors("version: 1\nagents: { a: { by_tenant: { x: http://127.0.0.1:1, z: http://127.0.0.1:1 } } }\n") == []
