"""FORWARD, OBSERVE, ENCODE: an agent's answer on its way to the client.

An answer of one frame is read whole before a byte goes out, so that what breaks on the way can still be said cleanly;
one that is longer than the file allows is refused. A stream goes event by event: only whole events are written, so a
heartbeat or the gateway's own last word never lands in the middle of one.

What reaches a client is JSON that A2A knows in the envelope of its own call, or it is `upstream_protocol`. An agent's
own error passes under the agent's status if it is such an answer; any other page is replaced (`upstream/page.py`).
"""

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gateway.a2a import document, progress
from gateway.a2a.bindings.echo import restore_tenant, with_result
from gateway.a2a.bindings.jsonrpc_id import answers, is_same, with_id
from gateway.a2a.bounds import refuse_crowd
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
from gateway.a2a.ids import Ambiguous, NestedIds, nested_in_body
from gateway.a2a.operation import Operation
from gateway.answer_head import OWN, answer_head
from gateway.backing import OWN_IDS, Backing
from gateway.exchange import Exchange, meet
from gateway.stream import Stream
from gateway.upstream.http import Interface
from gateway.upstream.page import refuse_challenge, refuse_page
from gateway.upstream.response import Response
from gateway.wire import Wire

_LONG = 1024 * 1024
"""Bytes of an answer from which on it is read in a thread, and its connection closed: until it is read the next call
would be sent there, and to open another costs little beside so many bytes."""
_LONGEST_CHANGED = 1024 * 1024
"""Bytes of an answer that is changed on the way: push configurations and cards are never as long."""
_ECHOES_TENANT = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS})
_REWRITTEN = _ECHOES_TENANT | {Operation.GET_EXTENDED_CARD}
"""Operations whose answers may have to be changed on the way."""


logger = logging.getLogger("gateway.upstream")
_T = TypeVar("_T")


class AnswerTooLong(UpstreamProtocol):
    """The agent's answer is longer than the file allows: less at a time may be fewer bytes."""


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
        # Bytes of other answers that are held for the same call.
        self._beside = 0
        # What was read of the answer before it was the answer.
        self._body: bytes | None = None
        # Whether it came under another id than the call's.
        self._readdresses = False

    async def read(self, response: Response) -> bytes:
        """The whole body of an answer of one frame, before it is known whether it is the one to pass on.

        Raises:
            UpstreamProtocol, Overloaded: as `_all`.
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
        try:
            await stream.run(response, self._stream_headers(response))
        finally:
            # The answer knows the stream: in a circle they would keep what a configuration before this one had.
            stream.on_foreign_id = None

    def _stream_headers(self, response: Response) -> Pairs:
        return [*self._headers(response, b"text/event-stream"), (b"x-accel-buffering", b"no")]

    def _stream(self, wire: Wire) -> Stream:
        return Stream(self._exchange, self._backing, self._clock, wire)

    # ---- One frame -----------------------------------------------------------------------------------------------

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:
        exchange = self._exchange
        body = await self._all(response)
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        if response.status >= 400:
            await self._refuse_others(await self._read_refusal(response, content_type, body))
        else:
            if body and content_type != b"application/json":
                refuse_type(content_type)
            told = await self._noted(await self._judge(response, partial(self._told, response), body))
            if told.error is None and self._call.operation in _REWRITTEN and self._rewrites():
                body = await self._rewrite(body)
        body = await self._work(self._unmarked, body)
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
        ownership = exchange.ownership
        if ownership is not None:
            await meet(exchange, told)
            if ownership.is_prefixed:
                told = ownership.prefix.remove_from_progress(told)
        exchange.saw(told)
        return told

    def _unmarked(self, body: bytes) -> bytes:
        ownership = self._exchange.ownership
        return body if ownership is None or ownership.prefix.raw not in body else ownership.prefix.remove(body)

    async def _all(self, response: Response) -> bytes:
        """Return the whole body.

        Raises:
            AnswerTooLong: it is longer than `AnswerBounds.kept`.
            Overloaded: the process holds as many bytes of long answers as it may.
        """
        body = response.whole() if self._body is None else self._body
        if body is not None:
            self._hold(len(body))
            return body
        if int(response.header(b"content-length") or 0) > self._bounds.kept:
            raise self._too_long()
        gathered: bytes | bytearray = b""
        while part := await self._next(response):
            if not gathered:
                gathered = part
            else:
                # Not a list of parts, which for an agent that drips is many times what it holds.
                if isinstance(gathered, bytes):
                    gathered = bytearray(gathered)
                gathered += part
            self._hold(len(gathered))
        return bytes(gathered)

    def _hold(self, size: int) -> None:
        """Count so many bytes of the answer as held."""
        if size > self._bounds.kept:
            raise self._too_long()
        self._exchange.hold(self._beside + size)

    def _too_long(self) -> AnswerTooLong:
        return AnswerTooLong("the agent's answer is too long", detail=f"over {self._bounds.kept} bytes")

    async def _judge(self, response: Response, work: Callable[[bytes], _T], body: bytes) -> _T:
        """Return what the answer tells; before that is known nothing else is asked on its connection (safety T14)."""
        if len(body) < _LONG:
            return work(body)
        response.disown()
        return await self._work(work, body)

    def _read_refusal(
        self, response: Response, content_type: bytes | None, body: bytes
    ) -> Coroutine[Any, Any, progress.Progress]:
        """As `_read_error`, in a thread if the body is long."""
        return self._judge(response, lambda each: self._read_error(response, content_type, each), body)

    def _work(self, work: Callable[[bytes], _T], body: bytes) -> Coroutine[Any, Any, _T]:
        """Return what `work` makes of the body, in a thread if that is long."""
        return self._exchange.kept.work(work, body, len(body))

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
        refuse_crowd(body)
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
        ownership = self._exchange.ownership
        if ownership is not None and told is not progress.NOTHING and await ownership.is_foreign_error(told):
            raise UpstreamProtocol(
                "the agent's answer is not this caller's", detail="its error tells of another's task"
            )

    async def _rewrite(self, body: bytes) -> bytes:
        """Change what must not go out as it came."""
        if len(body) > _LONGEST_CHANGED:
            raise UpstreamProtocol("the agent's answer is too long", detail=f"over {_LONGEST_CHANGED} bytes")
        try:
            if self._call.operation is Operation.GET_EXTENDED_CARD:
                return await self._card(body)
            return restore_tenant(body, self._call.dialect.binding, self._call.tenant)
        except BadRequest as error:
            # Written twice or in another case: what is to be changed could be read in two ways.
            raise UpstreamProtocol(_TWO_WAYS, detail=error.message) from error

    def _told(self, response: Response, body: bytes) -> progress.Progress:
        """Return what an answer tells; one that is none is refused."""
        refuse_crowd(body)
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


def refuse_type(content_type: bytes | None) -> None:
    """Refuse an answer that says of itself that it is no JSON.

    Raises:
        UpstreamProtocol: it does.
    """
    if content_type is not None and not is_json(content_type):
        raise UpstreamProtocol("the agent's answer is no JSON", detail=f"content-type {content_type[:64]!r}")


def _named_in(body: bytes) -> NestedIds | None:
    """What the body of an error over HTTP+JSON names.

    Raises:
        UpstreamProtocol: it can be read in two ways.
    """
    try:
        return nested_in_body(body)
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
