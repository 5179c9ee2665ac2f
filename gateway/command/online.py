"""`a2a-gateway check --online`: goes to every agent of a configuration and reads its card, as the gateway would."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Fault, UpstreamConnect, UpstreamProtocol, UpstreamReset, UpstreamTimeout
from gateway.a2a.operation import Operation
from gateway.backing import Backing
from gateway.catalog.place import DEADLINE
from gateway.config.address import is_grpc
from gateway.config.check import Examined
from gateway.config.problem import KeyPath, Problem
from gateway.config.source import Marks
from gateway.routing.route import read_backend_key
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import Metrics
from gateway.upstream.connections import ConnectionPool
from gateway.upstream.http import HttpUpstream
from gateway.upstream.probe import Probe, Probing
from gateway.upstream.stdio import StdioUpstream
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # Most configurations do without gRPC.
    from gateway.upstream.grpc import GrpcUpstream
    from gateway.upstream.grpc_channel import GrpcChannel

_AT_ONCE = 16
_WELL_KNOWN = "/.well-known/agent-card.json"


@dataclass(frozen=True, slots=True)
class Visit:
    """What was found at one backend.

    Attributes:
        backend: The backend's key (`routing.route.backend_key`).
        good: Whether there is nothing amiss.
        fact: The dialects that it is asked in, by its card and the file, or why something is not there.
        missed: What is not there, where it is not good.
    """

    backend: str
    good: bool
    fact: str
    missed: str = "no card"

    def as_text(self) -> str:
        """One line for people."""
        return f"{self.backend}: {'' if self.good else self.missed + ': '}{self.fact}"

    def as_json(self) -> dict[str, object]:
        """The visit for programs."""
        return {"backend": self.backend, "ok": self.good, "message": self.fact}

    def problem(self, marks: Marks) -> Problem:
        """A visit that is not good, at the place of the agent in the file."""
        agent, tenant = read_backend_key(self.backend)
        path: KeyPath = ("agents", agent) if tenant is None else ("agents", agent, "by_tenant", tenant)
        remedy = "start the agent, or correct its `backend` or `card`"
        return Problem(marks.key(path), path, f"{self.missed}: {self.fact}", remedy)


async def visit(examined: Examined) -> tuple[Visit, ...]:
    """Read the card of every backend, several at once; an agent that cannot be reached is a visit that is not good.

    One behind gRPC is asked also where its card comes from somewhere else, and tells nothing of whether it is there.

    Args:
        examined: A configuration without errors.
    """
    assert examined.config is not None
    snapshot = Snapshot.build(examined, Metrics("check"), examined.config.gateway.public_url or "http://127.0.0.1")
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(key: str, backing: Backing) -> Visit:
        source = backing.source
        async with at_once:
            silent = await _silent(backing)
        if silent:
            return Visit(key, good=False, fact=silent, missed="no answer from a replica")
        if is_grpc(backing.url):
            async with at_once:
                why = await _unanswered(backing)
            if why:
                return Visit(key, good=False, fact=why, missed="no answer")
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


async def _silent(backing: Backing) -> str:
    """Which of several replicas do not answer, and why; empty where all do, whatever they say."""
    found = []
    probing = Probing(_WELL_KNOWN, timeout=DEADLINE)
    for replica in [] if backing.group is None else backing.replicas:
        upstream = replica.upstream
        connections = _connections(upstream)
        if connections is None:
            continue
        probe = Probe(replica.key, upstream.url, tuple, probing, credentials=upstream.treatment.credentials)
        try:
            await probe.answer(connections)
        except Fault as fault:
            found.append(f"{replica.name or replica.key}: {fault.message}")
    return "; ".join(found)


def _connections(upstream: Upstream) -> "ConnectionPool | GrpcChannel | None":
    """Those by which an agent is asked; None for one that is no server."""
    if isinstance(upstream, StdioUpstream):
        return None
    return upstream.pool if isinstance(upstream, HttpUpstream) else cast("GrpcUpstream", upstream).channel


async def _unanswered(backing: Backing) -> str:
    """Why an agent behind gRPC does not answer; empty where it does, whatever it says."""
    from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - most configurations do without gRPC

    upstream = backing.upstream
    assert isinstance(upstream, GrpcUpstream)
    metadata = tuple((name.decode(), value.decode("latin-1")) for name, value in upstream.treatment.credentials)
    path = method_of(Operation.GET_EXTENDED_CARD, Version.V1_0).path
    try:
        await upstream.channel.unary(path, b"", metadata, timeout=DEADLINE)
    except (UpstreamConnect, UpstreamTimeout, UpstreamReset) as fault:
        return f"{fault.message}: {fault.detail}" if fault.detail else fault.message
    except UpstreamProtocol as fault:
        # Where callers show their own credential, none that the gateway could show is good.
        return "" if upstream.treatment.forward_caller else fault.message
    return ""
