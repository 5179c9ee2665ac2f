"""A client of one dialect, the gateway, and a scripted agent of another."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.sdk import open_http
from tests.support.gateway import Scripted, scripted
from tests.support.kept import shared
from tests.support.scripted import Received, Script, Wire, chunk, head

STATUS_1_0 = {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}
TASK_1_0 = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
TASK_0_3 = {"id": "t-1", "contextId": "c-1", "kind": "task", "status": {"state": "completed"}}
MESSAGE_1_0 = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
MESSAGE_0_3 = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
MESSAGE_0_1 = {"role": "user", "parts": [{"type": "text", "text": "Hello"}]}

Answer = Callable[[Received], bytes]


def plays(*turns: Answer) -> Script:
    """Answers request after request with what each turn makes of it; the last one is kept for all that follow."""

    async def script(wire: Wire) -> None:
        turn = 0
        while True:
            request = await wire.request()
            await wire.send(turns[min(turn, len(turns) - 1)](request))
            turn += 1

    return script


def document(body: Any, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    written = b"" if body is None else json.dumps(body).encode()
    return head(b"content-length: %d" % len(written), status=status, content_type=kind) + written


def result(tree: Any) -> Answer:
    return lambda request: document({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": tree})


def complaint(code: int, message: str = "no", data: Any = None, *, named: bool = True) -> Answer:
    def answer(request: Received) -> bytes:
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        identity = {"id": json.loads(request.body)["id"]} if named else {}
        return document({"jsonrpc": "2.0", **identity, "error": error})

    return answer


def plain(body: Any, status: bytes = b"200 OK") -> Answer:
    return lambda _: document(body, status)


def stream(*events: bytes, whole: bool = True) -> bytes:
    opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
    return opening + b"".join(chunk(event) for event in events) + (chunk(b"") if whole else b"")


def rpc_event(request: Received, tree: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": tree}).encode()
        + b"\n\n"
    )


@asynccontextmanager
async def agent(
    script: Script, folder: Path, speaks: str, **settings: Any
) -> AsyncIterator[tuple[Scripted, httpx.AsyncClient]]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Scripted, httpx.AsyncClient]]:
        binding, _, version = speaks.partition(" ")
        async with scripted(script, folder, speaks=(binding, version), **settings) as gateway, open_http() as client:
            yield gateway, client

    async with shared(("agent", speaks, repr(sorted(settings.items()))), opened) as ((gateway, client), used):
        if used:
            await gateway.backend.plays(script)
        yield gateway, client


async def call(
    client: httpx.AsyncClient, gateway: Scripted, method: str, params: Any, identity: Any = 7
) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    answer = await client.post(gateway.url, json=body)
    assert answer.status_code == 200, answer.text
    found = dict(answer.json())
    assert found["id"] == identity
    return found


def events(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n") if line.startswith(b"data: ")]
