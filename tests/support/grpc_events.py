"""Messages that agents stream over gRPC, and the events that clients of JSON get."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from tests.support.gateway import Client, Running
from tests.support.grpc_agent import Asked
from tests.support.grpc_bytes import text_field
from tests.support.streaming import V1, opened

FUTURE = text_field(1000, "from a later generation")
"""A field that nobody here knows."""

# ---- Agents ----------------------------------------------------------------------------------------------------------


def status(state: str = "TASK_STATE_WORKING", **metadata: Any) -> bytes:
    """An event of 1.0 that tells the state of the task `t`."""
    update = new.TaskStatusUpdateEvent(task_id="t", context_id="c", status=new.TaskStatus(state=state))
    if metadata:
        update.metadata.update(metadata)
    return bytes(new.StreamResponse(status_update=update).SerializeToString())


def status_0_3(state: str = "TASK_STATE_WORKING", *, final: bool = False) -> bytes:
    """The same of 0.3."""
    update = old.TaskStatusUpdateEvent(task_id="t", context_id="c", status=old.TaskStatus(state=state), final=final)
    return bytes(old.StreamResponse(status_update=update).SerializeToString())


def artifact(size: int = 1) -> bytes:
    """An event of 1.0 with so many letters in it."""
    update = new.TaskArtifactUpdateEvent(task_id="t", context_id="c")
    update.artifact.artifact_id = "a"
    update.artifact.parts.add(text="x" * size)
    return bytes(new.StreamResponse(artifact_update=update).SerializeToString())


class Held:
    """An agent that says a message when the test says so, and ends at None."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, asked: Asked) -> None:
        while (message := await self._messages.get()) is not None:
            await asked.write(message)

    def say(self, *messages: bytes | None) -> None:
        for message in messages:
            self._messages.put_nowait(message)


# ---- Clients ---------------------------------------------------------------------------------------------------------

_MESSAGE_1_0 = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
_MESSAGE_0_3 = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
_MESSAGE_PROTO = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}


def _call(method: str, message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "a", "method": method, "params": {"message": message}}).encode()


JSON: dict[str, Callable[[Running], Awaitable[Client]]] = {
    "jsonrpc 1.0": lambda gateway: opened(gateway, "/echo", _call("SendStreamingMessage", _MESSAGE_1_0), V1),
    "jsonrpc 0.3": lambda gateway: opened(
        gateway, "/echo", _call("message/stream", _MESSAGE_0_3), (b"Accept", b"text/event-stream")
    ),
    "rest 1.0": lambda gateway: opened(
        gateway, "/echo/message:stream", json.dumps({"message": _MESSAGE_1_0}).encode(), V1
    ),
    "rest 0.3": lambda gateway: opened(
        gateway, "/echo/v1/message:stream", json.dumps({"message": _MESSAGE_PROTO}).encode()
    ),
}
"""Clients of every dialect that send a message and wait for events, by name."""


async def hearing(gateway: Running, name: str) -> Client:
    """A client whose stream has begun."""
    client = await JSON[name](gateway)
    status, headers = await client.head()
    assert (status, dict(headers)["content-type"]) == (200, "text/event-stream")
    assert dict(headers)["x-accel-buffering"] == "no"
    return client


def heard(event: bytes) -> Any:
    """Return the content of an event, without JSON-RPC's envelope."""
    assert event.endswith(b"\n\n")
    tree = json.loads(event.strip().rpartition(b"data: ")[2])
    return tree.get("result", tree)


def state_of(event: bytes) -> str:
    """The state of the task that an event tells of, in the words of 0.3."""
    tree = heard(event)
    update = tree.get("statusUpdate", tree)
    return str(update["status"]["state"]).removeprefix("TASK_STATE_").lower()
