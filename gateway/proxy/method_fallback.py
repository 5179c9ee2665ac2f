"""Method fallback: calls an agent again by the other name of a method in its version (protocol §1.3).

Two operations have two names before 1.0, and no card shows which name an agent knows. The extended card is at a path in
0.2 and behind a method in 0.3; some agents have another method name for a subscription. The client's name is tried
first, then the other one.
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from gateway.a2a.bindings import binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import INVALID_REQUEST, METHOD_NOT_FOUND
from gateway.a2a.operation import Operation
from gateway.a2a.params import NO_PARAMS
from gateway.a2a.paths import PathCall
from gateway.a2a.spelling import SPELLINGS
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.proxy.reply_delivery import ReplyDelivery
from gateway.upstream.upstream import Reply

TWO_WAYS = frozenset({Operation.GET_EXTENDED_CARD, Operation.SUBSCRIBE_TO_TASK})
"""Operations that have two names."""
_RESUBSCRIBE, _SUBSCRIBE = SPELLINGS[Operation.SUBSCRIBE_TO_TASK].jsonrpc_0_3
# Statuses of a server that does not know a path.
_UNKNOWN_PATH = frozenset({404, 405})
_LENGTHY = 6
"""Digits of a content-length from which on an answer is no such error."""
# a2a-sdk 0.2 answers an unknown method as an invalid request.
_UNKNOWN_METHOD = frozenset({METHOD_NOT_FOUND.code, INVALID_REQUEST.code})


async def is_unknown(delivery: ReplyDelivery, theirs: Dialect) -> bool:
    """Return whether an agent does not know the method, and may know the other name.

    The reply has been read then, and can still be delivered.

    Args:
        theirs: The dialect that the agent speaks there.

    Raises:
        UpstreamReset, UpstreamTimeout, UpstreamProtocol: as `ReplyDelivery.read`.
    """
    call, reply = delivery.call, delivery.reply
    if theirs != JSONRPC_0_3 or call.operation not in TWO_WAYS or reply.is_stream:
        return False
    if call.path.legacy_card:
        if reply.http_status not in _UNKNOWN_PATH:
            return False
        await delivery.read()
        return True
    if any(name == b"content-length" and len(value) > _LENGTHY for name, value in reply.headers):
        # It is another error than an unknown method.
        return False
    error = binding.of(call.dialect).read_error(call, reply.http_status, await delivery.read())
    return error is not None and error.code in _UNKNOWN_METHOD


async def is_unknown_path(delivery: ReplyDelivery) -> bool:
    """Return whether the agent does not know a path by this method: for some there are two (protocol trap 1)."""
    reply, translation = delivery.reply, delivery.translation
    if translation is None or delivery.call.dialect.binding is not Binding.REST:
        return False
    if reply.http_status not in _UNKNOWN_PATH:
        return False
    body = await delivery.read()
    return reply.http_status == 405 or translation.read_error(404, body) is None


def by_the_other_verb(call: Call) -> Call:
    """Return a call with the other HTTP method that the path may be known by."""
    return replace(call, verb="GET" if call.verb == "POST" else "POST")


async def find(
    call: Call,
    translation: Translation,
    ask: Callable[[Call], Awaitable[Reply]],
    deliver: Callable[[Reply, Translation, Call], ReplyDelivery],
) -> ReplyDelivery | None:
    """Return the reply to the same call by other names; None if the agent knows none of them.

    Args:
        call: As the agent got it and did not know it.
        translation: Of the client's call, to the method of 0.3.
        deliver: Makes a delivery of a reply.

    Raises:
        Fault: as `ask`.
    """
    by_method = translation.call
    for way in _ways(call, by_method):
        translation.call = way
        try:
            reply = await ask(way)
        except BaseException:
            translation.call = by_method
            raise
        delivery = deliver(reply, translation, translation.call)
        try:
            # A client that used the path gets the agent's answer to the method.
            if call.path.legacy_card or not await is_unknown(delivery, JSONRPC_0_3):
                return delivery
        except BaseException:
            reply.close()
            raise
        reply.close()
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
        params=NO_PARAMS,
        in_body=False,
        tenant_written=True,
        verb="GET",
    )
