"""Two agents of two tenants behind a gateway that takes gRPC, and clients of bare frames that try to mix them up.

    async with tenants() as site:
        told = await site.ask(message(tenant="acme"))
        assert site.reached == ["one"]

`one` is acme's and `two` is globex's: each is found by the name of its tenant, and at a host of its own. The key of
`acme` opens `one` alone, that of `globex` opens `two`, that of `both` opens both, and that of `nobody` neither.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # it ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH, method_of
from gateway.a2a.bindings.grpc_status import NAMES
from gateway.a2a.dialect import Version
from gateway.a2a.fault import GATEWAY_DOMAIN
from gateway.a2a.framing.grpc import frame, unframe
from gateway.a2a.operation import Operation
from tests.support.gateway import Running, agent, keys, running, secret
from tests.support.grpc_agent import Answer, Asked, GrpcAgent, grpc_agent, says
from tests.support.grpc_gateway import LISTENS
from tests.support.http2_client import RawClient
from tests.support.scripted import Received, Script, ScriptedBackend, Wire, head

SEND = method_of(Operation.SEND_MESSAGE, Version.V1_0).path
TENANTS = {"acme": "one", "globex": "two"}
"""The agent of each tenant."""


def message(operation: Operation = Operation.SEND_MESSAGE, version: Version = Version.V1_0, **members: Any) -> bytes:
    """A request with these fields, as a client writes it; a send has a message."""
    if operation.sends and version is Version.V1_0:
        members.setdefault("message", {"message_id": "m", "role": 1, "parts": [{"text": "hi"}]})
    elif operation.sends:
        members.setdefault("request", {"message_id": "m", "role": 1, "content": [{"text": "hi"}]})
    return bytes(request_class(method_of(operation, version))(**members).SerializeToString())


def key(name: str) -> tuple[bytes, bytes]:
    """The metadata that shows a key."""
    return b"authorization", b"Bearer " + secret(name)


def head_of(path: str = SEND, authority: bytes | None = b"gateway.example") -> list[tuple[bytes, bytes]]:
    """The headers of a call, without metadata."""
    pairs = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode())]
    if authority is not None:
        pairs.append((b":authority", authority))
    return [*pairs, (b"te", b"trailers"), (b"content-type", b"application/grpc")]


@dataclass(frozen=True, slots=True)
class Told:
    """The end of a call, as the client received it.

    Attributes:
        http: The status of HTTP.
        code: The name of the status of gRPC; empty where there is none.
        pairs: All headers and trailers, in order.
    """

    http: int
    code: str
    words: str
    pairs: tuple[tuple[bytes, bytes], ...]
    messages: tuple[bytes, ...]

    @property
    def id(self) -> bytes:
        return dict(self.pairs)[b"x-request-id"]

    @property
    def details(self) -> bytes:
        """The serialized `google.rpc.Status`."""
        written = dict(self.pairs).get(b"grpc-status-details-bin", b"")
        return b64decode(written + b"=" * (-len(written) % 4))

    @property
    def reason(self) -> str:
        """The gateway's own."""
        for detail in Status.FromString(self.details).details:
            info = ErrorInfo()
            if detail.Unpack(info) and info.domain == GATEWAY_DOMAIN:
                return str(info.reason)
        return ""

    @property
    def anonymous(self) -> tuple[object, ...]:
        """All of it but for the request's id."""
        known = (b"grpc-status-details-bin", self.details)
        pairs = [known if name == known[0] else (name, value) for name, value in self.pairs]
        hidden = [(name, value.replace(self.id, b"ID")) for name, value in pairs]
        return self.http, hidden, self.messages


@dataclass
class Site:
    """The gateway, the agents behind it, and the connections of clients to it.

    Attributes:
        over_grpc: The agents that speak gRPC, by their names.
        over_http: The others.
    """

    gateway: Running
    over_grpc: dict[str, GrpcAgent]
    over_http: dict[str, ScriptedBackend]
    clients: list[RawClient] = field(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, Asked]]:
        """Return the calls that agents received over gRPC, each behind the agent's name."""
        found = [(name, each) for name, agent in self.over_grpc.items() for each in agent.asked]
        # A call that a client made has an id; the gateway asks for a card again by itself.
        return [(name, each) for name, each in found if each.told("x-request-id")]

    @property
    def sent(self) -> list[Any]:
        """The same, as the agents' parsers read it."""
        return [request_class(BY_PATH[each.path]).FromString(each.message) for _, each in self.asked]

    @property
    def requests(self) -> list[tuple[str, Received]]:
        """Return the requests that agents received over HTTP."""
        return [(name, each) for name, agent in self.over_http.items() for each in agent.requests]

    @property
    def reached(self) -> list[str]:
        """The name of the agent of each call that reached one."""
        return [name for name, _ in (*self.asked, *self.requests)]

    async def client(self) -> RawClient:
        """A new connection."""
        host, _, port = self.gateway.gateway.grpc_address.rpartition(":")
        client = RawClient(*await asyncio.open_connection(host, int(port)))
        self.clients.append(client)
        client.greet()
        return client

    async def ask(
        self,
        body: bytes = b"",
        *more: tuple[bytes, bytes],
        path: str = SEND,
        authority: bytes | None = b"gateway.example",
        framed: bool = False,
        client: RawClient | None = None,
    ) -> Told:
        """Make a call on a connection of its own.

        Args:
            body: The message; or with `framed` all that is sent.
            more: Metadata.
        """
        at = await self.client() if client is None else client
        stream = at.ask(head_of(path, authority), more=more, end=False)
        await _pour(at, stream, body if framed else frame(body))
        await at.until(lambda: stream in at.ended)
        found = [*at.headers[stream], *at.trailers.get(stream, [])]
        values = dict(found)
        code = values.get(b"grpc-status")
        told = Told(
            int(values[b":status"]),
            "" if code is None else NAMES[int(code)],
            unquote(values.get(b"grpc-message", b"").decode()),
            tuple(found),
            tuple(unframe(at.body.get(stream, b""))),
        )
        if client is None:
            at.leave()
        return told


async def _pour(client: RawClient, stream: int, data: bytes) -> None:
    """Send a body to its end, or for as long as the gateway takes it."""
    h2, sent = client.h2, 0
    while stream not in client.ended:
        room = min(h2.local_flow_control_window(stream), h2.max_outbound_frame_size)
        piece = data[sent : sent + room]
        sent += len(piece)
        h2.send_data(stream, piece, end_stream=sent == len(data))
        client.flush()
        if sent == len(data):
            return
        await client.until(lambda: stream in client.ended or h2.local_flow_control_window(stream) > 0)


SETTINGS = f"""\
{keys(acme="acme", globex="globex", both="both", nobody="nobody")}
tenants: {{ acme: [one], globex: [two], both: [one, two], nobody: [] }}
defaults: {{ isolation: none }}
"""
"""Agents that each tenant may call."""
OPEN = "defaults: { isolation: none }"
"""Anybody may call both."""
RESULT = b'{"jsonrpc":"2.0","id":%b,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"ho"}]}}}'


def in_json(*headers: bytes) -> Script:
    """Answers every call over JSON-RPC with a message."""

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            body = RESULT % json.dumps(json.loads(request.body)["id"]).encode()
            await wire.send(head(b"content-length: %d" % len(body), *headers, content_type=b"application/json") + body)

    return script


@asynccontextmanager
async def tenants(
    answer: Answer | None = None,
    settings: str = SETTINGS,
    *,
    script: Script | None = None,
    speaks: str = "",
    more: str = "",
    listens: str = "",
) -> AsyncIterator[Site]:
    """The two agents and the gateway.

    Args:
        answer: Of both; an empty message where it is left out.
        settings: The file beside the agents and `gateway:`.
        script: Of both, where they speak HTTP and no gRPC: 1.0 over JSON-RPC.
        speaks: Settings of each backend beside its URL, as YAML in one line.
        more: Further settings of each agent, likewise.
        listens: Further settings of `gateway:`, likewise.
    """
    async with AsyncExitStack() as stack:
        over_grpc: dict[str, GrpcAgent] = {}
        over_http: dict[str, ScriptedBackend] = {}
        urls: dict[str, str] = {}
        for name in TENANTS.values():
            if script is None:
                found = await stack.enter_async_context(grpc_agent(answer or says(b"")))
                over_grpc[name], urls[name] = found, found.url
            else:
                backend = await stack.enter_async_context(ScriptedBackend(agent(script)))
                over_http[name], urls[name] = backend, backend.url
        spoken = speaks or f'protocol: {"grpc" if script is None else "jsonrpc"}, a2a_version: "1.0"'
        entries = "".join(
            f"  {name}: {{ match: [{{ path: /, tenant: {tenant} }}, {{ host: {name}.agents.test }}], "
            f'backend: {{ url: "{urls[name]}", {spoken} }}{", " if more else ""}{more} }}\n'
            for tenant, name in TENANTS.items()
        )
        text = f"gateway: {{ {LISTENS}{', ' if listens else ''}{listens} }}\n{settings}\nagents:\n{entries}"
        gateway = await stack.enter_async_context(running(text))
        for each in over_grpc.values():
            # The gateway itself asks for the card.
            each.asked.clear()
        site = Site(gateway, over_grpc, over_http)
        try:
            yield site
        finally:
            for client in site.clients:
                client.leave()
