"""A2A 0.3 as ProtoJSON of the package `a2a.v1`, which HTTP+JSON speaks, and gRPC by the same messages.

What is read comes in several spellings (`v0_3_proto_spelling`). What is written is the camelCase of ProtoJSON and
nothing but members of the proto, in requests and in answers: servers and clients of a2a-python 0.3 parse strictly, and
one member that they do not know fails the call (protocol §10.3). ProtoJSON leaves out what is empty, so an empty list
or object is written as none.
"""

from binascii import b2a_base64
from collections.abc import Iterable
from typing import Any, ClassVar

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES
from gateway.a2a.versions.shape import read
from gateway.a2a.versions.timestamp import to_utc
from gateway.a2a.versions.v0_3_object import DATA_PART_COMPAT, KEPT_OF_PARTS
from gateway.a2a.versions.v0_3_proto_spelling import BARE, EVENT, PARAMS, RESULTS
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Loss, Memo, Misfit

_HERE = "0.3 over HTTP+JSON"
_KEPT = f"kept in its metadata as {' and '.join(kept for kept, _ in KEPT_OF_PARTS)}"
_WRAPPED = f'wrapped as {{"value": ...}}, which {DATA_PART_COMPAT} in its metadata says'


class Form03Proto:
    """Objects of 0.3 in the messages of `a2a.v1`.

    Attributes:
        doubled: Whether the bytes of a file are written as a2a-python, a2a-go and a2a-java do, which put its base64
            text into `file_with_bytes`, so that ProtoJSON encodes it a second time. Those crash on a file's own bytes;
            a2a-js, which alone writes by the letter, then has base64 of the base64. Reading needs no such choice.
    """

    version: ClassVar[Version] = Version.V0_3
    answers: ClassVar[frozenset[Operation]] = frozenset(Operation) - {Operation.LIST_TASKS, Operation.GET_CARD}
    losses: ClassVar[tuple[Loss, ...]] = (
        Loss("members that a2a.v1 does not know", _HERE, "dropped: strict parsers refuse them"),
        Loss("referenceTaskIds", _HERE, "dropped"),
        Loss("metadata of CancelTask", _HERE, "dropped"),
        Loss("mediaType and filename of a text or data part", _HERE, _KEPT),
        Loss("data that is no object", _HERE, _WRAPPED),
        Loss("metadata of a part under one of those three names", _HERE, "read as what the gateway keeps there"),
        Loss("raw of a part that is itself base64 text", _HERE, "safe where `doubled`; else read as what it encodes"),
        Loss("raw of a part, towards a2a-js", _HERE, "base64 of base64, where `doubled`"),
        Loss("numbers in metadata and data", _HERE, "doubles, to whoever parses them as google.protobuf.Struct"),
        Loss("historyLength of 0: no history", _HERE, "dropped, which means all; the gateway trims"),
        Loss("returnImmediately that is absent", _HERE, "blocking: true"),
        Loss("a push configuration without id, created", _HERE, "the id of its task, as its servers would give it"),
        Loss("the task id of a push configuration within a send", _HERE, "dropped"),
        Loss("a `/` in an id within a resource name", _HERE, "%2F, which nobody takes for another's name"),
        Loss("ROLE_UNSPECIFIED", _HERE, "ROLE_AGENT"),
        Loss("timestamp that is no ISO 8601", _HERE, "dropped"),
        Loss("what is empty or false and no content of a part", _HERE, "dropped, which means the same"),
        Loss("kind", "1.0", "dropped: members say it"),
        Loss("final", "1.0", "dropped: the stream ends"),
        Loss("configuration without blocking", "1.0", "returnImmediately: true, as its servers read it; in no stream"),
        Loss("historyLength of 0: all of it", "1.0", "dropped, which means the same; not in ListTasks, which is 1.0's"),
        Loss("all schemes of a push configuration but the first", "1.0", "dropped"),
        Loss("unknown members of a file or of a push configuration's resource", "1.0", "dropped"),
        Loss("role of an agent's message that is unspecified", "1.0", "ROLE_AGENT"),
        Loss("an answer's message without messageId", "1.0", "an id of the gateway's"),
        Loss("timestamp of an answer that is no ISO 8601", "1.0", "dropped"),
        Loss("offset of a timestamp, and digits beyond nanoseconds", "1.0", "the same moment in UTC"),
        Loss("base64 of the URL's alphabet, unpadded or with stray bits", "1.0", "the same bytes in standard base64"),
    )  # fmt: skip

    __slots__ = ("doubled",)

    def __init__(self, *, doubled: bool = True) -> None:
        self.doubled = doubled

    # ---- Lifted ----------------------------------------------------------------------------------------------------

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """Parameters of a 0.3 client; see `Form`."""
        shape = PARAMS.get(operation)
        if shape is None:
            return params
        # 0.3 has no such member, and in the hub it would be one.
        params.pop("tenant", None)
        read(params, shape, memo)
        if operation.sends and (configuration := params.get("configuration")) is not None:
            if operation is Operation.SEND_MESSAGE and "returnImmediately" not in configuration:
                # Where there is a configuration, every server of 0.3 reads no `blocking` as false.
                configuration["returnImmediately"] = True
            elif configuration.get("returnImmediately") is False:
                del configuration["returnImmediately"]
            if not configuration:
                del params["configuration"]
        return params

    def lift_result(self, operation: Operation, result: Any, memo: Memo) -> Tree:  # noqa: ANN401 - what came
        """An answer of a 0.3 agent; see `Form`."""
        if operation is Operation.DELETE_PUSH_CONFIG:
            return {}
        if type(result) is not dict:
            raise Misfit("", "must be an object")
        shape = RESULTS.get(operation)
        if shape is None:
            return result
        if operation.sends:
            lifted = self._bare(result, memo)
            if lifted is not None:
                if "task" not in lifted and "message" not in lifted:
                    raise Misfit("kind", "must be task or message")
                return lifted
        return read(result, shape, memo)

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """An event of a 0.3 agent; see `Form`."""
        if type(event) is not dict:
            raise Misfit("", "must be an object")
        return self._bare(event, memo) or read(event, EVENT, memo)

    def _bare(self, tree: Tree, memo: Memo) -> Tree | None:
        """Return an answer or event that came without its wrapper in one; None for one that has its wrapper."""
        if _has(tree, *EVENT.fields):
            return None
        kind = tree.get("kind")
        if kind is None:
            if _has(tree, "artifact"):
                kind = "artifact-update"
            elif _has(tree, "status"):
                kind = "task" if _has(tree, "id") else "status-update"
            else:
                kind = "message" if _has(tree, "messageId", "message_id") else ""
        if type(kind) is not str or kind not in BARE:
            raise Misfit("", "must have one of task, message, statusUpdate and artifactUpdate")
        name, shape = BARE[kind]
        return {name: read(tree, shape, memo)}

    # ---- Lowered ---------------------------------------------------------------------------------------------------

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """Parameters for a 0.3 agent; see `Form`."""
        if operation.sends:
            return self._sent(params, memo)
        if operation is Operation.CREATE_PUSH_CONFIG:
            task = params.get("taskId") or ""
            # Servers of a2a-python and a2a-js want the request whole: the one reads the task from the path, the other
            # from `parent`, and both the id from inside the configuration.
            name, config = _named(task, params)
            return {
                "taskId": task,
                "parent": _task_name(task),
                "configId": config["id"],
                "config": {"name": name, "pushNotificationConfig": config},
            }
        names = _PARAMS.get(operation)
        if names is None:
            return params
        lowered = {name: params[name] for name in names if name in params}
        if operation is Operation.GET_TASK and lowered.get("historyLength") == 0:
            del lowered["historyLength"]
        elif operation is Operation.LIST_TASKS and "status" in lowered:
            lowered["status"] = _STATES.get(lowered["status"], "TASK_STATE_UNSPECIFIED")
        return lowered

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Any:  # noqa: ANN401 - as `Form`
        """An answer for a 0.3 client; see `Form`."""
        if operation.sends:
            if "message" in result:
                return {"message": self._message(result["message"])}
            return {"task": self._task(result.get("task") or {})}
        if operation in _TASKS:
            return self._task(result)
        if operation in _CONFIGS:
            return _resource(result, memo)
        if operation is Operation.LIST_PUSH_CONFIGS:
            page = _pick(result, ("nextPageToken",))
            return {"configs": [_resource(config, memo) for config in result.get("configs") or ()], **page}
        if operation is Operation.LIST_TASKS:
            page = {name: result[name] for name in ("nextPageToken", "pageSize", "totalSize") if name in result}
            return {"tasks": [self._task(task) for task in result.get("tasks") or ()], **page}
        return {} if operation is Operation.DELETE_PUSH_CONFIG else result

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
        """An event for a 0.3 client; see `Form`. The last one says so, if the task is over or waits for the client."""
        if (update := event.get("statusUpdate")) is not None:
            lowered = _pick(update, ("taskId", "contextId"))
            status = update.get("status") or {}
            lowered["status"] = self._status(status)
            if last and status.get("state") in _OVER_OR_WAITING:
                lowered["final"] = True
            return ({"statusUpdate": _with_metadata(lowered, update)},)
        if (update := event.get("artifactUpdate")) is not None:
            lowered = _pick(update, ("taskId", "contextId", "append", "lastChunk"))
            lowered["artifact"] = self._artifact(update.get("artifact") or {})
            return ({"artifactUpdate": _with_metadata(lowered, update)},)
        return (self.lower_result(Operation.SEND_MESSAGE, event, memo),)

    def _sent(self, params: Tree, memo: Memo) -> Tree:
        message = self._message(params.get("message") or {})
        message.setdefault("messageId", memo.message_id)
        asked = params.get("configuration") or {}
        configuration = _pick(asked, ("acceptedOutputModes", "historyLength"))
        if (push := asked.get("taskPushNotificationConfig")) is not None:
            configuration["pushNotification"] = _push(push)
        # Always: of servers that find no configuration some block, and some do not.
        configuration["blocking"] = asked.get("returnImmediately") is not True
        return _with_metadata({"message": message, "configuration": configuration}, params)

    def _message(self, message: Tree) -> Tree:
        lowered = _pick(message, ("messageId", "contextId", "taskId", "extensions"))
        lowered["role"] = "ROLE_USER" if message.get("role") == "ROLE_USER" else "ROLE_AGENT"
        lowered["content"] = [self._part(part) for part in message.get("parts") or ()]
        return _with_metadata(lowered, message)

    def _part(self, part: Tree) -> Tree:
        text = part.get("text")
        if text is not None:
            lowered: Tree = {"text": text}
            if len(part) == 1:
                return lowered
        elif (raw := part.get("raw")) is not None:
            return _with_metadata({"file": _file(part, "fileWithBytes", self._twice(raw))}, part)
        elif (url := part.get("url")) is not None:
            return _with_metadata({"file": _file(part, "fileWithUri", url)}, part)
        else:
            data = part.get("data")
            if type(data) is not dict:
                data = {"value": data}
                _metadata(part)[DATA_PART_COMPAT] = True
            lowered = {"data": {"data": data}}
        for kept, name in KEPT_OF_PARTS:
            if value := part.get(name):
                _metadata(part)[kept] = value
        return _with_metadata(lowered, part)

    def _twice(self, raw: str) -> str:
        return b2a_base64(raw.encode(), newline=False).decode("ascii") if self.doubled else raw

    def _status(self, status: Tree) -> Tree:
        lowered: Tree = {"state": _STATES.get(status.get("state") or "", "TASK_STATE_UNSPECIFIED")}
        if (message := status.get("message")) is not None:
            lowered["message"] = self._message(message)
        # A strict parser refuses the whole answer for a time that it cannot read.
        if (timestamp := status.get("timestamp")) and (moment := to_utc(timestamp)):
            lowered["timestamp"] = moment
        return lowered

    def _artifact(self, artifact: Tree) -> Tree:
        lowered = _pick(artifact, ("artifactId", "name", "description", "extensions"))
        lowered["parts"] = [self._part(part) for part in artifact.get("parts") or ()]
        return _with_metadata(lowered, artifact)

    def _task(self, task: Tree) -> Tree:
        lowered = _pick(task, ("id", "contextId"))
        lowered["status"] = self._status(task.get("status") or {})
        if artifacts := task.get("artifacts"):
            lowered["artifacts"] = [self._artifact(artifact) for artifact in artifacts]
        if history := task.get("history"):
            lowered["history"] = [self._message(message) for message in history]
        return _with_metadata(lowered, task)


FORM = Form03Proto()
"""The one instance; agents on a2a-js alone would be better off with one that is not `doubled`."""

_OVER_OR_WAITING = TERMINAL | INTERRUPTED
_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK})
_CONFIGS = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG})
_PARAMS: dict[Operation, tuple[str, ...]] = {
    Operation.GET_TASK: ("id", "historyLength"),
    Operation.CANCEL_TASK: ("id",),
    Operation.SUBSCRIBE_TO_TASK: ("id",),
    Operation.LIST_TASKS: (
        "contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts",
    ),
    Operation.GET_PUSH_CONFIG: ("taskId", "id"),
    Operation.LIST_PUSH_CONFIGS: ("taskId", "pageSize", "pageToken"),
    Operation.DELETE_PUSH_CONFIG: ("taskId", "id"),
}  # fmt: skip
# The proto of 0.3 has CANCELLED with two L.
_STATES = {**{state: state for state in HUB_STATES}, "TASK_STATE_CANCELED": "TASK_STATE_CANCELLED"}


def _has(tree: Tree, *names: str) -> bool:
    """Whether one of these members is there; one that is null is not."""
    return any(tree.get(name) is not None for name in names)


def _pick(tree: Tree, names: Iterable[str]) -> Tree:
    """Those members that are there and not empty, which ProtoJSON leaves out: "", 0, false, no element."""
    return {name: value for name in names if (value := tree.get(name))}


def _with_metadata(lowered: Tree, tree: Tree) -> Tree:
    if metadata := tree.get("metadata"):
        lowered["metadata"] = metadata
    return lowered


def _metadata(part: Tree) -> Tree:
    """The metadata of a part, made where there is none."""
    metadata: Tree | None = part.get("metadata")
    if metadata is None:
        metadata = part["metadata"] = {}
    return metadata


def _file(part: Tree, name: str, content: str) -> Tree:
    file = {name: content}
    if media_type := part.get("mediaType"):
        file["mimeType"] = media_type
    if filename := part.get("filename"):
        file["name"] = filename
    return file


def _push(config: Tree) -> Tree:
    lowered = _pick(config, ("id", "url", "token"))
    if authentication := config.get("authentication"):
        scheme = authentication.get("scheme")
        lowered["authentication"] = {
            **({"schemes": [scheme]} if scheme else {}),
            **_pick(authentication, ("credentials",)),
        }
    return lowered


def _resource(config: Tree, memo: Memo) -> Tree:
    name, lowered = _named(config.get("taskId") or memo.task_id or "", config)
    return {"name": name, "pushNotificationConfig": lowered}


def _named(task: str, config: Tree) -> tuple[str, Tree]:
    """A configuration and its resource name, which clients refuse when its id is missing."""
    lowered = _push(config)
    identity = lowered.setdefault("id", task)
    return f"{_task_name(task)}/pushNotificationConfigs/{identity.replace('/', '%2F')}", lowered


def _task_name(task: str) -> str:
    # Readers of a name stop at the next `/`, some of them without looking further: another task would be meant.
    return f"tasks/{task.replace('/', '%2F')}"
