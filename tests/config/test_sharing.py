from gateway.config.routes import places, reach, shared
from tests.config.reading import HASH, OTHER_HASH, good
from tests.table import for_each

AUTH = f"""\
auth:
  api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }}, bat: {{ sha256: {OTHER_HASH}, tenant: globex }} }}
"""
A = "a: http://127.0.0.1:1"


def text(tenants: str, agents: str, more: str = AUTH) -> str:
    return f"version: 1\n{more}tenants: {{ {tenants} }}\nagents: {{ {agents} }}\n"


@for_each(
    ("tenants", "agents", "keys"),
    [
        ("acme: [a], globex: [a]", A, {"a"}),
        ("acme: [a], globex: [], '*': [a]", A, {"a"}),
        ("acme: [], globex: [], '*': [a]", A, {"a"}),
        ("acme: [a], globex: [b]", A + ", b: { backend: 'http://127.0.0.1:1/' }", {"a", "b"}),
        ("acme: [a], globex: [b]", A + ", b: http://localhost:1, c: http://127.0.0.1:3", {"a", "b"}),
        ("acme: [a], globex: [b]", A + ", b: 'http://[::1]:1/'", {"a", "b"}),
        ("acme: , globex: ", "a: { backend: http://127.0.0.1:1, allow: [acme, globex] }", {"a"}),
        (
            "acme: [a], globex: { agents: [a], act_for: [acme] }",
            "a: { by_tenant: { acme: http://127.0.0.1:1, globex: http://127.0.0.1:2 } }",
            {"a/acme"},
        ),
        (
            "acme: [a], globex: [b]",
            "a: { by_tenant: { acme: http://127.0.0.1:1 } }, b: http://127.0.0.1:1",
            {"a/acme", "b"},
        ),
        ("acme: [a], globex: []", "a: { backend: http://127.0.0.1:1, isolation: principal }", {"a"}),
        ("acme: [a, b], globex: []", A + ", b: { backend: http://127.0.0.1:1, isolation: principal }", {"a", "b"}),
    ],
)
def test_several_owners_reach_a_backend(tenants: str, agents: str, keys: set[str]) -> None:
    assert shared(good(text(tenants, agents))) == keys


@for_each(
    ("tenants", "agents"),
    [
        ("acme: [a], globex: []", A),
        ("acme: [a], globex: [b]", A + ", b: http://127.0.0.1:2"),
        ("acme: [a], globex: [a]", "a: { by_tenant: { acme: http://127.0.0.1:1, globex: http://127.0.0.1:2 } }"),
        ("acme: [a], globex: { act_for: [acme] }", "a: { by_tenant: { acme: http://127.0.0.1:1 } }"),
        ("acme: [a], globex: '*'", "a: { backend: http://127.0.0.1:1, allow: [acme] }"),
        ("acme: [], globex: []", "a: { backend: http://127.0.0.1:1, isolation: principal }"),
    ],
)
def test_one_owner_shares_nothing(tenants: str, agents: str) -> None:
    assert shared(good(text(tenants, agents))) == frozenset()


def test_anonymous_callers_are_one_owner() -> None:
    assert shared(good(f"version: 1\nagents: {{ {A} }}\n")) == frozenset()
    assert shared(good(f"version: 1\ndefaults: {{ isolation: principal }}\nagents: {{ {A} }}\n")) == frozenset()
    agents = "a: { by_tenant: { x: http://127.0.0.1:1, z: http://127.0.0.1:1 } }"
    assert shared(good(f"version: 1\nagents: {{ {agents} }}\n")) == frozenset()
    beside = f"gateway: {{ anonymous: true }}\n{AUTH}"
    assert shared(good(text("acme: [a], globex: [], anonymous: [a]", A, beside))) == {"a"}


def test_a_place_has_the_shares_of_all_its_agents() -> None:
    config = good(text("acme: [a], globex: [b]", A + ", b: http://localhost:1, c: http://127.0.0.1:3"))
    found = [[(share.key, share.at, set(share.callers)) for share in there] for there in places(config, reach(config))]
    assert found == [
        [("a", ("agents", "a"), {"acme"}), ("b", ("agents", "b"), {"globex"})],
        [("c", ("agents", "c"), set())],
    ]
