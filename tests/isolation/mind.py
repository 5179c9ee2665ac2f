"""An agent's knowledge in the words of 1.0: every task, given to any caller that names it, as the SDKs' stores do.

What it does with a message is told by the first word of its first text:

    wait   begins a task that goes on        talk   answers with a message, and makes no task
    ask    begins one that asks back         hint   makes a task, and tells of it in a message alone
    fail   complains, and names the context  long   completes, with an answer that a thread reads
    else   completes

Whatever it says recalls all that it was told in the same context, and names the context in its text: what two callers
share they see.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.isolation.heard import Heard

Tree = dict[str, Any]

TERMINAL = ("TASK_STATE_COMPLETED", "TASK_STATE_CANCELED")
_STATES = {"wait": "TASK_STATE_WORKING", "ask": "TASK_STATE_INPUT_REQUIRED"}
LONG = 160 * 1024
"""Bytes of a long answer."""


class Complaint(Exception):  # noqa: N818 - it is what it is
    """The call is answered by an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Mind:
    """All that one agent knows.

    Attributes:
        name: Begins all ids that it makes; without digits.
        seeded: The number of tasks from before there was a gateway, each two of them in one context.
        makers: In which call each of its tasks was made, and each context that it named itself; None where none was.
        mixed_up: The subject of its next answer instead of the right one: another's task, in a task
            (`task`), a task or an update without its context (`bare`), a message (`message`), a message of a context of
            the caller's (`mention`), or an update (`update`).
    """

    name: str
    seeded: int = 0
    tasks: dict[str, Tree] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    configs: dict[str, dict[str, Tree]] = field(default_factory=dict)
    makers: dict[str, Heard | None] = field(default_factory=dict)
    mixed_up: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        for kept in (self.tasks, self.said, self.configs, self.makers):
            kept.clear()
        self.mixed_up = None
        for number in range(self.seeded):
            if number % 2 == 0:
                context = self._context(None)
            self._begin("TASK_STATE_WORKING", context, None)

    def next(self, letter: str) -> str:
        """The id that the next task (`t`) or context (`c`) gets that it names itself."""
        made = sum(f"{self.name}-{letter}" == known[: len(self.name) + 2] for known in self.makers)
        return f"{self.name}-{letter}{made + 1:04}"

    def answer(self, operation: str, params: Tree, heard: Heard) -> Tree:
        """Return the result of an operation with one answer.

        Raises:
            Complaint: it is an error.
        """
        if self.mixed_up is not None:
            return self._mixed_up(operation, params)
        match operation:
            case "SendMessage":
                return self._send(params, heard)
            case "ListTasks":
                return self._list(params)
            case "GetTask":
                return self._task(params["id"])
            case "CancelTask":
                task = self._task(params["id"])
                if task["status"]["state"] in TERMINAL:
                    raise Complaint(-32002, "Task cannot be canceled")
                task["status"] = {"state": "TASK_STATE_CANCELED"}
                return task
        return self._about_webhooks(operation, params)

    def events(self, operation: str, params: Tree, heard: Heard) -> list[Tree | Complaint]:
        """Return the events of an operation with a stream.

        Raises:
            Complaint: it is an error before there is a stream.
        """
        if self.mixed_up is not None:
            return [self._mixed_up(operation, params)]
        if operation == "SubscribeToTask":
            return [{"task": self._task(params["id"])}]
        text = _text(params["message"])
        if text.startswith("fail "):
            context = self._context(heard, params["message"].get("contextId"))
            message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": context}], "contextId": context}
            return [{"message": message}, Complaint(-32603, f"nothing can be done in {context}")]
        result = self._send(params, heard)
        if "message" in result:
            return [result]
        task = result["task"]
        ids = {"taskId": task["id"], "contextId": task["contextId"]}
        return [
            {"task": {**task, "status": {"state": "TASK_STATE_WORKING"}}},
            {"artifactUpdate": {**ids, "artifact": task["artifacts"][0]}},
            {"statusUpdate": {**ids, "status": task["status"]}},
        ]

    def _mixed_up(self, operation: str, params: Tree) -> Tree:
        assert self.mixed_up is not None
        (task_id, kind), self.mixed_up = self.mixed_up, None
        task = self.tasks[task_id]
        ids = {"taskId": task_id, "contextId": task["contextId"]}
        if "Push" in operation:
            config = {"taskId": task_id, "id": "p-0", "url": "https://127.0.0.1:9/"}
            configs = list(self.configs.get(task_id, {}).values()) or [config]
            return {"configs": configs} if "List" in operation else configs[0]
        if kind == "bare":
            task = {name: value for name, value in task.items() if name != "contextId"}
            ids.pop("contextId")
        if not operation.startswith(("Send", "Subscribe")):
            return task
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "this"}], **ids}
        match kind:
            case "task":
                return {"task": task}
            case "update" | "bare" if operation != "SendMessage":
                return {"statusUpdate": {**ids, "status": {"state": "TASK_STATE_WORKING"}}}
            case "mention":
                named = (params.get("message") or {}).get("contextId")
                return {"message": {**message, "contextId": named or self._context(None)}}
        return {"task": task} if kind == "bare" else {"message": message}

    # ---- Sends -----------------------------------------------------------------------------------------------------

    def _send(self, params: Tree, heard: Heard) -> Tree:
        message: Tree = params["message"]
        text = _text(message)
        word = text.split(" ")[0]
        task = self._task(message["taskId"]) if message.get("taskId") else None
        context = task["contextId"] if task else self._context(heard, message.get("contextId"))
        if word == "fail":
            raise Complaint(-32603, f"nothing can be done in {context}")
        self.said.setdefault(context, []).append(text)
        recalled = f"in {context}: {'; '.join(self.said[context][-8:])}"
        said = {"messageId": f"r-{len(self.said[context])}", "role": "ROLE_AGENT", "parts": [{"text": recalled}]}
        if word == "talk":
            return {"message": {**said, "contextId": context}}
        if task is None:
            task = self._begin("TASK_STATE_WORKING", context, heard)
        ids = {"taskId": task["id"], "contextId": context}
        if word == "hint":
            return {"message": {**said, **ids}}
        task["status"] = {"state": _STATES.get(word, TERMINAL[0]), "message": {**said, **ids}}
        task["artifacts"] = [{"artifactId": "a", "parts": [{"text": recalled}]}]
        kept = _known(message, "messageId", "role", "parts", "referenceTaskIds")
        task["history"].append({**kept, **ids})
        given = (params.get("configuration") or {}).get("taskPushNotificationConfig")
        if given:
            self._configured(task["id"], given)
        if word != "long":
            return {"task": task}
        # Its ids stand behind much else.
        filler = {"artifactId": "b", "parts": [{"text": "." * LONG}]}
        return {"task": {"artifacts": [filler, *task["artifacts"]], **task, "metadata": {"thread": context}}}

    def _about_webhooks(self, operation: str, params: Tree) -> Tree:
        configs = self.configs.setdefault(self._task(params["taskId"])["id"], {})
        match operation:
            case "CreateTaskPushNotificationConfig":
                return self._configured(params["taskId"], params)
            case "ListTaskPushNotificationConfigs":
                return {"configs": list(configs.values())}
            case "DeleteTaskPushNotificationConfig":
                configs.pop(params.get("id") or params["taskId"], None)
                return {}
        found = configs.get(params.get("id") or params["taskId"])
        if found is None:
            raise Complaint(-32001, "Push configuration not found")
        return found

    def _begin(self, state: str, context: str, heard: Heard | None) -> Tree:
        task: Tree = {"id": self.next("t"), "contextId": context, "status": {"state": state}, "history": []}
        self.tasks[task["id"]] = task
        self.makers[task["id"]] = heard
        return task

    def _context(self, heard: Heard | None, named: str | None = None) -> str:
        if named:
            return named
        made = self.next("c")
        self.makers[made] = heard
        self.said[made] = []
        return made

    def _configured(self, task: str, given: Tree) -> Tree:
        config = {**_known(given, "url", "token"), "id": given.get("id") or task, "taskId": task}
        self.configs.setdefault(task, {})[config["id"]] = config
        return config

    # ---- Tasks -----------------------------------------------------------------------------------------------------

    def _task(self, named: str) -> Tree:
        if named not in self.tasks:
            raise Complaint(-32001, f"Task {named} not found")
        return self.tasks[named]

    def _list(self, params: Tree) -> Tree:
        context, status = params.get("contextId"), params.get("status")
        if context and context not in self.said:
            raise Complaint(-32602, f"there is no context {context}")
        found = [
            task
            for task in self.tasks.values()
            if context in (None, "", task["contextId"]) and status in (None, "", task["status"]["state"])
        ]
        token, size = params.get("pageToken"), int(params.get("pageSize") or 50)
        names = [f"behind:{task['id']}" for task in found]
        if token and token not in names:
            raise Complaint(-32602, f"no such page: {token}")
        start = names.index(token) + 1 if token else 0
        page = found[start : start + size]
        more = names[start + size - 1] if start + size < len(found) else ""
        return {"tasks": page, "nextPageToken": more, "pageSize": size, "totalSize": len(found)}


def _known(given: Tree, *names: str) -> Tree:
    return {name: given[name] for name in names if name in given}


def _text(message: Tree) -> str:
    return str(next((part["text"] for part in message.get("parts", ()) if "text" in part), ""))
