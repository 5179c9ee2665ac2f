"""An agent on the official SDK with its in-memory store, which knows no tenants; it makes ids one can read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from a2a.server.agent_execution import SimpleRequestContextBuilder
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from tests.e2e.agents.executor import Executor
from tests.e2e.agents.received import Received, Recorder
from tests.e2e.agents.server import Server
from tests.isolation.agent import Agent
from tests.isolation.heard import Heard, over_http


class Official:
    """The agent, as an ASGI application that can begin anew."""

    def __init__(self, name: str, url: str) -> None:
        self.makers: dict[str, Heard | None] = {}
        self.url = url
        self.settings: dict[str, Any] = {}
        self._name = name
        self._received: list[Received] = []
        self._made: list[tuple[str, Received]] = []
        self._app: Any = None
        self.forget()

    def take(self) -> list[Heard]:
        found = []
        for each in self._received:
            target = f"{each.path}?{each.query}" if each.query else each.path
            heard = over_http(self._name, each.method, target, each.headers, each.body)
            self.makers |= dict.fromkeys([made for made, call in self._made if call is each], heard)
            if "/.well-known/" not in each.path:
                found.append(heard)
        self._received.clear()
        return found

    def forget(self) -> None:
        self.makers.clear()
        self._received.clear()
        self._made.clear()
        for task in asyncio.all_tasks():
            # Tasks that wait for their clients would wait for ever.
            if getattr(task.get_coro(), "__qualname__", "").startswith("ActiveTask."):
                task.cancel()
        card = self._card()
        store = InMemoryTaskStore()
        handler = DefaultRequestHandler(
            agent_executor=Executor(self._name),
            task_store=store,
            agent_card=card,
            push_config_store=InMemoryPushNotificationConfigStore(),
            request_context_builder=SimpleRequestContextBuilder(
                should_populate_referred_tasks=True,
                task_store=store,
                task_id_generator=_Numbers(f"{self._name}-t", self._made),
                context_id_generator=_Numbers(f"{self._name}-c", self._made),
            ),
        )
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
        ]
        app = Starlette(routes=routes)

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            _call.set(self._received[-1])
            await app(scope, receive, send)

        self._app = Recorder(noted, self._received)

    def mix_up(self, task: str, kind: str) -> bool:
        return False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def _card(self) -> AgentCard:
        interfaces = [
            AgentInterface(url=self.url, protocol_binding=binding, protocol_version="1.0")
            for binding in ("JSONRPC", "HTTP+JSON")
        ]
        return AgentCard(
            name=self._name,
            description="Hands every task to whoever names it.",
            version="1.0.0",
            supported_interfaces=interfaces,
            capabilities=AgentCapabilities(streaming=True, push_notifications=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="S", description="d", tags=["t"])],
        )


_call: ContextVar[Received] = ContextVar("call")


class _Numbers(IDGenerator):
    """Numbers what is made, and remembers in which call it was."""

    def __init__(self, name: str, made: list[tuple[str, Received]]) -> None:
        self._name = name
        self._made = made
        self._count = 0

    def generate(self, context: IDGeneratorContext) -> str:
        self._count += 1
        self._made.append((f"{self._name}{self._count:04}", _call.get()))
        return self._made[-1][0]


@asynccontextmanager
async def official_agent(name: str) -> AsyncIterator[Agent]:
    """An agent on the official SDK, on a port of its own."""
    server = Server()
    agent = Official(name, f"http://127.0.0.1:{server.port}/")
    async with server.serving(agent):
        yield agent
