"""One replica of a backend: its upstream, its connections, and its health.

Slow start. A replica that is new, or back, has a tenth of its weight at first and all of it after ten seconds: its
caches are cold, and with no open calls it would get every call.

What is known about a replica, its `Condition`, survives configuration changes, as its connections do.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.upstream.circuit_breaker import CircuitBreaker
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # A configuration without such an agent never loads gRPC.
    from gateway.upstream.grpc_channel import GrpcChannel

_SLOW_START = 10.0
_LEAST = 0.1


class Condition:
    """The health of one replica, as far as calls and health checks show it.

    Args:
        ejection: Its circuit breaker.
        since: When it came; None if it was there from the start.

    Attributes:
        active: Its open calls.
        down: Why its health checks fail; empty while they pass, or without health checks.
        gone: Whether DNS no longer has its address; open calls continue.
        ejections: The number of times it was ejected.
    """

    __slots__ = ("_contrary_probes", "_since", "active", "down", "ejection", "ejections", "gone")

    def __init__(self, ejection: CircuitBreaker | None = None, since: float | None = None) -> None:
        self.ejection = CircuitBreaker(0, 1.0) if ejection is None else ejection
        self.active = 0
        self.down = ""
        # Health checks in a row that differ from `down`.
        self._contrary_probes = 0
        self.gone = False
        self.ejections = 0
        self._since = since

    def is_available(self, now: float) -> bool:
        """Return whether a call that may go anywhere may go here."""
        return not self.gone and not self.down and self.ejection.admits(now)

    @property
    def is_up(self) -> bool:
        """Return whether it is neither down nor ejected."""
        return not self.down and not self.ejection.is_open

    def warmth(self, now: float) -> float:
        """Return the share of its weight that it has in its slow start, from 0 to 1."""
        if self._since is None:
            return 1.0
        passed = now - self._since
        if passed >= _SLOW_START:
            self._since = None
            return 1.0
        return max(_LEAST, passed / _SLOW_START)

    def succeeded(self, now: float) -> None:
        """Count a call that succeeded, as far as the replica is concerned."""
        if self.ejection.succeeded():
            self._since = now

    def probed(self, now: float, why: str, *, fail_after: int, pass_after: int) -> bool:
        """Count a health check; return whether the replica went down or came up.

        Args:
            why: The reason of the failure; empty for a success.
        """
        was_down = self.down != ""
        if was_down == (why != ""):
            self.down = why
            self._contrary_probes = 0
            return False
        self._contrary_probes += 1
        if self._contrary_probes < (pass_after if was_down else fail_after):
            return False
        self.down = why
        self._contrary_probes = 0
        if was_down:
            self._since = now
        return True

    def state(self, now: float) -> str:
        """Describe it for operators."""
        if self.gone:
            return f"its address is no longer one of its name; {self.active} calls continue"
        if self.down:
            return f"down: {self.down}"
        ejection = self.ejection
        failed = f"{ejection.failures} calls in a row failed, the last one: {ejection.why}"
        if ejection.is_open:
            left = ejection.left(now)
            return f"ejected {f'for {left:.0f} s more' if left > 0 else 'until a call succeeds'}: {failed}"
        if ejection.failures:
            return f"up; {failed}"
        warmth = self.warmth(now)
        return "up" if warmth == 1 else f"up; warming, with {100 * warmth:.0f} % of its weight"


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The connections to one replica and what is known about it; both survive configuration changes.

    Attributes:
        address: The resolved address, where each address of a name is a replica; else None.
    """

    connections: "ConnectionPool | GrpcChannel"
    condition: Condition
    address: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One replica, as a configuration has it.

    Attributes:
        name: Its name in the ledger; empty for the only one.
        key: Its name in metrics; all addresses of one DNS name share it.
        place: Its name in the ledger if it is the only one: others may be added later.
    """

    name: str
    key: str
    upstream: Upstream
    url: str
    weight: int = 100
    label: str | None = None
    condition: Condition = field(default_factory=Condition)
    place: str = ""

    def share(self, now: float) -> float:
        """Return its weight, as far as it has warmed up."""
        return self.weight * self.condition.warmth(now)
