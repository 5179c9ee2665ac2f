"""FORWARD where it goes wrong: what a failure tells of a replica, and whether, when and where the call is sent again.

`upstream/repeating.py` says what may be. A call that was never sent goes to another replica at once, if there is one;
all others wait for a moment by chance, so that callers who failed together do not come together. Nothing is repeated
while the backend as a whole is left alone, nor beyond its budget.

A call that belongs to one replica goes there again, and where the file says so it waits for it as long as no connection
can be made: then nothing was sent, whatever it is. So does a message that may have been seen: an agent that takes equal
ids for one knows those that it has met itself, and another replica would act on it once more.

Decision, 2026-11-22: a replica that a call has missed is asked by that call on new connections alone. Who stops closes
its listener first and its connections one after the other: between two refusals a call found one that another call had
just given back, and was reset on it. And to wait is not to repeat: a call that waited had used up its repeats by trying
to connect, and had none for the one time that it was sent. To let a read be sent a third time was refused.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.a2a.call import Call
from gateway.a2a.fault import (
    BadParams,
    Fault,
    MethodNotAllowed,
    NoHealthyBackend,
    Overloaded,
    UpstreamConnect,
    UpstreamProtocol,
    UpstreamReset,
    VersionUnsupported,
)
from gateway.backing import OWN_IDS, Backing
from gateway.exchange import Exchange
from gateway.group import Group, Turn
from gateway.upstream.failure import FAILING, Unsent, counts, tells_nothing
from gateway.upstream.http import HttpUpstream
from gateway.upstream.page import retry_after
from gateway.upstream.repeating import MOST_PATIENCE, Missed, may_repeat, missed
from gateway.upstream.repertoire import Interface
from gateway.upstream.response import Response
from gateway.upstream.upstream import Caller

_SHORTEST = 0.025
_LATER = 0.125
"""Of a second repeat and those behind it: who is away for a moment has had one."""
_LONGEST = 0.25
_LONGEST_WAIT = 1.0
_UNAVAILABLE = 14

T = TypeVar("T")

if TYPE_CHECKING:
    # Who has no such agent does not pay for gRPC.
    from gateway.upstream.grpc_answer import GrpcAnswer


class Asking:
    """Where one call goes: to one replica after the other, until it is answered or may not be sent again.

    Args:
        caller: Who is told to be behind it.
        binds: Whether it goes where it belongs, or nowhere.
        call: As the agent gets it; None for one that goes to that backing whoever came first.

    Raises:
        NoHealthyBackend: as `Group.admit`.

    Attributes:
        backing: The backing of the replica that is asked now.
        interface: Where that speaks the call's dialect.
    """

    __slots__ = (
        "_absent", "_binds", "_caller", "_clock", "_fresh", "_missed", "_pauses", "_since", "_told", "_tried", "_turn",
        "backing", "exchange", "interface",
    )  # fmt: skip

    def __init__(
        self,
        exchange: Exchange,
        backing: Backing,
        interface: Interface,
        clock: Callable[[], float],
        *,
        caller: Caller,
        binds: bool,
        call: Call | None = None,
    ) -> None:
        self.exchange = exchange
        self.backing = backing
        self.interface = interface
        self._clock = clock
        self._caller = caller
        self._binds = binds
        # Whether it is known what the try of the moment tells of the replica: that is told once.
        self._told = False
        self._tried: list[str] = []
        self._missed: dict[Missed, int] = {}
        # Replicas that were missed; whether the one of the moment is among them; since when it is waited for one.
        self._absent: frozenset[str] = frozenset()
        self._fresh = False
        self._since: float | None = None
        self._pauses = 0
        self._turn: Turn | None = None
        if call is not None and backing.group is not None:
            self._give_way(call, backing, backing.group)
        self._begin()

    def _give_way(self, call: Call, backing: Backing, group: Group) -> None:
        """Leave the backend, or the replica, to the call that tries it: it came while it was asked whose this is."""
        group.admit()
        if not self._binds and not backing.replica.condition.may_be_asked(self._clock()):
            self.backing = self._elsewhere(call) or backing

    def _begin(self) -> None:
        backing = self.backing
        backing.budget.call(self._clock() if self.exchange.sent is None else self.exchange.sent)
        if backing.group is not None:
            self._turn = backing.group.begin(backing.replica)
            self._tell()
        if self.exchange.ownership is not None:
            # Also of the only one: by the time that there are others, they are not asked for its tasks.
            self.exchange.ownership.replica = backing.replica.place

    def _tell(self) -> None:
        replica, exchange = self.backing.replica, self.exchange
        exchange.backend = replica.key if replica.name in replica.key else f"{replica.key}@{replica.name}"

    def send(self, call: Call) -> "Coroutine[Any, Any, Response | GrpcAnswer]":
        """Send the call to the replica of the moment."""
        self._told = False
        upstream = self.backing.upstream
        # Such an agent's answers are taken under any id, so that no connection may carry two calls (safety T14).
        is_fresh = self._fresh or OWN_IDS in self.backing.warned
        if is_fresh and isinstance(upstream, HttpUpstream):
            return upstream.send(call, self.interface, self.exchange.head, self._caller, fresh=True)
        return upstream.send(call, self.interface, self.exchange.head, self._caller)

    def stay(self) -> None:
        """Go nowhere else from now on: what follows is about what this replica has told."""
        group = self.backing.group
        self._binds = self._binds or (group is not None and group.keeping.by != "none")

    def end(self) -> None:
        """The call is over, however it ended."""
        if self._turn is not None:
            self._turn.end()
            self._turn = None

    # ---- What answers tell -----------------------------------------------------------------------------------------

    def answered(self, status: int) -> None:
        """The replica has answered, with a status in HTTP's numbers; of one try the first word is what counts."""
        backing = self.backing
        if status in FAILING:
            self._failed(f"status {status}")
            return
        if self._told:
            return
        self._told = True
        if backing.group is not None:
            backing.group.succeeded(backing.replica)
        elif backing.replica.condition.ejection.failures:
            backing.replica.condition.succeeded(self._clock())

    def heard(self, answer: "GrpcAnswer") -> None:
        """The replica has answered over gRPC, where being away is a status as well (14, UNAVAILABLE)."""
        self.answered(503 if answer.status is not None and answer.status.code == _UNAVAILABLE else 200)

    def broke(self, response: Response, fault: Fault) -> None:
        """The answer that had begun came to nothing."""
        if counts(fault) or self._is_garbage(response.fault):
            self._failed(_words(fault))
        elif not tells_nothing(fault):
            self.answered(response.status)

    def _missing(self, fault: Fault) -> None:
        """There was no answer."""
        if counts(fault) or self._is_garbage(fault):
            self._failed(_words(fault))

    def _is_garbage(self, fault: Fault | None) -> bool:
        """Whether what came was no HTTP. Over gRPC it may as well be what the agent makes of this one caller."""
        return isinstance(fault, UpstreamProtocol) and isinstance(self.backing.upstream, HttpUpstream)

    def _failed(self, why: str) -> None:
        if self._told:
            return
        self._told = True
        backing = self.backing
        if self._turn is not None:
            self._turn.failed(why)
        else:
            backing.replica.condition.failed(self._clock(), why, may_open=True, trial=False)

    # ---- Again -----------------------------------------------------------------------------------------------------

    async def again(self, call: Call, fault: Fault, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to a call that went wrong, from wherever it may be sent again.

        Args:
            call: As the agent gets it.
            send: Sends it to `backing`.

        Raises:
            Fault: the last one, where it may not.
        """
        if self._since is None:
            self._since = self._clock()
        lost: UpstreamReset | None = None
        while True:
            self._missing(fault)
            how = missed(fault)
            # Where there was no connection left, only another replica is of any help.
            stays = not isinstance(fault, Overloaded)
            if isinstance(fault, UpstreamReset | UpstreamConnect):
                self._absent |= {self.backing.replica.name}
            if isinstance(fault, UpstreamReset):
                lost = fault
            elif how is Missed.CONNECT and lost is not None:
                # That nothing was sent is true of the last try alone.
                fault = lost
            if how is None:
                raise fault
            if isinstance(fault, Unsent):
                self._leave(call, fault)
            elif not await self._waits(how, self._since) and not (
                self._may(call, how) and await self._move(call, how, stays=stays)
            ):
                raise fault
            self._fresh = self.backing.replica.name in self._absent
            try:
                return await send()
            except Fault as following:
                fault = following

    async def unless_busy(
        self, call: Call, response: Response, send: Callable[[], Coroutine[Any, Any, T]]
    ) -> Response | T:
        """The answer to a call that was answered by 502, 503 or 504: that one, or that to the call sent again.

        Args:
            send: As in `again`.
        """
        if response.status != 503:
            return response
        try:
            again = await self._after_busy(call, retry_after(response))
        except BaseException:
            response.close()
            raise
        if not again:
            return response
        response.close()
        try:
            return await send()
        except Fault as fault:
            return await self.again(call, fault, send)

    async def _after_busy(self, call: Call, patience: float | None) -> bool:
        """Whether a call that was answered by 503 is to be sent again; returns when it is time.

        Args:
            patience: Seconds that the agent asks for; None where it does not say.
        """
        if patience is None or patience > MOST_PATIENCE or not self._may(call, Missed.BUSY):
            return False
        before = self.backing
        self.answered(503)
        await self._move(call, Missed.BUSY, stays=True)
        if self.backing is before:
            await asyncio.sleep(patience)
        return True

    def _may(self, call: Call, how: Missed) -> bool:
        backing = self.backing
        repeats = backing.repeats
        done = self._missed.get(how, 0)
        if how not in repeats.when or sum(self._missed.values()) >= repeats.most:
            return False
        # What the client has named counts, and of what was translated only its own words are there to be read.
        asked = call if self.exchange.call is None else self.exchange.call
        if (how is not Missed.CONNECT and done) or not may_repeat(asked, how, idempotent=repeats.idempotent):
            return False
        if (
            how is Missed.CONNECT
            and backing.replica.condition.ejection.opened
            and (backing.group is None or self._binds)
        ):
            # It has been away for some time, and there is nowhere else to go.
            return False
        now = self._clock()
        if backing.group is not None and not backing.group.breaker.admits(now):
            return False
        if not backing.budget.take(now):
            return False
        self._missed[how] = done + 1
        return True

    async def _move(self, call: Call, how: Missed, *, stays: bool) -> bool:
        """Go to where the call is sent next, and wait until it is time; False where it would have to stay, and may not.

        Args:
            stays: Whether it may be sent to the same replica again.
        """
        left = self.backing
        self._tried.append(left.replica.name)
        found = self._elsewhere(call)
        if found is None and not stays:
            return False
        left.meter.repeated(left.replica.key, how.value)
        at_once = how is Missed.CONNECT and found is not None and found.replica.name not in self._tried
        if not at_once:
            shortest = _SHORTEST if sum(self._missed.values()) == 1 else _LATER
            await asyncio.sleep(random.uniform(shortest, _LONGEST))  # noqa: S311 - no secret
            # Meanwhile one may have gone, or be tried by another call.
            found = self._elsewhere(call) or (None if stays else found)
        self.exchange.attempts += 1
        if found is not None and found is not left:
            self._go(found)
        return True

    def _leave(self, call: Call, fault: Fault) -> None:
        """Go to another replica, for this one was closed between the choice and the call: that is no try.

        Raises:
            NoHealthyBackend: there is none that the call may go to.
            Fault: that one, where it is the gateway that stops.
        """
        left = self.backing
        self._tried.append(left.replica.name)
        found = self._elsewhere(call)
        if found is not None and found.replica.name not in self._tried:
            self._go(found)
        elif left.replica.condition.gone:
            raise NoHealthyBackend(
                "the replica of the agent that the call belongs to is gone",
                detail=f"{left.replica.name!r} went while it was asked whose this is",
                retry_after=1.0,
            ) from fault
        else:
            raise fault

    def _go(self, found: Backing) -> None:
        self.end()
        self.backing = found
        self._begin()

    def _elsewhere(self, call: Call) -> Backing | None:
        """Where the call may go instead; None where it stays."""
        group = self.backing.group
        if group is None or self._binds:
            return None
        if Missed.RESET in self._missed and not call.operation.repeatable and group.keeping.by != "none":
            # It may have been seen there, and only there it is known again.
            return None
        found = group.another(self._tried)
        if found is self.backing:
            return None
        # What was translated, or written, for one dialect is read in that one.
        with suppress(VersionUnsupported, MethodNotAllowed, BadParams):
            interface = found.upstream.interface(call, (self.interface.dialect,))
            same = interface.dialect == self.interface.dialect
            if same and found.upstream.tenant(call, interface) == self.backing.upstream.tenant(call, self.interface):
                self.interface = interface
                return found
        return None

    async def _waits(self, how: Missed, since: float) -> bool:
        """Whether the call waits for its replica; returns when it is to be tried again.

        Args:
            since: When it was missed for the first time.
        """
        group = self.backing.group
        if group is None or not self._binds or how is not Missed.CONNECT:
            return False
        while (left := group.keeping.wait - (self._clock() - since)) > 0:
            self._pauses += 1
            pause = min(_SHORTEST * 2 ** min(self._pauses, 10), _LONGEST_WAIT, left)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            now = self._clock()
            if group.breaker.admits(now):
                if self._turn is not None:
                    # It may be the one call by which the backend is tried.
                    self._turn = replace(self._turn, tries_all=group.breaker.begin(now))
                self.exchange.attempts += 1
                return True
        return False


def _words(fault: Fault) -> str:
    return f"{fault.message}: {fault.detail}" if fault.detail else fault.message
