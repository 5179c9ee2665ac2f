"""`a2a-gateway route`: the agent that a request would reach, and why."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gateway.a2a.card import CardInvalid, parse_card
from gateway.a2a.sanitized_card import Discretion, SanitizedCard, sanitize
from gateway.catalog.directory import Directory, Listing
from gateway.catalog.ranking import Changes, FirstByte
from gateway.commands.output import CommandFailed
from gateway.config.agent import Agent
from gateway.config.check import Examined
from gateway.config.explain import Inquiry, reply
from gateway.config.routes import table
from gateway.routing.route import backend_key
from gateway.routing.table import Table

_UNREAD = "only the gateway that runs reads it: ask by `POST /-/route`"


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
        return reply(examined.config, resolver, inquiry, everything=everything, ranking=_directory(examined, resolver))
    except LookupError as error:
        raise CommandFailed(str(error.args[0]), code=2) from error


@dataclass(frozen=True, slots=True)
class _Card:
    """The card of an agent, where the configuration names a file with it."""

    sanitized: SanitizedCard | None
    stale: bool = False
    personal: bool = False
    version: int = 1
    error: str | None = None

    @property
    def settled(self) -> "_Card":
        """Itself: nothing is fetched."""
        return self

    def is_set(self) -> bool:
        """Return that the card is as it will be."""
        return True


def _directory(examined: Examined, resolver: Table) -> Directory:
    """Return the skills of cards in files; nothing is fetched, and nothing is known of health."""
    config, changes = examined.config, Changes()
    assert config is not None
    listings = []
    for name, agent in config.agents.items():
        card = _card(examined, name, agent)
        for tenant in (*((None,) if agent.backend else ()), *agent.by_tenant):
            key = backend_key(name, tenant)
            listings.append(Listing(name, key, card, FirstByte(changes), agent.trust, agent.latency))
    return Directory(resolver, listings, changes)


def _card(examined: Examined, name: str, agent: Agent) -> _Card:
    if agent.card is None or agent.card.file is None:
        return _Card(None, error=_UNREAD)
    file = Path(examined.marks.place(("agents", name, "card")).file).parent / agent.card.file
    try:
        return _Card(sanitize(parse_card(file.read_bytes()), Discretion(overrides=agent.card.set, name=name)))
    except (OSError, CardInvalid) as error:
        return _Card(None, error=str(error))


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
