"""Ids in messages of gRPC: no two that differ, and others in their place."""

from typing import Any

import pytest
from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types of its own
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings import grpc, grpc_fields
from gateway.a2a.bindings.grpc_message import event_class, result_class, to_tree
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import VERSIONS, made, messages, samples
from tests.support.grpc_bytes import text_field
from tests.table import for_each

V0_3, V1_0 = VERSIONS
MARK = "gw-0123abcd-"
CREATE = Operation.CREATE_PUSH_CONFIG
UPDATES = [each for each in samples() if each.place != "request"]


def call_of(operation: Operation, version: Version, *, more: bytes = b"", **members: Any) -> Call:
    return grpc.read_call(method_of(operation, version), made(operation, version, **members) + more)


# ---- Two that differ -------------------------------------------------------------------------------------------------


@for_each("name", ["tasks/u", "t", "u", "tasks/u/pushNotificationConfigs/x", "tasks/t/x"])
@for_each("parent", ["tasks/t", ""])
def test_what_is_created_has_no_name_of_another_task(parent: str, name: str) -> None:
    """Servers differ in which of the two they follow."""
    with pytest.raises(BadParams, match="another task"):
        call_of(CREATE, V0_3, parent=parent, config={"name": name})


def test_a_push_configuration_of_0_3_has_no_place_for_another_webhook() -> None:
    """Agents of candidates of 1.0 are called by the same paths, and have other members."""
    push = text_field(2, "https://10.0.0.1")
    for inside in (push, text_field(2, push.decode())):
        for number in (3, 5, 8, 15):
            with pytest.raises(BadParams):
                call_of(
                    CREATE, V0_3, parent="tasks/t", more=text_field(3, text_field(number, inside.decode()).decode())
                )
            if number > 4:
                with pytest.raises(BadParams, match="does not know"):
                    call_of(CREATE, V0_3, parent="tasks/t", more=text_field(number, inside.decode()))


# ---- Another context -------------------------------------------------------------------------------------------------


def test_what_names_no_context_stays_the_message_that_it_is() -> None:
    for call in (
        call_of(Operation.SEND_MESSAGE, V1_0, message={"task_id": "t"}),
        call_of(Operation.SEND_MESSAGE, V0_3),
        call_of(Operation.LIST_TASKS, V1_0),
        call_of(Operation.GET_TASK, V1_0, id="c"),
    ):
        assert grpc_fields.with_context(call, "d") is call.body


# ---- Without a mark --------------------------------------------------------------------------------------------------


def cut(tree: Any) -> Any:
    """A tree without the mark, in its names as well."""
    if isinstance(tree, dict):
        return {name.replace(MARK, ""): cut(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [cut(each) for each in tree]
    return tree.replace(MARK, "") if isinstance(tree, str) else tree


def mark_all(message: Message) -> None:
    """Put the mark before every text, and before the names in every struct."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for name in list(value):
                if field.message_type.fields_by_name["value"].message_type is None:
                    value[MARK + name] = MARK + value[name]
                else:
                    mark_all(value[name])
                    value[MARK + name].CopyFrom(value[name])
                del value[name]
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                mark_all(each)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [MARK + each for each in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value + MARK)


def without(message: bytes, operation: Operation, version: Version, *, event: bool) -> bytes:
    return grpc_fields.without(message, MARK, version=version, operation=operation, event=event)


@for_each("sample", UPDATES)
def test_a_mark_is_cut_out_of_every_text_of_the_vectors(sample: Any) -> None:
    event = sample.place != "response"
    kind = event_class(sample.version) if event else result_class(sample.operation, sample.version)
    marked = kind.FromString(sample.message)
    mark_all(marked)
    assert without(sample.message, sample.operation, sample.version, event=event) is sample.message
    if marked.ByteSize():
        written = marked.SerializeToString()
        assert MARK.encode() in written
        found = without(written, sample.operation, sample.version, event=event)
        assert kind.FromString(found) == kind.FromString(sample.message)


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_mark_is_cut_out_of_any_event(data: st.DataObject, version: Version) -> None:
    kind = event_class(version)
    event = data.draw(messages(kind))
    before = to_tree(event)
    mark_all(event)
    found = without(event.SerializeToString(), Operation.SEND_STREAMING_MESSAGE, version, event=True)
    assert to_tree(kind.FromString(found)) == before == cut(before)


def test_a_mark_is_cut_out_of_names_and_texts_of_a_map() -> None:
    kind = result_class(Operation.GET_EXTENDED_CARD, V1_0)
    scopes = {f"{MARK}read": f"may {MARK}read", "write": "w", f"{MARK}none": ""}
    flows = {"client_credentials": {"token_url": "https://x", "scopes": scopes}}
    card = kind(security_schemes={"o": {"oauth2_security_scheme": {"flows": flows}}}).SerializeToString()
    found = kind.FromString(without(card, Operation.GET_EXTENDED_CARD, V1_0, event=False))
    told = found.security_schemes["o"].oauth2_security_scheme.flows.client_credentials.scopes
    assert dict(told) == {"read": "may read", "write": "w", "none": ""}


def test_a_mark_in_bytes_is_none() -> None:
    kind = event_class(V1_0)
    event = kind(task={"artifacts": [{"parts": [{"raw": MARK.encode()}]}]}).SerializeToString()
    assert without(event, Operation.SEND_STREAMING_MESSAGE, V1_0, event=True) is event


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(UpstreamProtocol):
        without(b"\x0a\xff" + MARK.encode(), Operation.GET_TASK, V1_0, event=False)
