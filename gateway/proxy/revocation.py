"""Decides which open streams end when a new configuration is activated.

A call is served by the configuration under which it began. A stream may last for days, so it is checked again: the
stream of a caller that lost its access ends after a whole event, with an error as its last event.

| the caller, under the new configuration | its streams |
|---|---|
| its API key (by its hash), or its token's issuer, audience or tenant, is not accepted any more | end |
| no entry fits its certificate any more, or another tenant's does; an authority that may have signed it is gone | end |
| certificates are required now, and it showed none, or one that such an authority may have signed | end |
| its API key is past an `expires` that is earlier than it was | end |
| its tenant is not admitted any more, or may not call the agent, or the key may not | end |
| its claims do not fulfil what the agent requires now | end |
| the agent is not in the file any more | go on, as long as the tenant is admitted |
| this backend of it (`by_tenant`) is not | go on, as long as the agent may be called |
| anything else | go on |

The expiry of a credential by itself ends no stream, because no version of A2A can renew the token within it (decision
0006).
"""

from gateway.a2a.fault import AuthInvalid, Fault, NotAdmitted
from gateway.identity.client_names import METHOD
from gateway.proxy.request import RequestContext
from gateway.routing.route import read_backend_key
from gateway.snapshot import Snapshot


def revoked(snapshot: Snapshot, request: RequestContext, now: float) -> Fault | None:
    """Return why a stream may not go on; None where it may, or the request is no stream.

    Args:
        snapshot: The current one.
        now: Unix seconds.
    """
    principal, backend = request.principal, request.backend
    if principal is None or backend is None or request.operation is None or not request.operation.streams:
        return None
    auth = snapshot.config.auth
    caller = snapshot.authenticator.entitlement.of_caller(principal, now)
    certificate = request.head.certificate
    is_void = certificate is not None and certificate.void
    # Where certificates are required, no other credential replaces one.
    required = auth is not None and auth.mtls is not None and auth.mtls.require
    lacks = is_void or certificate is None if required else is_void and principal.method == METHOD
    if caller is None or lacks:
        return AuthInvalid("the credential of this call is not accepted any more", detail="while its stream was open")
    agent, tenant = read_backend_key(backend)
    table = snapshot.table
    if backend in snapshot.backends:
        goes_on = table.may_reach(caller, agent, tenant)
    elif agent in snapshot.config.agents:
        goes_on = table.may_call(caller, agent)
    else:
        goes_on = table.admitted(caller) is not None
    return None if goes_on else NotAdmitted("this agent may not be called any more", detail="while a stream was open")
