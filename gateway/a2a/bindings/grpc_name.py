"""Resource names, by which 0.3 over gRPC says which task a request is about: `tasks/T`, as a path of HTTP+JSON has it.

Nobody escapes anything in one, and its readers stop at the next `/`. So an id that holds a `/` cannot be in a name: it
would be another task's.
"""

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types of its own

from gateway.a2a.bindings.field import path_id
from gateway.a2a.fault import BadParams
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall

BY_NAME = frozenset({
    Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK, Operation.GET_PUSH_CONFIG,
    Operation.DELETE_PUSH_CONFIG,
})  # fmt: skip
"""Operations whose requests have a `name`."""
BY_PARENT = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS})
"""Operations whose requests have a `parent`: the task of what is created or listed."""

# Clients of the candidates of 1.0 have the bare id (protocol trap 24).
_TASK = re.compile(r"(?:tasks/)?(?P<task>[^/]+)")
_CONFIG = re.compile(r"tasks/(?P<task>[^/]+)/pushNotificationConfigs/(?P<config>[^/]*)")
_OF_CONFIG = frozenset({Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG})


def read_name(operation: Operation, request: Message) -> PathCall:
    """The ids that a request of 0.3 names, as if they stood in a path; one that is empty is none.

    Raises:
        BadParams: the name is none of a task, or of a push configuration.
    """
    if operation in BY_NAME:
        field, name = "name", request.name
    elif operation in BY_PARENT:
        # The proto's own path for creations has the collection behind the task (protocol §3).
        field, name = "parent", request.parent.removesuffix("/pushNotificationConfigs")
    else:
        return PathCall(operation)
    if not name:
        return PathCall(operation)
    config = operation in _OF_CONFIG
    found = (_CONFIG if config else _TASK).fullmatch(name)
    if found is None:
        form = "tasks/{task}/pushNotificationConfigs/{id}" if config else "tasks/{task}"
        raise BadParams(f"{field} must be {form}", field=field)
    return PathCall(operation, task_id=found["task"], config_id=(found["config"] or None) if config else None)


def write_name(operation: Operation, params: Mapping[str, Any]) -> Tree:
    """Parameters of 0.3 with the name that its requests have, in place of the ids that a path would.

    Raises:
        BadParams: an id is missing, or none that a name can carry: the same that a path can.
    """
    if operation in BY_PARENT:
        # The form says the parent of a creation itself.
        return {"parent": f"tasks/{path_id(params, 'taskId', 'task_id')}", **params}
    if operation not in BY_NAME:
        return dict(params)
    if operation not in _OF_CONFIG:
        return {"name": f"tasks/{path_id(params, 'id')}", **params}
    task, config = path_id(params, "taskId", "task_id"), path_id(params, "id")
    return {"name": f"tasks/{task}/pushNotificationConfigs/{config}"}
