from gateway.config.agent import Card, is_stdio
from tests.config.reading import examined, good
from tests.table import for_each


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
