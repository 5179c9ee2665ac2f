"""Callers of the past, as the configuration sees them now: owners of tasks, and callers whose stream is still open."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gateway.a2a.fault import AuthInvalid
from gateway.identity.api_key import principal_of
from gateway.identity.client_names import METHOD, ClientName, Clients, UnknownClient
from gateway.identity.jwt import subject_of, tenant_of
from gateway.identity.settings import Auth, Issuer
from gateway.principal import ANONYMOUS, Principal


class Entitlement:
    """Checks by one configuration.

    Args:
        auth: None where all callers are anonymous.
        anonymous: Whether callers without a credential are admitted.
        clients: The names of client certificates; None where certificates prove nothing.
        tenants: The tenants that the file names; needed where an issuer has a `tenant_map`.
    """

    def __init__(
        self, auth: Auth | None, *, anonymous: bool, clients: Clients | None = None, tenants: Collection[str] = ()
    ) -> None:
        self._auth = auth
        self._anonymous = anonymous
        self._clients = clients
        self._tenants = tenants

    def of_owner(self, tenant: str, principal: str, now: float) -> Principal | None:
        """Return the caller that an owner is, or None where nobody could prove to be that caller any more.

        An API key has to be there still, of the same tenant, and not expired. Of a token no copy is kept: its issuer
        has to be there, and the tenant to be one of that issuer's where the file says which those are (`tenant`,
        `tenant_map`). A certificate is known by its name alone, which has to be of that tenant.

        Args:
            principal: `<issuer>/<subject>`, as `tasks.store.Owner` has it: for an API key `/<name>`.
            now: Unix seconds.
        """
        issuer, _, subject = principal.partition("/")
        if not issuer and not subject:
            return ANONYMOUS if self._anonymous and tenant == ANONYMOUS.tenant else None
        if self._auth is None:
            return None
        if issuer == METHOD:
            name, _, behalf = subject.partition("\n")
            return _speaking_for(self._named(tenant, [ClientName.read(name)]), behalf, "")
        if issuer:
            known = self._auth.issuers.get(issuer)
            if known is None or not self._may_name(known, tenant):
                return None
            return Principal(tenant, subject, "jwt", issuer)
        key = self._auth.api_keys.get(subject)
        if key is None or key.tenant != tenant:
            return None
        caller = principal_of(subject, key)
        return caller if now < caller.expires else None

    def of_caller(self, principal: Principal, now: float) -> Principal | None:
        """Return the caller of an open call, as the same credential would prove it now; None if it proves nothing.

        An API key has to be there still, with the hash that was shown, and of the same tenant; one that ended by the
        day that was known when it was shown counts. Of a token the issuer, audience, tenant and subject are compared
        with its claims; neither its signature nor its end is checked again. Of a certificate the names are.

        Args:
            now: Unix seconds.
        """
        auth = self._auth
        if auth is None or principal.method == "anonymous":
            return ANONYMOUS if self._anonymous else None
        if principal.method == "jwt":
            issuer = auth.issuers.get(principal.issuer)
            return principal if issuer is not None and self._still_accepts(issuer, principal) else None
        if principal.method == METHOD:
            # A common name alone where that is all that the certificate has.
            alternative = principal.claims.get("san")
            subjects = (isinstance(alternative, tuple) and alternative) or (principal.subject,)
            caller = self._named(principal.tenant, [ClientName.read(each) for each in subjects], principal.claims)
            return _speaking_for(caller, principal.on_behalf_of, principal.session)
        key = auth.api_keys.get(principal.subject)
        if key is None or key.tenant != principal.tenant:
            return None
        if principal.digest not in {written.strip().lower() for written in key.sha256}:
            return None
        caller = principal_of(principal.subject, key)
        if caller.expires <= now and caller.expires < principal.expires:
            return None
        return replace(caller, digest=principal.digest)

    def _may_name(self, issuer: Issuer, tenant: str) -> bool:
        """Return whether tokens of an issuer may be of a tenant, as far as the file says."""
        if issuer.tenant is not None:
            return tenant == issuer.tenant
        if not issuer.tenant_map:
            return True
        return tenant in issuer.tenant_map.values() or ("*" not in issuer.tenant_map and tenant not in self._tenants)

    def _still_accepts(self, issuer: Issuer, principal: Principal) -> bool:
        claims = principal.claims
        try:
            tenant, subject = tenant_of(issuer, claims, self._tenants), subject_of(issuer, claims)
        except AuthInvalid:
            return False
        # An empty subject names nobody else.
        is_same = tenant == principal.tenant and subject in ("", principal.subject)
        audience = claims.get("aud")
        members = audience if isinstance(audience, list) else [audience]
        is_meant = any(member in issuer.audience for member in members)
        return is_meant and claims.get("iss") == issuer.issuer and is_same

    def _named(
        self, tenant: str, names: Sequence[ClientName], claims: Mapping[str, object] | None = None
    ) -> Principal | None:
        """Return the caller of this tenant whose certificate has these names, and the claims that are known of it."""
        try:
            whose = None if self._clients is None else self._clients.find(names)
        except UnknownClient:
            return None
        if whose is None or whose.tenant != tenant:
            return None
        return whose.principal({} if claims is None else {**claims, "client": whose.client})


def _speaking_for(client: Principal | None, behalf: str, session: str) -> Principal | None:
    """Return the caller for whom a client speaks; None where it is no longer trusted to."""
    if client is None or not (behalf or session):
        return client
    return replace(client, on_behalf_of=behalf, session=session) if client.trusted else None
