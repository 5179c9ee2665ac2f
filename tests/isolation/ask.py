"""One call as a client means it, and how every generation writes it over every binding."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict, ParseError  # type: ignore[import-untyped]  # protobuf has no types

from tests.isolation.agent_over_grpc import messages
from tests.isolation.odd import Odd, dumped, put
from tests.isolation.site import HOOK

Tree = dict[str, Any]

SENDS = ("SendMessage", "SendStreamingMessage")
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
CREATE = "CreateTaskPushNotificationConfig"
OF_TASK = (
    "GetTask", "CancelTask", "SubscribeToTask", CREATE, "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig",
)  # fmt: skip
SERVICE = {"1.0": "/lf.a2a.v1.A2AService/", "0.3": "/a2a.v1.ScopedA2AService/"}
SCHEMA = {"1.0": a2a_pb2, "0.3": a2a_v0_3_pb2}
# The tag of a text in field 100.
_SCOPE = b"\xa2\x06"

_METHODS_0_3 = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "ListTasks": "tasks/list",
    CREATE: "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
}
_METHODS_0_1 = {
    "SendMessage": "tasks/send",
    "SendStreamingMessage": "tasks/sendSubscribe",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    CREATE: "tasks/pushNotification/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotification/get",
}
GRPC_0_3 = {
    "SubscribeToTask": "TaskSubscription",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
}


@dataclass(frozen=True, slots=True)
class Speech:
    """The dialect of a client."""

    binding: str
    version: str

    def __str__(self) -> str:
        return f"{self.binding} {self.version}"

    def says(self, operation: str) -> bool:
        """Whether it has an operation."""
        if self.version == "0.1":
            return operation in _METHODS_0_1
        return operation != "ListTasks" or self != Speech("grpc", "0.3")


SPEECHES = tuple(
    Speech(*each.split(" "))
    for each in ("jsonrpc 1.0", "jsonrpc 0.3", "rest 1.0", "rest 0.3", "grpc 1.0", "grpc 0.3", "jsonrpc 0.1")
)
NATIVE = (Speech("native", "first"), Speech("native", "last"))
"""The dialects of a place's own agent; there may be two."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One call.

    Attributes:
        operation: By its 1.0 name.
        place: Below which path, or under which name, it goes.
        context: The context that it names; likewise the others.
        hook: A webhook to be kept; what distinguishes it.
        hook_task: The task that the push configuration of a send names.
        tenant: The A2A tenant that it names.
        snake: Whether members are written as protobuf has them.
        path: Over HTTP+JSON, how the task is written in the path; `{}` is the task.
        filters: Of a list: `pageSize`, `pageToken`, `status`.
    """

    operation: str
    place: str
    speech: Speech
    text: str = ""
    task: str = ""
    context: str = ""
    references: tuple[str, ...] = ()
    hook: str = ""
    hook_task: str = ""
    config: str = ""
    tenant: str = ""
    snake: bool = False
    path: str = "{}"
    odd: Odd | None = None
    filters: Tree = field(default_factory=dict)

    # ---- Parameters ------------------------------------------------------------------------------------------------

    def params(self) -> Tree:
        """As its generation has them in JSON, `tenant` aside; those of HTTP+JSON stand for its body."""
        match self.speech.version:
            case "0.1":
                found = self._params_0_1()
            case "0.3":
                found = self._params_0_3()
            case _:
                found = self._params_1_0()
        return _snaked(found) if self.snake else found

    def _params_1_0(self) -> Tree:
        if self.operation in SENDS:
            message = {"role": "ROLE_USER", "parts": [{"text": self.text}], **self._message()}
            return {"message": message, **self._configuration("taskPushNotificationConfig")}
        if self.operation == "ListTasks":
            return {**_given(contextId=self.context), **self.filters}
        if self.operation == CREATE:
            return {"taskId": self.task, **self._hook()}
        if "Push" in self.operation:
            return {"taskId": self.task, **({} if "List" in self.operation else {"id": self.config})}
        return {"id": self.task}

    def _params_0_3(self) -> Tree:
        proto = self.speech.binding != "jsonrpc"
        if self.operation in SENDS:
            if proto:
                said: Tree = {"role": "ROLE_USER", "content": [{"text": self.text}]}
            else:
                said = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": self.text}]}
            hook = self._configuration("pushNotification" if proto else "pushNotificationConfig")
            return {"message": {**said, **self._message()}, **hook}
        if self.operation == "ListTasks":
            filters = dict(self.filters)
            if "status" in filters and not proto:
                filters["status"] = filters["status"].removeprefix("TASK_STATE_").lower()
            return {**_given(contextId=self.context), **filters}
        if self.operation == CREATE:
            if not proto:
                return {"taskId": self.task, "pushNotificationConfig": self._hook()}
            parent = f"tasks/{self.task}"
            config = {
                "name": f"{parent}/pushNotificationConfigs/{self.config}",
                "pushNotificationConfig": self._hook(),
            }
            return {"parent": parent, "configId": self.config, "config": config}
        if "Push" in self.operation and "List" not in self.operation:
            return {"id": self.task, "pushNotificationConfigId": self.config}
        return {"id": self.task}

    def _params_0_1(self) -> Tree:
        found: Tree = {"id": self.task}
        if self.operation in SENDS:
            found |= {"message": {"role": "user", "parts": [{"type": "text", "text": self.text}]}}
            found |= _given(sessionId=self.context)
            if self.references:
                put({}, found, Odd(("message",), "referenceTaskIds", "{}", self.references[0]))
            if self.hook:
                found["pushNotification"] = {"url": HOOK + self.hook}
        elif self.operation == CREATE:
            found["pushNotificationConfig"] = {"url": HOOK + self.hook}
        return found

    def _message(self) -> Tree:
        given = _given(taskId=self.task, contextId=self.context, referenceTaskIds=list(self.references))
        return {"messageId": "m", **given}

    def _configuration(self, name: str) -> Tree:
        if not self.hook:
            return {}
        return {"configuration": {name: {**self._hook(), **_given(taskId=self.hook_task)}}}

    def _hook(self) -> Tree:
        return {**_given(id=self.config), "url": HOOK + self.hook, "token": self.hook}

    # ---- HTTP ------------------------------------------------------------------------------------------------------

    def over_http(self) -> tuple[str, str, dict[str, str], bytes | None]:
        """Method, target, headers and body."""
        headers = {"Content-Type": "application/json"}
        if self.speech.version != "0.1":
            headers["A2A-Version"] = self.speech.version
        if self.operation in STREAMS:
            headers["Accept"] = "text/event-stream"
        method, path, query, body = self._jsonrpc() if self.speech.binding == "jsonrpc" else self._rest()
        if self.odd is not None and self.odd.in_query:
            name = self.odd.name.replace("\\", "")
            query = {name: self.odd.form.format(self.odd.value), **query} if self.odd.first else query
            query.setdefault(name, self.odd.form.format(self.odd.value))
        target = f"/{self.place}{path}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        return method, target, headers, body

    def _jsonrpc(self) -> tuple[str, str, Tree, bytes]:
        methods = {"0.1": _METHODS_0_1, "0.3": _METHODS_0_3}.get(self.speech.version, {})
        params = {**_given(tenant=self.tenant), **self.params()}
        call = {"jsonrpc": "2.0", "id": "1", "method": methods.get(self.operation, self.operation), "params": params}
        if self.odd is not None and not self.odd.in_query:
            put(call, params, self.odd)
        return "POST", "", {}, dumped(call)

    def _rest(self) -> tuple[str, str, Tree, bytes | None]:
        prefix = "/v1" if self.speech.version == "0.3" else ""
        prefix = f"/{self.tenant}{prefix}" if self.tenant else prefix
        params, odd = self.params(), self.odd
        if odd is not None and not odd.in_query and odd.way != ("envelope",):
            put({}, params, odd)
        task = f"{prefix}/tasks/" + self.path.format(quote(self.task, safe=":@"))
        configs = f"{task}/pushNotificationConfigs"
        match self.operation:
            case "SendMessage":
                return "POST", f"{prefix}/message:send", {}, dumped(params)
            case "SendStreamingMessage":
                return "POST", f"{prefix}/message:stream", {}, dumped(params)
            case "ListTasks":
                return "GET", f"{prefix}/tasks", params, None
            case "GetTask":
                return "GET", task, {}, None
            case "CancelTask":
                return "POST", f"{task}:cancel", {}, dumped(params if self.speech.version == "1.0" else {})
            case "SubscribeToTask":
                return ("GET" if self.speech.version == "0.3" else "POST"), f"{task}:subscribe", {}, None
            case "CreateTaskPushNotificationConfig":
                return "POST", configs, {}, dumped(params)
            case "ListTaskPushNotificationConfigs":
                return "GET", configs, {}, None
        return ("GET" if "Get" in self.operation else "DELETE"), f"{configs}/{quote(self.config)}", {}, None

    # ---- gRPC ------------------------------------------------------------------------------------------------------

    def over_grpc(self) -> tuple[str, bytes]:
        """The path of the method, and the message."""
        old = self.speech.version == "0.3"
        name = GRPC_0_3.get(self.operation, self.operation) if old else self.operation
        takes, _ = messages(SCHEMA[self.speech.version], name)
        params = self.params()
        if old:
            params = self._named(params)
            message = ParseDict(params, takes(), ignore_unknown_fields=True).SerializeToString()
            if self.operation in SENDS and self.references:
                # References as release candidates of 1.0 name them, in the message of 0.3.
                more = b"".join(b"\x42" + _long(each) for each in self.references)
                message += b"\x0a" + bytes([len(more)]) + more
            message += _SCOPE + _long(self.place)
        else:
            params = {**params, "tenant": self.place}
            message = ParseDict(params, takes(), ignore_unknown_fields=True).SerializeToString()
        return SERVICE[self.speech.version] + name, self._doubled(takes, message)

    def _named(self, params: Tree) -> Tree:
        """Parameters of 0.3 with resource names, as its protobuf has them."""
        if self.operation in SENDS or self.operation == CREATE:
            return params
        task = f"tasks/{self.task}"
        if "ListTaskPush" in self.operation:
            return {"parent": task}
        return {"name": f"{task}/pushNotificationConfigs/{self.config}" if "Push" in self.operation else task}

    def _doubled(self, takes: Any, message: bytes) -> bytes:
        """The message with the odd id in a field that is there already, or is not; of two the last counts."""
        odd = self.odd
        if odd is None or odd.way in (("envelope",), ("query",)):
            return message
        more: Tree = {}
        put({}, more, Odd(odd.way, odd.name.replace("\\", ""), odd.form, odd.value))
        try:
            written: bytes = ParseDict(more, takes(), ignore_unknown_fields=True).SerializeToString()
        except ParseError:
            return message
        return written + message if odd.first else message + written

    def __str__(self) -> str:
        if self.speech.binding == "grpc":
            path, message = self.over_grpc()
            return f"{path} {message!r}"
        method, target, headers, body = self.over_http()
        version = headers.get("A2A-Version", "-")
        return f"{method} {target} ({version}) {'' if body is None else body.decode()}"


def _given(**members: Any) -> Tree:
    return {name: value for name, value in members.items() if value}


def _long(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw)]) + raw


def _snaked(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {_SNAKE.get(name, name): _snaked(value) for name, value in tree.items()}
    return list(map(_snaked, tree)) if isinstance(tree, list) else tree


_SNAKE = {
    "taskId": "task_id",
    "contextId": "context_id",
    "referenceTaskIds": "reference_task_ids",
    "messageId": "message_id",
    "configId": "config_id",
    "pushNotification": "push_notification",
    "pushNotificationConfig": "push_notification_config",
    "taskPushNotificationConfig": "task_push_notification_config",
    "pageSize": "page_size",
    "pageToken": "page_token",
}
