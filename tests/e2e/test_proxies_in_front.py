"""Official clients and agents with a gateway, and nginx, HAProxy or Envoy with its file of `deploy/`, in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, replace
from http.client import HTTPSConnection
from pathlib import Path

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import AgentCard, StreamResponse
from a2a.utils.errors import A2AError

from tests.e2e.grpc_site import AGENT, OPEN, Place, Site, site
from tests.e2e.proxy_in_front import PROGRAMS, Front, Ports, in_front, reserved_ports
from tests.e2e.sdk import COMPLETED, kinds, saying, send, texts
from tests.table import cells

pytestmark = pytest.mark.anyio
every_program = pytest.mark.parametrize("program", PROGRAMS)
every_program_and_binding = pytest.mark.parametrize(
    ("program", "binding"), cells(tuple(PROGRAMS), ("JSONRPC", "HTTP+JSON", "GRPC"))
)

PATIENCE = 30.0
"""Seconds after which what is waited for will not happen any more."""
BODY_LIMIT = 10 * 1024 * 1024
"""The limit in nginx.conf, and `gateway.body_limit` by default."""
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, which no proxy has."""


@dataclass
class Standing:
    """A gateway with a proxy in front."""

    site: Site
    front: Front

    @property
    def agent(self) -> Place:
        return self.site.place


@asynccontextmanager
async def standing(program: str, folder: Path) -> AsyncIterator[Standing]:
    if PROGRAMS[program] is None:
        pytest.skip(f"{program} is not installed; ENVOY may name the binary of Envoy")
    with reserved_ports() as ports:
        async with site(folder, {**OPEN, "gateway": gateway(ports)}) as here:
            starting = in_front(program, ports, folder)
            # On a thread, for the proxy looks for the gateway, which is on this loop, while it starts.
            front = await asyncio.to_thread(starting.__enter__)
            try:
                yield Standing(here, front)
            finally:
                starting.__exit__(None, None, None)


def gateway(ports: Ports) -> dict[str, object]:
    """Return the configuration that the files need of the gateway."""
    return {
        "public_url": f"https://127.0.0.1:{ports.public}",
        "public_grpc": f"127.0.0.1:{ports.public}",
        "listen": f"127.0.0.1:{ports.http}",
        "listen_grpc": f"127.0.0.1:{ports.grpc}",
        "trusted_proxies": ["127.0.0.1"],
    }


def opened(front: Front, address: str = "127.0.0.1", **more: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(verify=front.trust, local_address=address, http2=False)
    return httpx.AsyncClient(transport=transport, trust_env=False, timeout=PATIENCE, headers=more)


@asynccontextmanager
async def calling(here: Standing, binding: str) -> AsyncIterator[tuple[Client, Client, AgentCard]]:
    """A client that streams, one that waits, and the card, starting from nothing but the public URL."""
    credentials = grpc.ssl_channel_credentials(here.front.authority.cert_pem.bytes())
    async with opened(here.front) as http:
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            grpc_channel_factory=lambda url: grpc.aio.secure_channel(url, credentials),
        )
        streaming = await ClientFactory(config).create_from_url(f"{here.front.url}/{AGENT}")
        card: AgentCard = streaming._card  # type: ignore[attr-defined]  # the factory gives it to nobody
        unary = ClientFactory(replace(config, streaming=False)).create(card)
        yield streaming, unary, card
        for client in (streaming, unary):
            await client.close()


@every_program
async def test_the_card_has_the_public_urls_only(program: str, tmp_path: Path) -> None:
    async with standing(program, tmp_path) as here, calling(here, "JSONRPC") as (_, _, card):
        found = {(each.protocol_binding, each.url) for each in card.supported_interfaces}
        below = f"{here.front.url}/{AGENT}"
        assert {("JSONRPC", below), ("HTTP+JSON", below), ("GRPC", here.front.address)} <= found
        shown = str(card)
        ports = here.front.ports
        assert f":{ports.http}" not in shown
        assert f":{ports.grpc}" not in shown


@every_program_and_binding
async def test_calls_pass_events_come_one_by_one_and_leaves_are_noticed(
    program: str, binding: str, tmp_path: Path
) -> None:
    async with standing(program, tmp_path) as here, calling(here, binding) as (streaming, unary, _):
        # More than one connection, and one connection more than once.
        for _ in range(3):
            tasks = await asyncio.gather(*(send(unary, saying(f"call {number}")) for number in range(5)))
            assert [texts(task) for task in tasks] == [[f"{AGENT}: call {number}"] for number in range(5)]
        events: list[StreamResponse] = []
        async with asyncio.timeout(PATIENCE), aclosing(streaming.send_message(saying("wait here"))) as stream:  # type: ignore[type-var]  # the SDK says iterator, and gives a generator
            async for event in stream:
                events.append(event)
                # The agent says nothing more until the client has these two.
                if kinds(events) == ["task", "status_update"]:
                    here.agent.agent.let_go(await asyncio.to_thread(here.agent.agent.executor.waiting.get))
        assert kinds(events) == ["task", "status_update", "artifact_update", "status_update"]
        assert events[-1].status_update.status.state == COMPLETED
        begun = asyncio.Event()

        async def follow() -> None:
            async for _ in streaming.send_message(saying("wait here")):
                begun.set()

        await left(here, asyncio.ensure_future(follow()), begun)
        await left(here, asyncio.ensure_future(send(unary, saying("wait here"))), begun)


async def left(here: Standing, calling: "asyncio.Future[object]", begun: asyncio.Event) -> None:
    """Leave a call once the agent works on it, and wait until the agent notices; only for that."""
    place = here.agent
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        task_id = await asyncio.to_thread(place.agent.executor.waiting.get, timeout=PATIENCE)
        assert place.left.empty()
        calling.cancel()
        await place.left.get()
    place.agent.let_go(task_id)


@every_program
async def test_the_agent_gets_the_clients_address_and_not_the_clients_claims(program: str, tmp_path: Path) -> None:
    told = {"x-forwarded-for": "203.0.113.9", "forwarded": "for=203.0.113.9", "a2a-version": "1.0"}
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    async with standing(program, tmp_path) as here, opened(here.front, ELSEWHERE, **told) as http:
        answer = await http.post(f"{here.front.url}/{AGENT}/message:send", json=body)
        assert answer.status_code == 200, answer.text
        [call] = here.agent.agent.calls
        assert call.headers["x-forwarded-for"] == ELSEWHERE
        assert "203.0.113.9" not in str(call.headers)


def sends_all_first(front: Front, size: int) -> int:
    """The status that a client is told which reads nothing before all of its body is sent."""
    client = HTTPSConnection(front.address, context=front.trust, timeout=PATIENCE)
    with closing(client):
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        client.request("POST", f"/{AGENT}/message:send", bytes(size), headers)
        return client.getresponse().status


async def status_of(front: Front, length: str, body: bytes) -> bytes:
    """The first line that a client is told which sends a head, and this of its body."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", front.ports.public, ssl=front.trust)
        head = f"POST /{AGENT}/message:send HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n{length}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        line = await reader.readline()
        writer.transport.abort()
    return line


@every_program
async def test_bodies_beyond_the_limit_are_refused(program: str, tmp_path: Path) -> None:
    async with standing(program, tmp_path) as here, calling(here, "GRPC") as (_, unary, _):
        # Of the chunks all but the end, which nobody waits for.
        chunks = b"%x\r\n%b\r\n1\r\n.\r\n" % (BODY_LIMIT, bytes(BODY_LIMIT))
        for length, body in ((f"Content-Length: {BODY_LIMIT + 1}", b""), ("Transfer-Encoding: chunked", chunks)):
            assert (await status_of(here.front, length, body)).startswith(b"HTTP/1.1 413 ")
        if program != "envoy":  # docs/proxies.md, What differs
            for size in (BODY_LIMIT + 1, 14 * 1024 * 1024):
                assert await asyncio.to_thread(sends_all_first, here.front, size) == 413
        with pytest.raises(A2AError):
            await send(unary, saying("x" * (BODY_LIMIT + 1)))
        assert here.agent.agent.calls == []
