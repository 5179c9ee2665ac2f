"""FORWARD, OBSERVE, ENCODE: an agent's answer on its way to the client.

An answer of one frame is read whole before a byte goes out, so that what breaks on the way can still be said cleanly;
one that is too long to be kept is passed on as it comes, from where it is known to answer this call. A stream goes
event by event: only whole events are written, so a heartbeat or the gateway's own last word never lands in the middle
of one.

What reaches a client is JSON that A2A knows in the envelope of its own call, or it is `upstream_protocol`. An agent's
own error passes under the agent's status if it is such an answer; any other page is replaced (`upstream/page.py`).
"""

import logging
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from gateway.a2a import document, progress
from gateway.a2a.bindings.echo import restore_tenant, with_result
from gateway.a2a.bindings.jsonrpc_id import answers, is_same, with_id
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import (
    BadRequest,
    UpstreamBusy,
    UpstreamIdle,
    UpstreamLimited,
    UpstreamProtocol,
    UpstreamTimeout,
)
from gateway.a2a.headers import Pairs, is_json
from gateway.a2a.operation import Operation
from gateway.a2a.outline import Outline
from gateway.a2a.within import Ambiguous, Others, of_body
from gateway.answer_head import OWN, answer_head
from gateway.backing import OWN_IDS, Backing
from gateway.exchange import Exchange, meet
from gateway.ownership import is_others
from gateway.stream import Stream
from gateway.upstream.http import Interface
from gateway.upstream.page import refuse_challenge, refuse_page
from gateway.upstream.response import Response
from gateway.wire import Wire

_TURN = 16 * 1024
"""Bytes of a stream that are read before other requests have their turn."""

_ECHOES_TENANT = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS})
_REWRITTEN = _ECHOES_TENANT | {Operation.GET_EXTENDED_CARD}
"""Operations whose answers may have to be changed on the way."""


logger = logging.getLogger("gateway.upstream")


class AnswerTooLong(UpstreamProtocol):
    """The agent's answer is longer than one may be that has to be read whole: less at a time may be fewer bytes."""


class Relay:
    """Brings one answer to the client."""

    def __init__(self, exchange: Exchange, backing: Backing, interface: Interface, clock: Callable[[], float]) -> None:
        if exchange.call is None:
            raise ValueError("nothing was called")
        self._exchange = exchange
        self._call: Call = exchange.call
        self._backing = backing
        self._bounds = backing.bounds
        self._interface = interface
        self._clock = clock
        # What was read of the answer before it was the answer.
        self._body: bytes | None = None
        # Whether it came under another id than the call's.
        self._readdresses = False

    async def read(self, response: Response) -> bytes:
        """The whole body of an answer of one frame, before it is known whether it is the one to pass on.

        Raises:
            UpstreamProtocol: it is longer than an event may be.
        """
        self._body = await self._all(response)
        return self._body

    async def run(self, response: Response, wire: Wire) -> None:
        """Pass the answer on, to its end.

        Raises:
            UpstreamProtocol: the answer is none that A2A knows.
            UpstreamReset, UpstreamIdle, UpstreamTimeout: it broke off.
        """
        try:
            said = answer_head(response)
            if 300 <= response.status < 400 or response.status == 206:
                # Never followed, and never shown: `Location` is an address of the agent's. Nobody asked for a part.
                raise UpstreamProtocol(  # noqa: TRY301 - as whatever else is none of A2A's
                    "the agent answered with a redirect or a part", detail=f"status {response.status}"
                )
            if said.streams:
                await self._bring_stream(response, wire)
            else:
                await self._frame(response, wire, said.content_type)
        except (UpstreamLimited, UpstreamBusy):
            raise
        except UpstreamProtocol:
            response.disown()
            raise

    async def _bring_stream(self, response: Response, wire: Wire) -> None:
        if not self._call.operation.streams or response.status != 200:
            raise UpstreamProtocol("the agent answered with a stream that nobody asked for")
        stream = self._stream(wire)
        stream.on_foreign_id = partial(self._suspect, response)
        await stream.run(response, self._stream_headers(response))

    def _stream_headers(self, response: Response) -> Pairs:
        return [*self._headers(response, b"text/event-stream"), (b"x-accel-buffering", b"no")]

    def _stream(self, wire: Wire) -> Stream:
        return Stream(self._exchange, self._backing, self._clock, wire)

    # ---- One frame -----------------------------------------------------------------------------------------------

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:
        exchange = self._exchange
        body = response.whole() if self._body is None else self._body
        if body is None or (self._body is None and len(body) > self._bounds.kept):
            body = await self._gather(response, wire, content_type, body or b"")
            if body is None:
                return
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        if response.status >= 400:
            await self._refuse_others(self._read_error(response, content_type, body))
        else:
            if body and content_type != b"application/json":
                refuse_type(content_type)
            told = await self._noted(self._told(response, body))
            if told.error is None and self._call.operation in _REWRITTEN and self._rewrites():
                body = await self._rewrite(body)
        body = self._unmarked(body)
        if self._readdresses:
            body = with_id(body, self._call.id)
        headers = self._headers(response, b"application/json" if body else None)
        exchange.status = response.status
        exchange.first_byte = self._clock()
        await wire.answer(response.status, headers, body)
        exchange.bytes_out += len(body)

    async def _noted(self, told: progress.Progress) -> progress.Progress:
        """Keep what an answer tells, and write down what it names before it goes out; gives what the client may see.

        Raises:
            UpstreamProtocol: it names what is another's.
        """
        exchange = self._exchange
        claims = exchange.claims
        if claims is not None:
            await meet(exchange, told)
            if claims.renamed:
                told = claims.mark.unmarked_progress(told)
        exchange.saw(told)
        return told

    def _unmarked(self, body: bytes) -> bytes:
        claims = self._exchange.claims
        return body if claims is None or claims.mark.raw not in body else claims.mark.unmarked(body)

    async def _gather(self, response: Response, wire: Wire, content_type: bytes | None, begun: bytes) -> bytes | None:
        """The whole body, or None where it was too long to be kept and has been passed on.

        Args:
            begun: What was read of it.
        """
        outline: Outline | None = None
        body: bytes | bytearray = b""
        part = begun or await self._next(response)
        while part:
            if not body:
                body = part
            else:
                # Not a list of parts, which for an agent that drips is many times what it holds.
                if isinstance(body, bytes):
                    body = bytearray(body)
                body += part
            if len(body) > self._bounds.kept:
                if outline is None:
                    self._refuse_long(response, content_type)
                    outline, part = Outline(envelope=self._wrapped), bytes(body)
                if self._is_ours(response, outline, part, len(body)):
                    await self._pass_through(response, wire, outline, bytes(body))
                    return None
            part = await self._next(response)
        return bytes(body)

    async def _all(self, response: Response) -> bytes:
        """The whole body, where it cannot be passed on unread.

        Raises:
            UpstreamProtocol: it is longer than an event may be.
        """
        body = response.whole() if self._body is None else self._body
        if body is not None:
            return body
        longest = max(self._bounds.kept, self._bounds.event)
        gathered = bytearray()
        while part := await self._next(response):
            gathered += part
            if len(gathered) > longest:
                raise AnswerTooLong("the agent's answer is too long", detail=f"over {longest} bytes are not kept")
        return bytes(gathered)

    # ---- A frame that is too long to be kept -----------------------------------------------------------------------

    def _refuse_long(self, response: Response, content_type: bytes | None) -> None:
        if response.status >= 400:
            refuse_page(response)
        refuse_type(content_type)
        if self._rewrites():
            raise UpstreamProtocol("the agent's answer is too long", detail="it has to be changed, and is not kept")

    def _is_ours(self, response: Response, outline: Outline, part: bytes, size: int) -> bool:
        """Read on in an answer; whether it can go out as it comes: under the call's id, and known to be the caller's.

        Raises:
            UpstreamProtocol: it cannot, after as many bytes as an event may have.
        """
        outline.feed(part)
        missing = ""
        if self._wrapped:
            if outline.id is None:
                missing = "its id does not stand in front"
            elif not answers(outline.id, self._call.id):
                self._suspect(response)
                missing = "its id has to be changed, and it is not kept"
            elif not is_same(outline.id, self._call.id) and size <= max(self._bounds.kept, self._bounds.event):
                missing = "its id has to be changed"
        if not missing and self._is_owned and not (outline.task_id and outline.context_id):
            # What goes out before these two are known may be another's.
            missing = "its task and its context do not stand in front"
        if missing and size > max(self._bounds.kept, self._bounds.event):
            raise UpstreamProtocol("the agent's answer is too long", detail=missing)
        return not missing

    @property
    def _is_owned(self) -> bool:
        """Whether the answer tells of one task, which has an owner."""
        claims = self._exchange.claims
        return claims is not None and claims.tenure.keeps and self._call.operation in _TELL_OF_ONE_TASK

    async def _pass_through(self, response: Response, wire: Wire, outline: Outline, body: bytes) -> None:
        exchange = self._exchange
        passing = _Passing(exchange, outline)
        part, said = body, await passing.take(body)
        exchange.status = response.status
        wire.open(response.status, self._headers(response, b"application/json"))
        while part:
            if said:
                await self._write(said, wire)
            part = await self._next(response)
            # Before it goes out: what is no part of this one answer is cut.
            outline.feed(part)
            said = await passing.take(part) if part else b""
        if said := passing.end():
            await self._write(said, wire)
        outline.close()
        if self._wrapped:
            if not outline.answers_once():
                raise UpstreamProtocol(
                    "the agent's answer is no JSON-RPC answer", detail="result and error, or neither"
                )
            if outline.failed:
                exchange.saw(progress.Progress(id=outline.id or b"", event="error", error=0))
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        await wire.close()

    async def _next(self, response: Response) -> bytes:
        """The next bytes of a unary answer, whose time is limited as a whole."""
        end = (self._exchange.sent or self._clock()) + self._backing.upstream.timeouts.total
        try:
            return await response.chunk(max(end - self._clock(), 0.001))
        except UpstreamIdle as error:
            raise UpstreamTimeout("the agent's answer was not complete in time") from error

    def _rewrites(self) -> bool:
        operation = self._call.operation
        return operation is Operation.GET_EXTENDED_CARD or (
            operation in _ECHOES_TENANT and self._backing.upstream.restores_tenant(self._call, self._interface)
        )

    def _read_error(self, response: Response, content_type: bytes | None, body: bytes) -> progress.Progress:
        """Learn from an agent's own error, which passes as it is; a page that is none in this binding is refused.

        Gives what it tells.

        Raises:
            UpstreamProtocol: it is none.
        """
        refuse_challenge(response)
        told = None
        if is_json(content_type):
            told = progress.read_jsonrpc(body) if self._wrapped else progress.read_bare(body)
        if told is None or (self._wrapped and told.error is None):
            refuse_page(response)
        elif self._wrapped:
            self._recognise(response, told.id)
            self._exchange.saw(told)
        else:
            told = replace(told, others=_named_in(body) or told.others)
        return told or progress.NOTHING

    async def _refuse_others(self, told: progress.Progress) -> None:
        """Refuse an error over HTTP+JSON that tells of another's task, as answers may."""
        claims = self._exchange.claims
        if claims is not None and told is not progress.NOTHING and await is_others(claims, told):
            raise UpstreamProtocol(
                "the agent's answer is not this caller's", detail="its error tells of another's task"
            )

    async def _rewrite(self, body: bytes) -> bytes:
        """Change what must not go out as it came."""
        try:
            if self._call.operation is Operation.GET_EXTENDED_CARD:
                return await self._card(body)
            return restore_tenant(body, self._call.dialect.binding, self._call.tenant)
        except BadRequest as error:
            # Written twice or in another case: what is to be changed could be read in two ways.
            raise UpstreamProtocol(_TWO_WAYS, detail=error.message) from error

    def _told(self, response: Response, body: bytes) -> progress.Progress:
        """What an answer tells; one that is none is refused."""
        if self._wrapped:
            call = self._call
            told = progress.read_jsonrpc(body, void=call.operation is Operation.DELETE_PUSH_CONFIG)
            if told is None:
                raise UpstreamProtocol("the agent's answer is no JSON-RPC answer")
            self._recognise(response, told.id)
            return told
        told = progress.read_bare(body)
        if told is not None:
            return told
        if body:
            _refuse_garbage(body)
        return progress.read_list(body) or progress.NOTHING

    @property
    def _wrapped(self) -> bool:
        """Whether an answer is a JSON-RPC envelope."""
        return self._call.dialect.binding is Binding.JSONRPC and not self._call.path.legacy_card

    def _recognise(self, response: Response, identity: bytes) -> None:
        """Take an answer for the call's whatever its id, where its connection carries no other call.

        The client gets its own id back byte for byte.

        Raises:
            UpstreamProtocol: as `_suspect`.
        """
        if is_same(identity, self._call.id):
            return
        self._readdresses = True
        if not answers(identity, self._call.id):
            self._suspect(response)

    def _suspect(self, response: Response) -> None:
        """Reuse no connection on which an answer came under an id of the agent's own, and say so once per agent.

        An id tells whether a connection has got out of step. Where the agent makes up its own, each connection serves
        one call, so that no answer can be taken for that of another (safety T14).

        Raises:
            UpstreamProtocol: the connection has carried another call, whose answer it may be.
        """
        response.distrust()
        warned = self._backing.warned
        if OWN_IDS not in warned:
            warned.add(OWN_IDS)
            logger.warning(
                "agent %s answers under ids of its own: clients get theirs back, and its connections are not reused",
                self._backing.agent,
            )
        if not response.alone:
            raise UpstreamProtocol(
                "the agent answered another request", detail="under another id, on a connection that was used before"
            )

    async def _card(self, body: bytes) -> bytes:
        """An extended card holds the agent's addresses like any other, so it is rebuilt like any other."""
        exchange, call = self._exchange, self._call
        rule = exchange.rule
        if rule is None:
            raise UpstreamProtocol("the agent's answer is no card")
        raw = body
        if self._wrapped:
            members = document.open_body(body)
            raw = bytes(members.get("result", msgspec.Raw(b"null")))
        dialect = self._interface.dialect
        card = await self._backing.cards.extended(
            raw, rule, call.tenant, host=exchange.head.host, dialect=dialect, dual=call.is_open
        )
        return with_result(members, card) if self._wrapped else card

    async def _write(self, data: bytes, wire: Wire) -> None:
        exchange = self._exchange
        if exchange.first_byte is None:
            exchange.first_byte = self._clock()
        await wire.write(data)
        exchange.moved(len(data))

    def _headers(self, response: Response, content_type: bytes | None) -> Pairs:
        """What of the agent's head passes, and what the gateway says in its place.

        Args:
            content_type: What the body is; None where there is none.
        """
        said = answer_head(response)
        if content_type == b"application/json":
            headers = said.json_headers.copy()
        else:
            headers = said.passed.copy()
            if content_type is not None:
                headers.append((b"content-type", said.json or content_type))
            headers.append(OWN)
        headers.append((b"x-request-id", self._exchange.id.encode("ascii")))
        return headers


class _Passing:
    """An answer that is passed on as it comes: what may go out of what has been read.

    Args:
        outline: Reads it, one part ahead.
    """

    def __init__(self, exchange: Exchange, outline: Outline) -> None:
        self._exchange = exchange
        self._outline = outline
        self._unmarker = None if exchange.claims is None else exchange.claims.mark.unmarker()
        self._met = 0
        self._held = b""

    async def take(self, part: bytes) -> bytes:
        """What goes out now that this part, too, has been read.

        Raises:
            UpstreamProtocol: it names what is another's.
        """
        outline = self._outline
        if outline.sighted != self._met:
            self._met = outline.sighted
            await meet(self._exchange, outline.told)
        self._held += part
        if outline.midway:
            # Not the first half of an id whose owner is not known yet.
            return b""
        part, self._held = self._held, b""
        return part if self._unmarker is None else self._unmarker.feed(part)

    def end(self) -> bytes:
        """What goes out at the end."""
        exchange, told = self._exchange, self._outline.told
        exchange.saw(told if exchange.claims is None else exchange.claims.mark.unmarked_progress(told))
        return b"" if self._unmarker is None else self._unmarker.close()


_TELL_OF_ONE_TASK = frozenset({Operation.SEND_MESSAGE, Operation.GET_TASK, Operation.CANCEL_TASK})


def refuse_type(content_type: bytes | None) -> None:
    """Refuse an answer that says of itself that it is no JSON.

    Raises:
        UpstreamProtocol: it does.
    """
    if content_type is not None and not is_json(content_type):
        raise UpstreamProtocol("the agent's answer is no JSON", detail=f"content-type {content_type[:64]!r}")


def _named_in(body: bytes) -> Others | None:
    """What the body of an error over HTTP+JSON names.

    Raises:
        UpstreamProtocol: it can be read in two ways.
    """
    try:
        return of_body(body)
    except Ambiguous as error:
        raise UpstreamProtocol(_TWO_WAYS, detail="a member stands twice") from error


def _refuse_garbage(body: bytes) -> None:
    try:
        str(body, "utf-8")
        _any.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UpstreamProtocol("the agent's answer is no JSON") from error
    if body.lstrip()[:1] == b"{":
        # An object that nothing could be told of; a text or a number names nobody's task.
        raise UpstreamProtocol(_TWO_WAYS, detail="a member stands twice")


_TWO_WAYS = "the agent's answer can be read in two ways"
_any = msgspec.json.Decoder(msgspec.Raw)
