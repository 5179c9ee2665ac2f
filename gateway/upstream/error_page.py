"""Refuse an error page that is not an A2A answer, from an agent or from a server in front of it.

The client gets `upstream_protocol`, because SDKs read an error's text only on HTTP 200, and the page may name addresses
(decision 0002). 429 and 503 with a `Retry-After` keep their status, and a 413 becomes `body_too_large`.
"""

import email.utils

from gateway.a2a.fault import BodyTooLarge, UpstreamBusy, UpstreamLimited, UpstreamProtocol, WrongHttpMethod
from gateway.upstream.upstream import Reply

_LONGEST_WAIT = 86_400.0


def refuse_page(reply: Reply) -> None:
    """Refuse an error page.

    Raises:
        WrongHttpMethod: the agent's path is for another method.
        BodyTooLarge: the request is longer than the agent accepts.
        UpstreamProtocol: any other page; `UpstreamLimited` and `UpstreamBusy` if it has a `Retry-After`.
    """
    status = reply.http_status
    after = retry_after(reply)
    if status == 405 and (allowed := _allowed(reply)):
        # Clients then try the other method: for a subscription the specifications name two (protocol trap 1).
        raise WrongHttpMethod(f"the agent's path is for {', '.join(allowed)}", allowed=allowed)
    if status == 413:
        raise too_large("status 413")
    kind = (
        UpstreamProtocol if after is None else {429: UpstreamLimited, 503: UpstreamBusy}.get(status, UpstreamProtocol)
    )
    raise kind(f"the agent answered with HTTP status {status}", detail=f"status {status}", retry_after=after)


def too_large(detail: str) -> BodyTooLarge:
    """Return the fault of a request that is longer than the agent accepts."""
    return BodyTooLarge("the body is longer than the agent takes", detail=detail)


def _allowed(reply: Reply) -> tuple[str, ...]:
    named = {each.strip() for each in (_first(reply, b"allow") or b"").decode("latin-1").upper().split(",")}
    return tuple(method for method in ("GET", "POST", "DELETE") if method in named)


def refuse_challenge(reply: Reply) -> None:
    """Refuse a 401 or 407 with any content.

    A client would read it as a refusal of its own credential, which the gateway accepted. The agent refuses the
    credential that it got from the gateway.

    Raises:
        UpstreamProtocol: it is one.
    """
    if reply.http_status in (401, 407):
        raise UpstreamProtocol("the agent does not accept the gateway", detail=f"status {reply.http_status}")


def retry_after(reply: Reply) -> float | None:
    """Return the seconds after which the agent accepts another call, or None if it does not say."""
    return seconds_of(_first(reply, b"retry-after"), _first(reply, b"date"))


def seconds_of(retry: bytes | None, date: bytes | None) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait (RFC 9110 §10.2.3), or None where it does not say.

    A time of day is taken by the sender's own clock; no wait is longer than a day.

    Args:
        retry: The value of `Retry-After`.
        date: The value of `Date`.
    """
    if retry is None:
        return None
    if retry.isdigit():
        return min(float(retry[:9]), _LONGEST_WAIT)
    try:
        then = email.utils.parsedate_to_datetime(retry.decode("latin-1"))
        now = email.utils.parsedate_to_datetime((date or retry).decode("latin-1"))
        return min(max((then - now).total_seconds(), 0.0), _LONGEST_WAIT)
    except (ValueError, TypeError):
        # No date, or one with a zone and one without.
        return None


def _first(reply: Reply, name: bytes) -> bytes | None:
    return next((value for known, value in reply.headers if known == name), None)


def only_type(reply: Reply) -> bytes | None:
    """Return the Content-Type, or None.

    Raises:
        UpstreamProtocol: there are two, and clients would differ on which one applies.
    """
    types = [value for name, value in reply.headers if name == b"content-type"]
    if len(types) > 1:
        raise UpstreamProtocol("the agent's answer is of two types", detail=f"{types[0][:64]!r} and {types[1][:64]!r}")
    return types[0] if types else None
