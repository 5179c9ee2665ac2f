"""The replicas of one backend: which of them a call goes to, and what call results say about each of them.

Selection. With equal weights the replica with the fewest open calls gets the call. With different weights two replicas
are drawn by weight, and the one with fewer open calls per weight gets it: each gets its share while all are quick, and
a slow one gets less.

Outlier detection. A replica whose calls fail in a row is ejected for a while (`circuit_breaker.py`); never more than a
share of all replicas at a time. The backend as a whole may have a circuit breaker, too.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from gateway.a2a.fault import NoHealthyBackend
from gateway.upstream.circuit_breaker import CircuitBreaker
from gateway.upstream.dns import Discovery
from gateway.upstream.replica import Replica, Target

NOT_HALF_OPEN = (False, False)
"""As `Balancer.begin` returns it for a call that is no half-open one."""


def choose(replicas: Sequence[Replica], now: float, chance: Callable[[], float]) -> Replica | None:
    """Return the replica that gets the next call; None if there is none.

    An unavailable replica is chosen only if none is available, and one without weight only if none has any.

    Args:
        chance: Returns a number from 0 to 1.
    """
    available = [each for each in replicas if each.weight and each.condition.is_available(now)]
    if not available:
        there = [each for each in replicas if not each.condition.gone]
        return min([each for each in there if each.weight] or there, key=_badness, default=None)
    if len(available) == 1:
        return available[0]
    shares = [each.share(now) for each in available]
    if len(set(shares)) == 1:
        least = min(each.condition.active for each in available)
        idle = [each for each in available if each.condition.active == least]
        return idle[int(chance() * len(idle)) % len(idle)]
    first, second = _draw(shares, chance()), _draw(shares, chance())
    one, other = available[first], available[second]
    return other if other.condition.active / shares[second] < one.condition.active / shares[first] else one


def _badness(replica: Replica) -> tuple[bool, int, int]:
    """Order replicas that are all unavailable: failed health checks are worst, then failed calls, then open calls."""
    condition = replica.condition
    return condition.down != "", condition.ejection.failures, condition.active


def _draw(shares: Sequence[float], at: float) -> int:
    left = at * sum(shares)
    for index, share in enumerate(shares):
        left -= share
        if left < 0:
            return index
    return len(shares) - 1


@dataclass(frozen=True, slots=True)
class AffinityPolicy:
    """Which replica a follow-up call goes to; see `config.agent.Affinity`.

    Attributes:
        by: `task`, `context` or `none`.
        strict: Whether a call whose replica is unavailable is refused.
        wait: Seconds for which it waits for that replica.
    """

    by: str = "task"
    strict: bool = True
    wait: float = 0.0

    def binds(self, *, by_task: bool) -> bool:
        """Return whether a call goes to its replica or to none.

        Args:
            by_task: Whether the replica is known by a task; else by a context.
        """
        return self.strict and (by_task or self.by == "context")


@dataclass(slots=True)
class Balancer:
    """The replicas of one backend.

    Attributes:
        fixed: The replicas that the file names, by name.
        only: The replica that gets every call; None if there is a choice, or a circuit breaker.
        names: DNS names whose addresses are replicas, each with what makes a replica of an address.
        breaker: The circuit breaker of the backend as a whole.
        max_ejected: The most replicas that may be ejected at a time, in percent; one always may.
        own_addresses: Addresses and ports of replicas that the file names; DNS adds no second replica there.
        former_names: Current names of replicas by host and port: the ledger may know a replica from before it had a
            label. Empty for a DNS name: it is unknown which of its addresses it was.
        on_ejection: Called with each replica that is ejected.
    """

    affinity: AffinityPolicy = AffinityPolicy()
    breaker: CircuitBreaker = field(default_factory=lambda: CircuitBreaker(0, 5.0))
    max_ejected: int = 50
    fixed: dict[str, Replica] = field(default_factory=dict)
    only: Replica | None = None
    names: list[tuple[Discovery, Callable[[Target], Replica]]] = field(default_factory=list)
    own_addresses: set[tuple[str, int]] = field(default_factory=set)
    former_names: dict[str, str] = field(default_factory=dict)
    on_ejection: Callable[[Replica], None] = lambda _replica: None
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    _resolved: dict[str, Replica] = field(default_factory=dict)
    _version: int = -1

    @property
    def replicas(self) -> dict[str, Replica]:
        """Return all current replicas by name, those that DNS has found included."""
        if not self.names:
            return self.fixed
        version = sum(discovery.version for discovery, _ in self.names)
        if version != self._version:
            self._version = version
            before, self._resolved = self._resolved, dict(self.fixed)
            for discovery, make in self.names:
                for address, target in discovery.targets.items():
                    if (address, discovery.port) not in self.own_addresses:
                        replica = make(target)
                        known = before.get(replica.name)
                        is_same = known is not None and known.condition is target.condition
                        # The file's own replica wins, and of two names with one address the first.
                        self._resolved.setdefault(replica.name, known if known is not None and is_same else replica)
        return self._resolved

    def current_name(self, name: str) -> str:
        """Return the current name of a replica that the ledger knows; empty if it is unknown which one it was."""
        return name if name in self.replicas else self.former_names.get(name, name)

    @property
    def is_settled(self) -> bool:
        """Return whether any replica is known, or every name was looked up."""
        return bool(self.fixed) or all(discovery.settled.is_set() for discovery, _ in self.names)

    async def settled(self) -> None:
        """Wait until every name was looked up, successfully or not."""
        for discovery, _ in self.names:
            await discovery.settled.wait()

    @property
    def trouble(self) -> list[str]:
        """Return the DNS errors, for operators."""
        return [discovery.error for discovery, _ in self.names if discovery.error]

    # ---- Selection -----------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Refuse a call while the circuit breaker is open.

        Raises:
            NoHealthyBackend: it is.
        """
        now = self.clock()
        if not self.breaker.admits(now):
            detail = f"{self.breaker.failures} calls in a row failed, the last one: {self.breaker.why}"
            after = max(1.0, self.breaker.left(now))
            raise NoHealthyBackend("the agent does not answer for now", detail=detail, retry_after=after)

    def lead(self, home: str, *, binds: bool) -> Replica:
        """Return the replica that a call goes to first.

        Args:
            home: The replica that it belongs to; empty for none.
            binds: Whether it goes there or nowhere.

        Raises:
            NoHealthyBackend: there is none.
        """
        found = self.replicas.get(home) if home else None
        if found is not None and (binds or found.condition.is_available(self.clock())):
            return found
        if home and binds:
            detail = f"it belongs to {home!r}, which is no replica any more"
            raise NoHealthyBackend("the replica of the agent that has this task is gone", detail=detail)
        return self.another(())

    def another(self, tried: Sequence[str]) -> Replica:
        """Return the replica for a call that may go anywhere, if possible none that was tried.

        Raises:
            NoHealthyBackend: there is none.
        """
        now, replicas = self.clock(), list(self.replicas.values())
        fresh = [each for each in replicas if each.name not in tried and each.weight]
        found = choose([each for each in fresh if each.condition.is_available(now)] or replicas, now, self.chance)
        if found is None:
            raise NoHealthyBackend(
                "the agent has no replica for now", detail="its name has no address", retry_after=1.0
            )
        return found

    def steady(self, key: str) -> Replica:
        """Return the replica for a key, always the same one, so that the pages of a caller's list fit together."""
        now = self.clock()
        available = [each for each in self.replicas.values() if each.weight and each.condition.is_available(now)]
        if not available:
            return self.another(())
        # Rendezvous hashing: the same in every process, and a lost replica moves its own keys only.
        return max(available, key=lambda each: blake2b(f"{key} {each.name}".encode()).digest())

    # ---- Results -------------------------------------------------------------------------------------------------

    def begin(self, replica: Replica) -> tuple[bool, bool]:
        """Count a call; return whether it is the half-open call of the replica, and that of the backend."""
        condition = replica.condition
        condition.active += 1
        if not condition.ejection.is_open and not self.breaker.is_open:
            return NOT_HALF_OPEN
        now = self.clock()
        return condition.ejection.begin(now), self.breaker.begin(now)

    def end(self, replica: Replica, half_open: tuple[bool, bool]) -> None:
        """Count the end of a call, after its result if there is one.

        Args:
            half_open: As `begin` returned them.
        """
        replica.condition.active -= 1
        if half_open is NOT_HALF_OPEN:
            return
        if half_open[0]:
            replica.condition.ejection.abandoned()
        if half_open[1]:
            self.breaker.abandoned()

    def succeeded(self, replica: Replica) -> None:
        """Count a call that succeeded, as far as the replica is concerned."""
        if replica.condition.ejection.failures:
            replica.condition.succeeded(self.clock())
        if self.breaker.failures:
            self.breaker.succeeded()

    def failed(self, replica: Replica, why: str, half_open: tuple[bool, bool] = NOT_HALF_OPEN) -> None:
        """Count a call that failed because of the replica, or the way to it.

        Args:
            half_open: As `begin` returned them.
        """
        now, replicas = self.clock(), self.replicas
        self.breaker.failed(now, why, half_open=half_open[1])
        others = sum(each.condition.ejection.is_open for each in replicas.values() if each is not replica)
        # A single replica gets its calls all the same; it is only shown as ejected, and not retried.
        is_single = len(replicas) < 2
        may_open = is_single or others < max(1, len(replicas) * self.max_ejected // 100)
        if replica.condition.ejection.failed(now, why, may_open=may_open, half_open=half_open[0]):
            replica.condition.ejections += 1
            if not is_single:
                self.on_ejection(replica)
