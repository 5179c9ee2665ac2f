"""What agents call the tasks that clients of 0.1 named themselves."""

from gateway.a2a.translation import Alias
from gateway.tasks.aliases import Aliases


def test_a_task_is_found_under_the_name_its_client_gave_it() -> None:
    aliases = Aliases()
    aliases.put("acme", "echo", "mine", Alias("task-1", "ctx-1", "session-1"))
    assert aliases.find("acme", "echo", "mine") == Alias("task-1", "ctx-1", "session-1")


def test_another_tenant_and_another_backend_know_nothing_of_it() -> None:
    aliases = Aliases()
    aliases.put("acme", "echo", "mine", Alias("task-1"))
    assert aliases.find("globex", "echo", "mine") is None
    assert aliases.find("acme", "clock", "mine") is None


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    aliases = Aliases(most=2)
    aliases.put("acme", "echo", "a", Alias("1"))
    aliases.put("acme", "echo", "b", Alias("2"))
    assert aliases.find("acme", "echo", "a") is not None
    aliases.put("acme", "echo", "c", Alias("3"))
    assert [aliases.find("acme", "echo", name) for name in "abc"] == [Alias("1"), None, Alias("3")]


def test_a_tenant_that_names_many_tasks_makes_nobody_else_forget() -> None:
    aliases = Aliases(most=2)
    aliases.put("acme", "echo", "mine", Alias("1"))
    for number in range(10):
        aliases.put("globex", "echo", str(number), Alias(str(number)))
    assert aliases.find("acme", "echo", "mine") == Alias("1")


def test_tenants_are_bounded_too() -> None:
    aliases = Aliases(tenants=2)
    for tenant in "abc":
        aliases.put(tenant, "echo", "mine", Alias(tenant))
    assert [aliases.find(tenant, "echo", "mine") for tenant in "abc"] == [None, Alias("b"), Alias("c")]
