"""Decodes the body of a request into a `Call`.

The version is the one that the client names (header, else query parameter), else the one that its grammar shows: the
JSON-RPC method, or the `/v1` of a path (protocol §1.4). Patch numbers are ignored; an unknown version is refused.
"""

import asyncio
from concurrent.futures import Executor
from functools import partial

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.binding import grpc_binding
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadParams, ContentTypeUnsupported, Fault, VersionUnsupported
from gateway.a2a.json import BodyBounds
from gateway.a2a.paths import WRONG_NAME, PathCall, is_tenant
from gateway.proxy.connection_cache import Location
from gateway.proxy.request import RequestContext
from gateway.snapshot import Snapshot


async def decode(
    request: RequestContext, location: Location, path: PathCall, body: bytes, *, snapshot: Snapshot, threads: Executor
) -> Call:
    """Return the call that a request makes; the request gets its id and dialect, also where the call is refused.

    Args:
        threads: Decodes long bodies, so that other requests do not wait for them.

    Raises:
        BadRequest, ParseFailed, MethodNotFound, BadParams, DuplicateKey: as the binding.
        VersionUnsupported: the client names a version that the gateway does not speak.
        ContentTypeUnsupported: the body says of itself that it is no JSON.
    """
    head = request.head
    if head.grpc is None:
        request.binding = Binding.JSONRPC if path.operation is None else Binding.REST
        request.version = location.hint or (Version.V0_3 if path.prefixed or path.legacy_card else Version.V1_0)
    settings = snapshot.config.gateway
    is_long = len(body) >= settings.body.aside
    # gRPC messages are checked by the listener.
    refused = location.is_no_json and body != b""
    if refused and is_long:
        raise _content_type()
    bounds, scope_field = snapshot.body, settings.grpc.scope_field
    read = partial(_read, head, location, path, body, bounds=bounds, scope_field=scope_field, version=request.version)
    request.rpc_id, found = await asyncio.get_running_loop().run_in_executor(threads, read) if is_long else read()
    if isinstance(found, Call):
        request.operation, request.version = found.operation, found.dialect.version
    if refused:
        # It may be JSON all the same: then the refusal has the id and the version of the call.
        raise _content_type()
    if isinstance(found, Fault):
        raise found
    if found.tenant is not None and not is_tenant(found.tenant):
        raise BadParams(WRONG_NAME)
    return found


def _read(
    head: Head,
    location: Location,
    path: PathCall,
    body: bytes,
    *,
    bounds: BodyBounds,
    scope_field: int,
    version: Version,
) -> tuple[bytes, Call | Fault]:
    """Return the JSON-RPC id, and the call or why there is none; runs in a thread, so it changes nothing."""
    id_ = b"null"
    unknown = bool(location.written_version) and location.hint is None
    try:
        if head.grpc is not None:
            if unknown:
                return id_, _unknown()
            return id_, grpc_binding().read_call(head.grpc, body, scope_field=scope_field, bounds=bounds)
        if path.operation is not None:
            return id_, _unknown() if unknown else rest.read_call(path, body, head.query, version, bounds=bounds)
        envelope = jsonrpc.open_envelope(body, bounds)
        id_ = envelope.id
        return id_, _unknown() if unknown else jsonrpc.read_call(envelope, path, head.query, location.hint)
    except Fault as fault:
        return id_, fault


def _unknown() -> VersionUnsupported:
    return VersionUnsupported("this gateway speaks A2A 0.1, 0.2, 0.3 and 1.0")


def _content_type() -> ContentTypeUnsupported:
    return ContentTypeUnsupported("the content type must be application/json or application/a2a+json")
