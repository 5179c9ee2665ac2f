"""A client on real sockets: each call has a connection of its own, but those over gRPC share one."""

import asyncio
from contextlib import suppress
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types

from tests.isolation.answer import Told, over_grpc, over_http
from tests.isolation.ask import STREAMS, Ask
from tests.isolation.site import Caller, Site
from tests.support.gateway import Answer, Client, request

_WAIT = 10.0
_SILENCE = 0.25
"""Seconds after which a stream that has told something tells no more."""


class Clients:
    """All clients of one site, for one run."""

    def __init__(self, site: Site) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._gateways = [(port, grpc.aio.insecure_channel(address, options)) for port, address in site.addresses]
        self._asked = 0

    async def aclose(self) -> None:
        for _, channel in self._gateways:
            await channel.close()

    async def ask(self, who: Caller, ask: Ask) -> Told:
        """Return the gateway's answer to a caller; with several gateways, they are asked in turn."""
        port, channel = self._gateways[self._asked % len(self._gateways)]
        self._asked += 1
        async with asyncio.timeout(_WAIT):
            if ask.speech.binding == "grpc":
                return await self._over_grpc(channel, who, ask)
            return await self._over_http(port, who, ask)

    async def _over_http(self, port: int, who: Caller, ask: Ask) -> Told:
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        try:
            method, target, headers, body = ask.over_http()
            name, value = who.credential
            pairs = [(each.encode(), said.encode()) for each, said in {**headers, name: value}.items()]
            await client.send(request(method, target, body, pairs))
            status, answered = await client.head()
            # A stream that is one event, an error, comes whole.
            streams = ("transfer-encoding", "chunked") in answered
            said = await (_events(client, ask) if streams else client.rest())
            return over_http(Answer(status, answered, said))
        finally:
            client.leave()

    async def _over_grpc(self, channel: Any, who: Caller, ask: Ask) -> Told:
        path, message = ask.over_grpc()
        name, value = who.credential
        metadata = [(name.lower(), value), ("a2a-version", ask.speech.version)]
        said: list[bytes] = []
        if ask.operation in STREAMS:
            call = channel.unary_stream(path)(message, metadata=metadata)
            with suppress(grpc.aio.AioRpcError, TimeoutError):
                while (event := await _patiently(call.read(), said)) is not grpc.aio.EOF:
                    said.append(bytes(event))
                    if ask.operation == "SubscribeToTask":
                        break
            if not call.done() and said:
                call.cancel()
                return over_grpc(ask, said, "OK", trailers={}, headers={})
        else:
            call = channel.unary_unary(path)(message, metadata=metadata)
            with suppress(grpc.aio.AioRpcError):
                said.append(bytes(await call))
        code = await call.code()
        trailers, headers = dict(await call.trailing_metadata() or ()), dict(await call.initial_metadata() or ())
        words = await call.details() or ""
        return over_grpc(ask, said, code.name, words, trailers=trailers, headers=headers)


async def _events(client: Client, ask: Ask) -> bytes:
    """Return the events of a stream until it ends or falls silent; a subscription is left after its first event."""
    body = b""
    with suppress(TimeoutError, asyncio.IncompleteReadError):
        while piece := await _patiently(client.piece(), body if b"data:" in body else b""):
            body += piece
            if ask.operation == "SubscribeToTask" and b"data:" in body:
                break
    return body


async def _patiently(reading: Any, said: Any) -> Any:
    async with asyncio.timeout(_SILENCE if said else None):
        return await reading
