"""Tasks, artifacts and push configurations of A2A 0.1, and what they are in the hub."""

from hashlib import blake2b

from gateway.a2a.json import Tree
from gateway.a2a.task_state import HUB_STATES, STATES
from gateway.a2a.versions.foreign import drop, foreign
from gateway.a2a.versions.reading import (
    Members,
    check,
    each,
    expect_int,
    expect_object,
    expect_text,
    expect_texts,
    inside,
    require_list,
    require_object,
    require_text,
)
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.v0_1_message import (
    KEPT_OF_ARTIFACTS,
    keep,
    lift_heard_message,
    lift_heard_part,
    lower_message,
    lower_part,
    require_id,
    take_back,
)
from gateway.a2a.versions.version import Memo, Misfit

_MOST_ARTIFACTS = 10_000
_LONGEST_NAME = 64

# ---- Tasks ---------------------------------------------------------------------------------------------------------

# 0.1 has no words for two of them; agents that else speak 0.1 say those of 0.2.
_MISSING = {"TASK_STATE_REJECTED": "failed", "TASK_STATE_AUTH_REQUIRED": "input-required"}
_STATES_UP = dict(zip(STATES, HUB_STATES, strict=True))
_STATES_DOWN = dict(zip(HUB_STATES, STATES, strict=True)) | _MISSING
_ONE_OF_STATES = "must be one of " + ", ".join(dict.fromkeys(_STATES_DOWN.values()))


def lift_task(task: Tree, memo: Memo) -> Tree:
    """A Task of an agent; the memo learns which context it is in.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    task_id = require_id(task, "id")
    context_id = expect_text(task, "sessionId")
    drop(task, _FOREIGN_TO_TASKS)
    memo.task_id = memo.task_id or task_id
    if context_id:
        memo.context_id = context_id
    context = task["contextId"] = memo.context_id or task_id
    require_object(task, "status")
    inside(task, "status", lambda status: lift_status(status, task_id, context))
    artifacts = each(task, "artifacts", lift_artifact)
    if artifacts:
        _tell_apart(artifacts, "artifactId")
    history = each(task, "history", lambda message: lift_heard_message(message, task_id, context))
    if history:
        _tell_apart(history, "messageId")
    expect_object(task, "metadata")
    return task


_FOREIGN_TO_TASKS = frozenset({"sessionId"}) | foreign("kind", "contextId")


def _tell_apart(items: list[Tree], name: str) -> None:
    """Put `-2` and so on behind names that were there before.

    Some agents send all artifacts at index 0, and messages may say the same.
    """
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for item in items:
        given = unique = item[name]
        while unique in seen:
            # Counted on for each name, so that no try is made twice.
            counts[given] = number = counts.get(given, 1) + 1
            unique = item[name] = f"{given}-{number}"
        seen.add(unique)


def lower_task(task: Tree, memo: Memo) -> Tree:
    """A Task, as a client of 0.1 reads it."""
    context_id = task.pop("contextId", None)
    drop(task, _FOREIGN_TO_0_1)
    if context_id:
        task["sessionId"] = context_id
    task["id"] = task.get("id") or memo.task_id or memo.new_id
    task["status"] = lower_status(task.get("status") or {})
    for artifact in task.get("artifacts") or ():
        lower_artifact(artifact, memo)
    for message in task.get("history") or ():
        lower_message(message, "agent")
    return task


_FOREIGN_TO_0_1 = frozenset({"kind", "sessionId"})


def lift_status(status: Tree, task_id: str, context_id: str) -> Tree:
    """A TaskStatus of an agent.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    state = _STATES_UP.get(require_text(status, "state"))
    if state is None:
        raise Misfit("state", _ONE_OF_STATES)
    status["state"] = state
    inside(status, "message", lambda message: lift_heard_message(message, task_id, context_id))
    timestamp = expect_text(status, "timestamp")
    if timestamp is not None:
        # Samples of the time write their own zone's without saying which.
        moment = to_utc(timestamp)
        if moment is None:
            del status["timestamp"]
        else:
            status["timestamp"] = moment
    return status


def lower_status(status: Tree | None) -> Tree:
    """A TaskStatus, as a client of 0.1 reads it."""
    lowered = status or {}
    lowered["state"] = _STATES_DOWN.get(lowered.get("state") or "", "unknown")
    message = lowered.get("message")
    if message is not None:
        lower_message(message, "agent")
    return lowered


# ---- Artifacts -----------------------------------------------------------------------------------------------------


def lift_artifact(artifact: Tree) -> Tree:
    """An Artifact of an agent, named by its index.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    index = expect_int(artifact, "index") or 0
    check(artifact, _ARTIFACT)
    require_list(artifact, "parts")
    each(artifact, "parts", lift_heard_part)
    drop(artifact, _FOREIGN_TO_ARTIFACTS)
    take_back(artifact, KEPT_OF_ARTIFACTS)
    artifact["artifactId"] = str(index)
    return artifact


_ARTIFACT: Members = {"name": str, "description": str, "append": bool, "lastChunk": bool, "metadata": dict}
_FOREIGN_TO_ARTIFACTS = frozenset({"index"}) | foreign("kind", "artifactId", "extensions", "append", "lastChunk")


def lower_artifact(artifact: Tree, memo: Memo) -> Tree:
    """An Artifact, as a client of 0.1 reads it, with the index that the call has for it."""
    index = _index(artifact.get("artifactId") or "", memo.artifacts)
    keep(artifact, KEPT_OF_ARTIFACTS)
    drop(artifact, _FOREIGN_TO_ARTIFACTS)
    artifact["parts"] = parts = artifact.get("parts") or []
    for part in parts:
        lower_part(part)
    artifact["index"] = index
    return artifact


def _index(artifact_id: str, indexes: dict[str, int]) -> int:
    if len(artifact_id) > _LONGEST_NAME:
        # What is remembered while a stream lasts must not be as long as what is sent.
        artifact_id = blake2b(artifact_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    index = indexes.get(artifact_id)
    if index is None:
        index = len(indexes)
        if index < _MOST_ARTIFACTS:
            indexes[artifact_id] = index
    return index


# ---- Push configurations -------------------------------------------------------------------------------------------


def lift_push(push: Tree) -> Tree:
    """A PushNotificationConfig, flat and without the ids that the hub has in it.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    require_id(push, "url")
    expect_text(push, "token")
    drop(push, _FOREIGN_TO_PUSH)
    inside(push, "authentication", _lift_authentication)
    return push


_FOREIGN_TO_PUSH = foreign("id", "taskId", "tenant")


def _lift_authentication(authentication: Tree) -> Tree:
    schemes = expect_texts(authentication, "schemes")
    expect_text(authentication, "credentials")
    authentication.pop("schemes", None)
    authentication.pop("scheme", None)
    if schemes:
        authentication["scheme"] = schemes[0]
    return authentication


def lower_push(push: Tree) -> Tree:
    """The hub's configuration, as 0.1 has it: `{"id": of the task, "pushNotificationConfig": {...}}`."""
    task_id = push.get("taskId")
    drop(push, _FOREIGN_TO_PUSH)
    authentication = push.get("authentication")
    if authentication is not None:
        scheme = authentication.pop("scheme", None)
        authentication["schemes"] = [scheme] if scheme else []
    return {"id": task_id, "pushNotificationConfig": push}
