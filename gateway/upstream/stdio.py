"""One agent on stdio: the JSON-RPC request and the frame's header that it gets.

As over HTTP, both are made from what was decided on: the body as it came but for its id and its `tenant`, header fields
from allow-lists. A field that can be none of a frame, which is plain ASCII, is left out. The answer is one like any
other (`stdio_call`), so what is behind it is the same as over HTTP.
"""

import asyncio
from typing import Any

import msgspec

from gateway.a2a import parameter
from gateway.a2a.bindings.stdio import hear
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.document import Members
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.lsp import can_be_header, header_lines
from gateway.a2a.headers import TO_AGENT, Pairs, pass_on
from gateway.a2a.operation import Operation
from gateway.principal import Principal
from gateway.upstream.headers import EXTENSIONS, credentials, extensions, identity, session
from gateway.upstream.repertoire import Interface, Reading, Repertoire
from gateway.upstream.response import Response
from gateway.upstream.stdio_agent import StdioAgent
from gateway.upstream.stdio_call import Nowhere, StdioCall
from gateway.upstream.stdio_link import Link
from gateway.upstream.stdio_list import merged
from gateway.upstream.stdio_worker import State
from gateway.upstream.upstream import Caller, Timeouts, Treatment, Upstream

_PIPE = (Binding.JSONRPC,)
_MOST_KNOWN = 16
"""What is worked out from one head that is kept at most: a client may call many agents with it."""
_MOST_PASSED = 4096
"""Bytes of a client's headers; a frame's header has 8 KiB."""
_FAILING = frozenset({State.STARTING, State.PAUSED, State.BROKEN, State.ENDED})
_LEGACY_CARD = b'{"jsonrpc":"2.0","id":null,"method":"agent/getAuthenticatedExtendedCard"}'
_OF_HTTP = frozenset({b"accept", b"cache-control", b"content-language", b"content-type"})


class StdioUpstream:
    """One backend of one agent, on stdio.

    Args:
        backend: The key of the backend in metrics and logs.
        version: The version that the file writes, or None for what the card says.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        agent: StdioAgent,
        cards: Reading,
        timeouts: Timeouts,
        treatment: Treatment,
        version: Version | None = None,
    ) -> None:
        self.backend = backend
        self.url = url
        self.agent = agent
        self.timeouts = timeouts
        self.treatment = treatment
        repertoire = Repertoire(
            url=url, cards=cards, relayed=_PIPE, tenant=treatment.tenant, binding=Binding.JSONRPC, version=version
        )
        # As `HttpUpstream` does.
        self.interfaces = repertoire.interfaces
        self.interface = repertoire.interface
        self.tenant = repertoire.tenant
        self.restores_tenant = repertoire.restores_tenant
        # What the gateway sets itself no client adds to.
        own = {name for name, _ in treatment.credentials} | EXTENSIONS | {b"a2a-version"} | _OF_HTTP
        self._allowed = (TO_AGENT | treatment.forwarded) - own

    @property
    def active(self) -> int:
        """Processes that serve a call."""
        return sum(worker.calls > 0 for _, worker in self.agent.workers())

    @property
    def idle(self) -> int:
        """Processes that serve none."""
        return sum(worker.link is not None and not worker.calls for _, worker in self.agent.workers())

    async def send(self, call: Call, interface: Interface, head: Head, caller: Caller) -> Response:
        """Send the call; the answer has begun when this was awaited, and whoever gets it closes it.

        Raises:
            NoHealthyBackend: no process is ready; nothing was sent.
            UpstreamTimeout, UpstreamReset, Overloaded, Draining: there is no answer.
        """
        version = interface.dialect.version
        tenant = self.tenant(call, interface)
        body = call.body if call.told and tenant == call.tenant else _body(call, tenant)
        # 0.2 has a path for it, and no envelope.
        heard = hear(_LEGACY_CARD if call.path.legacy_card else body)
        if heard is None:
            raise UpstreamProtocol("the call is no JSON-RPC request")
        pool = self.agent.pool(caller.principal.tenant)
        link = pool.link_nowait(call.task_id, call.context_id)
        if link is None:
            link = await pool.link(call.task_id, call.context_id, self.timeouts.connect)
        lines = self._lines(call, version, head, caller)
        if call.operation is Operation.LIST_TASKS and len(links := pool.links()) > 1:
            return await self._list(call, heard.members, lines, version, links)
        response = link.ask(call, heard.members, lines, version)
        seconds = self.timeouts.send if call.operation.sends else self.timeouts.first_byte
        return await response.head(link.loop.time() + seconds)

    async def _list(
        self, call: Call, body: Members, lines: bytes, version: Version, links: list[Link | None]
    ) -> Response:
        """The tasks of all processes."""

        def ask(link: Link, members: Members) -> Response:
            return link.ask(call, members, lines, version)

        longest = self.agent.spec.longest
        frame = await merged(links, body, ask, self.timeouts.first_byte, longest + len(call.id))
        answer = StdioCall(Nowhere(asyncio.get_running_loop()), b"", call.id, version, streams=False, longest=longest)
        heard = hear(frame.content)
        assert heard is not None
        answer.deliver(frame, heard)
        return answer.response

    async def aclose(self) -> None:
        """End the processes."""
        await self.agent.aclose()

    @property
    def trouble(self) -> str:
        """Why no process can be asked, where the last ones have failed; empty where one is, or may well come to be."""
        workers = [worker for _, worker in self.agent.workers()]
        failing = [worker for worker in workers if worker.link is None and worker.why and worker.state in _FAILING]
        return (failing[-1].why or "") if failing and len(failing) == len(workers) else ""

    def report(self) -> list[dict[str, Any]]:
        """Every process, for operators."""
        return [
            {
                **({"tenant": tenant} if tenant else {}),
                "state": worker.state.value,
                "pid": worker.pid,
                "calls": worker.calls,
                "starts": worker.starts,
                "ended": worker.why,
            }
            for tenant, worker in self.agent.workers()
        ]

    def _lines(self, call: Call, version: Version, head: Head, caller: Caller) -> bytes:
        lines = self._prepared(version, head, caller)
        own: Pairs = [
            (b"x-request-id", caller.request_id.encode("ascii")),
            *session(call, caller, self.treatment.identity),
        ]
        return lines + header_lines(own)

    def _prepared(self, version: Version, head: Head, caller: Caller) -> bytes:
        """All but what is the call's alone; the same for the next one with the same head of the same caller."""
        key = (self, version)
        found = head.known.get(key)
        if isinstance(found, _Prepared) and found.principal is caller.principal and found.peer == caller.forwarded_for:
            return found.lines
        pairs = pass_on(head.headers, self._allowed) + extensions(head.headers, version)
        if sum(len(name) + len(value) for name, value in pairs) > _MOST_PASSED:
            # An agent may bound its header as the gateway does, and would end for all because of one client.
            pairs = []
        pairs.append((b"a2a-version", version.encode("ascii")))
        pairs += credentials(self.treatment, head)
        pairs += identity(caller, self.treatment.identity)
        lines = header_lines(pair for pair in pairs if can_be_header(*pair))
        if len(head.known) >= _MOST_KNOWN:
            head.known.clear()
        head.known[key] = _Prepared(caller.principal, caller.forwarded_for, lines)
        return lines


def trouble_of(upstream: Upstream) -> str:
    """Why an agent on stdio cannot be asked, in words; empty where it can be, and for all that is none."""
    return upstream.trouble if isinstance(upstream, StdioUpstream) else ""


class _Prepared(msgspec.Struct, frozen=True, eq=False):
    """The header fields for one caller behind one client."""

    principal: Principal
    peer: str
    lines: bytes


def _body(call: Call, tenant: str | None) -> bytes:
    if tenant is None and not call.in_body:
        return call.body
    return parameter.with_tenant(call.params, call.body, tenant)
