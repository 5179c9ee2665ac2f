"""Who was proven once, as the configuration sees it now: for what is done in an owner's name while it does not call."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gateway.a2a.fault import AuthInvalid
from gateway.config.client import METHOD, ClientName, Clients, NobodyKnown
from gateway.config.model import Auth, Issuer
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.api_key import principal_of
from gateway.identity.jwt import subject_of, tenant_of
from gateway.principal import Principal


def standing(
    auth: Auth | None,
    tenant: str,
    principal: str,
    *,
    anonymous: bool,
    now: float,
    clients: Clients | None = None,
    tenants: Collection[str] = (),
) -> Principal | None:
    """The caller that an owner is; None for one that nobody can prove to be any more.

    An API key has to be there still, its tenant's, and not at its end. Of a token there is no copy: its issuer has to
    be there, and the tenant to be one of that issuer's where the file says which that is (`tenant`, `tenant_map`). Of
    a certificate there is the name alone: it has to be one of that tenant's.

    Args:
        auth: None where all callers are anonymous.
        principal: `<issuer>/<subject>`, as `tasks.store.Owner` has it: for an API key `/<name>`.
        anonymous: Whether callers that show nothing are admitted.
        now: Unix seconds.
        clients: Whose the names on certificates are; None where certificates prove nobody.
        tenants: Those that the file names; asked for where an issuer has a `tenant_map`.
    """
    issuer, _, subject = principal.partition("/")
    if not issuer and not subject:
        return ANONYMOUS if anonymous and tenant == ANONYMOUS.tenant else None
    if auth is None:
        return None
    if issuer == METHOD:
        name, _, behalf = subject.partition("\n")
        return _speaking(_named(clients, tenant, [ClientName.read(name)]), behalf, "")
    if issuer:
        known = auth.issuers.get(issuer)
        if known is None or not _may_name(known, tenant, tenants):
            return None
        return Principal(tenant, subject, "jwt", issuer)
    key = auth.api_keys.get(subject)
    if key is None or key.tenant != tenant:
        return None
    found = principal_of(subject, key)
    return found if now < found.expires else None


def still_proven(
    auth: Auth | None,
    principal: Principal,
    *,
    anonymous: bool,
    now: float,
    clients: Clients | None = None,
    tenants: Collection[str] = (),
) -> Principal | None:
    """The caller of a call that goes on, as the same credential would prove it now; None where it would prove nothing.

    An API key has to be there still, with the hash that was shown, and its tenant's; where it has ended meanwhile, by
    the day that the file named when it was shown, that is no matter. Of a token its issuer, audience, tenant and
    subject are compared, as they stand in its claims; neither its signature nor its end is looked at again. Of a
    certificate it is the names on it.

    Args:
        auth, anonymous, now, clients, tenants: As of `standing`.
    """
    if auth is None or principal.method == "anonymous":
        return ANONYMOUS if anonymous else None
    if principal.method == "jwt":
        issuer = auth.issuers.get(principal.issuer)
        return principal if issuer is not None and _still_accepts(issuer, principal, tenants) else None
    if principal.method == METHOD:
        found = _named(clients, principal.tenant, _names(principal), principal.claims)
        return _speaking(found, principal.on_behalf_of, principal.session)
    key = auth.api_keys.get(principal.subject)
    if key is None or key.tenant != principal.tenant:
        return None
    if principal.digest not in {written.strip().lower() for written in key.sha256}:
        return None
    found = principal_of(principal.subject, key)
    return (
        None if found.expires <= now and found.expires < principal.expires else replace(found, digest=principal.digest)
    )


def _may_name(issuer: Issuer, tenant: str, tenants: Collection[str]) -> bool:
    """Whether tokens of an issuer may be of a tenant, as far as the file says whose they are."""
    if issuer.tenant is not None:
        return tenant == issuer.tenant
    if not issuer.tenant_map:
        return True
    return tenant in issuer.tenant_map.values() or ("*" not in issuer.tenant_map and tenant not in tenants)


def _still_accepts(issuer: Issuer, principal: Principal, tenants: Collection[str]) -> bool:
    claims = principal.claims
    try:
        tenant, subject = tenant_of(issuer, claims, tenants), subject_of(issuer, claims)
    except AuthInvalid:
        return False
    # A claim that says nothing names nobody else.
    is_same = tenant == principal.tenant and subject in ("", principal.subject)
    audience = claims.get("aud")
    members = audience if isinstance(audience, list) else [audience]
    is_meant = any(member in issuer.audience for member in members)
    return is_meant and claims.get("iss") == issuer.issuer and is_same


def _named(
    clients: Clients | None, tenant: str, names: Sequence[ClientName], claims: Mapping[str, object] | None = None
) -> Principal | None:
    """The caller of this tenant whose certificate has these names, with what else is known to be on it."""
    try:
        whose = None if clients is None else clients.find(names)
    except NobodyKnown:
        return None
    if whose is None or whose.tenant != tenant:
        return None
    return whose.principal({} if claims is None else {**claims, "client": whose.client})


def _speaking(client: Principal | None, behalf: str, session: str) -> Principal | None:
    """The caller for whom a client speaks; None where it is no longer trusted to."""
    if client is None or not (behalf or session):
        return client
    return replace(client, on_behalf_of=behalf, session=session) if client.trusted else None


def _names(principal: Principal) -> list[ClientName]:
    """The names on the certificate of a caller; a common name alone where that is all it has."""
    alternative = principal.claims.get("san")
    read = [ClientName.read(name) for name in alternative] if isinstance(alternative, tuple) else []
    return read or [ClientName.read(principal.subject)]
