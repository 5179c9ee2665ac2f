"""`a2a-gateway diff`: the differences between two configurations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.commands.output import CommandFailed
from gateway.config.check import Examined
from gateway.config.diff import Change, Waiting, changes, until_restart
from gateway.config.problem import as_text
from gateway.config.routes import reach


@dataclass(frozen=True, slots=True)
class ReachChange:
    """The agents that a tenant gains or loses.

    Attributes:
        tenant: `*` stands for each that is not named.
        gained, lost: Agents, in the order of the alphabet.
    """

    tenant: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def __str__(self) -> str:
        told = [f"{word} {', '.join(names)}" for word, names in (("gains", self.gained), ("loses", self.lost)) if names]
        return f"tenant {self.tenant} {' and '.join(told)}"


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences of two configurations.

    Attributes:
        waiting: Changes that take effect with the next start.
    """

    changed: tuple[Change, ...]
    reached: tuple[ReachChange, ...]
    waiting: tuple[Waiting, ...]

    def as_text(self) -> str:
        """For people."""
        if not self.changed:
            return "Nothing differs."
        lines = [str(change) for change in self.changed]
        if self.reached:
            lines += ["", *(str(each) for each in self.reached)]
        if self.waiting:
            lines += ["", *(str(each) for each in self.waiting)]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": True,
            "changes": [change.as_json() for change in self.changed],
            "tenants": [
                {"tenant": each.tenant, "gains": list(each.gained), "loses": list(each.lost)} for each in self.reached
            ],
            "needs_restart": [each.as_json() for each in self.waiting],
        }


def compare(old: Examined, new: Examined) -> Differences:
    """Return the differences of two configurations.

    Raises:
        CommandFailed: one of them has errors.
    """
    broken = (*old.errors, *new.errors)
    if old.config is None or new.config is None:
        raise CommandFailed(as_text(broken))
    _, waiting = until_restart(old.config, new.config, new.marks)
    before, after = ({name: each.agents for name, each in reach(config).items()} for config in (old.config, new.config))
    return Differences(changes(old.config, new.config), tuple(_reached(before, after)), waiting)


def _reached(before: Mapping[str, frozenset[str]], after: Mapping[str, frozenset[str]]) -> list[ReachChange]:
    found = []
    # A tenant that is not named has what `*` has.
    rest = before.get("*", frozenset()), after.get("*", frozenset())
    for tenant in sorted({*before, *after}):
        had, has = before.get(tenant, rest[0]), after.get(tenant, rest[1])
        if had != has:
            found.append(ReachChange(tenant, tuple(sorted(has - had)), tuple(sorted(had - has))))
    return found
