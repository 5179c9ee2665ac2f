"""This gateway, as an operator runs it: one process, JWT by a key set from the network, metrics and access log on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.edge.process import Process, free_port
from benchmarks.edge.workload import AGENT_CLAIM, AUDIENCE, ISSUER, ORGANISATION, TENANT, Workload
from benchmarks.serving import serving

PATHS = {"path": "/direct", "claim": "/by-claim", "tenant": "/by-tenant", "tenant, stripped": "/by-tenant-stripped"}
"""Path of each job. With `tenant` the agent is told the tenant, as Envoy's is; stripping it is the default."""


_DEFAULT_CONNECTIONS = 100


@contextmanager
def running(
    folder: Path, tree: Path, agent: int, workload: Workload, *, name: str, connections: int = _DEFAULT_CONNECTIONS
) -> Iterator[tuple[Process, int]]:
    """Start it: the process, and the port that takes calls.

    Args:
        tree: Where the package `gateway` is.
        connections: Most connections to the agent.
    """
    port = free_port()
    with key_set(workload) as keys:
        configuration = _configuration(port, agent=agent, keys=keys, connections=connections)
        with serving(configuration, folder=folder, ports=[port], tree=tree, name=name) as process:
            yield process, port


def _configuration(port: int, *, agent: int, keys: int, connections: int) -> dict[str, object]:
    backend = {"url": f"http://127.0.0.1:{agent}/", "protocol": "jsonrpc", "a2a_version": "1.0"}
    matches: dict[str, dict[str, object]] = {
        "path": {},
        "claim": {"claim": {"agent": AGENT_CLAIM}},
        "tenant": {"tenant": TENANT},
        "tenant, stripped": {"tenant": TENANT},
    }
    agents = {
        path.removeprefix("/"): {"backend": backend, "match": {"path": path, **matches[job]}}
        for job, path in PATHS.items()
    }
    agents["by-tenant"]["upstream_tenant"] = "keep"
    issuer = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": f"http://127.0.0.1:{keys}/keys",
        "tenant_claim": "org",
    }
    # The default stays unwritten: a checkout from before there was this key can be measured too.
    roomy = {} if connections <= _DEFAULT_CONNECTIONS else {"defaults": {"connections": {"max": connections}}}
    return {
        **roomy,
        "version": 1,
        "gateway": {"listen": f"127.0.0.1:{port}", "admin": "127.0.0.1:0"},
        "auth": {"issuers": {"corp": issuer}},
        "tenants": {ORGANISATION: sorted(agents)},
        "agents": agents,
    }


@contextmanager
def key_set(workload: Workload) -> Iterator[int]:
    """The identity provider: serves the key set on the port given."""
    document = workload.key_set.encode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
