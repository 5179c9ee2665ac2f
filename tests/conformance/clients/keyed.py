"""Channels of gRPC whose calls show an API key."""

from typing import Any

import grpc.aio


class _UnaryCalls(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, key: str) -> None:
        self._key = key

    async def intercept_unary_unary(self, continuation: Any, details: grpc.aio.ClientCallDetails, request: Any) -> Any:
        return await continuation(_with(self._key, details), request)


class _Streams(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, key: str) -> None:
        self._key = key

    async def intercept_unary_stream(self, continuation: Any, details: grpc.aio.ClientCallDetails, request: Any) -> Any:
        return await continuation(_with(self._key, details), request)


def channel(address: str, key: str | None) -> grpc.aio.Channel:
    """A channel in plain text."""
    return grpc.aio.insecure_channel(address, interceptors=[_UnaryCalls(key), _Streams(key)] if key else [])


def _with(key: str, details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
    return details._replace(metadata=grpc.aio.Metadata(*(details.metadata or ()), ("x-api-key", key)))
