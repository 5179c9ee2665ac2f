"""The vectors as calls, and what they say in the words of the hub, so that dialects can be compared."""

import json
from base64 import b64decode
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gateway.a2a.bindings import grpc, jsonrpc, rest
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.operation import Operation
from gateway.a2a.paths import read_rest, segments
from gateway.a2a.translation import FORMS, can_ask
from gateway.a2a.versions.version import Memo

VECTORS = Path(__file__).parent.parent / "vectors"
DIALECTS = {
    "v0.1-jsonrpc": Dialect(Binding.JSONRPC, Version.V0_1),
    "v0.3-jsonrpc": Dialect(Binding.JSONRPC, Version.V0_3),
    "v0.3-rest": Dialect(Binding.REST, Version.V0_3),
    "v0.3-rest-snake": Dialect(Binding.REST, Version.V0_3),
    "v0.3-grpc": Dialect(Binding.GRPC, Version.V0_3),
    "v1.0-jsonrpc": Dialect(Binding.JSONRPC, Version.V1_0),
    "v1.0-rest": Dialect(Binding.REST, Version.V1_0),
    "v1.0-grpc": Dialect(Binding.GRPC, Version.V1_0),
}
FILES = (
    "SendMessage", "SendMessage_direct_message", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
    "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig", "SendStreamingMessage", "SendStreamingMessage_input_required",
    "SendStreamingMessage_message_only",
)  # fmt: skip
decode = msgspec.json.Decoder(float_hook=Decimal).decode


class Case(NamedTuple):
    """One message from one dialect to another."""

    file: str
    ours: str
    theirs: str

    @property
    def loose(self) -> bool:
        """Whether one side is 0.1, where ids that others name are made anew."""
        return "0.1" in self.ours or "0.1" in self.theirs

    def __str__(self) -> str:
        return f"{self.file}: {self.ours} to {self.theirs}"


def vector(file: str) -> dict[str, Any]:
    return dict(json.loads((VECTORS / f"{file}.json").read_text()))


def cases() -> list[Case]:
    """Every request of the vectors, from each dialect that has it to each other that can say it."""
    return list(_cases())


def pairs(*, having: str = "request") -> list[list[Case]]:
    """The cases whose vectors have such a member, in one list for each pair of dialects."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases():
        if having in vector(case.file):
            found.setdefault((case.ours, case.theirs), []).append(case)
    return list(found.values())


def _cases() -> Iterator[Case]:
    for file in FILES:
        content = vector(file)
        said = [name for name in content["request"] if name in DIALECTS]
        for ours in said:
            for theirs in said:
                operation = Operation(file.partition("_")[0])
                if DIALECTS[ours] != DIALECTS[theirs] and can_ask(operation, DIALECTS[theirs]):
                    yield Case(file, ours, theirs)


def call_of(entry: dict[str, Any], dialect: Dialect) -> Call:
    """The call that a client makes with the vector's request."""
    if dialect.binding is Binding.GRPC:
        told = entry["grpc"]
        return grpc.read_call(BY_PATH[told["full_method"]], b64decode(told["message_b64"]))
    http = entry["http"]
    body = b"" if http.get("body") is None else json.dumps(http["body"]).encode()
    query = "&".join(f"{name}={value}" for name, value in http.get("query", {}).items()).encode()
    if dialect.binding is Binding.JSONRPC:
        envelope = jsonrpc.open_envelope(body)
        found = read_rest("POST", (), tenanted=False)
        assert found is not None
        call = jsonrpc.read_call(envelope, found, b"", None)
        return msgspec.structs.replace(call, dialect=dialect)
    path = http["path"]
    parts = segments(path[path.index("/v1/") :].encode() if "/v1/" in path else path.encode())
    found = read_rest(http["method"], parts, tenanted=True)
    assert found is not None
    return rest.read_call(found, body, query, dialect.version)


def hub_params(call: Call) -> dict[str, Any]:
    """Return the parameters of a call in the hub's words."""
    read = {Binding.JSONRPC: jsonrpc.read_params, Binding.REST: rest.read_params, Binding.GRPC: grpc.read_params}
    params = read[call.dialect.binding](call)
    return FORMS[call.dialect].lift_params(call.operation, params, Memo(message_id="made"))


def asked(call: Call) -> Call:
    """The call as the agent reads it."""
    if call.dialect.binding is Binding.JSONRPC:
        return call_of({"http": {"body": json.loads(call.body)}}, call.dialect)
    if call.dialect.binding is Binding.GRPC:
        return grpc.read_call(BY_PATH[call.method], call.body)
    return rest.read_call(call.path, call.body, call.query, call.dialect.version)


def comparable(tree: Any, *, loose: bool) -> Any:
    """Return the part of a tree that must survive translation, without members that some generation has no word for.

    Args:
        loose: Whether one side is 0.1, which makes ids anew, counts where others name, and streams no tasks.
    """
    if isinstance(tree, dict):
        if loose and "task" in tree and "artifacts" not in tree["task"]:
            tree = {"statusUpdate": tree["task"]}
        dropped = _UNSAID + _UNSAID_IN_0_1 if loose else _UNSAID
        found = {name: comparable(value, loose=loose) for name, value in tree.items() if name not in dropped}
        return {name: value for name, value in found.items() if value not in ([], {}, None, "")}
    if isinstance(tree, list):
        return [comparable(each, loose=loose) for each in tree]
    return tree


_UNSAID = ("returnImmediately", "pageSize", "referenceTaskIds")
_UNSAID_IN_0_1 = (
    "messageId", "artifactId", "contextId", "taskId", "id", "extensions", "historyLength", "acceptedOutputModes",
)  # fmt: skip


def answer_of(content: dict[str, Any], name: str) -> bytes | None:
    """The vector's answer, without gRPC's prefix; None where the dialect has none."""
    answers = content["response"]
    entry = answers.get(name) or answers.get(name.removesuffix("-snake"))
    if entry is None:
        return None
    if "grpc" in entry:
        return b64decode(entry["grpc"]["message_b64"])
    body = entry["http"].get("body")
    return None if body is None else json.dumps(body).encode()


def hub_result(call: Call, body: bytes) -> Any:
    """Return the result of an answer in the hub's words."""
    if call.operation is Operation.DELETE_PUSH_CONFIG:
        return {}
    if call.dialect.binding is Binding.GRPC:
        result = grpc.read_answer(call.operation, call.dialect.version, body)
    else:
        tree = decode(body)
        result = tree["result"] if call.dialect.binding is Binding.JSONRPC else tree
    found = FORMS[call.dialect].lift_result(call.operation, result, Memo(message_id="made"))
    if call.operation is Operation.LIST_TASKS:
        # The agents of the vectors list artifacts over gRPC alone.
        for task in found["tasks"]:
            task.pop("artifacts", None)
    return found


def told(call: Call, sent: bytes) -> list[bytes]:
    """The events in what a client was sent, without their framing."""
    if call.dialect.binding is Binding.GRPC:
        return unframe(sent)
    assert sent.endswith(b"\n\n")
    return [block.removeprefix(b"data: ") for block in sent.split(b"\n\n")[:-1]]


def events_of(content: dict[str, Any], name: str) -> list[bytes]:
    """The vector's events, without their framing."""
    name = name.removesuffix("-snake")
    found = [event[name] for event in content["events"] if name in event]
    if name.endswith("grpc"):
        return [b64decode(event["message_b64"]) for event in found]
    return [json.dumps(event["sse_data"]).encode() for event in found]


def hub_event(call: Call, data: bytes) -> Any:
    """Return the result of an event in the hub's words."""
    return FORMS[call.dialect].lift_event(_event(call, data), Memo(message_id="made", context_id="ctx-42"))


def is_final(call: Call, data: bytes) -> bool:
    """Whether an event says that it is the last."""
    event = _event(call, data)
    return bool(event.get("final") or event.get("statusUpdate", {}).get("final"))


def _event(call: Call, data: bytes) -> Any:
    if call.dialect.binding is Binding.GRPC:
        return grpc.read_answer(Operation.SEND_STREAMING_MESSAGE, call.dialect.version, data)
    tree = decode(data)
    return tree["result"] if call.dialect.binding is Binding.JSONRPC else tree
