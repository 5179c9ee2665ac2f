"""What one message of gRPC tells of a task: as `a2a.progress`, of an answer or an event that is protobuf.

Whatever an agent sends is read here before anything else is done with it. So here is what bounds that: a field of two
bytes becomes a message of a hundred.
"""

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf has no types

from gateway.a2a.bindings.grpc_scan import refuse_crowd
from gateway.a2a.bindings.grpc_schema import result_class, result_nesting
from gateway.a2a.bounds import BOUNDS
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import NOTHING, Progress
from gateway.a2a.push_task import task_of_resource

# As many as a request may have by default.
_MOST_FIELDS = BOUNDS.members + BOUNDS.elements
# By the numbers of the states, which are the same in 0.3 and 1.0.
_STATES = (
    "unknown", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required",
)  # fmt: skip
_EVENTS = {
    "status_update": "status",
    "artifact_update": "artifact",
    "task": "task",
    "message": "message",
    "msg": "message",
}
_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK})
_CONFIGS = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG})


def read(operation: Operation, version: Version, message: bytes) -> Progress | None:
    """What an answer or an event tells; None for what is no such message, or has more fields than anyone reads.

    Args:
        operation: What the agent was asked; where that streams, this is an event.
    """
    if len(message) > _MOST_FIELDS:
        try:
            refuse_crowd(message, result_nesting(operation, version), _MOST_FIELDS)
        except BadRequest:
            return None
    try:
        found = result_class(operation, version).FromString(message)
    except DecodeError:
        return None
    # In one go and not in several functions: this is done for every event of every stream.
    if operation in _TASKS:
        return _of_task(found)
    if operation.kind is not Kind.SEND and operation.kind is not Kind.STREAM:
        return _of_configs(operation, version, found)
    name = found.WhichOneof("payload")
    if name is None:
        return NOTHING
    event, held = _EVENTS[name], getattr(found, name)
    if event == "task":
        return _of_task(held)
    if event == "message":
        return Progress(task_id=held.task_id or None, context_id=held.context_id or None, event=event)
    return Progress(
        task_id=held.task_id or None,
        context_id=held.context_id or None,
        state=_state(held) if event == "status" else None,
        event=event,
    )


def _of_task(task: Message) -> Progress:
    return Progress(task_id=task.id or None, context_id=task.context_id or None, state=_state(task), event="task")


def _of_configs(operation: Operation, version: Version, found: Message) -> Progress:
    """What a push configuration tells, or a list of them: the one task that all of it is of; else nothing."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        configs = found.configs
    elif operation in _CONFIGS:
        configs = (found,)
    else:
        return NOTHING
    tasks = {
        task
        for config in configs
        if (task := task_of_resource(config.name) if version is Version.V0_3 else config.task_id)
    }
    if len(tasks) > 1:
        return Progress(legible=False)
    return Progress(task_id=next(iter(tasks), None))


def _state(held: Message) -> str | None:
    if not held.HasField("status"):
        return None
    number = held.status.state
    return _STATES[number] if 0 <= number < len(_STATES) else "unknown"
