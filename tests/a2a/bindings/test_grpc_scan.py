"""The wire format of protobuf, without a schema."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.bindings.grpc_scan import (
    DELIMITED,
    FIXED32,
    FIXED64,
    MOST_FIELDS,
    VARINT,
    Field,
    find,
    refuse_crowd,
    text_field,
)
from gateway.a2a.bindings.grpc_schema import nesting, request_class
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest, ParseFailed
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import Sample, messages, samples

SEND = method_of(Operation.SEND_MESSAGE, Version.V1_0)


def test_each_field_is_found_where_it_stands() -> None:
    message = b"\x0a\x02hi" + b"\x10\x96\x01" + b"\x19" + bytes(8) + b"\x25" + bytes(4) + b"\x0a\x00"
    assert find(message, range(100)) == [
        Field(1, DELIMITED, 0, 2, 4),
        Field(2, VARINT, 4, 5, 7),
        Field(3, FIXED64, 7, 8, 16),
        Field(4, FIXED32, 16, 17, 21),
        Field(1, DELIMITED, 21, 23, 23),
    ]
    assert find(message, (4,)) == [Field(4, FIXED32, 16, 17, 21)]
    assert find(message, (2, 3), 4, 16) == [Field(2, VARINT, 4, 5, 7), Field(3, FIXED64, 7, 8, 16)]


def test_a_high_number_and_a_long_text_are_read() -> None:
    message = text_field(100, "ä" * 200)
    (field,) = find(message, (100,))
    assert message[field.value : field.end].decode() == "ä" * 200
    assert find(b"\xfa\xff\xff\xff\x0f\x00", (2**29 - 1,)) == [Field(2**29 - 1, DELIMITED, 0, 6, 6)]


@pytest.mark.parametrize(
    "message",
    [
        b"\x8a\x00\x01a",
        b"\x8a\x80\x00\x01a",
        b"\x0b\x0c",
        b"\x0c",
        b"\x0e\x00",
        b"\x0f\x00",
        b"\x00\x01",
        b"\x02\x00",
        b"\x02",
        b"\xfa\xff\xff\xff\x1f\x00",
    ],
    ids=[
        "tag with a spare byte", "tag with two", "group", "end of a group", "wire type 6", "wire type 7",
        "number 0", "number 0 with a length", "number 0 alone", "number of 30 bits",
    ],
)  # fmt: skip
def test_what_parsers_could_read_in_two_ways_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        find(message, (1,))
    assert not isinstance(caught.value, ParseFailed) or message == b"\x02"


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a",
        b"\x0a\x05a",
        b"\x0a\x80",
        b"\x08",
        b"\x08\x80",
        b"\x08" + b"\x80" * 10 + b"\x01",
        b"\x0d\x00",
        b"\x09\x00",
        b"\x80",
        b"\x8a\x80\x80\x80\x80\x00\x01a",
        b"\x0a\x81\x80\x80\x80\x80\x00a",
    ],
)
def test_a_message_that_ends_early_is_none(message: bytes) -> None:
    with pytest.raises(ParseFailed):
        find(message, ())


def test_a_length_may_have_spare_bytes() -> None:
    assert find(b"\x0a\x81\x80\x80\x80\x00a", (1,)) == [Field(1, DELIMITED, 0, 6, 7)]
    assert request_class(SEND).FromString(b"\x0a\x81\x80\x80\x80\x00a").tenant == "a"


def test_more_fields_than_any_request_has_are_not_gone_through() -> None:
    find(b"\x50\x00" * MOST_FIELDS, ())
    with pytest.raises(BadRequest, match="too many fields"):
        find(b"\x50\x00" * (MOST_FIELDS + 1), ())


@given(st.binary(max_size=64))
def test_bytes_of_any_kind_are_read_or_refused(message: bytes) -> None:
    try:
        found = find(message, range(2**29))
    except BadRequest:
        return
    ends = [0, *[each.end for each in found]]
    assert [each.start for each in found] == ends[:-1]
    assert ends[-1] == len(message)


@given(st.binary(max_size=64))
def test_what_is_read_here_a_parser_reads_as_well(message: bytes) -> None:
    try:
        found = find(message, range(2**29))
    except BadRequest:
        return
    if any(field.number < 5 for field in found):
        # Messages and texts, whose contents are looked at by parsers alone.
        return
    request_class(SEND).FromString(message)


@given(st.data())
def test_what_a_parser_writes_is_read_here(data: st.DataObject) -> None:
    message = data.draw(messages(request_class(SEND)))
    found = find(message.SerializeToString(), range(2**29))
    assert {field.number for field in found} == {descriptor.number for descriptor, _ in message.ListFields()}


# ---- Crowds ----------------------------------------------------------------------------------------------------------


def nested(*numbers: int, inside: bytes) -> bytes:
    """A message within messages, under these numbers from the outside in; each is short."""
    for number in reversed(numbers):
        assert len(inside) < 2**14
        length = bytes([len(inside)]) if len(inside) < 0x80 else bytes([len(inside) & 0x7F | 0x80, len(inside) >> 7])
        inside = bytes([number << 3 | DELIMITED]) + length + inside
    return inside


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\x50\x00" * 21, id="fields that nobody knows"),
        pytest.param(nested(2, inside=b"\x2a\x00" * 21), id="parts"),
        pytest.param(nested(4, inside=b"\x0a\x00" * 21), id="members of metadata"),
        pytest.param(nested(2, 5, 4, 6, inside=b"\x0a\x00" * 18), id="values of a list"),
        pytest.param(nested(3, inside=b"\x0a\x00" * 21), id="texts"),
        pytest.param(nested(2, inside=b"\x2a\x02\x0a\x00" * 21), id="parts with something in them"),
    ],
)
def test_a_message_of_many_small_things_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequest, match="too many fields"):
        refuse_crowd(message, nesting(SEND), 20)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(nested(2, inside=b"\x2a\x00" * 19), id="just as many"),
        pytest.param(nested(2, inside=text_field(1, "x" * 10_000)), id="a long text"),
        pytest.param(text_field(90, "*" * 1_000), id="what nobody knows, whatever it holds"),
        pytest.param(nested(2, 5, inside=text_field(1, "*\x00" * 1_000)), id="a text that looks like parts"),
    ],
)
def test_a_message_of_few_things_passes_however_long_it_is(message: bytes) -> None:
    refuse_crowd(message, nesting(SEND), 20)


@pytest.mark.parametrize("sample", [each for each in samples() if each.method is not None], ids=str)
def test_no_request_of_the_vectors_is_a_crowd(sample: Sample) -> None:
    assert sample.method is not None
    refuse_crowd(sample.message, nesting(sample.method), 60)


@given(st.data(), st.integers(0, 40))
def test_a_message_is_refused_for_its_fields_and_nothing_else(data: st.DataObject, most: int) -> None:
    message = data.draw(messages(request_class(SEND)))
    written = message.SerializeToString()
    crowded = counted(written, nesting(SEND)) > most
    try:
        refuse_crowd(written, nesting(SEND), most)
    except BadRequest:
        assert crowded
    else:
        assert not crowded


def counted(message: bytes, inside: object) -> int:
    assert isinstance(inside, dict)
    total = 0
    for field in find(message, range(2**29)):
        total += 1
        if field.number in inside:
            total += counted(message[field.value : field.end], inside[field.number])
    return total


@given(st.binary(max_size=200))
def test_a_crowd_of_any_bytes_is_counted_or_refused(message: bytes) -> None:
    with suppress(BadRequest):
        refuse_crowd(message, nesting(SEND), 8)
