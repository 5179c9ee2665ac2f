"""The metrics: one catalogue, labels only from the configuration and closed sets.

Children are kept by their label values, so that a request pays a dictionary look-up and an addition. A label value that
is in no closed set becomes `other`; a request that found no agent has the agent `-`, which can be no agent's name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.a2a.operation import Kind

NO_AGENT = "-"
OTHER = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PREFIX = "a2a_gateway_"
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900)
_OVERHEADS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1)
_LAGS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure that is read when the metrics are, such as an age or a pool's size.

    Attributes:
        name: Without the prefix; a counter's ends in `_total`.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], float], ...]


class _Reader(Collector):
    """Samples of the current snapshot, asked for at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        for sample in self._read():
            counts = sample.name.endswith("_total")
            family: CounterMetricFamily | GaugeMetricFamily
            if counts:
                family = CounterMetricFamily(_PREFIX + sample.name, sample.help, labels=sample.labels)
            else:
                family = GaugeMetricFamily(_PREFIX + sample.name, sample.help, labels=sample.labels)
            for values, figure in sample.values:
                family.add_metric(values, figure)
            yield family


class Metrics:
    """Every metric of one gateway process.

    Args:
        read: Samples that are taken when the metrics are read.
    """

    def __init__(self, version: str, read: Callable[[], Iterable[Sample]] = lambda: ()) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library does not annotate it
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            f"{_PREFIX}requests_total",
            "Requests by what became of them. Series: agents x 12 operations x 3 bindings x 8 outcomes.",
            ("agent", "operation", "binding", "outcome"),
            registry=registry,
        )
        self.tenant_requests = Counter(
            f"{_PREFIX}tenant_requests_total",
            "Requests by the caller's tenant. Tenants: those of the file, at most observe.metrics.max_tenants.",
            ("tenant", "agent", "outcome"),
            registry=registry,
        )
        self.rejected = Counter(
            f"{_PREFIX}rejected_total",
            "Requests the gateway refused or could not finish, by reason. Series: agents x 29 reasons.",
            ("agent", "reason"),
            registry=registry,
        )
        self.duration = Histogram(
            f"{_PREFIX}request_duration_seconds",
            "From the head of a request to the last byte of its answer.",
            ("agent", "kind"),
            buckets=_DURATIONS,
            registry=registry,
        )
        self.first_byte = Histogram(
            f"{_PREFIX}first_byte_seconds",
            "From the head of a request to the first byte of its answer.",
            ("agent", "kind"),
            buckets=_DURATIONS,
            registry=registry,
        )
        self.overhead = Histogram(
            f"{_PREFIX}overhead_seconds",
            "What the gateway itself added before the first byte of the answer.",
            ("kind",),
            buckets=_OVERHEADS,
            registry=registry,
        )
        self.in_flight = Gauge(
            f"{_PREFIX}requests_in_flight", "Requests being forwarded now.", ("agent",), registry=registry
        )
        self.streams_open = Gauge(f"{_PREFIX}streams_open", "Streams open now.", ("agent",), registry=registry)
        self.stream_events = Counter(
            f"{_PREFIX}stream_events_total",
            "Events relayed. event: task, message, status, artifact, error, other.",
            ("agent", "event"),
            registry=registry,
        )
        self.streams_closed = Counter(
            f"{_PREFIX}streams_closed_total",
            "Streams that ended, by who ended them: agent, client, gateway.",
            ("agent", "by"),
            registry=registry,
        )
        self.tasks = Counter(
            f"{_PREFIX}tasks_total",
            "Tasks by the state in which an answer or a stream of a send left them.",
            ("agent", "state"),
            registry=registry,
        )
        self.backend_requests = Counter(
            f"{_PREFIX}backend_requests_total",
            "Requests sent to backends, by the class of the answer: 1xx to 5xx, or error.",
            ("agent", "backend", "status"),
            registry=registry,
        )
        self.auth = Counter(
            f"{_PREFIX}auth_total",
            "Callers by how they showed who they are. result: ok, missing, invalid, expired, unavailable.",
            ("method", "issuer", "result"),
            registry=registry,
        )
        self.card_fetches = Counter(
            f"{_PREFIX}card_fetches_total",
            "Reads of agents' cards. result: ok, not_modified, error.",
            ("agent", "result"),
            registry=registry,
        )
        self.loop_lag = Histogram(
            f"{_PREFIX}event_loop_lag_seconds",
            "How late the event loop runs a timer.",
            buckets=_LAGS,
            registry=registry,
        )
        self.draining = Gauge(f"{_PREFIX}draining", "1 while the gateway is shutting down.", registry=registry)
        self.reload_ok = Gauge(
            f"{_PREFIX}config_last_reload_successful",
            "1 if the last configuration that was read is the one that runs.",
            registry=registry,
        )
        self.reload_time = Gauge(
            f"{_PREFIX}config_last_reload_success_timestamp_seconds",
            "When the running configuration was taken up, in Unix seconds.",
            registry=registry,
        )
        build = Gauge(f"{_PREFIX}build_info", "Always 1.", ("version",), registry=registry)
        build.labels(version).set(1)
        registry.register(_Reader(read))

    def render(self) -> bytes:
        """The text format; slow with many series, so it is called off the event loop."""
        return generate_latest(self.registry)


class AgentMeter:
    """The metrics of one agent, or of requests that found none.

    Attributes:
        tenants: Names that `tenant_requests_total` may carry.
    """

    def __init__(self, metrics: Metrics, agent: str, tenants: frozenset[str]) -> None:
        self._metrics = metrics
        self._agent = agent
        self._tenants = tenants
        self._requests: dict[tuple[str, str, str], Counter] = {}
        self._tenant_requests: dict[tuple[str, str], Counter] = {}
        self._events: dict[str, Counter] = {}
        self._answers: dict[tuple[str, str], Counter] = {}
        self._in_flight = metrics.in_flight.labels(agent)
        self._streams_open = metrics.streams_open.labels(agent)
        self._times: dict[Kind, tuple[Histogram, Histogram, Histogram]] = {}

    def request(self, operation: str, binding: str, outcome: str, tenant: str) -> None:
        """Count one request that is over."""
        key = (operation, binding, outcome)
        counter = self._requests.get(key)
        if counter is None:
            counter = self._requests[key] = self._metrics.requests.labels(self._agent, *key)
        counter.inc()
        name = tenant if tenant in self._tenants else OTHER
        by_tenant = self._tenant_requests.get((name, outcome))
        if by_tenant is None:
            by_tenant = self._metrics.tenant_requests.labels(name, self._agent, outcome)
            self._tenant_requests[name, outcome] = by_tenant
        by_tenant.inc()

    def rejected(self, reason: str) -> None:
        """Count a refusal."""
        self._metrics.rejected.labels(self._agent, reason).inc()

    def timed(self, kind: Kind, duration: float, first_byte: float | None, overhead: float | None) -> None:
        """Observe the times of one request, in seconds."""
        times = self._times.get(kind)
        if times is None:
            # Made when they are needed: a thousand idle agents have no histograms to build, render or scrape.
            metrics = self._metrics
            times = self._times[kind] = (
                metrics.duration.labels(self._agent, kind.value),
                metrics.first_byte.labels(self._agent, kind.value),
                metrics.overhead.labels(kind.value),
            )
        times[0].observe(duration)
        if first_byte is not None:
            times[1].observe(first_byte)
        if overhead is not None:
            times[2].observe(overhead)

    def forwarding(self, change: int) -> None:
        """One request more (1) or fewer (-1) is being forwarded."""
        self._in_flight.inc(change)

    def streaming(self, change: int) -> None:
        """One stream more (1) or fewer (-1) is open."""
        self._streams_open.inc(change)

    def stream_closed(self, by: str) -> None:
        """Count the end of a stream: by agent, client or gateway."""
        self._metrics.streams_closed.labels(self._agent, by).inc()

    def event(self, name: str) -> None:
        """Count one event of a stream."""
        counter = self._events.get(name)
        if counter is None:
            counter = self._events[name] = self._metrics.stream_events.labels(self._agent, name)
        counter.inc()

    def task(self, state: str) -> None:
        """Count a task by the state it was left in."""
        self._metrics.tasks.labels(self._agent, state).inc()

    def answered(self, backend: str, status: int | None) -> None:
        """Count one answer of a backend; None where there was none."""
        word = "error" if status is None else f"{status // 100}xx"
        counter = self._answers.get((backend, word))
        if counter is None:
            counter = self._metrics.backend_requests.labels(self._agent, backend, word)
            self._answers[backend, word] = counter
        counter.inc()
