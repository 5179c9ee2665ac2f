"""Who was proven once, as the configuration sees it now: for what is done in an owner's name while it does not call."""

from gateway.config.model import Auth
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.api_key import principal_of
from gateway.principal import Principal


def standing(auth: Auth | None, tenant: str, principal: str, *, anonymous: bool, now: float) -> Principal | None:
    """The caller that an owner is; None for one that nobody can prove to be any more.

    An API key has to be there still, its tenant's, and not at its end. Of a token there is no copy: its issuer has to
    be there, and the tenant to be one of that issuer's where the file says which that is.

    Args:
        auth: None where all callers are anonymous.
        principal: `<issuer>/<subject>`, as `tasks.store.Owner` has it: for an API key `/<name>`.
        anonymous: Whether callers that show nothing are admitted.
        now: Unix seconds.
    """
    issuer, _, subject = principal.partition("/")
    if not issuer and not subject:
        return ANONYMOUS if anonymous and tenant == ANONYMOUS.tenant else None
    if auth is None:
        return None
    if issuer:
        known = auth.issuers.get(issuer)
        if known is None or known.tenant not in (None, tenant):
            return None
        return Principal(tenant, subject, "jwt", issuer)
    key = auth.api_keys.get(subject)
    if key is None or key.tenant != tenant:
        return None
    found = principal_of(subject, key)
    return found if now < found.expires else None
