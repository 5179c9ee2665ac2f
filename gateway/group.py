"""The replicas of one backend: which of them a call goes to, and what their calls tell of them.

A backend with one replica, and no breaker, has no group: its calls go where there is only one way.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from gateway.a2a.fault import NoHealthyBackend
from gateway.config.agent import Affinity
from gateway.headless import Headless
from gateway.upstream.fuse import Fuse
from gateway.upstream.replica import Replica, Station, choose

if TYPE_CHECKING:
    from gateway.backing import Backing


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which replica follow-ups go to; see `config.agent.Affinity`.

    Attributes:
        by: `task`, `context` or `none`.
        strict: Whether a call whose replica cannot be asked is refused.
        wait: Seconds that it waits for it.
    """

    by: str = "task"
    strict: bool = True
    wait: float = 0.0

    @classmethod
    def of(cls, written: Affinity) -> "Keeping":
        """What the file says; every key is written."""
        return cls(written.by or "task", written.gone != "other", written.wait or 0.0)

    def binds(self, *, by_task: bool) -> bool:
        """Whether a call goes to its replica or to none.

        Args:
            by_task: Whether it is known by a task; else by a context.
        """
        return self.strict and (by_task or self.by == "context")


@dataclass(frozen=True, slots=True)
class Turn:
    """One call that a replica has.

    Attributes:
        tries: Whether it is the one by which the replica is tried.
        tries_all: Likewise, the backend as a whole.
    """

    group: "Group"
    replica: Replica
    tries: bool
    tries_all: bool

    def failed(self, why: str) -> None:
        """It failed, and the replica is to blame, or the way to it."""
        self.group.failed(self.replica, why, tries=self.tries, tries_all=self.tries_all)

    def end(self) -> None:
        """It is over, however it went."""
        self.replica.condition.end(trial=self.tries)
        if self.tries_all:
            self.group.breaker.abandoned()


@dataclass(frozen=True, slots=True)
class Named:
    """A name whose addresses are replicas.

    Attributes:
        like: What a member is like, but for its replica.
        make: The replica at an address.
    """

    headless: Headless
    like: "Backing"
    make: Callable[[Station], Replica]


@dataclass(slots=True)
class Group:
    """The replicas of one backend.

    Attributes:
        members: A backing for each of them, by the name of the replica; see `gather`.
        breaker: What the calls to all of them together tell.
        most_ejected: How many of them may be left alone at a time, in percent, but one in any case.
        names: Those whose addresses are replicas.
        written: Addresses, with their ports, at which there is a replica that the file names by itself: with its label
            and its weight it stands for that address of a name, too.
        formerly: What replicas are called now that may have had no label, by their host and port: the ledger may know
            them so. Empty for a name: which of its addresses it was nobody knows.
        on_ejection: Told of each replica that is left alone from now on.
    """

    keeping: Keeping
    breaker: Fuse
    most_ejected: int = 50
    members: "dict[str, Backing]" = field(default_factory=dict)
    names: list[Named] = field(default_factory=list)
    written: frozenset[tuple[str, int]] = frozenset()
    formerly: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    on_ejection: Callable[[Replica], None] = lambda _replica: None
    # What of the members is at addresses of names, and as of which look-ups.
    _found: frozenset[str] = frozenset()
    _as_of: int = -1

    def gather(self) -> "dict[str, Backing]":
        """The members, once those are among them that names have by now."""
        if self.names and self._as_of != (as_of := sum(each.headless.version for each in self.names)):
            self._as_of = as_of
            found: dict[str, Backing] = {}
            own = self.members.keys() - self._found
            for named in self.names:
                for address, station in named.headless.stations.items():
                    if (address, named.headless.port) in self.written:
                        continue
                    replica = named.make(station)
                    if replica.name in found or replica.name in own:
                        # Of two names that have it, it is the replica of the first.
                        continue
                    known = self.members.get(replica.name)
                    if known is None or known.replica.condition is not station.condition:
                        known = member(named.like, replica)
                    found[replica.name] = known
            for name in self._found - found.keys():
                del self.members[name]
            self.members |= found
            self._found = frozenset(found)
        return self.members

    def replicas(self) -> Iterable[Replica]:
        """Those that there are."""
        return (each.replica for each in self.gather().values())

    def has(self, name: str) -> bool:
        """Whether there is a replica of this name."""
        return name in self.gather()

    def called(self, name: str) -> str:
        """What a replica is called now; empty where nobody knows which one it was."""
        return name if self.has(name) else self.formerly.get(name, name)

    @property
    def is_settled(self) -> bool:
        """Whether it is known which replicas there are, or of some of them."""
        return len(self.members) > len(self._found) or all(each.headless.settled.is_set() for each in self.names)

    async def settled(self) -> None:
        """Wait until each name was looked up, or could not be."""
        for each in self.names:
            await each.headless.settled.wait()

    @property
    def trouble(self) -> list[str]:
        """What operators should know of its names."""
        return [each.headless.error for each in self.names if each.headless.error]

    def admit(self) -> None:
        """Refuse a call where the backend as a whole is left alone.

        Raises:
            NoHealthyBackend: it is.
        """
        now = self.clock()
        if not self.breaker.admits(now):
            detail = f"{self.breaker.failures} calls in a row failed, the last one: {self.breaker.why}"
            after = max(1.0, self.breaker.left(now))
            raise NoHealthyBackend("the agent does not answer for now", detail=detail, retry_after=after)

    def lead(self, home: str, *, binds: bool) -> "Backing":
        """Where a call goes first.

        Args:
            home: The replica that it belongs to; empty for none.
            binds: Whether it goes there or nowhere.

        Raises:
            NoHealthyBackend: there is nobody to ask.
        """
        found = self.gather().get(home) if home else None
        if found is not None and (binds or found.replica.condition.may_be_asked(self.clock())):
            return found
        if home and binds:
            detail = f"it belongs to {home!r}, which is no replica any more"
            raise NoHealthyBackend("the replica of the agent that has this task is gone", detail=detail)
        return self.another(())

    def another(self, tried: Iterable[str]) -> "Backing":
        """Where a call goes that may go anywhere, best to none of those that were tried.

        Raises:
            NoHealthyBackend: there is nobody to ask.
        """
        now, avoided = self.clock(), frozenset(tried)
        replicas = list(self.replicas())
        fresh = [each for each in replicas if each.name not in avoided and each.weight]
        found = choose([each for each in fresh if each.condition.may_be_asked(now)] or replicas, now, self.chance)
        if found is None:
            raise NoHealthyBackend(
                "the agent has no replica for now", detail="its name has no address", retry_after=1.0
            )
        return self.members[found.name]

    def steady(self, owner: str) -> "Backing":
        """Where the calls of one caller go that are about no task, so that one page of a list follows on the other."""
        now = self.clock()
        there = [each for each in self.replicas() if each.condition.may_be_asked(now) and each.weight]
        if not there:
            return self.another(())
        # The same in every process, and for each that leaves only its own callers move.
        return self.members[max(there, key=lambda each: blake2b(f"{owner} {each.name}".encode()).digest()).name]

    def begin(self, replica: Replica) -> "Turn":
        """A call is sent to a replica."""
        now = self.clock()
        return Turn(self, replica, replica.condition.begin(now), self.breaker.begin(now))

    # ---- What calls tell -----------------------------------------------------------------------------------------

    def succeeded(self, replica: Replica) -> None:
        """A call went well, as far as the replica is concerned."""
        if replica.condition.ejection.failures:
            replica.condition.succeeded(self.clock())
        if self.breaker.failures:
            self.breaker.succeeded()

    def failed(self, replica: Replica, why: str, *, tries: bool = False, tries_all: bool = False) -> None:
        """A call failed for which the replica is to blame, or the way to it.

        Args:
            tries: As `Turn.tries`.
            tries_all: As `Turn.tries_all`.
        """
        now = self.clock()
        self.breaker.failed(now, why, trial=tries_all)
        others = sum(each.condition.ejection.opened for each in self.replicas() if each is not replica)
        most = max(1, len(self.members) * self.most_ejected // 100)
        if len(self.members) < 2:
            most = 0
        if replica.condition.failed(now, why, may_open=others < most, trial=tries):
            self.on_ejection(replica)


def member(like: "Backing", replica: Replica) -> "Backing":
    """The backing of one replica.

    Args:
        like: That of any other.
    """
    return replace(like, upstream=replica.upstream, url=replica.url, replica=replica)
