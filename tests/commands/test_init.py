"""`init` writes a configuration that works, whatever the card says."""

from pathlib import Path

import msgspec
import pytest
import yaml

from gateway.commands.find_agent import FoundAgent
from gateway.commands.init import compose, first_configuration, save
from gateway.commands.output import CommandFailed
from gateway.config.load import load
from gateway.demo.fleet import serving
from tests.support.answering import Answer, answering
from tests.table import for_each

INTERFACE = {"url": "http://10.0.0.1/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def composed(name: str, url: str) -> str:
    return compose([FoundAgent({"name": name, "supportedInterfaces": [INTERFACE]}, url)])


def test_an_agent_that_answers_gets_a_configuration_without_problems() -> None:
    with serving() as url:
        text = first_configuration([f"{url}/echo"])
    loaded = load(Path("gateway.yaml"), {}, text)
    assert loaded.problems == ()
    assert loaded.config is not None
    [backend] = loaded.config.agents["echo"].backend
    assert backend.url == f"{url}/echo"


@for_each("name", ["Billing & Tax", "no", "tasks", "…", "", "\n# x: y\nagents: {}", "a" * 200, "1e3"])
def test_no_name_of_a_card_breaks_the_file(name: str) -> None:
    text = composed(name, "http://127.0.0.1:1/.well-known/agent-card.json")
    loaded = load(Path("gateway.yaml"), {}, text)
    assert loaded.problems == ()
    assert loaded.config is not None
    assert len(loaded.config.agents) == 1


@for_each(
    ("url", "entry"),
    [
        # Plain http beyond this machine is allowed in so many words.
        (
            "http://agents.internal:8000/a/.well-known/agent-card.json",
            {"backend": {"url": "http://agents.internal:8000/a", "allow_insecure": True}},
        ),
        ("http://[::1]:1/.well-known/agent-card.json", {"backend": "http://[::1]:1"}),
        ("http://localhost:1/.well-known/agent-card.json", {"backend": "http://localhost:1"}),
        (
            "https://agents.example.com/cards/a.json",
            {"backend": "https://agents.example.com", "card": "https://agents.example.com/cards/a.json"},
        ),
    ],
)
def test_the_place_of_a_card_says_where_the_agent_is(url: str, entry: dict[str, object]) -> None:
    assert yaml.safe_load(composed("A", url))["agents"]["a"] == entry


def test_an_agent_that_asks_for_a_credential_is_told_with_what_the_file_can_say() -> None:
    answers: dict[str, Answer] = {"/a/.well-known/agent-card.json": (401, b"")}
    with answering(answers) as server, pytest.raises(CommandFailed) as failed:
        first_configuration([f"{server.url}/a"])
    assert "needs a credential (401)" in failed.value.message
    assert "`upstream_auth`" in failed.value.message
    assert "--key" not in failed.value.message


def test_a_file_is_written_where_it_can_be_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    save("one", path, force=False)
    with pytest.raises(CommandFailed, match="--force"):
        save("two", path, force=False)
    assert path.read_text() == "one"
    save("two", path, force=True)
    assert path.read_text() == "two"


@pytest.mark.parametrize("force", [False, True])
def test_why_a_file_cannot_be_written_is_told(tmp_path: Path, *, force: bool) -> None:
    with pytest.raises(CommandFailed, match=r"there is no folder .*/sub"):
        save("x", tmp_path / "sub/gateway.yaml", force=force)
    with pytest.raises(CommandFailed, match="is a folder: name the file in it"):
        save("x", tmp_path, force=force)
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandFailed, match="Not a directory"):
        save("x", tmp_path / "file/gateway.yaml", force=force)


def stub(command: str, **more: object) -> dict[str, object]:
    return {"name": "Notes", "url": command, "preferredTransport": "stdio", **more}


@for_each("url", ["https://cards.example.com/notes.json", "http://127.0.0.1:1/notes.json"])
def test_a_card_that_names_a_command_gets_the_lines_that_run_it(url: str) -> None:
    command = "MODE=fast KEEP='${HOME} x' npx run \"my agent\"@0.3.0 --say 'a|b' $HOME #1 '' é"
    config = load(Path("gateway.yaml"), {}, compose([FoundAgent(stub(command), url)])).config
    assert config is not None
    [backend] = config.agents["notes"].backend
    assert backend.stdio is not None
    assert backend.stdio.command == ("npx", "run", "my agent@0.3.0", "--say", "a|b", "$HOME", "#1", "", "é")
    written = {name: value.get_secret_value() for name, value in backend.stdio.env.items()}
    assert written == {"MODE": "fast", "KEEP": "${HOME} x"}


def test_a_card_of_1_0_may_name_the_command_and_one_that_can_be_called_is_called() -> None:
    on_stdio = {"url": "notes --serve", "protocolBinding": "stdio", "protocolVersion": "1.0"}
    url = "https://cards.example.com/notes.json"
    written = yaml.safe_load(compose([FoundAgent({"name": "Notes", "supportedInterfaces": [on_stdio]}, url)]))
    assert written["agents"]["notes"] == {"backend": {"stdio": {"command": ["notes", "--serve"]}}}
    written = yaml.safe_load(
        compose([FoundAgent({"name": "Notes", "supportedInterfaces": [on_stdio, INTERFACE]}, url)])
    )
    assert written["agents"]["notes"]["card"] == url


@for_each(
    ("url", "command", "why"),
    [
        ("http://cards.internal/notes.json", "notes", "over plain http"),
        ("https://cards.example.com/notes.json", "notes 'x", "cannot be split"),
        ("https://cards.example.com/notes.json", "A=1", "names no program"),
        ("https://cards.example.com/notes.json", "notes \u202ehidden", "unprintable"),
        ("https://cards.example.com/notes.json", "A=\x1b[2J notes", "unprintable"),
    ],
)
def test_a_command_that_should_not_be_run_is_not_written(url: str, command: str, why: str) -> None:
    with pytest.raises(CommandFailed, match=why):
        compose([FoundAgent(stub(command), url)])


def test_an_agent_of_grpc_alone_is_told_how_it_is_written() -> None:
    alone = {"url": "agents.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    document = msgspec.json.encode({"name": "A", "supportedInterfaces": [alone]})
    answers: dict[str, Answer] = {"/a/.well-known/agent-card.json": (200, document)}
    with answering(answers) as server, pytest.raises(CommandFailed) as failed:
        first_configuration([f"{server.url}/a"])
    assert f"{server.url}/a/.well-known/agent-card.json: the card offers gRPC alone" in failed.value.message
    assert "`backend: grpcs://HOST:PORT`" in failed.value.message


def test_an_agent_of_0_1_gets_one_too() -> None:
    card = {"name": "A", "url": "http://127.0.0.1:1/", "authentication": {"schemes": ["Bearer"]}}
    text = compose([FoundAgent(card, "http://127.0.0.1:1/.well-known/agent.json")])
    assert "# A (JSONRPC 0.1): http://127.0.0.1:8080/a" in text
    assert "backend: http://127.0.0.1:1\n" in text
