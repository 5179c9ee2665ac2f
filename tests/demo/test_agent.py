"""An agent answers the operations of A2A over one generator that does the work."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from gateway.background import Background
from gateway.demo.agent import KEPT, Agent, Profile, Refused, Work
from gateway.demo.task import Answer, Status, Step, Task, Tree

pytestmark = pytest.mark.anyio


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    background = Background()
    yield background
    await background.aclose()


def agent(background: Background, work: Work) -> Agent:
    return Agent(Profile("A", "An agent.", "a", ("x",), "y"), work, background)


async def complete(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
    yield Status("completed")


def saying(text: str = "x", **more: object) -> Tree:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


async def test_a_message_is_needed(background: Background) -> None:
    bad: list[Tree] = [
        {},
        {"message": "x"},
        {"message": {"parts": [{"text": "x"}]}},
        {"message": {"messageId": "m", "parts": []}},
        {"message": {"messageId": "m", "parts": ["x"]}},
        {"message": {"messageId": "m"}},
    ]
    for params in bad:
        with pytest.raises(Refused) as refusal:
            await agent(background, complete).call("SendMessage", params)
        assert refusal.value.reason == "INVALID_PARAMS"


async def test_work_that_fails_is_an_internal_error_and_is_not_started_again(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    started = []

    async def fail(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
        started.append(1)
        raise ValueError
        yield Answer("never")

    with caplog.at_level(logging.CRITICAL), pytest.raises(Refused) as refusal:
        await agent(background, fail).call("SendMessage", saying())
    assert refusal.value.reason == "INTERNAL_ERROR"
    assert started == [1]


async def test_work_without_a_step_is_an_internal_error(background: Background) -> None:
    async def nothing(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
        steps: tuple[Step, ...] = ()
        for step in steps:
            yield step

    with pytest.raises(Refused) as refusal:
        await agent(background, nothing).call("SendMessage", saying())
    assert refusal.value.reason == "INTERNAL_ERROR"
    with pytest.raises(Refused):
        await anext(agent(background, nothing).stream("SendStreamingMessage", saying()))


async def test_a_plain_answer_leaves_no_task_behind(background: Background) -> None:
    async def say(_task: Task, text: str) -> AsyncGenerator[Step, None]:
        yield Answer(text)

    echo = agent(background, say)
    answer = await echo.call("SendMessage", saying("hi", contextId="c"))
    assert answer["message"]["parts"] == [{"text": "hi"}]
    assert answer["message"]["contextId"] == "c"
    assert (await echo.call("ListTasks", {}))["tasks"] == []


async def test_a_follow_up_must_fit_its_task(background: Background) -> None:
    async def ask(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
        yield Status("input-required")

    asking = agent(background, ask)
    task = (await asking.call("SendMessage", saying()))["task"]
    with pytest.raises(Refused) as refusal:
        await asking.call("SendMessage", saying(taskId=task["id"], contextId="another"))
    assert refusal.value.reason == "INVALID_PARAMS"
    again = await asking.call("SendMessage", saying(taskId=task["id"], contextId=task["contextId"]))
    assert again["task"]["id"] == task["id"]


async def test_only_so_many_tasks_are_remembered(background: Background) -> None:
    busy = agent(background, complete)
    first = (await busy.call("SendMessage", saying()))["task"]["id"]
    for _ in range(KEPT):
        await busy.call("SendMessage", saying())
    with pytest.raises(Refused):
        await busy.call("GetTask", {"id": first})
    assert (await busy.call("ListTasks", {}))["totalSize"] == KEPT


@pytest.mark.parametrize(
    "params", [{"pageSize": 101}, {"pageSize": -1}, {"pageSize": "x"}, {"pageToken": "x"}, {"historyLength": True}]
)
async def test_a_list_with_odd_bounds_is_refused(background: Background, params: Tree) -> None:
    with pytest.raises(Refused) as refusal:
        await agent(background, complete).call("ListTasks", params)
    assert refusal.value.reason == "INVALID_PARAMS"


async def test_the_card_is_readable_for_1_0_and_0_3(background: Background) -> None:
    card = agent(background, complete).card("http://127.0.0.1:1/a")
    assert [each["protocolVersion"] for each in card["supportedInterfaces"]] == ["1.0", "1.0", "0.3"]
    assert {each["url"] for each in card["supportedInterfaces"]} == {"http://127.0.0.1:1/a"} == {card["url"]}
