"""An agent's reply on its way to one client: its head, its body, and the checks that both pass.

`reply.py` delivers one frame, `stream.py` delivers many, and `list_tasks.py` reads the pages of a list.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from gateway.a2a import agent_frame
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.bindings.jsonrpc import answers, is_same
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.headers import TO_CLIENT, is_json, media_type, pass_on
from gateway.a2a.progress import NOTHING, Progress
from gateway.a2a.translation import Translation
from gateway.backend.backend import OWN_IDS, Backend
from gateway.proxy.overload import ASIDE
from gateway.proxy.request import RequestContext
from gateway.upstream.dialects import Interface
from gateway.upstream.error_page import only_type, refuse_challenge, refuse_page
from gateway.upstream.reply_cache import ReplyHead
from gateway.upstream.upstream import Reply

_LONG = 1024 * 1024
"""Bytes of an answer over HTTP from which on it is read in a thread. Its connection is closed then: until the answer is
known to belong to the call no other call may use the connection (safety T14)."""
_TO_CLIENT = TO_CLIENT - {b"content-type", b"x-accel-buffering"}
_NO_STORE = (b"cache-control", b"no-store")
"""An answer belongs to its caller; the agent does not know the other callers of the gateway."""

logger = logging.getLogger("gateway.upstream")
_T = TypeVar("_T")


def head_of(reply: Reply) -> ReplyHead:
    """Return the head of a reply; it is worked out once for all replies of a connection that have the same headers.

    Raises:
        UpstreamProtocol: it has two content types.
    """
    known = reply.known
    if known is not None and (found := known.head) is not None:
        return found
    content_type = only_type(reply)
    media = media_type(content_type)
    # Without parameters: no charset makes a client read other text than the gateway did.
    json = (b"content-type", media if is_json(media) else b"application/json")
    passed = [*pass_on(reply.headers, _TO_CLIENT), _NO_STORE]
    head = ReplyHead(content_type, reply.is_stream, passed, [*passed, json])
    if known is not None:
        known.head = head
    return head


class ReplyDelivery(msgspec.Struct, eq=False):
    """One reply, the call that it answers, and the client's request; a struct, since one is made for each call.

    Attributes:
        interface: The interface of the agent that was called.
        call: The call as the agent got it.
        clock: Monotonic seconds.
        translation: Between the agent's dialect and the client's; None if they are the same.
        beside: Bytes of other replies that are held for the same request.
        is_renumbered: Whether the agent answered under another id than the call's.
    """

    reply: Reply
    request: RequestContext
    backend: Backend
    interface: Interface
    call: Call
    clock: Callable[[], float]
    translation: Translation | None = None
    beside: int = 0
    is_renumbered: bool = False
    _body: bytes | None = None

    @property
    def is_relayed(self) -> bool:
        """Return whether the agent's headers and bytes go to the client as they are, but for what is replaced."""
        return self.translation is None and self.call.dialect.binding is not Binding.GRPC

    @property
    def _is_wrapped(self) -> bool:
        return self.call.dialect.binding is Binding.JSONRPC

    async def read(self) -> bytes:
        """Return the whole body, and keep it for `take`.

        Raises:
            AnswerTooLong, Overloaded, UpstreamTimeout, UpstreamReset, UpstreamProtocol: as `take`.
        """
        self._body = await self.take()
        return self._body

    async def take(self) -> bytes:
        """Return the whole body; it is not kept.

        Raises:
            AnswerTooLong: it is longer than `AnswerBounds.kept`.
            Overloaded: the process holds as many bytes of long answers as it may.
            UpstreamTimeout, UpstreamReset, UpstreamProtocol: as `Reply.read`.
        """
        body, self._body = self._body, None
        if body is not None:
            return body
        now, upstream = self.clock(), self.backend.upstream
        left = (self.request.sent or now) + upstream.timeouts.total - now
        return await self.reply.read(self.backend.bounds.kept, max(left, 0.001), self._hold)

    def refuse_unasked(self, head: ReplyHead) -> None:
        """Refuse a redirect, a part of an answer, and a stream that answers no streaming call.

        Raises:
            UpstreamProtocol: it is one.
        """
        status = self.reply.http_status
        if 300 <= status < 400 or status == 206:
            # Never followed, and never shown: `Location` is an address of the agent's.
            raise UpstreamProtocol("the agent answered with a redirect or a part", detail=f"status {status}")
        if head.is_stream and (status != 200 or not self.call.operation.streams):
            raise UpstreamProtocol("the agent answered with a stream that was not asked for")

    async def judge(self, body: bytes, head: ReplyHead) -> Progress | None:
        """Return what the body tells; None if it comes with an HTTP error status and passes all checks as an error.

        Args:
            head: The head of the reply.

        Raises:
            UpstreamProtocol: it is no answer of A2A, answers another call, or is an error that tells of another's task.
            UpstreamLimited, UpstreamBusy, BodyTooLarge, WrongHttpMethod: as `refuse_page`.
        """
        reply, call = self.reply, self.call
        if reply.http_status >= 400:
            refuse_challenge(reply)
            error = await self._aside(lambda each: agent_frame.read_error(call, each, head.content_type), body)
            if error is None:
                refuse_page(reply)
                return None
            if self._is_wrapped:
                self._recognise(error.id)
                self.request.add_progress(error)
            await self.refuse_others(error)
            return None
        if len(body) < ASIDE:
            # As `_aside`, which would be two calls more for nearly every answer.
            progress = agent_frame.read_answer(call, body, head.content_type)
        else:
            progress = await self._aside(lambda each: agent_frame.read_answer(call, each, head.content_type), body)
        if progress.id != call.id and self._is_wrapped:
            self._recognise(progress.id)
        return progress

    async def refuse_others(self, error: Progress) -> None:
        """Refuse an agent's error that tells of another's task, as answers may.

        Raises:
            UpstreamProtocol: it does.
        """
        ownership = self.request.ownership
        if ownership is not None and error is not NOTHING and await ownership.is_foreign_error(error):
            raise UpstreamProtocol(
                "the agent's answer is not this caller's", detail="its error tells of another's task"
            )

    async def failure(self, status: Status) -> Status:
        """Return the status of a failed gRPC call as the client may see it.

        Raises:
            UpstreamProtocol: its details name what is another's.
        """
        ownership = self.request.ownership
        if ownership is None:
            return status
        await ownership.refuse_foreign_details(self.error_of(status).details)
        return ownership.prefix.remove_from_status(status)

    def error_of(self, status: Status) -> AgentError:
        """Return the error that a status of gRPC tells."""
        return read_status(status, self.call.dialect.version)

    def without_prefix(self, frame: bytes, *, event: bool = False) -> bytes:
        """Return an answer, or an event of a stream, without context prefixes."""
        ownership = self.request.ownership
        if ownership is None:
            return frame
        if self.call.dialect.binding is Binding.GRPC:
            return ownership.remove_prefix(self.call, frame, event=event)
        return ownership.prefix.remove(frame)

    def work(self, work: Callable[[bytes], _T], frame: bytes) -> Coroutine[Any, Any, _T]:
        """Return what `work` makes of a frame, in a thread if the frame is long."""
        # Not awaited here: nearly every answer is short, and a coroutine in between would cost it time for nothing.
        return self.request.kept.work(work, frame, len(frame))

    def suspect(self) -> None:
        """Reuse no connection on which an answer came under an id of the agent's own, and log it once per agent.

        An id shows whether requests and answers are still in step. If the agent makes up its own, each connection
        serves one call, so that no answer can be taken for that of another (safety T14).

        Raises:
            UpstreamProtocol: the connection has carried another call, whose answer it may be.
        """
        self.reply.distrust()
        warned = self.backend.warned
        if OWN_IDS not in warned:
            warned.add(OWN_IDS)
            logger.warning(
                "agent %s answers under ids of its own: clients get theirs back, and its connections are not reused",
                self.backend.agent,
            )
        if not self.reply.alone:
            raise UpstreamProtocol(
                "the agent answered another request", detail="under another id, on a connection that was used before"
            )

    def _recognise(self, identity: bytes) -> None:
        """Accept an answer under another id on a connection that has carried no other call.

        Raises:
            UpstreamProtocol: as `suspect`.
        """
        if is_same(identity, self.call.id):
            return
        self.is_renumbered = True
        if not answers(identity, self.call.id):
            self.suspect()

    async def _aside(self, work: Callable[[bytes], _T], body: bytes) -> _T:
        """Return what `work` reads in a body; if it is long, in a thread and after its connection was closed."""
        if len(body) < (ASIDE if self.call.dialect.binding is Binding.GRPC else _LONG):
            return work(body)
        self.reply.disown()
        return await self.work(work, body)

    def _hold(self, size: int) -> None:
        self.request.hold(self.beside + size)
