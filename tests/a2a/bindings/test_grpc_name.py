"""Resource names of 0.3, read and written."""

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_fields import read_name, write_name
from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import methods
from tests.table import for_each

TASKS = (Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK)
CONFIGS = (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG)
PARENTS = (Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)


@for_each("name", ["tasks/", "tasks/a/b", "/t", "t/", "tasks//t", "/tasks/t", "Tasks/t", "tasks/t/x",
                                  "tasks/t/pushNotificationConfigs/c/d", "t/pushNotificationConfigs/c"])  # fmt: skip
def test_a_name_of_something_else_is_refused(name: str) -> None:
    for operation in TASKS:
        with pytest.raises(BadParams, match=r"name must be tasks/\{task\}$") as caught:
            read_name(operation, old.GetTaskRequest(name=name))
        assert caught.value.field == "name"
    for operation in CONFIGS:
        with pytest.raises(BadParams, match=r"name must be tasks/\{task\}/pushNotificationConfigs/\{id\}$"):
            read_name(operation, old.GetTaskPushNotificationConfigRequest(name=name))
    for operation in PARENTS:
        with pytest.raises(BadParams, match=r"parent must be tasks/\{task\}$"):
            read_name(operation, old.ListTaskPushNotificationConfigRequest(parent=name))


@for_each("name", ["t", "tasks/t", "tasks/t/pushNotificationConfigs"])
def test_a_configuration_is_not_named_by_its_task_alone(name: str) -> None:
    for operation in CONFIGS:
        with pytest.raises(BadParams):
            read_name(operation, old.GetTaskPushNotificationConfigRequest(name=name))


@given(IDS, IDS)
def test_what_is_written_is_read_again(task: str, config: str) -> None:
    params = {"id": task, "historyLength": 1}
    for method in methods(Version.V0_3):
        operation = method.operation
        if operation in (*CONFIGS, *PARENTS):
            params = {"taskId": task, "id": config}
        try:
            written = write_name(operation, params)
        except BadParams:
            assert any(not each.isalnum() or not each.isascii() for each in (task, config))
            return
        named = request_class(method)(**{name: written[name] for name in ("name", "parent") if name in written})
        found = read_name(operation, named)
        assert found.task_id == (task if operation in (*TASKS, *CONFIGS, *PARENTS) else None)
        assert found.config_id == (config if operation in CONFIGS else None)
