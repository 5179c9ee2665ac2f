from gateway.config.agent import is_stdio
from tests.config.reading import examined
from tests.table import for_each


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
