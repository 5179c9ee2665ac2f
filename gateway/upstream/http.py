"""One agent over HTTP: the request it gets.

The request is built from what was decided on, never copied from the client's: method, path and query from the parsed
call, headers from allow-lists, the body as it came unless its `tenant` has to change.
"""

from collections.abc import Coroutine
from typing import Any
from urllib.parse import quote, urlsplit

from gateway.a2a import parameter
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.headers import A2A_JSON, TO_AGENT, Pairs, media_type, pass_on
from gateway.a2a.path import rest_path
from gateway.upstream.connections import ConnectionPool
from gateway.upstream.headers import EXTENSIONS, credentials, extensions, identity, session
from gateway.upstream.repertoire import HTTP, Interface, Reading, Repertoire, spellings
from gateway.upstream.request import header_lines, start_lines, whole_head
from gateway.upstream.response import Response
from gateway.upstream.upstream import Caller, Timeouts, Treatment

__all__ = (
    "EXTENSIONS",
    "Caller",
    "HttpUpstream",
    "Interface",
    "Reading",
    "Timeouts",
    "Treatment",
    "extensions",
    "spellings",
)

_LONGEST_START = 256
_LONGEST_OPENING = 4096
_MOST_STARTS = 16
"""Request lines that are kept for one upstream."""


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
        self.backend = backend
        self.url = url
        self.pool = pool
        self.timeouts = timeouts
        self.treatment = treatment
        repertoire = Repertoire(
            url=url,
            cards=cards,
            relayed=HTTP,
            tenant=treatment.tenant,
            binding=binding,
            version=version,
            public_url=public_url,
        )
        # Its own methods, and no calls to them: each call of the line would cost one more.
        self.interfaces = repertoire.interfaces
        self.interface = repertoire.interface
        self.tenant = repertoire.tenant
        self.restores_tenant = repertoire.restores_tenant
        self._host = urlsplit(url).netloc.encode("ascii")
        # What the gateway sets itself no client adds to.
        own = {name for name, _ in treatment.credentials} | {b"content-type"}
        self._allowed = (TO_AGENT | treatment.forwarded) - own
        self._starts: dict[tuple[bytes, bytes], bytes] = {}

    @property
    def active(self) -> int:
        """Connections that serve a call, or are being made for one."""
        return self.pool.active

    @property
    def idle(self) -> int:
        """Connections that rest."""
        return self.pool.idle

    def send(
        self, call: Call, interface: Interface, head: Head, caller: Caller, *, fresh: bool = False
    ) -> Coroutine[Any, Any, Response]:
        """Send the call, once; the answer's head has arrived when this was awaited, and whoever gets it closes it.

        Args:
            fresh: As the pool.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool.
        """
        tenant = self.tenant(call, interface)
        body = call.body if call.told and tenant == call.tenant else _body(call, tenant)
        plain = (self, interface) if body and _is_plain(call) else None
        opening = None if plain is None else caller.prepared.lines.find(plain, head, caller)
        if opening is None:
            opening = self._start(self._method(call, head), self._target(call, interface, tenant))
            opening += self._lines(call, body, head, caller)
            if plain is not None and len(opening) <= _LONGEST_OPENING:
                caller.prepared.lines.keep(plain, head, caller, opening)
        sized = body or call.dialect.binding is Binding.JSONRPC or self._method(call, head) == b"POST"
        own = b"x-request-id: %b\r\n" % caller.request_id.encode("ascii")
        if self.treatment.identity.session:
            own += header_lines(session(call, caller, self.treatment.identity))
        timeouts = self.timeouts
        # Not awaited here: each frame in between is gone through again when the answer comes.
        return self.pool.request(
            whole_head(opening, own, content_length=len(body) if sized else None),
            body,
            connect=timeouts.connect,
            first_byte=timeouts.send if call.operation.sends else timeouts.first_byte,
            # Whether it may be sent again is for whoever knows of other replicas.
            repeatable=False,
            fresh=fresh,
            tenant=caller.principal.tenant,
            weight=caller.weight,
            streams=call.operation.streams,
        )

    async def aclose(self) -> None:
        """Close every connection, cutting what is on its way."""
        await self.pool.aclose()

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
                if len(self._starts) >= _MOST_STARTS:
                    self._starts.clear()
                self._starts[method, target] = start
        return start

    def _lines(self, call: Call, body: bytes, head: Head, caller: Caller) -> bytes:
        """The headers but for the request id; the same for the next request with the same head of the same caller."""
        dialect = call.dialect
        key = (self, dialect if call.verb else dialect.binding, body != b"", call.verb and call.operation.streams)
        lines = caller.prepared.lines.find(key, head, caller)
        if lines is None:
            lines = header_lines(self._headers(call, body, head, caller))
            caller.prepared.lines.keep(key, head, caller, lines)
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
        headers += credentials(self.treatment, head)
        headers.append((b"accept-encoding", b"identity"))
        return headers + identity(caller, self.treatment.identity)


def _is_plain(call: Call) -> bool:
    """Whether nothing of the request's head depends on what is called."""
    return call.dialect.binding is Binding.JSONRPC and not call.query and not call.verb and not call.path.legacy_card


_SPOKEN = frozenset({b"a2a-version", b"a2a-extensions", b"x-a2a-extensions", b"accept", b"content-type"})
"""Headers in which a generation and a binding show; who translates says them itself."""


def _spoken(call: Call, head: Head) -> Pairs:
    """What the agent's own generation says in headers."""
    version = call.dialect.version
    headers: Pairs = [(b"accept", b"text/event-stream" if call.operation.streams else b"application/json")]
    if version is Version.V0_1:
        return headers
    headers.append((b"a2a-version", version.encode("ascii")))
    return headers + extensions(head.headers, version)


def _body(call: Call, tenant: str | None) -> bytes:
    if (call.told and tenant == call.tenant) or (tenant is None and not call.in_body):
        return call.body
    if call.dialect.binding is Binding.REST and not call.in_body:
        # The path says it to an HTTP+JSON agent; a body that says it too must agree.
        return call.body
    return parameter.with_tenant(call.params, call.body, tenant)
