"""Calls of four tenants to agents that they share, each with a marker of its tenant wherever a text may stand.

Agents on the official SDK, whose stores hand any task to whoever names it, behind a gateway process as it is without a
word on ownership: one over JSON-RPC and HTTP+JSON, one over gRPC. Every answer, all that the agents were asked, by the
tenant that the gateway names to them, and what the gateway has logged are searched for markers of others.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentInterface, a2a_pb2, a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # it ships no types

from gateway.commands.key import new_key
from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.server import Server
from tests.e2e.process import WAIT, GatewayProcess, gateway_process

Tree = dict[str, Any]

TENANTS = ("acme", "globex", "initech", "umbrella")
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
AGENTS = ("desk", "tracker")
OPERATIONS = {"send": 36, "stream": 14, "go on": 8, "get": 20, "list": 12, "pry": 10}
"""What callers do, and how often of a hundred times. To pry is to ask for another tenant's task."""

KEYS = {tenant: new_key(tenant, tenant) for tenant in TENANTS}
_PAGE = 20
_KEPT = 200
_MARKER = re.compile(r"marker-of-([a-z]+)")


def marker(tenant: str) -> str:
    return f"marker-of-{tenant}"


@dataclass
class Searched:
    """What was searched for markers.

    Attributes:
        done: Calls, by what was done and over which binding.
        foreign: Where a marker of another tenant stood: whose place it was, and what was found there.
    """

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    markers: Counter[str] = field(default_factory=Counter)
    foreign: list[tuple[str, str, str]] = field(default_factory=list)

    def search(self, place: str, tenant: str, text: str) -> None:
        """Look through what is a tenant's for markers of others."""
        self.places[place] += 1
        self.bytes[place] += len(text)
        for whose in _MARKER.findall(text):
            self.markers[place] += 1
            if whose != tenant:
                self.foreign.append((place, tenant, text))

    @property
    def calls(self) -> int:
        return self.done.total()

    def __str__(self) -> str:
        lines = [f"{self.calls:,} calls, {len(self.foreign)} foreign markers"]
        for operation in OPERATIONS:
            told = ", ".join(f"{binding} {self.done[operation, binding]:,}" for binding in BINDINGS)
            lines.append(f"  {operation}: {told}")
        lines += [
            f"  in {place}: {number:,} searched, {self.bytes[place] / 1e6:.1f} MB, {self.markers[place]:,} own markers"
            for place, number in self.places.items()
        ]
        return "\n".join(lines)


# ---- Agents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent was asked: by whom, as the gateway tells, and all of it."""

    tenant: str
    text: str


class Recording(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # as above
    """Writes down what an agent over gRPC is asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        metadata = dict(details.invocation_metadata)
        found = await continuation(details)

        def read(message: bytes) -> Any:
            request = found.request_deserializer(message)
            self.asked.append(Asked(metadata["x-a2a-tenant"], f"{metadata} {MessageToDict(request)}"))
            return request

        return found._replace(request_deserializer=read)


@asynccontextmanager
async def desk() -> AsyncIterator[Agent]:
    """The agent over JSON-RPC and HTTP+JSON."""
    server = Server()
    agent = Agent(Shape("desk", push=False), server.port, asyncio.get_running_loop())
    async with server.serving(agent.app()):
        yield agent


@asynccontextmanager
async def tracker(folder: Path) -> AsyncIterator[tuple[Tree, Recording]]:
    """The agent over gRPC: what the file says of it, and what it is asked."""
    recording = Recording()
    server = grpc.aio.server(interceptors=[recording], options=(("grpc.so_reuseport", 0),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    agent = Agent(Shape("tracker", push=False, extended=False), 0, asyncio.get_running_loop())
    card = agent.card()
    del card.supported_interfaces[:]
    card.supported_interfaces.append(AgentInterface(url=address, protocol_binding="GRPC", protocol_version="1.0"))
    handler = DefaultRequestHandler(agent_executor=agent.executor, task_store=InMemoryTaskStore(), agent_card=card)
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]  # generated
    (folder / "tracker.json").write_text(json.dumps(MessageToDict(card)))
    await server.start()
    try:
        yield {"backend": f"grpc://{address}", "card": {"file": "tracker.json"}}, recording
    finally:
        await server.stop(None)


# ---- Callers -------------------------------------------------------------------------------------------------------


class NotFound(Exception):  # noqa: N818 - what happened
    """The task is none that the caller may see."""


class Client:
    """One tenant over one binding."""

    def __init__(self, http: httpx.AsyncClient, stub: Any, tenant: str, binding: str) -> None:
        self.binding = binding
        self._http = http
        self._stub = stub
        self._headers = {"X-API-Key": KEYS[tenant].text, "A2A-Version": "1.0"}

    async def ask(self, agent: str, operation: str, params: Tree) -> tuple[str, list[Tree]]:
        """Call; the whole text of the answer, and its objects.

        Raises:
            NotFound: as it says; its argument is the whole text.
        """
        if self.binding == "GRPC":
            return await self._over_grpc(agent, operation, params)
        if self.binding == "JSONRPC":
            frame = {"jsonrpc": "2.0", "id": 1, "method": operation, "params": params}
            answer = await self._http.post(f"/{agent}", json=frame, headers=self._headers)
            missing = '"code":-32001' in answer.text.replace(" ", "")
            trees = [] if missing else [tree["result"] for tree in _trees(answer)]
        else:
            answer = await self._http.send(self._rest(agent, operation, params))
            trees = _trees(answer)
            missing = answer.status_code == 404
        if missing:
            raise NotFound(answer.text)
        assert answer.status_code == 200, answer.text
        return answer.text, trees

    def _rest(self, agent: str, operation: str, params: Tree) -> httpx.Request:
        build = self._http.build_request
        if operation == "GetTask":
            return build("GET", f"/{agent}/tasks/{params['id']}", headers=self._headers)
        if operation == "ListTasks":
            return build("GET", f"/{agent}/tasks", params=params, headers=self._headers)
        verb = "stream" if operation == "SendStreamingMessage" else "send"
        return build("POST", f"/{agent}/message:{verb}", json=params, headers=self._headers)

    async def _over_grpc(self, agent: str, operation: str, params: Tree) -> tuple[str, list[Tree]]:
        kinds = {"GetTask": a2a_pb2.GetTaskRequest, "ListTasks": a2a_pb2.ListTasksRequest}
        request = ParseDict({**params, "tenant": agent}, kinds.get(operation, a2a_pb2.SendMessageRequest)())
        metadata = [("x-api-key", self._headers["X-API-Key"])]
        call = getattr(self._stub, operation)(request, metadata=metadata, timeout=WAIT)
        try:
            messages = [event async for event in call] if operation == "SendStreamingMessage" else [await call]
        except grpc.aio.AioRpcError as failed:
            if failed.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            raise NotFound(f"{failed.details()} {failed.trailing_metadata()}") from None
        trees = [MessageToDict(message) for message in messages]
        return json.dumps(trees), trees


def _trees(answer: httpx.Response) -> list[Tree]:
    if answer.headers["content-type"].startswith("text/event-stream"):
        return [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
    return [answer.json()]


@dataclass(frozen=True, slots=True)
class Known:
    """A task that a tenant has begun."""

    agent: str
    id: str
    context: str
    asks: bool


class Caller:
    """One client of one tenant, which does whatever comes to its mind, over any binding.

    Args:
        tasks: By tenant; everybody here knows everybody's.
    """

    def __init__(
        self, tenant: str, number: int, clients: Sequence[Client], tasks: Mapping[str, list[Known]], searched: Searched
    ) -> None:
        self._tenant = tenant
        self._chance = random.Random(f"{tenant} {number}")
        self._clients = clients
        self._tasks = tasks
        self._searched = searched
        self._number = 0

    async def run(self, calls: "asyncio.Queue[None]") -> None:
        """Call, for as long as there are calls to be made."""
        names, weights = list(OPERATIONS), list(OPERATIONS.values())
        while not calls.empty():
            calls.get_nowait()
            [operation] = self._chance.choices(names, weights)
            client = self._chance.choice(self._clients)
            async with asyncio.timeout(WAIT):
                operation = await self._do(operation, client)
            self._searched.done[operation, client.binding] += 1

    async def _do(self, operation: str, client: Client) -> str:
        """Do it, or send where there is nothing to do it with; what was done."""
        mine = self._tasks[self._tenant]
        others = [task for tenant in TENANTS if tenant != self._tenant for task in self._tasks[tenant][-5:]]
        waiting = [task for task in mine if task.asks]
        if operation == "go on" and waiting:
            await self._go_on(client, self._chance.choice(waiting))
        elif operation == "get" and mine:
            await self._get(client, self._chance.choice(mine))
        elif operation == "list" and mine:
            await self._list(client, self._chance.choice(mine))
        elif operation == "pry" and others:
            await self._pry(client, self._chance.choice(others))
        elif operation == "stream":
            await self._send(client, "SendStreamingMessage")
        else:
            await self._send(client, "SendMessage")
            return "send"
        return operation

    async def _send(self, client: Client, operation: str) -> None:
        agent = self._chance.choice(AGENTS)
        asks = operation == "SendMessage" and self._chance.random() < 0.3
        # One word that all tenants use, one of its own, or none.
        context = self._chance.choice(["chat-1", f"{marker(self._tenant)}-chat", ""])
        named = {"contextId": context} if context else {}
        text, trees = await self._asked(client, agent, operation, self._message("ask" if asks else "say", **named))
        task = trees[0]["task"]
        assert marker(self._tenant) in text
        if context:
            assert task["contextId"] == context
        mine = self._tasks[self._tenant]
        mine.append(Known(agent, task["id"], task["contextId"], asks))
        del mine[:-_KEPT]

    async def _go_on(self, client: Client, task: Known) -> None:
        mine = self._tasks[self._tenant]
        # Two callers of a tenant shall not answer the same question.
        mine.remove(task)
        message = self._message("told", taskId=task.id, contextId=task.context)
        _, [answer] = await self._asked(client, task.agent, "SendMessage", message)
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        mine.append(Known(task.agent, task.id, task.context, asks=False))

    async def _get(self, client: Client, task: Known) -> None:
        text, [answer] = await self._asked(client, task.agent, "GetTask", {"id": task.id})
        assert (answer["id"], answer["contextId"]) == (task.id, task.context)
        assert marker(self._tenant) in text

    async def _list(self, client: Client, task: Known) -> None:
        params: Tree = {"pageSize": _PAGE}
        if self._chance.random() < 0.7:
            params["contextId"] = task.context
        text, [answer] = await self._asked(client, task.agent, "ListTasks", params)
        assert answer["tasks"]
        assert marker(self._tenant) in text
        if "contextId" in params:
            assert {one["contextId"] for one in answer["tasks"]} == {task.context}

    async def _pry(self, client: Client, task: Known) -> None:
        message = self._message("told", taskId=task.id)
        operation, params = self._chance.choice([("GetTask", {"id": task.id}), ("SendMessage", message)])
        try:
            text, _ = await client.ask(task.agent, operation, params)
        except NotFound as missing:
            self._searched.search("answers", self._tenant, str(missing))
        else:
            self._searched.foreign.append(("answers to who pries", self._tenant, text))

    async def _asked(self, client: Client, agent: str, operation: str, params: Tree) -> tuple[str, list[Tree]]:
        text, trees = await client.ask(agent, operation, params)
        self._searched.search("answers", self._tenant, text)
        return text, trees

    def _message(self, word: str, **ids: str) -> Tree:
        self._number += 1
        mine = marker(self._tenant)
        message = {
            "messageId": f"{mine}-{self._chance.getrandbits(64):x}",
            "role": "ROLE_USER",
            "parts": [{"text": f"{word} {mine} {self._number}"}],
            "metadata": {"of": mine},
            **ids,
        }
        return {"message": message, "metadata": {"of": mine}}


# ---- All of it -----------------------------------------------------------------------------------------------------


def configuration(agents: Mapping[str, Tree]) -> Tree:
    """What the file says: all tenants may call all agents, and no word on whose tasks are whose."""
    return {
        "gateway": {"listen_grpc": "127.0.0.1:0"},
        "auth": {"api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in KEYS.items()}},
        "tenants": {tenant: list(AGENTS) for tenant in TENANTS},
        "agents": dict(agents),
    }


async def soak(calls: int, folder: Path, *, callers: int = 2) -> Searched:
    """Make so many calls, and search everything.

    Args:
        callers: Of each tenant.
    """
    searched = Searched()
    async with desk() as first, tracker(folder) as (second, recording):
        with gateway_process(configuration({"desk": {"backend": first.url}, "tracker": second}), folder) as process:
            await _call(process, calls, callers, searched)
            process.close()
            for line in process.access_lines:
                searched.search("the access log", line["tenant"] or "", json.dumps(line))
            searched.search("the gateway's own log", "", process.log_text)
        for received in first.calls:
            asked = f"{received.method} {received.path}?{received.query} {received.headers} {received.body.decode()}"
            searched.search("what desk was asked", received.headers["x-a2a-tenant"], asked)
        for each in recording.asked:
            searched.search("what tracker was asked", each.tenant, each.text)
    return searched


async def _call(process: GatewayProcess, calls: int, callers: int, searched: Searched) -> None:
    left: asyncio.Queue[None] = asyncio.Queue()
    for _ in range(calls):
        left.put_nowait(None)
    tasks: dict[str, list[Known]] = {tenant: [] for tenant in TENANTS}
    http = httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=WAIT)
    async with http, grpc.aio.insecure_channel(process.grpc) as channel:
        for agent in AGENTS:
            # It is answered when the agent's card was read, so that what each speaks is known from here on.
            assert (await http.get(f"/{agent}/.well-known/agent-card.json")).status_code == 200
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        async with asyncio.TaskGroup() as running:
            for tenant in TENANTS:
                clients = [Client(http, stub, tenant, binding) for binding in BINDINGS]
                for number in range(callers):
                    running.create_task(Caller(tenant, number, clients, tasks, searched).run(left))
