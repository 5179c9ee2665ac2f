"""Method fallback: asks an agent again under the other name that its generation has for a call (protocol §1.3).

Two calls have two names before 1.0, and no card tells which of them an agent knows. The extended card is at a path in
0.2 and behind a method in 0.3; a subscription has a second method name in the wild. An agent is asked as its client
asks, and where it does not know that, in the other way.
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

TWO_WAYS = frozenset({Operation.GET_EXTENDED_CARD, Operation.SUBSCRIBE_TO_TASK})
"""Operations that have two names."""
_SUBSCRIBE, _RESUBSCRIBE = "tasks/subscribe", "tasks/resubscribe"
# Statuses of a server that does not know a path.
_UNKNOWN_PATH = frozenset({404, 405})
_LENGTHY = 6
"""Digits of a content-length from which on an answer is no such error."""
# a2a-sdk 0.2 answers an unknown method as an invalid request.
_UNKNOWN_METHOD = frozenset({METHOD_NOT_FOUND.code, INVALID_REQUEST.code})


async def is_unknown(call: Call, theirs: Dialect, relay: Relay, response: Response) -> bool:
    """Return whether an agent does not know the name of a call, and may know the other; such an answer is read then.

    Args:
        call: As the agent got it.
        theirs: The agent's dialect.
        relay: What would pass the answer on, and still can.

    Raises:
        UpstreamReset, UpstreamTimeout, UpstreamProtocol: as the relay reads it.
    """
    if theirs != JSONRPC_0_3 or call.operation not in TWO_WAYS or answer_head(response).streams:
        return False
    if call.path.legacy_card:
        if response.status not in _UNKNOWN_PATH:
            return False
        await relay.read(response)
        return True
    length = response.header(b"content-length")
    if length is not None and len(length) > _LENGTHY:
        return False
    error = envelope.error(call, response.status, await relay.read(response))
    return error is not None and error.code in _UNKNOWN_METHOD


async def find(
    call: Call,
    translation: Translation,
    ask: Callable[[Call], Awaitable[Response]],
    interpreter: Callable[[Translation], Interpreter],
) -> tuple[Interpreter, Response] | None:
    """Return the answer under another name and what brings it to the client; None where the agent knows no other.

    Args:
        call: As the agent got it and did not know it.
        translation: Of the client's call, to the method of 0.3.

    Raises:
        Fault: as `ask`.
    """
    by_method = translation.call
    for way in _ways(call, by_method):
        translation.call = way
        bringing = interpreter(translation)
        try:
            response = await ask(way)
        except BaseException:
            translation.call = by_method
            raise
        try:
            # A client that asked by the path gets the agent's answer to the method, whatever it is.
            if call.path.legacy_card or not await is_unknown(way, JSONRPC_0_3, bringing, response):
                return bringing, response
        except BaseException:
            response.close()
            raise
        response.close()
    translation.call = by_method
    return None


def _ways(call: Call, by_method: Call) -> list[Call]:
    if call.path.legacy_card:
        return [by_method]
    alias = call.method != by_method.method
    if call.operation is Operation.SUBSCRIBE_TO_TASK:
        return [by_method if alias else _under_its_alias(by_method)]
    return [by_method, _at_path(call)] if alias else [_at_path(call)]


def _under_its_alias(call: Call) -> Call:
    # The method stands in front of the parameters.
    body = call.body.replace(b'"%b"' % _RESUBSCRIBE.encode(), b'"%b"' % _SUBSCRIBE.encode(), 1)
    return replace(call, method=_SUBSCRIBE, body=body)


def _at_path(call: Call) -> Call:
    """Return the same call at the path of 0.2, which has no envelope."""
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
