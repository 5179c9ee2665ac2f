from tests.config.reading import HASH, warnings
from tests.table import for_each

AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}\n"
FACT = "callers can tell that tenants exist which they may not reach ({}): an unknown one is answered here"
MATCHED = "b: { backend: http://127.0.0.1:2, isolation: none, match: { path: /a, tenant: x } }"
SPLIT = (
    "b: { by_tenant: { x: http://127.0.0.1:2 }, isolation: none, visibility: private, match: { path: /a, tenant: x } }"
)


def text(tenants: str, other: str, match: str = "") -> str:
    general = f"a: {{ backend: http://127.0.0.1:1, isolation: none{match} }}"
    return f"version: 1\n{AUTH}tenants: {{ {tenants} }}\nagents: {{ {general}, {other} }}\n"


@for_each("match", ["", ", match: { path: /a }", ", match: [{ path: /a }]"])
def test_a_tenant_that_is_hidden_from_a_caller_of_the_general_agent_is_worth_a_warning(match: str) -> None:
    ((path, fact),) = warnings(text("acme: [a, b], globex: [a]", MATCHED, match))
    assert path.startswith("agents.a")
    assert fact == FACT.format("'x' of 'b'")


@for_each("tenants", ["acme: [b], anonymous: [a]", "acme: [b], '*': [a]"])
def test_callers_without_a_name_can_tell_too(tenants: str) -> None:
    found = warnings(text(tenants, MATCHED).replace("tenants:", "gateway: { anonymous: true }\ntenants:"))
    assert FACT.format("'x' of 'b'") in [fact for _, fact in found]


@for_each(
    ("tenants", "match"),
    [
        ("acme: [a, b], globex: [a, b]", ""),
        ("acme: [a, b], globex: [b]", ""),
        ("acme: [a], globex: [b]", ", match: { path: /elsewhere }"),
        ("acme: [a], globex: [b]", ", match: { path: /a, host: a.example }"),
        ("acme: [a], globex: [b]", ", match: { path: /a, tenant: z }"),
    ],
)
def test_configurations_that_reveal_no_tenant_get_no_warning(tenants: str, match: str) -> None:
    assert warnings(text(tenants, MATCHED, match)) == []


def test_a_backend_that_the_caller_may_not_act_for_is_hidden_too() -> None:
    assert [fact for _, fact in warnings(text("acme: [a, b], x: [b]", SPLIT))] == [FACT.format("'x' of 'b'")]
    assert warnings(text("acme: { agents: [a, b], act_for: [x] }, x: [a, b]", SPLIT)) == []


def test_an_agent_split_by_tenant_refuses_unknown_tenants_as_well() -> None:
    general = "a: { by_tenant: { acme: http://127.0.0.1:1 }, visibility: private }"
    assert (
        warnings(f"version: 1\n{AUTH}tenants: {{ acme: [a], globex: [b] }}\nagents: {{ {general}, {MATCHED} }}\n") == []
    )


def test_a_few_names_stand_for_many() -> None:
    others = ", ".join(
        f"b{number}: {{ backend: http://127.0.0.1:2, isolation: none, match: {{ path: /a, tenant: x{number} }} }}"
        for number in range(5)
    )
    ((_, fact),) = warnings(text("acme: [a], globex: [b0, b1, b2, b3, b4]", others))
    assert fact == FACT.format("'x0' of 'b0', 'x1' of 'b1', 'x2' of 'b2', …")


GRPC = "gateway: { listen_grpc: '127.0.0.1:0' }\ntenants:"


def over_grpc(tenants: str, other: str, match: str = "") -> list[tuple[str, str]]:
    return warnings(text(tenants, other, match).replace("tenants:", GRPC))


def test_over_grpc_an_agent_that_takes_any_tenant_shows_which_agents_there_are() -> None:
    keeping = ", match: { path: / }, upstream_tenant: keep"
    other = "b: { backend: http://127.0.0.1:2, isolation: none, match: { path: /x/z } }"
    assert over_grpc("acme: [a, b], globex: [a]", other, keeping) == [
        ("agents.a.match", "over gRPC " + FACT.format("'b' of 'b'"))
    ]
    assert warnings(text("acme: [a, b], globex: [a]", other, keeping)) == []
    assert over_grpc("acme: [a, b], globex: [a, b]", other, keeping) == []
    # Any other agent does not answer for names of nobody there.
    assert over_grpc("acme: [a, b], globex: [a]", other, ", match: { path: / }") == []
