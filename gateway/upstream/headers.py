"""What an agent is told beside the call: extensions, credentials, and who calls, in headers or in gRPC's metadata."""

from collections.abc import Iterable
from urllib.parse import quote

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Version
from gateway.a2a.headers import Pairs, pass_on
from gateway.principal import Principal
from gateway.routing.token_claim import claim_at, single
from gateway.upstream.upstream import Caller, IdentityNames, Treatment

# Not the space, which HTTP drops at the ends of a value: two subjects must never look alike. And not the escape itself.
_IDENTITY_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"

_NAMES = IdentityNames()
EXTENSIONS = frozenset({b"a2a-extensions", b"x-a2a-extensions"})


def extensions(headers: Iterable[tuple[bytes, bytes]], version: Version) -> Pairs:
    """The header that names extensions as a generation calls it, or none where nothing is named."""
    named = dict.fromkeys(
        name.strip() for _, value in pass_on(headers, EXTENSIONS) for name in value.split(b",") if name.strip()
    )
    header = b"a2a-extensions" if version is Version.V1_0 else b"x-a2a-extensions"
    return [(header, b", ".join(named))] if named else []


def credentials(treatment: Treatment, head: Head) -> Pairs:
    """How the gateway shows itself, and the caller's own credential where that goes along."""
    shown: Pairs = []
    if treatment.forward_caller:
        shown += [pair for pair in head.headers if pair[0] in (b"authorization", b"x-api-key")]
    shown += treatment.credentials
    return shown


def identity(caller: Caller, names: IdentityNames = _NAMES) -> Pairs:
    """Who calls, and from where; the values are printable ASCII."""
    principal = caller.principal
    told: Pairs = [(b"x-forwarded-for", caller.forwarded_for.encode("ascii", "replace"))]
    for name, claim, own in (
        (names.tenant, names.tenant_claim, principal.tenant),
        # A client that speaks for others has no claim of theirs.
        (
            names.subject,
            "" if principal.on_behalf_of else names.subject_claim,
            principal.on_behalf_of or principal.subject,
        ),
    ):
        value = _claimed(principal, claim) if claim else own
        if name and value:
            told.append((name, _safe(value)))
    return told


def session(call: Call, caller: Caller, names: IdentityNames) -> Pairs:
    """The session of a call, where the agent is told of it in a header.

    It is the one that a trusted client names, else a claim's value, else the context of the call.
    """
    if not names.session:
        return []
    principal = caller.principal
    own = _claimed(principal, names.session_claim) if names.session_claim else call.context_id
    value = principal.session or own
    return [(names.session, _safe(value))] if value else []


def _claimed(principal: Principal, path: str) -> str:
    """The value of a claim as a header has it: one text or whole number; empty for anything else."""
    value = claim_at(principal.claims, path)
    return str(value) if type(value) is int else single(principal.claims, path) or ""


def _safe(text: str) -> bytes:
    return quote(text, safe=_IDENTITY_SAFE).encode("ascii")
