"""Renders a fault as the answer that the client gets, in its own dialect."""

import math
from collections.abc import Callable

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_status import Status, of_fault, trailers
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import ClientGone, Fault, InsufficientScope, WrongHttpMethod
from gateway.a2a.framing.sse import encode
from gateway.a2a.headers import Pairs
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder


async def refuse(
    request: RequestContext, client: Responder, fault: Fault, *, challenge: str, clock: Callable[[], float]
) -> None:
    """Send a fault: as the answer, or as the last word of one that has begun.

    Args:
        challenge: The `WWW-Authenticate` of a 401; empty for any other fault.
    """
    request.fault = fault
    if isinstance(fault, ClientGone):
        request.status = request.status or fault.http_status
        client.cut()
        return
    if request.binding is Binding.GRPC:
        status = of_fault(fault, id=request.id, version=request.version)
        # RFC 9728 is about HTTP; clients of gRPC find its challenge in the metadata.
        shown = [(b"www-authenticate", challenge.encode("ascii"))] if "resource_metadata" in challenge else []
        await _end_grpc(request, client, status, shown, clock=clock)
        return
    details = fault.details(request.id)
    rpc = request.binding is Binding.JSONRPC
    if rpc:
        body = jsonrpc.render(fault, id=request.rpc_id, version=request.version, details=details, midway=request.stream)
    else:
        body = rest.render(fault, version=request.version, details=details)
    if client.opened:
        await _end_stream(request, client, body)
        return
    request.status = fault.rpc_status if rpc else fault.http_status
    # a2a-go reads the body of an error only where it is plain application/json (protocol §4.2).
    content_type = b"application/json"
    if request.status == 200 and request.expects_events:
        body, content_type = encode(body), b"text/event-stream"
    request.first_byte = clock()
    request.bytes_out = len(body)
    await client.answer(request.status, _headers(request, fault, challenge, content_type), body)


async def _end_grpc(
    request: RequestContext, client: Responder, status: Status, shown: Pairs, *, clock: Callable[[], float]
) -> None:
    """Send the status of a gRPC call: as the whole answer, or behind the messages that went out.

    Args:
        shown: Metadata that are sent with it.
    """
    request.grpc_status = status.code
    request.status = 200
    if client.opened:
        await client.close([*shown, *trailers(status)])
        return
    request.first_byte = clock()
    await client.answer(200, [(b"x-request-id", request.id.encode("ascii")), *shown, *trailers(status)], b"")


async def _end_stream(request: RequestContext, client: Responder, body: bytes) -> None:
    """Send the last event of a stream, or cut it where the dialect has none: loss must not look like success."""
    if request.stream and (request.binding is Binding.JSONRPC or request.version is Version.V1_0):
        named = "error" if request.version is Version.V1_0 else None
        await client.write(encode(body, named))
        await client.close()
    else:
        client.cut()


def _headers(request: RequestContext, fault: Fault, challenge: str, content_type: bytes) -> Pairs:
    headers: Pairs = [(b"content-type", content_type), (b"x-request-id", request.id.encode("ascii"))]
    if request.status == 401:
        headers.append((b"www-authenticate", challenge.encode("ascii")))
    if isinstance(fault, InsufficientScope):
        scope = f', scope="{" ".join(fault.scopes)}"' if fault.scopes else ""
        headers.append((b"www-authenticate", f'Bearer error="insufficient_scope"{scope}'.encode("ascii")))
    if request.status in (429, 503):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil((fault.retry_after or 1) - 1e-6))))
    if isinstance(fault, WrongHttpMethod):
        headers.append((b"allow", ", ".join(fault.allowed).encode("ascii")))
    return headers
