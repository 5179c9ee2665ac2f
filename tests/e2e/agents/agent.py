"""An agent on the official SDK: its card with its own address, its routes, and what it was asked."""

import asyncio
from dataclasses import dataclass, field

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from tests.e2e.agents.executor import Executor
from tests.e2e.agents.received import App, Received, Recorder


@dataclass
class Agent:
    """One agent: what it is, where it is, and what it received.

    Attributes:
        marker: Stands in every answer, so that a mix-up of agents is seen.
    """

    marker: str
    port: int
    loop: asyncio.AbstractEventLoop
    received: list[Received] = field(default_factory=list)
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = Executor(self.marker)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[Received]:
        """Return the received requests, without those for the card."""
        return [received for received in self.received if "/.well-known/" not in received.path]

    def seen(self, text: str) -> int:
        """Return the number of calls received up to the first one that holds a text."""
        return next(number for number, call in enumerate(self.calls, 1) if text.encode() in call.body)

    def call(self, text: str) -> str:
        """The first call that holds a text."""
        return next(call.body.decode() for call in self.calls if text.encode() in call.body)

    def let_go(self, task_id: str) -> None:
        """Let a task that waits complete."""
        self.loop.call_soon_threadsafe(self.executor.let_go, task_id)

    def card(self) -> AgentCard:
        """The card as the agent itself serves it."""
        interfaces = [
            AgentInterface(url=f"{self.url}/", protocol_binding=binding, protocol_version="1.0")
            for binding in ("JSONRPC", "HTTP+JSON")
        ]
        return AgentCard(
            name=self.marker,
            description=f"The agent {self.marker}, which runs at {self.url}.",
            version="1.0.0",
            supported_interfaces=interfaces,
            capabilities=AgentCapabilities(streaming=True, push_notifications=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="echo", name="echo", description="Says it again.", tags=["test"])],
        )

    def app(self) -> App:
        """The agent as an ASGI application."""
        card = self.card()
        handler = DefaultRequestHandler(
            agent_executor=self.executor,
            task_store=InMemoryTaskStore(),
            agent_card=card,
            push_config_store=InMemoryPushNotificationConfigStore(),
        )
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
        ]
        return Recorder(Starlette(routes=routes), self.received)
