"""Tables that lift objects of A2A 0.3 over HTTP+JSON to the hub, in any of the spellings that peers write.

By the letter it is ProtoJSON of `a2a.v1` (`message`, `content`, `fileWithBytes`). Stock clients also send the proto's
own names (`request`, `message_id`, `file_with_bytes`), and people write what they know from JSON-RPC (`kind`, `parts`,
`user`, `file.bytes`). A parser of one of these drops without a word what the others say, so all three are read
(protocol §10.3), and names of 1.0 as 1.0 has them, since they would mean that once they are in the hub. A member that
is there in two spellings must say the same in both.

A client is held to what 0.3 requires. Of an agent more is taken, where the call or the SDKs' habit tells the rest.
"""

from binascii import a2b_base64, b2a_base64

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES, OLDER_STATES
from gateway.a2a.versions.shape import (
    BOOL,
    COUNT,
    ID,
    MOMENT,
    OBJECT,
    TEXT,
    TEXTS,
    Field,
    Finish,
    Shape,
    choose,
    each,
    named,
    required,
    shape,
    within,
)
from gateway.a2a.versions.v0_3_object import DATA_PART_COMPAT, KEPT_OF_PARTS
from gateway.a2a.versions.v0_3_proto_config import (
    ASKED_PUSH,
    CONFIG,
    CREATION,
    DELETION,
    LISTING,
    RESOURCE,
    task_of,
)
from gateway.a2a.versions.v1_0 import (
    ANSWERED_ROLE,
    LENGTH,
    artifact_shape,
    finish_answered_message,
    message_shape,
    status_shape,
)
from gateway.a2a.versions.version import Memo, Misfit

# ---- Values ----------------------------------------------------------------------------------------------------------

# Which all states pass: no filter at all.
_UNFILTERED = {"TASK_STATE_UNSPECIFIED": None, "unknown": None}
_FILTER = named(HUB_STATES, "must be the name of a task state, as TASK_STATE_WORKING", {**OLDER_STATES, **_UNFILTERED})
_ROLE = named(
    ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"),
    "must be ROLE_USER or ROLE_AGENT",
    {"ROLE_UNSPECIFIED": None, "user": "ROLE_USER", "agent": "ROLE_AGENT"},
)


def _drop_kind(tree: Tree, kind: str) -> None:
    """Drop JSON-RPC's mark of an object, which says what is known already."""
    if tree.pop("kind", None) not in (None, kind):
        raise Misfit("kind", f"must be {kind}")


# ---- Bytes -----------------------------------------------------------------------------------------------------------


def _decoded(text: str) -> bytes:
    """Return what base64 of either alphabet encodes, padded or not."""
    try:
        return a2b_base64(text.translate(_URL_SAFE) + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError as error:
        raise Misfit("", "must be base64") from error


def _encoded(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode("ascii")


def _bytes(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    """Return base64 as the hub writes it: the standard alphabet, padded, without stray bits."""
    return _encoded(_decoded(value))


def _doubled(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    """Return the same, or what it encodes where that is base64 again.

    All SDKs but one put the base64 text of a file into `file_with_bytes`, so that ProtoJSON encodes it twice (protocol
    §10.3). A file that is base64 text itself, as many a tiny one is by chance, is taken for such a one.
    """
    inner = _decoded(value)
    try:
        twice = len(inner) % 4 == 0 and b2a_base64(a2b_base64(inner, strict_mode=True), newline=False) == inner
    except ValueError:
        twice = False
    return inner.decode("ascii") if twice else _encoded(inner)


_URL_SAFE = str.maketrans("-_", "+/")
_BYTES = Field(str, "must be a string of base64", _bytes)
_DOUBLED = Field(str, "must be a string of base64", _doubled, name="raw")

# ---- Parts -----------------------------------------------------------------------------------------------------------

_KINDS = {"text": "text", "file": "file", "raw": "file", "url": "file", "data": "data"}


def _finish_part(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    kind = part.pop("kind", None)
    if len(part) == 1 and "text" in part and kind in (None, "text"):
        # Nearly all that is ever sent.
        return
    choose(part, *_KINDS)
    content = next(name for name in _KINDS if name in part)
    if kind not in (None, _KINDS[content]):
        raise Misfit("kind", f"must be {_KINDS[content]}, which is what the part holds")
    if content == "file":
        # The object dissolves in the part, and nothing else of it could have a place there.
        file = part.pop("file")
        part.update({name: file[name] for name in ("raw", "url", "mediaType", "filename") if name in file})
    elif content == "data" and kind is None:
        _unwrap(part)
    metadata = part.get("metadata")
    if metadata and content in ("text", "data"):
        _restore(part, metadata)


def _unwrap(part: Tree) -> None:
    """Take the data out of the `DataPart` that the proto has around it, which JSON-RPC has not."""
    data = part["data"]
    inner = data.get("data")
    if "data" not in data:
        return
    if len(data) > 1:
        raise Misfit("data", "must have the one member data, or the part must say its kind")
    if type(inner) is not dict and inner is not None:
        raise Misfit("data.data", "must be an object")
    part["data"] = inner or {}


def _restore(part: Tree, metadata: Tree) -> None:
    """Put in place what lowering keeps in the metadata."""
    data = part.get("data")
    if metadata.get(DATA_PART_COMPAT) is True and type(data) is dict and len(data) == 1 and "value" in data:
        del metadata[DATA_PART_COMPAT]
        part["data"] = data["value"]
    for kept, name in KEPT_OF_PARTS:
        if type(metadata.get(kept)) is str:
            part[name] = metadata.pop(kept)
    if not metadata:
        del part["metadata"]


_FILE = shape(
    {"raw": _BYTES, "url": TEXT, "mediaType": ID, "filename": ID},
    lambda file, _: choose(file, "raw", "url"),
    bytes="raw",
    uri="url",
    fileWithUri="url",
    mimeType="mediaType",
    name="filename",
)
_FILE = Shape({**_FILE.fields, "fileWithBytes": _DOUBLED, "file_with_bytes": _DOUBLED}, _FILE.finish)
_PART = shape(
    {
        "kind": TEXT,
        "text": TEXT,
        "file": within(_FILE),
        "data": OBJECT,
        "raw": _BYTES,
        "url": TEXT,
        "mediaType": ID,
        "filename": ID,
        "metadata": OBJECT,
    },
    _finish_part,
)


# ---- Messages, tasks, events -----------------------------------------------------------------------------------------


def _finish_asked_message(message: Tree, memo: Memo) -> None:
    _drop_kind(message, "message")
    # An empty list is not written in ProtoJSON.
    message.setdefault("parts", [])
    _HAS_ID_AND_ROLE(message, memo)


def _finish_task(task: Tree, memo: Memo) -> None:
    _drop_kind(task, "task")
    _name(task, "id", memo)
    required("id", "status")(task, memo)


def _finish_listed_task(task: Tree, memo: Memo) -> None:
    _drop_kind(task, "task")
    required("id", "status")(task, memo)


def _finish_status_update(update: Tree, memo: Memo) -> None:
    _drop_kind(update, "status-update")
    update.pop("final", None)
    if "status" not in update:
        raise Misfit("status", "is required")
    _name(update, "taskId", memo)


def _finish_artifact_update(update: Tree, memo: Memo) -> None:
    _drop_kind(update, "artifact-update")
    if "artifact" not in update:
        raise Misfit("artifact", "is required")
    _name(update, "taskId", memo)
    for name in ("append", "lastChunk"):
        if update.get(name) is False:
            del update[name]


def _finish_answer(answer: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    choose(answer, "task", "message")
    # In the hub these would be what the answer is, whatever they hold, and null as well.
    for name in ("statusUpdate", "artifactUpdate"):
        answer.pop(name, None)


def _name(tree: Tree, name: str, memo: Memo) -> None:
    """Say which task and context something is about, where it does not and the call does."""
    if name not in tree:
        if not memo.task_id:
            raise Misfit(name, "is required")
        tree[name] = memo.task_id
    if "contextId" not in tree and memo.context_id:
        tree["contextId"] = memo.context_id


_HAS_ID_AND_ROLE = required("messageId", "role")
_ASKED_MESSAGE = message_shape(_PART, _ROLE, _finish_asked_message, content="parts")
_MESSAGE = message_shape(_PART, ANSWERED_ROLE, finish_answered_message, content="parts")
_STATUS = within(status_shape(_MESSAGE, update="message"))
_ARTIFACT = artifact_shape(_PART)
_TASK_FIELDS = {
    "id": ID,
    "contextId": ID,
    "status": _STATUS,
    "artifacts": each(_ARTIFACT),
    "history": each(_MESSAGE),
    "metadata": OBJECT,
}
_TASK = shape(_TASK_FIELDS, _finish_task)
_STATUS_UPDATE = shape(
    {"taskId": ID, "contextId": ID, "status": _STATUS, "final": BOOL, "metadata": OBJECT}, _finish_status_update
)
_ARTIFACT_UPDATE = shape(
    {
        "taskId": ID,
        "contextId": ID,
        "artifact": within(_ARTIFACT),
        "append": BOOL,
        "lastChunk": BOOL,
        "metadata": OBJECT,
    },
    _finish_artifact_update,
)

BARE = {
    "task": ("task", _TASK),
    "message": ("message", _MESSAGE),
    "status-update": ("statusUpdate", _STATUS_UPDATE),
    "artifact-update": ("artifactUpdate", _ARTIFACT_UPDATE),
}
"""The hub's name and the shape of each `kind` of JSON-RPC."""
EVENT = shape(
    {name: within(inner) for name, inner in BARE.values()},
    lambda event, _: choose(event, "task", "message", "statusUpdate", "artifactUpdate"),
    msg="message",
)
"""One event of a stream."""
_ANSWER = shape({"task": within(_TASK), "message": within(_MESSAGE)}, _finish_answer, msg="message")


# ---- Parameters and results ------------------------------------------------------------------------------------------


def _finish_configuration(configuration: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    if configuration.get("historyLength") == 0:
        del configuration["historyLength"]
    blocking = configuration.pop("blocking", None)
    if blocking is not None and configuration.setdefault("returnImmediately", not blocking) is blocking:
        raise Misfit("blocking", "is the opposite of returnImmediately, which says something else")


def _finish_get(params: Tree, memo: Memo) -> None:
    _finish_task_params(params, memo)
    params.pop("metadata", None)
    if params.get("historyLength") == 0:
        del params["historyLength"]


def _finish_task_params(params: Tree, memo: Memo) -> None:
    name = params.pop("name", None)
    if name is not None and name != f"tasks/{params.get('id')}":
        task = task_of(name, "name")
        if params.setdefault("id", task) != task:
            raise Misfit("name", "must name the task of the request")
    required("id")(params, memo)


def _or_none(name: str) -> Finish:
    """A list without an element is not written in ProtoJSON."""

    def finish(result: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
        result.setdefault(name, [])

    return finish


_SENT = shape(
    {
        "message": within(_ASKED_MESSAGE),
        "configuration": within(
            shape(
                {
                    "acceptedOutputModes": TEXTS,
                    "taskPushNotificationConfig": within(ASKED_PUSH),
                    "historyLength": LENGTH,
                    "blocking": BOOL,
                    "returnImmediately": BOOL,
                },
                _finish_configuration,
                pushNotification="taskPushNotificationConfig",
                pushNotificationConfig="taskPushNotificationConfig",
            )
        ),
        "metadata": OBJECT,
    },
    required("message"),
    request="message",
)

PARAMS: dict[Operation, Shape] = {
    Operation.SEND_MESSAGE: _SENT,
    Operation.SEND_STREAMING_MESSAGE: _SENT,
    Operation.GET_TASK: shape({"id": ID, "name": ID, "historyLength": LENGTH}, _finish_get),
    Operation.LIST_TASKS: shape(
        {
            "contextId": ID,
            "status": _FILTER,
            "pageSize": COUNT,
            "pageToken": ID,
            "historyLength": LENGTH,
            # A filter that is left out would show more than was asked for: what names no moment is refused.
            "statusTimestampAfter": MOMENT,
            "includeArtifacts": BOOL,
        }
    ),
    Operation.CANCEL_TASK: shape({"id": ID, "name": ID, "metadata": OBJECT}, _finish_task_params),
    Operation.SUBSCRIBE_TO_TASK: shape({"id": ID, "name": ID}, _finish_task_params),
    Operation.CREATE_PUSH_CONFIG: CREATION,
    Operation.GET_PUSH_CONFIG: CONFIG,
    Operation.LIST_PUSH_CONFIGS: LISTING,
    Operation.DELETE_PUSH_CONFIG: DELETION,
}
"""Parameters of each operation, as a client sends them."""

RESULTS: dict[Operation, Shape] = {
    Operation.SEND_MESSAGE: _ANSWER,
    Operation.SEND_STREAMING_MESSAGE: _ANSWER,
    Operation.GET_TASK: _TASK,
    Operation.LIST_TASKS: shape(
        {
            "tasks": each(shape(_TASK_FIELDS, _finish_listed_task)),
            "nextPageToken": TEXT,
            "pageSize": COUNT,
            "totalSize": COUNT,
        },
        _or_none("tasks"),
    ),
    Operation.CANCEL_TASK: _TASK,
    Operation.CREATE_PUSH_CONFIG: RESOURCE,
    Operation.GET_PUSH_CONFIG: RESOURCE,
    Operation.LIST_PUSH_CONFIGS: shape({"configs": each(RESOURCE), "nextPageToken": ID}, _or_none("configs")),
}
"""Results of each operation, as an agent sends them."""
