"""The form with an agent of 0.1 on the wire, tidy or not."""

from typing import Any

import httpx
import msgspec
import pytest

from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_1 import FORM
from gateway.a2a.versions.version import Memo
from tests.doubles.ancient import Tree
from tests.doubles.ancient_agent import AncientAgent, ancient_agent

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("untidy", [False, True])]

METHODS = {
    Operation.SEND_MESSAGE: "tasks/send",
    Operation.SEND_STREAMING_MESSAGE: "tasks/sendSubscribe",
    Operation.GET_TASK: "tasks/get",
    Operation.CANCEL_TASK: "tasks/cancel",
    Operation.CREATE_PUSH_CONFIG: "tasks/pushNotification/set",
    Operation.GET_PUSH_CONFIG: "tasks/pushNotification/get",
}


async def ask(agent: AncientAgent, operation: Operation, params: Tree, memo: Memo) -> Any:
    """What an agent answers to the hub: a result, or the events of a stream."""
    frame = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": METHODS[operation],
        "params": FORM.lower_params(operation, params, memo),
    }
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        answer = await http.post(agent.url, json=frame)
    if operation.streams:
        blocks = (block.removeprefix("data: ") for block in answer.text.split("\n\n") if block)
        return [FORM.lift_event(msgspec.json.decode(block)["result"], memo) for block in blocks]
    return FORM.lift_result(operation, answer.json()["result"], memo)


def say(text: str, **more: Any) -> Tree:
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


async def test_a_message_comes_back_in_the_history_under_its_own_id(untidy: bool) -> None:  # noqa: FBT001 - drawn by pytest
    async with ancient_agent(untidy=untidy) as agent:
        answer = await ask(agent, Operation.SEND_MESSAGE, say("ask", extensions=["https://e"]), Memo(new_id="t-1"))
        task = answer["task"]
        assert (task["id"], task["contextId"], task["status"]["state"]) == ("t-1", "t-1", "TASK_STATE_INPUT_REQUIRED")
        assert task["history"] == [
            {**say("ask", extensions=["https://e"])["message"], "taskId": "t-1", "contextId": "t-1"}
        ]
        assert task["status"]["timestamp"].endswith("Z")
        asked = task["status"]["message"]["messageId"]
        answer = await ask(agent, Operation.SEND_MESSAGE, say("red", taskId="t-1"), Memo(new_id="t-2"))
        assert answer["task"]["history"][1]["messageId"] == asked


async def test_a_stream_tells_of_the_task_and_context_that_were_sent(untidy: bool) -> None:  # noqa: FBT001 - drawn by pytest
    async with ancient_agent(untidy=untidy) as agent:
        memo = Memo(new_id="t-1")
        events = await ask(agent, Operation.SEND_STREAMING_MESSAGE, say("count", contextId="c-1"), memo)
        updates = [update for event in events for update in event.values()]
        assert {(update["taskId"], update["contextId"]) for update in updates} == {("t-1", "c-1")}
        assert [name for event in events for name in event] == ["statusUpdate", *["artifactUpdate"] * 3, "statusUpdate"]
        assert [update.get("append", False) for update in updates if "artifact" in update] == [False, True, True]
        task = await ask(agent, Operation.GET_TASK, {"id": "t-1"}, Memo())
        assert task["contextId"] == "c-1"
        assert task["artifacts"][0]["artifactId"] == updates[1]["artifact"]["artifactId"]


async def test_a_task_is_cancelled_and_has_a_push_configuration(untidy: bool) -> None:  # noqa: FBT001 - drawn by pytest
    async with ancient_agent(untidy=untidy) as agent:
        await ask(agent, Operation.SEND_MESSAGE, say("wait"), Memo(new_id="t-1"))
        hook = {"id": "p-1", "taskId": "t-1", "url": "https://h/", "authentication": {"scheme": "Bearer"}}
        kept = {**hook, "id": "t-1", "authentication": {"scheme": "Bearer"}}
        assert await ask(agent, Operation.CREATE_PUSH_CONFIG, hook, Memo()) == kept
        assert await ask(agent, Operation.GET_PUSH_CONFIG, {"taskId": "t-1", "id": "p-1"}, Memo()) == kept
        canceled = await ask(agent, Operation.CANCEL_TASK, {"id": "t-1", "metadata": {"why": "late"}}, Memo())
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
