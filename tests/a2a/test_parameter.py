"""Parameters: the places of a tenant, and the two spellings of an id."""

import json

import pytest

from gateway.a2a import parameter
from gateway.a2a.document import open_body
from gateway.a2a.fault import BadParams, DuplicateKey
from gateway.a2a.operation import Operation

SEND = Operation.SEND_MESSAGE
EVERYWHERE = {
    "tenant": "acme",
    "message": {"messageId": "m", "tenant": "not a place"},
    "configuration": {"historyLength": 1, "taskPushNotificationConfig": {"tenant": "acme", "url": "https://x"}},
}


def body(tree: object) -> bytes:
    return json.dumps(tree).encode()


def read(tree: object, operation: Operation = SEND) -> parameter.Parameters:
    return parameter.read(operation, open_body(body(tree)))


def test_a_tenant_is_found_beside_the_message_and_in_the_push_configuration_it_brings() -> None:
    assert read(EVERYWHERE).tenants == ("acme", "acme")
    assert read({"configuration": {"task_push_notification_config": {"tenant": "acme"}}}).tenant == "acme"
    assert read({"tenant": "", "configuration": None}).tenants == (None,)
    assert read({"configuration": {"taskPushNotificationConfig": None}}).tenants == ()
    assert read({"tenant": "acme", "configuration": {"tenant": "no place"}}).tenants == ("acme",)


def test_operations_that_send_nothing_have_one_place() -> None:
    assert read(EVERYWHERE, Operation.GET_TASK).tenants == ("acme",)
    assert read(EVERYWHERE, Operation.GET_TASK).message == {}


def test_two_places_that_differ_are_refused() -> None:
    tree = {"tenant": "acme", "configuration": {"taskPushNotificationConfig": {"tenant": "globex"}}}
    with pytest.raises(BadParams, match="tenant"):
        _ = read(tree).tenant


@pytest.mark.parametrize(
    "tree",
    [
        {"message": 1},
        {"message": []},
        {"configuration": "x"},
        {"configuration": {"taskPushNotificationConfig": []}},
        {"configuration": {"taskPushNotificationConfig": {"tenant": 1}}},
        {"tenant": {}},
        {"message": None, "request": {"taskId": "other"}},
        {"message": {}, "request": {}},
        {"configuration": {"taskPushNotificationConfig": {}, "task_push_notification_config": {"tenant": "x"}}},
    ],
)
def test_wrong_shapes_and_two_names_of_one_thing_are_refused(tree: object) -> None:
    with pytest.raises(BadParams):
        read(tree)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"message":{"taskId":"a","taskId":"b"}}',
        b'{"message":{"taskid":"a"}}',
        b'{"configuration":{"taskPushNotificationConfig":{"tenant":"a","Tenant":"b"}}}',
        b'{"configuration":{"taskPushNotificationConfig":{},"taskpushnotificationconfig":{}}}',
        b'{"Message":{}}',
    ],
)
def test_twins_are_refused_in_whatever_is_opened(raw: bytes) -> None:
    with pytest.raises(DuplicateKey):
        parameter.read(SEND, open_body(raw))


@pytest.mark.parametrize("tenant", ["globex", None])
def test_another_tenant_goes_into_every_place_that_had_one(tenant: str | None) -> None:
    changed = json.loads(parameter.with_tenant(SEND, open_body(body(EVERYWHERE)), tenant))
    push = changed["configuration"]["taskPushNotificationConfig"]
    assert (changed.pop("tenant", None), push.pop("tenant", None)) == (tenant, tenant)
    assert push == {"url": "https://x"}
    assert changed["message"] == EVERYWHERE["message"]
    assert changed["configuration"]["historyLength"] == 1


def test_other_values_keep_their_bytes() -> None:
    raw = b'{"tenant":"a", "message": {"n": 1e5,"t":"\\u0041"}, "configuration":{"x":[1, 2]}}'
    written = b'{"tenant":"b","message":{"n": 1e5,"t":"\\u0041"},"configuration":{"x":[1, 2]}}'
    assert parameter.with_tenant(SEND, open_body(raw), "b") == written
    assert parameter.with_tenant(
        SEND, open_body(b'{"configuration":{"taskPushNotificationConfig":{"a":1}}}'), None
    ) == (b'{"configuration":{"taskPushNotificationConfig":{"a":1}}}')


def test_what_is_not_read_for_an_operation_is_not_changed() -> None:
    raw = b'{"tenant":"a","configuration":{"Id":1,"taskPushNotificationConfig":{"tenant":"x"}}}'
    assert parameter.with_tenant(Operation.GET_TASK, open_body(raw), None) == raw.replace(b'"tenant":"a",', b"")


@pytest.mark.parametrize(
    ("tree", "tenant", "says"),
    [
        (EVERYWHERE, "acme", True),
        (EVERYWHERE, "globex", False),
        (EVERYWHERE, None, False),
        ({}, None, True),
        ({"tenant": ""}, None, False),
        ({"tenant": ""}, "acme", False),
        ({"tenant": "acme", "configuration": {"taskPushNotificationConfig": {"tenant": ""}}}, "acme", False),
    ],
)
def test_nothing_has_to_change_only_if_every_place_says_it(tree: object, tenant: str | None, *, says: bool) -> None:
    assert read(tree).says(tenant) is says


def test_an_id_is_read_in_both_spellings() -> None:
    assert parameter.ids(open_body(b'{"taskId":"t","context_id":"c"}')) == ("t", "c")
    assert parameter.ids(open_body(b'{"taskId":"t","task_id":"t","contextId":""}')) == ("t", None)
    with pytest.raises(BadParams, match="taskId"):
        parameter.ids(open_body(b'{"taskId":"t","task_id":"u"}'))
