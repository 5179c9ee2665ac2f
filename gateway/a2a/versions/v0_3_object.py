"""Messages, tasks and events as the JSON schema of 0.2 and 0.3 spells them, lifted and lowered.

What 0.3 has no word for and metadata can keep is kept there, and read back:

- of a text or data part `media_type_compat` and `filename_compat`, which 0.3 has for files alone;
- of a data part `data_part_compat`: its `data` is `{"value": ...}` round what is no object. SDKs write the same.

Names that mean nothing in one generation and something in the other are never passed on unread: a part of `kind` text
that also holds `data` must not be two things for two readers.
"""

from functools import partial

from gateway.a2a.json import Tree
from gateway.a2a.task_state import HUB_STATES, OLDER_STATES, STATES
from gateway.a2a.versions.reading import (
    Members,
    beneath,
    each,
    expect_text,
    expect_texts,
    inside,
    read,
    require_id,
    require_object,
    require_text,
)
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Memo, Misfit

DATA_PART_COMPAT = "data_part_compat"
KEPT_OF_PARTS = (("media_type_compat", "mediaType"), ("filename_compat", "filename"))

_STATES_DOWN = dict(zip(HUB_STATES, STATES, strict=True))
_STATES_UP = OLDER_STATES | {state: state for state in HUB_STATES}
_ROLES_UP = {"user": "ROLE_USER", "agent": "ROLE_AGENT", "ROLE_USER": "ROLE_USER", "ROLE_AGENT": "ROLE_AGENT"}
_FINAL = TERMINAL | INTERRUPTED

_CONTENTS = ("text", "file", "raw", "url", "data")

# Members that have a walk or a read of their own stand in no table.
_NO_MEMBERS: Members = {}
_MESSAGE: Members = {"messageId": str, "contextId": str, "taskId": str, "metadata": dict}
_PART: Members = {"metadata": dict, "mediaType": str, "filename": str}
_FILE: Members = {"bytes": str, "uri": str, "mimeType": str, "name": str}
_TASK: Members = {"id": str, "contextId": str, "metadata": dict}
_EVENT: Members = {"taskId": str, "contextId": str, "metadata": dict, "append": bool, "lastChunk": bool}
_ARTIFACT: Members = {"artifactId": str, "name": str, "description": str, "metadata": dict}

_OF_UPDATES = frozenset({"taskId", "task_id", "final"})


# ---- Messages, lifted ------------------------------------------------------------------------------------------------


def lift_sent_message(message: Tree) -> Tree:
    """A client's message, which must have what 0.3 requires."""
    read(message, _MESSAGE)
    require_text(message, "messageId")
    require_text(message, "role")
    if message.get("parts") is None:
        raise Misfit("parts", "is required")
    return _lift_message(message)


def lift_answered_message(message: Tree, memo: Memo) -> Tree:
    """An agent's message, of which something may be missing that can be told."""
    read(message, _MESSAGE)
    if not message.get("messageId"):
        message["messageId"] = memo.message_id
    if message.get("role") in (None, "ROLE_UNSPECIFIED"):
        message["role"] = "agent"
    if message.get("parts") is None:
        message["parts"] = []
    return _lift_message(message)


def _lift_message(message: Tree) -> Tree:
    _drop_kind(message, "message")
    role = _ROLES_UP.get(require_text(message, "role"))
    if role is None:
        raise Misfit("role", "must be user or agent")
    message["role"] = role
    each(message, "parts", _lift_part)
    _drop_empty(message, "contextId")
    _drop_empty(message, "taskId")
    expect_texts(message, "extensions")
    expect_texts(message, "referenceTaskIds")
    return message


def _lift_part(part: Tree) -> Tree:
    kind = part.pop("kind", None)
    if kind == "text":
        require_text(part, "text")
        # Nearly all parts that are ever sent have nothing else.
        return part if len(part) == 1 else _lift_beside(part, "text")
    if kind == "data":
        require_object(part, "data")
        return part if len(part) == 1 else _lift_data(part)
    if kind == "file":
        return _lift_file(part)
    if kind is None:
        return _lift_kindless(part)
    raise Misfit("kind", "must be text, file or data")


def _lift_kindless(part: Tree) -> Tree:
    """Lift a part that is what it holds, as in 1.0, where data may be any value."""
    held = [name for name in _CONTENTS if part.get(name) is not None] or [name for name in ("data",) if name in part]
    if len(held) != 1:
        raise Misfit("kind", "is required: text, file or data")
    content = held[0]
    if content == "file":
        return _lift_file(part)
    if content == "data":
        return _lift_data(part)
    require_text(part, content)
    return _lift_beside(part, content)


def _lift_file(part: Tree) -> Tree:
    file = require_object(part, "file")
    try:
        read(file, _FILE)
        # Some say what only ProtoJSON has here, as the text of 1.0 remembers it (protocol trap 7).
        for name, other in (("bytes", "fileWithBytes"), ("uri", "fileWithUri")):
            if name not in file and (value := expect_text(file, other)) is not None:
                file[name] = value
    except Misfit as misfit:
        raise beneath("file", misfit) from None
    if ("bytes" in file) == ("uri" in file):
        raise Misfit("file", "must have either bytes or uri")
    content = "raw" if "bytes" in file else "url"
    part[content] = file.get("bytes", file.get("uri"))
    if filename := file.get("name"):
        part["filename"] = filename
    if media_type := file.get("mimeType"):
        part["mediaType"] = media_type
    return _lift_beside(part, content)


def _lift_data(part: Tree) -> Tree:
    metadata = _lift_beside(part, "data").get("metadata")
    if metadata and metadata.get(DATA_PART_COMPAT) is True:
        data = part["data"]
        if type(data) is dict and len(data) == 1 and "value" in data:
            part["data"] = data["value"]
            del metadata[DATA_PART_COMPAT]
            if not metadata:
                del part["metadata"]
    return part


def _lift_beside(part: Tree, content: str) -> Tree:
    """Lift what stands beside a part's content, and drop what would be a second one."""
    for other in _CONTENTS:
        if other != content:
            part.pop(other, None)
    read(part, _PART)
    metadata = part.get("metadata")
    if metadata and content in ("text", "data"):
        for kept, name in KEPT_OF_PARTS:
            if type(metadata.get(kept)) is str:
                part[name] = metadata.pop(kept)
        if not metadata:
            del part["metadata"]
    return part


# ---- Tasks and events, lifted ----------------------------------------------------------------------------------------


def lift_state(state: str) -> str | None:
    """What the hub calls a state; None for what is none."""
    return _STATES_UP.get(state)


def _lift_status(status: Tree, memo: Memo) -> Tree:
    state = _STATES_UP.get(require_text(status, "state"))
    if state is None:
        raise Misfit("state", "must be the state of a task, as completed")
    status["state"] = state
    if "message" in status:
        inside(status, "message", partial(lift_answered_message, memo=memo))
    if "timestamp" in status:
        timestamp = status["timestamp"]
        moment = to_utc(timestamp) if type(timestamp) is str else None
        if moment is None:
            # An agent that cannot tell the time can still be understood in the rest.
            del status["timestamp"]
        else:
            status["timestamp"] = moment
    return status


def _lift_artifact(artifact: Tree) -> Tree:
    read(artifact, _ARTIFACT)
    require_text(artifact, "artifactId")
    if each(artifact, "parts", _lift_part) is None:
        artifact["parts"] = []
    expect_texts(artifact, "extensions")
    return artifact


def lift_task(task: Tree, memo: Memo) -> Tree:
    """An agent's task; where it does not name itself, it is the one that the call is about."""
    read(task, _TASK)
    _drop_kind(task, "task")
    task_id = task.get("id")
    if not task_id:
        task_id = task["id"] = memo.task_id or require_id(task, "id")
    context_id = task.get("contextId")
    if not context_id:
        _drop_empty(task, "contextId")
        if memo.context_id:
            context_id = task["contextId"] = memo.context_id
    memo.task_id, memo.context_id = task_id, context_id or None
    if inside(task, "status", partial(_lift_status, memo=memo)) is None:
        raise Misfit("status", "is required")
    if "history" in task:
        each(task, "history", partial(lift_answered_message, memo=memo))
    each(task, "artifacts", _lift_artifact)
    return task


def _lift_update(event: Tree, memo: Memo) -> None:
    """Lift what both sorts of events have."""
    read(event, _EVENT)
    event.pop("kind", None)
    task_id = event.get("taskId")
    if not task_id:
        task_id = event["taskId"] = memo.task_id or require_id(event, "taskId")
    context_id = event.get("contextId")
    if context_id:
        memo.context_id = context_id
    else:
        # 1.0 requires one, and a context of its own is the least that the task is in.
        event["contextId"] = memo.context_id or task_id
    memo.task_id = task_id


def _lift_status_update(event: Tree, memo: Memo) -> Tree:
    _lift_update(event, memo)
    event.pop("final", None)
    if inside(event, "status", partial(_lift_status, memo=memo)) is None:
        raise Misfit("status", "is required")
    return event


def _lift_artifact_update(event: Tree, memo: Memo) -> Tree:
    _lift_update(event, memo)
    if inside(event, "artifact", _lift_artifact) is None:
        raise Misfit("artifact", "is required")
    # ProtoJSON leaves out what is false.
    if event.get("append") is False:
        del event["append"]
    if event.get("lastChunk") is False:
        del event["lastChunk"]
    return event


_LIFT = {
    "task": lift_task,
    "message": lift_answered_message,
    "statusUpdate": _lift_status_update,
    "artifactUpdate": _lift_artifact_update,
}
_NAMES = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}


def lift_any(event: Tree, memo: Memo) -> Tree:
    """One of the four things that a stream is made of, wrapped as in 1.0; it may have come so."""
    kind = expect_text(event, "kind") or _kind_of(event)
    if not kind:
        read(event, _NO_MEMBERS)
        for name, lift in _LIFT.items():
            if type(event.get(name)) is dict:
                return {name: inside(event, name, partial(lift, memo=memo))}
    name = _NAMES.get(kind, "")
    if not name:
        raise Misfit("kind", "must be task, message, status-update or artifact-update")
    return {name: _LIFT[name](event, memo)}


def _kind_of(event: Tree) -> str:
    if "artifact" in event:
        return "artifact-update"
    if "status" in event:
        return "status-update" if not _OF_UPDATES.isdisjoint(event) else "task"
    return "message" if "parts" in event else ""


def _drop_kind(tree: Tree, kind: str) -> None:
    if tree.pop("kind", None) not in (None, kind):
        raise Misfit("kind", f"must be {kind}")


def _drop_empty(tree: Tree, name: str) -> None:
    if tree.get(name) == "":
        del tree[name]


# ---- The same, lowered -----------------------------------------------------------------------------------------------


def lower_message(message: Tree) -> Tree:
    """The hub's message."""
    message["kind"] = "message"
    message["role"] = "user" if message.get("role") == "ROLE_USER" else "agent"
    message["parts"] = [_lower_part(part) for part in message.get("parts") or ()]
    # An empty one means none in 1.0, and a task of that name in older readers.
    _drop_empty(message, "contextId")
    _drop_empty(message, "taskId")
    return message


def _lower_part(part: Tree) -> Tree:
    if "text" in part:
        if len(part) > 1:
            _keep_beside(part)
        part["kind"] = "text"
        return part
    if "raw" in part or "url" in part:
        return _lower_file(part)
    if len(part) > 1:
        _keep_beside(part)
    part["kind"] = "data"
    # A part without any content was a null before its writer left it out.
    data = part.setdefault("data", None)
    if type(data) is not dict:
        part["data"] = {"value": data}
        part.setdefault("metadata", {})[DATA_PART_COMPAT] = True
    return part


def _lower_file(part: Tree) -> Tree:
    file = {"bytes": part.pop("raw")} if "raw" in part else {"uri": part.pop("url")}
    if media_type := part.pop("mediaType", None):
        file["mimeType"] = media_type
    if name := part.pop("filename", None):
        file["name"] = name
    part["kind"] = "file"
    part["file"] = file
    return part


def _keep_beside(part: Tree) -> None:
    part.pop("file", None)
    for kept, name in KEPT_OF_PARTS:
        if value := part.pop(name, None):
            part.setdefault("metadata", {})[kept] = value


def lower_state(state: str | None) -> str:
    """What 0.3 calls a state of the hub's."""
    return _STATES_DOWN.get(state or "", "unknown")


def _lower_status(status: Tree) -> Tree:
    status["state"] = lower_state(status.get("state"))
    if "message" in status:
        lower_message(status["message"])
    return status


def _lower_artifact(artifact: Tree) -> Tree:
    artifact["parts"] = [_lower_part(part) for part in artifact.get("parts") or ()]
    return artifact


def lower_task(task: Tree, memo: Memo) -> Tree:
    """The hub's task; 0.3 requires it to be in a context."""
    task["kind"] = "task"
    if not task.get("contextId"):
        task["contextId"] = memo.context_id or ""
    _lower_status(task.setdefault("status", {}))
    for message in task.get("history") or ():
        lower_message(message)
    for artifact in task.get("artifacts") or ():
        _lower_artifact(artifact)
    return task


def lower_any(event: Tree, memo: Memo, *, last: bool) -> Tree:
    """What the hub wraps, by itself.

    Args:
        last: Whether the stream ends with it.
    """
    if "statusUpdate" in event:
        update: Tree = event["statusUpdate"]
        _lower_update(update, "status-update", memo)
        status = update.setdefault("status", {})
        # By the letter the end of a stream, which is where a task is over or waits (0.3 §7.2.2).
        update["final"] = last and status.get("state") in _FINAL
        _lower_status(status)
        return update
    if "artifactUpdate" in event:
        update = event["artifactUpdate"]
        _lower_update(update, "artifact-update", memo)
        _lower_artifact(update["artifact"])
        # SDKs of 0.3 write them always, and readers may rely on it.
        update.setdefault("append", False)
        update.setdefault("lastChunk", False)
        return update
    if "message" in event:
        return lower_message(event["message"])
    return lower_task(event["task"], memo)


def _lower_update(update: Tree, kind: str, memo: Memo) -> None:
    update["kind"] = kind
    if not update.get("taskId"):
        update["taskId"] = memo.task_id or ""
    if not update.get("contextId"):
        update["contextId"] = memo.context_id or update["taskId"]
