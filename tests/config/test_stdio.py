"""What the file may say of a command."""

import pytest

from gateway.config.agent import Stdio, is_stdio
from tests.config.reading import errors, examined


def backend(written: str) -> str:
    return f"version: 1\nagents: {{ notes: {{ backend: {written} }} }}\n"


@pytest.mark.parametrize(
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


def test_left_out_means_one_process_that_is_always_started_again() -> None:
    stdio = Stdio(command=("sh",))
    assert (stdio.processes, stdio.restart, stdio.framing, stdio.card) == (1, "always", "lsp", "extended")
    assert (stdio.frame, stdio.ping, stdio.uid, stdio.per_tenant) == (32 * 1024 * 1024, None, None, False)


@pytest.mark.parametrize(
    ("written", "path", "fact"),
    [
        ("{ stdio: { command: sh, processes: 65 } }", "processes", "65 is too many"),
        ("{ stdio: { command: sh, processes: 0 } }", "processes", "0 is not enough"),
        ("{ stdio: { command: sh, framing: xml } }", "framing", "'xml' is none of: lsp, ndjson"),
        ("{ stdio: { command: sh, restart: maybe } }", "restart", "'maybe' is none of: always, on-failure, never"),
        ("{ stdio: { command: sh, ping: 0s } }", "ping", "'0s' is no time to wait"),
        ("{ stdio: { command: sh, shell: true } }", "shell", "unknown key 'shell'"),
    ],
)
def test_what_makes_no_sense_is_refused(written: str, path: str, fact: str) -> None:
    assert errors(backend(written)) == [(f"agents.notes.backend.stdio.{path}", fact)]


def test_the_values_of_its_environment_are_secrets() -> None:
    config = examined(backend("{ stdio: { command: sh, env: { TOKEN: abc } } }")).config
    assert config is not None
    assert "abc" not in repr(config)


def test_what_is_wrong_in_its_environment_is_told_without_its_values() -> None:
    found = examined(backend("{ stdio: { command: sh, env: { MODEL: [swordfish] } } }"))
    [problem] = found.errors
    assert problem.path == ("agents", "notes", "backend", "stdio", "env", "MODEL")
    assert "swordfish" not in str(problem)
