"""Applies the limits: a tenant's rate before the body is read, all other limits before the agent is called."""

from collections.abc import Callable, Collection, Iterable, Mapping

from gateway.a2a.call import Call
from gateway.a2a.fault import TasksLimited
from gateway.backend.backend import Backend
from gateway.policy.limits import OTHER, OverRate, QuotaEnforcer, Quotas, ratelimit_headers
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
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

    def __init__(self, limits: QuotaEnforcer, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._named: frozenset[str] = frozenset()
        self._most_open: Mapping[str, int] = {}
        self.processes = 1

    def configure(self, quotas: Quotas) -> None:
        """Use the limits of a configuration from now on; used quota and running calls carry over."""
        self._named, self._most_open = quotas.named, quotas.open_tasks
        self._limits.configure(quotas.tenants, quotas.agents, replicas=quotas.replicas * self.processes)

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
            client.extra = [*client.extra, *ratelimit_headers(fault.state)]
            raise
        if state is not None:
            client.extra = [*client.extra, *ratelimit_headers(state)]

    async def admit(self, request: RequestContext, backend: Backend, call: Call) -> None:
        """Admit a call, once there is a slot for it.

        Raises:
            BodyTooLarge: its body exceeds a limit of the tenant or the agent.
            RateLimited, ConcurrencyLimited, StreamsLimited: as `policy.limits.QuotaEnforcer.admit`.
        """
        principal = request.principal
        assert principal is not None
        request.on_toll, request.toll = self._charge, _TOLL
        if not self._limits.applies:
            return
        tenant, key = principal.tenant, backend.upstream.backend
        self._limits.refuse_body(tenant, key, request.bytes_in)
        request.permit = await self._limits.admit(tenant, key, stream=call.operation.streams, now=self._clock())
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
        """Charge the bytes since the last charge, so that a long stream does not owe all of them at its end."""
        assert request.principal is not None
        assert request.backend is not None
        due = request.bytes_in + request.bytes_out - request.paid
        request.paid += due
        request.toll = request.bytes_out + _TOLL
        self._limits.spend(request.principal.tenant, request.backend, due, self._clock())
