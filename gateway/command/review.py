"""`a2a-gateway check`: all that was found out about a configuration, in the words of whoever reads it."""

from dataclasses import dataclass
from typing import Any

from gateway.command.online import Visit, Visited
from gateway.config.check import Examined
from gateway.config.problem import Problem, as_github, as_json, as_text
from gateway.config.routes import divided


@dataclass(frozen=True, slots=True)
class Review:
    """What `check` tells.

    Attributes:
        visits: What was found at agents, issuers, the store and webhooks, or None where nobody went there.
        strict: Whether warnings count as errors.
        workers: How many processes are to serve it.
    """

    examined: Examined
    visits: tuple[Visit, ...] | None = None
    strict: bool = False
    workers: int = 1

    @property
    def code(self) -> int:
        """The exit code: 0 good, 1 problems found, 3 a routing test failed."""
        examined = self.examined
        down = not all(visit.good for visit in self.visits or ())
        if examined.config is None or self._divided or (self.strict and examined.problems) or down:
            return 1
        return 3 if examined.failed else 0

    @property
    def told(self) -> tuple[Problem, ...]:
        """The problems of the file, its failed tests among them."""
        return (*self.examined.problems, *self._divided, *self.examined.failed)

    @property
    def _divided(self) -> tuple[Problem, ...]:
        """What keeps it from being served by so many."""
        examined = self.examined
        return () if examined.config is None else divided(examined.config, examined.marks, self.workers)

    def as_text(self) -> str:
        """The review for people."""
        good = "" if self.told else f"{self.examined.files[0]}: no problems"
        return "\n".join([as_text(self.told) or good, *(visit.as_text() for visit in self.visits or ())])

    def as_json(self) -> dict[str, Any]:
        """The review for programs."""
        report: dict[str, Any] = {"ok": self.code == 0, "problems": as_json(self.told)}
        if self.visits is not None:
            report["agents"] = self._visits(Visited.AGENT)
            others = {"issuers": Visited.ISSUER, "state": Visited.STATE, "webhooks": Visited.WEBHOOK}
            report |= {name: found for name, to in others.items() if (found := self._visits(to))}
        return report

    def _visits(self, to: Visited) -> list[dict[str, object]]:
        return [visit.as_json() for visit in self.visits or () if visit.to is to]

    def as_github(self) -> str:
        """The review as workflow commands, which GitHub shows beside the lines; empty where all is well."""
        bad = [visit.problem(self.examined.marks) for visit in self.visits or () if not visit.good]
        return as_github((*self.told, *bad))
