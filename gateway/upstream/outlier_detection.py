"""Outlier detection: which failures count against a replica. The table of `docs/replicas.md`, as code.

A failure counts if the agent, or the network to it, seems to be down: no connection, an end before the answer, no HTTP,
a timeout of the gateway, or a status that says so. Failures not caused by the agent are ignored: a caller that leaves,
a caller's own deadline, and a stream that began and is silent. In every other case the agent has answered.
"""

from gateway.a2a.fault import (
    ClientGone,
    Draining,
    Fault,
    Overloaded,
    UpstreamAuthFailed,
    UpstreamConnect,
    UpstreamIdle,
    UpstreamProtocol,
    UpstreamReset,
    UpstreamTimeout,
)
from gateway.telemetry.tls_failure import TlsFailure

FAILING = frozenset({502, 503, 504})
"""Statuses that mean that the agent is down, from the agent or a server in front of it."""


class Unsent(Draining):
    """The connections to a replica were closed before the call was sent."""


class TlsFailed(UpstreamConnect):
    """There is no connection because TLS failed."""

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
    """Describe a fault for operators, with the TLS failure if there is one, without addresses."""
    if isinstance(fault, UpstreamAuthFailed):
        return f"no token for the agent: {fault.detail}"
    return f"{fault.message} (TLS: {fault.failure})" if isinstance(fault, TlsFailed) else fault.message


class Reclaimed(Overloaded):
    """The connection of a call that had begun was given to a tenant below its share of connections."""


class DeadlinePassed(UpstreamTimeout):
    """The caller's own deadline is over, or the agent reports one of its own."""


class Away(UpstreamProtocol):
    """A server in front of a gRPC agent answered with 502, 503 or 504."""


class NotAccepted(UpstreamProtocol):
    """A gRPC agent does not accept the gateway's credential."""


_SILENT = ClientGone | Draining | Overloaded | DeadlinePassed | UpstreamIdle
_COUNTS = UpstreamConnect | UpstreamReset | UpstreamTimeout | Away


def tells_nothing(fault: Fault) -> bool:
    """Return whether a fault says nothing about the agent."""
    return isinstance(fault, _SILENT)


def counts(fault: Fault) -> bool:
    """Return whether a fault counts against the replica.

    Bytes that are not HTTP count as well; the caller has to check, because an answer that is not A2A has the same
    fault.
    """
    return isinstance(fault, _COUNTS) and not tells_nothing(fault)
