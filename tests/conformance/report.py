"""`docs/compatibility.md`: what the matrix came to, in tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tests.conformance.comparing import Outcome, Verdict
from tests.conformance.software import CLIENTS, EVERY_AGENT, TITLES, Software, speak_alike

NOT_AT_ALL = (Outcome.FAILS_DIRECTLY, Outcome.IMPOSSIBLE)

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

An agent over gRPC has its card at an HTTP URL, which the gateway is told. Clients find every agent by the card that the
gateway serves: below its name, where 1.0 over gRPC is told the agent's tenant, or, for 0.3 over gRPC, which cannot say
one, at a host of its own.
"""

MATRIX = """
## Who reaches whom

`=` the pair speaks one dialect, and its bytes are passed on · `ok` translated. With both, every operation gives the
same result as a direct call, or is refused for the reasons below. A number: so many operations differ. `no`: a direct
call does not even create a task, because of a fault of the agent or of the client; see below.
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
            ("Through the gateway", "Directly"),
            lambda verdict: difference(verdict.got, verdict.wanted),
        ),
        _section(
            "What is not possible",
            verdicts,
            Outcome.IMPOSSIBLE,
            ("Why", "The client is told"),
            lambda verdict: (verdict.why, verdict.got["error"]),
        ),
        _section(
            "Combinations that also fail directly",
            verdicts,
            Outcome.FAILS_DIRECTLY,
            ("Through the gateway",),
            lambda verdict: (verdict.got.get("error", "an answer"),),
        ),
        _section(
            "What a client cannot ask for",
            verdicts,
            Outcome.ABSENT,
            ("Why",),
            lambda verdict: (verdict.why,),
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
        those = [each for each in (*EVERY_AGENT, *CLIENTS) if each.environment == environment]
        names = [each.key for each in those]
        spoken = {f"{each.version} {each.binding}": None for each in those}
        version = "missing" if environment.missing else environment.version
        lines.append(f"| {title} | {', '.join(dict.fromkeys(names))} | {version} | {', '.join(spoken)} |")
    return "\n".join(lines)


def _matrix(verdicts: Verdicts) -> str:
    lines = [
        f"| agent ↓ client → | {' | '.join(client.key for client in CLIENTS)} |",
        "|---" * (len(CLIENTS) + 1) + "|",
    ]
    for agent in EVERY_AGENT:
        cells = [_of_pair(agent, client, verdicts.get((agent.key, client.key))) for client in CLIENTS]
        lines.append(f"| **{agent.key}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_pair(agent: Software, client: Software, verdicts: list[Verdict] | None) -> str:
    if verdicts is None:
        return "not run"
    if any(verdict.operation == "send_task" and verdict.outcome in NOT_AT_ALL for verdict in verdicts):
        return "no"
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
    found: dict[tuple[tuple[str, ...], str], dict[str, list[str]]] = {}
    for (agent, client), each in verdicts.items():
        for verdict in each:
            if verdict.outcome is outcome:
                found.setdefault((row(verdict), verdict.operation), {}).setdefault(agent, []).append(client)
    if not found:
        return f"\n## {title}\n\nNothing.\n"
    # Operations for which the same is so of the same pairs stand together.
    rows: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (cells, operation), agents in found.items():
        rows.setdefault((cells, "; ".join(_pairs(agents))), []).append(operation)
    lines = [f"## {title}", "", f"| Operations | {' | '.join((*head, 'Agents < clients'))} |"]
    lines.append("|---" * (len(head) + 2) + "|")
    for (cells, pairs), operations in sorted(rows.items()):
        lines.append(f"| {' | '.join(map(_cell, (', '.join(operations), *cells, pairs)))} |")
    return "\n".join(lines)


def _pairs(agents: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Agents with the clients that it is so for, those with the same clients together."""
    by_clients: dict[tuple[str, ...], list[str]] = {}
    for agent, clients in agents.items():
        by_clients.setdefault(tuple(clients), []).append(agent)
    for clients, names in by_clients.items():
        told = "all" if len(clients) == len(CLIENTS) else ", ".join(clients)
        yield f"{'every agent' if len(names) == len(EVERY_AGENT) else ', '.join(names)} < {told}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
