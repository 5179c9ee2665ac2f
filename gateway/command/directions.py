"""`a2a-gateway route`: where a request would go, and why, without sending it."""

from typing import Any

import msgspec

from gateway.command.answer import CommandFailed
from gateway.config.check import Examined
from gateway.config.explain import Inquiry, reply
from gateway.config.routes import table


def directions(examined: Examined, inquiry: Inquiry, *, everything: bool = False) -> dict[str, Any]:
    """The answer of the configuration's own routing table.

    Args:
        examined: A configuration without errors.
        everything: Explain every match of every agent, not only those at the endpoint.

    Raises:
        CommandFailed: there can be no such caller, for the configuration has no such API key or what is said of the
            caller does not agree.
    """
    assert examined.config is not None
    resolver = table(examined.config, examined.marks)
    try:
        return reply(examined.config, resolver, inquiry, everything=everything)
    except LookupError as error:
        raise CommandFailed(str(error.args[0]), code=2) from error


def as_text(answer: dict[str, Any]) -> str:
    """The answer for people: the agent and its backend or the reason, and what became of every candidate."""
    if answer["agent"] is not None:
        lines = [f"{answer['agent']} at {answer['backend']}", f"  by {answer['match_line']}"]
    else:
        lines = [answer["reason"] or "no agent"]
    if answer["hint"]:
        lines.append(f"  → {answer['hint']}")
    lines += [
        f"  {'taken' if each['taken'] else 'not taken'}: {each['agent']} ({each['line']}): {each['why']}"
        for each in answer["candidates"]
    ]
    return "\n".join(lines) + "\n"


def read_claims(pairs: list[str]) -> dict[str, Any]:
    """Claims written as `name=value`; the value is JSON where it can be read as such, else text.

    Raises:
        CommandFailed: a pair has no `=`.
    """
    claims: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise CommandFailed(f"a claim is written name=value, and {pair!r} is not", code=2)
        try:
            claims[name] = msgspec.json.decode(value)
        except ValueError:
            claims[name] = value
    return claims
