"""Tells the status that an agent gave from a status that the gRPC library made up because there was none.

The library reports both as a code with a text, without a mark. Its own are known by their code, by missing details, and
by fixed texts. An agent's status with such a text is taken for the library's: a text of the library, which may name
addresses, never passes for the agent's.

Decision: that an agent could not be reached, and so that nothing was sent, is believed only while its channel has
failed to connect. An agent that asks another one over gRPC hands on the very same words, and may hang up behind them:
the channel then rests, and what was said is no proof that nothing was done.

Decision: UNAVAILABLE without details is that the answer broke off. No error of A2A has that code, servers that shut
down and proxies give it with any words they like, and gRPC hands on those words. To let them pass where the connection
still stands was refused: whether it does is known a moment too late.

Decision, 2026-11-22: so is CANCELLED without details or words. Servers of gRPC in C and Python say it of calls that
arrive while they stop; what the gateway itself cancels comes to nobody as a status.

The texts are those of grpcio 1.85, with or without the words round them that come and go between versions.
`tests/upstream/test_grpc_faults.py` has real servers cause them.
"""

import re
from collections.abc import Callable

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.fault import Fault, UpstreamConnect, UpstreamProtocol, UpstreamReset
from gateway.telemetry.tls_failure import TlsFailure, of_reason
from gateway.upstream.grpc_library import aio, grpc
from gateway.upstream.outlier_detection import FAILING, Away, DeadlinePassed, NotAccepted, TlsFailed
from gateway.upstream.page import too_large
from gateway.upstream.response import CUT, late

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
        # As HTTP's 401 (`page.refuse_challenge`): the client's credential was good here.
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
    # Where the connection stands and something could not be reached, it is of agents behind the agent.
    stopping = code is grpc.StatusCode.CANCELLED and words in _NO_WORDS
    if removed is not None or stopping or code is grpc.StatusCode.UNAVAILABLE or _CUT.match(words) is not None:
        raise UpstreamReset(CUT, detail=detail)


def _tls_failure(words: str) -> TlsFailure | None:
    """Why TLS failed, by gRPC's own text of a connection that was not made."""
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
# Servers say it, of C and Python, Go, and Java; clients of gRPC's own library say CLIENT.
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
"""Codes of the agent's own alone: gRPC reserves them to applications (gRFC A54)."""
