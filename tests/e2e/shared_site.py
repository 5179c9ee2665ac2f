"""Two tenants that share agents, and a client of either generation, over JSON-RPC or HTTP+JSON, for each of them."""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)

from tests.e2e.agents.agent import Agent
from tests.e2e.sdk import send
from tests.e2e.site import ACME_KEY, GLOBEX_KEY, HOOK, HOOKS, api_key
from tests.identity.issuance import sha256
from tests.support.mark import shows_mark

ACME, GLOBEX = api_key(ACME_KEY), api_key(GLOBEX_KEY)
"""The header that each tenant sends."""


def tenancy() -> dict[str, Any]:
    """Return the configuration of two tenants that may call every agent, and of webhooks."""
    keys = {"acme-key": (ACME_KEY, "acme"), "globex-key": (GLOBEX_KEY, "globex")}
    written = {name: {"sha256": sha256(key.encode()), "tenant": tenant} for name, (key, tenant) in keys.items()}
    return {
        "auth": {"api_keys": written},
        "tenants": {tenant: ["*"] for tenant in ("acme", "globex")},
        "push": HOOKS,
    }


@dataclass(frozen=True, slots=True)
class Speech:
    """The dialect of a client."""

    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.binding} {self.version}"


@dataclass
class Heard(httpx.AsyncByteStream):
    """An HTTP answer, byte by byte as the client reads it."""

    answer: httpx.Response
    stream: httpx.AsyncByteStream
    body: bytes = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            self.body += piece
            yield piece

    async def aclose(self) -> None:
        await self.stream.aclose()


class Ear(httpx.AsyncHTTPTransport):
    """Remembers every HTTP answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Heard] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        answer.stream = heard = Heard(answer, answer.stream)
        self.answers.append(heard)
        return answer


@dataclass
class Party:
    """A caller of one agent; its clients as those of `sdk.Caller`.

    Attributes:
        answers: Every HTTP answer so far, cards too.
    """

    speech: Speech
    streaming: Client
    unary: Client
    polling: Client
    answers: list[Heard]

    async def send(self, text: str, **members: Any) -> Task:
        """Send a text for a whole answer."""
        return await send(self.unary, asking(text, **members))


@asynccontextmanager
async def party(url: str, agent: str, shown: Mapping[str, str], speech: Speech) -> AsyncIterator[Party]:
    """A caller that has found an agent by its name behind the gateway.

    Args:
        url: The gateway's.
        shown: The credential.
    """
    ear = Ear()
    async with httpx.AsyncClient(transport=ear, timeout=20, headers=shown) as http:
        card = await A2ACardResolver(http, f"{url}/{agent}").get_agent_card()
        only(card, speech.version)

        def made(**more: Any) -> Client:
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[speech.binding], **more)
            return ClientFactory(config).create(card)

        yield Party(
            speech=speech,
            streaming=made(),
            unary=made(streaming=False),
            polling=made(streaming=False, polling=True),
            answers=ear.answers,
        )
        assert not any(shows_mark(heard.body) for heard in ear.answers)


def only(card: AgentCard, version: str) -> None:
    """Leave the interfaces of one generation on a card; the client of 1.3 has one for each."""
    for interface in [each for each in card.supported_interfaces if not each.protocol_version.startswith(version)]:
        card.supported_interfaces.remove(interface)


def asking(
    text: str, *, task: str = "", context: str = "", refers: str = "", hooked: bool = False, hook_of: str = ""
) -> SendMessageRequest:
    """A message of the user's.

    Args:
        task: The task that it goes on with.
        refers: A task that it refers to.
        hooked: Whether a push configuration comes with it.
        hook_of: The task that this one names.
    """
    message = Message(
        message_id=str(uuid.uuid4()),
        role=Role.ROLE_USER,
        parts=[Part(text=text)],
        task_id=task,
        context_id=context,
        reference_task_ids=[refers] if refers else [],
    )
    if not hooked:
        return SendMessageRequest(message=message)
    config = SendMessageConfiguration(task_push_notification_config=hook(hook_of))
    return SendMessageRequest(message=message, configuration=config)


def hook(task: str) -> TaskPushNotificationConfig:
    """A push configuration."""
    return TaskPushNotificationConfig(task_id=task, id="hook", url=HOOK, token="t")


def new_id() -> str:
    """An id of a task that never was, as agents make them."""
    return str(uuid.uuid4())


async def calls(party: Party, agent: Agent) -> int:
    """Return how many calls an agent has received up to now, learnt from a new call of the caller's."""
    word = f"mark {uuid.uuid4()}"
    await party.send(word)
    return agent.seen(word)
