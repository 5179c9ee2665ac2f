"""Authenticates the caller of a request, from its head alone."""

from collections.abc import Callable
from typing import TypeAlias

from gateway.a2a.fault import AuthMissing, AuthUnavailable, Fault
from gateway.identity.authenticator import Credentials
from gateway.identity.mtls import caller_of
from gateway.principal import Principal
from gateway.proxy.connection_cache import TrustedCaller
from gateway.proxy.request import RequestContext
from gateway.snapshot import Snapshot

CountAuth: TypeAlias = Callable[[str, str, str], None]
"""Called with the method, issuer and result of every authentication."""

_RESULTS = {
    "auth_missing": "missing",
    "auth_expired": "expired",
    "auth_unavailable": "unavailable",
    "rate_limited": "limited",
}


async def authenticate(
    snapshot: Snapshot,
    request: RequestContext,
    count: CountAuth,
    wall: Callable[[], float],
    acting_as: Principal | None = None,
) -> None:
    """Authenticate the caller; the request gets its principal, or None if it has no credential.

    Waits only for a token that is not cached, and for keys that are being read.

    Args:
        wall: Wall-clock seconds, by which credentials expire.
        acting_as: The principal that an operator acts as; the head is not looked at then.

    Raises:
        AuthInvalid, AuthExpired, AuthUnavailable: a credential is not valid, or cannot be checked.
        RateLimited: too many credentials from this address were not valid.
        BadRequest, NotAdmitted: a trusted client's identity headers name no caller, or a caller of another tenant.
    """
    if acting_as is not None:
        request.principal = acting_as
        return
    head, cache = request.head, request.cache
    shown = cache.credentials
    if shown is None or shown.address != request.client_ip:
        shown = Credentials(head.all(b"authorization"), head.all(b"x-api-key"), request.client_ip, head.certificate)
        cache.credentials = shown
    try:
        principal = await snapshot.authenticator.authenticate(shown, wall, request.started)
    except Fault as fault:
        issuer = fault.issuer if isinstance(fault, AuthMissing | AuthUnavailable) else ""
        count(_method(shown), issuer, _RESULTS.get(fault.reason, "invalid"))
        raise
    request.principal = principal
    if principal is None:
        count("none", "", "missing")
        return
    count(principal.method, principal.issuer, "ok")
    if principal.trusted:
        trusted = cache.caller
        if trusted is None or trusted.client is not principal:
            caller = caller_of(principal, head, snapshot.identity_headers)
            trusted = cache.caller = TrustedCaller(principal, caller)
        request.principal = trusted.caller


def _method(shown: Credentials) -> str:
    """Return the method of an invalid credential, judged by its form."""
    if shown.api_key:
        return "api_key"
    if not shown.authorization and shown.certificate is not None:
        return "mtls"
    scheme, _, credential = shown.authorization[0].partition(b" ") if shown.authorization else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        return "unknown"
    return "jwt" if credential.count(b".") == 2 else "api_key"
