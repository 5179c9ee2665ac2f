"""The wire format of protobuf, without a schema."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_message import MOST_FIELDS, refuse_crowd, request_class, values
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest, ParseFailed
from gateway.a2a.operation import Operation
from tests.table import for_each

SEND = request_class(method_of(Operation.SEND_MESSAGE, Version.V1_0))


@for_each(
    ("message", "kind"),
    [
        (b"\x8a\x00\x01a", BadRequest),
        (b"\x8a\x80\x00\x01a", BadRequest),
        (b"\x0b\x0c", BadRequest),
        (b"\x0c", BadRequest),
        (b"\x0e\x00", BadRequest),
        (b"\x02\x00", BadRequest),
        (b"\xfa\xff\xff\xff\x1f\x00", BadRequest),
        (b"\x08\x01", BadRequest),
        (b"\x50\x00" * (MOST_FIELDS + 1), BadRequest),
        (b"\x0a", ParseFailed),
        (b"\x0a\x05a", ParseFailed),
        (b"\x0a\x81\x80\x80\x80\x80\x00a", ParseFailed),
        (b"\x10" + b"\x80" * 10 + b"\x01", ParseFailed),
        (b"\x0d\x00", ParseFailed),
        (b"\x8a\x80\x80\x80\x80\x00\x01a", ParseFailed),
    ],
)
def test_what_parsers_could_read_in_two_ways_or_not_at_all_is_refused(message: bytes, kind: type[BadRequest]) -> None:
    with pytest.raises(BadRequest) as caught:
        values(message, 1)
    assert type(caught.value) is kind


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(message: bytes) -> None:
    with suppress(BadRequest):
        values(message, 1)
    with suppress(BadRequest):
        refuse_crowd(message, SEND.DESCRIPTOR, 8)
