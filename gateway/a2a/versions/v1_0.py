"""A2A 1.0, which is the hub: input is checked and normalised; output stays unchanged.

A client is held to the specification. Agents may deviate where readers can still use the object: enumerations of older
versions, their `kind` and `final`, and missing required members that follow from the call or have a neutral value. A
required member without such a value is a `Misfit` in both.
"""

from collections.abc import Mapping

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.task_state import HUB_STATES, OLDER_STATES
from gateway.a2a.versions.schema import (
    ANSWERED_MOMENT,
    ANY,
    BOOL,
    BYTES,
    COUNT,
    DROP,
    ID,
    LENGTH,
    MOMENT,
    OBJECT,
    TEXT,
    TEXTS,
    Field,
    Finish,
    Schema,
    among,
    choose,
    default,
    each,
    named,
    need,
    schema,
    unless_empty,
    within,
)
from gateway.a2a.versions.version import Form, Memo, Misfit, Rules, Step

# ---- Values ----------------------------------------------------------------------------------------------------------

_ROLES = ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT")
ROLES = {"ROLE_USER": "ROLE_USER", "ROLE_AGENT": "ROLE_AGENT", "user": "ROLE_USER", "agent": "ROLE_AGENT"}
"""The hub's name of a role, by each of its spellings."""
ONE_OF_ROLES = "must be ROLE_USER or ROLE_AGENT"
ONE_OF_STATES = "must be the name of a task state, as TASK_STATE_WORKING"
ANSWERED_ROLE = named(ONE_OF_ROLES, {**ROLES, "ROLE_UNSPECIFIED": "ROLE_AGENT"}, _ROLES)
STATES = {**{state: state for state in HUB_STATES}, **OLDER_STATES}
"""The hub's name of a task state, by each of its spellings."""
STATE = named(ONE_OF_STATES, STATES, HUB_STATES)
_ROLE = named(ONE_OF_ROLES, {role: role for role in _ROLES[1:]} | {"ROLE_UNSPECIFIED": None}, _ROLES)
# It matches all states, so it is no filter.
_FILTER = named(ONE_OF_STATES, {state: state for state in HUB_STATES} | {HUB_STATES[0]: None}, HUB_STATES)
_SIZE = among(range(1, 101), "must be from 1 to 100")

# ---- Objects that older versions share -------------------------------------------------------------------------------


def message_schema(
    message_id: Field,
    role: Field,
    parts: Field,
    finish: Finish | None = None,
    *,
    kind: Field = DROP,
    aliases: Mapping[str, str] | None = None,
) -> Schema:
    """Return the schema of a message."""
    return schema(
        {
            "kind": kind,
            "messageId": message_id,
            "contextId": ID,
            "taskId": ID,
            "role": role,
            "parts": parts,
            "metadata": OBJECT,
            "extensions": TEXTS,
            "referenceTaskIds": TEXTS,
        },
        finish,
        aliases=aliases,
    )


def finish_answered_message(message: Tree, memo: Memo) -> None:
    """Add the members that an agent has left out of a message."""
    message.setdefault("messageId", memo.message_id)
    message.setdefault("role", "ROLE_AGENT")
    message.setdefault("parts", [])


def status_schema(message: Schema, state: Field, aliases: Mapping[str, str] | None = None) -> Schema:
    """Return the schema of a task's status."""
    fields = {"state": state, "message": within(message), "timestamp": ANSWERED_MOMENT}
    return schema(fields, default(state="TASK_STATE_UNSPECIFIED"), aliases=aliases)


def artifact_schema(artifact_id: Field, part: Step) -> Schema:
    """Return the schema of an artifact."""
    return schema(
        {
            "artifactId": artifact_id,
            "name": TEXT,
            "description": TEXT,
            "parts": each(part),
            "metadata": OBJECT,
            "extensions": TEXTS,
        },
        default(artifactId="", parts=[]),
    )


LIST = {
    "contextId": ID,
    "pageSize": COUNT,
    "pageToken": ID,
    "historyLength": LENGTH,
    # A filter that is left out would show more than was asked for: a bad timestamp is refused.
    "statusTimestampAfter": MOMENT,
    "includeArtifacts": BOOL,
}
"""The parameters of a list, an operation of 1.0 in every version; but its state, which each spells otherwise."""


PAGE = {"nextPageToken": TEXT, "pageSize": COUNT, "totalSize": COUNT}
"""The members of a page beside its tasks."""


def listed(task: Step) -> Step:
    """Return the step for one of many tasks, none of which is the one that the call is about."""
    return lambda tree, memo: task(tree, Memo(message_id=memo.message_id))


def learn(tree: Tree, name: str, memo: Memo) -> None:
    """Set an object's task and context to those of the call where it names none, and remember those that it names.

    Raises:
        Misfit: neither names a task.
    """
    task = tree.get(name) or memo.task_id
    if not task:
        raise Misfit(name, "is required")
    tree[name] = memo.task_id = task
    context = tree.get("contextId") or memo.context_id
    if context:
        tree["contextId"] = memo.context_id = context


# ---- Objects ---------------------------------------------------------------------------------------------------------


def _finish_part(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    contents = ("text" in part) + ("raw" in part) + ("url" in part)
    if "data" in part:
        if part["data"] is not None:
            contents += 1
        elif contents:
            # A null is the value of `data` if there is no other content, and otherwise absent.
            del part["data"]
        else:
            contents = 1
    if contents != 1:
        raise Misfit("", "must have exactly one of text, raw, url and data")


def _finish_answered_part(part: Tree, memo: Memo) -> None:
    if part.keys() <= _BESIDE_CONTENTS:
        # Some writers omit a null or an empty string even if it is the only content of a part.
        part["text"] = ""
    _finish_part(part, memo)


def _finish_task(task: Tree, memo: Memo) -> None:
    learn(task, "id", memo)
    task.setdefault("contextId", "")


def _finish_update(update: Tree, memo: Memo) -> None:
    learn(update, "taskId", memo)
    update.setdefault("contextId", "")


def _finish_config(config: Tree, memo: Memo) -> None:
    if memo.task_id:
        config.setdefault("taskId", memo.task_id)


_BESIDE_CONTENTS = frozenset({"metadata", "filename", "mediaType"})
_PART_FIELDS = {
    "kind": DROP,
    "text": TEXT,
    "raw": BYTES,
    "url": TEXT,
    "data": ANY,
    "metadata": OBJECT,
    "filename": TEXT,
    "mediaType": TEXT,
}
_CONFIG = {
    "id": ID,
    "taskId": ID,
    "url": TEXT,
    "token": TEXT,
    "authentication": within(schema({"scheme": TEXT, "credentials": TEXT})),
}
_SENT_PARTS = unless_empty(each(schema(_PART_FIELDS, _finish_part)))
_SENT = schema(
    {
        "message": need(within(message_schema(need(ID), need(_ROLE), need(_SENT_PARTS)))),
        "configuration": within(
            schema(
                {
                    "acceptedOutputModes": TEXTS,
                    "taskPushNotificationConfig": within(schema({**_CONFIG, "url": need(ID)})),
                    "historyLength": LENGTH,
                    "returnImmediately": BOOL,
                }
            )
        ),
        "metadata": OBJECT,
    }
)

_PART = schema(_PART_FIELDS, _finish_answered_part)
_MESSAGE = message_schema(ID, ANSWERED_ROLE, each(_PART), finish_answered_message)
_STATUS = status_schema(_MESSAGE, STATE)
_ARTIFACT = artifact_schema(TEXT, _PART)
_TASK = schema(
    {
        "kind": DROP,
        "id": need(ID),
        "contextId": ID,
        "status": need(within(_STATUS)),
        "artifacts": each(_ARTIFACT),
        "history": each(_MESSAGE),
        "metadata": OBJECT,
    },
    _finish_task,
)
_UPDATE = {"kind": DROP, "taskId": ID, "contextId": ID, "metadata": OBJECT}
_EVENT = schema(
    {
        "task": within(_TASK),
        "message": within(_MESSAGE),
        "statusUpdate": within(schema({**_UPDATE, "final": DROP, "status": need(within(_STATUS))}, _finish_update)),
        "artifactUpdate": within(
            schema({**_UPDATE, "artifact": need(within(_ARTIFACT)), "append": BOOL, "lastChunk": BOOL}, _finish_update)
        ),
    },
    lambda event, _: choose(event, "task", "message", "statusUpdate", "artifactUpdate"),
)
_ANSWER = schema(
    {"task": within(_TASK), "message": within(_MESSAGE)}, lambda result, _: choose(result, "task", "message")
)
_ANSWERED_CONFIG = schema(_CONFIG, _finish_config)


# ---- Written ---------------------------------------------------------------------------------------------------------


def _lower_tasks(result: Tree, memo: Memo) -> Tree:  # noqa: ARG001 - as every step
    # Required though they may be empty or zero (1.0 §3.1.4), and strict readers insist.
    tasks = result.setdefault("tasks", [])
    result.setdefault("nextPageToken", "")
    result.setdefault("pageSize", len(tasks))
    result.setdefault("totalSize", len(tasks))
    return result


def _lower_event(event: Tree, memo: Memo, last: bool) -> tuple[Tree, ...]:  # noqa: ARG001, FBT001 - as every form
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    if update:
        # Required, and older versions may know the task only from the call.
        update.setdefault("taskId", memo.task_id or "")
        update.setdefault("contextId", memo.context_id or "")
    return (event,)


FORM = Form(
    version=Version.V1_0,
    answers=frozenset(CALLABLE),
    rules={
        **dict.fromkeys((Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE), Rules(_SENT, result_up=_ANSWER)),
        Operation.GET_TASK: Rules(schema({"id": need(ID), "historyLength": LENGTH}), result_up=_TASK),
        Operation.LIST_TASKS: Rules(
            # As clients of a2a-go call it.
            schema(
                {**LIST, "status": _FILTER, "pageSize": _SIZE}, aliases={"lastUpdatedAfter": "statusTimestampAfter"}
            ),
            result_up=schema({"tasks": each(listed(_TASK)), **PAGE}, default(tasks=[])),
            result_down=_lower_tasks,
        ),
        Operation.CANCEL_TASK: Rules(schema({"id": need(ID), "metadata": OBJECT}), result_up=_TASK),
        Operation.SUBSCRIBE_TO_TASK: Rules(schema({"id": need(ID)})),
        Operation.CREATE_PUSH_CONFIG: Rules(
            schema({**_CONFIG, "taskId": need(ID), "url": need(ID)}), result_up=_ANSWERED_CONFIG
        ),
        Operation.GET_PUSH_CONFIG: Rules(schema({"taskId": need(ID), "id": ID}), result_up=_ANSWERED_CONFIG),
        Operation.LIST_PUSH_CONFIGS: Rules(
            # 0 is unset: it has no presence.
            schema({"taskId": need(ID), "pageSize": unless_empty(_SIZE), "pageToken": ID}),
            result_up=schema({"configs": each(_ANSWERED_CONFIG), "nextPageToken": TEXT}, default(configs=[])),
            result_down=lambda result, _memo: {"configs": [], **result},
        ),
        Operation.DELETE_PUSH_CONFIG: Rules(
            schema({"taskId": need(ID), "id": need(ID)}),
            # JSON-RPC writes it as null.
            result_down=lambda _result, _memo: None,
        ),
    },
    event_up=_EVENT,
    event_down=_lower_event,
)
"""The objects of 1.0 as ProtoJSON, which are the hub's."""
