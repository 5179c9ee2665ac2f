"""Protected resource metadata (RFC 9728): the authorization servers that issue tokens for a path.

The challenge of a 401 names the address of the metadata. Both are derived from the path of the request, so they do not
reveal whether there is an endpoint. At the endpoint of an agent with a public card, the metadata also list the scopes
that the agent requires.
"""

from collections.abc import Callable
from itertools import chain

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.fault import BadRequest, WrongHttpMethod
from gateway.a2a.headers import Pairs
from gateway.a2a.paths import FIRST_SEGMENTS, segments
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.routing.endpoint import HOST, Endpoint
from gateway.routing.table import path_segments
from gateway.snapshot import Snapshot

WELL_KNOWN = (".well-known", "oauth-protected-resource")
MAX_AGE = 60
"""Seconds for which a client may keep the metadata."""
_LONGEST = 512
"""Bytes of the longest path that is repeated."""


def metadata_path(snapshot: Snapshot, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the path whose metadata a request asks for, without the gateway's prefix; None if it asks for none.

    The well-known path stands in front of the prefix (RFC 9728 §3.1), also where a proxy takes that away.
    """
    if path[:2] != WELL_KNOWN or "bearer" not in snapshot.authenticator.schemes:
        return None
    prefix, rest = path_segments(snapshot.public.prefix), path[2:]
    return rest[len(prefix) :] if rest[: len(prefix)] == prefix else None


def challenge(snapshot: Snapshot, head: Head) -> str:
    """Return the `WWW-Authenticate` of a 401 (RFC 9728 §5.1)."""
    plain = snapshot.authenticator.challenge
    if "bearer" not in snapshot.authenticator.schemes:
        return plain
    path: tuple[str, ...] = ()
    if head.grpc is None and len(head.path) <= _LONGEST:
        try:
            path = segments(head.path)
        except BadRequest:
            path = ()
        public = len(snapshot.prefix)
        path = path[public:] if path[:public] == snapshot.prefix else ()
    origin, shown, _ = _place(snapshot, head, path)
    where = "/".join((*WELL_KNOWN, *path_segments(snapshot.public.prefix), *shown))
    return f'{plain}, resource_metadata="{origin}/{where}"'


async def show(
    snapshot: Snapshot,
    request: RequestContext,
    path: tuple[str, ...],
    client: Responder,
    *,
    clock: Callable[[], float],
) -> None:
    """Answer with the metadata of a path, without authentication.

    Raises:
        WrongHttpMethod: neither GET nor HEAD.
    """
    head = request.head
    if head.method not in ("GET", "HEAD"):
        raise WrongHttpMethod("this path is for GET, HEAD", allowed=("GET", "HEAD"))
    origin, shown, endpoint = _place(snapshot, head, path)
    auth = snapshot.config.auth
    issuers = [] if auth is None else [issuer.issuer for issuer in auth.issuers.values()]
    metadata: dict[str, object] = {
        "resource": "/".join((origin, *path_segments(snapshot.public.prefix), *shown)),
        "authorization_servers": [url for url in dict.fromkeys(issuers) if url.startswith(("https://", "http://"))],
        "bearer_methods_supported": ["header"],
    }
    agents = [snapshot.table.agents[name] for name in (() if endpoint is None else endpoint.agents)]
    required = [each.requirement.scopes for each in agents if each.public and each.requirement is not None]
    if scopes := sorted(set(chain.from_iterable(required))):
        metadata["scopes_supported"] = scopes
    body = msgspec.json.encode(metadata)
    request.status = 200
    request.first_byte = clock()
    request.bytes_out = len(body)
    headers: Pairs = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"public, max-age=%d" % MAX_AGE),
        (b"x-request-id", request.id.encode("ascii")),
    ]
    await client.answer(200, headers, body)


def _place(snapshot: Snapshot, head: Head, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], Endpoint | None]:
    """Return the origin and the path of the resource at a path, and the endpoint if it is public."""
    # The suffix that HTTP+JSON appends to the path of an agent does not belong to the resource.
    end = next((number for number, segment in enumerate(path) if segment in FIRST_SEGMENTS), len(path))
    shown = path[:end] if len("/".join(path)) <= _LONGEST else ()
    endpoint = _public_endpoint(snapshot, head.host, path) if HOST.fullmatch(head.host) is not None else None
    if endpoint is None:
        return snapshot.public.origin, shown, None
    host = endpoint.host if endpoint.host is None or not endpoint.host.startswith("*.") else head.host
    return snapshot.public.at(host, ()).removesuffix(f"{snapshot.public.prefix}/"), shown, endpoint


def _public_endpoint(snapshot: Snapshot, host: str, path: tuple[str, ...]) -> Endpoint | None:
    """Return the endpoint of a path, as if there were no private agents."""
    table = snapshot.table
    while (endpoint := table.locate(host, path)) is not None:
        if any(table.agents[name].public for name in endpoint.agents):
            return endpoint
        if not endpoint.path:
            return None
        path = path[: len(endpoint.path) - 1]
    return None
