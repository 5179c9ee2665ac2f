"""LOCATE, IDENTIFY and DECODE: which endpoint a request is at, in which dialect, who calls, and what is called.

The version is what the client says (header, else query parameter), else what its grammar shows: the JSON-RPC method,
the `/v1` of a path (protocol §1.4). A patch number is nothing; a version that this gateway does not know is refused.

LOCATE refuses nothing by itself: until it is known who asks, an endpoint that exists and one that does not must get
the same answer, in the same dialect, so the dialect is guessed from the head alone until then.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version, parse_version
from gateway.a2a.fault import BadRequest, Fault
from gateway.a2a.path import NAME, PathCall, read_rest, segments
from gateway.a2a.query import query_value
from gateway.exchange import Exchange
from gateway.identity.authenticator import Credentials, Pending
from gateway.routing.table import Endpoint
from gateway.snapshot import Snapshot

CountAuth: TypeAlias = Callable[[str, str, str], None]
"""Told the method, issuer and result of every identification."""

_RESULTS = {"auth_missing": "missing", "auth_expired": "expired", "auth_unavailable": "unavailable"}


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a client knocks.

    Attributes:
        endpoint: None where the path is none.
        path: What stands behind the endpoint's path; None where that means nothing.
        unread: Why the path cannot be read, or None; where there is an endpoint, only its callers may know.
    """

    endpoint: Endpoint | None = None
    path: PathCall | None = None
    unread: BadRequest | None = None

    @property
    def reads_card(self) -> bool:
        """Whether the request reads a card, as anybody may."""
        return self.path is not None and self.path.card is not None


def locate(snapshot: Snapshot, exchange: Exchange) -> Entry:
    """The entry of a request, from its head alone; the exchange learns the dialect in which to answer for now."""
    head = exchange.head
    # By the raw path: one that cannot be read is answered in the caller's dialect, too.
    verbs = not _VERBS.isdisjoint(head.path.decode("latin-1").split("/"))
    exchange.binding = Binding.REST if verbs or head.method != "POST" else Binding.JSONRPC
    try:
        path = segments(head.path)
        if _HOST.fullmatch(head.host) is None:
            return Entry(unread=BadRequest("the Host header names no host"))
        hint = parse_version(version_text(head) or "")
    except BadRequest as fault:
        return Entry(unread=fault)
    exchange.version = hint or (Version.V0_3 if "v1" in path else Version.V1_0)
    if path[: len(snapshot.prefix)] != snapshot.prefix:
        return Entry()
    path = path[len(snapshot.prefix) :]
    endpoint = snapshot.table.locate(head.host, path)
    if endpoint is None:
        return Entry()
    try:
        found = read_rest(head.method, path[len(endpoint.path) :], tenanted=endpoint.tenanted)
    except BadRequest as fault:
        return Entry(endpoint, unread=fault)
    exchange.operation = None if found is None else found.operation
    return Entry(endpoint, found)


async def identify(snapshot: Snapshot, exchange: Exchange, count: CountAuth, wall: Callable[[], float]) -> None:
    """Who calls; the exchange learns it, and None is who shows nothing. Waits only for keys that are being read.

    Args:
        count: Told the method, issuer and result.
        wall: Wall-clock seconds, by which credentials expire.

    Raises:
        AuthInvalid, AuthExpired, AuthUnavailable: a credential was shown that proves nothing, or cannot be checked.
    """
    head, identity = exchange.head, snapshot.identity
    credentials = Credentials(head.all(b"authorization"), head.all(b"x-api-key"))
    try:
        try:
            principal = identity.identify(credentials, wall())
        except Pending as pending:
            await pending.settled()
            principal = identity.identify(credentials, wall())
    except Pending as error:
        count(_method(credentials), "", "unavailable")
        raise faults.AuthUnavailable("the keys to verify the token with are not available") from error
    except Fault as fault:
        count(_method(credentials), "", _RESULTS.get(fault.reason, "invalid"))
        raise
    exchange.principal = principal
    if principal is None:
        count("none", "", "missing")
    else:
        count(principal.method, principal.issuer, "ok")


def _method(shown: Credentials) -> str:
    """How a caller whose credential proves nothing meant to prove itself, by the looks of it."""
    if shown.api_key:
        return "api_key"
    scheme, _, credential = shown.authorization[0].partition(b" ") if shown.authorization else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        return "unknown"
    return "jwt" if credential.count(b".") == 2 else "api_key"


def decode(exchange: Exchange, path: PathCall, body: bytes) -> Call:
    """The call that a request makes; the exchange learns its id before anything else can go wrong.

    Raises:
        BadRequest, ParseFailed, MethodNotFound, BadParams, DuplicateKey: as the binding.
        VersionUnsupported: the client names a version that nobody here speaks.
    """
    head = exchange.head
    text = version_text(head)
    hint = None if not text else parse_version(text)
    exchange.binding = Binding.JSONRPC if path.operation is None else Binding.REST
    exchange.version = hint or (Version.V0_3 if path.prefixed or path.legacy_card else Version.V1_0)
    envelope = None
    if path.operation is None:
        envelope = jsonrpc.open_envelope(body)
        exchange.rpc_id = envelope.id
    if text and hint is None:
        raise faults.VersionUnsupported("this gateway speaks A2A 0.1, 0.2, 0.3 and 1.0")
    if envelope is None:
        call = rest.read_call(path, body, head.query, exchange.version)
    else:
        call = jsonrpc.read_call(envelope, path, head.query, hint)
    exchange.operation = call.operation
    exchange.version = call.dialect.version
    if call.tenant is not None and NAME.fullmatch(call.tenant) is None:
        raise faults.BadParams("a tenant has 1 to 64 characters of A-Z a-z 0-9 . _ -")
    return call


def version_text(head: Head) -> str | None:
    """What the client says of its version, as it says it; None where it says nothing.

    Raises:
        BadRequest: it says two things; the agent would hear both.
    """
    said = {value.strip() for value in head.all(b"a2a-version")} - {b""}
    if len(said) > 1:
        raise BadRequest("two A2A-Version headers say different versions")
    if said:
        return said.pop().decode("latin-1")
    return query_value(head.query, "A2A-Version") if head.query else None


# What a Host header may name; the card of `*.example.com` repeats it.
_HOST = re.compile(r"(?=.{0,253}$)(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)?|\[[0-9a-f:.]{2,45}\]")
_VERBS = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard"})
