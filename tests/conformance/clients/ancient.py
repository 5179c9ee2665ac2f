"""A driver of the strict client of A2A 0.1 of this project's doubles, which takes nothing that 0.1 does not say."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
from driving import HOOK, NOTHING, Absent, Asked, Driver, Item, Said, drive, encoded, uuid

from tests.support.ancient_client import AncientClient, Failed

CONFIG = {"url": HOOK["url"], "token": HOOK["token"]}


class Double(Driver):
    """The client; whoever sends names the task."""

    spelling = "0.1"

    async def open(self, asked: Asked) -> Item:
        # No connection is kept: an agent hangs up after some of its answers.
        self._http = httpx.AsyncClient(trust_env=False, timeout=20, limits=httpx.Limits(max_keepalive_connections=0))
        self._client = AncientClient(self._http, asked.url)
        # Not the client's own way: it takes no card that has a word more than 0.1, and 0.2 is served the same.
        answer = await self._http.get(asked.url + ".well-known/agent.json")
        return self.item("card", answer.raise_for_status().json())

    async def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        more: dict[str, Any] = {
            "id": said.task or f"t-{uuid.uuid4()}",
            "sessionId": said.context or f"s-{uuid.uuid4()}",
        }
        message = {"role": "user", "parts": parts, "metadata": {"sent": "by the client"}}
        more |= {"message": message}
        more |= {"pushNotification": CONFIG} if said.hook else {}
        more |= {} if said.history is None else {"historyLength": said.history}
        if how == "streaming":
            async for event in self._client.stream(parts, **more):
                yield self._event(event)
        else:
            yield self.item("task", await self._client.send(parts, **more))

    async def get(self, task: str, history: int | None = None) -> Item:
        more = {} if history is None else {"historyLength": history}
        return self.item("task", await self._client.get(task, **more))

    async def cancel(self, task: str) -> Item:
        return self.item("task", await self._client.cancel(task))

    async def subscribe(self, task: str) -> AsyncIterator[Item]:
        async for event in self._client.resubscribe(task):
            yield self._event(event)

    async def push_set(self, task: str) -> Item:
        return self.item("push", await self._client.set_push(task, CONFIG))

    async def push_get(self, task: str) -> Item:
        return self.item("push", await self._client.get_push(task))

    async def push_list(self, task: str) -> Item:
        raise Absent("there is none in this generation")

    async def push_delete(self, task: str) -> Item:
        raise Absent("there is none in this generation")

    async def extended(self) -> Item:
        raise Absent("there is none in this generation")

    def text(self, text: str) -> Any:
        return {"type": "text", "text": text}

    def data(self, data: dict[str, Any]) -> Any:
        return {"type": "data", "data": data}

    def file(self, raw: bytes, name: str, media_type: str) -> Any:
        return {"type": "file", "file": {"bytes": encoded(raw), "name": name, "mimeType": media_type}}

    def failure(self, error: BaseException) -> dict[str, Any]:
        return {"code": error.code if isinstance(error, Failed) else None, "status": None}

    async def close(self) -> None:
        await self._http.aclose()

    def _event(self, event: dict[str, Any]) -> Item:
        return self.item("artifact" if "artifact" in event else "status", event)


if __name__ == "__main__":
    drive(Double())
