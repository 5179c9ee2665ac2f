"""What a call that failed tells of the agent: the rows of the table in `docs/replicas.md`, as code.

A failure *counts*, for the replica and for the backend as a whole, where the agent, or the way to it, seems not to be
there: no connection, an end before the answer, no HTTP, none of an answer in the gateway's own time, or somebody's word
that it is so. It tells *nothing* where it is not the agent that failed. Else the agent has answered, however badly.

Decision, 2026-11-22: a call that the gateway gives up for its own timeouts counts, and one that a caller gives up does
not, be it by leaving or by a deadline of its own: how patient callers are says nothing of the agent. Neither does a
stream that began and then is silent: there may be nothing to say.
"""

from gateway.a2a.fault import (
    ClientGone,
    Draining,
    Fault,
    Overloaded,
    UpstreamConnect,
    UpstreamIdle,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.tls_failure import TlsFailure

FAILING = frozenset({502, 503, 504})
"""Statuses by which a server in front of the agent, or the agent, says that it is not there."""


class Unsent(Draining):
    """The connections to a replica were closed before the call was sent on one of them."""


class TlsFailed(UpstreamConnect):
    """There is no connection because TLS failed.

    Attributes:
        failure: Why.
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        retry_after: float | None = None,
        failure: TlsFailure = TlsFailure.HANDSHAKE,
    ) -> None:
        super().__init__(message, detail=detail, retry_after=retry_after)
        self.failure = failure


def explained(fault: Fault) -> str:
    """What a fault says, for operators, and why TLS failed if it did; no address."""
    return f"{fault.message} (TLS: {fault.failure})" if isinstance(fault, TlsFailed) else fault.message


class Reclaimed(Overloaded):
    """The connection was taken from a call that had begun, for a tenant that had less than its share of them."""


class DeadlinePassed(UpstreamTimeout):
    """The caller's own time is over, or the agent says that some time of its own is."""


class Away(UpstreamProtocol):
    """What answers in the agent's place says 502, 503 or 504, where the agent's words have no such status."""


_SILENT = ClientGone | Draining | Overloaded | DeadlinePassed | UpstreamIdle
_COUNTS = UpstreamConnect | UpstreamReset | UpstreamTimeout | Away


def tells_nothing(fault: Fault) -> bool:
    """Whether nobody knows more of the agent than before."""
    return isinstance(fault, _SILENT)


def counts(fault: Fault) -> bool:
    """Whether the replica failed, or the way to it.

    That what came was no HTTP is for whoever knows where it broke: what is no A2A is `UpstreamProtocol` as well.
    """
    return isinstance(fault, _COUNTS) and not tells_nothing(fault)
