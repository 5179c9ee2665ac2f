"""Ownership of what messages within an answer name, and the details of errors: what is another's never leaves."""

import json
from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.notification import read
from gateway.a2a.operation import Operation
from gateway.tasks.store import Owner
from tests.ownership.test_answer_shapes import ANCIENT, Outspoken, Spoken, outspoken, task
from tests.ownership.test_task_ownership import MESSAGE
from tests.support.grpc_shared import MESSAGE as PROTO
from tests.support.grpc_shared import Site, every_client, shared
from tests.table import for_each

pytestmark = pytest.mark.anyio

SECRET = "of acme alone"


def said(**members: Any) -> dict[str, Any]:
    return {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": SECRET}], **members}


def working(message: dict[str, Any]) -> dict[str, Any]:
    return {"state": "TASK_STATE_WORKING", "message": message}


FOREIGN: dict[str, Any] = {
    "a task in its history": task("U", history=[said(taskId="U"), said(taskId="T")]),
    "a context in its history": task("U", history=[said(contextId="of-T")]),
    "a reference in its history": task("U", history=[said(taskId="U", referenceTaskIds=["U", "T"])]),
    "as its schema has it": task("U", history=[said(task_id="T")]),
    "beside what is no id": task("U", history=[said(taskId=5), said(taskId="T")]),
    "a task in its status": task("U", status=working(said(taskId="T"))),
    "a reference in its status": task("U", status=working(said(referenceTaskIds=["T"]))),
    "in the status of news": {
        "statusUpdate": {"taskId": "U", "contextId": "of-U", "status": working(said(taskId="T"))}
    },
    "a reference of a message": {"message": said(taskId="U", contextId="of-U", referenceTaskIds=["T"])},
    "a reference of a message, as its schema has it": {
        "message": said(taskId="U", contextId="of-U", referenceTaskIds=["U"], reference_task_ids=["T"])
    },
    "a message as the schema of 0.3 has it": {"msg": said(taskId="T", contextId="of-T")},
    "a status as the schema of 0.3 has it": task("U", status={"state": 2, "update": said(taskId="T")}),
    "behind what is no message": task("U", history=[None, 5, "x", said(taskId="T")]),
    "in a status whose state is none": task("U", status={"state": [], "message": said(taskId="T")}),
    "more than anybody can look at": task("U", history=[said(referenceTaskIds=[f"x{n}" for n in range(1001)])]),
}
OWN: dict[str, Any] = {
    "its own": task("U", history=[said(taskId="U", contextId="of-U", referenceTaskIds=["U"])]),
    "another one of the caller's": task("U", history=[said(taskId="V", contextId="of-V", referenceTaskIds=["V"])]),
    "what nobody has met": task("U", history=[said(taskId="W", contextId="of-W", referenceTaskIds=["X"])]),
    "free words": task("U", history=[said(metadata={"taskId": "T"})]),
}


async def begun(site: Spoken) -> None:
    """T is acme's, V globex's."""
    await site.says(task("T"))
    await site.says(task("V"), "globex")


@for_each("shape", FOREIGN)
async def test_answers_with_anothers_ids_in_messages_are_withheld(shape: str) -> None:
    async with outspoken() as site:
        await begun(site)
        answer = await site.says(FOREIGN[shape], "globex")
        assert answer.json["error"]["code"] == -32006
        streamed = await site.ask("globex", "SendStreamingMessage", "1.0", message=MESSAGE)
        old = await site.ask("globex", "message/stream", "0.3", message=ANCIENT)
        for told in (answer, streamed, old):
            assert SECRET.encode() not in told.body
            assert b"error" in told.body
        # Nobody owns by it what it was of.
        assert not await site.finds("globex", "U")


@for_each("shape", OWN)
async def test_ids_of_the_caller_and_unknown_ids_pass(shape: str) -> None:
    async with outspoken() as site:
        await begun(site)
        site.agent.has("U")
        answer = await site.says(OWN[shape], "globex")
        assert answer.json["result"] == OWN[shape]
        streamed = await site.ask("globex", "SendStreamingMessage", "1.0", message=MESSAGE)
        assert SECRET.encode() in streamed.body
        assert await site.finds("globex", "U")
        assert not await site.finds("acme", "U")


async def test_listed_tasks_with_anothers_ids_in_their_history_are_withheld() -> None:
    async with outspoken() as site:
        await begun(site)
        site.agent.has("V")
        await site.says(task("U"), "globex")
        site.agent.tasks["U"] = FOREIGN["a task in its history"]["task"]
        listed = await site.ask("globex", "ListTasks", "1.0")
        assert [each["id"] for each in listed.json["result"]["tasks"]] == ["V"]
        assert SECRET.encode() not in listed.body
        site.agent.tasks["U"] = OWN["its own"]["task"]
        listed = await site.ask("globex", "ListTasks", "1.0")
        assert {each["id"] for each in listed.json["result"]["tasks"]} == {"U", "V"}


# ---- Errors ----------------------------------------------------------------------------------------------------------


class Failing(Outspoken):
    """Answers GetTask with an error."""

    error: Any = None

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] == "GetTask" and self.error is not None:
            return {"jsonrpc": "2.0", "id": call["id"], "error": self.error}
        return super()._answer(call)


@pytest.mark.parametrize(
    ("names", "passes"), [("T", False), ("V", True), ("W", True)], ids=["another's", "its own", "nobody's"]
)
@pytest.mark.parametrize(
    "where", ["details", "data of 0.3", "deep in the data", "a task as the data", "beside the message"]
)
async def test_errors_with_anothers_ids_in_details_are_withheld(names: str, where: str, *, passes: bool) -> None:
    agent = Failing()
    async with outspoken(agent=agent) as site:
        await begun(site)
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "d"}
        told: dict[str, dict[str, Any]] = {
            "details": {"data": [{**info, "metadata": {"taskId": names}}]},
            "data of 0.3": {"data": {"taskId": names}},
            "deep in the data": {"data": {"cause": [{"request": {"task_id": names}}]}},
            "a task as the data": {"data": task(names)},
            "beside the message": {"data": [], "context": {"taskId": names}},
        }
        agent.error = {"code": -32001, "message": SECRET, **told[where]}
        answer = await site.ask("globex", "GetTask", "1.0", id="V")
        assert (answer.json["error"]["code"] == -32001) is passes
        assert (SECRET.encode() in answer.body) is passes


@pytest.mark.parametrize("names", ["T", "V"])
async def test_errors_to_list_requests_with_anothers_ids_are_withheld(names: str) -> None:
    class Unlisted(Outspoken):
        def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
            if call["method"] == "ListTasks":
                data = {"taskId": names}
                return {"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32603, "message": SECRET, "data": data}}
            return super()._answer(call)

    async with outspoken(agent=Unlisted()) as site:
        await begun(site)
        answer = await site.ask("globex", "ListTasks", "1.0")
        assert (SECRET.encode() in answer.body) is (names == "V")


# ---- gRPC ------------------------------------------------------------------------------------------------------------


def proto(**members: Any) -> Any:
    return new.Message(message_id="x", role="ROLE_AGENT", parts=[new.Part(text=SECRET)], **members)


NAMES: tuple[dict[str, Any], ...] = ({"task_id": "T"}, {"context_id": "of-T"}, {"reference_task_ids": ["T"]})


@every_client
@pytest.mark.parametrize("where", ["history", "status", "news", "message"])
async def test_messages_over_grpc_with_anothers_ids_are_withheld(client: str, where: str) -> None:
    async with shared() as site:
        await site.begins("acme", "T")
        for names in NAMES:
            await withheld(site, client, names, where)


async def withheld(site: Site, client: str, names: dict[str, Any], where: str) -> None:
    ask, message = getattr(site, client), proto(**names)
    status = {"state": 2, "message": message} if where in ("status", "news") else {"state": 2}
    made = new.Task(id="U", context_id="of-U", status=status, history=[message] if where == "history" else [])
    news = new.TaskStatusUpdateEvent(task_id="U", context_id="of-U", status=status)
    site.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(task=made)
    site.says[Operation.SEND_STREAMING_MESSAGE] = new.StreamResponse(status_update=news)
    operation = Operation.SEND_STREAMING_MESSAGE if where == "news" else Operation.SEND_MESSAGE
    if where == "message":
        site.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(message=message)
    answered, told = await ask("globex", operation, message=PROTO)
    assert not answered
    assert SECRET not in told
    answered, told = await ask("acme", operation, message=PROTO)
    assert answered, told
    assert SECRET in told


# ---- Notifications ---------------------------------------------------------------------------------------------------


async def test_notifications_with_anothers_ids_in_messages_are_withheld() -> None:
    async with outspoken() as site:
        await begun(site)
        isolation = site.gateway.gateway.snapshot.backends["crm"].isolation
        assert isolation is not None
        for shape, taken in (("its own", True), ("a task in its history", False)):
            frame = (OWN if taken else FOREIGN)[shape]
            told = read(json.dumps(frame).encode())
            assert told is not None
            assert await isolation.observe_notification(Owner("globex", "/globex"), told) is taken
