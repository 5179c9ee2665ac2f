"""A2A 0.2 and 0.3 over JSON-RPC, as their JSON schema spells it: `kind`, `parts`, `user`, `completed`, `file.bytes`.

Spellings in use by peers of these versions are read as well: 1.0's own spellings within (`ROLE_USER`,
`TASK_STATE_WORKING`, parts without `kind`, results wrapped as `{"task": ...}`), nulls and empty lists anywhere. The
output is strict 0.3, with explicit values for optional flags (`blocking`, `append`).

Members that 0.3 lacks are kept in metadata if possible, and read back:

- of a text or data part `media_type_compat` and `filename_compat`, which 0.3 has for files alone;
- of a data part `data_part_compat`: its `data` is `{"value": ...}` around a value that is no object. SDKs do the same.

Names that only one of the versions knows are never passed on unread: a part of `kind` text that also holds `data` must
not be read differently by two readers.

0.3 over HTTP+JSON and gRPC (`v0_3_proto`) has the same objects, spelled otherwise, and 0.1 (`v0_1`) the same parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.task_state import STATES as WORDS
from gateway.a2a.versions.schema import (
    ANY,
    BOOL,
    COUNT,
    DROP,
    ID,
    LENGTH,
    OBJECT,
    TEXT,
    TEXTS,
    Field,
    Finish,
    Schema,
    called,
    choose,
    default,
    dropped,
    each,
    exact,
    named,
    need,
    schema,
    tag,
    unless_empty,
    within,
    written,
)
from gateway.a2a.versions.v1_0 import (
    ANSWERED_ROLE,
    LIST,
    PAGE,
    ROLES,
    STATE,
    STATES,
    artifact_schema,
    finish_answered_message,
    learn,
    listed,
    message_schema,
    status_schema,
)
from gateway.a2a.versions.version import RESTING, Form, Memo, Misfit, Rules, Step

DATA_PART_COMPAT = "data_part_compat"
KEPT_OF_PARTS = (("media_type_compat", "mediaType"), ("filename_compat", "filename"))

# ---- Parts, lifted ---------------------------------------------------------------------------------------------------


def restore(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    """Put back the members of a text or data part that lowering keeps in its metadata."""
    metadata = part.get("metadata")
    if not metadata:
        return
    data = part.get("data")
    if metadata.get(DATA_PART_COMPAT) is True and type(data) is dict and data.keys() == {"value"}:
        del metadata[DATA_PART_COMPAT]
        part["data"] = data["value"]
    for kept, name in KEPT_OF_PARTS:
        if type(metadata.get(kept)) is str:
            part[name] = metadata.pop(kept)
    if not metadata:
        del part["metadata"]


def dissolve(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    """Move the members of a part's file into the part."""
    part.update(part.pop("file"))


def _finish_file(file: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    if ("raw" in file) == ("url" in file):
        raise Misfit("", "must have either bytes or uri")


_CONTENTS = ("text", "file", "raw", "url", "data")
FILE: dict[str, Field] = {
    "bytes": called("raw", TEXT),
    "uri": called("url", TEXT),
    # ProtoJSON's names, which the text of 1.0 remembers (protocol trap 7).
    "fileWithBytes": called("raw", TEXT),
    "fileWithUri": called("url", TEXT),
    "mimeType": called("mediaType", ID),
    "name": called("filename", ID),
}


def _part(content: str, field: Field, finish: Finish | None = None) -> Schema:
    others = dict.fromkeys((other for other in _CONTENTS if other != content), DROP)
    return schema({content: need(field), **others, "metadata": OBJECT, "mediaType": ID, "filename": ID}, finish)


_PARTS = {
    "text": _part("text", TEXT, restore),
    "data": _part("data", OBJECT, restore),
    "file": _part("file", within(schema(FILE, _finish_file, closed=True)), dissolve),
}
# As in 1.0, where data may be any value.
_KINDLESS = _PARTS | {"raw": _part("raw", TEXT), "url": _part("url", TEXT), "data": _part("data", ANY, restore)}


def lift_part(part: Tree, memo: Memo) -> Tree:
    """Return a part in the hub's words; without a `kind` it is the one thing that it holds.

    Raises:
        Misfit: it is no part.
    """
    kind = part.pop("kind", None)
    if kind is None:
        held = [name for name in _CONTENTS if part.get(name) is not None] or ["data"] * ("data" in part)
        if len(held) != 1:
            raise Misfit("kind", "is required: text, file or data")
        return _KINDLESS[held[0]](part, memo)
    # Nearly all parts have no other members.
    if kind == "text" and len(part) == 1 and type(part.get("text")) is str:
        return part
    step = _PARTS.get(kind) if type(kind) is str else None
    if step is None:
        raise Misfit("kind", "must be text, file or data")
    return step(part, memo)


# ---- Tasks and events, lifted ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects that agents send, in one spelling of 0.3.

    Attributes:
        kinds: The hub's name and the schema of each `kind`.
        wrapped: An event that comes in a wrapper, as in 1.0.
        answered: The answer of a send in a wrapper, likewise.
        wrapper: Members that make an object a wrapper; none where the bare object is the rule.
    """

    task: Schema
    kinds: Mapping[str, tuple[str, Schema]]
    wrapped: Schema
    answered: Schema
    wrapper: tuple[str, ...]

    def event(self, tree: Tree, memo: Memo) -> Tree:
        """Return an event, or an answer that is one, wrapped as in 1.0."""
        return self._wrapped(tree, memo, self.wrapped)

    def answer(self, tree: Tree, memo: Memo) -> Tree:
        """Return the answer of a send, wrapped as in 1.0."""
        lifted = self._wrapped(tree, memo, self.answered)
        if "task" not in lifted and "message" not in lifted:
            raise Misfit("kind", "must be task or message")
        return lifted

    def _wrapped(self, tree: Tree, memo: Memo, wrapped: Schema) -> Tree:
        if type(tree) is not dict:
            raise Misfit("", "must be an object")
        if any(tree.get(name) is not None for name in self.wrapper):
            return wrapped(tree, memo)
        kind = tree.get("kind") or _kind_of(tree)
        if kind is None:
            return wrapped(tree, memo)
        found = self.kinds.get(kind) if type(kind) is str else None
        if found is None:
            raise Misfit("kind", f"must be {', '.join(self.kinds)}")
        name, step = found
        return {name: step(tree, memo)}


def _kind_of(tree: Tree) -> str | None:
    """Return what an object without a `kind` and without a wrapper is, by its members."""
    if tree.get("artifact") is not None:
        return "artifact-update"
    if tree.get("status") is not None:
        return "task" if tree.get("id") is not None and _OF_UPDATES.isdisjoint(tree) else "status-update"
    return "message" if any(tree.get(name) is not None for name in _OF_MESSAGES) else None


_OF_UPDATES = frozenset({"taskId", "task_id", "final"})
_OF_MESSAGES = ("parts", "messageId", "message_id")


def _finish_task(task: Tree, memo: Memo) -> None:
    learn(task, "id", memo)


def _finish_update(update: Tree, memo: Memo) -> None:
    learn(update, "taskId", memo)
    # 1.0 requires one, and a context of its own is the least that the task is in.
    update.setdefault("contextId", update["taskId"])


def objects(part: Step, *, proto: bool) -> Objects:
    """Return the objects of agents, with parts in their spelling.

    Args:
        proto: Whether they are messages of `a2a.v1`, which have other names and leave out what is empty.
    """
    content = {"content": "parts"} if proto else None
    update = {"update": "message"} if proto else None
    message = message_schema(
        ID, ANSWERED_ROLE, each(part), finish_answered_message, kind=tag("message"), aliases=content
    )
    status = need(within(status_schema(message, STATE if proto else need(STATE), update)))
    artifact = artifact_schema(TEXT if proto else need(TEXT), part)
    task = schema(
        {
            "kind": tag("task"),
            "id": ID,
            "contextId": ID,
            "status": status,
            "artifacts": each(artifact),
            "history": each(message),
            "metadata": OBJECT,
        },
        _finish_task,
    )
    common = {"taskId": ID, "contextId": ID, "metadata": OBJECT}
    status_update = schema({**common, "kind": tag("status-update"), "status": status, "final": DROP}, _finish_update)
    artifact_update = schema(
        {
            **common,
            "kind": tag("artifact-update"),
            "artifact": need(within(artifact)),
            # ProtoJSON leaves out what is false.
            "append": unless_empty(BOOL),
            "lastChunk": unless_empty(BOOL),
        },
        _finish_update,
    )
    kinds = {
        "task": ("task", task),
        "message": ("message", message),
        "status-update": ("statusUpdate", status_update),
        "artifact-update": ("artifactUpdate", artifact_update),
    }
    wrapper = {name: within(step) for name, step in kinds.values()}
    alias = {"msg": "message"} if proto else None
    wrapped = schema(wrapper, lambda event, _: choose(event, *wrapper), aliases=alias)
    return Objects(
        task,
        kinds,
        wrapped,
        # Other members would be what the answer is in the hub.
        schema(
            {**wrapper, "statusUpdate": DROP, "artifactUpdate": DROP},
            lambda answer, _: choose(answer, "task", "message"),
            aliases=alias,
        ),
        tuple(wrapped.fields) if proto else (),
    )


# ---- Parameters and push configurations, lifted ----------------------------------------------------------------------


def _first(values: list[str], memo: Memo) -> str | None:
    """Return the one scheme that 1.0 has room for."""
    if TEXTS.convert is not None:
        TEXTS.convert(values, memo)
    return values[0] or None if values else None


def push_fields(text: Field) -> dict[str, Field]:
    """Return the members of a push configuration, with the rule of its optional texts."""
    authentication = schema(
        {
            "scheme": text,
            "credentials": text,
            "schemes": called("scheme", Field(list, "must be a list of strings", _first)),
        }
    )
    return {
        "id": ID,
        "url": ID,
        "token": text,
        "authentication": unless_empty(within(authentication)),
        # In the hub these name its task, which the resource around it names here.
        "taskId": DROP,
        "tenant": DROP,
    }


def configuration_schema(push: Schema, finish: Finish | None, *others: str) -> Schema:
    """Return the schema of a send's configuration, with other names of its push configuration."""
    return schema(
        {
            "acceptedOutputModes": TEXTS,
            "taskPushNotificationConfig": within(push),
            # 0.3, as its proto has it: all of it.
            "historyLength": unless_empty(LENGTH),
            "returnImmediately": BOOL,
            "blocking": called("returnImmediately", Field(bool, BOOL.words, lambda value, _: not value)),
        },
        finish,
        aliases=dict.fromkeys(("pushNotificationConfig", *others), "taskPushNotificationConfig"),
    )


def _flatten(config: Tree, memo: Memo) -> None:
    """Flatten a push configuration of a task."""
    task = config.get("taskId") or memo.task_id
    if not task:
        raise Misfit("taskId", "is required")
    flat = config.get("pushNotificationConfig")
    if flat is None:
        # As 1.0 has it, under a method of 0.3.
        if "url" not in config:
            raise Misfit("pushNotificationConfig", "is required")
        flat = _PUSH(dict(config), memo)
    config.clear()
    config.update(flat, taskId=task)


def _finish_configuration(configuration: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    if configuration.get("returnImmediately") is False:
        del configuration["returnImmediately"]


FILTER = {**STATES, "unknown": None, "TASK_STATE_UNSPECIFIED": None}
"""The hub's word for a state to filter by; None where all states pass."""

_JSON = objects(lift_part, proto=False)
_PUSH = schema({**push_fields(TEXT), "url": need(ID)})
_CONFIG = schema({"taskId": ID, "pushNotificationConfig": within(_PUSH)}, _flatten)
_ANSWERED_CONFIG = schema({"taskId": ID, "pushNotificationConfig": within(schema(push_fields(TEXT)))}, _flatten)
_CONFIGS = schema({"configs": each(_ANSWERED_CONFIG), "nextPageToken": TEXT}, default(configs=[]))
_SENT = schema(
    {
        "message": need(
            within(
                message_schema(
                    need(TEXT), need(named("must be user or agent", ROLES)), need(each(lift_part)), kind=tag("message")
                )
            )
        ),
        "configuration": within(configuration_schema(_PUSH, _finish_configuration)),
        "metadata": OBJECT,
    }
)
# `id` is the task's here, and the configuration's in 1.0.
_NAMED = {
    "id": need(called("taskId", ID)),
    "pushNotificationConfigId": called("id", ID),
    "taskId": DROP,
    "metadata": DROP,
}

# ---- Lowered ---------------------------------------------------------------------------------------------------------


def lower_part(part: Tree, memo: Memo) -> Tree:  # noqa: ARG001 - as every step
    """Return a part of the hub in the words of 0.3."""
    if "text" in part:
        if len(part) > 1:
            _keep(part)
        part["kind"] = "text"
        return part
    if "raw" in part or "url" in part:
        return _lower_file(part)
    if len(part) > 1:
        _keep(part)
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


def _keep(part: Tree) -> None:
    part.pop("file", None)
    for kept, name in KEPT_OF_PARTS:
        if value := part.pop(name, None):
            part.setdefault("metadata", {})[kept] = value


def _finish_lowered_message(message: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    message["kind"] = "message"
    message.setdefault("role", "agent")
    message.setdefault("parts", [])


def _finish_lowered_task(task: Tree, memo: Memo) -> None:
    task["kind"] = "task"
    # 0.3 requires both.
    task.setdefault("contextId", memo.context_id or "")
    task.setdefault("status", {"state": "unknown"})


def _finish_lowered_update(update: Tree, memo: Memo) -> None:
    update.setdefault("taskId", memo.task_id or "")
    update.setdefault("contextId", memo.context_id or update["taskId"])


def _finish_lowered_status_update(update: Tree, memo: Memo) -> None:
    update["kind"] = "status-update"
    update.setdefault("status", {"state": "unknown"})
    _finish_lowered_update(update, memo)


def _finish_lowered_artifact_update(update: Tree, memo: Memo) -> None:
    update["kind"] = "artifact-update"
    # SDKs of 0.3 write them always, and readers may rely on it.
    update.setdefault("append", False)
    update.setdefault("lastChunk", False)
    _finish_lowered_update(update, memo)


STATE_DOWN = written(dict(zip(HUB_STATES, WORDS, strict=True)), "unknown")
# An empty id means none in 1.0, and a task of that name in older readers.
_MESSAGE_DOWN = exact(
    {"role": written({"ROLE_USER": "user"}, "agent"), "parts": each(lower_part), "contextId": ID, "taskId": ID},
    _finish_lowered_message,
)
_STATUS_DOWN = within(exact({"state": STATE_DOWN, "message": within(_MESSAGE_DOWN)}, default(state="unknown")))
_ARTIFACT_DOWN = exact({"parts": each(lower_part)}, default(parts=[]))
_TASK_DOWN = exact(
    {"contextId": ID, "status": _STATUS_DOWN, "history": each(_MESSAGE_DOWN), "artifacts": each(_ARTIFACT_DOWN)},
    _finish_lowered_task,
)
_STATUS_UPDATE_DOWN = exact({"taskId": ID, "contextId": ID, "status": _STATUS_DOWN}, _finish_lowered_status_update)
_ARTIFACT_UPDATE_DOWN = exact(
    {"taskId": ID, "contextId": ID, "artifact": within(_ARTIFACT_DOWN)}, _finish_lowered_artifact_update
)


def _lower_event(event: Tree, memo: Memo, last: bool) -> tuple[Tree, ...]:  # noqa: FBT001 - as every form
    if (update := event.get("statusUpdate")) is not None:
        # By the letter the end of a stream, which is where a task is over or waits (0.3 §7.2.2).
        final = last and (update.get("status") or {}).get("state") in RESTING
        _STATUS_UPDATE_DOWN(update, memo)["final"] = final
        return (update,)
    if (update := event.get("artifactUpdate")) is not None:
        return (_ARTIFACT_UPDATE_DOWN(update, memo),)
    return (_lower_answer(event, memo),)


def _lower_answer(result: Tree, memo: Memo) -> Tree:
    return _MESSAGE_DOWN(result["message"], memo) if "message" in result else _TASK_DOWN(result["task"], memo)


def _schemes(authentication: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    scheme = authentication.pop("scheme", None)
    authentication["schemes"] = [scheme] if scheme else []


PUSH_DOWN = exact({"taskId": DROP, "authentication": within(exact({}, _schemes))})
"""A push configuration of 0.3 and 0.1, without its task."""


def _lower_config(config: Tree, memo: Memo) -> Tree:
    task_id = config.get("taskId") or memo.task_id or ""
    return {"taskId": task_id, "pushNotificationConfig": PUSH_DOWN(config, memo)}


# Absent it is the agent's choice, and agents choose differently (protocol §8.2).
_CONFIGURATION_DOWN = exact(
    {
        **dropped("blocking", "pushNotificationConfig"),
        "returnImmediately": called("blocking", Field(bool, "", lambda value, _: not value)),
        "taskPushNotificationConfig": called("pushNotificationConfig", within(PUSH_DOWN)),
    },
    default(blocking=True),
)
_SENT_DOWN = exact(
    {"message": within(_MESSAGE_DOWN), "configuration": within(_CONFIGURATION_DOWN)},
    default(configuration={"blocking": True}),
)
_NAMED_DOWN = exact(
    {
        **dropped("pushNotificationConfigId", "pageSize", "pageToken"),
        "taskId": called("id", TEXT),
        "id": called("pushNotificationConfigId", ID),
    }
)

FORM = Form(
    version=Version.V0_3,
    # In prose 0.3 can list tasks, over other bindings; no agent has been met that does.
    answers=frozenset(Operation) - {Operation.LIST_TASKS},
    rules={
        Operation.SEND_MESSAGE: Rules(_SENT, _SENT_DOWN, _JSON.answer, _lower_answer),
        Operation.SEND_STREAMING_MESSAGE: Rules(_SENT, _SENT_DOWN, _JSON.event, _lower_answer),
        Operation.GET_TASK: Rules(
            schema({"id": need(ID), "historyLength": unless_empty(LENGTH), "metadata": DROP}),
            result_up=_JSON.task,
            result_down=_TASK_DOWN,
        ),
        Operation.LIST_TASKS: Rules(
            schema({**LIST, "status": named("must be the state of a task, as completed", FILTER), "metadata": OBJECT}),
            exact({"status": STATE_DOWN}),
            schema({"tasks": each(listed(_JSON.task)), **PAGE}),
            exact({"tasks": each(listed(_TASK_DOWN))}),
        ),
        Operation.CANCEL_TASK: Rules(
            schema({"id": need(ID), "metadata": OBJECT}), result_up=_JSON.task, result_down=_TASK_DOWN
        ),
        Operation.SUBSCRIBE_TO_TASK: Rules(schema({"id": need(ID), "metadata": DROP}), result_up=_JSON.event),
        Operation.CREATE_PUSH_CONFIG: Rules(_CONFIG, _lower_config, _ANSWERED_CONFIG, _lower_config),
        Operation.GET_PUSH_CONFIG: Rules(schema(_NAMED), _NAMED_DOWN, _ANSWERED_CONFIG, _lower_config),
        Operation.LIST_PUSH_CONFIGS: Rules(
            schema({**_NAMED, "pushNotificationConfigId": DROP, "pageSize": COUNT}),
            exact({**_NAMED_DOWN.fields, "id": DROP}),
            lambda result, memo: _CONFIGS(result if type(result) is dict else {"configs": result}, memo),
            lambda result, memo: [_lower_config(config, memo) for config in result.get("configs") or ()],
        ),
        Operation.DELETE_PUSH_CONFIG: Rules(
            schema({**_NAMED, "pushNotificationConfigId": need(called("id", ID))}),
            _NAMED_DOWN,
            result_down=lambda _result, _memo: None,
        ),
    },
    event_up=_JSON.event,
    event_down=_lower_event,
)
"""The objects of 0.2 and 0.3 as their JSON schema has them."""
