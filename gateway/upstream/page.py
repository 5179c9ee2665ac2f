"""An answer that is none of A2A's: what an agent, or a server on the way to it, says instead.

Decision, 2026-11-20: it is `upstream_protocol`, with the statuses of that reason (design §12), for SDKs look at an
error's text only on HTTP 200 and the page may name addresses or be a script. Passing its status on was refused: HTTP
machinery acts on 429 and 503 that say when to come again, and only those keep it, with their `Retry-After`.
A 413 is about the caller's request, whoever says it: the caller is told `body_too_large`.
"""

import email.utils

from gateway.a2a.fault import BodyTooLarge, UpstreamBusy, UpstreamLimited, UpstreamProtocol, WrongHttpMethod
from gateway.upstream.response import Response

_LONGEST_WAIT = 86_400.0


def refuse_page(response: Response) -> None:
    """Refuse an error that is no answer of A2A.

    Raises:
        WrongHttpMethod: the agent's path is for another method.
        BodyTooLarge: the agent takes no request as long as this one.
        UpstreamProtocol: else; `UpstreamLimited` and `UpstreamBusy` where it says when to come again.
    """
    status = response.status
    after = retry_after(response)
    kind = UpstreamProtocol
    if after is not None:
        kind = {429: UpstreamLimited, 503: UpstreamBusy}.get(status, UpstreamProtocol)
    if status == 405 and (allowed := _allowed(response)):
        # Clients try the other method then: for a subscription the texts name two (protocol trap 1).
        raise WrongHttpMethod(f"the agent's path is for {', '.join(allowed)}", allowed=allowed)
    if status == 413:
        raise too_large("status 413")
    raise kind(f"the agent answered with HTTP status {status}", detail=f"status {status}", retry_after=after)


def too_large(detail: str) -> BodyTooLarge:
    """Return the fault of a request that is longer than its agent takes."""
    return BodyTooLarge("the body is longer than the agent takes", detail=detail)


def _allowed(response: Response) -> tuple[str, ...]:
    said = (response.header(b"allow") or b"").decode("latin-1").upper()
    return tuple(method for method in ("GET", "POST", "DELETE") if method in {each.strip() for each in said.split(",")})


def refuse_challenge(response: Response) -> None:
    """Refuse a 401 or 407, whatever is in it.

    To whoever sees one, the credential that was shown *here* is not good. It was: what the agent does not accept is
    what the gateway showed, or what a caller had it pass on, and an agent challenges nobody through the gateway.

    Raises:
        UpstreamProtocol: it is one.
    """
    if response.status in (401, 407):
        raise UpstreamProtocol("the agent does not accept the gateway", detail=f"status {response.status}")


def retry_after(response: Response) -> float | None:
    """Seconds after which the agent wants to be asked again, or None if it does not say."""
    return seconds_of(response.header(b"retry-after"), response.header(b"date"))


def seconds_of(retry: bytes | None, date: bytes | None) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait (RFC 9110 §10.2.3), or None where it does not say.

    A time of day is taken by the sender's own clock; no wait is longer than a day.

    Args:
        retry: The value of `Retry-After`.
        date: That of `Date`.
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


def only_type(response: Response) -> bytes | None:
    """The Content-Type, or None where there is none.

    Raises:
        UpstreamProtocol: there are two, and clients would differ on which one counts.
    """
    types = [value for name, value in response.headers if name == b"content-type"]
    if len(types) > 1:
        raise UpstreamProtocol("the agent's answer is of two types", detail=f"{types[0][:64]!r} and {types[1][:64]!r}")
    return types[0] if types else None
