"""Whether a caller whose stream goes on could still begin it: asked when another configuration comes into force.

A call is served wholly by the configuration that it met. A stream may last for days, and who was shut out must not be
told anything for days, so it is ended at once: at the end of a whole event, by an error as its last word.

| of the caller, by the new configuration | its streams |
|---|---|
| the API key, the hash of it that was shown, or the token's issuer, audience or tenant is not accepted any more | end |
| no entry fits its certificate any more, or another tenant's does; an authority that may have signed it is gone | end |
| certificates are required by now, and it showed none, or one that such an authority may have signed | end |
| the API key is past an `expires` that is earlier than it was | end |
| its tenant is not admitted any more, or may not call the agent, or the key may not | end |
| its claims are not what the agent requires by now | end |
| the agent is not in the file any more | go on, as long as the tenant is admitted |
| this backend of it (`by_tenant`) is not | go on, as long as the agent may be called |
| anything else | go on |

Decision (2026-11-22): the end of a credential by itself ends no stream. A token of five minutes is to begin calls with,
and a stream is one call; to renew the token within it no generation of A2A has a place.
"""

from gateway.a2a.fault import AuthInvalid, Fault, NotAdmitted
from gateway.config.client import METHOD
from gateway.exchange import Exchange
from gateway.routing.route import read_backend_key
from gateway.snapshot import Snapshot


def revoked(snapshot: Snapshot, exchange: Exchange, now: float) -> Fault | None:
    """Why a stream may not go on; None where it may, or there is none.

    Args:
        snapshot: What is in force by now.
        now: Unix seconds.
    """
    principal, backend = exchange.principal, exchange.backend
    if principal is None or backend is None or exchange.operation is None or not exchange.operation.streams:
        return None
    auth = snapshot.config.auth
    caller = snapshot.authenticator.entitlement.of_caller(principal, now)
    certificate = exchange.head.certificate
    is_void = certificate is not None and certificate.void
    # Nobody stays without one, whatever else was shown.
    required = auth is not None and auth.mtls is not None and auth.mtls.require
    lacks = is_void or certificate is None if required else is_void and principal.method == METHOD
    if caller is None or lacks:
        return AuthInvalid("the credential of this call is not accepted any more", detail="while its stream was open")
    agent, tenant = read_backend_key(backend)
    table = snapshot.table
    if backend in snapshot.backings:
        goes_on = table.may_reach(caller, agent, tenant)
    elif agent in snapshot.config.agents:
        goes_on = table.may_call(caller, agent)
    else:
        goes_on = table.admitted(caller) is not None
    return None if goes_on else NotAdmitted("this agent may not be called any more", detail="while a stream was open")
