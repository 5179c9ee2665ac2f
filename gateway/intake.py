"""LOCATE, IDENTIFY and DECODE: which endpoint a request is at, in which dialect, who calls, and what is called.

The version is what the client says (header, else query parameter), else what its grammar shows: the JSON-RPC method,
the `/v1` of a path (protocol §1.4). A patch number is nothing; a version that this gateway does not know is refused.

LOCATE refuses nothing by itself: until it is known who asks, an endpoint that exists and one that does not must get
the same answer, in the same dialect, so the dialect is guessed from the head alone until then.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeAlias

import msgspec

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_method import SCOPE_FIELD, GrpcMethod
from gateway.a2a.bounds import BOUNDS, BodyBounds
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version, parse_version
from gateway.a2a.envelope import read_grpc
from gateway.a2a.fault import BadRequest, Fault
from gateway.a2a.headers import refuse_ambiguous
from gateway.a2a.operation import Operation
from gateway.a2a.path import WRONG_NAME, PathCall, read_rest, segments
from gateway.a2a.query import query_value
from gateway.a2a.tenant import is_tenant
from gateway.entry import Entry, Place
from gateway.exchange import Exchange
from gateway.identity.authenticator import Credentials
from gateway.identity.mtls import caller_of
from gateway.resources import Resources
from gateway.routing.endpoint import HOST
from gateway.snapshot import Snapshot

CountAuth: TypeAlias = Callable[[str, str, str], None]
"""Told the method, issuer and result of every identification."""

_RESULTS = {
    "auth_missing": "missing",
    "auth_expired": "expired",
    "auth_unavailable": "unavailable",
    "rate_limited": "limited",
}


def locate(snapshot: Snapshot, exchange: Exchange) -> Entry:
    """The entry of a request, from its head alone; the exchange learns the dialect in which to answer for now."""
    head = exchange.head
    found = head.known.get(Located)
    if not isinstance(found, Located) or found.resources is not snapshot.resources:
        # What another snapshot told is let go, with its credentials and its connections.
        head.known.clear()
        found = _locate(snapshot, head)
        if found.entry.unread is None:
            # A fault that is raised twice grows.
            head.known[Located] = found
    exchange.binding = found.binding
    if found.entry.unread is None:
        exchange.operation = found.operation
    exchange.version = found.version
    return found.entry


class Located(msgspec.Struct, frozen=True, eq=False):
    """What a head tells of where its request knocks, by one snapshot.

    Attributes:
        resources: Those of the snapshot, which it is known by: it itself is not kept while a connection is idle.
        said: What the client says of its version, as it says it.
        hint: The version that this names, or None.
    """

    resources: Resources
    binding: Binding
    version: Version
    operation: Operation | None
    entry: Entry
    said: str | None
    hint: Version | None


def _locate(snapshot: Snapshot, head: Head) -> Located:
    # Who posts to the path of a method of gRPC over HTTP knocks somewhere else than who calls it.
    key = (head.method if head.grpc is None else "", head.path, head.host)
    place = snapshot.places.get(key)
    if place is None:
        place = _place(snapshot, head)
        if place.lasting:
            if len(snapshot.places) >= _MOST_PLACES:
                snapshot.places.clear()
            snapshot.places[key] = place
    entry, said, hint = place.entry, None, None
    if entry.endpoint is not None or entry.unread is None:
        try:
            refuse_ambiguous(head.headers)
            if snapshot.cors.is_forged(head):
                raise BadRequest("a page of this origin may not call")  # noqa: TRY301 - as any other that is unread
            said = version_text(head)
            hint = parse_version(said or "")
        except BadRequest as fault:
            entry = Entry(unread=fault)
    # Over gRPC the package tells the generation, whatever a header says (protocol trap 25).
    version = place.version if head.grpc is not None else hint or place.version
    return Located(snapshot.resources, place.binding, version, place.operation, entry, said, hint)


def _place(snapshot: Snapshot, head: Head) -> Place:
    if head.grpc is not None:
        return _grpc_place(snapshot, head.grpc)
    # By the raw path: one that cannot be read is answered in the caller's dialect, too. Escapes are HTTP+JSON's.
    verbs = b"%" in head.path or not _VERBS.isdisjoint(head.path.decode("latin-1").split("/"))
    binding = Binding.REST if verbs or head.method != "POST" else Binding.JSONRPC
    try:
        path = segments(head.path)
    except BadRequest as fault:
        return Place(binding, Entry(unread=fault))
    if HOST.fullmatch(head.host) is None:
        return Place(binding, Entry(unread=BadRequest("the Host header names no host")))
    version = Version.V0_3 if "v1" in path else Version.V1_0
    if path[: len(snapshot.prefix)] != snapshot.prefix:
        return Place(binding, version=version)
    path = path[len(snapshot.prefix) :]
    endpoint = snapshot.table.locate(head.host, path)
    if endpoint is None:
        return Place(binding, version=version)
    try:
        found = read_rest(head.method, path[len(endpoint.path) :], tenanted=endpoint.tenanted)
    except BadRequest as fault:
        return Place(binding, Entry(endpoint, unread=fault), version)
    operation = None if found is None else found.operation
    lasting = found is not None and found.task_id is None and len(head.path) <= _LONGEST_KEPT
    return Place(binding, Entry(endpoint, found), version, operation, lasting)


def _grpc_place(snapshot: Snapshot, method: GrpcMethod) -> Place:
    """Where a call over gRPC knocks: it has no path, and grpc.aio shows no authority, so there is one endpoint."""
    entry = Entry(snapshot.table.grpc_endpoint, PathCall(method.operation))
    return Place(Binding.GRPC, entry, method.version, method.operation, lasting=True)


async def identify(snapshot: Snapshot, exchange: Exchange, count: CountAuth, wall: Callable[[], float]) -> None:
    """Authenticate the caller; the exchange gets its principal, or None where it shows nothing.

    Waits only for the turn of a token that is not cached, and for keys that are being read.

    Args:
        count: Told the method, issuer and result.
        wall: Wall-clock seconds, by which credentials expire.

    Raises:
        AuthInvalid, AuthExpired, AuthUnavailable: a credential was shown that proves nothing, or cannot be checked.
        RateLimited: too many of this address proved nothing.
        BadRequest, NotAdmitted: a trusted client's identity headers name nobody, or somebody of another tenant.
    """
    head = exchange.head
    known = head.known.get(Credentials)
    if isinstance(known, Credentials) and known.address == exchange.client_ip:
        shown = known
    else:
        shown = Credentials(head.all(b"authorization"), head.all(b"x-api-key"), exchange.client_ip, head.certificate)
        head.known[Credentials] = shown
    try:
        principal = await snapshot.authenticator.authenticate(shown, wall, exchange.started)
    except Fault as fault:
        issuer = fault.issuer if isinstance(fault, faults.AuthMissing | faults.AuthUnavailable) else ""
        count(_method(shown), issuer, _RESULTS.get(fault.reason, "invalid"))
        raise
    exchange.principal = principal
    if principal is None:
        count("none", "", "missing")
        return
    count(principal.method, principal.issuer, "ok")
    if principal.trusted:
        exchange.principal = caller_of(principal, head, snapshot.identity_headers)


def _method(shown: Credentials) -> str:
    """How a caller whose credential proves nothing meant to prove itself, by the looks of it."""
    if shown.api_key:
        return "api_key"
    if not shown.authorization and shown.certificate is not None:
        return "mtls"
    scheme, _, credential = shown.authorization[0].partition(b" ") if shown.authorization else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        return "unknown"
    return "jwt" if credential.count(b".") == 2 else "api_key"


def decode(
    exchange: Exchange, path: PathCall, body: bytes, bounds: BodyBounds = BOUNDS, *, scope_field: int = SCOPE_FIELD
) -> Call:
    """The call that a request makes; the exchange learns its id before anything else can go wrong.

    Args:
        scope_field: The number of `scope` in requests of the scoped service of gRPC.

    Raises:
        BadRequest, ParseFailed, MethodNotFound, BadParams, DuplicateKey: as the binding.
        VersionUnsupported: the client names a version that nobody here speaks.
    """
    head = exchange.head
    located = head.known.get(Located)
    if isinstance(located, Located):
        text, hint = located.said, located.hint
    else:
        text = version_text(head)
        hint = None if not text else parse_version(text)
    if head.grpc is not None:
        if text and hint is None:
            raise _unknown_version()
        return _learned(exchange, read_grpc(head.grpc, body, scope_field=scope_field, bounds=bounds))
    exchange.binding = Binding.JSONRPC if path.operation is None else Binding.REST
    exchange.version = hint or (Version.V0_3 if path.prefixed or path.legacy_card else Version.V1_0)
    envelope = None
    if path.operation is None:
        envelope = jsonrpc.open_envelope(body, bounds)
        exchange.rpc_id = envelope.id
    if text and hint is None:
        raise _unknown_version()
    if envelope is None:
        call = rest.read_call(path, body, head.query, exchange.version, bounds=bounds)
    else:
        call = jsonrpc.read_call(envelope, path, head.query, hint)
    return _learned(exchange, call)


def _unknown_version() -> Fault:
    return faults.VersionUnsupported("this gateway speaks A2A 0.1, 0.2, 0.3 and 1.0")


def _learned(exchange: Exchange, call: Call) -> Call:
    exchange.operation = call.operation
    exchange.version = call.dialect.version
    if call.tenant is not None and not is_tenant(call.tenant):
        raise faults.BadParams(WRONG_NAME)
    return call


async def decode_aside(
    exchange: Exchange,
    path: PathCall,
    body: bytes,
    *,
    bounds: BodyBounds,
    aside: Executor,
    scope_field: int = SCOPE_FIELD,
) -> Call:
    """As `decode`, in a thread, so that other requests do not wait for a long body.

    The exchange learns what there is to learn when the thread is done; who is cancelled meanwhile learns nothing.
    """
    learned = Exchange(exchange.head, exchange.id, exchange.started, exchange.meter, exchange.kept)
    # A refusal is told in the dialect of the head, as far as the body does not say otherwise: over gRPC it never does.
    learned.binding, learned.version, learned.operation = exchange.binding, exchange.version, exchange.operation
    work = partial(decode, learned, path, body, bounds, scope_field=scope_field)
    reading = asyncio.get_running_loop().run_in_executor(aside, work)
    try:
        return await reading
    finally:
        if reading.done() and not reading.cancelled():
            exchange.binding, exchange.version = learned.binding, learned.version
            exchange.rpc_id, exchange.operation = learned.rpc_id, learned.operation


def version_text(head: Head) -> str | None:
    """What the client says of its version, as it says it; None where it says nothing.

    Raises:
        BadRequest: the header says one thing and the query another; the agent would hear both.
    """
    said = (head.first(b"a2a-version") or b"").strip().decode("latin-1")
    queried = query_value(head.query, "A2A-Version") if head.query else None
    if said and queried and said != queried:
        raise BadRequest("A2A-Version says one thing in the header and another in the query")
    return said or queried


_MOST_PLACES = 4096
_LONGEST_KEPT = 256
_VERBS = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard"})
