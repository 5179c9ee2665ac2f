"""The client of 0.1 believes nothing that is not 0.1 by the letter."""

import json
from typing import Any

import httpx
import pytest

from tests.doubles.ancient import NotAncient, Tree
from tests.doubles.ancient_client import AncientClient

pytestmark = pytest.mark.anyio

DONE: Tree = {"id": "t", "status": {"state": "completed"}}
EVENT: Tree = {"id": "t", "status": {"state": "completed"}, "final": True}
PART: Tree = {"type": "text", "text": "hi"}


def client(answer: httpx.Response) -> AncientClient:
    return AncientClient(httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer)), "http://agent/")


def whole(**members: Any) -> httpx.Response:
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, **members})


def streamed(*results: Tree) -> httpx.Response:
    frames = ({"jsonrpc": "2.0", "id": 1, "result": result} for result in results)
    text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"task": DONE},
        {**DONE, "kind": "task"},
        {**DONE, "contextId": "c"},
        {**DONE, "id": "another"},
        {**DONE, "status": {"state": "TASK_STATE_COMPLETED"}},
        {**DONE, "status": {"state": "rejected"}},
        {**DONE, "status": {"state": "completed", "message": None}},
        {**DONE, "status": {"state": "completed", "timestamp": "now"}},
        {**DONE, "artifacts": [{"artifactId": "a", "parts": [PART]}]},
        {**DONE, "artifacts": [{"parts": [{"kind": "text", "text": "hi"}]}]},
        {**DONE, "history": [{"role": "user", "parts": [PART]}]},
        {"id": "t", "role": "agent", "parts": [PART]},
    ],
)
async def test_a_task_that_is_not_0_1_is_not(result: Tree | None) -> None:
    with pytest.raises(NotAncient):
        await client(whole(result=result)).get("t")


@pytest.mark.parametrize(
    "members",
    [
        {"id": 2, "result": DONE},
        {"jsonrpc": "1.0", "result": DONE},
        {},
        {"result": DONE, "error": {"code": 1, "message": "m"}},
        {"error": {"code": "1", "message": "m"}},
        {"result": DONE, "more": 1},
    ],
)
async def test_an_envelope_that_is_none_is_not_believed(members: Tree) -> None:
    with pytest.raises(NotAncient):
        await client(whole(**members)).get("t")


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{**EVENT, "final": False}],
        [EVENT, EVENT],
        [DONE, EVENT][:1],
        [{**EVENT, "kind": "status-update"}],
        [{"statusUpdate": EVENT}],
        [{**EVENT, "id": "another"}],
        [{"id": "t", "artifact": {"parts": []}, "append": False}, EVENT],
    ],
)
async def test_a_stream_that_is_not_0_1_is_not(results: list[Tree]) -> None:
    with pytest.raises(NotAncient):
        [event async for event in client(streamed(*results)).resubscribe("t")]
