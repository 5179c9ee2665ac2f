"""A driver of the client of a2a-cli 0.2, which speaks A2A 0.1. It finds no card by itself: that is read as it is."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
from a2a_cli.a2a_client import A2AClient
from a2a_json_rpc.spec import (
    DataPart,
    FileContent,
    FilePart,
    Message,
    PushNotificationConfig,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskSendParams,
    TextPart,
)
from driving import HOOK, NOTHING, Absent, Asked, Driver, Item, Said, drive, encoded, uuid
from pydantic import BaseModel


class Failed(Exception):  # noqa: N818 - what happened
    """An event of a stream is an error; the SDK hands it out as any other event."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class Sdk(Driver):
    """The SDK's client; whoever sends names the task."""

    spelling = "0.1"

    async def open(self, asked: Asked) -> Item:
        self._url = asked.url
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(asked.url.rstrip("/") + "/" + (asked.card_path or ".well-known/agent.json"))
        return self.item("card", answer.raise_for_status().json())

    async def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        params = TaskSendParams(
            id=said.task or f"t-{uuid.uuid4()}",
            session_id=said.context or f"s-{uuid.uuid4()}",
            message=Message(role="user", parts=parts, metadata={"sent": "by the client"}),
            history_length=said.history,
            push_notification=PushNotificationConfig(url=HOOK["url"], token=HOOK["token"]) if said.hook else None,
        )
        if how == "streaming":
            async for event in self._events(A2AClient.over_sse(self._url).send_subscribe(params)):
                yield event
        else:
            yield self._told("task", await self._client().send_task(params))

    async def get(self, task: str, history: int | None = None) -> Item:
        return self._told("task", await self._client().get_task(TaskQueryParams(id=task, history_length=history)))

    async def cancel(self, task: str) -> Item:
        # The SDK keeps the answer to itself.
        await self._client().cancel_task(TaskIdParams(id=task))
        return await self.get(task)

    async def subscribe(self, task: str) -> AsyncIterator[Item]:
        async for event in self._events(A2AClient.over_sse(self._url).resubscribe(TaskQueryParams(id=task))):
            yield event

    async def push_set(self, task: str) -> Item:
        config = PushNotificationConfig(url=HOOK["url"], token=HOOK["token"])
        wanted = TaskPushNotificationConfig(id=task, push_notification_config=config)
        return self._told("push", await self._client().set_push_notification(wanted))

    async def push_get(self, task: str) -> Item:
        return self._told("push", await self._client().get_push_notification(TaskIdParams(id=task)))

    async def push_list(self, task: str) -> Item:
        raise Absent("there is none in this generation")

    async def push_delete(self, task: str) -> Item:
        raise Absent("there is none in this generation")

    async def extended(self) -> Item:
        raise Absent("there is none in this generation")

    def text(self, text: str) -> TextPart:
        return TextPart(type="text", text=text)

    def data(self, data: dict[str, Any]) -> DataPart:
        return DataPart(type="data", data=data)

    def file(self, raw: bytes, name: str, media_type: str) -> FilePart:
        return FilePart(type="file", file=FileContent(bytes=encoded(raw), name=name, mime_type=media_type))

    def failure(self, error: BaseException) -> dict[str, Any]:
        status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None
        return {"code": error.error.get("code") if isinstance(error, Failed) else None, "status": status}

    async def close(self) -> None:
        pass

    def _client(self) -> A2AClient:
        """A new one for each call: the agent hangs up after some of its answers, and the client does not see it."""
        return A2AClient.over_http(self._url)

    async def _events(self, events: AsyncIterator[Any]) -> AsyncIterator[Item]:
        async for event in events:
            if "error" in event:
                raise Failed(event["error"])
            told = event["result"]
            yield self.item("artifact" if "artifact" in told else "status", told)

    def _told(self, kind: str, model: BaseModel) -> Item:
        return self.item(kind, model.model_dump(mode="json", by_alias=True, exclude_none=True))


if __name__ == "__main__":
    drive(Sdk())
