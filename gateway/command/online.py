"""`a2a-gateway check --online`: goes to every agent of a configuration and reads its card, as the gateway would."""

import asyncio
from dataclasses import dataclass

from gateway.config.check import Examined
from gateway.config.problem import KeyPath, Problem
from gateway.config.source import Marks
from gateway.snapshot import Backing, Snapshot
from gateway.telemetry.metrics import Metrics

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Visit:
    """What was found at one backend.

    Attributes:
        backend: The agent's name, or `<agent>/<tenant>` for a `by_tenant` backend.
        good: Whether its card could be read.
        fact: The dialects that it is asked in, by its card and the file, or why there is no card.
    """

    backend: str
    good: bool
    fact: str

    def as_text(self) -> str:
        """One line for people."""
        return f"{self.backend}: {'' if self.good else 'no card: '}{self.fact}"

    def as_json(self) -> dict[str, object]:
        """The visit for programs."""
        return {"backend": self.backend, "ok": self.good, "message": self.fact}

    def problem(self, marks: Marks) -> Problem:
        """A visit that is not good, at the place of the agent in the file."""
        agent, _, tenant = self.backend.partition("/")
        path: KeyPath = ("agents", agent, "by_tenant", tenant) if tenant else ("agents", agent)
        remedy = "start the agent, or correct its `backend` or `card`"
        return Problem(marks.key(path), path, f"no card: {self.fact}", remedy)


async def visit(examined: Examined) -> tuple[Visit, ...]:
    """Read the card of every backend, several at once; an agent that cannot be reached is a visit that is not good.

    Args:
        examined: A configuration without errors.
    """
    assert examined.config is not None
    snapshot = Snapshot.build(examined, Metrics("check"), examined.config.gateway.public_url or "http://127.0.0.1")
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(key: str, backing: Backing) -> Visit:
        source = backing.source
        # A card of the file is there already; nobody is asked for it.
        if not source.settled.is_set():
            async with at_once:
                await source.refresh()
        if source.card is None:
            return Visit(key, good=False, fact=source.error or "it cannot be read")
        dialects = ", ".join(map(str, backing.upstream.interfaces()))
        return Visit(key, good=bool(dialects), fact=dialects or "its card offers no interface that the gateway speaks")

    try:
        return tuple(await asyncio.gather(*(one(key, backing) for key, backing in snapshot.backings.items())))
    finally:
        await snapshot.aclose()
