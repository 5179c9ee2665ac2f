"""Progress of a task, read from one message of gRPC: as `a2a.progress`, of an answer or an event that is protobuf.

An agent's message is read here before anything else is done with it, so its number of fields is bounded here.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf has no types

from gateway.a2a.bindings.grpc_field import refuse_crowd
from gateway.a2a.bindings.grpc_schema import result_class
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.json import BOUNDS
from gateway.a2a.nested_ids import NestedIds, nested_in
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import NOTHING, Progress, task_of_resource
from gateway.a2a.task_state import SPOKEN

# As many as a request may have by default.
_MOST_FIELDS = BOUNDS.members + BOUNDS.elements
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
    """Return the progress that an answer or an event tells; None for no such message, or one of too many fields.

    Args:
        operation: The operation of the call; if it streams, this is an event.
    """
    kind = result_class(operation, version)
    try:
        refuse_crowd(message, kind.DESCRIPTOR, _MOST_FIELDS)
        found = kind.FromString(message)
    except (BadRequest, DecodeError):
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
    task_id, context_id = held.task_id or None, held.context_id or None
    if event == "message":
        named = nested_in((_said(held),), task_id, context_id)
        return Progress(task_id=task_id, context_id=context_id, event=event, others=named)
    if event == "artifact":
        return Progress(task_id=task_id, context_id=context_id, event=event)
    named = _named(held, (), task_id, context_id)
    return Progress(task_id=task_id, context_id=context_id, state=_state(held), event=event, others=named)


def _of_task(task: Message) -> Progress:
    task_id, context_id = task.id or None, task.context_id or None
    named = _named(task, task.history, task_id, context_id)
    return Progress(task_id=task_id, context_id=context_id, state=_state(task), event="task", others=named)


def _named(held: Message, history: Sequence[Message], task_id: str | None, context_id: str | None) -> NestedIds | None:
    """Return the other ids that the messages of a task, and of its status, name."""
    said = [_said(each) for each in history]
    if held.HasField("status"):
        status = held.status
        # Its name in 0.3.
        name = "message" if hasattr(status, "message") else "update"
        if status.HasField(name):
            said.append(_said(getattr(status, name)))
    return nested_in(said, task_id, context_id) if said else None


def _said(message: Message) -> tuple[str, str, Sequence[str]]:
    return message.task_id, message.context_id, getattr(message, "reference_task_ids", ())


def _of_configs(operation: Operation, version: Version, found: Message) -> Progress:
    """Return the one task of a push configuration, or of a list of them."""
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
    return SPOKEN.get(number, "unknown")
