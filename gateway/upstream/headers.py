"""What an agent is told beside the call: extensions, credentials, and who calls, in headers or in gRPC's metadata."""

from collections.abc import Iterable
from urllib.parse import quote

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Version
from gateway.a2a.headers import Pairs, pass_on
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
    told: Pairs = [(b"x-forwarded-for", caller.forwarded_for.encode("ascii", "replace"))]
    if names.tenant:
        told.append((names.tenant, caller.principal.tenant.encode("ascii", "replace")))
    if names.subject and caller.principal.subject:
        told.append((names.subject, _safe(caller.principal.subject)))
    return told


def session(call: Call, names: IdentityNames) -> Pairs:
    """The context in which a call is made, where the agent is told of it in a header, too."""
    if not names.session or not call.context_id:
        return []
    return [(names.session, _safe(call.context_id))]


def _safe(text: str) -> bytes:
    return quote(text, safe=_IDENTITY_SAFE).encode("ascii")
