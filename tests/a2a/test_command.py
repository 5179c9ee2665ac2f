"""Agents that are commands: a command line is split and nothing more, and a card behind a pipe shows that alone."""

from typing import Any

import pytest

from gateway.a2a.card import spoken
from gateway.a2a.command import CommandLine, NoCommand, behind_pipe, command_of, generations, split_command
from gateway.a2a.dialect import Binding, Dialect, Version
from tests.table import for_each

OLD: dict[str, Any] = {"name": "a", "url": "npx run my-agent@0.3.0", "preferredTransport": "stdio"}
NEW: dict[str, Any] = {
    "name": "a",
    "supportedInterfaces": [
        {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "agent --one", "protocolBinding": "https://a2a-protocol.org/bindings/stdio", "protocolVersion": "1.0"},
    ],
}


@for_each(
    ("text", "line"),
    [
        ("npx run my-agent@0.3.0", CommandLine(("npx", "run", "my-agent@0.3.0"))),
        ("'/opt/my agent' --name=\"a b\" c\\ d", CommandLine(("/opt/my agent", "--name=a b", "c d"))),
        ("A=1 B='x y' agent C=3", CommandLine(("agent", "C=3"), (("A", "1"), ("B", "x y")))),
        ("A= agent", CommandLine(("agent",), (("A", ""),))),
        (
            "agent ; rm -rf / | $(x) ${HOME}",
            CommandLine(("agent", ";", "rm", "-rf", "/", "|", "$(x)", "${HOME}"), (), True),
        ),
        ("agent `id` && b > c", CommandLine(("agent", "`id`", "&&", "b", ">", "c"), (), True)),
    ],
)
def test_a_command_line_is_split_and_nothing_more(text: str, line: CommandLine) -> None:
    assert split_command(text) == line


@for_each("text", ["", "  ", "A=1", "'open", "a\0b", "''", "x" * 9000])
def test_a_malformed_command_line_is_refused(text: str) -> None:
    with pytest.raises(NoCommand):
        split_command(text)


def test_a_card_of_either_generation_names_its_command_by_the_interface_called_stdio() -> None:
    assert command_of(OLD).words == ("npx", "run", "my-agent@0.3.0")
    assert command_of(NEW).words == ("agent", "--one")
    other = {"name": "a", "url": "https://a.example/", "additionalInterfaces": [{"transport": "STDIO", "url": "b c"}]}
    assert command_of(other).words == ("b", "c")


@for_each(
    "card",
    [
        {"name": "a"},
        {"name": "a", "url": "https://a.example/", "preferredTransport": "JSONRPC"},
        {"name": "a", "url": None, "preferredTransport": "stdio"},
        {"name": "a", "supportedInterfaces": [{"url": "x", "protocolBinding": "mystdio"}, 3]},
        {"name": "a", "supportedInterfaces": "stdio"},
    ],
)
def test_a_card_without_such_an_interface_names_none(card: dict[str, Any]) -> None:
    with pytest.raises(NoCommand, match="no interface called `stdio`"):
        command_of(card)


def test_the_generations_are_those_of_the_pipe_else_those_of_json_rpc() -> None:
    assert generations(OLD) == (Version.V0_3,)
    assert generations(NEW) == (Version.V1_0,)
    assert generations({**OLD, "protocolVersion": "0.2.5"}) == (Version.V0_3,)
    assert generations({"name": "a", "url": "http://x/", "protocolVersion": "0.3.0"}) == (Version.V0_3,)
    assert generations({"name": "a"}) == ()
    assert generations({**OLD, "protocolVersion": "9"}) == ()


def test_a_card_behind_a_pipe_tells_of_no_other_way_and_of_no_command() -> None:
    card = behind_pipe({**OLD, **NEW, "description": "d", "signatures": [{}]}, (Version.V1_0, Version.V0_3))
    assert "npx" not in str(card)
    assert "agent --one" not in str(card)
    assert (card["name"], card["description"], "signatures" in card) == ("a", "d", False)
    assert [each.dialect for each in spoken(card)] == [
        Dialect(Binding.JSONRPC, Version.V1_0),
        Dialect(Binding.JSONRPC, Version.V0_3),
    ]
