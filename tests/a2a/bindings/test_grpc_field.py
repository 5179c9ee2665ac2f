"""The wire format of protobuf, without a schema."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_field import MOST_FIELDS, refuse_crowd, refuse_twins, values
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.bindings.grpc_schema import request_class
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.operation import Operation
from tests.support.grpc_bytes import held, text_field
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


def test_a_text_stands_once_in_each_place() -> None:
    once, twice = text_field(1, "a"), text_field(1, "a") + text_field(1, "")
    refuse_twins(once + held(3, held(2, once)), "tenant", 1)
    for message in (held(3, held(2, twice)), held(3, held(2, once)) * 2, held(3, held(2, once) * 2)):
        refuse_twins(message, "tenant", 1)
        with pytest.raises(DuplicateKey, match="the tenant stands twice"):
            refuse_twins(message, "tenant", 3, 2, 1)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(message: bytes) -> None:
    with suppress(BadRequest):
        values(message, 1)
    with suppress(BadRequest):
        refuse_crowd(message, SEND.DESCRIPTOR, 8)


@for_each(
    ("message", "refused"),
    [
        (b"\x50\x00" * 21, True),
        (held(2, b"\x2a\x00" * 21), True),
        (held(4, b"\x0a\x00" * 21), True),
        (held(2, held(5, held(4, held(6, b"\x0a\x00" * 18)))), True),
        (held(2, b"\x2a\x02\x0a\x00" * 21), True),
        (held(2, b"\x2a\x00" * 19), False),
        (held(2, text_field(1, "x" * 10_000)), False),
        (held(2, held(5, text_field(1, "*\x00" * 1_000))), False),
        (text_field(90, "*" * 1_000), False),
    ],
)
def test_a_message_is_refused_for_many_fields_and_not_for_its_length(message: bytes, *, refused: bool) -> None:
    if refused:
        with pytest.raises(BadRequest, match="too many fields"):
            refuse_crowd(message, SEND.DESCRIPTOR, 20)
    else:
        refuse_crowd(message, SEND.DESCRIPTOR, 20)
