"""Envoy as a proxy for gRPC, one worker thread, HTTP/2 on both sides: passing on, and doing more of the gateway's job.

    path     verify the token with the filter's cache, go by the method's path
    tenant   the same, and go by the `tenant` field of the message

Both write a JSON line per call to a file and keep statistics, each at a listener of its own.
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from a2a.types import a2a_pb2
from google.protobuf.descriptor import FileDescriptor  # type: ignore[import-untyped]  # protobuf ships no types
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]  # as above

from benchmarks.edge.envoy import MANY, TYPES, Node, access_log, address, binary, http_filter, verification
from benchmarks.edge.process import Process, free_port, started
from benchmarks.edge.workload import TENANT, Workload
from benchmarks.grpc.workload import SERVICE

JOBS = ("path", "tenant")

_EXTRACTION = "envoy.filters.http.grpc_field_extraction"


def version() -> str | None:
    """Of the Envoy that is here, or None."""
    found = binary()
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"/(\d+\.\d+\.\d+)/", said)
    return number[1] if number else "of unknown version"


@contextmanager
def running(folder: Path, agent: int, workload: Workload) -> Iterator[tuple[Process, Mapping[str, int]]]:
    """Start Envoy with one listener a job; the process, and the ports by job."""
    found = binary()
    assert found is not None
    ports = {job: free_port() for job in JOBS}
    file = folder / "envoy.json"
    listeners = [_listener(job, port, folder, workload) for job, port in ports.items()]
    file.write_text(json.dumps({"static_resources": {"listeners": listeners, "clusters": [_cluster(agent)]}}))
    command = [found, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    with started("envoy", command, folder=folder, ports=[*ports.values()]) as process:
        yield process, ports


def _cluster(agent: int) -> Node:
    http = {
        "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    bounds = {"max_connections": MANY, "max_pending_requests": MANY, "max_requests": MANY}
    return {
        "name": "agent",
        "type": "STATIC",
        "connect_timeout": "3s",
        "load_assignment": {
            "cluster_name": "agent",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(agent)}}]}],
        },
        "circuit_breakers": {"thresholds": [bounds]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http},
    }


def _listener(job: str, port: int, folder: Path, workload: Workload) -> Node:
    match: Node = {"prefix": f"/{SERVICE}/"}
    filters = [
        http_filter("jwt_authn.v3.JwtAuthentication", "jwt_authn", verification(workload)),
        http_filter("router.v3.Router", "router", {}),
    ]
    if job == "tenant":
        match["dynamic_metadata"] = [_TOLD_TENANT]
        # Before the token, which has the route looked for anew: this filter does not.
        filters.insert(0, http_filter("grpc_field_extraction.v3.GrpcFieldExtractionConfig", _FIELD, _extraction()))
    route = {"match": match, "route": {"cluster": "agent", "timeout": "0s", "idle_timeout": "600s"}}
    manager = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": job,
        "codec_type": "HTTP2",
        "stream_idle_timeout": "600s",
        "access_log": [access_log(folder / f"envoy-{job}.log", "%GRPC_STATUS%")],
        "route_config": {"virtual_hosts": [{"name": "agents", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    chain = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"name": job, "address": address(port), "filter_chains": [{"filters": chain}]}


_FIELD = "grpc_field_extraction"
_TOLD_TENANT: Node = {
    "filter": _EXTRACTION,
    "path": [{"key": "tenant"}],
    "value": {"list_match": {"one_of": {"string_match": {"exact": TENANT}}}},
}


def _extraction() -> Node:
    """Reads `tenant` of every request; the schema is A2A's own."""
    methods = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
    fields: Node = {"request_field_extractions": {"tenant": {}}}
    return {
        "descriptor_set": {"inline_bytes": base64.b64encode(_schema().SerializeToString()).decode()},
        "extractions_by_method": {
            f"{SERVICE}.{method.name}": fields for method in methods if "tenant" in method.input_type.fields_by_name
        },
    }


def _schema() -> FileDescriptorSet:
    """A2A's file of the schema, behind all that it needs."""
    found = FileDescriptorSet()
    seen: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name in seen:
            return
        seen.add(file.name)
        for needed in file.dependencies:
            add(needed)
        file.CopyToProto(found.file.add())

    add(a2a_pb2.DESCRIPTOR)
    return found
