from pydantic import SecretStr

from gateway.config.agent import DEFAULT_TIMEOUTS, Backend, ByTenant, Card, UpstreamAuth, is_stdio
from tests.config.reading import examined, good
from tests.table import for_each


def test_two_lines_are_a_complete_agent() -> None:
    agent = good("version: 1\nagents:\n  a:\n    backend: http://127.0.0.1:1\n").agents["a"]
    assert agent == good("version: 1\nagents: { a: http://127.0.0.1:1 }\n").agents["a"]
    assert agent == good("version: 1\nagents: { a: { backend: { url: http://127.0.0.1:1 } } }\n").agents["a"]
    assert (agent.match, agent.allow, agent.methods, agent.isolation) == ((), None, None, None)
    assert agent.expose == ("jsonrpc", "rest")


def test_a_card_comes_from_a_url_or_a_file() -> None:
    agents = good(
        """
        version: 1
        agents:
          a: { backend: http://127.0.0.1:1, card: http://127.0.0.1:1/card }
          b: { backend: http://127.0.0.1:1, card: { url: http://127.0.0.1:1/card, set: { name: B } } }
        """
    ).agents
    assert [agents[name].card for name in ("a", "b")] == [
        Card(url="http://127.0.0.1:1/card"),
        Card(url="http://127.0.0.1:1/card", set={"name": "B"}),
    ]
    assert Card.model_validate("cards/a.json") == Card(file="cards/a.json")


def test_a_tenant_has_a_backend_of_its_own_by_its_url_alone() -> None:
    agent = good("version: 1\nagents: { a: { by_tenant: { u: http://127.0.0.1:2 } } }\n").agents["a"]
    assert agent.by_tenant == {"u": ByTenant(backend=(Backend(url="http://127.0.0.1:2"),))}
    assert agent.backend == ()


def test_a_header_is_written_by_its_name_or_as_name_and_value() -> None:
    for header in ({"X-Api-Key": "hunter2"}, {"name": "X-Api-Key", "value": "hunter2"}):
        assert UpstreamAuth.model_validate({"header": header}).header == {"X-Api-Key": SecretStr("hunter2")}


def test_every_timeout_has_a_default() -> None:
    assert all(getattr(DEFAULT_TIMEOUTS, name) > 0 for name in type(DEFAULT_TIMEOUTS).model_fields)


def backend(written: str) -> str:
    return f"version: 1\nagents: {{ notes: {{ backend: {written} }} }}\n"


@for_each(
    ("written", "command"),
    [
        ("{ stdio: sh }", ("sh",)),
        ("{ stdio: [sh, -c, 'exit 1'] }", ("sh", "-c", "exit 1")),
        ("{ stdio: { command: sh } }", ("sh",)),
        ("{ stdio: { command: [sh, x] } }", ("sh", "x")),
    ],
)
def test_a_command_may_be_written_short(written: str, command: tuple[str, ...]) -> None:
    config = examined(backend(written)).config
    assert config is not None
    [found] = config.agents["notes"].backend
    assert found.stdio is not None
    assert found.stdio.command == command
    assert found.url == "stdio:sh"
    assert is_stdio(found.url)


def test_the_values_of_its_environment_are_secrets() -> None:
    config = examined(backend("{ stdio: { command: sh, env: { TOKEN: abc } } }")).config
    assert config is not None
    assert "abc" not in repr(config)
