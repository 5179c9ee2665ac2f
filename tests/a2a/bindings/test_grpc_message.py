"""The wire format of protobuf, without a schema."""

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from a2a.types import a2a_pb2 as new
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # protobuf ships no types
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_message import MOST_FIELDS, from_tree, refuse_crowd, request_class, to_tree, values
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest, ParseFailed
from gateway.a2a.operation import Operation
from gateway.a2a.versions.version import Misfit
from tests.a2a.bindings.grpc_sample import classes, messages
from tests.a2a.versions.trees import MORE
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
def test_an_ambiguous_or_malformed_message_is_refused(message: bytes, kind: type[BadRequest]) -> None:
    with pytest.raises(BadRequest) as caught:
        values(message, 1)
    assert type(caught.value) is kind


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(message: bytes) -> None:
    with suppress(BadRequest):
        values(message, 1)
    with suppress(BadRequest):
        refuse_crowd(message, SEND.DESCRIPTOR, 8)


# ---- What ProtoJSON of the gateway does beside that of protobuf ------------------------------------------------------


@MORE
@given(st.sampled_from(classes()), st.data())
def test_every_message_survives_as_a_tree(kind: Any, data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    tree = to_tree(message)
    assert tree == MessageToDict(message)
    # json_format writes a double of -0.0 as the integer 0.
    assert MessageToDict(kind.FromString(from_tree(tree, kind))) == tree


def test_whole_numbers_are_integers_as_far_as_doubles_tell_them_apart() -> None:
    task = new.Task()
    task.metadata["a"] = [42.0, -(2.0**53), 2.0**54, 0.1, {"b": 1e300}]
    found = to_tree(task)["metadata"]["a"]
    assert found == [42, -(2**53), 2.0**54, 0.1, {"b": 1e300}]
    assert [type(each) for each in found[:4]] == [int, int, float, float]


@for_each(
    ("tree", "field", "words"),
    [
        ([], "", "must be an object"),
        (None, "", "must be an object"),
        ({"id": 1}, "id", "is not what the schema says"),
        ({"id": "\ud800"}, "id", "is not what the schema says"),
        ({"status": {"message": {"parts": [{"raw": "a"}]}}}, "status.message.parts.raw", "is not what the schema says"),
        ({"history": [None]}, "history", "is not what the schema says"),
        ({"contextId": "a", "context_id": "b", "artifacts": {}}, "artifacts", "is not what the schema says"),
        ({"artifacts": [{"parts": [{"text": "a", "url": "b"}]}]}, "artifacts.parts", "is not what the schema says"),
        ({"metadata": {"a": 10**400}}, "", "holds a number that protobuf has not"),
        ({"metadata": {"a": Decimal("1e400")}}, "", "holds a number that protobuf has not"),
    ],
)
def test_a_misfit_names_its_field_and_no_value(tree: Any, field: str, words: str) -> None:
    with pytest.raises(Misfit) as caught:
        from_tree(tree, new.Task)
    assert (caught.value.field, caught.value.words) == (field, words)
