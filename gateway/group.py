"""The replicas of one backend: which of them a call goes to, and what their calls tell of them.

A backend with one replica, and no breaker, has no group: its calls go where there is only one way.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from gateway.a2a.fault import NoHealthyBackend
from gateway.config.replica import Affinity
from gateway.upstream.fuse import Fuse
from gateway.upstream.replica import Replica, choose

if TYPE_CHECKING:
    from gateway.backing import Backing


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which replica follow-ups go to; see `config.replica.Affinity`.

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

    def end(self) -> None:
        """It is over, however it went."""
        self.replica.end(trial=self.tries)
        if self.tries_all:
            self.group.breaker.abandoned()


@dataclass(slots=True)
class Group:
    """The replicas of one backend.

    Attributes:
        members: A backing for each of them, by the name of the replica.
        breaker: What the calls to all of them together tell.
        most_ejected: How many of them may be left alone at a time, in percent, but one in any case.
        settled: Set once its replicas are known.
        trouble: What operators should know of its names, by name.
        on_ejection: Told of each replica that is left alone from now on.
    """

    keeping: Keeping
    breaker: Fuse
    most_ejected: int = 50
    members: "dict[str, Backing]" = field(default_factory=dict)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    on_ejection: Callable[[Replica], None] = lambda _replica: None

    def replicas(self) -> Iterable[Replica]:
        """Those that there are."""
        return (member.replica for member in self.members.values())

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
        found = self.members.get(home) if home else None
        if found is not None and (binds or found.replica.may_be_asked(self.clock())):
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
        fresh = [each for each in replicas if each.name not in avoided]
        found = choose([each for each in fresh if each.may_be_asked(now)] or replicas, now, self.chance)
        if found is None:
            raise NoHealthyBackend(
                "the agent has no replica for now", detail="its name has no address", retry_after=1.0
            )
        return self.members[found.name]

    def steady(self, owner: str) -> "Backing":
        """Where the calls of one caller go that are about no task, so that one page of a list follows on the other."""
        now = self.clock()
        there = [each for each in self.replicas() if each.may_be_asked(now) and each.weight]
        if not there:
            return self.another(())
        # The same in every process, and for each that leaves only its own callers move.
        return self.members[max(there, key=lambda each: blake2b(f"{owner} {each.name}".encode()).digest()).name]

    def begin(self, replica: Replica) -> "Turn":
        """A call is sent to a replica."""
        now = self.clock()
        return Turn(self, replica, replica.begin(now), self.breaker.begin(now))

    # ---- What calls tell -----------------------------------------------------------------------------------------

    def succeeded(self, replica: Replica) -> None:
        """A call went well, as far as the replica is concerned."""
        if replica.ejection.failures:
            replica.succeeded(self.clock())
        if self.breaker.failures:
            self.breaker.succeeded()

    def failed(self, replica: Replica, why: str) -> None:
        """A call failed for which the replica is to blame, or the way to it."""
        now = self.clock()
        self.breaker.failed(now, why)
        others = sum(each.ejection.opened for each in self.replicas() if each is not replica)
        most = max(1, len(self.members) * self.most_ejected // 100)
        if len(self.members) < 2:
            most = 0
        if replica.failed(now, why, may_open=others < most):
            self.on_ejection(replica)

    # ---- Members -------------------------------------------------------------------------------------------------

    def add(self, like: "Backing", replica: Replica) -> None:
        """Have one more.

        Args:
            like: Any member.
        """
        self.members[replica.name] = replace(like, upstream=replica.upstream, url=replica.url, replica=replica)

    def remove(self, name: str) -> Replica:
        """Have one fewer; calls that it has go on, and whoever removes it closes it."""
        replica = self.members.pop(name).replica
        replica.gone = True
        return replica
