from gateway.config.routes import reach
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach
from tests.config.reading import HASH, good
from tests.table import for_each

AUTH = f"version: 1\nauth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}\n"
A_B = "  a: { backend: http://127.0.0.1:1, isolation: none }\n  b: { backend: http://127.0.0.1:2, isolation: none%s }\n"


def agents(text: str, *, allow: str = "") -> dict[str, set[str]]:
    config = good(AUTH + text + "agents:\n" + A_B % (f", allow: {allow}" if allow else ""))
    return {tenant: set(may.agents) for tenant, may in reach(config).items()}


def test_without_auth_everyone_is_anonymous_and_reaches_what_does_not_keep_them_out() -> None:
    config = good(f"version: 1\ntenants: {{ acme: }}\nagents:\n{A_B % ', allow: [acme]'}")
    assert reach(config)[ANONYMOUS_TENANT] == Reach(frozenset("a"), None)


def test_tenants_anonymous_decides_where_it_is_written() -> None:
    config = good(f"version: 1\ntenants: {{ anonymous: [b] }}\nagents:\n{A_B % ''}")
    assert reach(config)[ANONYMOUS_TENANT] == Reach(frozenset("b"), frozenset())


@for_each(
    ("tenants", "allow", "reached"),
    [
        # Without their name anonymous callers reach nothing.
        ("acme: [a]", "", {"acme": {"a"}}),
        ('acme: [a], globex: "*", initech: []', "", {"acme": {"a"}, "globex": {"a", "b"}, "initech": set()}),
        # A tenant without a list reaches what names it.
        ("acme: , globex: [a]", "[acme]", {"acme": {"b"}, "globex": {"a"}}),
        # All agents are those that do not keep the tenant out.
        ('acme: ["*"], globex: ["*"]', "[acme]", {"acme": {"a", "b"}, "globex": {"a"}}),
        # An agent for everyone is for every tenant whose own list says nothing else.
        ('acme: , globex: [a], "*": ', '["*"]', {"acme": {"b"}, "globex": {"a"}, "*": {"b"}}),
    ],
)
def test_a_tenant_reaches_the_agents_that_it_lists_and_that_list_it(
    tenants: str, allow: str, reached: dict[str, set[str]]
) -> None:
    assert agents(f"tenants: {{ {tenants} }}\n", allow=allow) == reached


def test_the_reach_of_a_tenant_has_the_tenants_that_it_acts_for() -> None:
    config = good(AUTH + "tenants: { acme: { agents: [a], act_for: [globex] }, globex: [] }\nagents:\n" + A_B % "")
    assert reach(config)["acme"] == Reach(frozenset("a"), frozenset({"globex"}))
