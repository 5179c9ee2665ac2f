"""One agent is served without a file, and its place does not depend on whether it is up."""

from pathlib import Path

import pytest

from gateway.commands.find_agent import check_url
from gateway.commands.output import CommandFailed
from gateway.commands.serve import SingleAgent
from gateway.config.agent import Agent
from gateway.config.check import examine
from tests.table import for_each


def served(url: str) -> tuple[str, Agent]:
    examined = examine(Path("gateway.yaml"), {}, text=SingleAgent(url, public=1, admin=2).configuration())
    assert examined.config is not None
    assert examined.problems == ()
    [(name, agent)] = examined.config.agents.items()
    assert (examined.config.gateway.listen, examined.config.gateway.admin.listen) == (("127.0.0.1:1",), "127.0.0.1:2")
    return name, agent


@for_each(
    ("url", "name", "backend", "card"),
    [
        ("http://127.0.0.1:9001", "agent", "http://127.0.0.1:9001", None),
        ("http://127.0.0.1:9001/", "agent", "http://127.0.0.1:9001", None),
        ("http://127.0.0.1:9001/help/Desk/", "desk", "http://127.0.0.1:9001/help/Desk", None),
        ("https://h/a/.well-known/agent-card.json", "a", "https://h/a", None),
        ("https://h/cards/desk.json", "desk", "https://h", "https://h/cards/desk.json"),
        ("http://agents.internal/tasks", "agent", "http://agents.internal/tasks", None),
    ],
)
def test_the_url_alone_says_where_the_agent_is_and_is_found(
    url: str, name: str, backend: str, card: str | None
) -> None:
    found, agent = served(url)
    assert found == name
    assert [one.url for one in agent.backend] == [backend]
    assert (None if agent.card is None else agent.card.url) == card


def test_an_agent_s_url_is_no_place_for_references() -> None:
    examined = examine(
        Path("(serve --agent)"),
        {"HOME": "x"},
        text=SingleAgent("https://h/${HOME}", public=1, admin=2).configuration(),
    )
    assert examined.config is None
    assert [str(problem.place) for problem in examined.problems] == ["(serve --agent)"]
    assert examined.problems[0].as_text().startswith("(serve --agent)  agents.home.backend: the URL has a character")


def test_how_to_call_it_is_told_as_a_command() -> None:
    said = SingleAgent("http://127.0.0.1:9001/echo", public=8080, admin=9090).welcome("a2a-gateway")
    assert said.startswith("http://127.0.0.1:9001/echo is served at http://127.0.0.1:8080/echo ")
    assert "  a2a-gateway send http://127.0.0.1:8080/echo Hello\n" in said


def test_a_malformed_url_is_refused() -> None:
    with pytest.raises(CommandFailed) as failed:
        check_url("127.0.0.1:9001")
    assert failed.value.code == 2
    assert "did you mean http://127.0.0.1:9001 ?" in failed.value.message
