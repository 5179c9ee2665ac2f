"""The matrix: every agent with every client, directly where both speak alike, then through the gateway.

    python -m tests.conformance.matrix direct             the direct runs; writes direct.json
    python -m tests.conformance.matrix gateway            all pairs through one gateway; writes docs/compatibility.md
    ... --agents NAME,… --clients NAME,… --operations …   some of it, which writes nothing
    ... --alike                                           only pairs of one dialect, which writes nothing
    ... --raw FOLDER                                      keep what the SDKs said, and every byte on both sides
    python -m tests.conformance.matrix again --raw FOLDER judge that once more

`tests/conformance/run` makes the environments and does both.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.demo.stage import free_ports
from tests.conformance.comparing import Direct, Outcome, Verdict, judge, name_of
from tests.conformance.normal import Tree
from tests.conformance.report import report
from tests.conformance.running import Place, Told, agent_process, agent_processes, ask, in_normal_form
from tests.conformance.software import CLIENTS, EVERY_AGENT, GRPC, HERE, ROOT, Software, speak_alike
from tests.conformance.tee import Tee
from tests.e2e.process import gateway_process

DIRECT = HERE / "direct.json"
REPORT = ROOT / "docs" / "compatibility.md"
CARD_PATH = ".well-known/agent-card.json"
OLD_PATH = ".well-known/agent.json"
"""The card's path of agents of 0.2 and 0.1, which no SDK of 0.3 looks for by itself."""
KEYED = "/keyed"
"""The path at which the API key picks the agent."""
HOOKS = {"allow": "https://localhost:9/a", "block_private_networks": False}
"""The webhook that the clients name; by default only public ones may be, and JavaScript's agents call it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pairs and environments to run."""

    agents: tuple[Software, ...]
    clients: tuple[Software, ...]
    operations: tuple[str, ...]
    raw: Path | None
    alike: bool = False

    def ask(self, agent: Software, client: Software, url: str, **more: Any) -> Told:
        """Return the results of a pair, in normal form."""
        if self.operations:
            more["operations"] = self.operations
        told = ask(client, url, **more)
        if self.raw is not None:
            self.kept(agent, client).write_text(json.dumps(told, indent=1))
        return in_normal_form(told)

    def kept(self, agent: Software, client: Software) -> Path:
        """Return the file with the SDK's output for a pair."""
        assert self.raw is not None
        return self.raw / f"{slug(agent)}--{slug(client)}.json"


def run_directly(wanted: Wanted) -> dict[str, Told]:
    """Every pair that speaks alike, without a gateway."""
    found: dict[str, Told] = {}
    for agent in wanted.agents:
        with agent_process(agent) as place:
            for client in wanted.clients:
                if speak_alike(agent, client):
                    old = {"card_path": OLD_PATH} if agent.version in ("0.1", "0.2") else {}
                    found[name_of(agent, client)] = wanted.ask(agent, client, f"{place.url}/", **old)
                    say(f"{name_of(agent, client):40} {worked(found[name_of(agent, client)])}")
    return found


def run_through_gateway(wanted: Wanted, direct: Direct) -> dict[tuple[str, str], list[Verdict]]:
    """Every pair, by one gateway in front of all agents."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    with serving(wanted) as gateway:
        for agent in wanted.agents:
            for client in wanted.clients:
                if wanted.alike and not speak_alike(agent, client):
                    continue
                told = wanted.ask(agent, client, **where(gateway, agent, client))
                verdicts = judge(agent, client, told, direct)
                found[agent.key, client.key] = verdicts
                bad = [each.operation for each in verdicts if each.outcome is Outcome.DIFFERS]
                say(f"{name_of(agent, client):40} {'ok' if not bad else 'differs: ' + ' '.join(bad)}")
    return found


def judge_again(wanted: Wanted, direct: Direct) -> dict[tuple[str, str], list[Verdict]]:
    """Return the verdicts on the kept results of a run."""
    return {
        (agent.key, client.key): judge(agent, client, in_normal_form(json.loads(kept.read_text())), direct)
        for agent in wanted.agents
        for client in wanted.clients
        if (kept := wanted.kept(agent, client)).exists()
    }


@contextmanager
def serving(wanted: Wanted) -> Iterator[str]:
    """The agents, and one gateway in front of them; its URL."""
    with ExitStack() as stack:
        agents: dict[str, Any] = {}
        for agent, place in stack.enter_context(agent_processes(wanted.agents)).items():
            if wanted.raw is not None:
                tapped = stack.enter_context(listened_in(place, wanted.raw / f"agent-{slug(agent)}"))
                agents[slug(agent)] = entry(agent, tapped)
            else:
                agents[slug(agent)] = entry(agent, place)
        gateway: dict[str, Any] = {"listen_grpc": "127.0.0.1:0"}
        if wanted.raw is not None:
            # The gateway tells clients the address of the one who listens in, so its own must be known before.
            listen, listen_grpc = free_ports(0, 0)
            front = stack.enter_context(Tee(f"127.0.0.1:{listen}", wanted.raw / "clients.txt"))
            front_grpc = stack.enter_context(Tee(f"127.0.0.1:{listen_grpc}", wanted.raw / "clients-grpc.txt"))
            gateway = {
                "listen": f"127.0.0.1:{listen}",
                "public_url": f"http://{front.address}",
                "listen_grpc": f"127.0.0.1:{listen_grpc}",
                "public_grpc": front_grpc.address,
            }
        configuration = {
            "gateway": gateway | {"anonymous": True},
            "auth": {"api_keys": dict(map(key_entry, wanted.agents))},
            "tenants": {name: {"agents": list(agents)} for name in ("anonymous", "matrix")},
            "defaults": {"isolation": "none"},
            "push": HOOKS,
            "agents": agents,
        }
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = stack.enter_context(gateway_process(configuration, folder))
        yield process.url


@contextmanager
def listened_in(place: Place, file: Path) -> Iterator[Place]:
    """An agent with somebody in front of it who writes down what it gets and says."""
    with Tee(place.url.removeprefix("http://"), file.with_suffix(".txt")) as http:
        if not place.grpc:
            yield Place(f"http://{http.address}")
            return
        with Tee(place.grpc, file.with_suffix(".grpc.txt")) as grpc:
            yield Place(f"http://{http.address}", grpc.address)


def entry(agent: Software, place: Place) -> dict[str, Any]:
    """Return the configuration of an agent that is found below its name, and by a key of its own."""
    found: dict[str, Any] = {
        "backend": place.url,
        "match": [{"path": f"/{slug(agent)}"}, {"path": KEYED, "key": slug(agent)}],
        "expose": ["jsonrpc", "rest", "grpc"],
    }
    if place.grpc:
        # gRPC has no place for the card.
        found |= {"backend": f"grpc://{place.grpc}", "card": f"{place.url}/{CARD_PATH}"}
    return found


def key_of(agent: Software) -> str:
    """The API key that means an agent."""
    return f"the-key-of-{slug(agent)}-and-of-no-other"


def key_entry(agent: Software) -> tuple[str, dict[str, str]]:
    """The name and the entry of an agent's API key in the configuration."""
    return slug(agent), {"sha256": hashlib.sha256(key_of(agent).encode()).hexdigest(), "tenant": "matrix"}


def where(gateway: str, agent: Software, client: Software) -> dict[str, str]:
    """Return the URLs at which a client finds an agent behind the gateway."""
    if client.dialect == ("0.3", GRPC):
        # Calls of 0.3 over gRPC say neither a path nor a tenant.
        return {"url": f"{gateway}{KEYED}/", "key": key_of(agent)}
    return {"url": f"{gateway}/{slug(agent)}/"}


def slug(software: Software) -> str:
    """A name as paths and files have it."""
    return software.key.replace(" ", "-").replace(".", "-")


def in_lines(direct: Direct) -> str:
    """Return the results of the direct runs as JSON, an operation on each line."""
    pairs = []
    for name, told in sorted(direct.items()):
        lines = [f"{json.dumps(operation)}: {in_line(result)}" for operation, result in told.items()]
        pairs.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(pairs) + "\n}\n"


def in_line(result: Tree) -> str:
    """One result as JSON, always the same for the same."""
    return json.dumps(result, sort_keys=True, ensure_ascii=False)


def worked(told: Told) -> str:
    """Return the number of operations that gave a result, as text."""
    return f"{sum('events' in each for each in told.values())} of {len(told)}"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def chosen(names: str | None, all_of_them: tuple[Software, ...]) -> tuple[Software, ...]:
    """Return the chosen software that is installed; say why another is not."""
    wanted = names.split(",") if names else [each.key for each in all_of_them]
    unknown = set(wanted) - {each.key for each in all_of_them}
    assert not unknown, f"there is no {unknown}"
    found = []
    for each in all_of_them:
        if each.key not in wanted:
            continue
        if each.environment.missing:
            say(f"skipped: {each.key}: {each.environment.missing}")
        else:
            found.append(each)
    return tuple(found)


def main() -> int:
    parser = argparse.ArgumentParser(description="The matrix of agents and clients.")
    parser.add_argument("what", choices=["direct", "gateway", "again"])
    parser.add_argument("--agents")
    parser.add_argument("--clients")
    parser.add_argument("--operations")
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--alike", action="store_true")
    asked = parser.parse_args()
    whole = not (asked.agents or asked.clients or asked.operations or asked.alike)
    operations = tuple(asked.operations.split(",")) if asked.operations else ()
    if asked.raw is not None:
        asked.raw.mkdir(parents=True, exist_ok=True)
    agents, clients = chosen(asked.agents, EVERY_AGENT), chosen(asked.clients, CLIENTS)
    wanted = Wanted(agents, clients, operations, asked.raw, asked.alike)
    if asked.what == "direct":
        told = run_directly(wanted)
        if whole:
            # Results that cannot be measured here stay as they were.
            kept = json.loads(DIRECT.read_text()) if DIRECT.exists() else {}
            DIRECT.write_text(in_lines(kept | told))
        return 0
    direct: Direct = json.loads(DIRECT.read_text())
    verdicts = (judge_again if asked.what == "again" else run_through_gateway)(wanted, direct)
    if whole:
        REPORT.write_text(report(verdicts))
    for (agent, client), each in verdicts.items():
        for verdict in each:
            if verdict.outcome is Outcome.DIFFERS and not whole:
                say(f"{agent} < {client}: {verdict.operation}\n  got    {verdict.got}\n  wanted {verdict.wanted}")
    return int(any(verdict.outcome is Outcome.DIFFERS for each in verdicts.values() for verdict in each))


if __name__ == "__main__":
    sys.exit(main())
