"""The choice of the best agent for a skill, among those that the caller may reach and that are up.

The ranking is an argument (`Ranking`), because it depends on cards and health, which routing does not see.
"""

from collections.abc import Collection, Iterator
from typing import Protocol

from msgspec.structs import replace

from gateway.principal import Principal
from gateway.routing.endpoint import Endpoint
from gateway.routing.route import Route, RoutingInput
from gateway.routing.table import Table


class Ranked(Protocol):
    """One backend of an agent that has a skill."""

    @property
    def agent(self) -> str:
        """Return its agent."""

    @property
    def backend(self) -> str:
        """Return its key; see `backend_key`."""

    @property
    def trouble(self) -> str:
        """Return why it cannot take calls now; empty if it can."""

    @property
    def is_open(self) -> bool:
        """Return whether an anonymous caller may read its card."""

    def parts(self) -> dict[str, object]:
        """Return the parts of its score."""


class Ranking(Protocol):
    """The agents that have a skill, by the cards that were read."""

    def ranked(self, skill: str, agents: Collection[str]) -> Iterator[Ranked]:
        """Yield the backends of some agents that have a skill, the best one first."""

    def unread(self, agents: Collection[str]) -> Iterator[str]:
        """Yield those of some agents whose card was not read yet."""

    def absence(self, agent: str, skill: str) -> str:
        """Return why an agent is not ranked for a skill, for operators."""


class _NoRanking:
    """A ranking without cards."""

    def ranked(self, skill: str, agents: Collection[str]) -> Iterator[Ranked]:  # noqa: ARG002 - as `Ranking`
        """Yield none."""
        return iter(())

    def unread(self, agents: Collection[str]) -> Iterator[str]:  # noqa: ARG002 - as `Ranking`
        """Yield none."""
        return iter(())

    def absence(self, agent: str, skill: str) -> str:  # noqa: ARG002 - as `Ranking`
        """Return that cards are not read."""
        return "which agents have a skill is known to the gateway that runs: ask it by `POST /-/route`"


NO_RANKING: Ranking = _NoRanking()
"""The ranking of a configuration that does not run."""


def choose(
    table: Table,
    ranking: Ranking,
    endpoint: Endpoint,
    request: RoutingInput,
    *,
    card: bool = False,
    maker: str = "",
    partner: str = "",
) -> RoutingInput:
    """Return the request with the best agent for each skill that the endpoint asks for.

    An unknown skill gets the same result as a skill of agents that the caller may not reach: there is no
    best agent. If agents that the
    caller may reach have it and none is up, or their cards are still being read, the request says so (`unavailable`).

    Args:
        card: The request reads a card, which needs no agent that is up.
        maker: The agent that made the task that the request is about: it answers, also if others rank higher or it is
            down.
        partner: The agent of the context that the request goes on in: it answers while it is up.
    """
    principal, agents = request.principal, _within_reach(table, endpoint, request.principal)

    def route_of(agent: str, skill: str) -> Route | None:
        return table.skill_route(endpoint, request, agent, skill, card=card)

    def answers(ranked: Ranked, skill: str) -> bool:
        route = route_of(ranked.agent, skill)
        if route is None or route.backend != ranked.backend:
            return False
        return ranked.is_open or (principal is not None and table.may_call(principal, ranked.agent))

    best: dict[str, str] = {}
    unavailable = False
    for named in endpoint.skills:
        skill = request.skill if named is None else named
        if skill is None:
            continue
        if maker and route_of(maker, skill) is not None:
            best[skill] = maker
            continue
        up, down = _best((each for each in ranking.ranked(skill, agents) if answers(each, skill)), partner)
        if up or (card and down):
            best[skill] = up or down
        elif down or any(route_of(agent, skill) is not None for agent in ranking.unread(agents)):
            unavailable = True
    return replace(request, best=best, unavailable=unavailable and not best)


def _best(ranking: Iterator[Ranked], partner: str) -> tuple[str, str]:
    """Return the best agent that is up, and the best one that is not; each may be empty.

    Args:
        partner: It comes before all others while it is up; or empty.
    """
    up = down = ""
    for ranked in ranking:
        if ranked.trouble:
            down = down or ranked.agent
        elif not partner or ranked.agent == partner:
            return ranked.agent, down
        else:
            up = up or ranked.agent
    return up, down


def _within_reach(table: Table, endpoint: Endpoint, principal: Principal | None) -> Collection[str]:
    """Return the agents to rank. Others are left out, so that timing does not reveal whether they exist."""
    reach = None if principal is None else table.admitted(principal)
    if reach is None or principal is None or principal.method == "anonymous":
        return endpoint.agents
    return reach.agents if principal.narrowed is None else reach.agents & principal.narrowed
