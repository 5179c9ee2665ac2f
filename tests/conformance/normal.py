"""A client's results without ids, times and addresses and in words of no generation, so that runs can be compared.

A driver (see `clients/driving.py`) gives items as its SDK spells them. `normal` makes one result of an operation:

    {"events": [...], "tasks": N, "contexts": N}    what came, and how many tasks and contexts it was about
    {"error": NAME}                                 the error, by its name in 1.0, else as the SDK shows it
    {"absent": WHY}                                 the SDK has no such call
"""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any

Tree = dict[str, Any]

ERRORS = {
    -32001: "TaskNotFound",
    -32002: "TaskNotCancelable",
    -32003: "PushNotificationNotSupported",
    -32004: "UnsupportedOperation",
    -32005: "ContentTypeNotSupported",
    -32006: "InvalidAgentResponse",
    -32007: "ExtendedAgentCardNotConfigured",
    -32008: "ExtensionSupportRequired",
    -32009: "VersionNotSupported",
    -32600: "InvalidRequest",
    -32601: "MethodNotFound",
    -32602: "InvalidParams",
    -32603: "Internal",
    -32700: "Parse",
}

ERRORS_0_1 = {
    **ERRORS,
    -32006: "StreamingNotSupported",
    -32007: "AuthenticationRequired",
    -32008: "AuthorizationFailed",
    -32009: "InvalidTaskState",
    -32010: "RateLimitExceeded",
    -32011: "ResourceUnavailable",
}
"""The prose of 0.1 gives some codes another meaning."""

_CODE = re.compile(r"\(Code: (-\d+)\)")
_WORD = re.compile(r"^(wait|free) .*")


def normal(operation: str, told: Tree) -> Tree:
    """The result of one operation."""
    if "absent" in told:
        return {"absent": told["absent"]}
    if "failed" in told:
        return {"error": _error(told["failed"])}
    reader = _Reader()
    items: list[Tree] = told["items"]
    events = [event for item in items if (event := reader.read(item))]
    if operation == "subscribe":
        # Signs of life: agents tick where their SDK shows nothing else to one who joins.
        events = [event for event in events if event != {"status": {"state": "working"}}]
    found: Tree = {"events": events, "tasks": len(reader.tasks), "contexts": len(reader.contexts)}
    if (ending := _ending(items)) != "":
        found["ending"] = ending
    return found


def _error(failed: Tree) -> str:
    inner = _CODE.search(failed["text"])
    code = int(inner[1]) if inner else failed["code"]
    named = ERRORS_0_1 if failed["spelling"] == "0.1" else ERRORS
    if code in named:
        return named[code]
    for name in ERRORS.values():
        if failed["type"] in (f"{name}Error", f"Authenticated{name}Error"):
            return name
    if failed["status"] is not None:
        return f"HTTP {failed['status']}"
    if failed.get("grpc") is not None:
        return f"gRPC {failed['grpc']}"
    return f"the SDK's own {failed['type']}" if code is None else f"code {code}"


def _ending(items: list[Tree]) -> str:
    """Return the fault in the end of a stream of 0.3 or 0.1."""
    if not items:
        return ""
    last = items[-1]
    if last["kind"] not in ("status", "artifact") or last["spelling"] == "1.0":
        return ""
    if any(item["value"].get("final") for item in items[:-1]):
        return "a final event that was not the last"
    return "" if last["value"].get("final") else "no final event"


class _Reader:
    """Reads the items of one operation; it knows which ids they were about."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.contexts: set[str] = set()
        self._artifacts: dict[str, int] = {}

    def read(self, item: Tree) -> Tree:
        found: Tree = getattr(self, f"_{item['kind']}")(item["value"])
        return found

    def _message(self, value: Tree) -> Tree:
        return {"message": {"role": _role(value), "parts": _parts(value)}}

    def _task(self, value: Tree) -> Tree:
        self._noted(value["id"], value)
        found = self._state(value["status"])
        if value.get("artifacts"):
            found["artifacts"] = [self._made(artifact) for artifact in value["artifacts"]]
        if value.get("history"):
            found["history"] = [[_role(message), *_parts(message)] for message in value["history"]]
        return {"task": found}

    def _status(self, value: Tree) -> Tree:
        self._noted(value.get("taskId") or value["id"], value)
        return {"status": self._state(value["status"])}

    def _artifact(self, value: Tree) -> Tree:
        self._noted(value.get("taskId") or value["id"], value)
        # 0.1 has them on the artifact.
        chunk = {**value["artifact"], **value}
        found = self._made(value["artifact"])
        return {"artifact": {**found, "append": bool(chunk.get("append")), "last": bool(chunk.get("lastChunk"))}}

    def _tasks(self, value: Tree) -> Tree:
        found = [self._task(task) for task in value.get("tasks") or ()]
        return {"page": found, "more": bool(value.get("nextPageToken")), "total": value.get("totalSize", 0)}

    def _push(self, value: Tree) -> Tree:
        config = value.get("pushNotificationConfig") or value
        return {"push": {name: config[name] for name in ("id", "url", "token") if config.get(name)}}

    def _pushes(self, value: Any) -> Tree:
        configs = value.get("configs") or () if isinstance(value, dict) else value
        return {"pushes": [self._push(config)["push"] for config in configs]}

    def _card(self, value: Tree) -> Tree:
        able = value.get("capabilities") or {}
        return {
            "card": {
                "name": value["name"],
                "version": value["version"],
                "skills": [skill["id"] for skill in value.get("skills") or ()],
                "streaming": bool(able.get("streaming")),
                "push": bool(able.get("pushNotifications")),
                "extended": bool(able.get("extendedAgentCard") or value.get("supportsAuthenticatedExtendedCard")),
            }
        }

    def _nothing(self, _: None) -> Tree:
        return {"nothing": True}

    def _noted(self, task: str, value: Tree) -> None:
        self.tasks.add(task)
        self.contexts.add(value.get("contextId") or value.get("sessionId") or "")

    def _state(self, status: Tree) -> Tree:
        state = status["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
        # a2a-sdk 0.3 makes an empty message of none, over HTTP+JSON.
        said = {"said": parts} if (parts := _parts(status.get("message") or {})) else {}
        return {"state": "canceled" if state == "cancelled" else state, **said}

    def _made(self, artifact: Tree) -> Tree:
        name = artifact.get("artifactId") or str(artifact.get("index", 0))
        found: Tree = {"number": self._artifacts.setdefault(name, len(self._artifacts)), "parts": _parts(artifact)}
        told = {name: artifact[name] for name in ("name", "description") if artifact.get(name)}
        return {**found, **told, **_metadata(artifact)}


def _role(message: Tree) -> str:
    role: str = message["role"]
    return role.removeprefix("ROLE_").lower()


def _parts(value: Tree) -> list[Tree]:
    return [_part(part) for part in value.get("parts") or ()]


def _part(part: Tree) -> Tree:
    found = _content(part, part.get("file") or part)
    return {**found, **_metadata(part)}


def _metadata(value: Tree) -> Tree:
    """The metadata, without what translations keep there for the way back."""
    kept = {name: each for name, each in (value.get("metadata") or {}).items() if not name.endswith("_compat")}
    return {"metadata": kept} if kept else {}


def _content(part: Tree, file: Tree) -> Tree:
    if "text" in part:
        return {"text": _WORD.sub(r"\1", part["text"])}
    if "data" in part:
        return {"data": part["data"]}
    named = {
        "name": _first(file, ("filename", "name")),
        "type": _first(file, ("mediaType", "mimeType")),
    }
    # fasta2a 0.2 calls the bytes `data`.
    raw, link = _first(file, ("raw", "bytes", "data")), _first(file, ("url", "uri"))
    return {"file": base64.b64encode(base64.b64decode(raw)).decode() if raw else link, **named}


def _first(tree: Tree, names: Iterable[str]) -> Any:
    return next((tree[name] for name in names if tree.get(name)), None)


# ---- What a generation can say of it, and what SDKs make of it ---------------------------------------------------

_STATES_0_1 = {"rejected": "failed", "auth-required": "input-required"}
_STREAMS = ("stream", "subscribe", "error_stream", "error_subscribe")

STATUSES_0_3 = {
    "HTTP 400": {"Parse", "InvalidRequest"},
    "HTTP 404": {"TaskNotFound", "MethodNotFound", "ExtendedAgentCardNotConfigured"},
    "HTTP 409": {"TaskNotCancelable"},
    "HTTP 415": {"ContentTypeNotSupported"},
    "HTTP 422": {"InvalidParams"},
    "HTTP 500": {"Internal", "InvalidAgentResponse"},
    "HTTP 501": {"PushNotificationNotSupported", "UnsupportedOperation"},
    "HTTP 502": {"InvalidAgentResponse"},
}
"""The error for each status of 0.3 over HTTP+JSON; a2a-sdk 0.3 shows its user no more."""

STATUSES_GRPC = {
    "gRPC INVALID_ARGUMENT": {"Parse", "InvalidRequest", "InvalidParams", "ContentTypeNotSupported"},
    "gRPC NOT_FOUND": {"TaskNotFound", "MethodNotFound"},
    "gRPC FAILED_PRECONDITION": {
        "TaskNotCancelable",
        "PushNotificationNotSupported",
        "UnsupportedOperation",
        "ExtendedAgentCardNotConfigured",
    },
    "gRPC UNIMPLEMENTED": {
        "TaskNotCancelable",
        "PushNotificationNotSupported",
        "UnsupportedOperation",
        "ContentTypeNotSupported",
    },
    "gRPC INTERNAL": {"Parse", "Internal", "InvalidAgentResponse"},
}
"""Errors that a status of gRPC may mean in 0.3, where the SDKs of JavaScript give no details; 1.0 always has them."""


def reduced(operation: str, result: Tree, version: str) -> Tree:
    """A result as a generation can tell it: 0.1 has no answer but a task, fewer states, and no task in a stream."""
    if version != "0.1" or "events" not in result:
        return result
    streams = operation.startswith(_STREAMS)
    return {
        "events": [told for event in result["events"] for told in (_streamed(event) if streams else [_told(event)])]
    }


_TWINS = ({"InvalidTaskState", "UnsupportedOperation"}, {"InvalidTaskState", "HTTP 501"})
"""Pairs of errors that count as equal: 0.1 has another error for a message to a task that is over."""


def meanings(error: str, version: str) -> set[str]:
    """An error, and those that a status of gRPC may stand for.

    Args:
        version: The client's version.
    """
    return {error} | (STATUSES_GRPC.get(error, set()) if version != "1.0" else set())


def same_error(got: str, wanted: str, version: str) -> bool:
    """Whether an error is another one, or the status that stands for it.

    Args:
        version: The client's version.
    """
    if wanted in STATUSES_0_3.get(got, ()) or got in STATUSES_0_3.get(wanted, ()):
        return True
    if wanted in meanings(got, version) or got in meanings(wanted, version):
        return True
    return {got, wanted} in _TWINS


def without_opening(result: Tree) -> Iterator[Tree]:
    """A result as it was before the gateway said the Task first in a stream that an old agent began with an update."""
    events = result.get("events", [])
    for number, event in enumerate(events):
        if event.keys() == {"task"} and event["task"].keys() == {"state"}:
            yield {**result, "events": [*events[:number], *events[number + 1 :]]}
            yield {**result, "events": [*events[:number], {"status": event["task"]}, *events[number + 1 :]]}
        elif event.keys() == {"status"} and event["status"].keys() == {"state"}:
            # In words of 0.1 the Task of the beginning is a status.
            yield {**result, "events": [*events[:number], *events[number + 1 :]]}


def without_quirks(value: Any) -> Any:
    """A result whose files are in base64 once, and have no names: all that two SDKs of 0.3 agree on."""
    if isinstance(value, list):
        return [without_quirks(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "file" in value:
        return {**value, "file": _once(value["file"]), "name": None}
    return {name: without_quirks(each) for name, each in value.items()}


def _once(file: str) -> str:
    try:
        inner = base64.b64decode(file, validate=True).decode()
        base64.b64decode(inner, validate=True)
    except ValueError:
        return file
    return inner


def _told(event: Tree) -> Tree:
    if "message" in event:
        return {"task": {"state": "completed", "said": event["message"]["parts"], "artifacts": []}}
    if "task" in event:
        task = event["task"]
        return {"task": {**_older(task), "artifacts": [_unnumbered(each) for each in task.get("artifacts") or ()]}}
    if "push" in event:
        return {"push": _unnamed(event["push"])}
    if "pushes" in event:
        return {"pushes": [_unnamed(each) for each in event["pushes"]]}
    return event


def _unnamed(push: Tree) -> Tree:
    return {name: each for name, each in push.items() if name != "id"}


def _streamed(event: Tree) -> Iterator[Tree]:
    if "message" in event:
        yield {"status": {"state": "completed", "said": event["message"]["parts"]}}
    for artifact in event.get("task", {}).get("artifacts") or ():
        yield {"artifact": {**_unnumbered(artifact), "append": False, "last": True}}
    if "artifact" in event:
        yield {"artifact": _unnumbered(event["artifact"])}
    state = event.get("task") or event.get("status")
    if state and ("said" in state or state["state"] not in ("submitted", "working")):
        yield {"status": _older(state)}


def _older(state: Tree) -> Tree:
    found = {name: each for name, each in state.items() if name in ("state", "said")}
    return {**found, "state": _STATES_0_1.get(state["state"], state["state"])}


def _unnumbered(artifact: Tree) -> Tree:
    return {name: each for name, each in artifact.items() if name != "number"}
