"""Deliver an agent's reply to its client: relayed untouched, or translated into the client's dialect.

A reply of one frame is read whole before a byte goes out, so that a failure on the way is still reported cleanly; one
that is longer than the configuration allows is refused. `stream.py` delivers a stream.

Only A2A answers reach a client. An agent's own error passes, with the agent's status if it is relayed; any other page
is replaced (`upstream/error_page.py`).
"""

import re
from collections.abc import Callable
from functools import partial

import msgspec

from gateway.a2a import agent_frame
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings import binding
from gateway.a2a.bindings.grpc_status import Status, of_error, trailers
from gateway.a2a.bindings.jsonrpc import with_id
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import UpstreamBusy, UpstreamLimited, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.grpc import frame
from gateway.a2a.framing.sse import encode
from gateway.a2a.headers import A2A_JSON, Pairs
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import Progress
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.proxy.reply_delivery import ReplyDelivery, head_of
from gateway.proxy.request import RequestContext, record_owner
from gateway.proxy.responder import Responder
from gateway.proxy.stream import Stream
from gateway.upstream.credentials import EXTENSIONS, extensions
from gateway.upstream.error_page import refuse_page
from gateway.upstream.reply_cache import ReplyHead

_JSON = b"application/json"
_EVENTS = b"text/event-stream"
_UNBUFFERED = (b"x-accel-buffering", b"no")
"""Keeps proxies in front from collecting the events of a stream."""
_REPEATED = EXTENSIONS | {b"a2a-version", b"content-type"}
_NOT_OVER_GRPC = _REPEATED | {b"cache-control", b"x-accel-buffering", b"vary", b"retry-after"}
# gRPC over HTTP/2, Custom-Metadata: headers of HTTP may hold more.
_TEXT = re.compile(rb"[\x20-\x7e]*")


async def deliver(delivery: ReplyDelivery, client: Responder) -> None:
    """Deliver a reply, to its end.

    Raises:
        UpstreamProtocol: it is not an A2A answer.
        UpstreamReset, UpstreamIdle, UpstreamTimeout: it broke off.
        StateUnavailable, Overloaded: as `record_owner` and `ReplyDelivery.read`.
    """
    reply = delivery.reply
    try:
        if reply.failure is not None:
            await _deliver_failure(delivery, client, reply.failure)
            return
        head = head_of(reply)
        if head.is_stream or reply.http_status != 200:
            delivery.refuse_unasked(head)
        delivering = (_deliver_stream if head.is_stream else _deliver_frame)(delivery, client, head)
        del head
        await delivering
    except (UpstreamLimited, UpstreamBusy):
        raise
    except UpstreamProtocol:
        reply.disown()
        raise


async def _deliver_failure(delivery: ReplyDelivery, client: Responder, status: Status) -> None:
    """Deliver the status of a gRPC call that failed before its first message."""
    request, translation = delivery.request, delivery.translation
    answer = _answer_of(delivery, client, head_of(delivery.reply))
    status = await delivery.failure(status)
    error = delivery.error_of(status)
    request.upstream = delivery.clock() - (request.sent or request.started)
    if translation is not None:
        await answer.send_error(error, translation.error)
        return
    request.add_progress(Progress(event="error", error=error.code))
    await answer.send_status(status)


async def _deliver_stream(delivery: ReplyDelivery, client: Responder, head: ReplyHead) -> None:
    request, translation = delivery.request, delivery.translation
    if delivery.is_relayed:
        headers = [*head.passed, (b"content-type", _EVENTS), _request_id(request)]
    else:
        headers = _answer_of(delivery, client, head).headers(_EVENTS)
    if request.binding is not Binding.GRPC:
        headers.append(_UNBUFFERED)
    stream = Stream(delivery, client, headers)
    # A stream may last for hours.
    del head, headers
    try:
        await stream.run()
    except UpstreamReset:
        if translation is None or translation.stream_error is None or client.opened:
            raise
        # The error is the agent's first event, and this client's dialect has no event for it.
        await _answer_of(delivery, client, head_of(delivery.reply)).send_error(
            translation.stream_error, translation.error
        )


# ---- One frame -------------------------------------------------------------------------------------------------------


async def _deliver_frame(delivery: ReplyDelivery, client: Responder, head: ReplyHead) -> None:
    request, call, translation = delivery.request, delivery.call, delivery.translation
    body = await delivery.take()
    request.upstream = delivery.clock() - (request.sent or request.started)
    progress = await delivery.judge(body, head)
    ownership = request.ownership
    if progress is not None:
        if ownership is not None:
            await record_owner(request, progress)
            progress = ownership.prefix.remove_from_progress(progress)
        request.add_progress(progress)
    is_good = progress is not None and progress.error is None
    if ownership is not None and ownership.prefix.raw:
        body = await delivery.work(delivery.without_prefix, body)
    if translation is not None:
        answer = _answer_of(delivery, client, head)
        delivering = _deliver_translated(delivery, answer, translation, body, is_good=is_good)
        # The agent's bytes are released while the client reads.
        del body
        await delivering
        return
    if is_good and call.operation is Operation.GET_EXTENDED_CARD:
        body = await _card(delivery, body)
    elif is_good and call.operation.kind is Kind.PUSH and _restores_tenant(delivery):
        body = await delivery.work(partial(agent_frame.with_tenant, call), body)
    if not delivery.is_relayed:
        await _answer_of(delivery, client, head).send_result(
            body if call.operation is Operation.GET_EXTENDED_CARD else frame(body)
        )
        return
    if delivery.is_renumbered:
        body = with_id(body, call.id)
    headers = [*(head.json_headers if body else head.passed), _request_id(request)]
    await _send(request, client, delivery.reply.http_status, headers, body, now=delivery.clock())


async def _deliver_translated(
    delivery: ReplyDelivery, answer: "ClientAnswer", translation: Translation, body: bytes, *, is_good: bool
) -> None:
    request, reply = delivery.request, delivery.reply
    if not is_good:
        error = await delivery.work(partial(translation.read_error, reply.http_status), body)
        if error is None:
            refuse_page(reply)
            return
        await answer.send_error(error, translation.error)
        return
    # An agent may answer with a single event; its client waits for a stream.
    streamed = delivery.call.operation.streams
    if streamed:
        output = await delivery.work(partial(_only_event, translation), body)
    elif delivery.call.operation is Operation.GET_EXTENDED_CARD:
        output = await _card(delivery, body)
    elif request.pushing is not None and delivery.call.operation.kind is Kind.PUSH:
        result = await delivery.work(translation.result, body)
        await request.pushing.restore(result)
        output = translation.write_result(result)
    else:
        output = await delivery.work(translation.answer, body)
    del body
    request.hold(len(output))
    await answer.send_result(output, streamed=streamed)


def _only_event(translation: Translation, body: bytes) -> bytes:
    return translation.event(body) + translation.held(last=True)


def _restores_tenant(delivery: ReplyDelivery) -> bool:
    call = delivery.call
    return agent_frame.echoes_tenant(call.operation) and delivery.backend.upstream.dialects.restores_tenant(
        call, delivery.interface
    )


async def _card(delivery: ReplyDelivery, body: bytes) -> bytes:
    """Return an extended card in the client's dialect and envelope: it has the agent's addresses, as every card has."""
    request, call = delivery.request, delivery.request.call
    raw = await delivery.work(partial(binding.of(delivery.call.dialect).raw_result, delivery.call), body)
    if raw is None or request.rule is None or call is None:
        raise UpstreamProtocol("the agent's answer is no card")
    card = await delivery.backend.cards.extended(
        bytes(raw),
        request.rule,
        call.tenant,
        host=request.head.host,
        dialect=JSONRPC_0_3 if call.path.legacy_card else call.dialect,
        dual=call.is_open,
    )
    return binding.of(call.dialect).answer(call, msgspec.Raw(card))


# ---- The client's answer ---------------------------------------------------------------------------------------------


class ClientAnswer:
    """The answer to one client, in its binding: status, headers and trailers.

    Args:
        clock: Monotonic seconds.
        passed: Headers of the agent's reply that go to the client.
        theirs: All headers of the agent's reply.
    """

    def __init__(
        self, request: RequestContext, clock: Callable[[], float], client: Responder, passed: Pairs, theirs: Pairs
    ) -> None:
        if request.call is None:
            raise ValueError("nothing was called")
        self._request = request
        self._clock = clock
        self._client = client
        self._dialect = request.call.dialect
        self._passed = passed
        self._theirs = theirs

    async def send_result(self, body: bytes, *, streamed: bool = False) -> None:
        """Send a good answer.

        Args:
            body: In the client's envelope and framing.
            streamed: Whether it is events.
        """
        content_type = _EVENTS if streamed else self._content_type()
        await _send(self._request, self._client, 200, self.headers(content_type), body, now=self._clock())

    async def send_error(self, error: AgentError, write: Callable[[AgentError], tuple[int, bytes]]) -> None:
        """Send an agent's own error.

        Args:
            write: Returns the status and the body of an error.

        Raises:
            UpstreamProtocol: the agent refuses the gateway's credential, which the client cannot change.
        """
        if error.challenges:
            raise UpstreamProtocol("the agent does not accept the gateway", detail=error.message[:200])
        # Over HTTP+JSON `judge` read no code, and the client may get the error under HTTP 200.
        self._request.add_progress(Progress(event="error", error=error.code))
        if self._dialect.binding is Binding.GRPC:
            await self.send_status(of_error(error, self._dialect.version))
            return
        status, body = write(error)
        content_type = _JSON
        if self._request.expects_events:
            body, content_type = encode(body), _EVENTS
        await _send(self._request, self._client, status, self.headers(content_type), body, now=self._clock())

    async def send_status(self, status: Status) -> None:
        """Send the status of a failed call to a client of gRPC."""
        self._request.grpc_status = status.code
        headers = [*self.headers(None), *trailers(status)]
        await _send(self._request, self._client, 200, headers, b"", now=self._clock())

    def headers(self, content_type: bytes | None) -> Pairs:
        """Return the headers of the answer.

        Args:
            content_type: The type of the body; gRPC has always the same.
        """
        is_grpc = self._dialect.binding is Binding.GRPC
        left_out = _NOT_OVER_GRPC if is_grpc else _REPEATED
        headers = [pair for pair in self._passed if pair[0] not in left_out]
        headers.append(_request_id(self._request))
        if self._theirs:
            headers += extensions(self._theirs, self._dialect.version)
        if is_grpc:
            return [pair for pair in headers if _TEXT.fullmatch(pair[1]) is not None]
        if content_type is not None:
            headers.insert(0, (b"content-type", content_type))
        return headers

    def _content_type(self) -> bytes:
        """Return the type of a good answer; clients of HTTP+JSON 1.0 say whether they know A2A's own."""
        if self._dialect.binding is Binding.REST and self._dialect.version is Version.V1_0:
            accepted = self._request.head.first(b"accept") or b""
            return A2A_JSON if A2A_JSON in accepted else _JSON
        return _JSON


def _answer_of(delivery: ReplyDelivery, client: Responder, head: ReplyHead) -> ClientAnswer:
    reply = delivery.reply
    # Servers of 0.3 name the active extensions in the trailers (protocol trap 26).
    theirs = [*reply.headers, *reply.metadata]
    return ClientAnswer(delivery.request, delivery.clock, client, head.passed, theirs)


def _request_id(request: RequestContext) -> tuple[bytes, bytes]:
    return b"x-request-id", request.id.encode("ascii")


async def _send(
    request: RequestContext, client: Responder, status: int, headers: Pairs, body: bytes, *, now: float
) -> None:
    request.status = status
    request.first_byte = now
    await client.answer(status, headers, body)
    request.bytes_out += len(body)
