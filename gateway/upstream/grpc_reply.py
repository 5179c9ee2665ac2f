"""A reply over gRPC: one message, or a stream that may last for hours, and the status that ends it.

Distinguishes the status of an agent from a status that the gRPC library makes up because there was none.

The library reports both as a code with a text. Its own statuses are recognised by their code, missing details, and
fixed texts. An agent's status with such a text is treated as the library's, because a text of the library may name
addresses and must not reach the client.

"Nothing was sent" is believed only while the channel has failed to connect: an agent may pass on the same words from
another agent (decision 0011). UNAVAILABLE without details, and CANCELLED without details or words, mean that the answer
broke off: servers that stop answer so (decision 0011). A call that the gateway cancels is never reported to a client.

The texts are those of grpcio 1.85; the words around them vary between versions. `tests/upstream/test_grpc_faults.py`
has real servers cause them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, cast

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Fault, UpstreamConnect, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.grpc import frame
from gateway.a2a.headers import Pairs
from gateway.telemetry.tls_failure import TlsFailure, of_reason
from gateway.upstream.connection import closing
from gateway.upstream.credentials import EXTENSIONS
from gateway.upstream.error_page import too_large
from gateway.upstream.grpc_library import aio, grpc
from gateway.upstream.outlier_detection import FAILING, Away, DeadlinePassed, NotAccepted, TlsFailed
from gateway.upstream.reply_cache import ReplyCache
from gateway.upstream.response import CUT, late, silent
from gateway.upstream.upstream import AnswerTooLong, ignore_size


class GrpcReply:
    """An answer, from its first message or its end on.

    Its owner reads it to the end or calls `close`. Cancelling a read cancels the call at the agent.

    Args:
        address: Host and port that the library connects to.
        bare: A cache that is shared by answers of one message without headers.

    Attributes:
        headers: The initial metadata without binary ones: names in lower case, those of one name together.
        known: A cache of values that are derived from the headers, for the usual answers without headers; or None.
        failure: The final status if it is not OK; None before the end and for OK.
        metadata: The trailing metadata that names extensions.
        is_stream: Whether the call answers with a stream of messages.
        alone: Always True: the library assigns the answers of one connection to their calls.
        received: Time of the loop at which `flow` last pushed a message.
    """

    __slots__ = (
        "_call", "_channel", "_message", "_over", "address", "failure", "headers", "is_stream", "known", "metadata",
        "received",
    )  # fmt: skip

    alone = True
    fault = None
    has_begun = True

    def __init__(self, call: aio.Call, channel: aio.Channel, address: str, bare: ReplyCache | None = None) -> None:
        self.address = address
        self.headers: Pairs = []
        self.is_stream = False
        self.known = bare
        self.failure: Status | None = None
        self.metadata: Pairs = []
        self._call = call
        self._channel = channel
        self.received = 0.0
        self._message: bytes | None = None
        self._over = False

    def whole(self) -> bytes | None:
        """Return the message of a unary answer; None if the call streams or failed."""
        return self._message if self._over else None

    @property
    def http_status(self) -> int:
        """The status in HTTP's numbers."""
        return 200 if self.failure is None else read_status(self.failure, Version.V1_0).http_status

    @property
    def is_failing(self) -> bool:
        """Whether the agent, or a server in front of it, is down."""
        return self.failure is not None and self.failure.code == _UNAVAILABLE

    async def read(self, limit: int, timeout: float, hold: Callable[[int], None] = ignore_size) -> bytes:  # noqa: ARG002, ASYNC109 - the message is there
        """Return the message of a unary answer, and drop it.

        Raises:
            UpstreamProtocol: there is none.
            AnswerTooLong: it is longer than `limit`.
        """
        message, self._message = self.whole(), None
        if message is None:
            raise UpstreamProtocol("the agent's answer is empty")
        if len(message) > limit:
            raise AnswerTooLong(limit)
        hold(len(message))
        return message

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - of silence
        lag: Callable[[int], None] = ignore_size,  # noqa: ARG002 - gRPC makes the agent wait
    ) -> None:
        """Push the messages of a stream to `take` as they come, each in its frame; `failure` has the final status.

        The headers are dropped, because a stream may last for hours. After `take` returns False nothing more is read or
        pushed until `settle` was awaited.

        Args:
            timeout: Longest silence in seconds.

        Raises:
            UpstreamIdle: nothing came for `timeout`.
            DeadlinePassed: it did not end within the client's deadline.
            UpstreamReset: it broke off.
            UpstreamProtocol: it is not gRPC; or any fault that `take` raises.
            Draining: the channel is closed.
        """
        self.headers = []
        message, self._message = self._message, None
        loop = asyncio.get_running_loop()
        while message is not None:
            self.received = loop.time()
            if not take(frame(message)):
                await settle()
            message = await self._next(timeout, silent)

    def close(self) -> None:
        """Release the answer. If it is incomplete, the agent sees the call cancelled at once."""
        if not self._over:
            self._over = True
            self._call.cancel()

    disown = close

    def distrust(self) -> None:
        """Do nothing: answers cannot be confused."""

    # ---- Between an answer and its channel -------------------------------------------------------------------------

    async def only(
        self,
        timeout: float,  # noqa: ASYNC109 - kept by gRPC
        expired: Callable[[], Fault] = late,
    ) -> Self:
        """Wait for the message of a unary answer.

        Args:
            timeout: Timeout of the call in seconds.
            expired: Makes the fault when they are over.
        """
        end = asyncio.get_running_loop().time() + timeout
        try:
            self._message = await self._call
        except aio.AioRpcError as error:
            self._ended(error, expired if asyncio.get_running_loop().time() > end - _HASTE else None)
            return self
        except asyncio.CancelledError as error:
            if _is_leaving():
                raise
            raise closing() from error
        finally:
            self._over = True
        if pairs := _pairs(await self._call.initial_metadata()):
            self.headers, self.known = pairs, None
        self.metadata = _named(_pairs(await self._call.trailing_metadata()))
        if self._message is None:
            raise UpstreamProtocol("the agent's answer is empty", detail="OK, and no message")
        return self

    async def begin(self, timeout: float) -> Self:  # noqa: ASYNC109 - kept here
        """Wait for the first message of a stream, or its end.

        Args:
            timeout: Seconds to wait.
        """
        self.is_stream = True
        self._message = await self._next(timeout, late)
        if self.failure is None:
            self.headers = _pairs(await self._call.initial_metadata())
        return self

    async def _next(self, timeout: float, expired: Callable[[], Fault]) -> bytes | None:  # noqa: ASYNC109 - as `begin`
        """Return the next message of a stream, or None after the last one."""
        if self._over:
            return None
        call = self._call
        rung = False

        def ring() -> None:
            # Not `asyncio.timeout`, which would leave a pending read of gRPC.
            nonlocal rung
            rung = True
            call.cancel()

        alarm = asyncio.get_running_loop().call_later(timeout, ring)
        try:
            message = await call.read()
        except aio.AioRpcError as error:
            self._over = True
            # The caller enforces the rest of the stream's deadline.
            self._ended(error, None)
            return None
        except asyncio.CancelledError as error:
            self.close()
            if _is_leaving():
                raise
            raise (expired() if rung else closing()) from error
        finally:
            alarm.cancel()
        if message is aio.EOF:
            self._over = True
            self.metadata = _named(_pairs(await call.trailing_metadata()))
            return None
        return cast("bytes", message)  # no deserializer is set

    def _ended(self, error: aio.AioRpcError, expired: Callable[[], Fault] | None) -> None:
        self.failure = own_status(error, unreachable=self._channel.get_state() is _FAILED, expired=expired)
        self.headers, self.known = _pairs(error.initial_metadata()), None
        self.metadata = _named(_pairs(error.trailing_metadata()))


_UNAVAILABLE = 14
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE
_HASTE = 0.05
"""Seconds by which gRPC may be early, because it uses another clock."""


def _is_leaving() -> bool:
    """Return whether a wait was cancelled because its task is cancelled; else the channel was closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _pairs(metadata: Iterable[tuple[str, str | bytes]] | None) -> Pairs:
    return [
        (name.encode("ascii"), value.encode("utf-8"))
        for name, value in metadata or ()
        if isinstance(value, str) and not name.endswith("-bin")
    ]


def _named(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0] in EXTENSIONS]


# ---- The status that ended a call ------------------------------------------------------------------------------------

_DETAILS = "grpc-status-details-bin"
_LONGEST_DETAIL = 300


def own_status(error: aio.AioRpcError, *, unreachable: bool, expired: Callable[[], Fault] | None) -> Status:
    """Return the status that the agent ended a call with.

    Args:
        unreachable: Whether the last attempt to connect has failed.
        expired: Makes the fault of an expired call; None while there is time.

    Raises:
        BodyTooLarge: the agent takes no message as long as this one.
        UpstreamConnect, UpstreamTimeout, UpstreamReset: there is none. `DeadlinePassed` where some time but the
            call's is over.
        UpstreamProtocol: what came is no gRPC or too long. `NotAccepted` where it says that the gateway is not, `Away`
            where it says for the agent that it is not there.
    """
    code, text = error.code(), error.details() or ""
    details = next((value for name, value in error.trailing_metadata() or () if name == _DETAILS), b"")
    if not isinstance(details, bytes):
        details = b""
    if code not in _NEVER_MADE_UP:
        _refuse_made_up(code, text, own=details != b"", unreachable=unreachable, expired=expired)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        # As HTTP's 401 (`error_page.refuse_challenge`): the client's credential was valid.
        raise NotAccepted("the agent does not accept the gateway", detail="status UNAUTHENTICATED")
    return Status(code.value[0], text, details)


def _refuse_made_up(
    code: grpc.StatusCode, text: str, *, own: bool, unreachable: bool, expired: Callable[[], Fault] | None
) -> None:
    removed = _REMOVED.match(text)
    if removed is None and own:
        return
    words = text if removed is None else text[removed.end() :]
    detail = text[:_LONGEST_DETAIL]
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and (expired is not None or words.startswith("Deadline Exceeded")):
        fault = passed() if expired is None else expired()
        fault.detail = detail
        raise fault
    if _UNREACHABLE.match(words) is not None and unreachable:
        if (failure := _tls_failure(words)) is not None:
            raise TlsFailed("the agent could not be reached", detail=f"TLS: {failure}; {detail}", failure=failure)
        raise UpstreamConnect("the agent could not be reached", detail=detail)
    page = _PAGE.match(words)
    if (page is not None and page[1] == "413") or _TOO_LARGE.match(words) is not None:
        raise too_large(detail)
    if page is not None:
        refused = page[1] in ("401", "407")
        message = (
            "the agent does not accept the gateway" if refused else f"the agent answered with HTTP status {page[1]}"
        )
        kind = NotAccepted if refused else Away if int(page[1]) in FAILING else UpstreamProtocol
        raise kind(message, detail=detail)
    if _TOO_LONG.match(words) is not None:
        raise UpstreamProtocol("the agent's answer is too long", detail=detail)
    if _NO_GRPC.match(words) is not None:
        raise UpstreamProtocol("the agent's answer is no gRPC", detail=detail)
    # If the connection is up and an agent could not be reached, it is an agent behind this agent.
    stopping = code is grpc.StatusCode.CANCELLED and words in _NO_WORDS
    if removed is not None or stopping or code is grpc.StatusCode.UNAVAILABLE or _CUT.match(words) is not None:
        raise UpstreamReset(CUT, detail=detail)


def _tls_failure(words: str) -> TlsFailure | None:
    """Why TLS failed, by gRPC's own text of a failed connection."""
    for pattern, failure in _TLS:
        if pattern.search(words) is not None:
            return failure
    reason = _REASON.search(words)
    return None if reason is None else of_reason(reason[1])


def passed() -> Fault:
    """Return the fault of an answer that did not come within the caller's own deadline."""
    return DeadlinePassed(late().message)


_REMOVED = re.compile(r"Stream removed \(")
_UNREACHABLE = re.compile(r"failed to connect to all addresses|errors resolving|DNS resolution failed")
_REASON = re.compile(r"SSL routines:[A-Za-z_]*:([A-Z0-9_]+)")
_TLS = tuple(
    (re.compile(pattern), failure)
    for pattern, failure in (
        (r"Hostname Verification Check failed|is not in peer certificate", TlsFailure.WRONG_NAME),
        (r"CERTIFICATE_VERIFY_FAILED: certificate has expired", TlsFailure.EXPIRED),
        (r"CERTIFICATE_VERIFY_FAILED: certificate is not yet valid", TlsFailure.NOT_YET_VALID),
        (r"CERTIFICATE_VERIFY_FAILED: self[- ]signed certificate(?! in)", TlsFailure.SELF_SIGNED),
        (r"CERTIFICATE_VERIFY_FAILED: (?:unable to|self[- ]signed certificate in)", TlsFailure.UNKNOWN_AUTHORITY),
        (r"CERTIFICATE_VERIFY_FAILED: certificate revoked", TlsFailure.REVOKED),
        (r"CERTIFICATE_VERIFY_FAILED: (?:unsu\w+ certificate purpose|invalid CA)", TlsFailure.WRONG_PURPOSE),
        (r"CERTIFICATE_VERIFY_FAILED", TlsFailure.BAD_CERTIFICATE),
        (r"Handshake (?:read|write) failed", TlsFailure.ENDED),
    )
)
"""Why TLS failed, by the texts of BoringSSL and gRPC; there are no codes here."""
_PAGE = re.compile(r"Received http2 header with status: ([0-9]+)")
_TOO_LONG = re.compile(r"(?:CLIENT: )?(?:Received|Decompressed) message larger|received (?:\w+ )?metadata size exceeds")
# The texts of servers in C and Python, Go, and Java; clients of gRPC's own library have CLIENT instead.
_TOO_LARGE = re.compile(
    r"SERVER: (?:Received|Decompressed) message larger|grpc: received message (?:after decompression )?larger than max"
    r"|gRPC message exceeds maximum size"
)
_NO_GRPC = re.compile(
    r"No status received|Data frame with END_STREAM|Compression bit set|Decompression failed|Error parsing '"
    r"|Illegal header|Failed parsing HTTP/2"
)
_CUT = re.compile(r"Received RST_STREAM|RST_STREAM|failed to connect to all addresses")

_NO_WORDS = ("", "CANCELLED")

_NEVER_MADE_UP = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""Codes that only agents send: gRPC reserves them for applications (gRFC A54)."""
