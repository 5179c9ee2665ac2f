"""This gateway, as an operator runs it: one process, JWT by a key set from the network, metrics and access log on.

Two agents stand behind it, one that speaks gRPC and one that speaks JSON-RPC, each at a `tenant` of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.edge.gateway import key_set
from benchmarks.edge.process import Process, free_port
from benchmarks.edge.workload import AUDIENCE, ISSUER, ORGANISATION, TENANT, Workload
from benchmarks.grpc.workload import TRANSLATED
from benchmarks.serving import serving


@dataclass(frozen=True, slots=True)
class Agents:
    """Ports of the agents behind it, by what they speak."""

    grpc: int
    jsonrpc: int


@dataclass(frozen=True, slots=True)
class Running:
    """One that runs, and the ports where it takes calls, by what clients speak."""

    process: Process
    grpc: int
    http: int


@contextmanager
def running(folder: Path, tree: Path, agents: Agents, workload: Workload, *, name: str) -> Iterator[Running]:
    """Start it.

    Args:
        tree: Where the package `gateway` is.
    """
    grpc, http = free_port(), free_port()
    with key_set(workload) as keys:
        configuration = _configuration(agents, grpc=grpc, http=http, keys=keys)
        with serving(configuration, folder=folder, ports=[grpc, http], tree=tree, name=name) as process:
            yield Running(process, grpc, http)


def _configuration(agents: Agents, *, grpc: int, http: int, keys: int) -> dict[str, object]:
    issuer = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": f"http://127.0.0.1:{keys}/keys",
        "tenant_claim": "org",
    }
    spoken = {"url": f"http://127.0.0.1:{agents.jsonrpc}/", "protocol": "jsonrpc", "a2a_version": "1.0"}
    behind = {
        "relayed": {
            "backend": {"url": f"grpc://127.0.0.1:{agents.grpc}", "a2a_version": "1.0"},
            "match": {"tenant": TENANT},
        },
        "translated": {"backend": spoken, "match": {"tenant": TRANSLATED}},
    }
    return {
        "version": 1,
        "gateway": {
            "listen": f"127.0.0.1:{http}",
            "listen_grpc": f"127.0.0.1:{grpc}",
            "admin": "127.0.0.1:0",
        },
        "auth": {"issuers": {"corp": issuer}},
        "tenants": {ORGANISATION: sorted(behind)},
        "agents": behind,
    }
