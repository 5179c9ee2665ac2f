"""What an agent says instead of an answer is told by its status alone, and when to come again."""

from typing import cast

import pytest

from gateway.a2a.fault import BodyTooLarge, UpstreamBusy, UpstreamLimited, UpstreamProtocol
from gateway.upstream.page import only_type, refuse_challenge, refuse_page, retry_after
from gateway.upstream.response import Carrier, Response
from tests.doubles.scripted import head
from tests.upstream.test_response_parser import read

NOW = b"date: Wed, 21 Oct 2026 07:28:00 GMT"


def answered(*fields: bytes, status: bytes = b"503 Busy", content_type: bytes = b"text/html") -> Response:
    reader = read(head(*fields, status=status, content_type=content_type))
    response = Response(cast("Carrier", None), reader)  # nothing is read from it
    response.status = reader.status
    return response


def refusal(response: Response) -> UpstreamProtocol:
    with pytest.raises(UpstreamProtocol) as refused:
        refuse_page(response)
    return refused.value


@pytest.mark.parametrize("status", [b"400 X", b"404 X", b"429 X", b"500 X", b"503 X"])
def test_a_page_is_an_answer_of_the_wrong_kind(status: bytes) -> None:
    fault = refusal(answered(b"server: 10.9.8.7", status=status))
    assert (type(fault), fault.rpc_status, fault.http_status, fault.rpc_code) == (UpstreamProtocol, 200, 502, -32006)
    assert fault.message == f"the agent answered with HTTP status {int(status[:3])}"


@pytest.mark.parametrize("fields", [(), (b"retry-after: 7",)])
def test_an_agent_that_takes_no_such_long_body_says_it_of_the_callers(fields: tuple[bytes, ...]) -> None:
    with pytest.raises(BodyTooLarge) as refused:
        refuse_page(answered(*fields, status=b"413 X"))
    assert (refused.value.reason, refused.value.detail) == ("body_too_large", "status 413")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(b"429 X", UpstreamLimited), (b"503 X", UpstreamBusy), (b"500 X", UpstreamProtocol), (b"404 X", UpstreamProtocol)],
)
def test_a_page_that_says_when_to_come_again_keeps_the_status_that_machines_act_on(
    status: bytes, kind: type[UpstreamProtocol]
) -> None:
    fault = refusal(answered(b"retry-after: 7", status=status))
    assert (type(fault), fault.retry_after, fault.reason) == (kind, 7.0, "upstream_protocol")


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ((), None),
        ((b"retry-after: 0",), 0.0),
        ((b"retry-after: 120",), 120.0),
        ((b"retry-after: 99999999999999999999",), 86_400.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT"), 120.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:00:00 GMT"), 0.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2099 07:00:00 GMT"), 86_400.0),
        ((b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT",), 0.0),
        ((NOW, b"retry-after: Wed, 21 Oct 2026 07:30:00 -0000"), None),
        ((NOW, b"retry-after: soon"), None),
        ((b"date: now", b"retry-after: Wed, 21 Oct 2026 07:30:00 GMT"), None),
        ((b"retry-after: -1",), None),
        ((b"retry-after: 1e3",), None),
        ((b"retry-after: \xff",), None),
        ((b"retry-after: ",), None),
    ],
)
def test_when_to_come_again_is_read_by_the_agents_own_clock(fields: tuple[bytes, ...], seconds: float | None) -> None:
    assert retry_after(answered(*fields)) == seconds


@pytest.mark.parametrize("status", [b"401 X", b"407 X"])
def test_no_agent_challenges_anybody(status: bytes) -> None:
    with pytest.raises(UpstreamProtocol, match="does not accept the gateway"):
        refuse_challenge(answered(status=status))
    refuse_challenge(answered(status=b"403 X"))


def test_an_answer_is_of_one_type_or_none() -> None:
    assert only_type(answered()) == b"text/html"
    bare = answered()
    bare.headers.clear()
    assert only_type(bare) is None
    with pytest.raises(UpstreamProtocol, match="two types"):
        only_type(answered(b"content-type: application/json"))
