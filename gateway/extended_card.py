"""Where agents before 1.0 have their extended card: 0.2 at a path of its own, 0.3 behind a method (protocol §1.3).

Agents know the one, the other or both, and no card tells which. So an agent is asked as its client asks, and where it
does not know that, in the other way.
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from gateway.a2a import envelope
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.error_kind import INVALID_REQUEST, METHOD_NOT_FOUND
from gateway.a2a.operation import Operation
from gateway.a2a.parameter import NOTHING
from gateway.a2a.path import PathCall
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.answer_head import answer_head
from gateway.interpreter import Interpreter
from gateway.relay import Relay
from gateway.upstream.response import Response

# Statuses of a server that does not know a path.
_UNKNOWN_PATH = frozenset({404, 405})
# a2a-sdk 0.2 takes a request with a method that it does not know for none of A2A's.
_UNKNOWN_METHOD = frozenset({METHOD_NOT_FOUND.code, INVALID_REQUEST.code})


async def is_elsewhere(call: Call, theirs: Dialect, relay: Relay, response: Response) -> bool:
    """Whether an agent does not know where it was asked for its extended card; such an answer has been read then.

    Args:
        call: As the agent got it.
        theirs: The dialect that it speaks there.
        relay: Who would pass the answer on, and still can.

    Raises:
        UpstreamReset, UpstreamTimeout, UpstreamProtocol: as the relay reads it.
    """
    if theirs != JSONRPC_0_3 or answer_head(response).streams:
        return False
    if call.path.legacy_card:
        if response.status not in _UNKNOWN_PATH:
            return False
        await relay.read(response)
        return True
    error = envelope.error(call, response.status, await relay.read(response))
    return error is not None and error.code in _UNKNOWN_METHOD


async def find(
    call: Call,
    translation: Translation,
    ask: Callable[[Call], Awaitable[Response]],
    interpreter: Callable[[Translation], Interpreter],
) -> tuple[Interpreter, Response] | None:
    """The answer to the same in other ways, and who brings it to the client; None where the agent knows none of them.

    Args:
        call: As the agent got it and did not know it.
        translation: Of the client's call, to the method of 0.3.

    Raises:
        Fault: as `ask`.
    """
    by_path, by_method = call.path.legacy_card, translation.call
    ways = [by_method] if by_path else [_at_path(call)]
    if not by_path and call.method != by_method.method:
        # An alias, which few agents know.
        ways.insert(0, by_method)
    for way in ways:
        translation.call = way
        bringing, response = interpreter(translation), await ask(way)
        try:
            # Who asked by the path is told what the agent says of the method.
            if by_path or not await is_elsewhere(way, JSONRPC_0_3, bringing, response):
                return bringing, response
        except BaseException:
            response.close()
            raise
        response.close()
    return None


def _at_path(call: Call) -> Call:
    """The same at the path of 0.2, where there is no envelope."""
    return replace(
        call,
        dialect=Dialect(Binding.REST, Version.V0_3),
        path=PathCall(Operation.GET_EXTENDED_CARD, legacy_card=True),
        id=b"null",
        body=b"",
        params=NOTHING,
        in_body=False,
        told=True,
        verb="GET",
    )
