"""A2A 0.1 over JSON-RPC, Google's original of April 2025 (its JSON schema; in prose 0.1.0).

The differences from everything later, and their translation:

- The client makes the task's id, and every answer of a send is a bare Task. Upward the id is `message.taskId`, also of
  a task that the agent has never heard of: the caller replaces it by the agent's. A Message of a 1.0 agent becomes a
  completed task whose status holds it.
- Conversations are sessions: `sessionId` is `contextId`. Events name none; it is the one of the request or of an
  earlier frame, else the task's own id. A task that is begun without a session is given that one too, so that events
  and tasks agree.
- A stream holds status and artifact events, never a Task or a Message, and marks the last one as `final`. A stream
  whose last event is an artifact just closes, because a status cannot be invented.
- No history unless `historyLength` asks for it, where 1.0 has all of it unless that says less.
- One push configuration for a task, without an id: upward its id is the task's.

Parts are those of 0.3, tagged by `type`. Some members without a word in 0.1 are kept in an object's `metadata` and read
back from there, as 0.3's are: of a message `message_id_compat` (towards agents, which give the message back as
history), `extensions_compat` and `reference_task_ids_compat`; of an artifact `extensions_compat`. Ids of tasks and
contexts are never read from there. A message of an agent that has no id gets one from its content, so that it has the
same one in an event, in a later task, and however much of the history is told.

A name that is unknown here and known in 1.0, or the other way round, is dropped and never passed on unread.
"""

from hashlib import blake2b

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree, write
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.task_state import STATES as WORDS
from gateway.a2a.versions import v0_3
from gateway.a2a.versions.schema import (
    ANSWERED_MOMENT,
    BOOL,
    COUNT,
    DROP,
    ID,
    LENGTH,
    OBJECT,
    TEXT,
    TEXTS,
    Field,
    Schema,
    called,
    default,
    dropped,
    each,
    exact,
    named,
    need,
    within,
    written,
)
from gateway.a2a.versions.v0_3 import PUSH_DOWN, push_fields
from gateway.a2a.versions.version import RESTING, TERMINAL, Form, Memo, Misfit, Rules, Step

ALL_HISTORY = 2**31 - 1
"""The history length sent to an agent of 0.1 if the client sets no bound: without a number it returns no history."""
KEPT_ID = "message_id_compat"
KEPT_OF_ARTIFACTS = (("extensions_compat", "extensions"),)
KEPT_OF_MESSAGES = (*KEPT_OF_ARTIFACTS, ("reference_task_ids_compat", "referenceTaskIds"))

_MOST_ARTIFACTS = 10_000
_LONGEST_NAME = 64

# ---- Kept in metadata ------------------------------------------------------------------------------------------------


def _keep(tree: Tree, names: tuple[tuple[str, str], ...]) -> None:
    """Move members that 0.1 does not have into the metadata.

    Args:
        names: The name of each there, and here.
    """
    for kept, name in names:
        if value := tree.pop(name, None):
            # The member is null, and must be removed.
            tree["metadata"] = {**(tree.get("metadata") or {}), kept: value}


def _take_back(tree: Tree, names: tuple[tuple[str, str], ...]) -> None:
    """Move lists of strings that `_keep` has put into the metadata back."""
    metadata = tree.get("metadata")
    if metadata is None:
        return
    for kept, name in names:
        values = metadata.get(kept)
        # The agent may have changed it.
        if type(values) is list and all(type(value) is str for value in values):
            tree[name] = metadata.pop(kept)
    if not metadata:
        del tree["metadata"]


# ---- Parts and messages, lifted --------------------------------------------------------------------------------------

_FOREIGN_TO_PARTS = ("raw", "url", "filename", "mediaType", "media_type")
_FILE_CONTENTS = (("bytes", "uri"), ("uri", "bytes"))


def _lift_part(part: Tree, memo: Memo) -> Tree:
    """Return a part of a client's message, which must say what it is."""
    # `kind` is the name in 0.2; messages of both versions use it.
    kind = part.pop("type", None) or part.get("kind")
    if kind == "text" and len(part) == 1 and type(part.get("text")) is str:
        return part
    for name in _FOREIGN_TO_PARTS:
        part.pop(name, None)
    part["kind"] = kind
    file = part.get("file")
    if type(file) is dict:
        # Samples of 0.1 also write empty members.
        for name, other in _FILE_CONTENTS:
            if not file.get(name) and file.get(other):
                file.pop(name, None)
    if kind is None:
        raise Misfit("type", "is required: text, file or data")
    try:
        return v0_3.lift_part(part, memo)
    except Misfit as misfit:
        raise Misfit("type", misfit.words) if misfit.field == "kind" else misfit from None


def _lift_heard_part(part: Tree, memo: Memo) -> Tree:
    """Return a part of an agent's, which some send without saying what it is."""
    if not part.get("type") and not part.get("kind"):
        part["type"] = next((name for name in ("text", "file", "data") if part.get(name) is not None), None)
    return _lift_part(part, memo)


def _finish_message(message: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    metadata = message.get("metadata")
    if not metadata:
        return
    own = metadata.pop(KEPT_ID, None)
    if type(own) is str and own:
        message["messageId"] = own
    _take_back(message, KEPT_OF_MESSAGES)


def _message(part: Step) -> Schema:
    return exact(
        {
            **dropped("kind", "message_id", "taskId", "contextId", "extensions", "referenceTaskIds", "content"),
            "messageId": Field(object, "", lambda value, _: value if type(value) is str and value else None),
            "role": need(named("must be user or agent", {"user": "ROLE_USER", "agent": "ROLE_AGENT"})),
            "parts": need(each(part)),
            "metadata": OBJECT,
        },
        _finish_message,
    )


_SENT_MESSAGE = _message(_lift_part)
_MESSAGE = _message(_lift_heard_part)


def _name_message(message: Tree | None, task_id: str, context_id: str) -> None:
    """Add the ids to an agent's message."""
    if message is None:
        return
    if "messageId" not in message:
        content = write((task_id, message["role"], message["parts"]))
        message["messageId"] = blake2b(content, digest_size=16).hexdigest()
    message["taskId"] = task_id
    message["contextId"] = context_id


# ---- Tasks and events, lifted ----------------------------------------------------------------------------------------


def _name_artifact(index: int, memo: Memo) -> str:  # noqa: ARG001 - as every step
    if not -(2**31) <= index < 2**31:
        raise Misfit("", COUNT.words)
    return str(index)


def _finish_artifact(artifact: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    artifact.setdefault("artifactId", "0")
    _take_back(artifact, KEPT_OF_ARTIFACTS)


def _finish_task(task: Tree, memo: Memo) -> None:
    memo.task_id = memo.task_id or task["id"]
    memo.context_id = task.get("contextId") or memo.context_id
    context = task["contextId"] = memo.context_id or task["id"]
    _name_message(task["status"].get("message"), task["id"], context)
    if artifacts := task.get("artifacts"):
        for artifact in artifacts:
            artifact.pop("append", None)
            artifact.pop("lastChunk", None)
        _tell_apart(artifacts, "artifactId")
    if history := task.get("history"):
        for message in history:
            _name_message(message, task["id"], context)
        _tell_apart(history, "messageId")


def _tell_apart(items: list[Tree], name: str) -> None:
    """Add `-2` and so on to names that were there before.

    Some agents send all artifacts at index 0, and messages may say the same.
    """
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for item in items:
        base = unique = item[name]
        while unique in seen:
            # Counted on for each name, so that no try is made twice.
            counts[base] = number = counts.get(base, 1) + 1
            unique = item[name] = f"{base}-{number}"
        seen.add(unique)


def _finish_update(update: Tree, memo: Memo) -> None:
    update["contextId"] = memo.context_id or update["taskId"]


def _finish_status_update(update: Tree, memo: Memo) -> None:
    _finish_update(update, memo)
    _name_message(update["status"].get("message"), update["taskId"], update["contextId"])


def _finish_artifact_update(update: Tree, memo: Memo) -> None:
    _finish_update(update, memo)
    for name in ("append", "lastChunk"):
        # ProtoJSON leaves out what is false.
        if update["artifact"].pop(name, None):
            update[name] = True


_STATES_UP = dict(zip(WORDS, HUB_STATES, strict=True))
# Agents that else speak 0.1 say rejected and auth-required, words of 0.2, as well.
_STATE = named("must be the state of a task, as completed", _STATES_UP)
_STATUS = need(within(exact({"state": need(_STATE), "message": within(_MESSAGE), "timestamp": ANSWERED_MOMENT})))
_ARTIFACT = exact(
    {
        **dropped("kind", "artifactId", "extensions"),
        "index": called("artifactId", Field(int, COUNT.words, _name_artifact)),
        "name": TEXT,
        "description": TEXT,
        "parts": need(each(_lift_heard_part)),
        "append": BOOL,
        "lastChunk": BOOL,
        "last_chunk": DROP,
        "metadata": OBJECT,
    },
    _finish_artifact,
)
_TASK = exact(
    {
        **dropped("kind", "contextId"),
        "id": need(ID),
        "sessionId": called("contextId", ID),
        "status": _STATUS,
        "artifacts": each(_ARTIFACT),
        "history": each(_MESSAGE),
        "metadata": OBJECT,
    },
    _finish_task,
)
_UPDATE = {
    **dropped("kind", "taskId", "contextId", "append", "lastChunk", "final"),
    "id": need(called("taskId", ID)),
    "metadata": OBJECT,
}
_STATUS_UPDATE = exact({**_UPDATE, "status": _STATUS, "artifact": DROP}, _finish_status_update)
_ARTIFACT_UPDATE = exact({**_UPDATE, "artifact": need(within(_ARTIFACT)), "status": DROP}, _finish_artifact_update)
_ONLY_TASK = frozenset({"sessionId", "artifacts", "history"})
"""Members that tell a Task from a status event."""


def _lift_answer(result: Tree, memo: Memo) -> Tree:
    return {"task": _TASK(result, memo)}


def _lift_event(event: Tree, memo: Memo) -> Tree:
    """Return an event; a whole Task is understood too, which samples of the time stream to a resubscription."""
    if type(event) is not dict:
        raise Misfit("", "must be an object")
    if event.get("artifact") is not None:
        if event.get("status") is not None:
            raise Misfit("", "must have a status or an artifact, not both")
        return {"artifactUpdate": _ARTIFACT_UPDATE(event, memo)}
    if "final" not in event and not _ONLY_TASK.isdisjoint(event):
        return {"task": _TASK(event, memo)}
    return {"statusUpdate": _STATUS_UPDATE(event, memo)}


# ---- Parameters and push configurations, lifted ----------------------------------------------------------------------


def _lift_send(params: Tree, memo: Memo) -> Tree:
    _SENT(params, memo)
    task_id, context_id = params.pop("id"), params.pop("sessionId", None)
    message = params["message"]
    message.setdefault("messageId", memo.message_id)
    message["taskId"] = task_id
    if context_id:
        message["contextId"] = context_id
    # No number means that no history is wanted, and so does 0 in 1.0.
    configuration = params["configuration"] = {"historyLength": params.pop("historyLength", 0)}
    for name, hub in _CONFIGURED:
        if name in params:
            configuration[hub] = params.pop(name)
    memo.task_id = memo.task_id or task_id
    memo.context_id = memo.context_id or context_id
    return params


def _finish_named(params: Tree, memo: Memo) -> None:
    memo.task_id = memo.task_id or params.get("id") or params["taskId"]


def _finish_get(params: Tree, memo: Memo) -> None:
    _finish_named(params, memo)
    params.setdefault("historyLength", 0)


def _flatten(push: Tree, memo: Memo) -> None:
    flat = push["pushNotificationConfig"]
    memo.task_id = memo.task_id or push["id"]
    flat["taskId"] = push["id"]
    push.clear()
    push.update(flat)


def _flatten_result(push: Tree, memo: Memo) -> None:
    _flatten(push, memo)
    push["id"] = push["taskId"]


def _refuse(operation: Operation) -> Step:
    def refuse(_tree: Tree, _memo: Memo) -> Tree:
        raise Misfit("", f"A2A 0.1 has no {operation}")

    return refuse


_PUSH = exact({**push_fields(TEXT), "id": DROP, "url": need(ID), "task_id": DROP})
_CONFIG = {"id": need(ID), "metadata": DROP, "pushNotificationConfig": need(within(_PUSH))}
_CONFIGURED = (("acceptedOutputModes", "acceptedOutputModes"), ("pushNotification", "taskPushNotificationConfig"))
_SENT = exact(
    {
        "id": need(ID),
        "sessionId": ID,
        "message": need(within(_SENT_MESSAGE)),
        "acceptedOutputModes": TEXTS,
        "pushNotification": within(_PUSH),
        "historyLength": LENGTH,
        "configuration": DROP,
        "metadata": OBJECT,
    }
)

# ---- Lowered ---------------------------------------------------------------------------------------------------------


def _lower_part(part: Tree, memo: Memo) -> Tree:
    """Return a part tagged by `type`; one without content is an empty text."""
    if len(part) == 1 and "text" in part:
        part["type"] = "text"
        return part
    if part.keys().isdisjoint(_HUB_CONTENTS):
        part["text"] = ""
    part = v0_3.lower_part(part, memo)
    for name in _FOREIGN_TO_LOWERED:
        part.pop(name, None)
    part["type"] = part.pop("kind")
    return part


_HUB_CONTENTS = frozenset({"text", "raw", "url", "data"})
_FOREIGN_TO_LOWERED = ("raw", "url", "media_type")


def _lower_message(message: Tree, memo: Memo) -> Tree:
    _keep(message, KEPT_OF_MESSAGES)
    return _MESSAGE_DOWN(message, memo)


def _lower_sent_message(message: Tree, memo: Memo) -> Tree:
    # The agent gives it back as history: it must come back under its id.
    _keep(message, ((KEPT_ID, "messageId"),))
    message.setdefault("role", "ROLE_USER")
    return _lower_message(message, memo)


def _lower_artifact(artifact: Tree, memo: Memo) -> Tree:
    index = _index(artifact.get("artifactId") or "", memo.artifacts)
    _keep(artifact, KEPT_OF_ARTIFACTS)
    _ARTIFACT_DOWN(artifact, memo)
    artifact["index"] = index
    return artifact


def _index(artifact_id: str, indexes: dict[str, int]) -> int:
    if len(artifact_id) > _LONGEST_NAME:
        # State that is kept while a stream lasts must not grow with the stream.
        artifact_id = blake2b(artifact_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    index = indexes.get(artifact_id)
    if index is None:
        index = len(indexes)
        if index < _MOST_ARTIFACTS:
            indexes[artifact_id] = index
    return index


def _named_task(tree: Tree, memo: Memo) -> None:
    # The client looks for the id that it gave, which need not be one that the agent knows.
    tree.setdefault("id", memo.task_id or memo.new_id)
    if "artifact" not in tree:
        tree.setdefault("status", {"state": "unknown"})


# 0.1 lacks two of them.
_STATE_DOWN = written(
    {
        **dict(zip(HUB_STATES, WORDS, strict=True)),
        "TASK_STATE_REJECTED": "failed",
        "TASK_STATE_AUTH_REQUIRED": "input-required",
    },
    "unknown",
)
_ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
_MESSAGE_DOWN = exact(
    {
        **dropped("kind", "messageId", "taskId", "contextId", "extensions", "referenceTaskIds", "content"),
        "role": Field(str, "", lambda value, _: _ROLES.get(value)),
        "parts": each(_lower_part),
    },
    default(role="agent", parts=[]),
)
_STATUS_DOWN = within(exact({"state": _STATE_DOWN, "message": within(_lower_message)}, default(state="unknown")))
_ARTIFACT_DOWN = exact(
    {**dropped("kind", "artifactId", "extensions", "append", "lastChunk", "index"), "parts": each(_lower_part)},
    default(parts=[]),
)
_TASK_DOWN = exact(
    {
        **dropped("kind", "sessionId"),
        "id": ID,
        "contextId": called("sessionId", ID),
        "status": _STATUS_DOWN,
        "artifacts": each(_lower_artifact),
        "history": each(_lower_message),
    },
    _named_task,
)
_UPDATE_DOWN = {
    **dropped("kind", "contextId", "append", "lastChunk", "id", "final"),
    "taskId": called("id", ID),
}
_STATUS_UPDATE_DOWN = exact({**_UPDATE_DOWN, "status": _STATUS_DOWN, "artifact": DROP}, _named_task)
_ARTIFACT_UPDATE_DOWN = exact({**_UPDATE_DOWN, "artifact": within(_lower_artifact), "status": DROP}, _named_task)


def _lower_answer(result: Tree, memo: Memo) -> Tree:
    message = result.get("message")
    return _TASK_DOWN(result["task"], memo) if message is None else _dress(message, memo)


def _dress(message: Tree, memo: Memo) -> Tree:
    """Return a Message as a completed Task: 0.1 has no other answer."""
    context_id = message.get("contextId") or memo.context_id
    task: Tree = {"id": memo.task_id or message.get("taskId") or memo.new_id}
    if context_id:
        task["sessionId"] = context_id
    task["status"] = {"state": "completed", "message": _lower_message(message, memo)}
    return task


def _lower_event(event: Tree, memo: Memo, last: bool) -> tuple[Tree, ...]:  # noqa: FBT001 - as every form
    """Return equivalent events.

    A Task becomes a status event, then an event for each artifact; if it is the last and has ended or waits, the status
    is the final event and comes last. A Message becomes a final status event, because nothing follows it (1.0 §3.1.2).
    """
    if (update := event.get("statusUpdate")) is not None:
        return (_lower_status_update(update, memo, last=last),)
    if (update := event.get("artifactUpdate")) is not None:
        return (_lower_artifact_update(update, memo),)
    if (message := event.get("message")) is not None:
        task = _dress(message, memo)
        return ({"id": task["id"], "status": task["status"], "final": True},)
    return _lower_task_event(event["task"], memo, last=last)


def _lower_status_update(update: Tree, memo: Memo, *, last: bool) -> Tree:
    rests = (update.get("status") or {}).get("state") in RESTING
    _STATUS_UPDATE_DOWN(update, memo)
    update["final"] = last and rests
    return update


def _lower_artifact_update(update: Tree, memo: Memo) -> Tree:
    chunk = {name: update.get(name) is True for name in ("append", "lastChunk")}
    _ARTIFACT_UPDATE_DOWN(update, memo)["artifact"].update(chunk)
    return update


def _lower_task_event(task: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
    task_id = task.get("id") or memo.task_id or memo.new_id
    whole = (task.get("status") or {}).get("state") in TERMINAL
    # Streams of 0.1 have no other place for the metadata.
    update = {"taskId": task_id, "status": task.get("status"), "metadata": task.get("metadata")}
    if update["metadata"] is None:
        del update["metadata"]
    artifacts = tuple(
        _lower_artifact_update({"taskId": task_id, "artifact": artifact, "lastChunk": whole}, memo)
        for artifact in task.get("artifacts") or ()
    )
    status = _lower_status_update(update, memo, last=last)
    return (*artifacts, status) if status["final"] else (status, *artifacts)


def _lower_send(params: Tree, memo: Memo, history: int | None = ALL_HISTORY) -> Tree:
    message = params["message"]
    configuration = params.get("configuration") or {}
    task_id = message.get("taskId") or memo.new_id
    # As events name no context, a task without one is given the one that `_lift_event` would make up.
    context_id = message.get("contextId") or memo.context_id or task_id
    _SENT_DOWN(params, memo)
    params["id"], params["sessionId"] = task_id, context_id
    memo.task_id = memo.task_id or task_id
    memo.context_id = memo.context_id or context_id
    length = configuration.get("historyLength", history)
    if length is not None:
        params["historyLength"] = length
    if modes := configuration.get("acceptedOutputModes"):
        params["acceptedOutputModes"] = modes
    push = configuration.get("taskPushNotificationConfig")
    if push is not None:
        params["pushNotification"] = _PUSH_DOWN(push, memo)
    return params


def _lower_push(push: Tree, memo: Memo) -> Tree:
    task_id = push.get("taskId")
    return {"id": task_id, "pushNotificationConfig": _PUSH_DOWN(push, memo)}


# Top-level names of 0.1 are unknown in 1.0, so they were not read before.
_SENT_DOWN = exact(
    {
        **dict.fromkeys(
            ("configuration", "id", "sessionId", "acceptedOutputModes", "pushNotification", "historyLength"), DROP
        ),
        "message": within(_lower_sent_message),
    }
)
_PUSH_DOWN = exact({**PUSH_DOWN.fields, **dropped("id", "taskId", "tenant")})

_REFUSED = {operation: Rules(_refuse(operation), result_up=_refuse(operation)) for operation in Operation}
_ANSWERED = {
    Operation.SEND_MESSAGE: Rules(_lift_send, _lower_send, _lift_answer, _lower_answer),
    # A stream of 0.1 tells no history, so it is asked for none.
    Operation.SEND_STREAMING_MESSAGE: Rules(
        _lift_send, lambda params, memo: _lower_send(params, memo, None), _lift_answer, _lower_answer
    ),
    Operation.GET_TASK: Rules(
        exact({"id": need(ID), "historyLength": LENGTH}, _finish_get, closed=True),
        exact({"id": TEXT, "historyLength": COUNT}, default(historyLength=ALL_HISTORY), closed=True),
        _TASK,
        _TASK_DOWN,
    ),
    Operation.CANCEL_TASK: Rules(
        exact({"id": need(ID), "metadata": OBJECT}, _finish_named, closed=True),
        exact({"id": TEXT, "metadata": OBJECT}, closed=True),
        _TASK,
        _TASK_DOWN,
    ),
    Operation.SUBSCRIBE_TO_TASK: Rules(
        exact({"id": need(ID)}, _finish_named, closed=True),
        exact({"id": TEXT}, closed=True),
        # Its answer is a stream of events.
        _refuse(Operation.SUBSCRIBE_TO_TASK),
    ),
    Operation.CREATE_PUSH_CONFIG: Rules(
        exact(_CONFIG, _flatten), _lower_push, exact(_CONFIG, _flatten_result), _lower_push
    ),
    Operation.GET_PUSH_CONFIG: Rules(
        exact({"id": need(called("taskId", ID))}, _finish_named, closed=True),
        exact({"taskId": called("id", TEXT)}, closed=True),
        exact(_CONFIG, _flatten_result),
        _lower_push,
    ),
}

FORM = Form(
    version=Version.V0_1,
    answers=frozenset(_ANSWERED),
    rules={**_REFUSED, **_ANSWERED},
    event_up=_lift_event,
    event_down=_lower_event,
)
"""The objects of 0.1 (protocol §8.1)."""
