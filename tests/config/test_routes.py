from gateway.config.routes import routing_table, rules
from gateway.routing.route import AgentRules, GrpcAddress, Route
from tests.config.reading import examined


def made(text: str) -> AgentRules:
    found = examined(f"version: 1\nagents:\n  a:\n{text}")
    assert found.config is not None, found.problems
    (agent,) = rules(found.config, found.marks)
    return agent


def test_an_agent_without_a_match_is_found_under_its_name() -> None:
    agent = made("    backend: http://127.0.0.1:1\n")
    (rule,) = agent.rules
    assert (rule.host, rule.path, rule.conditions) == (None, ("a",), frozenset())
    assert (rule.place.line, rule.place.column) == (3, 3)
    assert agent.routes == {None: Route("a", "a", "http://127.0.0.1:1")}
    assert not agent.tenanted
    assert agent.public


def test_every_match_is_a_rule_at_its_own_line() -> None:
    agent = made(
        "    backend: http://127.0.0.1:1\n    match:\n      - { host: x.example, tenant: t }\n      - { path: /a/b }\n"
    )
    first, second = agent.rules
    assert (first.host, first.path, first.conditions, first.place.line) == (
        "x.example", (), frozenset({("tenant", "t")}), 6,
    )  # fmt: skip
    assert (second.host, second.path, second.place.line) == (None, ("a", "b"), 7)


def test_the_root_can_be_written() -> None:
    (rule,) = made("    backend: http://127.0.0.1:1\n    match: { path: / }\n").rules
    assert rule.path == ()


def test_backends_by_tenant_have_keys_of_their_own() -> None:
    agent = made("    by_tenant: { x: http://127.0.0.1:1, z: http://127.0.0.1:2 }\n    visibility: private\n")
    assert agent.by_tenant
    assert agent.routes == {
        "x": Route("a", "a/x", "http://127.0.0.1:1", "x"),
        "z": Route("a", "a/z", "http://127.0.0.1:2", "z"),
    }
    assert not agent.public


def test_an_agent_that_gets_or_needs_a_tenant_has_tenants_in_its_paths() -> None:
    backend = "    backend: http://127.0.0.1:1\n"
    assert made(backend + "    upstream_tenant: keep\n").tenanted
    assert made(backend + "    upstream_tenant: acme\n").tenanted
    assert made(backend + "    require_tenant: true\n").tenanted
    assert not made(backend + "    upstream_tenant: strip\n").tenanted


def test_clients_of_grpc_find_agents_where_there_is_a_listener_for_them() -> None:
    text = """\
    version: 1
    gateway: { listen_grpc: "127.0.0.1:0", public_grpc: "Grpc.example:443" }
    agents:
      a: http://127.0.0.1:1
      b: { backend: http://127.0.0.1:2, match: { host: grpc.example, path: /b } }
    """
    served, unserved = (
        examined(text),
        examined(
            text.replace("listen_grpc", "listen")
            .replace("public_grpc", "public_url")
            .replace("Grpc.example:443", "http://h")
        ),
    )
    for found, addresses in ((served, [GrpcAddress("a"), GrpcAddress("b")]), (unserved, [None, None])):
        assert found.config is not None, found.problems
        made = routing_table(found.config, found.marks)
        assert made.grpc is (found is served)
        assert [made.grpc_address(rule) for each in made.agents.values() for rule in each.rules] == addresses
