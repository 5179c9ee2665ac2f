"""A2A 0.2 and 0.3 over JSON-RPC, as their JSON schema spells it: `kind`, `parts`, `user`, `completed`, `file.bytes`.

What speakers of these generations are seen to write is read as well: 1.0's own spellings within (`ROLE_USER`,
`TASK_STATE_WORKING`, parts without `kind`, results wrapped as `{"task": ...}`), nulls and empty lists anywhere. What
is written is 0.3 by the letter, and says what 0.3 would otherwise leave to its reader's taste (`blocking`, `append`).

What messages, tasks and events become is in `v0_3_object`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.foreign import drop, foreign
from gateway.a2a.versions.reading import (
    Members,
    each,
    every,
    expect_int,
    expect_list,
    expect_object,
    expect_text,
    expect_texts,
    inside,
    read,
    require_id,
    require_text,
)
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.v0_3_object import (
    lift_any,
    lift_sent_message,
    lift_state,
    lift_task,
    lower_any,
    lower_message,
    lower_state,
    lower_task,
)
from gateway.a2a.versions.version import Loss, Memo, Misfit

_HERE = "0.3 over JSON-RPC"


class V0_3:  # noqa: N801 - named after its version, as its module
    """Objects of 0.2 and 0.3 as their JSON schema has them."""

    version: ClassVar[Version] = Version.V0_3
    # In prose 0.3 can list tasks, over other bindings; no agent has been met that does.
    answers: ClassVar[frozenset[Operation]] = frozenset(Operation) - {Operation.LIST_TASKS}
    losses: ClassVar[tuple[Loss, ...]] = (
        Loss("mediaType of a text or data part", _HERE, "kept in its metadata as media_type_compat"),
        Loss("filename of a text or data part", _HERE, "kept in its metadata as filename_compat"),
        Loss("data that is no object", _HERE, 'wrapped as {"value": ...} with data_part_compat in its metadata'),
        Loss("a part's metadata under one of those three names", "1.0", "read as what is kept there"),
        Loss(
            "a part's metadata that is empty, or holds those three only", "1.0", "dropped, where one of them was read"
        ),
        Loss("a part of no content", _HERE, "data of null"),
        Loss("ROLE_UNSPECIFIED", _HERE, "agent"),
        Loss("historyLength of 0, for no history", _HERE, "0, which means all; the history is left out of the answer"),
        Loss("returnImmediately that is absent", _HERE, "blocking: true, which means the same"),
        Loss("taskId of a push configuration in a send", _HERE, "dropped"),
        Loss("pageSize and pageToken of a list of push configurations", _HERE, "dropped: all come at once"),
        Loss("nextPageToken of a list of push configurations", _HERE, "dropped: only the first page is seen"),
        Loss("contextId and taskId of a message that are empty", _HERE, "dropped, which means the same"),
        Loss("mediaType and filename that are empty", _HERE, "dropped, which means the same"),
        Loss(
            "a task or an event without a context", _HERE, "the call's; without one, empty or in events the task's id"
        ),
        Loss("ListTasks", _HERE, "clients may ask as in 1.0; agents cannot be asked"),
        Loss("kind", "1.0", "dropped: members tell it"),
        Loss("final", "1.0", "dropped: the end of the stream tells it"),
        Loss("append and lastChunk that are false", "1.0", "dropped, which means the same"),
        Loss("blocking: true", "1.0", "dropped, which means the same"),
        Loss(
            "historyLength of 0, for all of it", "1.0", "dropped, which means the same; but 1.0's meaning in ListTasks"
        ),
        Loss("schemes of a push configuration but the first", "1.0", "dropped"),
        Loss("id of a push configuration that is empty", "1.0", "dropped, which means the same"),
        Loss("metadata of operations on a task but CancelTask", "1.0", "dropped"),
        Loss("members of a file but bytes, uri, mimeType, name", "1.0", "dropped"),
        Loss("mimeType and name of a file that are empty", "1.0", "dropped"),
        Loss("contents of a part that its kind does not name", "1.0", "dropped"),
        Loss("timestamp of a status that names no moment", "1.0", "dropped"),
        Loss("offset of a timestamp, and its digits beyond nanoseconds", "1.0", "the same moment in UTC; dropped"),
        Loss("an agent's message without messageId, role or parts", "1.0", "an id of the gateway's, agent, none"),
        Loss("an event without a context", "1.0", "the call's context, else the task's id"),
    )

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:  # noqa: ARG002 - as every form
        """As `Form` says; a client must send what 0.3 requires, but for `kind`."""
        lift = _LIFT_PARAMS.get(operation)
        if lift is None:
            return params
        read(params, _PARAMS)
        return lift(params)

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """As `Form` says."""
        if operation.sends and not params["message"].get("messageId"):
            params["message"]["messageId"] = memo.message_id
        lower = _LOWER_PARAMS.get(operation)
        return params if lower is None else lower(params)

    def lift_result(self, operation: Operation, result: object, memo: Memo) -> Tree:
        """As `Form` says."""
        if operation is Operation.DELETE_PUSH_CONFIG:
            return {}
        if operation is Operation.LIST_PUSH_CONFIGS:
            return _lift_configs(result, memo)
        if type(result) is not dict:
            raise Misfit("", "must be an object")
        lift = _LIFT_RESULT.get(operation)
        return result if lift is None else lift(result, memo)

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Any:  # noqa: ANN401 - as `Form` has it
        """As `Form` says; a list of push configurations, None for a deletion, else an object."""
        lower = _LOWER_RESULT.get(operation)
        return result if lower is None else lower(result, memo)

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """As `Form` says."""
        if type(event) is not dict:
            raise Misfit("", "must be an object")
        return lift_any(event, memo)

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
        """As `Form` says; always one."""
        return (lower_any(event, memo, last=last),)


FORM = V0_3()
"""The one instance."""


# ---- Parameters, lifted ----------------------------------------------------------------------------------------------

_PARAMS: Members = {"metadata": dict, "contextId": str, "pageToken": str, "includeArtifacts": bool}
_CONFIGURATION: Members = {"blocking": bool, "returnImmediately": bool}


def _lift_send(params: Tree) -> Tree:
    if inside(params, "message", lift_sent_message) is None:
        raise Misfit("message", "is required")
    inside(params, "configuration", _lift_configuration)
    return params


def _lift_configuration(configuration: Tree) -> Tree:
    read(configuration, _CONFIGURATION)
    expect_texts(configuration, "acceptedOutputModes")
    _lift_history_length(configuration)
    if "blocking" in configuration:
        configuration["returnImmediately"] = not configuration.pop("blocking")
    if configuration.get("returnImmediately") is False:
        del configuration["returnImmediately"]
    if expect_object(configuration, "pushNotificationConfig") is not None:
        inside(configuration, "pushNotificationConfig", _lift_push)
        configuration["taskPushNotificationConfig"] = configuration.pop("pushNotificationConfig")
    else:
        inside(configuration, "taskPushNotificationConfig", _lift_push)
    return configuration


def _lift_history_length(tree: Tree) -> None:
    if _expect_length(tree) == 0:
        # 0.3, as its proto has it: all of it.
        del tree["historyLength"]


def _expect_length(tree: Tree) -> int | None:
    length = expect_int(tree, "historyLength")
    if length is not None and length < 0:
        raise Misfit("historyLength", "must not be negative")
    return length


def _lift_query(params: Tree) -> Tree:
    require_id(params, "id")
    _lift_history_length(params)
    params.pop("metadata", None)
    return params


def _lift_cancellation(params: Tree) -> Tree:
    require_id(params, "id")
    return params


def _lift_subscription(params: Tree) -> Tree:
    require_id(params, "id")
    params.pop("metadata", None)
    return params


def _lift_listing(params: Tree) -> Tree:
    expect_int(params, "pageSize")
    # The operation is 1.0's, and so is the meaning of 0: none.
    _expect_length(params)
    state = expect_text(params, "status")
    if state is not None:
        lifted = lift_state(state)
        if lifted is None:
            raise Misfit("status", "must be the state of a task, as completed")
        params["status"] = lifted
    after = expect_text(params, "statusTimestampAfter")
    if after is not None:
        moment = to_utc(after)
        if moment is None:
            # Dropped it would show more than was asked for.
            raise Misfit("statusTimestampAfter", "must be a moment, as 2026-02-03T04:05:06Z")
        params["statusTimestampAfter"] = moment
    return params


def _lift_naming(params: Tree) -> Tree:
    """Lift what names a push configuration: `id` is the task's here, the configuration's in 1.0."""
    config_id = expect_text(params, "pushNotificationConfigId")
    params["taskId"] = require_id(params, "id")
    del params["id"]
    params.pop("pushNotificationConfigId", None)
    params.pop("metadata", None)
    if config_id:
        params["id"] = config_id
    return params


def _lift_deletion(params: Tree) -> Tree:
    require_id(params, "pushNotificationConfigId")
    return _lift_naming(params)


def _lift_configs_of(params: Tree) -> Tree:
    params.pop("pushNotificationConfigId", None)
    expect_int(params, "pageSize")
    return _lift_naming(params)


# ---- Push configurations and results, lifted -------------------------------------------------------------------------

_PUSH: Members = {"id": str, "url": str, "token": str}
_AUTHENTICATION: Members = {"scheme": str, "credentials": str}
_NAMED: Members = {"taskId": str}
_PAGE: Members = {"nextPageToken": str}
_OUTSIDE = frozenset({"id", "taskId", "tenant", "url", "token", "authentication", "pushNotificationConfig"})


def _lift_push(config: Tree) -> Tree:
    read(config, _PUSH)
    require_text(config, "url")
    if config.get("id") == "":
        del config["id"]
    inside(config, "authentication", _lift_authentication)
    # They say whose it is in 1.0 and nothing here, where that is said outside.
    config.pop("taskId", None)
    config.pop("tenant", None)
    return config


def _lift_authentication(authentication: Tree) -> Tree:
    read(authentication, _AUTHENTICATION)
    schemes = expect_texts(authentication, "schemes")
    if schemes is not None:
        del authentication["schemes"]
        if schemes:
            authentication["scheme"] = schemes[0]
    return authentication


def _lift_config(config: Tree, task_id: str | None = None) -> Tree:
    """Lift a push configuration and its task, which is `task_id` where it names none; None to insist on one."""
    read(config, _NAMED)
    named = config.get("taskId") or task_id or require_id(config, "taskId")
    flat = inside(config, "pushNotificationConfig", _lift_push)
    if flat is None:
        # As 1.0 has it, under a method of 0.3.
        if "url" not in config:
            raise Misfit("pushNotificationConfig", "is required")
        flat = _lift_push(config)
    else:
        for name, value in config.items():
            if name not in _OUTSIDE:
                flat.setdefault(name, value)
    flat["taskId"] = named
    return flat


def _lift_configs(result: object, memo: Memo) -> Tree:
    page: Tree = result if type(result) is dict else {"configs": result}
    read(page, _PAGE)
    try:
        configs = expect_list(page, "configs")
    except Misfit:
        raise Misfit("", "must be a list") from None
    if configs is None:
        page["configs"] = []
    else:
        every(configs, "" if page is not result else "configs", partial(_lift_config, task_id=memo.task_id))
    return page


def _lift_answered(result: Tree, memo: Memo) -> Tree:
    lifted = lift_any(result, memo)
    if "task" not in lifted and "message" not in lifted:
        raise Misfit("kind", "must be task or message")
    return lifted


def _lift_tasks(result: Tree, memo: Memo) -> Tree:
    read(result, _PAGE)
    expect_int(result, "pageSize")
    expect_int(result, "totalSize")
    # Many tasks: none of them is what the call is about.
    each(result, "tasks", lambda task: lift_task(task, Memo(message_id=memo.message_id)))
    return result


def _lift_answered_config(result: Tree, memo: Memo) -> Tree:
    return _lift_config(result, memo.task_id)


# ---- Lowered ---------------------------------------------------------------------------------------------------------

# They mean nothing to 1.0, so nobody has looked at them.
_FOREIGN_TO_CONFIGURATIONS = foreign("blocking", "pushNotificationConfig")
_FOREIGN_TO_NAMING = foreign("pushNotificationConfigId")


def _lower_send(params: Tree) -> Tree:
    lower_message(params["message"])
    configuration = params.setdefault("configuration", {})
    drop(configuration, _FOREIGN_TO_CONFIGURATIONS)
    # Absent it is the agent's choice, and agents choose differently (protocol §8.2).
    configuration["blocking"] = not configuration.pop("returnImmediately", False)
    config = configuration.pop("taskPushNotificationConfig", None)
    if config is not None:
        config.pop("taskId", None)
        configuration["pushNotificationConfig"] = _lower_push(config)
    return params


def _lower_listing(params: Tree) -> Tree:
    if "status" in params:
        params["status"] = lower_state(params["status"])
    return params


def _lower_naming(params: Tree) -> Tree:
    config_id = params.pop("id", None)
    drop(params, _FOREIGN_TO_NAMING)
    params["id"] = params.pop("taskId")
    if config_id:
        params["pushNotificationConfigId"] = config_id
    return params


def _lower_configs_of(params: Tree) -> Tree:
    for name in ("pageSize", "pageToken", "id"):
        params.pop(name, None)
    return _lower_naming(params)


def _lower_push(config: Tree) -> Tree:
    authentication = config.get("authentication")
    if authentication is not None:
        scheme = authentication.pop("scheme", "")
        authentication["schemes"] = [scheme] if scheme else []
    return config


def _lower_config(config: Tree) -> Tree:
    task_id = config.pop("taskId", "")
    return {"taskId": task_id, "pushNotificationConfig": _lower_push(config)}


def _lower_answered_config(result: Tree, memo: Memo) -> Tree:
    lowered = _lower_config(result)
    if not lowered["taskId"]:
        lowered["taskId"] = memo.task_id or ""
    return lowered


def _lower_configs(result: Tree, memo: Memo) -> list[Tree]:
    return [_lower_answered_config(config, memo) for config in result.get("configs") or ()]


def _lower_answered(result: Tree, memo: Memo) -> Tree:
    return lower_any(result, memo, last=True)


def _lower_tasks(result: Tree, memo: Memo) -> Tree:  # noqa: ARG001 - as every result
    nothing = Memo()
    for task in result.get("tasks") or ():
        lower_task(task, nothing)
    return result


def _lower_deletion(result: Tree, memo: Memo) -> None:
    """0.3 answers a deletion with null."""


# ---- Which operation has which ---------------------------------------------------------------------------------------

_LIFT_PARAMS: dict[Operation, Callable[[Tree], Tree]] = {
    Operation.SEND_MESSAGE: _lift_send,
    Operation.SEND_STREAMING_MESSAGE: _lift_send,
    Operation.GET_TASK: _lift_query,
    Operation.LIST_TASKS: _lift_listing,
    Operation.CANCEL_TASK: _lift_cancellation,
    Operation.SUBSCRIBE_TO_TASK: _lift_subscription,
    Operation.CREATE_PUSH_CONFIG: _lift_config,
    Operation.GET_PUSH_CONFIG: _lift_naming,
    Operation.LIST_PUSH_CONFIGS: _lift_configs_of,
    Operation.DELETE_PUSH_CONFIG: _lift_deletion,
}
_LOWER_PARAMS: dict[Operation, Callable[[Tree], Tree]] = {
    Operation.SEND_MESSAGE: _lower_send,
    Operation.SEND_STREAMING_MESSAGE: _lower_send,
    Operation.LIST_TASKS: _lower_listing,
    Operation.CREATE_PUSH_CONFIG: _lower_config,
    Operation.GET_PUSH_CONFIG: _lower_naming,
    Operation.LIST_PUSH_CONFIGS: _lower_configs_of,
    Operation.DELETE_PUSH_CONFIG: _lower_naming,
}
_LIFT_RESULT: dict[Operation, Callable[[Tree, Memo], Tree]] = {
    Operation.SEND_MESSAGE: _lift_answered,
    Operation.SEND_STREAMING_MESSAGE: lift_any,
    Operation.SUBSCRIBE_TO_TASK: lift_any,
    Operation.GET_TASK: lift_task,
    Operation.CANCEL_TASK: lift_task,
    Operation.LIST_TASKS: _lift_tasks,
    Operation.CREATE_PUSH_CONFIG: _lift_answered_config,
    Operation.GET_PUSH_CONFIG: _lift_answered_config,
}
_LOWER_RESULT: dict[Operation, Callable[[Tree, Memo], Any]] = {
    Operation.SEND_MESSAGE: _lower_answered,
    Operation.SEND_STREAMING_MESSAGE: _lower_answered,
    Operation.SUBSCRIBE_TO_TASK: _lower_answered,
    Operation.GET_TASK: lower_task,
    Operation.CANCEL_TASK: lower_task,
    Operation.LIST_TASKS: _lower_tasks,
    Operation.CREATE_PUSH_CONFIG: _lower_answered_config,
    Operation.GET_PUSH_CONFIG: _lower_answered_config,
    Operation.LIST_PUSH_CONFIGS: _lower_configs,
    Operation.DELETE_PUSH_CONFIG: _lower_deletion,
}
