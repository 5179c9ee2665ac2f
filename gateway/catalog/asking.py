"""Cards that agents give when asked, where there is no well-known path: over gRPC, and on stdio."""

from dataclasses import dataclass
from typing import Protocol

from gateway.a2a.card import CardInterface


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent tells of itself.

    Attributes:
        spoken: The generations that it answered to.
        card: The bytes of its card as JSON, or None where it gives none.
        personal: Whether it is meant for who may call the agent: the extended one, or one for a credential.
    """

    spoken: tuple[CardInterface, ...]
    card: bytes | None
    personal: bool = False


class CardAsker(Protocol):
    """Asks one agent for its card."""

    async def ask(self, deadline: float, longest: int) -> Told:
        """Ask for it.

        Args:
            deadline: Seconds for each question.
            longest: Bytes of the longest card.

        Raises:
            Fault: it does not answer; UpstreamProtocol where what came is no card, or too long.
        """

    def turn(self) -> None:
        """Ask the next replica from now on, if there is one."""
