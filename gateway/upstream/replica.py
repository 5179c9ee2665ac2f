"""One replica of a backend: how much it has to do, and whether it is to be asked; and which of several is.

Of replicas with one weight the one is asked that has least to do. Where weights differ two are drawn by their weights,
and the one of them that has less to do for its weight is asked: so each gets its share while all are quick, and whoever
is slow gets less.

A replica that comes back, or is new, has little of its weight at first and all of it after ten seconds (*slow start*):
caches are cold, and whoever has just started is the first to be asked by the rule of least to do.

How a replica is, its `Condition`, outlives changes of the file, as its connections do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.upstream.connections import ConnectionPool
from gateway.upstream.fuse import Fuse
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    # Who has no such agent does not pay for gRPC.
    from gateway.upstream.grpc_channel import GrpcChannel

_SLOW_START = 10.0
_LEAST = 0.1


class Condition:
    """How one replica is, as far as is known.

    Args:
        ejection: What its own calls tell of it.
        since: When it came; None for one that was there from the start.

    Attributes:
        active: Calls that it has now.
        down: Why requests for its health fail; empty while they do not, or nobody asks.
        gone: Whether its address is no longer one; calls that it has go on.
        ejections: How often it was left alone.
    """

    __slots__ = ("_since", "active", "down", "ejection", "ejections", "failed_probes", "gone", "good_probes")

    def __init__(self, ejection: Fuse | None = None, since: float | None = None) -> None:
        self.ejection = Fuse(0, 1.0) if ejection is None else ejection
        self.active = 0
        self.down = ""
        self.failed_probes = 0
        self.good_probes = 0
        self.gone = False
        self.ejections = 0
        self._since = since

    def may_be_asked(self, now: float) -> bool:
        """Whether calls that may go anywhere go here."""
        return not self.gone and not self.down and self.ejection.admits(now)

    @property
    def is_up(self) -> bool:
        """Whether it seems to be there: neither down nor left alone."""
        return not self.down and not self.ejection.opened

    def warmth(self, now: float) -> float:
        """How much of its weight it has, from 0 to 1."""
        since = self._since
        if since is None:
            return 1.0
        passed = now - since
        if passed >= _SLOW_START:
            self._since = None
            return 1.0
        return max(_LEAST, passed / _SLOW_START)

    def begin(self, now: float) -> bool:
        """A call goes to it; whether that is the one by which it is tried."""
        self.active += 1
        return self.ejection.begin(now)

    def end(self, *, trial: bool) -> None:
        """A call is over, however it went.

        Args:
            trial: What `begin` gave.
        """
        self.active -= 1
        if trial:
            # Where it went well or failed the fuse knows already, and this changes nothing.
            self.ejection.abandoned()

    def succeeded(self, now: float) -> None:
        """A call went well, as far as the replica is concerned."""
        if self.ejection.succeeded():
            self._since = now

    def failed(self, now: float, why: str, *, may_open: bool, trial: bool) -> bool:
        """A call failed; whether the replica is left alone from now on.

        Args:
            trial: What `begin` gave.
        """
        opened = self.ejection.failed(now, why, may_open=may_open, trial=trial)
        self.ejections += opened
        return opened

    def probed(self, now: float, why: str, *, fail_after: int, pass_after: int) -> bool:
        """What a request for its health came to; whether that changed anything.

        Args:
            why: What was wrong, in words; empty for nothing.
        """
        before = self.down
        if why:
            self.good_probes = 0
            self.failed_probes += 1
            if self.failed_probes >= fail_after or self.down:
                self.down = why
        else:
            self.failed_probes = 0
            self.good_probes += 1
            if self.down and self.good_probes >= pass_after:
                self.down = ""
                self._since = now
        return (before == "") != (self.down == "")

    def state(self, now: float) -> str:
        """How it is, in words for operators."""
        if self.gone:
            return f"its address is no longer one of its name; {self.active} calls go on"
        if self.down:
            return f"down: {self.down}"
        ejection = self.ejection
        if ejection.opened:
            left = ejection.left(now)
            when = f"for {left:.0f} s more" if left > 0 else "until a call goes well"
            return f"left alone {when}: {ejection.failures} calls in a row failed, the last one: {ejection.why}"
        if ejection.failures:
            return f"up; {ejection.failures} calls in a row failed, the last one: {ejection.why}"
        if (warmth := self.warmth(now)) < 1:
            return f"up; warming, with {100 * warmth:.0f} % of its weight"
        return "up"


@dataclass(frozen=True, slots=True, eq=False)
class Station:
    """What of a replica outlives a configuration.

    Attributes:
        address: That of its name's addresses where it is; None where the name is one replica.
    """

    connections: "ConnectionPool | GrpcChannel"
    condition: Condition
    address: str | None = None

    def at(self, url: str) -> str:
        """Where it is, for operators."""
        return url if self.address is None else f"{url} at {self.address}"


class Replica:
    """One replica, as a configuration has it.

    Args:
        name: What the ledger calls it.
        key: What metrics call it; several that one name of DNS gives have one.
        place: What the ledger calls it where it has no name, for it is the only one: others may come.
    """

    __slots__ = ("condition", "key", "label", "name", "place", "upstream", "url", "weight")

    def __init__(
        self,
        name: str,
        key: str,
        upstream: Upstream,
        *,
        url: str,
        weight: int = 100,
        label: str | None = None,
        condition: Condition | None = None,
        place: str = "",
    ) -> None:
        self.name = name
        self.place = name or place
        self.key = key
        self.upstream = upstream
        self.url = url
        self.weight = weight
        self.label = label
        self.condition = Condition() if condition is None else condition

    def share(self, now: float) -> float:
        """Its weight, as far as it is warm."""
        return self.weight * self.condition.warmth(now)


def choose(replicas: Sequence[Replica], now: float, chance: Callable[[], float]) -> Replica | None:
    """Which of the replicas is asked next; None where there is none.

    Those that may not be asked are asked only where there is no other, and weightless ones where all are.

    Args:
        chance: A number from 0 to 1.
    """
    open_to_all = [each for each in replicas if each.weight and each.condition.may_be_asked(now)]
    if not open_to_all:
        there = [each for each in replicas if not each.condition.gone]
        there = [each for each in there if each.weight] or there
        # Whoever was not found down is the better guess; and then whoever has failed least.
        return min(there, key=_badness, default=None)
    if len(open_to_all) == 1:
        return open_to_all[0]
    shares = [each.share(now) for each in open_to_all]
    if len(set(shares)) == 1:
        least = min(each.condition.active for each in open_to_all)
        idle = [each for each in open_to_all if each.condition.active == least]
        return idle[int(chance() * len(idle)) % len(idle)]
    first, second = _drawn(open_to_all, shares, chance()), _drawn(open_to_all, shares, chance())
    one, other = open_to_all[first], open_to_all[second]
    return other if other.condition.active / shares[second] < one.condition.active / shares[first] else one


def _badness(replica: Replica) -> tuple[bool, int, int]:
    condition = replica.condition
    return condition.down != "", condition.ejection.failures, condition.active


def _drawn(replicas: Sequence[Replica], shares: Sequence[float], at: float) -> int:
    left = at * sum(shares)
    for index, share in enumerate(shares):
        left -= share
        if left < 0:
            return index
    return len(replicas) - 1
