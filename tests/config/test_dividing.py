"""What several processes would each have for themselves."""

from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.config.dividing import divided
from gateway.config.problem import spell

HEAD = "version: 1\n"
OWNED = "defaults: { isolation: tenant }\nagents: { one: 'http://127.0.0.1:1' }\n"
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
    return [spell(problem.path) for problem in divided(examined.config, examined.marks, processes)]


@pytest.mark.parametrize("state", ["", "gateway: { state: memory }\n", "gateway: { state: 'sqlite://state.db' }\n"])
def test_tasks_with_owners_need_a_state_that_is_shared(state: str) -> None:
    assert found(state + OWNED, 2) == ["gateway.state"]


def test_what_is_shared_or_has_no_owner_is_for_several() -> None:
    assert found(REDIS + OWNED, 2) == []
    assert found("agents: { one: 'http://127.0.0.1:1' }\n", 2) == []


def test_a_command_would_be_started_by_each() -> None:
    assert found(REDIS + STDIO, 2) == ["agents.one.backend", "agents.two.by_tenant.acme.backend"]


def test_one_process_serves_whatever_is_written() -> None:
    assert found(OWNED, 1) == []
    assert found(STDIO, 1) == []
