"""A2A 0.3 as ProtoJSON of the package `a2a.v1`, for HTTP+JSON, and for gRPC by the same messages.

By the letter it is ProtoJSON (`message`, `content`, `fileWithBytes`). Stock clients also send the proto's own names
(`request`, `message_id`, `file_with_bytes`), and people write what they know from JSON-RPC (`kind`, `parts`, `user`,
`file.bytes`). A parser of one of these drops the others without a word, so all three are read (protocol §10.3), and
names of 1.0 as in 1.0, since they would mean that once they are in the hub. A member that is there in two spellings
must say the same in both. A client is held to what 0.3 requires; more is accepted of an agent, where the call or the
SDKs' habit tells the rest.

The output is the camelCase of ProtoJSON and nothing but members of the proto, in requests and in answers: servers and
clients of a2a-python 0.3 parse strictly, and one unknown member fails the call. ProtoJSON leaves out what is empty.

A push configuration is inside a resource, which names its task (`tasks/T/pushNotificationConfigs/C`);
the hub's is flat. Nobody escapes the ids in a name: one that holds a `/` is recognised only where the call says which
task it is about, and else refused.
"""

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.versions.schema import (
    BOOL,
    COUNT,
    DROP,
    ID,
    LENGTH,
    OBJECT,
    SOME,
    TEXT,
    Field,
    Finish,
    Schema,
    called,
    choose,
    default,
    each,
    exact,
    named,
    need,
    schema,
    tag,
    to_utc,
    unless_empty,
    within,
    written,
)
from gateway.a2a.versions.v0_3 import (
    FILE,
    FILTER,
    configuration_schema,
    dissolve,
    lower_part,
    objects,
    push_fields,
    restore,
)
from gateway.a2a.versions.v1_0 import LIST, ONE_OF_ROLES, ONE_OF_STATES, PAGE, ROLES, listed, message_schema
from gateway.a2a.versions.version import RESTING, Form, Memo, Misfit, Rules

# ---- Bytes -----------------------------------------------------------------------------------------------------------


def _decoded(text: str) -> bytes:
    """Return the bytes of base64 of either alphabet, padded or not."""
    try:
        return a2b_base64(text.translate(_URL_SAFE) + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError as error:
        raise Misfit("", "must be base64") from error


def _encoded(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode("ascii")


def _bytes(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every step
    """Return base64 as the hub writes it: the standard alphabet, padded, without stray bits."""
    return _encoded(_decoded(value))


def _doubled(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every step
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
_DOUBLED = Field(str, "must be a string of base64", _doubled)

# ---- Objects, lifted -------------------------------------------------------------------------------------------------

_KINDS = {"text": "text", "file": "file", "raw": "file", "url": "file", "data": "data"}


def _finish_part(part: Tree, memo: Memo) -> None:
    kind = part.pop("kind", None)
    if len(part) == 1 and "text" in part and kind in (None, "text"):
        # Nearly all that is ever sent.
        return
    choose(part, *_KINDS)
    content = next(name for name in _KINDS if name in part)
    if kind not in (None, _KINDS[content]):
        raise Misfit("kind", f"must be {_KINDS[content]}, which is what the part holds")
    if content == "file":
        dissolve(part, memo)
        return
    if content == "data" and kind is None:
        _unwrap(part)
    if content in ("text", "data"):
        restore(part, memo)


def _unwrap(part: Tree) -> None:
    """Take the data out of the `DataPart` that the proto has around it, which JSON-RPC has not."""
    data = part["data"]
    if "data" not in data:
        return
    if len(data) > 1:
        raise Misfit("data", "must have the one member data, or the part must say its kind")
    inner = data["data"]
    if type(inner) is not dict and inner is not None:
        raise Misfit("data.data", "must be an object")
    part["data"] = inner or {}


_FILE = schema(
    {
        **FILE,
        "raw": _BYTES,
        "bytes": called("raw", _BYTES),
        "fileWithBytes": called("raw", _DOUBLED),
        "url": TEXT,
        "mediaType": ID,
        "filename": ID,
    },
    lambda file, _: choose(file, "raw", "url"),
    closed=True,
)
_PART = schema(
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
_OBJECTS = objects(_PART, proto=True)
_ROLE = named(ONE_OF_ROLES, {**ROLES, "ROLE_UNSPECIFIED": None}, ("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"))
# An empty list is not written in ProtoJSON.
_MESSAGE = message_schema(
    need(ID), need(_ROLE), each(_PART), default(parts=[]), kind=tag("message"), aliases={"content": "parts"}
)

# ---- Push configurations and resource names, lifted ------------------------------------------------------------------

_CONFIG_NAME = re.compile("tasks/([^/]+)/pushNotificationConfigs/([^/]*)")


def _split(name: str, task: str | None) -> tuple[str, str]:
    """Return the task and the configuration of a resource name unchanged, because ids in it are not escaped.

    Args:
        task: The task that is expected, whose id may hold a `/`.

    Raises:
        Misfit: it names no configuration.
    """
    before = f"tasks/{task}/pushNotificationConfigs/"
    if task and name.startswith(before) and "/" not in name[len(before) :]:
        return task, name[len(before) :]
    found = _CONFIG_NAME.fullmatch(name)
    if found is None:
        raise Misfit("name", "must be tasks/{task}/pushNotificationConfigs/{id}")
    return found[1], found[2]


def _finish_resource(resource: Tree, memo: Memo) -> None:
    """Flatten a configuration with its name."""
    flat = resource["pushNotificationConfig"]
    task, last = resource.get("taskId") or memo.task_id, None
    if "name" in resource:
        task, last = _split(resource["name"], task)
    if not task:
        raise Misfit("name", "is required")
    flat["taskId"] = task
    # Where a configuration has no id of its own, servers take the task's (protocol §8.2).
    flat["id"] = flat.get("id") or last or task
    resource.clear()
    resource.update(flat)


def _finish_creation(request: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    """Flatten the request, or the bare resource that a2a-js sends.

    The task is the one in the path; the reader of the call has refused a `parent` or `name` of another.
    """
    task, wrapped = request.get("taskId"), request.get("config")
    if wrapped is not None and ("name" in request or "pushNotificationConfig" in request):
        raise Misfit("config", "must not stand beside name or pushNotificationConfig")
    resource, path = (request, "") if wrapped is None else (wrapped, "config.")
    flat = resource.get("pushNotificationConfig")
    if flat is None:
        raise Misfit(f"{path}pushNotificationConfig", "is required")
    if task is None:
        raise Misfit("parent", "is required")
    # The proto's own path has the collection behind the task.
    if "parent" in request and request["parent"].removesuffix("/pushNotificationConfigs") != f"tasks/{task}":
        raise Misfit("parent", "must be tasks/{task}")
    flat["taskId"] = task
    if "name" in resource:
        try:
            _, named_id = _split(resource["name"], task)
        except Misfit as misfit:
            raise Misfit(f"{path}name", misfit.words) from None
        # Inside the request a2a-python ends the name in "None" where there is no id; a bare resource has only the name.
        if named_id and wrapped is None:
            flat.setdefault("id", named_id)
    config = request.get("configId")
    if config and flat.setdefault("id", config) != config:
        raise Misfit("configId", "says something else than id")
    request.clear()
    request.update(flat)


_PUSH = push_fields(ID)
_ASKED_PUSH = schema({**_PUSH, "url": need(ID)})
_RESOURCE = schema({"name": ID, "taskId": ID, "pushNotificationConfig": need(within(schema(_PUSH)))}, _finish_resource)
_ASKED_RESOURCE = {"name": ID, "pushNotificationConfig": within(_ASKED_PUSH)}
# The ids are those of the path, or of the resource name over gRPC.
_TASK = {"id": need(ID), "name": DROP}
_CONFIGS = {"taskId": need(ID)}

# ---- Parameters, lifted ----------------------------------------------------------------------------------------------


def _params(fields: dict[str, Field], finish: Finish | None = None, aliases: Mapping[str, str] | None = None) -> Schema:
    """Return the schema of parameters: a `tenant`, which 0.3 does not have, would mean something in the hub."""
    return schema({**fields, "tenant": DROP}, finish, aliases=aliases)


_SENT = _params(
    {
        "message": need(within(_MESSAGE)),
        "configuration": within(configuration_schema(_ASKED_PUSH, None, "pushNotification")),
        "metadata": OBJECT,
    },
    aliases={"request": "message"},
)


def _lift_send(params: Tree, memo: Memo, *, streams: bool = False) -> Tree:
    _SENT(params, memo)
    configuration = params.get("configuration")
    if configuration is None:
        return params
    # Where there is a configuration, every server of 0.3 reads no `blocking` as false. A stream has no such choice.
    configuration.setdefault("returnImmediately", not streams)
    if not configuration["returnImmediately"]:
        del configuration["returnImmediately"]
    if not configuration:
        del params["configuration"]
    return params


# ---- Lowered ---------------------------------------------------------------------------------------------------------


def _lower_part(part: Tree, memo: Memo) -> Tree:
    """Return a part in the proto's words.

    The bytes of a file are encoded twice, as a2a-python, a2a-go and a2a-java write and read them: they crash on a
    file's own bytes. Only a2a-js, which writes by the letter, then has base64 of the base64.
    """
    if len(part) == 1 and "text" in part:
        return part
    kind = lower_part(part, memo)["kind"]
    content = part[kind]
    if kind == "file":
        raw = content.pop("bytes", None)
        if raw is None:
            content["fileWithUri"] = content.pop("uri")
        else:
            content["fileWithBytes"] = _encoded(raw.encode())
    elif kind == "data":
        content = {"data": content}
    metadata = part.get("metadata")
    return {kind: content, "metadata": metadata} if metadata else {kind: content}


# The proto of 0.3 has CANCELLED with two L.
_STATE = written(
    {**{state: state for state in HUB_STATES}, "TASK_STATE_CANCELED": "TASK_STATE_CANCELLED"}, HUB_STATES[0]
)


_MESSAGE_DOWN = exact(
    {
        "messageId": ID,
        "contextId": ID,
        "taskId": ID,
        "role": written({"ROLE_USER": "ROLE_USER"}, "ROLE_AGENT"),
        "parts": called("content", each(_lower_part)),
        "extensions": SOME,
        "metadata": SOME,
    },
    default(role="ROLE_AGENT", content=[]),
    closed=True,
)
_STATUS_DOWN = within(
    exact(
        {
            "state": _STATE,
            "message": within(_MESSAGE_DOWN),
            # A strict parser refuses the whole answer for a time that it cannot read.
            "timestamp": Field(str, "", lambda value, _: to_utc(value)),
        },
        default(state=HUB_STATES[0]),
        closed=True,
    )
)
_ARTIFACT_DOWN = exact(
    {"artifactId": ID, "name": ID, "description": ID, "parts": each(_lower_part), "extensions": SOME, "metadata": SOME},
    default(parts=[]),
    closed=True,
)
_TASK_DOWN = exact(
    {
        "id": ID,
        "contextId": ID,
        "status": _STATUS_DOWN,
        "artifacts": unless_empty(each(_ARTIFACT_DOWN)),
        "history": unless_empty(each(_MESSAGE_DOWN)),
        "metadata": SOME,
    },
    default(status={"state": HUB_STATES[0]}),
    closed=True,
)
_UPDATE_DOWN = {"taskId": ID, "contextId": ID, "metadata": SOME}
_STATUS_UPDATE_DOWN = exact({**_UPDATE_DOWN, "status": _STATUS_DOWN}, closed=True)
_ARTIFACT_UPDATE_DOWN = exact(
    {**_UPDATE_DOWN, "artifact": within(_ARTIFACT_DOWN), "append": SOME, "lastChunk": SOME}, closed=True
)
_PUSH_DOWN = exact(
    {
        "id": ID,
        "url": ID,
        "token": ID,
        "authentication": unless_empty(
            within(
                exact(
                    {"scheme": called("schemes", Field(str, "", lambda value, _: [value] if value else None))}
                    | {"credentials": ID},
                    closed=True,
                )
            )
        ),
    },
    closed=True,
)
_SENT_DOWN = exact(
    {
        "message": within(_MESSAGE_DOWN),
        "configuration": within(
            exact(
                {
                    "acceptedOutputModes": SOME,
                    "historyLength": SOME,
                    "taskPushNotificationConfig": called("pushNotification", within(_PUSH_DOWN)),
                    "returnImmediately": called("blocking", Field(bool, "", lambda value, _: not value)),
                },
                # Always: of servers that find no configuration some block, and some do not.
                default(blocking=True),
                closed=True,
            )
        ),
        "metadata": SOME,
    },
    default(configuration={"blocking": True}),
    closed=True,
)


def _lower_answer(result: Tree, memo: Memo) -> Tree:
    if "message" in result:
        return {"message": _MESSAGE_DOWN(result["message"], memo)}
    return {"task": _TASK_DOWN(result.get("task") or {}, memo)}


def _lower_event(event: Tree, memo: Memo, last: bool) -> tuple[Tree, ...]:  # noqa: FBT001 - as every form
    if (update := event.get("statusUpdate")) is not None:
        status = update.setdefault("status", {})
        final = last and status.get("state") in RESTING
        _STATUS_UPDATE_DOWN(update, memo)
        if final:
            update["final"] = True
        return ({"statusUpdate": update},)
    if (update := event.get("artifactUpdate")) is not None:
        return ({"artifactUpdate": _ARTIFACT_UPDATE_DOWN(update, memo)},)
    return (_lower_answer(event, memo),)


def _task_name(task: str) -> str:
    # Readers of a name stop at the next `/`, some of them without looking further: another task would be meant.
    return f"tasks/{task.replace('/', '%2F')}"


def _lower_config(config: Tree, memo: Memo) -> Tree:
    """Return a configuration with its resource name, which clients refuse without an id."""
    task = config.get("taskId") or memo.task_id or ""
    lowered = _PUSH_DOWN(config, memo)
    identity = lowered["id"] = lowered.get("id") or task
    name = f"{_task_name(task)}/pushNotificationConfigs/{identity.replace('/', '%2F')}"
    return {"name": name, "pushNotificationConfig": lowered}


def _lower_creation(params: Tree, memo: Memo) -> Tree:
    """Return the request whole, for a2a-python and a2a-js.

    The one reads the task from the path, the other from `parent`, and both the id from inside the configuration.
    """
    task = params.get("taskId") or ""
    config = _lower_config(params, memo)
    identity = config["pushNotificationConfig"]["id"]
    return {"taskId": task, "parent": _task_name(task), "configId": identity, "config": config}


_ONE_CONFIG_DOWN = exact({"taskId": TEXT, "id": TEXT}, closed=True)
_ONE_TASK_DOWN = exact({"id": TEXT}, closed=True)

FORM = Form(
    version=Version.V0_3,
    answers=frozenset(Operation) - {Operation.LIST_TASKS, Operation.GET_CARD},
    rules={
        Operation.SEND_MESSAGE: Rules(_lift_send, _SENT_DOWN, _OBJECTS.answer, _lower_answer),
        Operation.SEND_STREAMING_MESSAGE: Rules(
            lambda params, memo: _lift_send(params, memo, streams=True), _SENT_DOWN, _OBJECTS.answer, _lower_answer
        ),
        Operation.GET_TASK: Rules(
            _params({**_TASK, "historyLength": unless_empty(LENGTH), "metadata": DROP}),
            exact({"id": TEXT, "historyLength": SOME}, closed=True),
            _OBJECTS.task,
            _TASK_DOWN,
        ),
        Operation.LIST_TASKS: Rules(
            _params({**LIST, "status": named(ONE_OF_STATES, FILTER, HUB_STATES)}),
            exact(
                {
                    **dict.fromkeys(("contextId", "pageToken", "statusTimestampAfter"), TEXT),
                    **dict.fromkeys(("pageSize", "historyLength"), COUNT),
                    "status": _STATE,
                    "includeArtifacts": BOOL,
                },
                closed=True,
            ),
            schema({"tasks": each(listed(_OBJECTS.task)), **PAGE}, default(tasks=[])),
            exact({"tasks": each(_TASK_DOWN), **PAGE}, default(tasks=[]), closed=True),
        ),
        Operation.CANCEL_TASK: Rules(_params({**_TASK, "metadata": OBJECT}), _ONE_TASK_DOWN, _OBJECTS.task, _TASK_DOWN),
        Operation.SUBSCRIBE_TO_TASK: Rules(_params(_TASK), _ONE_TASK_DOWN),
        Operation.CREATE_PUSH_CONFIG: Rules(
            _params(
                {
                    "taskId": ID,
                    "parent": ID,
                    "configId": ID,
                    "config": within(schema(_ASKED_RESOURCE)),
                    **_ASKED_RESOURCE,
                },
                _finish_creation,
            ),
            _lower_creation,
            _RESOURCE,
            _lower_config,
        ),
        Operation.GET_PUSH_CONFIG: Rules(_params({**_CONFIGS, "id": ID}), _ONE_CONFIG_DOWN, _RESOURCE, _lower_config),
        Operation.LIST_PUSH_CONFIGS: Rules(
            _params({**_CONFIGS, "pageSize": COUNT, "pageToken": ID}),
            exact({"taskId": TEXT, "pageSize": COUNT, "pageToken": TEXT}, closed=True),
            schema({"configs": each(_RESOURCE), "nextPageToken": ID}, default(configs=[])),
            exact({"configs": each(_lower_config), "nextPageToken": ID}, default(configs=[]), closed=True),
        ),
        Operation.DELETE_PUSH_CONFIG: Rules(
            _params({**_CONFIGS, "id": need(ID)}), _ONE_CONFIG_DOWN, result_down=lambda _result, _memo: {}
        ),
    },
    event_up=_OBJECTS.event,
    event_down=_lower_event,
)
"""The objects of 0.3 in the messages of `a2a.v1`."""
