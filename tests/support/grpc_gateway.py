"""A gateway that takes calls over HTTP and gRPC, in front of one scripted agent, and a client of gRPC in raw bytes.

    async with grpc_fronted(says(TASK)) as site:
        told = await site.client.ask(Operation.GET_TASK)

The agent is called `echo`: over HTTP that is its path, over gRPC its tenant.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # it ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.support.gateway import Running, running
from tests.support.grpc_agent import Answer, Asked, GrpcAgent, grpc_agent
from tests.support.scripted import WAIT

LISTENS = 'listen: "127.0.0.1:0", admin: "127.0.0.1:0", listen_grpc: "127.0.0.1:0"'
ADDRESSES = ("127.0.0.1", "localhost", "ipv4:")


@dataclass(frozen=True, slots=True)
class Told:
    """The end of a call, as the client received it.

    Attributes:
        messages: As they came.
        code: The name of the status.
        headers: The metadata in front.
        trailers: The metadata behind, but for the status.
    """

    messages: tuple[bytes, ...]
    code: str
    words: str
    details: bytes
    headers: dict[str, Any]
    trailers: dict[str, Any]

    @property
    def status(self) -> Any:
        """The details, as `google.rpc.Status`."""
        return Status.FromString(self.details)

    @property
    def reasons(self) -> list[str]:
        """The reasons that they give, in order."""
        found = []
        for detail in self.status.details:
            info = ErrorInfo()
            if detail.Unpack(info):
                found.append(info.reason)
        return found

    @property
    def text(self) -> str:
        """All that was said."""
        return str((self.messages, self.words, self.details, self.headers, self.trailers))


class Stream:
    """A call whose messages are read one by one."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self._read: list[bytes] = []

    async def next(self) -> bytes | None:
        """The next message; None behind the last, whatever status is there."""
        async with asyncio.timeout(WAIT):
            try:
                message = await self.call.read()
            except grpc.aio.AioRpcError:
                return None
        if message is grpc.aio.EOF:
            return None
        self._read.append(message)
        return bytes(message)

    async def end(self) -> Told:
        """All of it."""
        while await self.next() is not None:
            pass
        return await _told(self.call, self._read)

    def cancel(self) -> None:
        self.call.cancel()


class GrpcClient:
    """One connection to a gateway."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def ask(
        self,
        operation: Operation,
        message: bytes | None = None,
        *metadata: tuple[str, str],
        patience: float = 4 * WAIT,
        **more: Any,
    ) -> Told:
        """Call a method that has one answer.

        Args:
            patience: Seconds that the client gives it, and says so.
            more: As `_path`.
        """
        path, said = _asked(operation, message, **more)
        call = self._channel.unary_unary(path)(said, metadata=metadata, timeout=patience)
        answered = []
        with suppress(grpc.aio.AioRpcError):
            answered.append(await call)
        return await _told(call, answered)

    def stream(
        self, operation: Operation, message: bytes | None = None, *metadata: tuple[str, str], **more: Any
    ) -> Stream:
        """Call a method whose answer is a stream."""
        path, said = _asked(operation, message, **more)
        return Stream(self._channel.unary_stream(path)(said, metadata=metadata, timeout=4 * WAIT))


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway, the agent behind it, and a client."""

    gateway: Running
    agent: GrpcAgent
    client: GrpcClient
    _answers: list[Answer]

    def play(self, answer: Answer) -> None:
        """Have the agent answer so from now on, and forget what there was."""
        self._answers[:] = [answer]
        self.agent.asked.clear()
        self.gateway.lines.clear()

    async def asked(self, number: int = 1) -> Asked:
        """One of the calls that clients made, counted from 1, once it has arrived."""
        await self.gateway.until(lambda: len(self.agent.asked) >= number)
        return self.agent.asked[number - 1]


def request(operation: Operation, version: Version = Version.V1_0, **members: Any) -> bytes:
    """A request to the agent with these fields; one of 1.0 names it by its tenant."""
    if version is Version.V1_0:
        members.setdefault("tenant", "echo")
    return bytes(request_class(method_of(operation, version))(**members).SerializeToString())


@asynccontextmanager
async def dialled(gateway: Running, **options: Any) -> AsyncIterator[GrpcClient]:
    """A connection over gRPC; `grpc.` is put before each option."""
    chosen = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    chosen += [(f"grpc.{name}", value) for name, value in options.items()]
    async with grpc.aio.insecure_channel(gateway.gateway.grpc_address, chosen) as channel:
        yield GrpcClient(channel)


@asynccontextmanager
async def fronting(
    url: str,
    more: str = "",
    *,
    backend: str = "",
    settings: str = "",
    before: str = "",
    path: Path = Path("gateway.yaml"),
    settled: bool = True,
) -> AsyncIterator[tuple[Running, GrpcClient]]:
    """A gateway in front of an agent at `url`, and a client of gRPC.

    Args:
        more: Further settings of the agent, as lines of YAML.
        backend: Settings of the backend beside its URL, as YAML in one line.
        settings: Further settings of `gateway:`, likewise.
        before: Text in front of `agents:`.
        settled: As `running`.
    """
    listens = f"gateway: {{ {LISTENS}{', ' if settings else ''}{settings} }}"
    lines = f'backend: {{ url: "{url}"{", " if backend else ""}{backend} }}\n{dedent(more)}'
    text = f"{listens}\n{dedent(before)}\nagents:\n  echo:\n{indent(lines, '    ')}\n"
    async with running(text, path=path, settled=settled) as gateway, dialled(gateway) as client:
        yield gateway, client


@asynccontextmanager
async def grpc_fronted(
    answer: Answer, more: str = "", *, card: bytes | None = None, **given: Any
) -> AsyncIterator[Site]:
    """A gateway in front of an agent over gRPC; `given` is as `fronting` takes it.

    Args:
        card: The card for the gateway's own requests; None if there is none. Nobody else is
            told, and `agent.asked` does not know of it.
    """

    answers = [answer]

    async def played(asked: Asked) -> None:
        # A call that a client made has an id.
        if asked.path not in _CARDS or asked.told("x-request-id"):
            await answers[0](asked)
            return
        agent.asked[:] = [each for each in agent.asked if each is not asked]
        await (asked.fail("UNIMPLEMENTED", "Method not found!") if card is None else asked.write(card))

    async with grpc_agent(played) as agent, fronting(agent.url, more, **given) as (gateway, client):
        yield Site(gateway, agent, client, answers)


_CARDS = frozenset(path for path, method in BY_PATH.items() if method.operation is Operation.GET_EXTENDED_CARD)


def _asked(
    operation: Operation, message: bytes | None, *, version: Version = Version.V1_0, scoped: bool = False
) -> tuple[str, bytes]:
    """The path of a method, and what is said to it.

    Args:
        message: Else one that says no more than whom it is for.
        scoped: Whether it is that of the scoped service.
    """
    said = request(operation, version) if message is None else message
    return method_of(operation, version, scoped=scoped).path, said


async def _told(call: Any, messages: list[bytes]) -> Told:
    async with asyncio.timeout(WAIT):
        code = await call.code()
        trailers = dict(await call.trailing_metadata() or ())
        headers = dict(await call.initial_metadata() or ())
        if isinstance(call, grpc.aio.UnaryUnaryCall) and code is grpc.StatusCode.OK:
            # An answer of one message has all of its metadata behind it.
            headers, trailers = headers | trailers, {}
        details = trailers.pop("grpc-status-details-bin", b"")
        return Told(tuple(messages), code.name, await call.details() or "", details, headers, trailers)
