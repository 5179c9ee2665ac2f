"""The one place that turns a fault into an answer, in the caller's own dialect."""

import math
from collections.abc import Callable, Mapping, Sequence

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_status import Status, of_fault, trailers
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import Fault
from gateway.a2a.framing.sse import encode
from gateway.a2a.headers import Pairs
from gateway.exchange import Exchange
from gateway.principal import Principal
from gateway.routing.endpoint import explain_conflict
from gateway.routing.route import Requirement, Rule
from gateway.wire import Wire


async def refuse(exchange: Exchange, wire: Wire, fault: Fault, *, challenge: str, clock: Callable[[], float]) -> None:
    """Say why the call cannot be answered: as an answer, or as the last word of one that has begun.

    Args:
        challenge: What a 401 asks for (`WWW-Authenticate`).
    """
    exchange.fault = fault
    if isinstance(fault, faults.ClientGone):
        # Nobody reads it, and nothing more may wait for this client.
        exchange.status = exchange.status or fault.http_status
        wire.cut()
        return
    if exchange.binding is Binding.GRPC:
        await _end(exchange, wire, of_fault(fault, id=exchange.id, version=exchange.version), clock=clock)
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
        await _end_badly(exchange, wire, body)
        return
    exchange.status = fault.rpc_status if rpc else fault.http_status
    # a2a-go reads the body of an error only where it is plain application/json (protocol §4.2).
    said = b"application/json"
    if exchange.status == 200 and exchange.hears_events:
        body, said = encode(body), b"text/event-stream"
    exchange.first_byte = clock()
    exchange.bytes_out = len(body)
    await wire.answer(exchange.status, _headers(exchange, fault, challenge, said), body)


async def _end(exchange: Exchange, wire: Wire, status: Status, *, clock: Callable[[], float]) -> None:
    """The status of a call over gRPC: as the whole answer, or behind the messages that went out."""
    exchange.grpc_status = status.code
    exchange.status = 200
    if wire.opened:
        await wire.close(trailers(status))
        return
    exchange.first_byte = clock()
    await wire.answer(200, [(b"x-request-id", exchange.id.encode("ascii")), *trailers(status)], b"")


def _headers(exchange: Exchange, fault: Fault, challenge: str, said: bytes) -> Pairs:
    headers: Pairs = [(b"content-type", said), (b"x-request-id", exchange.id.encode("ascii"))]
    if exchange.status == 401:
        headers.append((b"www-authenticate", challenge.encode("ascii")))
    if isinstance(fault, faults.InsufficientScope):
        scope = f', scope="{" ".join(fault.scopes)}"' if fault.scopes else ""
        headers.append((b"www-authenticate", f'Bearer error="insufficient_scope"{scope}'.encode("ascii")))
    if exchange.status in (429, 503):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil((fault.retry_after or 1) - 1e-6))))
    if isinstance(fault, faults.WrongHttpMethod):
        headers.append((b"allow", ", ".join(fault.allowed).encode("ascii")))
    return headers


async def _end_badly(exchange: Exchange, wire: Wire, body: bytes) -> None:
    """The last word on a stream, or none where the dialect has no event for it: loss must not look like success."""
    if exchange.stream and (exchange.binding is Binding.JSONRPC or exchange.version is Version.V1_0):
        named = "error" if exchange.version is Version.V1_0 else None
        await wire.write(encode(body, named))
        await wire.close()
    else:
        wire.cut()


def turned_away(kind: type[Fault], contenders: Sequence[Rule] = ()) -> Fault:
    """The refusal of a request that routing gave to no agent; what must look alike has the same words.

    Args:
        contenders: The rules of a conflict that the caller may know of.
    """
    return kind(explain_conflict(contenders) if kind is faults.RouteConflict else _WORDS[kind])


def insufficient(requirement: Requirement, principal: Principal) -> Fault:
    """The refusal of a caller that lacks what an agent requires; the log says what, the client is told the scopes."""
    message = _WORDS[faults.InsufficientScope]
    if requirement.scopes:
        message = f"{message}; it requires the scope {' '.join(requirement.scopes)}"
    return faults.InsufficientScope(
        message, detail=f"lacks {', '.join(requirement.lacking(principal))}", scopes=requirement.scopes
    )


_WORDS: Mapping[type[Fault], str] = {
    faults.AuthMissing: "show a credential",
    faults.NotAdmitted: "this tenant is not admitted",
    faults.NoEndpoint: "there is nothing here",
    faults.TenantDeniedEndpoint: "there is nothing here",
    faults.NoRoute: "no agent here answers this request",
    faults.TenantDenied: "no agent here answers this request",
    faults.HiddenConflict: "no agent here answers this request",
    faults.InsufficientScope: "this agent requires a scope, role or claim that the credential does not have",
    faults.BadParams: "this agent needs a tenant",
}
