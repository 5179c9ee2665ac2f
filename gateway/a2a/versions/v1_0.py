"""A2A 1.0, which is the hub: what is read is checked and brought to one spelling, and what is written stays as it is.

A client is held to what the specification requires. Of an agent more is taken, because a reader can do something with
most of it: enumerations as older generations spell them, their `kind` and `final`, and required members that are
missing but can be told from the call or mean nothing. What is missing and has no such value is a `Misfit` in both.
"""

from dataclasses import replace
from typing import ClassVar

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.task_state import HUB_STATES, OLDER_STATES
from gateway.a2a.versions.shape import (
    ANY,
    BOOL,
    BYTES,
    COUNT,
    ID,
    MOMENT,
    OBJECT,
    TEXT,
    TEXTS,
    Field,
    Finish,
    Shape,
    among,
    choose,
    each,
    named,
    or_unset,
    read,
    required,
    shape,
    within,
)
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.version import Loss, Memo, Misfit


class V1_0:  # noqa: N801 - named after its version, as its module
    """Objects of 1.0 as ProtoJSON, which are the hub's."""

    version: ClassVar[Version] = Version.V1_0
    answers: ClassVar[frozenset[Operation]] = frozenset(CALLABLE)
    losses: ClassVar[tuple[Loss, ...]] = ()

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """As `Form` says; a member that the specification requires must be there and not be empty."""
        known = _PARAMS.get(operation)
        return params if known is None else read(params, known, memo)

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """As `Form` says."""
        if operation.sends and not params["message"].get("messageId"):
            params["message"]["messageId"] = memo.message_id
        return params

    def lift_result(self, operation: Operation, result: object, memo: Memo) -> Tree:
        """As `Form` says."""
        if operation is Operation.DELETE_PUSH_CONFIG:
            return {}
        if not isinstance(result, dict):
            raise Misfit("", "must be an object")
        known = _RESULTS.get(operation)
        if known is None:
            return result
        read(result, known, memo)
        if operation.sends:
            _learn(result, memo)
        elif known is _TASK:
            _learn({"task": result}, memo)
        return result

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Tree | None:  # noqa: ARG002 - as every form
        """As `Form` says; None for a deletion, whose result JSON-RPC writes as null."""
        if operation is Operation.DELETE_PUSH_CONFIG:
            return None
        if operation is Operation.LIST_TASKS:
            # Required though they may be empty or zero (1.0 §3.1.4), and strict readers insist.
            tasks = result.setdefault("tasks", [])
            result.setdefault("nextPageToken", "")
            result.setdefault("pageSize", len(tasks))
            result.setdefault("totalSize", len(tasks))
        elif operation is Operation.LIST_PUSH_CONFIGS:
            result.setdefault("configs", [])
        return result

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """As `Form` says."""
        if not isinstance(event, dict):
            raise Misfit("", "must be an object")
        read(event, _EVENT, memo)
        _learn(event, memo)
        return event

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:  # noqa: ARG002 - 1.0 just closes
        """As `Form` says."""
        update = event.get("statusUpdate") or event.get("artifactUpdate")
        if update:
            # Required, and older generations may know the task only from the call.
            update.setdefault("taskId", memo.task_id or "")
            update.setdefault("contextId", memo.context_id or "")
        return (event,)


FORM = V1_0()
"""The one instance."""


def _learn(found: Tree, memo: Memo) -> None:
    """Remember which task an answer or an event is about."""
    name = "id" if "task" in found else "taskId"
    task = found.get("task") or found.get("statusUpdate") or found.get("artifactUpdate")
    # A send has neither kind of update: what is called so there is a member that nobody knows.
    if type(task) is not dict:
        return
    task_id = task.get(name)
    context_id = task.get("contextId")
    if type(task_id) is str:
        memo.task_id = task_id or memo.task_id
    if type(context_id) is str:
        memo.context_id = context_id or memo.context_id


# ---- Values ----------------------------------------------------------------------------------------------------------

LENGTH = among(range(2**31), "must not be negative")
"""Messages of a history."""
_SIZE = among(range(1, 101), "must be from 1 to 100")
# What an answer dates its status with in vain is no reason to refuse the answer.
_ANSWERED_MOMENT = replace(MOMENT, read=lambda value, _: to_utc(value))

_ROLES = ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT")
_ROLE = named(_ROLES, "must be ROLE_USER or ROLE_AGENT", {"ROLE_UNSPECIFIED": None})
ANSWERED_ROLE = named(
    _ROLES,
    "must be ROLE_USER or ROLE_AGENT",
    {"ROLE_UNSPECIFIED": "ROLE_AGENT", "user": "ROLE_USER", "agent": "ROLE_AGENT"},
)
# Which all states pass: no filter at all.
_FILTER = named(HUB_STATES, "must be the name of a task state, as TASK_STATE_WORKING", {"TASK_STATE_UNSPECIFIED": None})
_STATE = named(HUB_STATES, "must be the name of a task state, as TASK_STATE_WORKING", OLDER_STATES)


# ---- What is seen to when all fields of an object are read -----------------------------------------------------------


def _finish_part(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    part.pop("kind", None)
    contents = ("text" in part) + ("raw" in part) + ("url" in part)
    if "data" in part:
        if part["data"] is not None:
            contents += 1
        elif contents:
            # A null is the value of `data` where there is nothing else, and else nothing.
            del part["data"]
        else:
            contents = 1
    if contents != 1:
        raise Misfit("", "must have exactly one of text, raw, url and data")


def _finish_answered_part(part: Tree, memo: Memo) -> None:
    part.pop("kind", None)
    if part.keys() <= _BESIDE_CONTENTS:
        # Some writers forget a null or an empty string where it is all that a part has.
        part["text"] = ""
    _finish_part(part, memo)


def _finish_message(message: Tree, memo: Memo) -> None:
    message.pop("kind", None)
    _MESSAGE_HAS(message, memo)


def finish_answered_message(message: Tree, memo: Memo) -> None:
    """Say what an agent has left out of a message."""
    message.pop("kind", None)
    if not message.get("messageId"):
        message["messageId"] = memo.message_id
    message.setdefault("role", "ROLE_AGENT")
    message.setdefault("parts", [])


def _finish_status(status: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    status.setdefault("state", "TASK_STATE_UNSPECIFIED")


def _finish_artifact(artifact: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    artifact.setdefault("artifactId", "")
    artifact.setdefault("parts", [])


def _finish_task(task: Tree, memo: Memo) -> None:
    task.pop("kind", None)
    _TASK_HAS(task, memo)
    if not task.get("contextId"):
        task["contextId"] = memo.context_id or ""


def _finish_status_update(update: Tree, memo: Memo) -> None:
    update.pop("kind", None)
    update.pop("final", None)
    if "status" not in update:
        raise Misfit("status", "is required")
    _name_task(update, memo)


def _finish_artifact_update(update: Tree, memo: Memo) -> None:
    update.pop("kind", None)
    if "artifact" not in update:
        raise Misfit("artifact", "is required")
    _name_task(update, memo)


def _name_task(update: Tree, memo: Memo) -> None:
    """Say which task an event or a configuration is about, where it does not say so itself."""
    if not update.get("taskId"):
        if not memo.task_id:
            raise Misfit("taskId", "is required")
        update["taskId"] = memo.task_id
    if not update.get("contextId"):
        update["contextId"] = memo.context_id or ""


def _finish_config(config: Tree, memo: Memo) -> None:
    if "taskId" not in config and memo.task_id:
        config["taskId"] = memo.task_id


def _finish_tasks(result: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    result.setdefault("tasks", [])


def _finish_configs(result: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    result.setdefault("configs", [])


_BESIDE_CONTENTS = frozenset({"metadata", "filename", "mediaType"})
_MESSAGE_HAS = required("messageId", "role", "parts")
_TASK_HAS = required("id", "status")


# ---- The shapes (1.0 §4) ---------------------------------------------------------------------------------------------


def _part(finish: Finish) -> Shape:
    return shape(
        {
            "text": TEXT,
            "raw": BYTES,
            "url": TEXT,
            "data": ANY,
            "metadata": OBJECT,
            "filename": TEXT,
            "mediaType": TEXT,
        },
        finish,
    )


def message_shape(part: Shape, role: Field, finish: Finish, **aliases: str) -> Shape:
    """A message; 0.3 has other names for some of its members, as for those of a status."""
    return shape(
        {
            "messageId": TEXT,
            "contextId": ID,
            "taskId": ID,
            "role": role,
            "parts": each(part),
            "metadata": OBJECT,
            "extensions": TEXTS,
            "referenceTaskIds": TEXTS,
        },
        finish,
        **aliases,
    )


def status_shape(message: Shape, **aliases: str) -> Shape:
    """The status of a task, as an agent says it."""
    fields = {"state": _STATE, "message": within(message), "timestamp": _ANSWERED_MOMENT}
    return shape(fields, _finish_status, **aliases)


def artifact_shape(part: Shape) -> Shape:
    """An artifact, as an agent sends it."""
    return shape(
        {
            "artifactId": TEXT,
            "name": TEXT,
            "description": TEXT,
            "parts": each(part),
            "metadata": OBJECT,
            "extensions": TEXTS,
        },
        _finish_artifact,
    )


def _config(finish: Finish) -> Shape:
    authentication = shape({"scheme": TEXT, "credentials": TEXT})
    return shape({"id": ID, "taskId": ID, "url": TEXT, "token": TEXT, "authentication": within(authentication)}, finish)


_SENT = shape(
    {
        "message": within(message_shape(_part(_finish_part), _ROLE, _finish_message)),
        "configuration": within(
            shape(
                {
                    "acceptedOutputModes": TEXTS,
                    "taskPushNotificationConfig": within(_config(required("url"))),
                    "historyLength": LENGTH,
                    "returnImmediately": BOOL,
                }
            )
        ),
        "metadata": OBJECT,
    },
    required("message"),
)
_PARAMS: dict[Operation, Shape] = {
    Operation.SEND_MESSAGE: _SENT,
    Operation.SEND_STREAMING_MESSAGE: _SENT,
    Operation.GET_TASK: shape({"id": TEXT, "historyLength": LENGTH}, required("id")),
    Operation.LIST_TASKS: shape(
        {
            "contextId": ID,
            "status": _FILTER,
            "pageSize": _SIZE,
            "pageToken": ID,
            "historyLength": LENGTH,
            "statusTimestampAfter": MOMENT,
            "includeArtifacts": BOOL,
        },
        # As clients of a2a-go call it.
        lastUpdatedAfter="statusTimestampAfter",
    ),
    Operation.CANCEL_TASK: shape({"id": TEXT, "metadata": OBJECT}, required("id")),
    Operation.SUBSCRIBE_TO_TASK: shape({"id": TEXT}, required("id")),
    Operation.CREATE_PUSH_CONFIG: _config(required("taskId", "url")),
    Operation.GET_PUSH_CONFIG: shape({"taskId": TEXT, "id": ID}, required("taskId")),
    Operation.LIST_PUSH_CONFIGS: shape(
        {"taskId": TEXT, "pageSize": or_unset(_SIZE), "pageToken": ID}, required("taskId")
    ),
    Operation.DELETE_PUSH_CONFIG: shape({"taskId": TEXT, "id": TEXT}, required("taskId", "id")),
}

_ANSWERED_PART = _part(_finish_answered_part)
_ANSWERED_MESSAGE = message_shape(_ANSWERED_PART, ANSWERED_ROLE, finish_answered_message)
_STATUS = status_shape(_ANSWERED_MESSAGE)
_ARTIFACT = artifact_shape(_ANSWERED_PART)
_TASK = shape(
    {
        "id": TEXT,
        "contextId": TEXT,
        "status": within(_STATUS),
        "artifacts": each(_ARTIFACT),
        "history": each(_ANSWERED_MESSAGE),
        "metadata": OBJECT,
    },
    _finish_task,
)
_EVENT = shape(
    {
        "task": within(_TASK),
        "message": within(_ANSWERED_MESSAGE),
        "statusUpdate": within(
            shape(
                {"taskId": TEXT, "contextId": TEXT, "status": within(_STATUS), "metadata": OBJECT},
                _finish_status_update,
            )
        ),
        "artifactUpdate": within(
            shape(
                {
                    "taskId": TEXT,
                    "contextId": TEXT,
                    "artifact": within(_ARTIFACT),
                    "append": BOOL,
                    "lastChunk": BOOL,
                    "metadata": OBJECT,
                },
                _finish_artifact_update,
            )
        ),
    },
    lambda event, _: choose(event, "task", "message", "statusUpdate", "artifactUpdate"),
)
_SEND_RESULT = shape(
    {"task": within(_TASK), "message": within(_ANSWERED_MESSAGE)},
    lambda result, _: choose(result, "task", "message"),
)
_ANSWERED_CONFIG = _config(_finish_config)
_RESULTS: dict[Operation, Shape] = {
    Operation.SEND_MESSAGE: _SEND_RESULT,
    Operation.SEND_STREAMING_MESSAGE: _SEND_RESULT,
    Operation.GET_TASK: _TASK,
    Operation.CANCEL_TASK: _TASK,
    Operation.LIST_TASKS: shape(
        {"tasks": each(_TASK), "nextPageToken": TEXT, "pageSize": COUNT, "totalSize": COUNT}, _finish_tasks
    ),
    Operation.CREATE_PUSH_CONFIG: _ANSWERED_CONFIG,
    Operation.GET_PUSH_CONFIG: _ANSWERED_CONFIG,
    Operation.LIST_PUSH_CONFIGS: shape({"configs": each(_ANSWERED_CONFIG), "nextPageToken": TEXT}, _finish_configs),
}
