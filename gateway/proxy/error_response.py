"""Renders a fault as the answer that the client gets, in its own dialect."""

import math
from collections.abc import Callable

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_status import Status, of_fault, trailers
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import ClientGone, Fault, InsufficientScope, WrongHttpMethod
from gateway.a2a.framing.sse import encode
from gateway.a2a.headers import Pairs
from gateway.proxy.request import Exchange
from gateway.proxy.responder import Wire


async def refuse(exchange: Exchange, wire: Wire, fault: Fault, *, challenge: str, clock: Callable[[], float]) -> None:
    """Send a fault: as the answer, or as the last word of one that has begun.

    Args:
        challenge: The `WWW-Authenticate` of a 401.
    """
    exchange.fault = fault
    if isinstance(fault, ClientGone):
        exchange.status = exchange.status or fault.http_status
        wire.cut()
        return
    if exchange.binding is Binding.GRPC:
        await _end_grpc(exchange, wire, of_fault(fault, id=exchange.id, version=exchange.version), clock=clock)
        return
    details = fault.details(exchange.id)
    rpc = exchange.binding is Binding.JSONRPC
    if rpc:
        body = jsonrpc.render(
            fault, id=exchange.rpc_id, version=exchange.version, details=details, midway=exchange.stream
        )
    else:
        body = rest.render(fault, version=exchange.version, details=details)
    if wire.opened:
        await _end_stream(exchange, wire, body)
        return
    exchange.status = fault.rpc_status if rpc else fault.http_status
    # a2a-go reads the body of an error only where it is plain application/json (protocol §4.2).
    content_type = b"application/json"
    if exchange.status == 200 and exchange.hears_events:
        body, content_type = encode(body), b"text/event-stream"
    exchange.first_byte = clock()
    exchange.bytes_out = len(body)
    await wire.answer(exchange.status, _headers(exchange, fault, challenge, content_type), body)


async def _end_grpc(exchange: Exchange, wire: Wire, status: Status, *, clock: Callable[[], float]) -> None:
    """Send the status of a gRPC call: as the whole answer, or behind the messages that went out."""
    exchange.grpc_status = status.code
    exchange.status = 200
    if wire.opened:
        await wire.close(trailers(status))
        return
    exchange.first_byte = clock()
    await wire.answer(200, [(b"x-request-id", exchange.id.encode("ascii")), *trailers(status)], b"")


async def _end_stream(exchange: Exchange, wire: Wire, body: bytes) -> None:
    """Send the last event of a stream, or cut it where the dialect has none: loss must not look like success."""
    if exchange.stream and (exchange.binding is Binding.JSONRPC or exchange.version is Version.V1_0):
        named = "error" if exchange.version is Version.V1_0 else None
        await wire.write(encode(body, named))
        await wire.close()
    else:
        wire.cut()


def _headers(exchange: Exchange, fault: Fault, challenge: str, content_type: bytes) -> Pairs:
    headers: Pairs = [(b"content-type", content_type), (b"x-request-id", exchange.id.encode("ascii"))]
    if exchange.status == 401:
        headers.append((b"www-authenticate", challenge.encode("ascii")))
    if isinstance(fault, InsufficientScope):
        scope = f', scope="{" ".join(fault.scopes)}"' if fault.scopes else ""
        headers.append((b"www-authenticate", f'Bearer error="insufficient_scope"{scope}'.encode("ascii")))
    if exchange.status in (429, 503):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil((fault.retry_after or 1) - 1e-6))))
    if isinstance(fault, WrongHttpMethod):
        headers.append((b"allow", ", ".join(fault.allowed).encode("ascii")))
    return headers
