"""Holds requests to the limits: a tenant's rate before the body is read, all other limits before the agent is asked."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from gateway.a2a.call import Call
from gateway.a2a.fault import TasksLimited
from gateway.backend.backend import Backend
from gateway.config import effective
from gateway.config.limit import Limits as Written
from gateway.config.limit import TenantLimits
from gateway.config.model import Config
from gateway.policy.limits import OTHER, UNNAMED, Limits, OverRate, Permit, Quota, ratelimit_headers
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.routing.route import backend_key
from gateway.telemetry.metrics import Sample

_TOLL = 64 * 1024
"""Bytes after which a stream is charged again."""


class Admission:
    """Admits requests within the limits.

    Args:
        clock: Monotonic seconds.

    Attributes:
        processes: The number of processes that share the limits of the gateway.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._named: frozenset[str] = frozenset()
        self._most_open: Mapping[str, int] = {}
        self.processes = 1

    def configure(self, config: Config, quotas: "Quotas | None" = None) -> None:
        """Use the limits of a configuration from now on; used quota and running calls carry over.

        Args:
            quotas: Those of the configuration; computed here where they are left out.
        """
        quotas = quotas_of(config) if quotas is None else quotas
        self._named = frozenset(config.tenants)
        bounds = {name: tenant.limits.open_tasks for name, tenant in config.tenants.items() if name != UNNAMED}
        self._most_open = {name: most for name, most in bounds.items() if most is not None}
        self._limits.configure(quotas.tenants, quotas.agents, replicas=config.gateway.replicas * self.processes)

    def samples(self, labelled: Collection[str], opened: Mapping[str, int]) -> Iterable[Sample]:
        """Yield the metric of how much of each limit is used; any thread may ask.

        Args:
            labelled: Tenants with a label of their own; the others are `other`, as the fullest of them.
            opened: Open tasks by tenant.
        """
        used = [
            (usage.limit, scope, name, usage.used / usage.most)
            for scope, name, usage in self._limits.usages(self._clock())
            if usage.used is not None
        ]
        used += [("open_tasks", "tenant", name, opened.get(name, 0) / most) for name, most in self._most_open.items()]
        ratios: dict[tuple[str, str, str], float] = {}
        for limit, scope, name, ratio in used:
            key = (limit, scope, name if scope == "agent" or name in labelled else OTHER)
            ratios[key] = max(ratios.get(key, 0.0), ratio)
        yield Sample(
            "limit_usage_ratio",
            "Used part of each limit: 1 is all of it. Series: 5 limits (requests, concurrency, streams, bandwidth, "
            "open_tasks) x names of the configuration and other.",
            ("limit", "scope", "name"),
            tuple(ratios.items()),
        )

    async def arrive(self, request: RequestContext, client: Responder) -> None:
        """Charge the caller with one request; the answer has its rate limit headers.

        Raises:
            RateLimited: it has made too many.
        """
        principal = request.principal
        if principal is None or not self._limits.applies:
            return
        try:
            state = await self._limits.arrive(principal.tenant, request.started)
        except OverRate as fault:
            if fault.state is not None:
                client.extra = [*client.extra, *ratelimit_headers(fault.state)]
            raise
        if state is not None:
            client.extra = [*client.extra, *ratelimit_headers(state)]

    async def admit(self, request: RequestContext, backend: Backend, call: Call) -> None:
        """Let a call begin, once there is a slot for it.

        Raises:
            BodyTooLarge: its body is longer than the tenant or the agent may have it.
            RateLimited, ConcurrencyLimited, StreamsLimited: as `policy.limits.Limits.admit`.
        """
        principal = request.principal
        assert principal is not None
        request.on_toll, request.toll = self._charge, _TOLL
        if not self._limits.applies:
            return
        tenant, key = principal.tenant, backend.upstream.backend
        self._limits.refuse_body(tenant, key, request.bytes_in)
        permit = self._limits.admit(tenant, key, stream=call.operation.streams, now=self._clock())
        if permit is not None and not isinstance(permit, Permit):
            permit = await permit
        request.permit = permit
        request.weight = self._limits.weight(tenant)

    def leave(self, request: RequestContext) -> None:
        """Release the slot of a request that is over, and charge its bytes."""
        if request.permit is not None:
            request.permit.release()
        if request.principal is None or request.backend is None:
            return
        if self._limits.applies:
            self._charge(request)
        tenant = request.principal.tenant
        if isinstance(request.fault, TasksLimited):
            self._limits.on_hit("open_tasks", "tenant", tenant if tenant in self._named else OTHER)

    def _charge(self, request: RequestContext) -> None:
        """Charge the bytes since the last time: a stream of days must not owe all of them at its end."""
        assert request.principal is not None
        assert request.backend is not None
        due = request.bytes_in + request.bytes_out - request.paid
        request.paid += due
        request.toll = request.bytes_out + _TOLL
        self._limits.spend(request.principal.tenant, request.backend, due, self._clock())


class Quotas(NamedTuple):
    """The quotas of tenants and backends, by their names."""

    tenants: Mapping[str, Quota]
    agents: Mapping[str, Quota]


def quotas_of(config: Config) -> Quotas:
    """Return the quotas of a configuration; takes 20 µs for each agent."""
    return Quotas(_tenants(config), _agents(config))


def _tenants(config: Config) -> Mapping[str, Quota]:
    found = {name: _quota(effective.tenant_limits(config, name)) for name in config.tenants}
    return found if any(quota != Quota() for quota in found.values()) else {}


def _agents(config: Config) -> Mapping[str, Quota]:
    found: dict[str, Quota] = {}
    for name, agent in config.agents.items():
        if agent.backend:
            found[name] = _quota(effective.limits(config, agent))
        for tenant in agent.by_tenant:
            found[backend_key(name, tenant)] = _quota(effective.limits(config, agent, tenant))
    return {key: quota for key, quota in found.items() if quota != Quota()}


def _quota(written: Written) -> Quota:
    weight = written.weight if isinstance(written, TenantLimits) else None
    assert written.queue is not None
    assert written.queue_timeout is not None
    return Quota(
        requests=written.requests,
        burst=written.burst,
        concurrency=written.concurrency,
        queue=written.queue,
        queue_timeout=written.queue_timeout,
        streams=written.streams,
        body=written.body,
        bandwidth=written.bandwidth,
        weight=weight or 1.0,
    )
