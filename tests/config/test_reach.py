from gateway.config.routes import reach
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach
from tests.config.reading import HASH, good

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


def test_with_auth_anonymous_callers_reach_nothing_unless_they_are_named() -> None:
    assert ANONYMOUS_TENANT not in agents("tenants: { acme: [a] }\n")


def test_a_tenant_reaches_what_it_lists() -> None:
    assert agents('tenants: { acme: [a], globex: "*", initech: [] }\n') == {
        "acme": {"a"},
        "globex": {"a", "b"},
        "initech": set(),
    }


def test_a_tenant_without_a_list_reaches_what_names_it() -> None:
    assert agents("tenants: { acme: , globex: [a] }\n", allow="[acme]") == {"acme": {"b"}, "globex": {"a"}}


def test_all_agents_are_those_that_do_not_keep_the_tenant_out() -> None:
    assert agents('tenants: { acme: ["*"], globex: ["*"] }\n', allow="[acme]") == {"acme": {"a", "b"}, "globex": {"a"}}


def test_an_agent_for_everyone_is_for_every_tenant_whose_own_list_says_nothing_else() -> None:
    assert agents('tenants: { acme: , globex: [a], "*": }\n', allow='["*"]') == {
        "acme": {"b"},
        "globex": {"a"},
        "*": {"b"},
    }


def test_whom_a_tenant_acts_for_is_in_its_reach() -> None:
    config = good(AUTH + "tenants: { acme: { agents: [a], act_for: [globex] }, globex: [] }\nagents:\n" + A_B % "")
    assert reach(config)["acme"] == Reach(frozenset("a"), frozenset({"globex"}))
