"""Limits in tests: made in one line, and asked as the line asks them."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest

from gateway.a2a.fault import Fault
from gateway.policy.limits import Permit, Quota, QuotaEnforcer, RateLimitState
from tests.policy.simulated import now

T = TypeVar("T")

ACME, GLOBEX, CRM, ERP = "acme", "globex", "crm", "erp"


class Hits(list[tuple[str, str, str]]):
    """Every refusal that was told of."""

    def __call__(self, limit: str, scope: str, name: str) -> None:
        self.append((limit, scope, name))


def limits(
    tenants: dict[str, Quota] | None = None,
    agents: dict[str, Quota] | None = None,
    *,
    replicas: int = 1,
    **options: Any,
) -> tuple[QuotaEnforcer, Hits]:
    hits = Hits()
    made = QuotaEnforcer(on_hit=hits, **({"clock": lambda: 0.0} | options))
    made.configure(tenants or {}, agents or {}, replicas=replicas)
    return made, hits


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a call that need not wait."""
    with pytest.raises(StopIteration) as done:
        call.send(None)
    return cast("T", done.value.value)


def rate_state(made: QuotaEnforcer, tenant: str, at: float = 0.0) -> RateLimitState | None:
    """Return a tenant's rate limit state after one more request; nothing is awaited while rates are not shared."""
    return at_once(made.arrive(tenant, at))


def admitted(
    made: QuotaEnforcer, tenant: str = ACME, agent: str = CRM, *, stream: bool = False, at: float = 0.0
) -> Permit:
    """A permit that was there at once."""
    permit = at_once(made.admit(tenant, agent, stream=stream, now=at))
    assert permit is not None
    return permit


def waiting(
    made: QuotaEnforcer, tenant: str = ACME, agent: str = CRM, *, stream: bool = False
) -> "asyncio.Task[Permit]":
    """A call that has to wait."""
    admitting = cast("Coroutine[Any, Any, Permit]", made.admit(tenant, agent, stream=stream, now=now()))
    return asyncio.get_running_loop().create_task(admitting)


def refusal(of: "asyncio.Task[Permit]") -> Fault:
    fault = of.exception()
    assert isinstance(fault, Fault)
    return fault
