"""ENCODE: what a translated answer is to the client that gets it, whichever binding the client speaks.

Who interprets (`interpreter.py`, `grpc_relay.py`) knows what the agent said; how it is told, under which status and
with which headers or trailers, is decided here.
"""

import re
from collections.abc import Callable

from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_status import Status, of_error, trailers
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import encode
from gateway.a2a.headers import A2A_JSON, Pairs
from gateway.a2a.progress import Progress
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.upstream.http import EXTENSIONS, extensions


class Reply:
    """One answer on its way to its client.

    Args:
        clock: Monotonic seconds.
        passed: Headers of the agent's answer that clients may see.
        theirs: All of them.
    """

    def __init__(
        self,
        exchange: RequestContext,
        clock: Callable[[], float],
        client: Dialect,
        passed: Pairs,
        theirs: Pairs,
    ) -> None:
        self._exchange = exchange
        self._clock = clock
        self._client = client
        self._passed = passed
        self._theirs = theirs

    async def tell(self, wire: Responder, frame: bytes, *, streamed: bool = False) -> None:
        """Give a good answer.

        Args:
            frame: In the client's envelope and framing.
            streamed: Whether it is events.
        """
        said = b"text/event-stream" if streamed else self._type()
        await self._answer(wire, 200, frame, self.headers(said))

    async def complain(
        self, wire: Responder, error: AgentError, write: Callable[[AgentError], tuple[int, bytes]]
    ) -> None:
        """Tell of an agent's own error.

        Args:
            write: Gives its status and its body.

        Raises:
            UpstreamProtocol: it says that the gateway's credential is not good, which is no business of the client's.
        """
        if error.challenges:
            raise UpstreamProtocol("the agent does not accept the gateway", detail=error.message[:200])
        # Over HTTP+JSON no code was read along the way, and the client may be told of it under HTTP 200.
        self._exchange.saw(Progress(event="error", error=error.code))
        if self._client.binding is Binding.GRPC:
            status = of_error(error, self._client.version)
            await self.end(wire, status)
            return
        number, body = write(error)
        said = b"application/json"
        if self._exchange.hears_events:
            body, said = encode(body), b"text/event-stream"
        await self._answer(wire, number, body, self.headers(said))

    async def end(self, wire: Responder, status: Status) -> None:
        """Give a client of gRPC the status of a call that ended badly before anything came of it."""
        self._exchange.grpc_status = status.code
        await self._answer(wire, 200, b"", [*self.headers(None), *trailers(status)])

    def headers(self, content_type: bytes | None) -> Pairs:
        """The headers of the answer.

        Args:
            content_type: What the body is; gRPC's is always the same.
        """
        version, grpc = self._client.version, self._client.binding is Binding.GRPC
        left_out = _SPOKEN_BACK | _OF_HTTP if grpc else _SPOKEN_BACK
        headers = [pair for pair in self._passed if pair[0] not in left_out]
        headers += extensions(self._theirs, version)
        if grpc:
            return [pair for pair in headers if _TEXT.fullmatch(pair[1]) is not None]
        if content_type is not None:
            headers.insert(0, (b"content-type", content_type))
        return headers

    async def _answer(self, wire: Responder, status: int, body: bytes, headers: Pairs) -> None:
        exchange = self._exchange
        exchange.status = status
        exchange.first_byte = self._clock()
        await wire.answer(status, headers, body)
        exchange.bytes_out += len(body)

    def _type(self) -> bytes:
        """What a good answer is: clients of HTTP+JSON 1.0 differ on which type they know, and say so."""
        if self._client.binding is Binding.REST and self._client.version is Version.V1_0:
            accepted = self._exchange.head.first(b"accept") or b""
            return A2A_JSON if A2A_JSON in accepted else b"application/json"
        return b"application/json"


_SPOKEN_BACK = EXTENSIONS | {b"a2a-version", b"content-type"}
# gRPC over HTTP/2, Custom-Metadata: headers of HTTP may hold more.
_TEXT = re.compile(rb"[\x20-\x7e]*")
_OF_HTTP = frozenset({b"cache-control", b"x-accel-buffering", b"vary", b"retry-after"})
