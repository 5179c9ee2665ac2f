"""An agent's reply as the pipeline sees it, over whichever transport it comes."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.fault import Fault, UpstreamProtocol
from gateway.a2a.headers import Pairs


class AnswerTooLong(UpstreamProtocol):
    """The agent's answer is longer than the configuration allows; a smaller page of a list may fit."""

    def __init__(self, limit: int) -> None:
        super().__init__("the agent's answer is too long", detail=f"over {limit} bytes")


def ignore_size(_size: int) -> None:
    """Ignore how many bytes are held."""


class Reply(Protocol):
    """A reply, from its head on, or from its first message over gRPC.

    The caller reads it to the end or calls `close`. Cancelling a read closes it.

    Attributes:
        headers: Names in lower case; metadata over gRPC.
        metadata: Headers behind the body; only gRPC has any.
        alone: Whether its connection has carried no other call; True where calls cannot be confused.
    """

    headers: Pairs
    metadata: Pairs
    alone: bool

    @property
    def address(self) -> str:
        """Where the agent answered from: IP address and port, the target over gRPC; empty for a process."""

    @property
    def http_status(self) -> int:
        """The status in HTTP's numbers."""

    @property
    def failure(self) -> Status | None:
        """The status with which the agent refused the call or ended the stream; only gRPC has one."""

    @property
    def fault(self) -> Fault | None:
        """Why the reply broke off; None over gRPC, where a read raises it."""

    @property
    def is_failing(self) -> bool:
        """Whether its status says that the replica is down: 502 to 504 over HTTP, UNAVAILABLE over gRPC."""

    @property
    def has_begun(self) -> bool:
        """Whether more than its head is there: over gRPC the first message, or the end."""

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""

    @property
    def known(self) -> dict[object, object] | None:
        """A cache for what is worked out from the headers; None where nothing is kept."""

    async def read(self, limit: int, timeout: float, hold: Callable[[int], None] = ignore_size) -> bytes:  # noqa: ASYNC109
        """Return the whole body.

        Args:
            limit: Most bytes that are accepted.
            timeout: Seconds for all of it.
            hold: Called with the number of held bytes; an exception of it ends the read.

        Raises:
            AnswerTooLong: the body is longer than `limit`.
            UpstreamTimeout: it is not complete in time.
            UpstreamReset, UpstreamProtocol: it broke off, or is malformed.
        """

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - of silence
        lag: Callable[[int], None],
    ) -> None:
        """Push the body to `take` as it arrives, to its end. The headers are released.

        After `take` returns False nothing more is pushed until `settle` has been awaited.

        Args:
            timeout: Seconds of silence that are accepted.
            lag: Called with the bytes that wait on a connection that cannot be paused; an exception ends the reply.

        Raises:
            UpstreamIdle: nothing arrived for `timeout`.
            UpstreamReset, UpstreamProtocol: it broke off or is malformed; or what `take` raises.
        """

    def close(self) -> None:
        """Release the reply. If it is incomplete, the agent sees the call cancelled at once."""

    def disown(self) -> None:
        """Close, and reuse the connection for no other call: the reply may not belong to this one (safety T14)."""

    def distrust(self) -> None:
        """Reuse the connection for no call after this one, whose reply goes on."""
