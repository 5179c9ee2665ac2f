"""One agent over HTTP: which of its interfaces a call goes to, and the request it gets.

The request is built from what was decided on, never copied from the client's: method, path and query from the parsed
call, headers from allow-lists, the body as it came unless its `tenant` has to change.
"""

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from gateway.a2a import parameter
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call, Head
from gateway.a2a.card import CardInterface, dial_path
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import Fault, MethodNotAllowed, VersionUnsupported
from gateway.a2a.headers import TO_AGENT, Pairs, media_type, pass_on
from gateway.a2a.naming import Alias
from gateway.a2a.path import rest_path
from gateway.a2a.translation import can_ask, is_spoken
from gateway.principal import Principal
from gateway.upstream.connections import ConnectionPool
from gateway.upstream.request import header_lines, start_lines, whole_head
from gateway.upstream.response import Response

A2A_JSON = b"application/a2a+json"
_LONGEST_START = 256
_LONGEST_OPENING = 4096
_MOST_KNOWN = 16
"""What is worked out from one head that is kept at most: a client may call many agents with it."""
RELAYED = (Binding.JSONRPC, Binding.REST)
# Not the space, which HTTP drops at the ends of a value: two subjects must never look alike. And not the escape itself.
_IDENTITY_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


class Interface(msgspec.Struct, frozen=True):
    """Where an agent speaks one dialect.

    Attributes:
        path: Path of the interface on the backend's origin, as the card or the file has it.
        tenants: Tenants that the agent's own card declares for it.
    """

    dialect: Dialect
    path: str
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the agent may take, in seconds; see `config.agent.Timeouts`."""

    connect: float
    first_byte: float
    send: float
    stream_idle: float
    total: float


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the configuration says of the requests that an agent gets.

    Attributes:
        tenant: `strip`, `keep` or a value for the `tenant` field; None for what the agent's card asks for.
        credentials: Headers by which the gateway shows itself to the agent.
        forwarded: Names of client headers beside those of `TO_AGENT`.
        forward_caller: Whether the caller's own credential goes along.
    """

    tenant: str | None = None
    credentials: tuple[tuple[bytes, bytes], ...] = ()
    forwarded: frozenset[bytes] = frozenset()
    forward_caller: bool = False


class Caller(msgspec.Struct, frozen=True):
    """What the agent is told of the caller: who it is, from where, and under which request id."""

    principal: Principal
    forwarded_for: str
    request_id: str


class Reading(Protocol):
    """What has been read of an agent's card so far."""

    @property
    def version(self) -> int:
        """Grows whenever the card changes."""

    @property
    def spoken(self) -> tuple[CardInterface, ...]:
        """The interfaces of the card, in its order; empty while it is unread."""


class HttpUpstream:
    """One backend of one agent, over HTTP.

    Args:
        backend: The key of the backend in metrics and logs.
        binding: The binding that the file writes, or None for what the card says.
        version: The version that the file writes, or None.
        public_url: The gateway's own, which an agent may advertise in its card.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        pool: ConnectionPool,
        cards: Reading,
        timeouts: Timeouts,
        treatment: Treatment,
        binding: Binding | None = None,
        version: Version | None = None,
        public_url: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        self.backend = backend
        self.url = url
        self.pool = pool
        self.cards = cards
        self.timeouts = timeouts
        self.treatment = treatment
        self._path = parts.path or "/"
        self._host = parts.netloc.encode("ascii")
        self._binding = binding
        self._version = version
        self._public_url = public_url
        # What the gateway sets itself no client adds to.
        own = {name for name, _ in treatment.credentials} | {b"content-type"}
        self._allowed = (TO_AGENT | treatment.forwarded) - own
        self._starts: dict[tuple[bytes, bytes], bytes] = {}
        self._read: tuple[int, dict[Dialect, Interface]] | None = None

    def interfaces(self) -> dict[Dialect, Interface]:
        """What the agent speaks, in the order of its card; empty while the card is unread and the file silent."""
        version = self.cards.version
        if self._read is None or self._read[0] != version:
            self._read = (version, self._interfaces())
        return self._read[1]

    def interface(self, call: Call, meant: tuple[Dialect, ...]) -> Interface:
        """Where the call goes: where its own dialect is spoken, else where one is that it can be translated to.

        Args:
            meant: The dialects that it may be meant in (`spellings`).

        Raises:
            VersionUnsupported: the agent speaks no dialect that is known here.
            MethodNotAllowed: what is asked for is no operation of the agent's generation.
        """
        spoken = self.interfaces()
        for dialect in meant:
            found = spoken.get(dialect)
            if found is not None:
                return found
            if not spoken and not self.cards.spoken and not self._overruled(dialect):
                # The card is unread: the client's own dialect is assumed at the backend's URL.
                return Interface(dialect, self._path)
        if not is_spoken(meant[0]) or (not spoken and self.cards.spoken):
            # The card is read, and names nothing that is spoken here.
            raise self._unspoken(call.dialect, spoken)
        if not spoken:
            # What the file leaves open is assumed to be as the client has it.
            assumed = Dialect(self._binding or meant[0].binding, self._version or meant[0].version)
            spoken = {assumed: Interface(assumed, self._path)}
        askable = [found for dialect, found in spoken.items() if can_ask(call.operation, dialect)]
        if askable:
            return min(askable, key=lambda found: _distance(meant[0], found.dialect))
        if any(is_spoken(dialect) for dialect in spoken):
            generations = " and ".join(sorted({str(dialect.version) for dialect in spoken}))
            raise MethodNotAllowed(f"this agent speaks A2A {generations}, which has no {call.operation}")
        raise self._unspoken(call.dialect, spoken)

    def send(self, call: Call, interface: Interface, head: Head, caller: Caller) -> Coroutine[Any, Any, Response]:
        """Send the call; the answer's head has arrived when this was awaited, and whoever gets it closes it.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool.
        """
        tenant = self._tenant(call, interface)
        body = call.body if call.told and tenant == call.tenant else _body(call, tenant)
        known = head.known.get(self)
        if isinstance(known, _Opening) and known.opens(call, interface, body, caller):
            opening = known.lines
        else:
            opening = self._opening(call, interface, tenant, body, head=head, caller=caller)
        sized = body or call.dialect.binding is Binding.JSONRPC or self._method(call, head) == b"POST"
        own = b"x-request-id: %b\r\n" % caller.request_id.encode("ascii")
        timeouts = self.timeouts
        # Not awaited here: each frame in between is gone through again when the answer comes.
        return self.pool.request(
            whole_head(opening, own, content_length=len(body) if sized else None),
            body,
            connect=timeouts.connect,
            first_byte=timeouts.send if call.operation.sends else timeouts.first_byte,
            repeatable=call.operation.repeatable,
        )

    def tenant(self, call: Call, interface: Interface) -> str | None:
        """What the agent is told in the A2A `tenant` field."""
        return self._tenant(call, interface)

    def restores_tenant(self, call: Call, interface: Interface) -> bool:
        """Whether the agent sees another `tenant` than the client wrote, which its echo must not show."""
        return self._tenant(call, interface) != call.tenant

    def _interfaces(self) -> dict[Dialect, Interface]:
        found: dict[Dialect, Interface] = {}
        for spoken in self.cards.spoken:
            dialect = spoken.dialect
            if dialect.binding not in RELAYED or self._overruled(dialect):
                continue
            written = self._binding is not None
            path = self._path if written else dial_path(spoken.url, self.url, self._public_url)
            before = found.get(dialect)
            # A tenant becomes a path segment, so one that climbs is none.
            tenants = () if spoken.tenant in (None, ".", "..") else (spoken.tenant,)
            if before is None:
                found[dialect] = Interface(dialect, path, tenants)
            elif before.path == path:
                found[dialect] = Interface(dialect, path, (*before.tenants, *tenants))
        if self._binding is not None and self._version is not None:
            dialect = Dialect(self._binding, self._version)
            found.setdefault(dialect, Interface(dialect, self._path))
        return found

    def _overruled(self, dialect: Dialect) -> bool:
        return (self._binding is not None and dialect.binding is not self._binding) or (
            self._version is not None and dialect.version is not self._version
        )

    def _unspoken(self, wanted: Dialect, spoken: dict[Dialect, Interface]) -> Fault:
        words = ", ".join(f"A2A {dialect.version} over {dialect.binding}" for dialect in spoken) or "another dialect"
        message = f"this agent speaks {words}, not A2A {wanted.version} over {wanted.binding}"
        bindings = {dialect.binding for dialect in spoken} or {self._binding or wanted.binding}
        if wanted.binding in bindings:
            return VersionUnsupported(message)
        return MethodNotAllowed(message)

    def _tenant(self, call: Call, interface: Interface) -> str | None:
        match self.treatment.tenant:
            case None:
                # What only the gateway needed is stripped; a tenant that the agent's own card asks for is the agent's.
                if not interface.tenants or call.tenant in interface.tenants:
                    return call.tenant if interface.tenants else None
                return interface.tenants[0]
            case "strip":
                return None
            case "keep":
                return call.tenant
            case value:
                return value

    def _method(self, call: Call, head: Head) -> bytes:
        if call.dialect.binding is Binding.JSONRPC:
            return b"POST"
        return (call.verb or head.method).encode("ascii")

    def _target(self, call: Call, interface: Interface, tenant: str | None) -> bytes:
        if call.path.legacy_card:
            # 0.2.1 resolves the path against the card's URL.
            path = interface.path.rstrip("/").rpartition("/")[0] + "/agent/authenticatedExtendedCard"
        elif call.dialect.binding is Binding.JSONRPC:
            path = interface.path
        else:
            middle = "" if tenant is None else "/" + quote(tenant, safe="")
            path = interface.path.rstrip("/") + middle + rest_path(call.path, call.dialect.version)
        return path.encode("ascii") + (b"?" + call.query if call.query else b"")

    def _start(self, method: bytes, target: bytes) -> bytes:
        start = self._starts.get((method, target))
        if start is None:
            start = start_lines(method, target, self._host)
            if len(target) <= _LONGEST_START:
                if len(self._starts) >= _MOST_KNOWN:
                    self._starts.clear()
                self._starts[method, target] = start
        return start

    def _opening(
        self, call: Call, interface: Interface, tenant: str | None, body: bytes, *, head: Head, caller: Caller
    ) -> bytes:
        """The head but for the request's id and its length; kept where the next call is likely to have the same."""
        opening = self._start(self._method(call, head), self._target(call, interface, tenant))
        opening += self._lines(call, body, head, caller)
        if _is_plain(call) and body and len(opening) <= _LONGEST_OPENING:
            head.known[self] = _Opening(interface, caller.principal, caller.forwarded_for, opening)
        return opening

    def _lines(self, call: Call, body: bytes, head: Head, caller: Caller) -> bytes:
        """The headers but for the request id; the same for the next request with the same head of the same caller."""
        dialect = call.dialect
        key = (self, dialect if call.verb else dialect.binding, body != b"", call.verb and call.operation.streams)
        found = head.known.get(key)
        if isinstance(found, _Prepared) and found.principal is caller.principal and found.peer == caller.forwarded_for:
            return found.lines
        lines = header_lines(self._headers(call, body, head, caller))
        if len(head.known) >= _MOST_KNOWN:
            head.known.clear()
        head.known[key] = _Prepared(caller.principal, caller.forwarded_for, lines)
        return lines

    def _headers(self, call: Call, body: bytes, head: Head, caller: Caller) -> Pairs:
        headers: Pairs
        if call.verb:
            headers = pass_on(head.headers, self._allowed - _SPOKEN) + _spoken(call, head)
        else:
            headers = pass_on(head.headers, self._allowed)
        if body:
            # Never the client's own words: by another charset an agent would read another document (safety T8).
            relayed = call.dialect.binding is Binding.REST and not call.verb
            a2a = relayed and media_type(head.first(b"content-type")) == A2A_JSON
            headers.append((b"content-type", A2A_JSON if a2a else b"application/json"))
        treatment = self.treatment
        if treatment.forward_caller:
            headers += [pair for pair in head.headers if pair[0] in (b"authorization", b"x-api-key")]
        headers += treatment.credentials
        headers.append((b"accept-encoding", b"identity"))
        headers.append((b"x-forwarded-for", caller.forwarded_for.encode("ascii", "replace")))
        headers.append((b"x-a2a-tenant", caller.principal.tenant.encode("ascii", "replace")))
        if caller.principal.subject:
            subject = quote(caller.principal.subject, safe=_IDENTITY_SAFE)
            headers.append((b"x-a2a-subject", subject.encode("ascii")))
        return headers


def _is_plain(call: Call) -> bool:
    """Whether nothing of the request's head depends on what is called."""
    return call.dialect.binding is Binding.JSONRPC and not call.query and not call.verb and not call.path.legacy_card


class _Opening(msgspec.Struct, frozen=True, eq=False):
    """The beginning of the requests that are plain, of one caller behind one client to one interface."""

    interface: Interface
    principal: Principal
    peer: str
    lines: bytes

    def opens(self, call: Call, interface: Interface, body: bytes, caller: Caller) -> bool:
        """Whether a request with this body begins with it."""
        return (
            self.interface is interface
            and self.principal is caller.principal
            and self.peer == caller.forwarded_for
            and body != b""
            and _is_plain(call)
        )


class _Prepared(msgspec.Struct, frozen=True, eq=False):
    """The headers for one caller behind one client."""

    principal: Principal
    peer: str
    lines: bytes


def spellings(call: Call, alias: Alias | None = None) -> tuple[Dialect, ...]:
    """The dialects that a call may be meant in, the likeliest first: some method names belong to two generations.

    Args:
        alias: What is known of the task that it names: who called it so before tells which generation is meant.
    """
    dialect = call.dialect
    if call.path.legacy_card:
        return (_JSONRPC_0_3,)
    if dialect.binding is not Binding.JSONRPC:
        return (dialect,)
    if call.method in jsonrpc.SHARED_WITH_0_1 or call.method in jsonrpc.SHARED_WITH_0_3:
        if alias is not None:
            return (_JSONRPC_0_3 if alias.newer else _JSONRPC_0_1,)
        if call.method in jsonrpc.SHARED_WITH_0_1:
            return dialect, _JSONRPC_0_1
        # Later objects under a name of 0.1 are meant for agents that answer to it all the same.
        newer = not _LATER.isdisjoint(call.params.members)
        return (_JSONRPC_0_3 if newer else _JSONRPC_0_1,)
    return (dialect,)


_JSONRPC_0_1 = Dialect(Binding.JSONRPC, Version.V0_1)
_JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
_LATER = frozenset({"taskId", "task_id", "pushNotificationConfigId"})
"""What parameters of push configurations have since 0.2."""


def _distance(ours: Dialect, theirs: Dialect) -> tuple[int, bool]:
    """How much is lost on the way between two dialects: least where only the envelope differs."""
    if theirs.version is ours.version:
        return 0, theirs.binding is not ours.binding
    return 1 + _GENERATIONS.index(theirs.version), theirs.binding is not ours.binding


_GENERATIONS = (Version.V1_0, Version.V0_3, Version.V0_1)

_SPOKEN = frozenset({b"a2a-version", b"a2a-extensions", b"x-a2a-extensions", b"accept", b"content-type"})
"""Headers in which a generation and a binding show; who translates says them itself."""
EXTENSIONS = frozenset({b"a2a-extensions", b"x-a2a-extensions"})


def _spoken(call: Call, head: Head) -> Pairs:
    """What the agent's own generation says in headers."""
    version = call.dialect.version
    headers: Pairs = [(b"accept", b"text/event-stream" if call.operation.streams else b"application/json")]
    if version is Version.V0_1:
        return headers
    headers.append((b"a2a-version", version.encode("ascii")))
    return headers + extensions(head.headers, version)


def extensions(headers: Iterable[tuple[bytes, bytes]], version: Version) -> Pairs:
    """The header that names extensions as a generation calls it, or none where nothing is named."""
    named = dict.fromkeys(
        name.strip() for _, value in pass_on(headers, EXTENSIONS) for name in value.split(b",") if name.strip()
    )
    header = b"a2a-extensions" if version is Version.V1_0 else b"x-a2a-extensions"
    return [(header, b", ".join(named))] if named else []


def _body(call: Call, tenant: str | None) -> bytes:
    if (call.told and tenant == call.tenant) or (tenant is None and not call.in_body):
        return call.body
    if call.dialect.binding is Binding.REST and not call.in_body:
        # The path says it to an HTTP+JSON agent; a body that says it too must agree.
        return call.body
    return parameter.with_tenant(call.params, call.body, tenant)
