"""A2A 0.1 over JSON-RPC, Google's original of April 2025 (its JSON schema; in prose 0.1.0).

What is unlike everything later, and what becomes of it here:

- The client makes the task's id, and every answer of a send is a bare Task. Upward the id is `message.taskId`, also of
  a task that the agent has never heard of: who keeps the ids puts the agent's in its place. A 1.0 agent that answers
  with a Message is heard by a 0.1 client as a completed task whose status says it.
- Conversations are sessions: `sessionId` is `contextId`. Events name none; it is the one of the request or of an
  earlier frame, else the task's own id, and a task that is begun without one is given that as its session, so that
  events and tasks tell the same.
- A stream holds status and artifact events, never a Task or a Message, and says itself which one is `final`.
- No history unless `historyLength` asks for it, where 1.0 has all of it unless that says less.
- One push configuration for a task, without an id: upward its id is the task's.

What messages become is in `v0_1_message`, tasks in `v0_1_task`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.foreign import drop, foreign
from gateway.a2a.versions.reading import (
    expect_bool,
    expect_int,
    expect_object,
    expect_text,
    expect_texts,
    inside,
    require_object,
)
from gateway.a2a.versions.v0_1_message import (
    DATA_PART_COMPAT,
    KEPT_ID,
    KEPT_OF_MESSAGES,
    KEPT_OF_PARTS,
    lift_sent_message,
    lower_message,
    require_id,
)
from gateway.a2a.versions.v0_1_task import (
    lift_artifact,
    lift_push,
    lift_status,
    lift_task,
    lower_artifact,
    lower_push,
    lower_status,
    lower_task,
)
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Loss, Memo, Misfit

ALL_HISTORY = 2**31 - 1
"""What an agent of 0.1 is asked for where the client sets no bound, since without a number it gives none."""

_RESTING = TERMINAL | INTERRUPTED

LOSSES = (
    Loss("ListTasks, DeleteTaskPushNotificationConfig, GetExtendedAgentCard", "0.1", "refused: 0.1 has none of them"),
    Loss("a Message as the answer", "0.1", "a completed Task whose status message it is"),
    Loss("a Task in a stream", "0.1", "a status event and one for each artifact; its history is dropped"),
    Loss("contextId of an event", "0.1", "dropped; upward it is the one of the call, else the task's id"),
    Loss("TASK_STATE_REJECTED", "0.1", "failed"),
    Loss("TASK_STATE_AUTH_REQUIRED", "0.1", "input-required"),
    Loss("Message.messageId towards clients", "0.1", "dropped"),
    Loss("Message.messageId towards agents", "0.1", f"kept in its metadata as {KEPT_ID}"),
    Loss("extensions of messages and artifacts", "0.1", f"kept in their metadata as {KEPT_OF_MESSAGES[0][0]}"),
    Loss("Message.referenceTaskIds", "0.1", f"kept in its metadata as {KEPT_OF_MESSAGES[1][0]}"),
    Loss("Message.taskId, Message.contextId", "0.1", "dropped but for a send's, which are its id and sessionId"),
    Loss("Artifact.artifactId", "0.1", "index, counted in the order in which a call meets them"),
    Loss("mediaType and filename of text and data", "0.1", f"kept in its metadata as {', '.join(dict(KEPT_OF_PARTS))}"),
    Loss("metadata under one of these names", "0.1", "read as what the gateway keeps there"),
    Loss("metadata that is empty but for them", "1.0", "dropped"),
    Loss("data that is no object", "0.1", f'{{"value": ...}}, with {DATA_PART_COMPAT} in the part\'s metadata'),
    Loss("a Part without content", "0.1", "an empty text"),
    Loss("configuration.returnImmediately", "0.1", "dropped: the agent decides when it answers"),
    Loss("historyLength unset", "0.1", "the largest number there is, since 0.1 tells none without one"),
    Loss("TaskPushNotificationConfig.id", "0.1", "dropped; upward it is the task's id"),
    Loss("timestamp that is no ISO 8601", "1.0", "dropped"),
    Loss("final of an event", "1.0", "dropped: the end of the stream says it"),
    Loss("authentication.schemes but the first", "1.0", "dropped"),
    Loss("append and lastChunk of a Task's artifacts", "1.0", "dropped"),
    Loss("Artifact.index", "1.0", "artifactId; the second of one index in a task has `-2` behind it"),
    Loss("metadata of tasks/get, tasks/resubscribe, tasks/pushNotification/get", "1.0", "dropped"),
    Loss("empty name and mimeType of a file", "1.0", "dropped"),
    Loss("members of a file but name, mimeType, bytes, uri", "1.0", "dropped"),
)
"""What does not come back as it was said."""


class Form01:
    """The form of 0.1 (protocol §8.1).

    The memo learns which task and context a call is about from whatever names them first, and from a Task which context
    its agent has put it in. `lower_event` says `final` of the last event if that is a status in which the task rests; a
    stream whose last event is an artifact ends without one, by closing, since a status cannot be made up.
    """

    version: ClassVar[Version] = Version.V0_1
    answers: ClassVar[frozenset[Operation]] = frozenset({
        Operation.SEND_MESSAGE,
        Operation.SEND_STREAMING_MESSAGE,
        Operation.GET_TASK,
        Operation.CANCEL_TASK,
        Operation.SUBSCRIBE_TO_TASK,
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
    })  # fmt: skip
    losses: ClassVar[tuple[Loss, ...]] = LOSSES

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """A client's parameters, in the hub's words.

        Raises:
            Misfit: they are not what 0.1 says, or 0.1 has no such operation.
        """
        if operation.sends:
            return _lift_send(params, memo)
        lift = _LIFT_PARAMS.get(operation)
        if lift is None:
            raise Misfit("", f"A2A 0.1 has no {operation}")
        expect_object(params, "metadata")
        task_id = require_id(params, "id")
        if memo.task_id is None:
            memo.task_id = task_id
        return lift(params, task_id)

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """The hub's parameters, as an agent of 0.1 reads them.

        A message that names no task begins one under `memo.new_id`.
        """
        if operation.sends:
            return _lower_send(params, memo, _history(operation))
        if operation is Operation.CREATE_PUSH_CONFIG:
            return lower_push(params)
        task_id = params["taskId" if operation is Operation.GET_PUSH_CONFIG else "id"]
        lowered: Tree = {"id": task_id}
        if operation is Operation.GET_TASK:
            length = params.get("historyLength")
            lowered["historyLength"] = ALL_HISTORY if length is None else length
        elif operation is Operation.CANCEL_TASK and "metadata" in params:
            lowered["metadata"] = params["metadata"]
        return lowered

    def lift_result(self, operation: Operation, result: Any, memo: Memo) -> Tree:  # noqa: ANN401 - what came
        """An agent's result, in the hub's words; a send's is always `{"task": ...}`.

        Raises:
            Misfit: it is not what 0.1 says, or 0.1 has no such operation.
        """
        if type(result) is not dict:
            raise Misfit("", "must be an object")
        if operation.sends:
            return {"task": lift_task(result, memo)}
        if operation in _OF_TASKS:
            return lift_task(result, memo)
        if operation in _OF_PUSH:
            return _lift_push_result(result)
        raise Misfit("", f"A2A 0.1 has no {operation}")

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Tree:
        """The hub's result, as a client of 0.1 reads it: a Task, or the task's push configuration."""
        if operation.sends:
            message = result.get("message")
            return lower_task(result["task"], memo) if message is None else _dress(message, memo)
        return lower_push(result) if operation in _OF_PUSH else lower_task(result, memo)

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """One event of an agent's stream, in the hub's words.

        A whole Task is understood too, which samples of the time typed as what a resubscription streams.

        Raises:
            Misfit: it is not what 0.1 says.
        """
        if type(event) is not dict:
            raise Misfit("", "must be an object")
        if event.get("artifact") is not None:
            if event.get("status") is not None:
                raise Misfit("", "must have a status or an artifact, not both")
            return {"artifactUpdate": _lift_artifact_update(event, memo)}
        if "final" not in event and not _ONLY_TASK.isdisjoint(event):
            return {"task": lift_task(event, memo)}
        return {"statusUpdate": _lift_status_update(event, memo)}

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
        """The hub's event, as a client of 0.1 reads it.

        A Task is a status event, then an event for each artifact; where it is the last and rests, the status is the
        final event and comes after them. A Message is a final status event: nothing comes after one (1.0 §3.1.2).
        """
        update = event.get("statusUpdate")
        if update is not None:
            return (_lower_status_update(update, memo, last=last),)
        update = event.get("artifactUpdate")
        if update is not None:
            return (_lower_artifact_update(update, memo),)
        message = event.get("message")
        if message is not None:
            task = _dress(message, memo)
            return ({"id": task["id"], "status": task["status"], "final": True},)
        return _lower_task_event(event["task"], memo, last=last)


FORM = Form01()


# ---- Parameters ----------------------------------------------------------------------------------------------------


def _lift_send(params: Tree, memo: Memo) -> Tree:
    task_id = require_id(params, "id")
    context_id = expect_text(params, "sessionId")
    expect_object(params, "metadata")
    message = require_object(params, "message")
    inside(params, "message", lift_sent_message)
    message.setdefault("messageId", memo.message_id)
    message["taskId"] = task_id
    if context_id:
        message["contextId"] = context_id
    # No number means that no history is wanted, and so does 0 in 1.0.
    configuration: Tree = {"historyLength": _lift_length(params) or 0}
    modes = expect_texts(params, "acceptedOutputModes")
    if modes is not None:
        configuration["acceptedOutputModes"] = modes
    push = inside(params, "pushNotification", lift_push)
    if push is not None:
        configuration["taskPushNotificationConfig"] = push
    drop(params, _SPREAD)
    params["configuration"] = configuration
    memo.task_id = memo.task_id or task_id
    memo.context_id = memo.context_id or context_id or None
    return params


def _lower_send(params: Tree, memo: Memo, history: int | None) -> Tree:
    message = params["message"]
    configuration = params.pop("configuration", None) or {}
    # What 1.0 does not know at the top, but 0.1 does, nobody has looked at.
    drop(params, _SPREAD)
    task_id = params["id"] = message.get("taskId") or memo.new_id
    # As events name no context, a task without one is given the one that `lift_event` would make up.
    params["sessionId"] = message.get("contextId") or memo.context_id or task_id
    lower_message(message, "user", names=True)
    memo.task_id = memo.task_id or task_id
    memo.context_id = memo.context_id or params["sessionId"]
    length = configuration.get("historyLength", history)
    if length is not None:
        params["historyLength"] = length
    modes = configuration.get("acceptedOutputModes")
    if modes:
        params["acceptedOutputModes"] = modes
    push = configuration.get("taskPushNotificationConfig")
    if push is not None:
        params["pushNotification"] = lower_push(push)["pushNotificationConfig"]
    return params


_SPREAD = frozenset({"id", "sessionId", "acceptedOutputModes", "pushNotification", "historyLength"})
"""Parameters of a send beside the message and its metadata: later generations have them in two other places."""


def _history(operation: Operation) -> int | None:
    # A stream of 0.1 tells no history, so it is asked for none.
    return ALL_HISTORY if operation is Operation.SEND_MESSAGE else None


def _lift_length(params: Tree) -> int | None:
    length = expect_int(params, "historyLength")
    if length is not None and length < 0:
        raise Misfit("historyLength", "must not be negative")
    return length


def _lift_get(params: Tree, task_id: str) -> Tree:
    return {"id": task_id, "historyLength": _lift_length(params) or 0}


def _lift_cancel(params: Tree, task_id: str) -> Tree:
    metadata = params.get("metadata")
    return {"id": task_id} if metadata is None else {"id": task_id, "metadata": metadata}


def _lift_subscribe(params: Tree, task_id: str) -> Tree:
    _lift_length(params)
    return {"id": task_id}


def _lift_push_get(_params: Tree, task_id: str) -> Tree:
    return {"taskId": task_id}


def _lift_push_set(params: Tree, task_id: str) -> Tree:
    require_object(params, "pushNotificationConfig")
    inside(params, "pushNotificationConfig", lift_push)
    push: Tree = params["pushNotificationConfig"]
    push["taskId"] = task_id
    return push


_LIFT_PARAMS: dict[Operation, Callable[[Tree, str], Tree]] = {
    Operation.GET_TASK: _lift_get,
    Operation.CANCEL_TASK: _lift_cancel,
    Operation.SUBSCRIBE_TO_TASK: _lift_subscribe,
    Operation.CREATE_PUSH_CONFIG: _lift_push_set,
    Operation.GET_PUSH_CONFIG: _lift_push_get,
}


# ---- Results -------------------------------------------------------------------------------------------------------

_OF_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK})
_OF_PUSH = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG})


def _lift_push_result(result: Tree) -> Tree:
    task_id = require_id(result, "id")
    push = _lift_push_set(result, task_id)
    push["id"] = task_id
    return push


def _dress(message: Tree, memo: Memo) -> Tree:
    """A Message as a completed Task: 0.1 has no other answer."""
    context_id = message.get("contextId") or memo.context_id
    # The client looks for the id that it gave, which need not be one that the agent knows.
    task: Tree = {"id": memo.task_id or message.get("taskId") or memo.new_id}
    if context_id:
        task["sessionId"] = context_id
    task["status"] = {"state": "completed", "message": lower_message(message, "agent")}
    return task


# ---- Events --------------------------------------------------------------------------------------------------------


def _lift_update(event: Tree, memo: Memo) -> tuple[str, str]:
    """Lift what both sorts of events have; which task and context it is about."""
    task_id = require_id(event, "id")
    context_id = memo.context_id or task_id
    expect_object(event, "metadata")
    drop(event, _FOREIGN_TO_EVENTS)
    event["taskId"] = task_id
    event["contextId"] = context_id
    return task_id, context_id


_FOREIGN_TO_EVENTS = frozenset({"id", "final"}) | foreign("kind", "taskId", "contextId", "append", "lastChunk")


def _lift_status_update(event: Tree, memo: Memo) -> Tree:
    expect_bool(event, "final")
    task_id, context_id = _lift_update(event, memo)
    require_object(event, "status")
    inside(event, "status", lambda status: lift_status(status, task_id, context_id))
    event.pop("artifact", None)
    return event


def _lift_artifact_update(event: Tree, memo: Memo) -> Tree:
    _lift_update(event, memo)
    event.pop("status", None)
    chunk = require_object(event, "artifact")
    append, final = chunk.get("append"), chunk.get("lastChunk")
    inside(event, "artifact", lift_artifact)
    # Both are true, false or null by now, and ProtoJSON leaves out what is false.
    if append:
        event["append"] = True
    if final:
        event["lastChunk"] = True
    return event


_ONLY_TASK = frozenset({"sessionId", "artifacts", "history"})
"""Members that tell a Task from a status event."""


def _lower_status_update(update: Tree, memo: Memo, *, last: bool) -> Tree:
    status = update.get("status") or {}
    rests = status.get("state") in _RESTING
    drop(update, _FOREIGN_TO_0_1)
    update["id"] = update.pop("taskId", None) or memo.task_id or memo.new_id
    update["status"] = lower_status(status)
    update["final"] = last and rests
    return update


def _lower_artifact_update(update: Tree, memo: Memo) -> Tree:
    artifact = lower_artifact(update["artifact"], memo)
    artifact["append"] = update.get("append") is True
    artifact["lastChunk"] = update.get("lastChunk") is True
    drop(update, _FOREIGN_TO_0_1)
    update["id"] = update.pop("taskId", None) or memo.task_id or memo.new_id
    update["artifact"] = artifact
    return update


_FOREIGN_TO_0_1 = frozenset({"kind", "contextId", "append", "lastChunk", "id", "final"})


def _lower_task_event(task: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
    task_id = task.get("id") or memo.task_id or memo.new_id
    state = (task.get("status") or {}).get("state")
    update = {"taskId": task_id, "status": task.get("status")}
    # 0.1 has nowhere else to tell it in a stream.
    if task.get("metadata") is not None:
        update["metadata"] = task["metadata"]
    whole = state in TERMINAL
    artifacts = tuple(
        _lower_artifact_update({"taskId": task_id, "artifact": artifact, "lastChunk": whole}, memo)
        for artifact in task.get("artifacts") or ()
    )
    status = _lower_status_update(update, memo, last=last)
    return (*artifacts, status) if status["final"] else (status, *artifacts)
