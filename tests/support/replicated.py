"""A gateway in this process, in front of one agent with several scripted replicas."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.support.gateway import CALL, Running, agent, running
from tests.support.scripted import Script, ScriptedBackend, Wire, whole


def task(id: str, context: str = "c", state: str = "TASK_STATE_COMPLETED") -> bytes:  # noqa: A002 - the word
    return json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"task": {"id": id, "contextId": context, "status": {"state": state}}},
        }
    ).encode()


def get(id: str, context: str = "c") -> bytes:  # noqa: A002 - the word
    """The answer to GetTask."""
    tree = {"id": id, "contextId": context, "status": {"state": "TASK_STATE_COMPLETED"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": tree}).encode()


def asks(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def sends(context: str | None = None, task: str | None = None) -> bytes:
    message: dict[str, object] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    message |= {} if context is None else {"contextId": context}
    message |= {} if task is None else {"taskId": task}
    return asks("SendMessage", message=message)


def named(name: str) -> Script:
    """An agent that makes tasks `<name>-1`, `<name>-2` and so on, and knows those alone."""
    made = 0

    async def play(wire: Wire) -> None:
        nonlocal made
        while True:
            request = await wire.request()
            call = json.loads(request.body)
            params = call["params"]
            if call["method"] == "SendMessage":
                made += 1
                context = params["message"].get("contextId", f"{name}-context")
                answer = task(params["message"].get("taskId", f"{name}-{made}"), context)
            elif params["id"].startswith(name):
                answer = get(params["id"])
            else:
                error = {"code": -32001, "message": "Task not found"}
                answer = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
            await wire.send(whole(answer))

    return agent(play)


@asynccontextmanager
async def replicated(
    *scripts: Script, more: str = "", auth: str = "", lines: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Running, list[ScriptedBackend]]]:
    """A gateway in front of one agent, at /echo, with a replica for each script, called a, b and so on."""
    async with AsyncExitStack() as stack:
        backends = [await stack.enter_async_context(ScriptedBackend(each)) for each in scripts]
        replicas = "".join(
            f"      - {{ url: {each.url}, label: {name}{extra} }}\n"
            for each, name, extra in zip(backends, "abcdefgh", [*lines, *[""] * 8], strict=False)
        )
        text = f"{auth}agents:\n  echo:\n    backend:\n{replicas}{more}"
        yield await stack.enter_async_context(running(text, settled=False)), backends


def count(backend: ScriptedBackend) -> int:
    return len(backend.requests)


async def sent(gateway: Running, body: bytes = CALL, **more: Any) -> Any:
    return (await gateway.post("/echo", body, **more)).json
