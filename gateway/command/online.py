"""`a2a-gateway check`: its report, and with `--online` what all answer that a configuration names.

Agents are asked for their cards, issuers for their discovery documents and keys, a Redis for all that the ledger needs
of it. Webhooks are asked nothing; where `push.tls` is written, TLS is tried with those that `push.allow` names by host.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.fault import (
    Fault,
    PushDenied,
    StateUnavailable,
    UpstreamConnect,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.a2a.operation import Operation
from gateway.backing import Backing
from gateway.catalog.cards import DEADLINE
from gateway.config.address import is_grpc
from gateway.config.check import Examined
from gateway.config.model import Issuer
from gateway.config.problem import KeyPath, Problem, as_github, as_json, as_text
from gateway.config.routes import divided
from gateway.config.state import StateUrl
from gateway.config.yaml import Marks
from gateway.identity.jwks import KeySet
from gateway.push.ssrf import Resolver, Target, WebhookPolicy
from gateway.routing.route import read_backend_key
from gateway.snapshot import Snapshot
from gateway.tasks.store import StoreBroken
from gateway.telemetry.metrics import Metrics
from gateway.tls_failure import kind
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.health_check import check_health
from gateway.upstream.http import HttpUpstream
from gateway.upstream.outlier_detection import explained
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # Most configurations do without gRPC.
    from gateway.upstream.grpc import GrpcUpstream
    from gateway.upstream.grpc_channel import GrpcChannel

_AT_ONCE = 16
_WELL_KNOWN = "/.well-known/agent-card.json"


class Visited(StrEnum):
    """The sort of thing that was visited."""

    AGENT = "agent"
    ISSUER = "issuer"
    STATE = "state"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Visit:
    """What was found at one backend, issuer, store or webhook.

    Attributes:
        backend: The backend's key (`routing.route.backend_key`).
        good: Whether there is nothing amiss.
        fact: The dialects that it is asked in, by its card and the file, or why something is not there.
        missed: What is not there, where it is not good.
        to: What was visited.
    """

    backend: str
    good: bool
    fact: str
    missed: str = "no card"
    to: Visited = Visited.AGENT

    def as_text(self) -> str:
        """One line for people."""
        name = self.backend if self.to is Visited.AGENT else f"{self.to} {self.backend}"
        return f"{name}: {'' if self.good else self.missed + ': '}{self.fact}"

    def as_json(self) -> dict[str, object]:
        """The visit for programs."""
        name = "backend" if self.to is Visited.AGENT else self.to.value
        return {name: self.backend, "ok": self.good, "message": self.fact}

    def problem(self, marks: Marks) -> Problem:
        """A visit that is not good, at the place in the file of what was visited."""
        path = self._path
        return Problem(marks.key(path), path, f"{self.missed}: {self.fact}", _REMEDIES[self.to])

    @property
    def _path(self) -> KeyPath:
        if self.to is Visited.ISSUER:
            return "auth", "issuers", self.backend
        if self.to is Visited.STATE:
            return "gateway", "state"
        if self.to is Visited.WEBHOOK:
            return "push", "tls"
        agent, tenant = read_backend_key(self.backend)
        return ("agents", agent) if tenant is None else ("agents", agent, "by_tenant", tenant)


_REMEDIES: Mapping[Visited, str] = {
    Visited.AGENT: "start the agent, or correct its `backend` or `card`",
    Visited.ISSUER: "start the issuer, or correct its `issuer`, `jwks` or `tls`",
    Visited.STATE: "start the Redis, or correct its URL",
    Visited.WEBHOOK: "start the receiver, or correct `push.tls` or `push.allow`",
}


async def visit(examined: Examined) -> tuple[Visit, ...]:
    """Ask all of them, several at once; what cannot be reached is a visit that is not good.

    An agent behind gRPC is asked also where its card comes from somewhere else, which tells nothing of it.

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
        found = await asyncio.gather(
            asyncio.gather(*(one(key, backing) for key, backing in snapshot.backings.items())),
            _issuers(snapshot),
            _state(examined.config.gateway.state),
            _webhooks(snapshot),
        )
        return tuple(each for visits in found for each in visits)
    finally:
        await snapshot.aclose()


# ---- Issuers, the store and webhooks ---------------------------------------------------------------------------------


async def _issuers(snapshot: Snapshot) -> Iterable[Visit]:
    issuers = {} if snapshot.config.auth is None else snapshot.config.auth.issuers
    return await asyncio.gather(*(_issuer(issuers[name], keys) for name, keys in snapshot.key_sets.items()))


async def _issuer(written: Issuer, keys: KeySet) -> Visit:
    """What became of one reading of an issuer's keys, its discovery document included."""
    reading = asyncio.ensure_future(keys.run())
    try:
        await keys.settled()
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    if keys.error is None:
        fact = "keys read" if written.tls is None else f"keys read, by the authorities of {written.tls.ca}"
        return Visit(keys.name, good=True, fact=fact, to=Visited.ISSUER)
    missed = "no keys" if keys.located else "no discovery document"
    return Visit(keys.name, good=False, fact=keys.error, missed=missed, to=Visited.ISSUER)


async def _state(state: StateUrl | None) -> Iterable[Visit]:
    """Whether a Redis lets the gateway do all that it needs; nobody is asked for what is kept elsewhere."""
    if state is None or state.kind != "redis":
        return ()
    from gateway.tasks.redis_address import read_address  # noqa: PLC0415 - most configurations do without a Redis
    from gateway.tasks.redis_client import RedisClient  # noqa: PLC0415 - as above

    client = None
    try:
        client = RedisClient(read_address(state.url))
        await client.enter()
    except StoreBroken as error:
        why = str(error).removeprefix(f"{state.label}: ")
    except StateUnavailable as error:
        why = error.detail.removeprefix("redis: ")
    else:
        return (Visit(state.label, good=True, fact="can be used", to=Visited.STATE),)
    finally:
        if client is not None:
            await client.aclose()
    return (Visit(state.label, good=False, fact=why, missed="it cannot be used", to=Visited.STATE),)


async def _webhooks(snapshot: Snapshot) -> Iterable[Visit]:
    """Whether the authorities that the file names vouch for the receivers that it names."""
    push = snapshot.config.push
    if push.mode != "relay" or push.tls is None:
        return ()
    free = not push.block_private_networks
    targets = dict.fromkeys(
        Target(pattern.scheme, pattern.host, pattern.port, "/", free)
        for pattern in push.allow
        if pattern.scheme == "https" and not pattern.host.startswith("*.") and pattern.port is not None
    )
    resolver = Resolver()
    try:
        policy = WebhookPolicy(push.allow, block_private=not free, resolve=resolver)
        return await asyncio.gather(*(_webhook(snapshot, target, policy) for target in targets))
    finally:
        resolver.close()


async def _webhook(snapshot: Snapshot, target: Target, policy: WebhookPolicy) -> Visit:
    try:
        async with asyncio.timeout(DEADLINE):
            first, *_ = await policy.refuse_address(target)
            tls = snapshot.webhook_tls
            _, writer = await asyncio.open_connection(first, target.port, ssl=tls, server_hostname=target.host)
    except PushDenied as denied:
        why = denied.message
    except OSError as error:
        why = kind(error, connecting=True)
    else:
        writer.close()
        with suppress(OSError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
        return Visit(target.origin, good=True, fact="TLS can be spoken", to=Visited.WEBHOOK)
    return Visit(target.origin, good=False, fact=why, missed="not reached", to=Visited.WEBHOOK)


# ---- Agents ----------------------------------------------------------------------------------------------------------


async def _silent(backing: Backing) -> str:
    """Which of several replicas do not answer, and why; empty where all do, whatever they say."""
    found = []
    for replica in backing.replicas if backing.balancer.only is None else ():
        upstream = replica.upstream
        connections = _connections(upstream)
        if connections is None:
            continue
        try:
            await check_health(connections, upstream.url, _WELL_KNOWN, DEADLINE, upstream.treatment.credentials)
        except Fault as fault:
            found.append(f"{replica.name or replica.key}: {explained(fault)}")
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


@dataclass(frozen=True, slots=True)
class Review:
    """The findings of `check`, and its exit code.

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
        """Return the problems that keep the configuration from being served by so many workers."""
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
