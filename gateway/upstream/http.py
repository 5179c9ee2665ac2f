"""One agent over HTTP.

The request is built from the parsed call, never copied: method, path and query from the call, headers from allow-lists,
the body as it came unless its `tenant` changes.
"""

from collections.abc import Coroutine
from typing import Any
from urllib.parse import quote, urlsplit

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.headers import A2A_JSON, TO_AGENT, Pairs, media_type, pass_on, without_parent
from gateway.a2a.params import with_tenant
from gateway.a2a.paths import rest_path
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.credentials import credentials, extensions, identity, session
from gateway.upstream.dialects import HTTP, Dialects, Interface, Reading
from gateway.upstream.request_head import header_lines, start_lines, whole_head
from gateway.upstream.response import Response
from gateway.upstream.upstream import Caller, Treatment, UpstreamTimeouts


class HttpUpstream:
    """One backend of one agent, over HTTP.

    Args:
        backend: The key of the backend in metrics and logs.
        binding: The configured binding, or None for that of the card.
        version: The configured version, or None.
        public_url: The gateway's own, which an agent may advertise in its card.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        pool: ConnectionPool,
        cards: Reading,
        timeouts: UpstreamTimeouts,
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
        self.dialects = Dialects(
            url=url,
            cards=cards,
            relayed=HTTP,
            tenant=treatment.tenant,
            binding=binding,
            version=version,
            public_url=public_url,
        )
        self._host = urlsplit(url).netloc.encode("ascii")
        # Clients cannot set the gateway's headers.
        own = {name for name, _ in treatment.credentials} | {b"content-type"}
        self._allowed = (TO_AGENT | treatment.forwarded) - own

    @property
    def active(self) -> int:
        """Return the number of connections that serve a call, or are being made for one."""
        return self.pool.active

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""
        return self.pool.idle

    def send(
        self, call: Call, interface: Interface, head: Head, caller: Caller, *, fresh: bool = False
    ) -> Coroutine[Any, Any, Response]:
        """Send the call once, and return the answer when its head is there; the caller closes it.

        Args:
            fresh: As in `ConnectionPool.request`, as are the faults.
        """
        tenant = self.dialects.tenant(call, interface)
        body = call.body if call.tenant_written and tenant == call.tenant else _body(call, tenant)
        is_jsonrpc = call.dialect.binding is Binding.JSONRPC
        method = b"POST" if is_jsonrpc else (call.verb or head.method).encode("ascii")
        is_fixed = is_jsonrpc and not call.query and not call.path.legacy_card
        path = interface.path if is_fixed else ""
        key = (self, path, call.dialect, body != b"", call.verb, call.operation.streams)
        opening = caller.prepared.lines.find(key, head, caller)
        if opening is None:
            opening = header_lines(self._headers(call, body, head, caller))
            if is_fixed:
                opening = start_lines(method, path.encode("ascii"), self._host) + opening
            caller.prepared.lines.keep(key, head, caller, opening)
        if not is_fixed:
            opening = start_lines(method, self._target(call, interface, tenant), self._host) + opening
        own = b"x-request-id: %b\r\n" % caller.request_id.encode("ascii")
        if self.treatment.identity.session:
            own += header_lines(session(call, caller, self.treatment.identity))
        if caller.token is not None:
            own += header_lines((caller.token,))
        if caller.traceparent is not None:
            own += b"traceparent: %b\r\n" % caller.traceparent
        is_sized = body or is_jsonrpc or method == b"POST"
        timeouts = self.timeouts
        # Not awaited here: the loop goes through each frame in between again when the answer comes.
        return self.pool.request(
            whole_head(opening, own, content_length=len(body) if is_sized else None),
            body,
            connect=timeouts.connect,
            first_byte=timeouts.send if call.operation.sends else timeouts.first_byte,
            fresh=fresh,
            tenant=caller.principal.tenant,
            weight=caller.weight,
            streams=call.operation.streams,
        )

    async def aclose(self) -> None:
        """Close every connection and cut open calls."""
        await self.pool.aclose()

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

    def _headers(self, call: Call, body: bytes, head: Head, caller: Caller) -> Pairs:
        headers: Pairs = pass_on(head.headers, self._allowed - _SPOKEN if call.verb else self._allowed)
        if call.verb:
            headers += _spoken(call, head)
        if caller.traceparent is not None:
            headers = without_parent(headers)
        if body:
            # Never the client's own value: with another charset an agent would read another document (safety T8).
            relayed = call.dialect.binding is Binding.REST and not call.verb
            a2a = relayed and media_type(head.first(b"content-type")) == A2A_JSON
            headers.append((b"content-type", A2A_JSON if a2a else b"application/json"))
        headers += credentials(self.treatment, head)
        headers.append((b"accept-encoding", b"identity"))
        return headers + identity(caller, self.treatment.identity)


_SPOKEN = frozenset({b"a2a-version", b"a2a-extensions", b"x-a2a-extensions", b"accept", b"content-type"})
"""Headers that tell a version and a binding; a translated call has its own."""


def _spoken(call: Call, head: Head) -> Pairs:
    """Return the headers of the agent's version."""
    version = call.dialect.version
    headers: Pairs = [(b"accept", b"text/event-stream" if call.operation.streams else b"application/json")]
    if version is Version.V0_1:
        return headers
    return [*headers, (b"a2a-version", version.encode("ascii")), *extensions(head.headers, version)]


def _body(call: Call, tenant: str | None) -> bytes:
    if not call.in_body and (tenant is None or call.dialect.binding is Binding.REST):
        # An HTTP+JSON agent reads the tenant from the path; a body with a tenant must agree.
        return call.body
    return with_tenant(call.params, call.body, tenant)
