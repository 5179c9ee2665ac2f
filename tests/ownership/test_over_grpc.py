"""Ownership of what an agent names over gRPC: in messages and in push configurations, as in JSON."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.operation import Operation
from tests.support.grpc_shared import MESSAGE, every_client, shared

pytestmark = pytest.mark.anyio

HOOK = "https://example.com/hook"


@every_client
async def test_a_task_that_a_message_names_is_its_receivers(client: str) -> None:
    async with shared() as site:
        message = new.Message(message_id="x", role="ROLE_AGENT", task_id="T", parts=[new.Part(text="hi")])
        site.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(message=message)
        site.says[Operation.GET_TASK] = new.Task(id="T", status={"state": 3})
        assert (await getattr(site, client)("acme", Operation.SEND_MESSAGE, message=MESSAGE))[0]
        assert (await getattr(site, client)("acme", Operation.GET_TASK, id="T"))[0]
        assert not (await getattr(site, client)("globex", Operation.GET_TASK, id="T"))[0]


def hook(task: str) -> Any:
    return new.TaskPushNotificationConfig(task_id=task, id="c", url=HOOK)


@every_client
@pytest.mark.parametrize("tasks", [("T",), ("U", "T"), ()], ids=["one", "listed", "alone"])
async def test_webhooks_of_anothers_task_are_withheld(client: str, tasks: tuple[str, ...]) -> None:
    async with shared() as site:
        await site.begins("acme", "T")
        await site.begins("globex", "U")
        site.says[Operation.GET_PUSH_CONFIG] = hook("T")
        site.says[Operation.LIST_PUSH_CONFIGS] = new.ListTaskPushNotificationConfigsResponse(
            configs=[hook(task) for task in tasks]
        )
        ask = getattr(site, client)
        if tasks:
            answered, said = await ask("globex", Operation.LIST_PUSH_CONFIGS, task_id="U")
        else:
            answered, said = await ask("globex", Operation.GET_PUSH_CONFIG, task_id="U", id="c")
        assert not answered
        assert HOOK not in said
        assert (await ask("acme", Operation.GET_PUSH_CONFIG, task_id="T", id="c"))[0]
