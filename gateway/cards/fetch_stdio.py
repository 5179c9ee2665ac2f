"""The card of an agent on stdio: the process's own card, merged over that of the operator.

Addresses on it are ignored: the agent is behind its pipe, and a command on a card is never run. Only the versions
matter, from its stdio interfaces, or else those in which it answered.
"""

from dataclasses import dataclass

import msgspec

from gateway.a2a.card import CardInterface, CardInvalid, parse_card
from gateway.a2a.command import URL, behind_pipe, generations
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import Tree, TreeInvalid, parse_tree
from gateway.cards.fetch import CardAnswer
from gateway.upstream.stdio.agent import CardQuery, StdioAgent


@dataclass(slots=True)
class StdioCards:
    """Asks one agent for its card.

    Attributes:
        written: The operator's card, or None; the card of the process overrides it, field by field.
        query: The request for the card.
        start: Timeout of the process's start in seconds, in addition to that of a request.
        asked: Whether it has answered before.
    """

    agent: StdioAgent
    written: Tree | None
    query: CardQuery
    start: float = 0.0
    asked: bool = False

    @property
    def stub(self) -> Tree | None:
        """Return the card that is served until the agent returns its own."""
        return None if self.written is None else behind_pipe(self.written, self._versions(self.written, ()))

    async def ask(self, deadline: float, longest: int) -> CardAnswer:
        """Ask the agent for its card.

        Args:
            deadline: Timeout in seconds.
            longest: Bytes of the longest card.

        Raises:
            NoHealthyBackend, UpstreamTimeout, UpstreamReset, Draining: There is no answer.
            UpstreamProtocol: The answer is not a card, or too long.
        """
        answer = await self.agent.handshake(self.query, self.start + deadline, again=self.asked)
        self.asked = True
        card = answer.card
        if card is None and self.written is None:
            return CardAnswer(self._spoken(answer.versions), None)
        if card is not None and len(card) > longest:
            raise UpstreamProtocol("the agent's card is too long")
        try:
            own = {} if card is None else _read(card, longest, whole=self.written is None)
        except UpstreamProtocol:
            if card is None or self.written is None or (stated := _lenient(card)) is None:
                raise
            # The source of cards refuses it again and logs why; the written card stays, and the versions of the process
            # still count.
            return CardAnswer(self._spoken(self._versions(stated, answer.versions)), card)
        merged = {**(self.written or {}), **own}
        versions = self._versions(own, answer.versions) or generations(merged)
        return CardAnswer(self._spoken(versions), msgspec.json.encode(behind_pipe(merged, versions)))

    def turn(self) -> None:
        """Do nothing: there is one agent."""

    def _versions(self, card: Tree, answered: tuple[Version, ...]) -> tuple[Version, ...]:
        return (self.query.version,) if self.query.version is not None else generations(card) or answered

    @staticmethod
    def _spoken(versions: tuple[Version, ...]) -> tuple[CardInterface, ...]:
        return tuple(CardInterface(Dialect(Binding.JSONRPC, version), URL) for version in versions)


def _lenient(card: bytes) -> Tree | None:
    """Return a card for its versions only, also if strict readers would refuse it; None if it is no JSON object."""
    try:
        tree = msgspec.json.decode(card)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return tree if isinstance(tree, dict) else None


def _read(card: bytes, longest: int, *, whole: bool) -> Tree:
    try:
        if whole:
            # Refuses anything that is not a card. The caller reports defects of a card.
            parse_card(card, longest=longest)
        return parse_tree(card, max_bytes=longest)
    except (CardInvalid, TreeInvalid) as error:
        raise UpstreamProtocol("the agent's answer is no card", detail=str(error)) from error
