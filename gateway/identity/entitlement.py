"""Checks of earlier callers under the current configuration: owners of tasks, and callers with open streams."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gateway.a2a.fault import AuthInvalid
from gateway.identity.api_key import principal_of
from gateway.identity.client_names import METHOD, ClientName, Clients, UnknownClient
from gateway.identity.jwt import subject_of, tenant_of
from gateway.identity.settings import AuthSettings, IssuerSettings
from gateway.principal import ANONYMOUS, Principal


class Entitlement:
    """Checks by one configuration.

    Args:
        auth: None where all callers are anonymous.
        anonymous: Whether callers without a credential are admitted.
        clients: The names of client certificates; None if certificates are not accepted.
        tenants: The tenants that the file names; needed where an issuer has a `tenant_map`.
    """

    def __init__(
        self,
        auth: AuthSettings | None,
        *,
        anonymous: bool,
        clients: Clients | None = None,
        tenants: Collection[str] = (),
    ) -> None:
        self._auth = auth
        self._anonymous = anonymous
        self._clients = clients
        self._tenants = tenants

    def of_owner(self, tenant: str, principal: str, now: float) -> Principal | None:
        """Return the caller of an owner, or None if no credential can prove this caller any more.

        An API key must still exist, belong to the same tenant, and not be expired. Tokens are not stored: the issuer
        must still exist, and the tenant must be one of the issuer's, if the file lists these (`tenant`, `tenant_map`).
        Of a certificate only the name is stored, which must belong to that tenant.

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
        """Return the caller that the credential of an open call would prove now; None if it is no longer accepted.

        An API key must still exist, with the same hash and tenant; its expiry counts only if it was moved to an earlier
        day. The issuer, audience, tenant and subject of a token are compared with its claims; its signature and expiry
        are not checked again. Of a certificate the names are compared.

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
            # Only the common name, if the certificate has no other name.
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

    def _may_name(self, issuer: IssuerSettings, tenant: str) -> bool:
        """Return whether an issuer may issue tokens of a tenant, as far as the file says."""
        if issuer.tenant is not None:
            return tenant == issuer.tenant
        if not issuer.tenant_map:
            return True
        return tenant in issuer.tenant_map.values() or ("*" not in issuer.tenant_map and tenant not in self._tenants)

    def _still_accepts(self, issuer: IssuerSettings, principal: Principal) -> bool:
        claims = principal.claims
        try:
            tenant, subject = tenant_of(issuer, claims, self._tenants), subject_of(issuer, claims)
        except AuthInvalid:
            return False
        # An empty subject names no other caller.
        is_same = tenant == principal.tenant and subject in ("", principal.subject)
        audience = claims.get("aud")
        members = audience if isinstance(audience, list) else [audience]
        is_meant = any(member in issuer.audience for member in members)
        return is_meant and claims.get("iss") == issuer.issuer and is_same

    def _named(
        self, tenant: str, names: Sequence[ClientName], claims: Mapping[str, object] | None = None
    ) -> Principal | None:
        """Return the caller of this tenant with these names on its certificate, and its known claims."""
        try:
            whose = None if self._clients is None else self._clients.find(names)
        except UnknownClient:
            return None
        if whose is None or whose.tenant != tenant:
            return None
        return whose.principal({} if claims is None else {**claims, "client": whose.client})


def _speaking_for(client: Principal | None, behalf: str, session: str) -> Principal | None:
    """Return the caller on whose behalf a client calls; None if it is no longer trusted."""
    if client is None or not (behalf or session):
        return client
    return replace(client, on_behalf_of=behalf, session=session) if client.trusted else None
