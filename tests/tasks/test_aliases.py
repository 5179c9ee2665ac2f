"""The agent's ids of tasks that clients of 0.1 named themselves."""

from gateway.a2a.naming import Alias
from gateway.tasks.aliases import Aliases, AliasKey
from tests.table import for_each


def key(name: str, *, tenant: str = "acme", subject: str = "", told: str = "", backend: str = "echo") -> AliasKey:
    return AliasKey((tenant, "", subject, told), backend, name)


def put(aliases: Aliases, where: AliasKey, alias: Alias) -> None:
    aliases.put(where, where.name, alias)


@for_each(
    "other",
    [
        key("mine", tenant="globex"),
        key("mine", subject="bob"),
        key("mine", told="globex"),
        key("mine", backend="clock"),
        key("yours"),
    ],
)
def test_an_alias_is_unknown_to_other_callers(other: AliasKey) -> None:
    aliases = Aliases()
    put(aliases, key("mine"), Alias("task-1"))
    assert aliases.find(other) is None


def test_the_least_recently_used_alias_is_forgotten_first() -> None:
    aliases = Aliases(most=2)
    put(aliases, key("a"), Alias("1"))
    put(aliases, key("b"), Alias("2"))
    assert aliases.find(key("a")) is not None
    put(aliases, key("c"), Alias("3"))
    assert [aliases.find(key(name)) for name in "abc"] == [Alias("1"), None, Alias("3")]


def test_a_tenant_that_names_many_tasks_makes_nobody_else_forget() -> None:
    aliases = Aliases(most=2)
    put(aliases, key("mine"), Alias("1"))
    for number in range(10):
        put(aliases, key(str(number), tenant="globex"), Alias(str(number)))
    assert aliases.find(key("mine")) == Alias("1")


def test_tenants_are_bounded_too() -> None:
    aliases = Aliases(tenants=2)
    for tenant in "abc":
        put(aliases, key("mine", tenant=tenant), Alias(tenant))
    assert [aliases.find(key("mine", tenant=tenant)) for tenant in "abc"] == [None, Alias("b"), Alias("c")]
