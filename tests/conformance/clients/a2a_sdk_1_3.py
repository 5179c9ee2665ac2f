"""A driver of a2a-sdk 1.3; with version 0.3, of the transports that it has for agents of 0.3."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP
from driving import HOOK, NOTHING, Asked, Driver, Item, Said, drive, uuid
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message as Protobuf
from google.protobuf.struct_pb2 import Value
from keyed import channel


class Sdk(Driver):
    """The SDK's client."""

    spelling = "1.0"

    async def open(self, asked: Asked) -> Item:
        self._http = httpx.AsyncClient(trust_env=False, timeout=20, headers=asked.headers)
        resolver = A2ACardResolver(self._http, asked.url, *([asked.card_path] if asked.card_path else []))
        card = await resolver.get_agent_card()
        told = self._told("card", card)
        others = [each for each in card.supported_interfaces if not each.protocol_version.startswith(asked.version)]
        for each in others:
            card.supported_interfaces.remove(each)
        config = ClientConfig(
            httpx_client=self._http,
            supported_protocol_bindings=[asked.binding],
            grpc_channel_factory=lambda address: channel(address, asked.key),
        )
        self._clients: dict[str, Client] = {
            "streaming": ClientFactory(config).create(card),
            "unary": ClientFactory(replace(config, streaming=False)).create(card),
            "polling": ClientFactory(replace(config, streaming=False, polling=True)).create(card),
        }
        return told

    async def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        message = Message(
            role=Role.ROLE_USER, message_id=f"m-{uuid.uuid4()}", parts=parts, task_id=said.task, context_id=said.context
        )
        message.metadata.update({"sent": "by the client"})
        configuration = SendMessageConfiguration(history_length=said.history)
        if said.hook:
            configuration.task_push_notification_config.CopyFrom(TaskPushNotificationConfig(**HOOK))
        request = SendMessageRequest(message=message, configuration=configuration)
        async for event in self._clients[how].send_message(request):
            yield self._event(event)

    async def get(self, task: str, history: int | None = None) -> Item:
        return self._told("task", await self._unary.get_task(GetTaskRequest(id=task, history_length=history)))

    async def list_tasks(self, context: str, size: int, token: str = "") -> Item:
        request = ListTasksRequest(context_id=context, page_size=size, page_token=token)
        return self._told("tasks", await self._unary.list_tasks(request))

    async def cancel(self, task: str) -> Item:
        return self._told("task", await self._unary.cancel_task(CancelTaskRequest(id=task)))

    async def subscribe(self, task: str) -> AsyncIterator[Item]:
        async for event in self._clients["streaming"].subscribe(SubscribeToTaskRequest(id=task)):
            yield self._event(event)

    async def push_set(self, task: str) -> Item:
        wanted = TaskPushNotificationConfig(task_id=task, **HOOK)
        return self._told("push", await self._unary.create_task_push_notification_config(wanted))

    async def push_get(self, task: str) -> Item:
        wanted = GetTaskPushNotificationConfigRequest(task_id=task, id=HOOK["id"])
        return self._told("push", await self._unary.get_task_push_notification_config(wanted))

    async def push_list(self, task: str) -> Item:
        wanted = ListTaskPushNotificationConfigsRequest(task_id=task)
        return self._told("pushes", await self._unary.list_task_push_notification_configs(wanted))

    async def push_delete(self, task: str) -> Item:
        wanted = DeleteTaskPushNotificationConfigRequest(task_id=task, id=HOOK["id"])
        await self._unary.delete_task_push_notification_config(wanted)
        return self.item("nothing", None)

    async def extended(self) -> Item:
        return self._told("card", await self._unary.get_extended_agent_card(GetExtendedAgentCardRequest()))

    def text(self, text: str) -> Part:
        return Part(text=text)

    def data(self, data: dict[str, Any]) -> Part:
        return Part(data=ParseDict(data, Value()))

    def file(self, raw: bytes, name: str, media_type: str) -> Part:
        return Part(raw=raw, filename=name, media_type=media_type)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self._http.aclose()

    def failure(self, error: BaseException) -> dict[str, Any]:
        cause = error.__cause__
        status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None
        told = {"code": JSON_RPC_ERROR_CODE_MAP.get(type(error)), "status": status}
        return {**told, "grpc": cause.code().name} if isinstance(cause, grpc.aio.AioRpcError) else told

    @property
    def _unary(self) -> Client:
        return self._clients["unary"]

    def _told(self, kind: str, message: Protobuf) -> Item:
        return self.item(kind, MessageToDict(message))

    def _event(self, event: Any) -> Item:
        kind = event.WhichOneof("payload")
        return self._told(kind.removesuffix("_update"), getattr(event, kind))


if __name__ == "__main__":
    drive(Sdk())
