"""An agent on the official SDK: its card with its own address, its routes, and what it was asked."""

import asyncio
from dataclasses import dataclass, field

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.e2e.agents.executor import Executor
from tests.e2e.agents.received import App, Received, Recorder

SECRET_SKILL = "secret-skill"


@dataclass(frozen=True, slots=True)
class Shape:
    """How an agent is built.

    Attributes:
        marker: Stands in every answer, so that a mix-up of agents is seen.
        rpc: Path of its JSON-RPC interface.
        rest: Path of its HTTP+JSON interface; empty for the root.
        tenant: The A2A tenant that its own card asks for.
        host: Host that its card names; the agent does not have to be there.
        extended: Whether it has an extended card.
        push: Whether it keeps push configurations.
    """

    marker: str
    rpc: str = "/"
    rest: str = ""
    tenant: str = ""
    host: str = ""
    extended: bool = True
    push: bool = True


@dataclass
class Agent:
    """One agent: what it is, where it is, and what it received."""

    shape: Shape
    port: int
    loop: asyncio.AbstractEventLoop
    received: list[Received] = field(default_factory=list)
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = Executor(self.shape.marker)

    @property
    def marker(self) -> str:
        return self.shape.marker

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[Received]:
        """What it received but questions for its card."""
        return [received for received in self.received if "/.well-known/" not in received.path]

    def seen(self, text: str) -> int:
        """How many calls it received up to the first one that holds a text."""
        return next(number for number, call in enumerate(self.calls, 1) if text.encode() in call.body)

    def call(self, text: str) -> str:
        """The first call that holds a text."""
        return next(call.body.decode() for call in self.calls if text.encode() in call.body)

    def knows(self, text: str) -> bool:
        """Whether any call that it received held a text."""
        return any(text in f"{call.path}?{call.query} {call.body.decode()}" for call in self.calls)

    def let_go(self, task_id: str) -> None:
        """Let a task that waits complete."""
        self.loop.call_soon_threadsafe(self.executor.let_go, task_id)

    def card(self) -> AgentCard:
        """The card as the agent itself serves it: full of its own address."""
        shape = self.shape
        authority = shape.host or f"127.0.0.1:{self.port}"
        here = f"http://{authority}"
        interfaces = [
            AgentInterface(
                url=here + path, protocol_binding=binding, protocol_version="1.0", tenant=shape.tenant or None
            )
            for binding, path in (("JSONRPC", shape.rpc), ("HTTP+JSON", shape.rest or "/"))
        ]
        return AgentCard(
            name=shape.marker,
            description=f"The agent {shape.marker}, which runs at {self.url}.",
            version="1.0.0",
            documentation_url=f"{here}/documentation",
            supported_interfaces=interfaces,
            capabilities=AgentCapabilities(
                streaming=True, push_notifications=shape.push, extended_agent_card=shape.extended
            ),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[_skill("echo", f"Says it again, from {self.url}/skills.")],
        )

    def extended_card(self) -> AgentCard:
        """The card for those that are known: one more skill, and the address once more."""
        card = self.card()
        card.skills.append(_skill(SECRET_SKILL, f"Known to few, at {self.url}{self.shape.rpc}."))
        return card

    def app(self) -> App:
        """The agent as an ASGI application."""
        card = self.card()
        handler = DefaultRequestHandler(
            agent_executor=self.executor,
            task_store=InMemoryTaskStore(),
            agent_card=card,
            push_config_store=InMemoryPushNotificationConfigStore() if self.shape.push else None,
            extended_agent_card=self.extended_card() if self.shape.extended else None,
        )
        rest = create_rest_routes(handler)
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, self.shape.rpc),
            # Mounted and not prefixed: the SDK's own prefix would come after the tenant, where no client looks for it.
            *([Mount(self.shape.rest, routes=rest)] if self.shape.rest else rest),
        ]
        return Recorder(Starlette(routes=routes), self.received)


def _skill(name: str, description: str) -> AgentSkill:
    return AgentSkill(id=name, name=name, description=description, tags=["test"])
