"""Finds the endpoint of a request and the dialect in which to answer it, from the head alone.

No request is refused here: until the caller is known, an existing and a missing endpoint must get the same answer, in
the same dialect. So the dialect is guessed from the head until the body is read.
"""

from msgspec.structs import replace

from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Version, parse_version
from gateway.a2a.fault import BadRequest, EncodedBody, NoEndpoint, WrongHttpMethod
from gateway.a2a.headers import is_encoded, is_no_json, refuse_ambiguous
from gateway.a2a.params import query_value
from gateway.a2a.paths import OPERATION_SEGMENTS, PathCall, read_rest, segments
from gateway.catalog.feeds import CONTENT_TYPES
from gateway.proxy.catalog_requests import page_at
from gateway.proxy.connection_cache import Location
from gateway.proxy.protected_resource import metadata_path
from gateway.proxy.request import RequestContext
from gateway.routing.endpoint import HOST
from gateway.snapshot import Snapshot


def locate(snapshot: Snapshot, request: RequestContext) -> Location:
    """Return the location of a request; the request gets its preliminary dialect."""
    location = request.cache.location
    if location is None:
        location = _read(snapshot, request.head)
        if location.unread is None:
            # The traceback of a fault grows with each raise.
            request.cache.location = location
    request.binding, request.version = location.binding, location.version
    if location.unread is None:
        request.operation = location.operation
    return location


def called_path(location: Location) -> PathCall:
    """Return the call in the path.

    Raises:
        BadRequest, NoEndpoint, WrongHttpMethod, EncodedBody: there is no such call, or not in this way.
    """
    path = location.path
    if path is None:
        raise location.unread or NoEndpoint(NoEndpoint.words)
    if path.allowed:
        refuse_method(path)
    if location.is_encoded:
        raise EncodedBody("the body must not be encoded")
    return path


def refuse_method(path: PathCall) -> None:
    """Refuse an HTTP method that the path does not have.

    Raises:
        WrongHttpMethod: it has others.
    """
    if path.allowed:
        raise WrongHttpMethod(f"this path is for {', '.join(path.allowed)}", allowed=path.allowed)


def version_text(head: Head) -> str | None:
    """Return the version as the client writes it; None where it names none.

    Raises:
        BadRequest: the header names one version and the query another; the agent would read both.
    """
    written = (head.first(b"a2a-version") or b"").strip().decode("latin-1")
    queried = query_value(head.query, "A2A-Version") if head.query else None
    if written and queried and written != queried:
        raise BadRequest("A2A-Version differs between the header and the query")
    return written or queried


def _read(snapshot: Snapshot, head: Head) -> Location:
    found = _by_path(snapshot, head)
    if found.resource is not None or (found.endpoint is None and found.unread is not None):
        return found
    try:
        refuse_ambiguous(head.headers)
        if snapshot.cors.is_forged(head):
            raise BadRequest("a page of this origin may not call")  # noqa: TRY301 - as any other head that is unread
        written = version_text(head)
        hint = parse_version(written or "")
    except BadRequest as fault:
        return Location(found.binding, found.version, unread=fault)
    # Over gRPC the package determines the version, and headers are ignored (protocol trap 25).
    version = found.version if head.grpc is not None else hint or found.version
    return replace(
        found,
        version=version,
        written_version=written,
        hint=hint,
        is_encoded=is_encoded(head.first(b"content-encoding")),
        is_no_json=head.grpc is None and is_no_json(head.first(b"content-type")),
    )


def _by_path(snapshot: Snapshot, head: Head) -> Location:
    """Return the location by method, path and host."""
    if head.grpc is not None:
        # gRPC has no path, and grpc.aio hides the authority, so there is one endpoint.
        operation = head.grpc.operation
        return Location(Binding.GRPC, head.grpc.version, operation, snapshot.table.grpc_endpoint, PathCall(operation))
    # By the raw path: an unreadable path is answered in the caller's dialect, too. Only HTTP+JSON has escapes.
    verbs = b"%" in head.path or not OPERATION_SEGMENTS.isdisjoint(head.path.decode("latin-1").split("/"))
    binding = Binding.REST if verbs or head.method != "POST" else Binding.JSONRPC
    try:
        path = segments(head.path)
    except BadRequest as fault:
        return Location(binding, unread=fault)
    if HOST.fullmatch(head.host) is None:
        return Location(binding, unread=BadRequest("the Host header names no host"))
    resource = metadata_path(snapshot, path)
    if resource is not None:
        return Location(Binding.REST, resource=resource)
    version = Version.V0_3 if "v1" in path else Version.V1_0
    public = len(snapshot.prefix)
    feed = "/".join(path[public:]) if path[:public] == snapshot.prefix else ""
    if feed in CONTENT_TYPES and snapshot.config.catalog.feeds:
        return Location(Binding.REST, feed=feed)
    endpoint = snapshot.table.locate(head.host, path[public:]) if path[:public] == snapshot.prefix else None
    if endpoint is None:
        is_public = path[:public] == snapshot.prefix and snapshot.config.catalog.page == "public"
        return Location(binding, version, page=page_at(path[public:], head.path) if is_public else None)
    try:
        found = read_rest(head.method, path[public + len(endpoint.path) :], tenanted=endpoint.tenanted)
    except BadRequest as fault:
        return Location(binding, version, endpoint=endpoint, unread=fault)
    named = None if found is None else found.operation
    return Location(binding, version, named, endpoint, found, skill=endpoint.skill_of(path[public:]))
