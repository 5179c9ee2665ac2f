"""Warnings about limits that each of several processes counts for itself."""

from pathlib import Path

from gateway.config.check import examine
from gateway.config.checks.gateway import check_workers
from gateway.config.problem import spell
from tests.table import for_each

HEAD = "version: 1\n"
OWNED = "defaults: { isolation: tenant }\nagents: { one: 'http://127.0.0.1:1' }\n"
MEMORY = "gateway: { state: memory, public_url: 'http://127.0.0.1:2' }\n"
REDIS = "gateway: { state: 'redis://127.0.0.1:1/0' }\n"
STDIO = """
agents:
  one: { backend: { stdio: [cat] } }
  two: { by_tenant: { acme: { backend: { stdio: [cat] } } } }
  three: http://127.0.0.1:1
"""


def found(text: str, processes: int) -> list[str]:
    examined = examine(Path("gateway.yaml"), {}, text=HEAD + text)
    assert examined.config is not None, examined.errors
    return [spell(problem.path) for problem in check_workers(examined.config, examined.marks, processes)]


@for_each("kept", [OWNED, "push: { mode: relay }\nagents: { one: 'http://127.0.0.1:1' }\n"])
def test_state_in_memory_is_refused_for_several_workers(kept: str) -> None:
    assert found(MEMORY + kept, 2) == ["gateway.state"]


@for_each("state", ["", "gateway: { state: 'sqlite://state.db' }\n", REDIS])
def test_a_file_or_a_redis_is_for_several_and_a_file_is_what_there_is_by_default(state: str) -> None:
    assert found(state + OWNED, 2) == []


def test_agents_without_isolation_may_have_several_workers() -> None:
    assert found(MEMORY + "agents: { one: 'http://127.0.0.1:1' }\n", 2) == []
    assert found("agents: { one: 'http://127.0.0.1:1' }\n", 2) == []


def test_a_command_would_be_started_by_each() -> None:
    assert found(REDIS + STDIO, 2) == ["agents.one.backend", "agents.two.by_tenant.acme.backend"]
