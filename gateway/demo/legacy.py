"""A2A 0.3 over JSON-RPC: old method names, and results in the old spelling (0.3 §6)."""

from typing import Any

from gateway.demo.task import TERMINAL, Tree

METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""0.3 method names and what 1.0 calls them."""


def lift(params: Tree) -> Tree:
    """0.3 parameters as 1.0 ones; only what differs and the sample agents read."""
    configuration = dict(params.get("configuration") or {})
    if "blocking" in configuration:
        configuration["returnImmediately"] = not configuration.pop("blocking")
    message = params.get("message")
    if not isinstance(message, dict):
        return params
    role = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}.get(message.get("role", ""))
    parts = message.get("parts")
    if isinstance(parts, list):
        parts = [{k: v for k, v in part.items() if k != "kind"} if isinstance(part, dict) else part for part in parts]
    lifted = {**{k: v for k, v in message.items() if k != "kind"}, "role": role, "parts": parts}
    return {**params, "message": lifted, "configuration": configuration}


def lower(result: Tree) -> Tree:
    """A 1.0 result or event in the spelling of 0.3: bare objects, told apart by `kind`."""
    if "task" in result:
        return _task(result["task"])
    if "message" in result:
        return _message(result["message"])
    if "artifactUpdate" in result:
        update = result["artifactUpdate"]
        return {"kind": "artifact-update", **update, "artifact": _artifact(update["artifact"])}
    if "statusUpdate" in result:
        update = result["statusUpdate"]
        state = update["status"]["state"]
        final = state in TERMINAL or state == "TASK_STATE_INPUT_REQUIRED"
        return {"kind": "status-update", **update, "status": _status(update["status"]), "final": final}
    return _task(result)


def _task(task: Tree) -> Tree:
    return {
        **task,
        "kind": "task",
        "status": _status(task["status"]),
        "artifacts": [_artifact(artifact) for artifact in task.get("artifacts", [])],
        "history": [_message(message) for message in task.get("history", [])],
    }


def _status(status: Tree) -> Tree:
    lowered = {**status, "state": status["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")}
    if "message" in status:
        lowered["message"] = _message(status["message"])
    return lowered


def _message(message: Tree) -> Tree:
    role = message["role"].removeprefix("ROLE_").lower()
    return {**message, "kind": "message", "role": role, "parts": _parts(message["parts"])}


def _artifact(artifact: Tree) -> Tree:
    return {**artifact, "parts": _parts(artifact["parts"])}


def _parts(parts: list[Tree]) -> list[Any]:
    # The sample agents speak text; parts of a user's message may hold anything and are shown as they came.
    return [{"kind": "text" if "text" in part else "data", **part} for part in parts]
