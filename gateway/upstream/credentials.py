"""Credentials, the identity of the caller, and extensions, as headers or gRPC metadata for an agent."""

from collections.abc import Iterable
from urllib.parse import quote

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Version
from gateway.a2a.fault import AuthMissing
from gateway.a2a.headers import Pairs, pass_on
from gateway.principal import Principal
from gateway.routing.token_claim import claim_at, single
from gateway.upstream.oauth2 import Subject
from gateway.upstream.upstream import Caller, IdentityNames, Treatment

# Neither the space, which HTTP drops at the ends of a value, nor the escape: two subjects must never be equal.
_IDENTITY_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"

EXTENSIONS = frozenset({b"a2a-extensions", b"x-a2a-extensions"})


def extensions(headers: Iterable[tuple[bytes, bytes]], version: Version) -> Pairs:
    """Return the extensions header of a generation; nothing if there are no extensions."""
    named = dict.fromkeys(
        name.strip() for _, value in pass_on(headers, EXTENSIONS) for name in value.split(b",") if name.strip()
    )
    header = b"a2a-extensions" if version is Version.V1_0 else b"x-a2a-extensions"
    return [(header, b", ".join(named))] if named else []


def credentials(treatment: Treatment, head: Head) -> Pairs:
    """Return the gateway's credentials, and the caller's own if it is forwarded."""
    own = list(treatment.credentials)
    if treatment.forward_caller:
        return [pair for pair in head.headers if pair[0] in (b"authorization", b"x-api-key")] + own
    return own


def subject_of(head: Head, principal: Principal) -> Subject:
    """Return the token of the caller, to be exchanged for one for the agent.

    Only a token that the gateway has verified is exchanged: the token endpoint must not see API keys.

    Raises:
        AuthMissing: The caller has no token.
    """
    shown = head.all(b"authorization")
    expires = principal.claims.get("exp")
    if principal.method != "jwt" or len(shown) != 1 or not isinstance(expires, int | float):
        raise AuthMissing("this agent needs a bearer token: show one of an accepted issuer")
    return Subject(shown[0].partition(b" ")[2].strip(b" ").decode("ascii"), float(expires))


def identity(caller: Caller, names: IdentityNames) -> Pairs:
    """Return the identity and address of the caller, in printable ASCII."""
    principal = caller.principal
    headers: Pairs = [(b"x-forwarded-for", caller.forwarded_for.encode("ascii", "replace"))]
    for name, claim, own in (
        (names.tenant, names.tenant_claim, principal.tenant),
        # The token of a client that acts for a user has no claims of that user.
        (
            names.subject,
            "" if principal.on_behalf_of else names.subject_claim,
            principal.on_behalf_of or principal.subject,
        ),
    ):
        value = _claimed(principal, claim) if claim else own
        if name and value:
            headers.append((name, _safe(value)))
    return headers


def session(call: Call, caller: Caller, names: IdentityNames) -> Pairs:
    """Return the session header, if it is configured.

    Its value is the session that a trusted client names, else a claim, else the context of the call.
    """
    if not names.session:
        return []
    principal = caller.principal
    own = _claimed(principal, names.session_claim) if names.session_claim else call.context_id
    value = principal.session or own
    return [(names.session, _safe(value))] if value else []


def _claimed(principal: Principal, path: str) -> str:
    """Return a claim that is one text or integer; empty for anything else."""
    value = claim_at(principal.claims, path)
    return str(value) if type(value) is int else single(principal.claims, path) or ""


def _safe(text: str) -> bytes:
    return quote(text, safe=_IDENTITY_SAFE).encode("ascii")
