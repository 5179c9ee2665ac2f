"""Replicas of an agent, their health, and what is sent again: what of it cannot hold together."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.config import effective
from gateway.config.address import is_grpc, read_backend, same_place
from gateway.config.agent import Agent, Backend
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable
from gateway.config.replica import Affinity, Health
from gateway.config.stdio import is_stdio

_OF_REQUESTS = ("every", "timeout", "fail_after", "pass_after")
"""What is said of requests that nobody makes without a path."""


def replica_name(backend: Backend) -> str:
    """What a replica is called in logs, in metrics and in the ledger."""
    return backend.label or place_name(backend)


def place_name(backend: Backend) -> str:
    """What a replica is called that has no label."""
    return urlsplit(backend.url).netloc.lower()


def check_replication(config: Config, findings: Findings) -> None:
    """Find what is wrong with replicas, and with how they are watched."""
    _health(config.defaults.health, [config.defaults.health], ("defaults", "health"), findings)
    _affinity(config.defaults.affinity, ("defaults", "affinity"), findings)
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        for replicas, here in groups(agent, at):
            _replicas(replicas, here, findings)
        _health(agent.health, [config.defaults.health, agent.health], (*at, "health"), findings)
        _commands(agent, at, findings)
        _affinity(agent.affinity, (*at, "affinity"), findings)
        _remembered(config, agent, at, findings)


def groups(agent: Agent, at: KeyPath) -> Iterator[tuple[tuple[Backend, ...], KeyPath]]:
    """The backends of an agent as they are written, each with its replicas."""
    if agent.backend:
        yield agent.backend, (*at, "backend")
    for tenant, entry in agent.by_tenant.items():
        yield entry.backend, (*at, "by_tenant", tenant, "backend")


def is_several(replicas: tuple[Backend, ...]) -> bool:
    """Whether there may be more than one replica."""
    return len(replicas) > 1 or any(one.dns is not None for one in replicas)


def _replicas(replicas: tuple[Backend, ...], at: KeyPath, findings: Findings) -> None:
    if not replicas:
        findings.error(at, "there is no replica", "name some, or write one URL")
    places: dict[str, int] = {}
    names: dict[str, int] = {}
    for number, one in enumerate(replicas):
        here: KeyPath = (*at, number) if len(replicas) > 1 else at
        if is_stdio(one.url):
            _command(one, here, findings, several=len(replicas) > 1)
            continue
        _headless(one, here, findings)
        if is_stdio(replicas[0].url):
            # That is told there.
            continue
        if is_grpc(one.url) != is_grpc(replicas[0].url):
            fact = "some replicas are behind gRPC and others are not"
            findings.error((*here, "url"), fact, "make them two agents, or reach them all alike")
        first = places.setdefault(same_place(one.url), number)
        if first != number:
            line = findings.line((*at, first))
            findings.error((*here, "url"), f"it is a replica already ({line})", "remove one of the two")
            continue
        first = names.setdefault(replica_name(one), number)
        if first != number:
            fact = f"another replica is called {printable(replica_name(one))!r}, too ({findings.line((*at, first))})"
            findings.error(here, fact, "give each a `label` of its own")
    if replicas and not any(one.weight for one in replicas):
        findings.error((*at, 0, "weight"), "no replica gets any call: every weight is 0", "give one a weight above 0")


def _command(one: Backend, at: KeyPath, findings: Findings, *, several: bool) -> None:
    """See that a command is not one of several: whoever runs several of its processes knows which has which task."""
    if several:
        remedy = "write it alone, with `processes: N` in `stdio`; or make it another agent"
        findings.error(at, "a command cannot be one of several replicas", remedy)
    elif one.dns is not None:
        findings.error_at_key((*at, "dns"), "a command has no name that could be looked up", "remove it")


def _commands(agent: Agent, at: KeyPath, findings: Findings) -> None:
    """See that nothing is written at an agent that is of no meaning for a command, where it is nothing else."""
    replicas = [one for several, _ in groups(agent, at) for one in several]
    if not replicas or not all(is_stdio(one.url) for one in replicas):
        return
    if agent.health.path is not None:
        remedy = "remove it, and write `ping` in `stdio`"
        findings.error((*at, "health", "path"), "a command has no path", remedy)
    if agent.retry.model_fields_set:
        findings.error_at_key((*at, "retry"), "nothing is sent to a command again", "remove it")


def _headless(one: Backend, at: KeyPath, findings: Findings) -> None:
    if one.dns is None:
        return
    try:
        ipaddress.ip_address(read_backend(one.url).hostname or "")
    except ValueError:
        # It is a name, or no URL, which is told elsewhere.
        return
    findings.error_at_key((*at, "dns"), "the host is an address already", "write a name that has several, or remove it")


def _affinity(written: Affinity, at: KeyPath, findings: Findings) -> None:
    if written.by == "none" and (written.gone or written.wait):
        key = "gone" if written.gone else "wait"
        fact = "no call belongs to a replica: `by` is none"
        findings.error_at_key((*at, key), fact, "remove it, or write `by: task`")


def _remembered(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    several = [here for replicas, here in groups(agent, at) if is_several(replicas)]
    if not several or config.gateway.replicas == 1 or effective.affinity(config, agent).by == "none":
        return
    if not effective.tenure(config, agent):
        fact = "other gateways will not know which replica made a task: no ledger is kept of this agent's"
        findings.warning(several[0], fact, "write `isolation: tenant` at the agent, or `affinity: none`")


def _health(written: Health, holding: list[Health], at: KeyPath, findings: Findings) -> None:
    if written.path is not None and (not written.path.startswith("/") or not _is_plain(written.path)):
        fact = f"{printable(written.path)!r} is no path"
        findings.error((*at, "path"), fact, "start it with /, and write no spaces and no fragment")
    if not any(one.path is not None for one in holding):
        for key in _OF_REQUESTS:
            if key in written.model_fields_set:
                fact = "nobody is asked how it is without `path`"
                findings.error_at_key((*at, key), fact, "add `path: /.well-known/agent-card.json`, or remove it")
    eject = written.eject
    if eject.time is not None and eject.longest is not None and eject.longest < eject.time:
        findings.error((*at, "eject", "longest"), "it is less than `time`", "write at least as much")


def _is_plain(path: str) -> bool:
    return path.isascii() and path.isprintable() and " " not in path and "#" not in path
