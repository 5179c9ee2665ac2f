"""A client on the last a2a-sdk 0.3: run by the interpreter that has it, never imported.

    python client.py

Reads lines of JSON, `{"do": WHAT, ...}`, one method of `Session` each, and answers each with a line: `{"done": ...}`,
or `{"failed": {"type": ..., "code": ..., "text": ...}}`.
"""

import asyncio
import json
import sys
import uuid
from functools import partial
from typing import Any

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory, minimal_agent_card
from a2a.types import (
    AgentCard,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)
from pydantic import BaseModel


class Session:
    """One connection to an agent, and what can be asked of it."""

    def __init__(self) -> None:
        self._http: httpx.AsyncClient | None = None
        self._channels: list[grpc.aio.Channel] = []
        self._config: dict[str, Any] = {}
        self._card: AgentCard
        self._streaming: Client
        self._unary: Client
        self._polling: Client

    async def connect(
        self, url: str, binding: str, headers: dict[str, str], *, blind: bool = False, path: str | None = None
    ) -> Any:
        """Find the card, at a path of its own if one is named, and make clients of it; `blind` is of the URL alone.

        A `Host` among the headers resolves to loopback; the others go with calls over gRPC, too.
        """
        await self.close()
        self._http = httpx.AsyncClient(trust_env=False, headers=headers, timeout=20)
        self._config = {
            "httpx_client": self._http,
            "supported_transports": [binding],
            "use_client_preference": True,
            "grpc_channel_factory": partial(self._channel, headers=headers),
        }
        if blind:
            card = minimal_agent_card(url, [binding])
            card.capabilities.streaming = True
        else:
            card = await A2ACardResolver(self._http, url).get_agent_card(path)
        self._card = card
        self._streaming = self._made()
        self._unary = self._made(streaming=False)
        self._polling = self._made(streaming=False, polling=True)
        return _dumped(card)

    async def send(
        self, text: str, task: dict[str, Any] | None = None, how: str = "unary", hook: str | None = None
    ) -> Any:
        """Send a text, with more members of its message, and a webhook; gives every event."""
        client = {"unary": self._unary, "streaming": self._streaming, "polling": self._polling}[how]
        if hook is not None:
            client = self._made(
                streaming=False, push_notification_configs=[PushNotificationConfig(id="hook", url=hook)]
            )
        message = Message(
            role=Role.user, message_id=str(uuid.uuid4()), parts=[Part(root=TextPart(text=text))], **(task or {})
        )
        return [_event(event) async for event in client.send_message(message)]

    async def send_all(self, texts: list[str]) -> Any:
        """Send all of them at a time; gives the events of each."""
        return await asyncio.gather(*map(self.send, texts))

    async def get(self, task: str) -> Any:
        """The task."""
        return _dumped(await self._unary.get_task(TaskQueryParams(id=task)))

    async def cancel(self, task: str) -> Any:
        """The task, cancelled."""
        return _dumped(await self._unary.cancel_task(TaskIdParams(id=task)))

    async def join(self, task: str) -> Any:
        """Every event of a task that works; it is cancelled when the first has come."""
        events: list[Any] = []
        async for event in self._streaming.resubscribe(TaskIdParams(id=task)):
            if not events:
                await self.cancel(task)
            events.append(_event(event))
        return events

    async def resubscribe(self, task: str, word: str | None = None) -> Any:
        """Every event of a task that waits; it is freed by its id, or by a word, when the first has come."""
        events: list[Any] = []
        async for event in self._streaming.resubscribe(TaskIdParams(id=task)):
            if not events:
                await self.send(f"free {word or task}")
            events.append(_event(event))
        return events

    async def set_push(self, task: str, name: str, url: str) -> Any:
        """The push configuration as it was kept."""
        config = PushNotificationConfig(id=name, url=url, token="t")
        wanted = TaskPushNotificationConfig(task_id=task, push_notification_config=config)
        return _dumped(await self._unary.set_task_callback(wanted))

    async def get_push(self, task: str, name: str) -> Any:
        """The push configuration."""
        wanted = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id=name)
        return _dumped(await self._unary.get_task_callback(wanted))

    async def extended(self) -> Any:
        """The extended card."""
        return _dumped(await self._unary.get_card())

    async def close(self) -> None:
        """Let go of what `connect` opened."""
        while self._channels:
            await self._channels.pop().close()
        if self._http is not None:
            await self._http.aclose()

    def _made(self, **more: Any) -> Client:
        """A client of the agent that has been connected to."""
        return ClientFactory(ClientConfig(**self._config, **more)).create(self._card)

    def _channel(self, address: str, headers: dict[str, str]) -> grpc.aio.Channel:
        """A channel whose calls say what the headers say, as users of this SDK make one."""
        name, _, port = address.rpartition(":")
        dialled, options = address, []
        if name == headers.get("Host"):
            dialled, options = f"127.0.0.1:{port}", [("grpc.default_authority", address)]
        metadata = [(key.lower(), value) for key, value in headers.items() if key != "Host"]
        channel = grpc.aio.insecure_channel(dialled, options, interceptors=[Unary(metadata), Stream(metadata)])
        self._channels.append(channel)
        return channel


class Metadata:
    """Adds to what every call says."""

    def __init__(self, metadata: list[tuple[str, str]]) -> None:
        self._metadata = metadata

    async def with_more(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(details._replace(metadata=[*(details.metadata or ()), *self._metadata]), request)


class Unary(Metadata, grpc.aio.UnaryUnaryClientInterceptor):
    """For calls with one answer."""

    intercept_unary_unary = Metadata.with_more


class Stream(Metadata, grpc.aio.UnaryStreamClientInterceptor):
    """For streams."""

    intercept_unary_stream = Metadata.with_more


def _event(event: Any) -> Any:
    if not isinstance(event, tuple):
        return _dumped(event)
    task, update = event
    return _dumped(task if update is None else update)


def _dumped(model: BaseModel | Task) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _failure(error: Exception) -> dict[str, Any]:
    if isinstance(error, grpc.aio.AioRpcError):
        return {"type": error.code().name, "code": error.code().value[0], "text": error.details()}
    inner = getattr(error, "error", None)
    code = getattr(inner, "code", None) or getattr(error, "status_code", None)
    return {"type": type(error).__name__, "code": code, "text": str(error)}


async def main() -> None:
    """Do what each line says, until there are no more."""
    session = Session()
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        try:
            answer = {"done": await getattr(session, asked.pop("do"))(**asked)}
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what the test wants to see
            answer = {"failed": _failure(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    await session.close()


if __name__ == "__main__":
    asyncio.run(main())
