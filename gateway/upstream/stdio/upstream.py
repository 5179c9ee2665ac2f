"""An agent on stdio as an `Upstream`.

As over HTTP, the request is built from the parsed call: the body unchanged except for its id and `tenant`, header
fields from allow-lists. The header of a frame is plain ASCII; other fields are left out.
"""

from typing import Any

from gateway.a2a.bindings.jsonrpc import NAMES
from gateway.a2a.bindings.stdio import read_message
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import MethodNotAllowed, UpstreamProtocol
from gateway.a2a.framing.lsp import can_be_header, header_lines
from gateway.a2a.headers import TO_AGENT, Pairs, pass_on, without_parent
from gateway.a2a.operation import Operation
from gateway.a2a.params import with_tenant
from gateway.upstream.credentials import EXTENSIONS, credentials, extensions, identity, session
from gateway.upstream.dialects import Dialects, Interface, Reading
from gateway.upstream.response import Response
from gateway.upstream.stdio.agent import State, StdioAgent
from gateway.upstream.upstream import Caller, Treatment, Upstream, UpstreamTimeouts

_MOST_PASSED = 4096
"""Bytes of a client's headers; the header of a frame has 8 KiB."""
_FAILING = frozenset({State.STARTING, State.PAUSED, State.BROKEN, State.ENDED})
_LEGACY_CARD = b'{"jsonrpc":"2.0","id":null,"method":"%b"}' % NAMES[Operation.GET_EXTENDED_CARD, Version.V0_3].encode()
_OF_HTTP = frozenset({b"accept", b"cache-control", b"content-language", b"content-type"})


class StdioUpstream:
    """One backend of one agent, on stdio.

    Args:
        backend: The key of the backend in metrics and logs.
        version: The configured version, or None for that of the card.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        agent: StdioAgent,
        cards: Reading,
        timeouts: UpstreamTimeouts,
        treatment: Treatment,
        version: Version | None = None,
    ) -> None:
        self.backend = backend
        self.url = url
        self.agent = agent
        self.timeouts = timeouts
        self.treatment = treatment
        self.dialects = Dialects(
            url=url,
            cards=cards,
            relayed=(Binding.JSONRPC,),
            tenant=treatment.tenant,
            binding=Binding.JSONRPC,
            version=version,
        )
        # Clients cannot set the gateway's headers.
        own = {name for name, _ in treatment.credentials} | EXTENSIONS | {b"a2a-version"} | _OF_HTTP
        self._allowed = (TO_AGENT | treatment.forwarded) - own

    @property
    def active(self) -> int:
        """Return the number of processes with an open call."""
        return sum(runner.calls > 0 for _, runner in self.agent.runners())

    @property
    def idle(self) -> int:
        """Return the number of ready processes without an open call."""
        return sum(runner.rpc is not None and not runner.calls for _, runner in self.agent.runners())

    async def send(
        self,
        call: Call,
        interface: Interface,
        head: Head,
        caller: Caller,
        *,
        fresh: bool = False,  # noqa: ARG002 - calls share the pipe
    ) -> Response:
        """Send the call once, and return the answer when it begins; the caller closes it.

        Raises:
            NoHealthyBackend: no process is ready; nothing was sent.
            MethodNotAllowed: it is a list of tasks, and there are several processes with tasks of their own.
            UpstreamTimeout, UpstreamReset, Overloaded, Draining: there is no answer.
        """
        version = interface.dialect.version
        tenant = self.dialects.tenant(call, interface)
        body = call.body
        if not (call.tenant_written and tenant == call.tenant) and (tenant is not None or call.in_body):
            body = with_tenant(call.params, call.body, tenant)
        # The request of 0.2 is a path without a body.
        received = read_message(_LEGACY_CARD if call.path.legacy_card else body)
        if received is None:
            raise UpstreamProtocol("the call is no JSON-RPC request")
        if call.operation is Operation.LIST_TASKS and self.agent.spec.processes > 1:
            raise MethodNotAllowed("this agent runs as several processes, which have no list of all their tasks")
        pool = self.agent.pool(caller.principal.tenant)
        rpc = await pool.rpc(call.task_id, call.context_id, self.timeouts.connect)
        response = rpc.ask(call, received.members, self._fields(call, version, head, caller), version)
        seconds = self.timeouts.send if call.operation.sends else self.timeouts.first_byte
        return await response.head(rpc.loop.time() + seconds)

    async def aclose(self) -> None:
        """End the processes."""
        await self.agent.aclose()

    @property
    def trouble(self) -> str:
        """Return why no process can be called; empty while one can be called, or none has failed."""
        runners = [runner for _, runner in self.agent.runners()]
        failing = [runner.why for runner in runners if runner.rpc is None and runner.why and runner.state in _FAILING]
        return failing[-1] if failing and len(failing) == len(runners) else ""

    def report(self) -> list[dict[str, Any]]:
        """Describe every process, for operators."""
        return [
            {
                **({"tenant": tenant} if tenant else {}),
                "state": runner.state.value,
                "pid": runner.pid,
                "calls": runner.calls,
                "starts": runner.starts,
                "ended": runner.why,
            }
            for tenant, runner in self.agent.runners()
        ]

    def _fields(self, call: Call, version: Version, head: Head, caller: Caller) -> bytes:
        """Return the header fields of the call's frame."""
        own: Pairs = [(b"x-request-id", caller.request_id.encode("ascii"))]
        own += session(call, caller, self.treatment.identity)
        if caller.traceparent is not None:
            own.append((b"traceparent", caller.traceparent))
        key = (self, version)
        shared = caller.prepared.lines.find(key, head, caller)
        if shared is None:
            shared = self._shared_fields(version, head, caller)
            caller.prepared.lines.keep(key, head, caller, shared)
        return shared + header_lines(own)

    def _shared_fields(self, version: Version, head: Head, caller: Caller) -> bytes:
        pairs = pass_on(head.headers, self._allowed) + extensions(head.headers, version)
        if caller.traceparent is not None:
            pairs = without_parent(pairs)
        if sum(len(name) + len(value) for name, value in pairs) > _MOST_PASSED:
            # An agent with the same bound would exit because of this frame, for all clients.
            pairs = []
        pairs.append((b"a2a-version", version.encode("ascii")))
        pairs += credentials(self.treatment, head)
        pairs += identity(caller, self.treatment.identity)
        return header_lines(pair for pair in pairs if can_be_header(*pair))


def trouble_of(upstream: Upstream) -> str:
    """Return why an agent on stdio cannot be called; empty if it can be, and for other transports."""
    return upstream.trouble if isinstance(upstream, StdioUpstream) else ""
