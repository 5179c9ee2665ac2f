"""`a2a-gateway route`: the agent that a request would reach, and why."""

from typing import Any

import msgspec

from gateway.commands.output import CommandFailed
from gateway.config.check import Examined
from gateway.config.explain import Inquiry, reply
from gateway.config.routes import table


def explain_route(examined: Examined, inquiry: Inquiry, *, everything: bool = False) -> dict[str, Any]:
    """Return the answer of the routing table of a configuration.

    Args:
        examined: A configuration without errors.
        everything: Explain every match of every agent, not only those at the endpoint.

    Raises:
        CommandFailed: There is no such caller.
    """
    assert examined.config is not None
    resolver = table(examined.config, examined.marks)
    try:
        return reply(examined.config, resolver, inquiry, everything=everything)
    except LookupError as error:
        raise CommandFailed(str(error.args[0]), code=2) from error


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for people: the agent and its backend or the reason, and each candidate."""
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
    """Return claims written as `name=value`; the value is JSON if possible, else text.

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
