"""The workload over gRPC: the calls, answers and events of `benchmarks.edge`, as messages of A2A 1.0."""

import json
from typing import TypeVar

from a2a.types import a2a_pb2
from google.protobuf.json_format import (  # type: ignore[import-untyped]  # protobuf ships no types
    MessageToDict,
    ParseDict,
)
from google.protobuf.message import Message  # type: ignore[import-untyped]  # as above

from benchmarks.edge import workload
from benchmarks.edge.workload import CONTEXT, TASK, TENANT, Workload

SERVICE = "lf.a2a.v1.A2AService"
SEND = f"/{SERVICE}/SendMessage"
STREAM = f"/{SERVICE}/SendStreamingMessage"

TRANSLATED = "sales"
"""The A2A `tenant` field of calls to the agent that speaks JSON-RPC; `TENANT` is that of the one that speaks gRPC."""

_Of = TypeVar("_Of", bound=Message)


def metadata(made: Workload) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call."""
    return ("authorization", f"Bearer {made.token}"), ("a2a-version", "1.0")


def call(tenant: str = TENANT) -> bytes:
    """A request; its JSON has 2 KB."""
    return _encoded(json.loads(workload.call(tenant))["params"], a2a_pb2.SendMessageRequest())


def answer() -> bytes:
    """The response to it, a task that is completed; its JSON has 1 KB."""
    return _encoded(json.loads(workload.answer())["result"], a2a_pb2.SendMessageResponse())


def is_answer(message: bytes) -> bool:
    """Whether it says the same as `answer`, however it is encoded."""
    expected = a2a_pb2.SendMessageResponse.FromString(answer())
    return bool(a2a_pb2.SendMessageResponse.FromString(message) == expected)


def is_json_answer(body: bytes) -> bool:
    """Whether it is the JSON-RPC response that says the same as `answer`."""
    expected = MessageToDict(a2a_pb2.SendMessageResponse.FromString(answer()))
    return bool(json.loads(body) == {"jsonrpc": "2.0", "id": "call-1", "result": expected})


def events(count: int) -> list[bytes]:
    """A stream: its task, pieces of what a model says, and its end; with `count` 0 the task alone."""
    task = {"id": TASK, "contextId": CONTEXT}
    first: dict[str, object] = {"task": {**task, "status": {"state": "TASK_STATE_WORKING"}}}
    told = {"taskId": TASK, "contextId": CONTEXT}
    pieces: list[dict[str, object]] = [
        {"artifactUpdate": {**told, "artifact": _piece(number), "append": True}} for number in range(1, count - 1)
    ]
    last: dict[str, object] = {"statusUpdate": {**told, "status": {"state": "TASK_STATE_COMPLETED"}}}
    trees = [first, *pieces, last] if count else [first]
    return [_encoded(tree, a2a_pb2.StreamResponse()) for tree in trees]


def _piece(number: int) -> dict[str, object]:
    return {"artifactId": "a-1", "parts": [{"text": f"word {number} of what a model says "}]}


def _encoded(tree: dict[str, object], message: _Of) -> bytes:
    encoded: bytes = ParseDict(tree, message).SerializeToString()
    return encoded
