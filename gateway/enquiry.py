"""FORWARD for what the gateway asks so as to answer itself: one call after the other, each good answer whole.

A list of tasks of which only the caller's own may be shown is made of several of the agent's answers (`listing.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from gateway.a2a import agent_error, envelope
from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import Fault, UpstreamProtocol, UpstreamReset
from gateway.a2a.headers import TO_CLIENT, Pairs, pass_on
from gateway.a2a.ids import nested_in_tree
from gateway.a2a.listing import Listing
from gateway.a2a.task_state import state_of
from gateway.a2a.tree import Tree
from gateway.backing import Backing
from gateway.exchange import Exchange
from gateway.listing import Complaint, walk
from gateway.relay import AnswerTooLong, Relay, refuse_type
from gateway.repetition import Asking
from gateway.reply import Reply
from gateway.tasks.ownership import Ownership
from gateway.upstream.failure import FAILING
from gateway.upstream.page import refuse_page
from gateway.upstream.repertoire import Interface
from gateway.upstream.response import Response
from gateway.wire import Wire

if TYPE_CHECKING:
    from gateway.upstream.grpc_answer import GrpcAnswer


class Enquiry:
    """What is asked of one agent for one exchange.

    Args:
        clock: Monotonic seconds.

    Attributes:
        status: Of the last answer, in HTTP's numbers; None before the first.
    """

    def __init__(self, exchange: Exchange, asking: Asking, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._asking = asking
        self._backing = asking.backing
        self._interface = asking.interface
        self._clock = clock
        self._passed: Pairs = []
        # Bytes of all pages: of each some tasks are held until the list is whole.
        self._pages = 0
        self.status: int | None = None

    async def list_tasks(self, call: Call, ownership: Ownership, wire: Wire) -> None:
        """Answer a client's ListTasks with what is the caller's own.

        Raises:
            BadParams, MethodNotAllowed, UpstreamProtocol: as `listing.walk`.
            StateUnavailable: nobody knows whose the tasks are.
        """
        upstream = self._backing.upstream
        listing = Listing(
            call,
            self._interface.dialect,
            tenant=upstream.tenant(call, self._interface),
            id=self._exchange.id,
        )
        cipher = await ownership.isolation.ledger.cipher()
        # Now it is known which context is counted.
        await ownership.authorize(call)
        reply = None
        try:
            frame = await walk(
                listing,
                ask=partial(self._ask, ownership),
                mine=partial(_mine, ownership),
                known=partial(_count, ownership),
                cipher=cipher,
                bound=ownership.bound,
            )
        except Complaint as complaint:
            reply = Reply(self._exchange, self._clock, call.dialect, self._own(), [])
            await reply.complain(wire, complaint.error, partial(_written, call))
            return
        reply = Reply(self._exchange, self._clock, call.dialect, self._own(), [])
        await reply.tell(wire, frame)

    async def _ask(self, ownership: Ownership, call: Call) -> bytes:
        """The agent's good answer."""
        asked = await ownership.authorize(call)
        exchange = self._exchange
        began = self._clock()
        try:
            # Where it is asked again it is the same replica, or another that speaks alike.
            send = partial(self._asking.send, asked)
            try:
                answer = await send()
            except Fault as fault:
                answer = await self._asking.again(asked, fault, send)
            while isinstance(answer, Response):
                if answer.status in FAILING:
                    answer = await self._asking.unless_busy(asked, answer, send)
                    assert isinstance(answer, Response)
                try:
                    return await self._heard(answer, asked)
                except UpstreamReset as fault:
                    answer = await self._asking.again(asked, fault, send)
            self._asking.heard(answer)
            self._asking.stay()
            try:
                return await self._message(answer, asked, ownership)
            finally:
                answer.close()
        finally:
            exchange.upstream += self._clock() - began

    async def _heard(self, response: Response, asked: Call) -> bytes:
        exchange, asking = self._exchange, self._asking
        if response.status in FAILING:
            asking.answered(response.status)
        try:
            self.status = response.status
            hearing = _Hearing(exchange, self._backing, self._interface, self._clock, asked, beside=self._pages)
            frame = await hearing.hear(response)
            self._pages += len(frame)
        except Complaint:
            asking.answered(response.status)
            raise
        except Fault as fault:
            asking.broke(response, fault)
            raise
        finally:
            response.close()
        asking.answered(response.status)
        # Where the list goes on is for the same replica to say.
        asking.stay()
        self._passed = pass_on(response.headers, TO_CLIENT - _OWN)
        return frame

    async def _message(self, answer: "GrpcAnswer", asked: Call, ownership: Ownership) -> bytes:
        if answer.status is not None:
            self.status = read_status(answer.status, Version.V1_0).http_status
            await ownership.refuse_foreign_details(read_status(answer.status, asked.dialect.version).details)
            raise Complaint(read_status(ownership.prefix.remove_from_status(answer.status), asked.dialect.version))
        self.status = 200
        message = answer.whole()
        if message is None:
            raise UpstreamProtocol("the agent's answer is empty")
        if len(message) > self._backing.bounds.kept:
            raise AnswerTooLong("the agent's answer is too long", detail=f"over {self._backing.bounds.kept} bytes")
        self._pages += len(message)
        self._exchange.hold(self._pages)
        return message

    def _own(self) -> Pairs:
        own = (b"cache-control", b"no-store")
        self._exchange.received = self._clock()
        return [*self._passed, own, (b"x-request-id", self._exchange.id.encode("ascii"))]


class _Hearing(Relay):
    """Hears one answer, and brings nothing to anybody."""

    def __init__(
        self,
        exchange: Exchange,
        backing: Backing,
        interface: Interface,
        clock: Callable[[], float],
        asked: Call,
        *,
        beside: int,
    ) -> None:
        super().__init__(exchange, backing, interface, clock)
        self._call = asked
        self._beside = beside
        self._heard = b""

    async def hear(self, response: Response) -> bytes:
        """The good answer.

        Raises:
            Complaint: it is the agent's own error.
            AnswerTooLong, UpstreamProtocol: it is none.
        """
        await self.run(response, cast("Wire", None))
        return self._heard

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:  # noqa: ARG002 - as of any relay
        body = await self._all(response)
        told = None
        if response.status >= 400:
            await self._refuse_others(await self._read_refusal(response, content_type, body))
        else:
            refuse_type(content_type)
            told = await self._judge(response, partial(self._told, response), body)
            if told.error is not None:
                await self._refuse_others(told)
        if told is None or told.error is not None:
            error = envelope.error(self._call, response.status, self._unmarked(body))
            if error is None:
                refuse_page(response)
                return
            raise Complaint(error)
        self._heard = body


async def _mine(ownership: Ownership, tasks: Sequence[Tree]) -> list[Tree]:
    owned = await ownership.check_list([(task["id"], _context(task), _state(task)) for task in tasks])
    return [
        ownership.prefix.remove_from_tree(task)
        for task, is_own in zip(tasks, owned, strict=True)
        if is_own and ((named := nested_in_tree(task)) is None or not await ownership.names_foreign(named))
    ]


def _context(task: Tree) -> str:
    context = task.get("contextId")
    return context if isinstance(context, str) else ""


def _state(task: Tree) -> str:
    """Its state; empty for a task of which there is only the id."""
    status = task.get("status")
    word = status.get("state") if isinstance(status, dict) else None
    return state_of(word) if isinstance(word, str) else ""


async def _count(ownership: Ownership) -> int:
    return await ownership.count()


def _written(call: Call, error: AgentError) -> tuple[int, bytes]:
    if call.dialect.binding is Binding.JSONRPC:
        return 200, agent_error.write_jsonrpc(error, id=call.id, version=call.dialect.version)
    return agent_error.write_rest(error, version=call.dialect.version)


_OWN = frozenset({b"content-type", b"x-accel-buffering"})
