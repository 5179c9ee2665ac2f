"""`a2a-gateway diff`: the differences between two configurations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.commands.output import CommandFailed
from gateway.config.diff import Change, Waiting, changes, until_restart
from gateway.config.load import Examined
from gateway.config.problem import as_text
from gateway.config.routes import reach


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences of two configurations.

    Attributes:
        reached: The agents that a tenant gains and those that it loses, by its name; `*` is each that is not named.
        waiting: Changes that take effect with the next start.
    """

    changed: tuple[Change, ...]
    reached: Mapping[str, tuple[list[str], list[str]]]
    waiting: tuple[Waiting, ...]

    def as_text(self) -> str:
        """Return the differences for people."""
        if not self.changed:
            return "Nothing differs."
        parts = [[str(change) for change in self.changed], [], [str(each) for each in self.waiting]]
        for tenant, (gained, lost) in self.reached.items():
            phrases = [f"{word} {', '.join(names)}" for word, names in (("gains", gained), ("loses", lost)) if names]
            parts[1].append(f"tenant {tenant} {' and '.join(phrases)}")
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def as_json(self) -> dict[str, Any]:
        """Return the differences for programs."""
        return {
            "ok": True,
            "changes": [change.as_json() for change in self.changed],
            "tenants": [
                {"tenant": tenant, "gains": gained, "loses": lost} for tenant, (gained, lost) in self.reached.items()
            ],
            "needs_restart": [each.as_json() for each in self.waiting],
        }


def compare(old: Examined, new: Examined) -> Differences:
    """Return the differences of two configurations.

    Raises:
        CommandFailed: one of them has errors.
    """
    if old.config is None or new.config is None:
        raise CommandFailed(as_text((*old.errors, *new.errors)))
    _, waiting = until_restart(old.config, new.config, new.marks)
    before, after = ({name: each.agents for name, each in reach(config).items()} for config in (old.config, new.config))
    reached = {}
    for tenant in sorted({*before, *after}):
        # A tenant that is not named has what `*` has.
        had, has = (agents.get(tenant, agents.get("*", frozenset())) for agents in (before, after))
        if had != has:
            reached[tenant] = sorted(has - had), sorted(had - has)
    return Differences(changes(old.config, new.config), reached, waiting)
