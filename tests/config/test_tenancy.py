from tests.config.reading import HASH, OTHER_HASH, errors, warnings
from tests.table import for_each

AUTH = f"""\
auth:
  api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }}, bat: {{ sha256: {OTHER_HASH}, tenant: globex }} }}
"""


def text(tenants: str, agents: str, auth: str = AUTH) -> str:
    return f"version: 1\n{auth}tenants: {{ {tenants} }}\nagents: {{ {agents} }}\n"


A = "a: http://127.0.0.1:1"
NONE = "a: { backend: http://127.0.0.1:1, isolation: none }"


def test_names_that_are_nowhere_else_are_refused() -> None:
    agents = "a: { by_tenant: { acme: http://127.0.0.1:1, glob: http://127.0.0.1:2 }, allow: [acme, x1] }"
    assert errors(text("acme: [a], globex: []", agents)) == [
        ("agents.a.by_tenant.glob", "there is no tenant 'glob'"),
        ("agents.a.allow[1]", "there is no tenant 'x1'"),
    ]
    auth = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acm, agents: [b] }} }} }}\n"
    assert errors(text("acme: [a]", A, auth)) == [
        ("auth.api_keys.bot.tenant", "there is no tenant 'acm'"),
        ("auth.api_keys.bot.agents[0]", "there is no agent 'b'"),
    ]


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


@for_each("written", ["key: bot", "claim: { x: z }"])
def test_a_match_by_credential_needs_credentials(written: str) -> None:
    found = errors(
        f"version: 1\nagents: {{ a: {{ backend: http://127.0.0.1:1, match: {{ path: /x, {written} }} }} }}\n"
    )
    assert [fact for _, fact in found] == ["without `auth` no caller has a key or a claim"]


def test_a_match_by_a_key_that_may_not_call_is_worth_a_warning() -> None:
    agents = "a: { backend: http://127.0.0.1:1, match: { path: /x, key: bat } }"
    assert [path for path, _ in warnings(text("acme: [a], globex: []", agents))] == ["agents.a.match.key"]


# ---- whose tasks they are ------------------------------------------------------------------------------------------


@for_each(
    ("tenants", "agents", "who"),
    [
        ("acme: [a], globex: [a]", "a: { backend: http://127.0.0.1:1, unknown_tasks: adopt }", "'a' (acme, globex)"),
        ("acme: [a], '*': [a]", "a: { backend: http://127.0.0.1:1, unknown_tasks: adopt }", "'a' (acme, others)"),
        (
            "acme: [a], globex: [b]",
            "a: { backend: http://127.0.0.1:1, unknown_tasks: adopt }, b: http://localhost:1",
            "'a' (acme, globex), which is the backend of b too",
        ),
        (
            "acme: [a], globex: { agents: [a], act_for: [acme] }",
            "a: { by_tenant: { acme: http://127.0.0.1:1 }, unknown_tasks: adopt }",
            "'a/acme' (acme, globex)",
        ),
        (
            "acme: [a]",
            "a: { backend: http://127.0.0.1:1, unknown_tasks: adopt, isolation: principal }",
            "'a' (acme)",
        ),
    ],
)
def test_adopting_tasks_where_several_could_is_worth_a_warning(tenants: str, agents: str, who: str) -> None:
    written = text(f"{tenants}, globex: []" if "globex" not in tenants else tenants, agents)
    [(path, fact)] = [one for one in warnings(written) if "first caller" in one[1]]
    assert path == "agents.a.unknown_tasks"
    assert fact.startswith(f"several callers share the backend of {who}: the first caller that names")


def test_adopting_tasks_is_told_where_it_is_written() -> None:
    shared = text("acme: [a], globex: [a]", A).replace("version: 1\n", "version: 1\ndefaults: { %s }\n")
    assert [path for path, _ in warnings(shared % "unknown_tasks: adopt")] == ["defaults.unknown_tasks"]
    assert warnings(shared % "unknown_tasks: adopt, isolation: none") == []
    assert (
        warnings(text("acme: [a], globex: []", A[:2] + " { backend: http://127.0.0.1:1, unknown_tasks: adopt }")) == []
    )


BOTH = A + ", b: http://localhost:1/"


@for_each(
    ("tenants", "agents", "path", "first"),
    [
        ("acme: [a], globex: [b]", BOTH, "agents.b", "a"),
        ("acme: [a, b], globex: [a]", BOTH, "agents.b", "a"),
        ("acme: [a], '*': [b], globex: []", BOTH, "agents.b", "a"),
        ("acme: [a], globex: [b]", NONE + ", b: http://127.0.0.1:1", "agents.b", "a"),
        (
            "acme: [a], globex: [a]",
            "a: { by_tenant: { acme: http://127.0.0.1:1, globex: http://127.0.0.1:1 } }",
            "agents.a.by_tenant.globex",
            "a/acme",
        ),
    ],
)
def test_two_names_of_one_backend_are_worth_a_warning(tenants: str, agents: str, path: str, first: str) -> None:
    fact = f"its backend is that of {first!r} too: tasks of one are unknown to the other"
    assert warnings(text(tenants, agents)) == [(path, fact)]


@for_each(
    ("tenants", "agents"),
    [
        ("acme: [a, b], globex: []", BOTH),
        ("acme: [a], globex: [b]", A + ", b: http://127.0.0.1:2"),
        ("acme: [a], globex: [b]", A + ", b: http://127.0.0.1:1/b"),
        ("acme: [a], globex: [b]", NONE + ", b: { backend: http://127.0.0.1:1, isolation: none }"),
    ],
)
def test_two_names_are_none_where_one_tenant_has_both_or_nothing_is_remembered(tenants: str, agents: str) -> None:
    assert warnings(text(tenants, agents)) == []
