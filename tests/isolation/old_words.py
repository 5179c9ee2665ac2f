"""Calls and answers of an agent of 0.3 over JSON-RPC, from and to the words of 1.0: as far as these agents need."""

from typing import Any

Tree = dict[str, Any]

METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
}


def newer(operation: str, params: Tree) -> Tree:
    """Parameters of 0.3 in the words of 1.0."""
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            message = params["message"]
            parts = [{"text": part["text"]} for part in message["parts"] if part.get("kind") == "text"]
            role = "ROLE_USER" if message["role"] == "user" else "ROLE_AGENT"
            kept = {name: value for name, value in message.items() if name != "kind"}
            given = (params.get("configuration") or {}).get("pushNotificationConfig")
            configuration = {"taskPushNotificationConfig": given} if given else {}
            return {"message": {**kept, "role": role, "parts": parts}, "configuration": configuration}
        case "CreateTaskPushNotificationConfig":
            return {**params["pushNotificationConfig"], "taskId": params["taskId"]}
        case "ListTaskPushNotificationConfigs":
            return {"taskId": params["id"]}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"taskId": params["id"], "id": params.get("pushNotificationConfigId")}
        case "ListTasks":
            return {**params, "status": _newer_state(params.get("status"))}
    return params


def older(operation: str, result: Tree) -> Any:
    """Return a result of 1.0 in the words of 0.3."""
    match operation:
        case "SendMessage":
            return event(result)
        case "ListTasks":
            return {**result, "tasks": [_task(task) for task in result["tasks"]]}
        case "ListTaskPushNotificationConfigs":
            return [_config(config) for config in result["configs"]]
        case "DeleteTaskPushNotificationConfig":
            return None
        case "GetTask" | "CancelTask":
            return _task(result)
    return _config(result)


def event(told: Tree) -> Tree:
    """An event of 1.0, or what a send comes to, in the words of 0.3."""
    ((kind, body),) = told.items()
    match kind:
        case "task":
            return _task(body)
        case "message":
            return _message(body)
        case "artifactUpdate":
            return {**body, "kind": "artifact-update", "artifact": _artifact(body["artifact"])}
    status = _status(body["status"])
    return {**body, "kind": "status-update", "status": status, "final": status["state"] != "working"}


def _task(task: Tree) -> Tree:
    told = {**task, "kind": "task", "status": _status(task["status"]), "history": list(map(_message, task["history"]))}
    return {**told, "artifacts": list(map(_artifact, task["artifacts"]))} if "artifacts" in task else told


def _status(status: Tree) -> Tree:
    told = {**status, "state": status["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")}
    return {**told, "message": _message(status["message"])} if "message" in status else told


def _message(message: Tree) -> Tree:
    role = message["role"].removeprefix("ROLE_").lower()
    return {**message, "kind": "message", "role": role, "parts": _parts(message["parts"])}


def _artifact(artifact: Tree) -> Tree:
    return {**artifact, "parts": _parts(artifact["parts"])}


def _parts(parts: list[Tree]) -> list[Tree]:
    return [{"kind": "text", "text": part["text"]} for part in parts]


def _config(config: Tree) -> Tree:
    inside = {name: value for name, value in config.items() if name != "taskId"}
    return {"taskId": config["taskId"], "pushNotificationConfig": inside}


def _newer_state(state: str | None) -> str | None:
    return None if state is None else f"TASK_STATE_{state.upper().replace('-', '_')}"
