"""What an agent is told beside the call: extensions, credentials, and who calls, in headers or in gRPC's metadata."""

from collections.abc import Iterable
from urllib.parse import quote

from gateway.a2a.call import Head
from gateway.a2a.dialect import Version
from gateway.a2a.headers import Pairs, pass_on
from gateway.upstream.upstream import Caller, Treatment

# Not the space, which HTTP drops at the ends of a value: two subjects must never look alike. And not the escape itself.
_IDENTITY_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"

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


def identity(caller: Caller) -> Pairs:
    """Who calls, and from where; the values are printable ASCII."""
    told: Pairs = [
        (b"x-forwarded-for", caller.forwarded_for.encode("ascii", "replace")),
        (b"x-a2a-tenant", caller.principal.tenant.encode("ascii", "replace")),
    ]
    if caller.principal.subject:
        told.append((b"x-a2a-subject", quote(caller.principal.subject, safe=_IDENTITY_SAFE).encode("ascii")))
    return told
