"""`a2a-gateway check`: the report, and with `--online` the answers of all servers that the configuration names.

Agents are asked for their cards, issuers for discovery documents and keys, a Redis for everything that the ledger
needs. Webhooks get no request; with `push.tls`, TLS is tried with the hosts in `push.allow`.
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
    UpstreamAuthFailed,
    UpstreamConnect,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.a2a.operation import Operation
from gateway.backend.backend import Backend
from gateway.cards.fetch import DEADLINE
from gateway.commands.output import aligned, paint
from gateway.config.checks.gateway import check_workers
from gateway.config.load import Examined
from gateway.config.problem import KeyPath, Problem, as_github, as_json, as_text
from gateway.config.routes import routing_table, untested_matches
from gateway.config.yaml import Marks
from gateway.identity.jwks import KeySet
from gateway.network.address import is_grpc
from gateway.push.ssrf import Resolver, WebhookPolicy, WebhookTarget
from gateway.routing.route import read_backend_key
from gateway.snapshot import Snapshot
from gateway.tasks.state_url import StateUrl, read_redis
from gateway.tasks.store import StoreBroken
from gateway.telemetry.metrics import GatewayMetrics
from gateway.telemetry.tls_failure import kind
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.health_check import check_health
from gateway.upstream.http import HttpUpstream
from gateway.upstream.outlier_detection import explained
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # grpcio is loaded only if it is used.
    from gateway.upstream.grpc import GrpcUpstream
    from gateway.upstream.grpc_channel import GrpcChannel

_AT_ONCE = 16
_WELL_KNOWN = "/.well-known/agent-card.json"


class OnlineTarget(StrEnum):
    """The kind of server that was asked."""

    AGENT = "agent"
    ISSUER = "issuer"
    STATE = "state"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class OnlineAnswer:
    """The answer of one backend, issuer, store or webhook.

    Attributes:
        backend: The backend's key (`routing.route.backend_key`).
        good: Whether it can be used.
        fact: The dialects of its card and the file, or the reason of the failure.
        missed: The missing thing, if it is not good.
        to: The kind of server.
    """

    backend: str
    good: bool
    fact: str
    missed: str = "no card"
    to: OnlineTarget = OnlineTarget.AGENT

    def as_row(self) -> tuple[str, str, str, str]:
        """Return the cells of a table: kind, name, result, fact."""
        return self.to.value, self.backend, "ok" if self.good else self.missed, self.fact

    def as_json(self) -> dict[str, object]:
        """Return the answer for programs."""
        name = "backend" if self.to is OnlineTarget.AGENT else self.to.value
        return {name: self.backend, "ok": self.good, "message": self.fact}

    def problem(self, marks: Marks) -> Problem:
        """Return a bad answer as a problem at the place of the server in the file."""
        path, remedy = _PLACES[self.to]
        if self.to is OnlineTarget.ISSUER:
            path = (*path, self.backend)
        elif self.to is OnlineTarget.AGENT:
            agent, tenant = read_backend_key(self.backend)
            path = (*path, agent, *(() if tenant is None else ("by_tenant", tenant)))
        return Problem(marks.key(path), path, f"{self.missed}: {self.fact}", remedy)


_PLACES: Mapping[OnlineTarget, tuple[KeyPath, str]] = {
    OnlineTarget.AGENT: (("agents",), "start the agent, or correct its `backend` or `card`"),
    OnlineTarget.ISSUER: (("auth", "issuers"), "start the issuer, or correct its `issuer`, `jwks` or `tls`"),
    OnlineTarget.STATE: (("gateway", "state"), "start the Redis, or correct its URL"),
    OnlineTarget.WEBHOOK: (("push", "tls"), "start the receiver, or correct `push.tls` or `push.allow`"),
}
"""The paths of the servers in the file, and the remedies."""


async def check_online(examined: Examined) -> tuple[OnlineAnswer, ...]:
    """Ask all servers, several at a time; an unreachable one is an answer that is not good.

    An agent behind gRPC is also called if its card comes from elsewhere.

    Args:
        examined: A configuration without errors.
    """
    assert examined.config is not None
    snapshot = Snapshot.build(
        examined, GatewayMetrics("check"), examined.config.gateway.public_url or "http://127.0.0.1"
    )
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(key: str, backend: Backend) -> OnlineAnswer:
        source = backend.source
        async with at_once:
            silent = await _unreachable_replicas(backend)
        if silent:
            return OnlineAnswer(key, good=False, fact=silent, missed="no answer from a replica")
        if is_grpc(backend.url):
            async with at_once:
                why = await _grpc_failure(backend)
            if why:
                return OnlineAnswer(key, good=False, fact=why, missed="no answer")
        # A card in the file needs no request.
        if not source.settled.is_set():
            async with at_once:
                if source.verifier is not None:
                    await source.verifier.keys.refresh()
                await source.refresh()
        if source.card is None:
            return OnlineAnswer(key, good=False, fact=source.error or "it cannot be read")
        dialects = ", ".join(map(str, backend.upstream.dialects.interfaces()))
        return OnlineAnswer(
            key, good=bool(dialects), fact=dialects or "its card offers no interface that the gateway speaks"
        )

    try:
        groups = await asyncio.gather(
            asyncio.gather(*(one(key, backend) for key, backend in snapshot.backends.items())),
            asyncio.gather(*(_issuer(snapshot, name, keys) for name, keys in snapshot.key_sets.items())),
            _state(examined.config.gateway.state),
            _webhooks(snapshot),
        )
        return tuple(each for answers in groups for each in answers)
    finally:
        await snapshot.aclose()


# ---- Issuers, the store and webhooks ---------------------------------------------------------------------------------


async def _issuer(snapshot: Snapshot, name: str, keys: KeySet) -> OnlineAnswer:
    """Fetch the discovery document and the keys of an issuer."""
    assert snapshot.config.auth is not None
    written = snapshot.config.auth.issuers[name]
    reading = asyncio.ensure_future(keys.run())
    try:
        await keys.settled()
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    if keys.error is None:
        fact = "keys read" if written.tls is None else f"keys read, by the authorities of {written.tls.ca}"
        return OnlineAnswer(keys.name, good=True, fact=fact, to=OnlineTarget.ISSUER)
    missed = "no keys" if keys.located else "no discovery document"
    return OnlineAnswer(keys.name, good=False, fact=keys.error, missed=missed, to=OnlineTarget.ISSUER)


async def _state(state: StateUrl | None) -> Iterable[OnlineAnswer]:
    """Check that a Redis permits all commands of the ledger; other stores are not checked."""
    if state is None or state.kind != "redis":
        return ()
    from gateway.tasks.redis_client import RedisClient  # noqa: PLC0415 - redis-py is loaded only if used

    client = RedisClient(read_redis(state.url))
    try:
        await client.enter()
    except StoreBroken as error:
        why = str(error).removeprefix(f"{state.label}: ")
    except StateUnavailable as error:
        why = error.detail.removeprefix("redis: ")
    else:
        return (OnlineAnswer(state.label, good=True, fact="can be used", to=OnlineTarget.STATE),)
    finally:
        await client.aclose()
    return (OnlineAnswer(state.label, good=False, fact=why, missed="it cannot be used", to=OnlineTarget.STATE),)


async def _webhooks(snapshot: Snapshot) -> Iterable[OnlineAnswer]:
    """Try TLS with the receivers in `push.allow`."""
    push = snapshot.config.push
    if push.mode != "relay" or push.tls is None:
        return ()
    free = not push.block_private_networks
    targets = dict.fromkeys(
        WebhookTarget(pattern.scheme, pattern.host, pattern.port, "/", free)
        for pattern in push.allow
        if pattern.scheme == "https" and not pattern.host.startswith("*.") and pattern.port is not None
    )
    resolver = Resolver()
    try:
        policy = WebhookPolicy(push.allow, block_private=not free, resolve=resolver)
        return await asyncio.gather(*(_webhook(snapshot, target, policy) for target in targets))
    finally:
        resolver.close()


async def _webhook(snapshot: Snapshot, target: WebhookTarget, policy: WebhookPolicy) -> OnlineAnswer:
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
        return OnlineAnswer(target.origin, good=True, fact="TLS can be spoken", to=OnlineTarget.WEBHOOK)
    return OnlineAnswer(target.origin, good=False, fact=why, missed="not reached", to=OnlineTarget.WEBHOOK)


# ---- Agents ----------------------------------------------------------------------------------------------------------


async def _unreachable_replicas(backend: Backend) -> str:
    """Return the replicas that do not answer, with reasons; empty if all answer, with any status."""
    reasons = []
    for replica in backend.replicas if backend.balancer.only is None else ():
        upstream = replica.upstream
        connections = _connections(upstream)
        if connections is None:
            continue
        try:
            treatment = upstream.treatment
            await check_health(
                connections,
                upstream.url,
                _WELL_KNOWN,
                DEADLINE,
                treatment.credentials,
                tokens=treatment.own_tokens,
            )
        except Fault as fault:
            reasons.append(f"{replica.name or replica.key}: {explained(fault)}")
    return "; ".join(reasons)


def _connections(upstream: Upstream) -> "ConnectionPool | GrpcChannel | None":
    """Return the connections to an agent; None for an agent on stdio."""
    if isinstance(upstream, StdioUpstream):
        return None
    return upstream.pool if isinstance(upstream, HttpUpstream) else cast("GrpcUpstream", upstream).channel


async def _grpc_failure(backend: Backend) -> str:
    """Return the reason why an agent behind gRPC does not answer; empty if it does, with any status."""
    from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - grpcio is loaded only if it is used

    upstream = backend.upstream
    assert isinstance(upstream, GrpcUpstream)
    metadata = tuple((name.decode(), value.decode("latin-1")) for name, value in upstream.treatment.credentials)
    path = method_of(Operation.GET_EXTENDED_CARD, Version.V1_0).path
    tokens = upstream.treatment.own_tokens
    try:
        if tokens is not None:
            name, value = await tokens.pair()
            metadata = (*metadata, (name.decode(), value.decode()))
        await upstream.channel.unary(path, b"", metadata, timeout=DEADLINE)
    except UpstreamAuthFailed as fault:
        return explained(fault)
    except (UpstreamConnect, UpstreamTimeout, UpstreamReset) as fault:
        return f"{fault.message}: {fault.detail}" if fault.detail else fault.message
    except UpstreamProtocol as fault:
        # With `forward_caller` the gateway has no credential of its own to try.
        return "" if upstream.treatment.forward_caller else fault.message
    return ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of `check`, and its exit code.

    Attributes:
        answers: The answers of all servers; None without `--online`.
        strict: Whether warnings count as errors.
        workers: Number of workers that are to serve it.
        coverage: Whether to name the matches that no test of the file takes.
    """

    examined: Examined
    answers: tuple[OnlineAnswer, ...] | None = None
    strict: bool = False
    workers: int = 1
    coverage: bool = False

    @property
    def code(self) -> int:
        """Return the exit code: 0 good, 1 problems found, 3 a routing test failed."""
        examined = self.examined
        down = not all(answer.good for answer in self.answers or ())
        if examined.config is None or self._divided or (self.strict and examined.problems) or down:
            return 1
        return 3 if examined.failed else 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the file and its failed routing tests."""
        return (*self.examined.problems, *self._divided, *self.examined.failed)

    @property
    def _divided(self) -> tuple[Problem, ...]:
        """Return the problems with several workers."""
        examined = self.examined
        return () if examined.config is None else check_workers(examined.config, examined.marks, self.workers)

    def as_text(self) -> str:
        """Return the report for people: problems, the servers' answers as a table, and a line that counts."""
        parts = [
            as_text(self.problems),
            aligned([answer.as_row() for answer in self.answers or ()]),
            self._untested(),
            self._count(),
        ]
        return "\n\n".join(part for part in parts if part)

    def _untested(self) -> str:
        config = self.examined.config
        if not self.coverage or config is None:
            return ""
        matches = untested_matches(config, routing_table(config, self.examined.marks))
        return "\n".join(
            f"{agent}: no test takes its match at {', '.join(places)}" for agent, places in matches.items()
        )

    def _count(self) -> str:
        """Return the last line: the files, and how many problems of each kind they have."""
        examined, problems = self.examined, self.problems
        errors = [problem for problem in problems if problem.severity == "error" and problem not in examined.failed]
        down = [answer for answer in self.answers or () if not answer.good]
        warnings = len(problems) - len(errors) - len(examined.failed)
        counts = (
            (len(errors), "error"),
            (len(examined.failed), "failed test"),
            (warnings, "warning"),
            (len(down), "failed answer"),
        )
        summary = ", ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in counts if number)
        tests = 0 if examined.config is None else len(examined.config.tests)
        passed = f" ({tests} test{'' if tests == 1 else 's'} passed)" if tests and not examined.failed else ""
        files = f"{examined.files[0]}" + (f" and {len(examined.files) - 1} more" if len(examined.files) > 1 else "")
        return (
            f"{files}: "
            + paint(summary or "no problems", ("red" if self.code else "yellow") if summary else "green")
            + passed
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        report: dict[str, Any] = {"ok": self.code == 0, "problems": as_json(self.problems)}
        if self.answers is not None:
            report["agents"] = self._answers(OnlineTarget.AGENT)
            others = {"issuers": OnlineTarget.ISSUER, "state": OnlineTarget.STATE, "webhooks": OnlineTarget.WEBHOOK}
            report |= {name: answers for name, to in others.items() if (answers := self._answers(to))}
        return report

    def _answers(self, to: OnlineTarget) -> list[dict[str, object]]:
        return [answer.as_json() for answer in self.answers or () if answer.to is to]

    def as_github(self) -> str:
        """Return the report as workflow commands, which GitHub shows beside the lines; empty without problems."""
        bad = [answer.problem(self.examined.marks) for answer in self.answers or () if not answer.good]
        return as_github((*self.problems, *bad))
