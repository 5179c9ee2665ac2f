"""Parameters: the places of a tenant, and the two spellings of an id."""

import json

import pytest

from gateway.a2a.fault import BadParams, DuplicateKey
from gateway.a2a.json import open_body
from gateway.a2a.operation import Operation
from gateway.a2a.params import (
    Parameters,
    ids_of,
    is_resource_of,
    open_params,
    reopen_params,
    way_to_message,
    with_tenant,
    with_texts,
)
from tests.table import for_each

SEND = Operation.SEND_MESSAGE
EVERYWHERE = {
    "tenant": "acme",
    "message": {"messageId": "m", "tenant": "not a place"},
    "configuration": {"historyLength": 1, "taskPushNotificationConfig": {"tenant": "acme", "url": "https://x"}},
}


def body(tree: object) -> bytes:
    return json.dumps(tree).encode()


def read(tree: object, operation: Operation = SEND) -> Parameters:
    return open_params(operation, open_body(body(tree)))


def rewritten(raw: bytes, tenant: str | None, operation: Operation = SEND) -> bytes:
    return with_tenant(open_params(operation, open_body(raw)), raw, tenant)


def test_a_tenant_is_found_beside_the_message_and_in_the_push_configuration_it_brings() -> None:
    assert read(EVERYWHERE).tenants == ("acme", "acme")
    assert read({"configuration": {"task_push_notification_config": {"tenant": "acme"}}}).tenant == "acme"
    assert read({"tenant": "", "configuration": None}).tenants == (None,)
    assert read({"configuration": {"taskPushNotificationConfig": None}}).tenants == ()
    assert read({"tenant": "acme", "configuration": {"tenant": "no place"}}).tenants == ("acme",)


@for_each(
    "name", ["pushNotificationConfig", "push_notification_config", "pushNotification", "task_push_notification_config"]
)
@for_each(
    ("operation", "around"),
    [
        (SEND, '{"configuration": {"a": 1, "NAME": {"tenant": "acme", "id": "c"}}, "message": {}}'),
        (SEND, '{"NAME":{"id":"c","tenant":"acme"}}'),
        (Operation.CREATE_PUSH_CONFIG, '{"taskId":"t","NAME":{"tenant":"acme"}}'),
        (Operation.CREATE_PUSH_CONFIG, '{"parent":"tasks/t","config": {"NAME": {"tenant":"acme"},"name":"x"}}'),
    ],
)
def test_a_push_configuration_is_a_place_whatever_its_generation_calls_it(
    operation: Operation, around: str, name: str
) -> None:
    raw = around.replace("NAME", name).encode()
    params = open_params(operation, open_body(raw))
    assert params.tenants == ("acme",)
    changed = json.loads(with_tenant(params, raw, "b"))
    assert changed == {**json.loads(raw.replace(b"acme", b"b")), "tenant": "b"}
    stripped = json.loads(with_tenant(params, raw, None))
    assert b"acme" not in json.dumps(stripped).encode()
    for twin in (
        '"tenant":"globex","\\u0074enant":"acme"',
        '"tenant":"acme","Tenant":"b"',
        '"tenant":"acme","__proto__":1',
    ):
        twins = raw.replace(b'"tenant":"acme"', twin.encode()).replace(b'"tenant": "acme"', twin.encode())
        with pytest.raises(DuplicateKey):
            open_params(operation, open_body(twins))


def test_a_request_without_parameters_gets_some_only_for_a_tenant() -> None:
    for raw in (b'{"id":1}', b' {"id":1, "params" : null } '):
        params = open_params(Operation.GET_EXTENDED_CARD, {}, open_body(raw))
        assert with_tenant(params, raw, None) == raw
        assert json.loads(with_tenant(params, raw, "b")) == {"id": 1, "params": {"tenant": "b"}}


def test_operations_that_send_nothing_have_one_place() -> None:
    assert read(EVERYWHERE, Operation.GET_TASK).tenants == ("acme",)
    assert read(EVERYWHERE, Operation.GET_TASK).message == {}


def test_two_places_that_differ_are_refused() -> None:
    tree = {"tenant": "acme", "configuration": {"taskPushNotificationConfig": {"tenant": "globex"}}}
    with pytest.raises(BadParams, match="tenant"):
        _ = read(tree).tenant


@for_each(
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


@for_each(
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
        open_params(SEND, open_body(raw))


@for_each("tenant", ["globex", None])
def test_another_tenant_goes_into_every_place_that_had_one(tenant: str | None) -> None:
    changed = json.loads(rewritten(body(EVERYWHERE), tenant))
    push = changed["configuration"]["taskPushNotificationConfig"]
    assert (changed.pop("tenant", None), push.pop("tenant", None)) == (tenant, tenant)
    assert push == {"url": "https://x"}
    assert changed["message"] == EVERYWHERE["message"]
    assert changed["configuration"]["historyLength"] == 1


def test_other_values_keep_their_bytes() -> None:
    raw = b'{"tenant":"a", "message": {"n": 1e5,"t":"\\u0041"}, "configuration":{"x":[1, 2]}}'
    rest = b'"message":{"n": 1e5,"t":"\\u0041"},"configuration":{"x":[1, 2]}}'
    assert rewritten(raw, "b") == b'{"tenant":"b",' + rest
    assert rewritten(raw, None) == b"{" + rest
    raw = b'{"configuration":{"taskPushNotificationConfig":{"a":1}}}'
    assert rewritten(raw, None) == raw
    assert json.loads(rewritten(raw, "b")) == {"tenant": "b", **json.loads(raw)}


def test_what_is_not_read_for_an_operation_is_not_changed() -> None:
    raw = b'{"tenant":"a","configuration":{"Id":1,"taskPushNotificationConfig":{"tenant":"x"}}}'
    assert rewritten(raw, None, Operation.GET_TASK) == raw.replace(b'"tenant":"a",', b"")


@for_each(
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
    assert ids_of(open_body(b'{"taskId":"t","context_id":"c"}')) == ("t", "c")
    assert ids_of(open_body(b'{"taskId":"t","task_id":"t","contextId":""}')) == ("t", None)
    with pytest.raises(BadParams, match="taskId"):
        ids_of(open_body(b'{"taskId":"t","task_id":"u"}'))


PUSHING = (
    b' {"params": { "configuration":{"a":[1, 2],"pushNotificationConfig":{"url":"u"}} , "message":{"t\\u0061skId":""}}}'
)


def test_every_push_configuration_is_told_with_the_way_to_it() -> None:
    params = reopen_params(SEND, PUSHING, envelope=True)
    assert [[name for name, _ in way] for way in params.pushes] == [["configuration", "pushNotificationConfig"]]
    assert params.inner == ()
    assert read({"configuration": {"pushNotificationConfig": None}}).pushes == ()
    found = read({"config": {"name": "n", "pushNotificationConfig": {}}}, Operation.CREATE_PUSH_CONFIG).pushes
    assert [[name for name, _ in way] for way in found] == [["config"], ["config", "pushNotificationConfig"]]


def test_what_is_read_again_is_what_was_read() -> None:
    raw = body(EVERYWHERE)
    assert reopen_params(SEND, raw, envelope=False) == open_params(SEND, open_body(raw))
    enveloped = b'{"id":1,"params":' + raw + b"}"
    again = reopen_params(SEND, enveloped, envelope=True)
    assert again == open_params(SEND, open_body(raw), open_body(enveloped))
    for empty in (b"", b"{}"):
        assert reopen_params(Operation.CANCEL_TASK, empty, envelope=False).members == {}
    for without in (b'{"id":1}', b'{"id":1,"params":null}'):
        assert reopen_params(Operation.GET_EXTENDED_CARD, without, envelope=True).members == {}
    with pytest.raises(BadParams):
        reopen_params(SEND, b"[]", envelope=False)


def test_texts_are_put_in_place() -> None:
    params = reopen_params(SEND, PUSHING, envelope=True)
    message, push = way_to_message(params), params.pushes[0]
    changed = with_texts(params, PUSHING, [(message, "taskId"), (push, "url")], 'a"\u00e4')
    expected = json.loads(PUSHING)["params"]
    expected["message"]["taskId"] = expected["configuration"]["pushNotificationConfig"]["url"] = 'a"\u00e4'
    assert json.loads(changed) == {"params": expected}
    raw = b'{"request":{"taskId":"t"},"id" : null}'
    params = open_params(SEND, open_body(raw))
    assert json.loads(with_texts(params, raw, [((), "id")], "x")) == {"request": {"taskId": "t"}, "id": "x"}


@for_each(
    ("name", "config", "is_its"),
    [
        ("tasks/t", None, True),
        ("tasks/t/pushNotificationConfigs", None, True),
        ("tasks/t/pushNotificationConfigs/", "c", True),
        ("tasks/t/pushNotificationConfigs/c", None, True),
        ("tasks/t/pushNotificationConfigs/c", "c", True),
        ("tasks/t/pushNotificationConfigs/c", "d", False),
        ("tasks/t/pushNotificationConfigs/c/d", None, False),
        ("tasks/t/pushNotificationConfigsc", None, False),
        ("tasks/t/", None, False),
        ("tasks/tt", None, False),
        ("tasks/u", None, False),
        ("t", None, False),
        ("", None, False),
        ("Tasks/t", None, False),
    ],
)
def test_a_resource_name_is_that_of_a_task_or_it_is_not(name: str, config: str | None, *, is_its: bool) -> None:
    assert is_resource_of(name, "t", config) is is_its
    assert not is_resource_of(name, None, config)
    assert not is_resource_of("tasks/None", None)
