"""Backends that are commands: what is wrong with them, and what is run."""

import json
import os
from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.config.effective import program
from gateway.config.load import Examined


def looked_at(folder: Path, backend: str, more: str = "") -> Examined:
    file = folder / "gateway.yaml"
    file.write_text(f"version: 1\nagents: {{ notes: {{ backend: {backend}{more} }} }}\n")
    return examine(file, {})


def facts(found: Examined) -> list[tuple[str, str]]:
    return [(".".join(map(str, each.path)), each.fact) for each in found.problems]


def card(folder: Path, url: str, name: str = "card.json") -> None:
    (folder / name).write_text(json.dumps({"name": "Notes", "url": url, "preferredTransport": "stdio"}))


@pytest.mark.parametrize(
    ("backend", "path", "fact"),
    [
        ("{ stdio: { cwd: . } }", "stdio", "there is no command"),
        ("{ stdio: { command: ['', a] } }", "stdio.command", "there is no command"),
        ('{ stdio: { command: ["a\\0b"] } }', "stdio.command", "a word has a character that no command has"),
        ("{ url: 'http://127.0.0.1:1', stdio: sh }", "stdio", "the backend has a `url` too"),
        ("{ url: 'http://127.0.0.1:1', card: c.json }", "card", "the backend has a `url` too"),
        ("{ stdio: sh, protocol: rest }", "protocol", "an agent on stdio cannot speak rest"),
        ("{ card: card.json, stdio: [sh] }", "stdio", "the card names the command too"),
        ("{ card: /dev/null }", "card", "the card '/dev/null' cannot be read: it is no ordinary file"),
        ("{ card: none.json }", "card", "the card 'none.json' cannot be read: No such file or directory"),
        ("{ card: http.json }", "card", "the card has no interface called `stdio`"),
        ("{ card: text.json }", "card", "it is no card: "),
        ("{ stdio: { command: sh, cwd: nowhere } }", "stdio.cwd", "'nowhere' is no folder"),
        ("{ stdio: { command: sh, env: { A-B: x } } }", "stdio.env.A-B", "'A-B' is no name of a variable"),
        ("{ stdio: { command: sh, env_from: [PATH, 'B C'] } }", "stdio.env_from.1", "'B C' is no name of a variable"),
        ("{ stdio: { command: sh, env: { A: x }, env_from: A } }", "stdio.env_from", "A is in `env` too"),
        ("{ stdio: { command: sh, card: 'a b' } }", "stdio.card", "'a b' is no method"),
    ],
)
def test_errors_of_a_command_have_their_place(backend: str, path: str, fact: str, tmp_path: Path) -> None:
    card(tmp_path, "sh")
    (tmp_path / "http.json").write_text('{"name": "Notes", "url": "http://127.0.0.1/"}')
    (tmp_path / "text.json").write_text("text")
    [(where, told), *_] = facts(looked_at(tmp_path, backend))
    assert where.startswith(f"agents.notes.backend.{path}")
    assert told.startswith(fact)


@pytest.mark.parametrize(
    ("backend", "fact"),
    [
        ("{ stdio: no-such-program }", "there is no program 'no-such-program' here"),
        ("{ stdio: ./no/such }", "there is no program './no/such' here"),
        ("{ stdio: { command: sh, env: { PATH: /nowhere } } }", "there is no program 'sh' here"),
        ("{ stdio: ../ }", "there is no program '../' here"),
        (
            "{ stdio: { command: sh, env_from: [PATH, NOBODY_SETS_THIS] } }",
            "there is no variable NOBODY_SETS_THIS here",
        ),
        ("{ stdio: 'sh -c x' }", "'sh -c x' is one word: the name of the program"),
        ("{ card: shell.json }", "its command has something in it that only a shell would understand"),
        ("{ stdio: { command: sh, framing: ndjson } }, upstream_auth: { bearer: abc }", "are lines have no header"),
    ],
)
def test_likely_mistakes_of_a_command_are_warnings(backend: str, fact: str, tmp_path: Path) -> None:
    card(tmp_path, "sh -c $(date)", "shell.json")
    found = looked_at(tmp_path, backend)
    assert found.errors == ()
    assert any(fact in each.fact for each in found.warnings)


def test_another_user_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    [(_, told)] = facts(looked_at(tmp_path, "{ stdio: { command: sh, uid: 65534 } }"))
    assert told == "only root can run a command as another user"


def test_a_command_gets_its_own_environment_and_little_of_the_gateways(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    written = "{ stdio: { command: [sh, x], cwd: work, env: { A: '1' }, env_from: [B, MISSING] } }"
    found = looked_at(tmp_path, written)
    assert found.config is not None
    [backend] = found.config.agents["notes"].backend
    own = {"PATH": "/bin", "HOME": "/root", "B": "2", "SECRET": "3"}
    run = program(backend, tmp_path, own)
    assert run.words == ("sh", "x")
    assert run.folder == tmp_path / "work"
    assert dict(run.environment) == {"PATH": "/bin", "HOME": "/root", "B": "2", "A": "1"}


def test_a_card_of_the_operators_names_the_command_and_its_environment(tmp_path: Path) -> None:
    card(tmp_path, "TOKEN=abc sh -c 'echo $TOKEN'")
    found = looked_at(tmp_path, "{ card: card.json, stdio: { uid: 0, env: { B: '2' } } }")
    assert found.errors == ()
    assert found.config is not None
    [backend] = found.config.agents["notes"].backend
    assert backend.url == "stdio:card.json"
    run = program(backend, tmp_path, {"HOME": "/root"})
    assert run.words == ("sh", "-c", "echo $TOKEN")
    assert dict(run.environment) == {"TOKEN": "abc", "B": "2"}
    assert run.card is not None
