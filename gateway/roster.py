"""The replicas of one backend, made of what the file says, and what is told of their health."""

import ipaddress
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from gateway.approach import Approach, OverGrpc, OverHttp
from gateway.cards.fetch import CardSource
from gateway.config.agent import Affinity, Backend, Health, is_several, is_stdio, place_name, replica_name
from gateway.group import Group, Keeping, Named, member
from gateway.headless import Headless, port_of
from gateway.holdings import Holdings
from gateway.upstream.fuse import Fuse
from gateway.upstream.probe import Probe, Probing
from gateway.upstream.replica import Condition, Replica, Station
from gateway.upstream.upstream import Upstream

if TYPE_CHECKING:
    from gateway.backing import Backing

Credentials: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Roster:
    """The replicas of one backend.

    Args:
        key: The key of the backend.
        written: Its replicas, as the file has them; one alone where it is no list.
        health: Every key of it is written.
        holdings: Keep how they are through changes of the file that are not about that.
    """

    def __init__(self, key: str, written: tuple[Backend, ...], health: Health, holdings: Holdings) -> None:
        self._key = key
        self._written = written
        self._health = health
        self._holdings = holdings
        self._several = is_several(written)

    def alone(self, upstream: Upstream) -> Replica:
        """The replica of a backend that has no other and no connections that could be watched."""
        [one] = self._written
        return self._replica(one, upstream, self._condition(one))

    def replicas(self, approach: Approach, source: CardSource, credentials: Credentials) -> list[Replica]:
        """Those that the file names; one whose addresses are replicas stands for all of them until they are known."""
        found = []
        for one in self._written:
            station = Station(approach.connections(one), self._condition(one))
            found.append(self._replica(one, approach.upstream(one, source, station.connections), station.condition))
            if self._health.path is not None:
                self._watch(one, approach, station, credentials)
        return found

    def group(self, affinity: Affinity, on_ejection: Callable[[Replica], None]) -> Group | None:
        """The group of the replicas, none of them in it yet; None where there is one, and it is asked in any case."""
        breaker = self._health.breaker
        after, span = breaker.after or 0, breaker.time or 5.0
        if not self._several and not after:
            return None
        fuse = self._holdings.hold(("breaker", self._key), (after, span), lambda: Fuse(after, span))
        return Group(Keeping.of(affinity), fuse, most_ejected=self._health.eject.most or 0, on_ejection=on_ejection)

    def fill(self, group: Group, backing: "Backing", replicas: list[Replica], approach: Approach | None) -> None:
        """Put the replicas into their group, and see to it that those of names come as their addresses do.

        Args:
            backing: That of the first replica.
        """
        for one, replica in zip(self._written, replicas, strict=True):
            group.formerly[place_name(one)] = replica.name if one.dns is None else ""
            if one.dns is None or approach is None:
                group.written |= _addresses(one.url)
                group.members[replica.name] = member(backing, replica)
            else:
                # What was made of the name itself is asked for the card alone.
                make = partial(self._at, one, approach, backing.source)
                group.names.append(Named(self._headless(one, approach.way(one)), backing, make))

    def _headless(self, one: Backend, way: OverHttp | OverGrpc) -> Headless:
        said = self._said(one)

        def make(address: str, since: float | None) -> Station:
            return Station(way.open(address), _condition(said, since), address)

        return self._holdings.hold(
            ("addresses", self._key, replica_name(one)),
            (way, said),
            lambda: Headless(one.url, make),
            run=lambda names: (f"addresses of {self._key}@{replica_name(one)}", names.run),
            close=lambda names: names.aclose,
        )

    def _at(self, one: Backend, approach: Approach, source: CardSource, station: Station) -> Replica:
        return self._replica(
            one, approach.upstream(one, source, station.connections), station.condition, station.address
        )

    def _replica(self, one: Backend, upstream: Upstream, condition: Condition, address: str | None = None) -> Replica:
        name, url = replica_name(one), one.url
        port = urlsplit(url).netloc.rpartition(":")[2]
        own = name if address is None else f"{address}:{port}" if port.isdigit() else address
        return Replica(
            own if self._several else "",
            f"{self._key}@{name}" if self._several else self._key,
            upstream,
            url=url if address is None else f"{url} at {address}",
            weight=one.weight,
            label=one.label,
            condition=condition,
            place="" if is_stdio(one.url) else name,
        )

    def _said(self, one: Backend) -> tuple[str, int, float, float, str | None]:
        """What the file says of which another condition would be."""
        eject = self._health.eject
        return one.url, eject.after or 0, eject.time or 10.0, eject.longest or 300.0, self._health.path

    def _condition(self, one: Backend) -> Condition:
        said = self._said(one)
        name, before = ("condition", self._key, replica_name(one)), self._holdings.before
        # One that comes while others are asked is new; those that were there when the gateway started are not.
        is_new = before(name) is None and before(("card", self._key)) is not None
        since = time.monotonic() if is_new else None
        return self._holdings.hold(name, said, lambda: _condition(said, since))

    def _watch(self, one: Backend, approach: Approach, station: Station, credentials: Credentials) -> None:
        """Have a replica asked how it is, or all of those that a name has."""
        whom: object = (station.connections, station.condition)
        stations: Callable[[], Iterable[Station]] = partial(_alone, station)
        if one.dns is not None:
            headless = whom = self._headless(one, approach.way(one))
            stations = headless.stations.values
        probing = _probing(self._health)
        name = f"{self._key}@{replica_name(one)}" if self._several else self._key
        self._holdings.hold(
            ("health", self._key, replica_name(one)),
            (one.url, probing, credentials, whom),
            lambda: Probe(name, one.url, stations, probing, credentials=credentials),
            run=lambda probe: (f"health of {name}", probe.run),
            lingers=False,
        )


def _addresses(url: str) -> frozenset[tuple[str, int]]:
    """The address and port of a URL; none where its host is a name."""
    parts = urlsplit(url)
    try:
        return frozenset([(str(ipaddress.ip_address(parts.hostname or "")), port_of(url))])
    except ValueError:
        return frozenset()


def _alone(station: Station) -> tuple[Station]:
    return (station,)


def _probing(health: Health) -> Probing:
    written = {name: getattr(health, name) for name in ("path", "every", "timeout", "fail_after", "pass_after")}
    return Probing(**written)


def _condition(said: tuple[str, int, float, float, str | None], since: float | None = None) -> Condition:
    _, after, time, longest, _ = said
    return Condition(Fuse(after, time, longest), since)
