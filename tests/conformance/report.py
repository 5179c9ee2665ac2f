"""`docs/compatibility.md`: what the matrix came to, in tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tests.conformance.comparing import Outcome, Verdict
from tests.conformance.normal import Tree
from tests.conformance.software import AGENTS, CLIENTS, TITLES, Software, speak_alike

Verdicts = Mapping[tuple[str, str], list[Verdict]]

HEAD = """\
# Compatibility

Agents and clients of every generation, the real software of each, through one gateway. This page is written by
`tests/conformance/run`, which starts all of it; nothing here is by hand.

Each client does the same {count} operations with each agent: cards, sends, streams, turns, tasks, cancellation,
subscription, push configurations, and the errors of those. The agents do the same with the same words. First every
pair that speaks one dialect is run without a gateway (`tests/conformance/direct.json`), then all pairs are run
through it. What a client is told (states, texts, files, data, events and their order, whether ids stay the same,
errors) must be what this agent directly tells clients of its own generation, or what this client is directly told by
agents of its own; a pair of one dialect must get what it gets without the gateway.
"""

MATRIX = """
## Who reaches whom

`=` the pair speaks one dialect, its bytes are passed on · `ok` translated · a number: so many operations differ, see
below. Both mean that every operation comes to what it comes to directly.
"""


def report(verdicts: Verdicts) -> str:
    """The page."""
    count = max(len(each) for each in verdicts.values())
    sections = [
        HEAD.format(count=count),
        _software(),
        MATRIX,
        _matrix(verdicts),
        _section(
            "What differs",
            verdicts,
            Outcome.DIFFERS,
            ("Operation", "Through the gateway", "Directly"),
            lambda verdict: (verdict.operation, *(_cell(each) for each in difference(verdict.got, verdict.wanted))),
        ),
        _section(
            "What is not possible",
            verdicts,
            Outcome.IMPOSSIBLE,
            ("Operation", "Why", "The client is told"),
            lambda verdict: (verdict.operation, verdict.why, _cell(verdict.got["error"])),
        ),
        _section(
            "What comes to nothing directly either",
            verdicts,
            Outcome.FAILS_DIRECTLY,
            ("Operation", "Through the gateway"),
            lambda verdict: (verdict.operation, _cell(verdict.got.get("error", "an answer"))),
        ),
        _section(
            "What a client cannot ask for",
            verdicts,
            Outcome.ABSENT,
            ("Operation", "Why"),
            lambda verdict: (verdict.operation, verdict.why),
        ),
    ]
    return "\n".join(section.strip("\n") + "\n" for section in sections if section)


def difference(got: Any, wanted: Any, path: str = "") -> tuple[str, str]:
    """The first place where two results are not the same: what is there, and what should be."""
    if isinstance(got, dict) and "error" in got:
        return got["error"], _short(wanted and (wanted.get("error") or "an answer"))
    if isinstance(got, dict) and isinstance(wanted, dict):
        for name in dict.fromkeys((*wanted, *got)):
            if got.get(name) != wanted.get(name):
                return difference(got.get(name), wanted.get(name), f"{path}.{name}" if path else name)
    if isinstance(got, list) and isinstance(wanted, list):
        for number in range(max(len(got), len(wanted))):
            ours, theirs = got[number : number + 1], wanted[number : number + 1]
            if ours != theirs:
                return difference(next(iter(ours), None), next(iter(theirs), None), f"{path}[{number}]")
    named = f"{path}: " if path else ""
    return f"{named}{_short(got)}", _short(wanted)


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = str(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _software() -> str:
    lines = ["## The software", "", "| | Agent, client | Version | Speaks |", "|---|---|---|---|"]
    for environment, title in TITLES.items():
        names = [each.key for each in (*AGENTS, *CLIENTS) if each.environment == environment]
        spoken = {
            f"{each.version} {each.binding}": None for each in (*AGENTS, *CLIENTS) if each.environment == environment
        }
        version = "missing" if environment.missing else environment.version
        lines.append(f"| {title} | {', '.join(dict.fromkeys(names))} | {version} | {', '.join(spoken)} |")
    return "\n".join(lines)


def _matrix(verdicts: Verdicts) -> str:
    lines = [
        f"| agent ↓ client → | {' | '.join(client.key for client in CLIENTS)} |",
        "|---" * (len(CLIENTS) + 1) + "|",
    ]
    for agent in AGENTS:
        cells = [_of_pair(agent, client, verdicts.get((agent.key, client.key))) for client in CLIENTS]
        lines.append(f"| **{agent.key}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_pair(agent: Software, client: Software, verdicts: list[Verdict] | None) -> str:
    if verdicts is None:
        return "not run"
    differ = sum(verdict.outcome is Outcome.DIFFERS for verdict in verdicts)
    if differ:
        return str(differ)
    return "=" if speak_alike(agent, client) else "ok"


def _section(
    title: str,
    verdicts: Verdicts,
    outcome: Outcome,
    head: tuple[str, ...],
    row: Callable[[Verdict], tuple[str, ...]],
) -> str:
    rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (agent, client), each in verdicts.items():
        for verdict in each:
            if verdict.outcome is outcome:
                rows.setdefault(row(verdict), {}).setdefault(agent, []).append(client)
    if not rows:
        return f"\n## {title}\n\nNothing.\n"
    lines = [f"## {title}", "", f"| {' | '.join((*head, 'Agent < clients'))} |", "|---" * (len(head) + 1) + "|"]
    for cells, agents in sorted(rows.items()):
        lines.append(f"| {' | '.join(cells)} | {'; '.join(_pairs(agents))} |")
    return "\n".join(lines)


def _pairs(agents: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Agents with the clients that it is so for, those with the same clients together."""
    by_clients: dict[tuple[str, ...], list[str]] = {}
    for agent, clients in agents.items():
        by_clients.setdefault(tuple(clients), []).append(agent)
    for clients, names in by_clients.items():
        told = "all" if len(clients) == len(CLIENTS) else ", ".join(clients)
        yield f"{'every agent' if len(names) == len(AGENTS) else ', '.join(names)} < {told}"


def _cell(text: str | Tree) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
