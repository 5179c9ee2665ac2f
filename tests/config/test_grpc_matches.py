"""`check` of agents whose cards list gRPC, which has no paths."""

from gateway.config.problem import spell
from tests.config.reading import HASH, examined, warnings
from tests.table import for_each

HEAD = "version: 1\ngateway: { listen_grpc: '127.0.0.1:0'%s }\n"
AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: x }} }} }}\ntenants: {{ x: '*', z: '*' }}\n"


def agents(*entries: str, public: str = "", head: str = "") -> str:
    """Agents a0, a1, … on lines of their own, the first on line 4."""
    lines = [f"  a{number}: {{ {entry} }}\n" for number, entry in enumerate(entries)]
    return HEAD % public + head + "agents:\n" + "".join(lines)


def at(number: int, match: str = "", more: str = "expose: grpc") -> str:
    """An agent with a backend, its match, and what else."""
    return ", ".join(part for part in (f"backend: http://127.0.0.1:{number + 1}", match, more) if part)


SPLIT = "by_tenant: { x: http://127.0.0.1:8, z: http://127.0.0.1:9 }"
NEEDED = "only its path picks it, and the `tenant` that could stand for a path is for tenants of its own"


@for_each(
    "text",
    [
        agents(
            at(0),
            at(1, "match: { path: /x, tenant: t1 }"),
            at(3, "match: { path: / }"),
        ),
        # A host beside a path is one more way over HTTP.
        agents(at(0, "match: [{ path: /x }, { host: h.example }]", "")),
        agents(f"{SPLIT}, match: {{ path: /x, key: bot }}, expose: grpc", head=AUTH),
        agents(at(0, "match: { path: /x, tenant: t1 }, require_tenant: true")),
        # An agent that lists no gRPC gets no warning.
        agents(SPLIT, at(1, "match: { path: /x, tenant: a2 }"), at(2, more="")),
        agents(at(0, "require_tenant: true", "visibility: listed")),
    ],
)
def test_an_agent_that_is_reached_or_lists_no_grpc_is_fine(text: str) -> None:
    assert warnings(text) == []


@for_each("own", [SPLIT, at(0, "require_tenant: true", "")])
def test_a_path_of_an_agent_with_tenants_of_its_own_leads_nowhere(own: str) -> None:
    assert warnings(agents(f"{own}, expose: [rest, grpc]")) == [
        ("agents.a0.expose", f"clients of gRPC cannot reach it: {NEEDED}")
    ]


def test_a_name_that_is_a_tenant_of_another_agent_is_told_with_its_line_at_its_place() -> None:
    text = agents(at(0, more="visibility: listed, expose: grpc"), at(1, "match: { path: /x, tenant: a0 }", ""))
    [problem] = examined(text).problems
    assert (problem.severity, spell(problem.path)) == ("warning", "agents.a0.expose")
    assert (problem.place.line, problem.place.column) == (4, 58)
    assert problem.fact == (
        "clients of gRPC cannot reach it: its name 'a0', which would stand for its path, is a tenant of 'a1' (line 5)"
    )
    assert problem.remedy == "give it a match with another `tenant`, or leave `grpc` out of `expose`"


def test_agents_that_only_their_paths_tell_apart_are_both_told() -> None:
    text = agents(at(0, "match: { path: /x, tenant: t1 }"), at(1, "match: { path: /z, tenant: t1 }"))
    assert warnings(text) == [
        ("agents.a0.expose", "clients of gRPC cannot reach it: it differs from 'a1' in its path alone (line 5)"),
        ("agents.a1.expose", "clients of gRPC cannot reach it: it differs from 'a0' in its path alone (line 4)"),
    ]


def test_a_tenant_of_a_split_agent_that_another_match_asks_for_is_told_of_both() -> None:
    split, other = (
        f"{SPLIT}, match: {{ key: bot }}, expose: grpc",
        "match: { path: /w, key: bot, tenant: x }",
    )
    assert warnings(agents(split, at(1, other), head=AUTH))[-2:] == [
        ("agents.a0.by_tenant.x", "clients of gRPC cannot reach this backend: 'a1' asks for tenant 'x' too (line 7)"),
        ("agents.a1.expose", "clients of gRPC cannot reach it: its tenant 'x' is one of 'a0' too (line 6)"),
    ]


FACT = "over gRPC no host picks an agent: it is not seen there"


@for_each(
    ("match", "more", "remedy"),
    [
        ("{ host: h.example }", "", "clients of gRPC name the tenant 'a0'; add a match without `host` to say so"),
        (
            "[{ path: /x }, { host: h.example, path: /y }]",
            "expose: grpc",
            "clients of gRPC name the tenant 'a0'; add a match without `host` to say so",
        ),
    ],
)
def test_a_host_is_told_to_pick_no_agent(match: str, more: str, remedy: str) -> None:
    text = agents(at(0, f"match: {match}", more))
    [problem] = examined(text).problems
    number = "[1]" if match.startswith("[") else ""
    assert (problem.severity, spell(problem.path)) == ("warning", f"agents.a0.match{number}.host")
    assert (problem.fact, problem.remedy) == (FACT, remedy)


def test_an_agent_that_takes_any_tenant_shares_the_field_with_names() -> None:
    keeping = at(0, "match: { path: / }, upstream_tenant: keep")
    others = [at(number, f"match: {{ path: /x/p{number} }}", "") for number in range(1, 8)]
    fact = "over gRPC its tenants share the field with other agents ({}): one of such a name is not reached"
    assert warnings(agents(keeping, *others)) == [("agents.a0.expose", fact.format("a1, a2, a3, a4, a5, …"))]
    assert warnings(agents(keeping, others[0])) == [("agents.a0.expose", fact.format("a1"))]
    assert warnings(agents(keeping.replace("expose: grpc", "expose: rest"), *others)) == []
    assert warnings(agents(at(0, "match: { path: /p, tenant: t1 }, upstream_tenant: keep"), at(1))) == []


@for_each("own", [SPLIT, at(0, "require_tenant: true", ""), at(0, "upstream_tenant: keep", "")])
def test_a_credential_at_a_path_that_is_taken_for_all_of_grpc_is_told(own: str) -> None:
    first = f"{own}, match: {{ path: /x, key: bot }}"
    text = agents(first, at(1, more=""), at(2, "match: { path: /y, tenant: t2 }", ""), head=AUTH)
    fact = "over gRPC it picks 'a0' for every tenant name: it cannot reach other agents (a1, a2)"
    assert ("agents.a0.match.key", fact) in warnings(text)
    narrowed = AUTH.replace("tenant: x }", "tenant: x, agents: [a0] }")
    assert fact not in [told for _, told in warnings(text.replace(AUTH, narrowed))]


def test_a_credential_at_a_path_that_picks_only_where_no_tenant_is_named_is_not_told() -> None:
    text = agents(at(0, "match: { path: /x, key: bot }", ""), at(1, more=""), head=AUTH)
    assert warnings(text) == []
