"""Parameters: the places of a tenant, and the two spellings of an id."""

import json

import pytest

from gateway.a2a.fault import BadParams, DuplicateKey
from gateway.a2a.json import open_body
from gateway.a2a.operation import Operation
from gateway.a2a.params import (
    Parameters,
    is_resource_of,
    open_params,
    reopen_params,
    with_tenant,
)
from tests.table import for_each

SEND = Operation.SEND_MESSAGE


def body(tree: object) -> bytes:
    return json.dumps(tree).encode()


def read(tree: object, operation: Operation = SEND) -> Parameters:
    return open_params(operation, open_body(body(tree)))


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
def test_push_configurations_are_places_in_every_generation(operation: Operation, around: str, name: str) -> None:
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
