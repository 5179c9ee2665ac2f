"""The origin of a gRPC status, by its code, its text and its details."""

from typing import Any

import pytest

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.fault import BodyTooLarge, Fault, UpstreamProtocol, UpstreamReset, UpstreamTimeout
from gateway.upstream.grpc_library import aio, grpc
from gateway.upstream.grpc_reply import own_status, passed
from gateway.upstream.outlier_detection import DeadlinePassed
from gateway.upstream.response import late
from tests.table import for_each

CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
INFO = b"\x08\x05a2a-protocol.org"


def ended(code: grpc.StatusCode, text: str | None, *trailing: tuple[str, str | bytes]) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*trailing), text, f"{code.name}:{text}")


def read(code: grpc.StatusCode, text: str | None, *trailing: tuple[str, str | bytes], **more: Any) -> Status:
    known: dict[str, Any] = {"unreachable": False, "expired": None, **more}
    return own_status(ended(code, text, *trailing), **known)


@for_each("code", [code for code in CODES if code is not grpc.StatusCode.UNAUTHENTICATED])
def test_a_status_with_details_is_the_agents_with_any_code(code: grpc.StatusCode) -> None:
    for text in ("try later", "Socket closed", "failed to connect to all addresses", "No status received"):
        status = read(code, text, ("x-other", "1"), ("grpc-status-details-bin", INFO))
        assert status == Status(code.value[0], text, INFO)


@for_each("code", [code for code in CODES if code is not grpc.StatusCode.UNAUTHENTICATED])
def test_a_text_that_nobody_else_has_is_the_agents(code: grpc.StatusCode) -> None:
    if code is grpc.StatusCode.UNAVAILABLE:
        # Servers that shut down say what they like.
        with pytest.raises(UpstreamReset, match="before its answer was complete"):
            read(code, "in my own words")
    else:
        assert read(code, "in my own words") == Status(code.value[0], "in my own words")


def test_servers_that_stop_cancel_without_a_word() -> None:
    for text in (None, "", "CANCELLED", "Stream removed (CANCELLED)"):
        with pytest.raises(UpstreamReset):
            read(grpc.StatusCode.CANCELLED, text)
    assert read(grpc.StatusCode.CANCELLED, "", ("grpc-status-details-bin", INFO)).code == 1


def test_a_deadline_is_the_gateways_where_its_time_is_over() -> None:
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    for text, expired, kind in (
        ("anything", late, UpstreamTimeout),
        ("anything", passed, DeadlinePassed),
        # An agent's own, or that which a caller over gRPC has set.
        ("Deadline Exceeded", None, DeadlinePassed),
        ("Stream removed (Deadline Exceeded)", None, DeadlinePassed),
    ):
        with pytest.raises(UpstreamTimeout) as caught:
            read(code, text, expired=expired)
        assert (type(caught.value), caught.value.detail) == (kind, text)
    assert read(code, "my own tool did not answer").message == "my own tool did not answer"


@for_each("removed", ["{}", "Stream removed ({})"])
@for_each(
    ("text", "kind"),
    [
        ("Received http2 header with status: 502", UpstreamProtocol),
        ("CLIENT: Received message larger than max (5 vs. 1)", UpstreamProtocol),
        ("Received message larger than max (5 vs. 1)", UpstreamProtocol),
        ("received trailing metadata size exceeds hard limit (5 vs. 1)", UpstreamProtocol),
        ("Received http2 header with status: 413", BodyTooLarge),
        ("SERVER: Received message larger than max (5 vs. 1)", BodyTooLarge),
        ("grpc: received message larger than max (5 vs. 1)", BodyTooLarge),
        ("gRPC message exceeds maximum size 1: 5", BodyTooLarge),
        ("No status received", UpstreamProtocol),
        ("Compression bit set but no encoding configured", UpstreamProtocol),
        ("RST_STREAM (Received RST_STREAM with error code 2)", UpstreamReset),
        ("Received RST_STREAM with error code 2", UpstreamReset),
    ],
)
def test_grpc_errors_are_known_by_their_words(removed: str, text: str, kind: type[Fault]) -> None:
    with pytest.raises(kind) as caught:
        read(grpc.StatusCode.UNKNOWN, removed.format(text))
    assert text in caught.value.detail
    assert "RST" not in caught.value.message
