"""The official SDKs of both generations meet through the gateway, the agents on stdio, in both framings.

Neither SDK has such a binding: `legacy/pipe.py` puts what comes on the pipe to their applications.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import pytest
from a2a.client import ClientConfig, ClientFactory

from tests.e2e.every_operation import (
    answers_each,
    asks_all,
    keeps_tasks,
    keeps_webhooks,
    shows_its_extended_card,
    streams,
    talks,
    words,
)
from tests.e2e.previous import SCRIPTS, PreviousClient, interpreter, previous_client
from tests.e2e.process import ROOT, GatewayProcess, gateway_process
from tests.e2e.sdk import Caller, open_http
from tests.e2e.shared_site import found_by_key, key_of, picked
from tests.e2e.site import ACME_KEY, HOOKS, api_key
from tests.identity.issuance import sha256

FRAMINGS = ("lsp", "ndjson")
AGENTS = tuple(f"{generation}-{framing}" for generation in ("new", "old") for framing in FRAMINGS)
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
MEETINGS = [
    pytest.param(
        name,
        binding,
        marks=[] if (name, binding) in (("new-lsp", "JSONRPC"), ("old-ndjson", "GRPC")) else pytest.mark.long,
        id=f"{name}-{binding}",
    )
    for name in AGENTS
    for binding in BINDINGS
]
"""What could mix on a pipe does not depend on the binding in front: the check takes each framing once."""
EVENTS, CALLS = 300, 60
"""Of one stream, and at a time."""


@dataclass(frozen=True, slots=True)
class Pipes:
    """A gateway in front of agents on stdio, and a client of 0.3."""

    gateway: GatewayProcess
    client: PreviousClient


def stdio(name: str) -> dict[str, Any]:
    generation, framing = name.split("-")
    if generation == "new":
        command = [sys.executable, "-m", "tests.e2e.piped", name, framing]
    else:
        command = [interpreter(), str(SCRIPTS / "piped.py"), name, framing]
    return {"stdio": {"command": command, "cwd": str(ROOT), "framing": framing}}


@pytest.fixture(scope="module")
def pipes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipes]:
    """With those of the agents that the chosen tests ask for: each is a start of its SDK."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path)
    agents = sorted({str(item.callspec.params["name"]) for item in items})
    configuration = {
        "gateway": {"listen_grpc": "127.0.0.1:0"},
        "auth": {"api_keys": {"acme-key": {"sha256": sha256(ACME_KEY.encode()), "tenant": "acme"}, **picked(agents)}},
        "tenants": {"acme": ["*"]},
        "push": HOOKS,
        "defaults": {"timeouts": {"connect": "60s"}},
        "agents": {
            name: {
                "backend": stdio(name),
                "match": found_by_key(name),
                "expose": ["jsonrpc", "rest", "grpc"],
            }
            for name in agents
        },
    }
    folder = tmp_path_factory.mktemp("pipes")
    with gateway_process(configuration, folder) as gateway, previous_client() as client:
        yield Pipes(gateway, client)


@asynccontextmanager
async def calling(pipes: Pipes, name: str, binding: str) -> AsyncIterator[Caller]:
    """The official client of 1.0, which has found the agent by its URL behind the gateway."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(open_http(api_key(ACME_KEY)))
        channels: list[grpc.aio.Channel] = []

        def channel(url: str) -> grpc.aio.Channel:
            made = grpc.aio.insecure_channel(url, interceptors=_shown())
            channels.append(made)
            return made

        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], grpc_channel_factory=channel)
        streaming = await ClientFactory(config).create_from_url(f"{pipes.gateway.url}/{name}/")
        card = streaming._card  # type: ignore[attr-defined]  # the factory gives it to nobody
        yield Caller(
            http=http,
            card=card,
            streaming=streaming,
            unary=ClientFactory(replace(config, streaming=False)).create(card),
            polling=ClientFactory(replace(config, streaming=False, polling=True)).create(card),
        )
        for each in channels:
            await each.close()


class _Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # as above
    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(_with_key(details), request)


class _Stream(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]  # as above
    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(_with_key(details), request)


def _shown() -> list[Any]:
    return [_Unary(), _Stream()]


def _with_key(details: Any) -> Any:
    metadata = grpc.aio.Metadata(*(details.metadata or ()), ("x-api-key", ACME_KEY))
    return details._replace(metadata=metadata)


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "binding"), MEETINGS)
async def test_a_client_of_1_0_notices_nothing(pipes: Pipes, name: str, binding: str) -> None:
    async with calling(pipes, name, binding) as caller:
        assert caller.card.name == name
        assert "stdio" not in str(caller.card)
        await talks(caller, name)
        await keeps_tasks(caller, name, old=name.startswith("old"))
        await keeps_webhooks(caller, old=name.startswith("old"))
        await shows_its_extended_card(caller)
        await streams(caller, name, EVENTS)
        await answers_each(caller, name, CALLS)


def found(pipes: Pipes, name: str, binding: str) -> PreviousClient:
    """A client of 0.3 that has found the agent: by a key where it means gRPC, which has no place for a path."""
    path, key = (f"/{name}/", ACME_KEY) if binding != "GRPC" else ("", key_of(name))
    card = pipes.client.do("connect", binding=binding, url=pipes.gateway.url + path, headers=api_key(key))
    assert card["name"] == name
    assert "stdio" not in str(card)
    return pipes.client


@pytest.mark.parametrize(("name", "binding"), MEETINGS)
def test_a_client_of_0_3_notices_nothing(pipes: Pipes, name: str, binding: str) -> None:
    client = found(pipes, name, binding)
    asks_all(client, name, binding, events=EVENTS)
    # Of many at a time each gets its own answer.
    asked = [f"number {number}" for number in range(CALLS)]
    answers = client.do("send_all", texts=asked)
    assert [words(task) for [task] in answers] == [[f"{name}: {text}"] for text in asked]
