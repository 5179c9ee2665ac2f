"""A driver of the last a2a-sdk 0.3."""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)
from driving import HOOK, NOTHING, Absent, Asked, Driver, Item, Said, drive, encoded, uuid
from keyed import channel
from pydantic import BaseModel

KINDS = {"task": "task", "message": "message", "status-update": "status", "artifact-update": "artifact"}


class Sdk(Driver):
    """The SDK's client."""

    spelling = "0.3"

    async def open(self, asked: Asked) -> Item:
        self._http = httpx.AsyncClient(trust_env=False, timeout=20, headers=asked.headers)
        resolver = A2ACardResolver(self._http, asked.url, *([asked.card_path] if asked.card_path else []))
        card = await resolver.get_agent_card()
        config = {
            "httpx_client": self._http,
            "supported_transports": [asked.binding],
            "use_client_preference": True,
            "grpc_channel_factory": lambda address: channel(address, asked.key),
        }
        self._clients: dict[str, Client] = {
            "streaming": ClientFactory(ClientConfig(**config)).create(card),
            "unary": ClientFactory(ClientConfig(**config, streaming=False)).create(card),
            "polling": ClientFactory(ClientConfig(**config, streaming=False, polling=True)).create(card),
        }
        return self._told("card", card)

    async def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        message = Message(
            role=Role.user,
            message_id=f"m-{uuid.uuid4()}",
            parts=parts,
            task_id=said.task or None,
            context_id=said.context or None,
            metadata={"sent": "by the client"},
        )
        more = {}
        if said.hook or said.history is not None:
            more["configuration"] = MessageSendConfiguration(
                accepted_output_modes=[],
                blocking=True,
                history_length=said.history,
                push_notification_config=PushNotificationConfig(**HOOK) if said.hook else None,
            )
        async for event in self._clients[how].send_message(message, **more):
            yield self._event(event)

    async def get(self, task: str, history: int | None = None) -> Item:
        return self._told("task", await self._unary.get_task(TaskQueryParams(id=task, history_length=history)))

    async def cancel(self, task: str) -> Item:
        return self._told("task", await self._unary.cancel_task(TaskIdParams(id=task)))

    async def subscribe(self, task: str) -> AsyncIterator[Item]:
        async for event in self._clients["streaming"].resubscribe(TaskIdParams(id=task)):
            yield self._event(event)

    async def push_set(self, task: str) -> Item:
        wanted = TaskPushNotificationConfig(task_id=task, push_notification_config=PushNotificationConfig(**HOOK))
        return self._told("push", await self._unary.set_task_callback(wanted))

    async def push_get(self, task: str) -> Item:
        wanted = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id=HOOK["id"])
        return self._told("push", await self._unary.get_task_callback(wanted))

    async def push_list(self, task: str) -> Item:
        raise Absent("the SDK's client has no such call")

    async def push_delete(self, task: str) -> Item:
        raise Absent("the SDK's client has no such call")

    async def extended(self) -> Item:
        return self._told("card", await self._unary.get_card())

    def text(self, text: str) -> Part:
        return Part(root=TextPart(text=text))

    def data(self, data: dict[str, Any]) -> Part:
        return Part(root=DataPart(data=data))

    def file(self, raw: bytes, name: str, media_type: str) -> Part:
        return Part(root=FilePart(file=FileWithBytes(bytes=encoded(raw), name=name, mime_type=media_type)))

    def failure(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, grpc.aio.AioRpcError):
            # The SDK leaves it at what gRPC raises; its own servers say the class in the text.
            named, _, _ = (error.details() or "").partition(": ")
            return {"code": None, "status": None, "grpc": error.code().name, "type": named}
        code = getattr(getattr(error, "error", None), "code", None)
        return {"code": code, "status": getattr(error, "status_code", None)}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self._http.aclose()

    @property
    def _unary(self) -> Client:
        return self._clients["unary"]

    def _told(self, kind: str, model: BaseModel) -> Item:
        return self.item(kind, model.model_dump(mode="json", by_alias=True, exclude_none=True))

    def _event(self, event: Any) -> Item:
        # A stream gives each event beside the task as it is with it; an event without one is the task.
        if isinstance(event, tuple):
            task, update = event
            event = task if update is None else update
        return self._told(KINDS[event.kind], event)


if __name__ == "__main__":
    drive(Sdk())
