"""When a call may be sent again: what is known of the agent having seen it, and what a second execution would change.

    operation                       nothing was sent   no answer came   503, and come again in at most 2 s
    reads: GetTask, ListTasks,      yes                once             once
      Get and ListPush, the card
    CancelTask, DeletePush,         yes                once             no
      SubscribeToTask
    CreatePush                      yes                once, if the client named the configuration    no
    SendMessage                     yes                once, if the agent takes equal ids for one     no
    SendStreamingMessage            yes                no               no

A stream that broke off behind its first event is never sent again: the client is told to subscribe. What waited in vain
for the first byte is not either: who is slow is not helped by more to do.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import Fault, Overloaded, UpstreamConnect, UpstreamReset
from gateway.a2a.operation import Operation
from gateway.upstream.failure import Reclaimed, Unsent

MOST_PATIENCE = 2.0
"""Seconds that an agent may ask for, and be asked again."""


class Missed(StrEnum):
    """How a call went wrong; the words of the file, and of a label."""

    CONNECT = "connect"
    """No connection: nothing was sent."""
    RESET = "reset"
    """The connection ended before the answer was there, and nobody was told of it: the agent may have acted."""
    BUSY = "503"
    """The agent says that it cannot now, and when it can."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The retry policy of one backend; see `config.agent.Retry`.

    Attributes:
        idempotent: Whether it takes two messages with one id for one.
    """

    most: int = 2
    when: frozenset[Missed] = frozenset(Missed)
    idempotent: bool = False


NEVER = Repeats(0, frozenset())
"""Nothing is."""

_READS = frozenset(
    {
        Operation.GET_TASK,
        Operation.LIST_TASKS,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.GET_EXTENDED_CARD,
    }
)


def missed(fault: Fault) -> Missed | None:
    """How a call went wrong, where that may be mended; None for whatever else it was."""
    if isinstance(fault, Reclaimed):
        # The agent may have acted on it.
        return None
    if isinstance(fault, UpstreamConnect | Overloaded | Unsent):
        return Missed.CONNECT
    if isinstance(fault, UpstreamReset):
        return Missed.RESET
    return None


def may_repeat(call: Call, how: Missed, *, idempotent: bool) -> bool:
    """Whether a call may be sent once more.

    Args:
        call: As the client sent it.
        idempotent: Whether the agent takes two messages with one id for one.
    """
    if how is Missed.CONNECT:
        return True
    operation = call.operation
    if how is Missed.BUSY:
        return operation in _READS
    if operation.repeatable:
        return True
    if operation is Operation.CREATE_PUSH_CONFIG:
        return _names_config(call)
    return operation is Operation.SEND_MESSAGE and idempotent and message_id(call) is not None


def message_id(call: Call) -> str | None:
    """The id that the sender gave its message; None where it gave none, or it is not read here."""
    if call.dialect.binding is Binding.GRPC:
        return None
    raw = call.params.message.get("messageId", call.params.message.get("message_id"))
    said = None if raw is None else bytes(raw)
    return None if said is None or len(said) < 3 or said[:1] != b'"' else said.decode("utf-8", "replace")


def _names_config(call: Call) -> bool:
    """Whether the client named the push configuration that it sets, so that a second one replaces the first."""
    if call.dialect.binding is Binding.GRPC:
        return False
    places = [call.params.members, *(way[-1][1] for way in call.params.pushes)]
    if any("pushNotificationConfig" in each or "push_notification_config" in each for each in places[:1]):
        # In 0.3 the outer `id` is the task's.
        places = places[1:]
    return any(bytes(each["id"]) not in (b"null", b'""') for each in places if "id" in each)


_WINDOW = 10.0
_PART = 1.0
_FLOOR = 20
"""Repeats in any ten seconds, however few calls there are: whoever has lost a replica has that many on their way."""


class Budget:
    """The repeats of one backend.

    Args:
        share: Repeats for each call of the last ten seconds.
    """

    __slots__ = ("_calls", "_next", "_parts", "_share", "_taken")

    def __init__(self, share: float) -> None:
        self._share = share
        self._taken: deque[float] = deque()
        # When each of the parts of the window ended, and how many calls there were in it; and the one that goes on.
        self._parts: deque[tuple[float, int]] = deque()
        self._next = 0.0
        self._calls = 0

    def call(self, now: float) -> None:
        """A call is made.

        Args:
            now: Monotonic seconds.
        """
        if now >= self._next:
            self._parts.append((now, self._calls))
            self._calls = 0
            self._next = now + _PART
            self._forget(now)
        self._calls += 1

    def take(self, now: float) -> bool:
        """Take one repeat; whether there was one."""
        self._forget(now)
        taken = self._taken
        while taken and taken[0] <= now - _WINDOW:
            taken.popleft()
        recent = sum(calls for _, calls in self._parts) + self._calls
        if len(taken) >= _FLOOR + self._share * recent:
            return False
        taken.append(now)
        return True

    def _forget(self, now: float) -> None:
        parts, begin = self._parts, now - _WINDOW
        while parts and parts[0][0] <= begin:
            parts.popleft()
        if self._next + _WINDOW <= now:
            self._calls = 0
