"""A2A 0.1 by the letter, as JSON schema: what its JSON schema requires, and nothing that it does not name.

`acceptedOutputModes` is in no schema of 0.1, but in its samples, and so agents read it.
"""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types

Tree = dict[str, Any]

STATES = ("submitted", "working", "input-required", "completed", "canceled", "failed", "unknown")
TERMINAL = ("completed", "canceled", "failed")


class NotAncient(AssertionError):  # noqa: N818 - what it is
    """Something that 0.1 does not say; the text says what, and the way to it."""


def _object(*required: str, **members: Tree) -> Tree:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def _list(items: Tree) -> Tree:
    return {"type": "array", "items": items}


def _ref(name: str) -> Tree:
    return {"$ref": f"#/$defs/{name}"}


TEXT: Tree = {"type": "string"}
ID: Tree = {"type": "string", "minLength": 1}
FLAG: Tree = {"type": "boolean"}
COUNT: Tree = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
ANYTHING: Tree = {"type": "object"}
MOMENT: Tree = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$"}

DEFINITIONS: dict[str, Tree] = {
    "Part": {"oneOf": [_ref("TextPart"), _ref("FilePart"), _ref("DataPart")]},
    "TextPart": _object("type", "text", type={"const": "text"}, text=TEXT, metadata=ANYTHING),
    "FilePart": _object("type", "file", type={"const": "file"}, file=_ref("FileContent"), metadata=ANYTHING),
    "DataPart": _object("type", "data", type={"const": "data"}, data=ANYTHING, metadata=ANYTHING),
    "FileContent": {
        **_object(name=TEXT, mimeType=TEXT, bytes=TEXT, uri=TEXT),
        "oneOf": [{"required": ["bytes"]}, {"required": ["uri"]}],
    },
    "Message": _object("role", "parts", role={"enum": ["user", "agent"]}, parts=_list(_ref("Part")), metadata=ANYTHING),
    "TaskStatus": _object("state", state={"enum": list(STATES)}, message=_ref("Message"), timestamp=MOMENT),
    "Artifact": _object(
        "parts",
        name=TEXT,
        description=TEXT,
        parts=_list(_ref("Part")),
        index={"type": "integer"},
        append=FLAG,
        lastChunk=FLAG,
        metadata=ANYTHING,
    ),
    "Task": _object(
        "id",
        "status",
        id=ID,
        sessionId=ID,
        status=_ref("TaskStatus"),
        artifacts=_list(_ref("Artifact")),
        history=_list(_ref("Message")),
        metadata=ANYTHING,
    ),
    "TaskStatusUpdateEvent": _object("id", "status", id=ID, status=_ref("TaskStatus"), final=FLAG, metadata=ANYTHING),
    "TaskArtifactUpdateEvent": _object("id", "artifact", id=ID, artifact=_ref("Artifact"), metadata=ANYTHING),
    "Event": {"oneOf": [_ref("TaskStatusUpdateEvent"), _ref("TaskArtifactUpdateEvent")]},
    # The one object of 0.1 that may have members of other names.
    "AuthenticationInfo": {**_object("schemes", schemes=_list(TEXT), credentials=TEXT), "additionalProperties": True},
    "PushNotificationConfig": _object("url", url=ID, token=TEXT, authentication=_ref("AuthenticationInfo")),
    "TaskPushNotificationConfig": _object(
        "id", "pushNotificationConfig", id=ID, pushNotificationConfig=_ref("PushNotificationConfig")
    ),
    "TaskSendParams": _object(
        "id",
        "message",
        id=ID,
        sessionId=ID,
        message=_ref("Message"),
        acceptedOutputModes=_list(TEXT),
        pushNotification=_ref("PushNotificationConfig"),
        historyLength=COUNT,
        metadata=ANYTHING,
    ),
    "TaskQueryParams": _object("id", id=ID, historyLength=COUNT, metadata=ANYTHING),
    "TaskIdParams": _object("id", id=ID, metadata=ANYTHING),
    "AgentCard": _object(
        "name",
        "url",
        "version",
        "capabilities",
        "skills",
        name=TEXT,
        description=TEXT,
        url=ID,
        provider=_object("organization", organization=TEXT, url=TEXT),
        version=TEXT,
        documentationUrl=TEXT,
        capabilities=_object(streaming=FLAG, pushNotifications=FLAG, stateTransitionHistory=FLAG),
        authentication=_object("schemes", schemes=_list(TEXT), credentials=TEXT),
        defaultInputModes=_list(TEXT),
        defaultOutputModes=_list(TEXT),
        skills=_list(_ref("AgentSkill")),
    ),
    "AgentSkill": _object(
        "id",
        "name",
        id=ID,
        name=TEXT,
        description=TEXT,
        tags=_list(TEXT),
        examples=_list(TEXT),
        inputModes=_list(TEXT),
        outputModes=_list(TEXT),
    ),
    "Error": _object("code", "message", code={"type": "integer"}, message=TEXT, data={}),
}

PARAMS = {
    "tasks/send": "TaskSendParams",
    "tasks/sendSubscribe": "TaskSendParams",
    "tasks/get": "TaskQueryParams",
    "tasks/cancel": "TaskIdParams",
    "tasks/resubscribe": "TaskQueryParams",
    "tasks/pushNotification/set": "TaskPushNotificationConfig",
    "tasks/pushNotification/get": "TaskIdParams",
}
"""The methods of 0.1, and what their parameters are."""
RESULTS = {
    "tasks/send": "Task",
    "tasks/sendSubscribe": "Event",
    "tasks/get": "Task",
    "tasks/cancel": "Task",
    "tasks/resubscribe": "Event",
    "tasks/pushNotification/set": "TaskPushNotificationConfig",
    "tasks/pushNotification/get": "TaskPushNotificationConfig",
}
"""Their answers, or streams."""

_VALIDATORS = {name: jsonschema.Draft202012Validator({**_ref(name), "$defs": DEFINITIONS}) for name in DEFINITIONS}


def insist(name: str, tree: object) -> None:
    """Make sure that a tree is what 0.1 calls by this name.

    Raises:
        NotAncient: it is not.
    """
    error = jsonschema.exceptions.best_match(_VALIDATORS[name].iter_errors(tree))
    if error is not None:
        raise NotAncient(f"{name}{error.json_path[1:]}: {error.message[:200]}")
