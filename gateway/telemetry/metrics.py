"""The metrics of the gateway; labels come from the configuration and closed sets only.

A request costs a dictionary look-up and an addition for each metric (`counters`). A label value outside of its closed
set becomes `other`; a request that found no agent has the agent `-`, which is not a valid name. The help of each metric
says what its labels may be, which bounds the number of series: `agents` are those of the file and `-`, `backends` those
of the file.

Series of removed agents are dropped once the calls of their configuration have ended (`GatewayMetrics.sweep`), because
files may name other agents every day.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.a2a.dialect import Dialect
from gateway.a2a.operation import Kind
from gateway.telemetry.counters import Counter, Gone, Histogram, HistogramSeries, Labels
from gateway.telemetry.worker_metrics import Encode, WorkerMetrics

NO_AGENT = "-"
NO_TENANT = "-"
"""The tenant of requests with an unknown caller; it is not a valid tenant name."""
OTHER = "other"

_PREFIX = "a2a_gateway_"
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900)
_LONG = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
_SIZES = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216)
_OPERATIONS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1)
_OVERHEADS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1)
_CLASSES: Mapping[int | None, str] = {status: f"{status // 100}xx" for status in range(100, 600)}
_LAGS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """A metric that is read at a scrape, such as an age or the size of a pool.

    Attributes:
        name: Name without the prefix; that of a counter ends in `_total`.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], float], ...]


class _Reader(Collector):
    """Collects the samples of the current snapshot at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        for sample in self._read():
            make = CounterMetricFamily if sample.name.endswith("_total") else GaugeMetricFamily
            family = make(_PREFIX + sample.name, sample.help, labels=sample.labels)
            for values, figure in sample.values:
                family.add_metric(values, figure)
            yield family


class GatewayMetrics:
    """The metrics of one gateway process.

    Args:
        read: Returns samples at a scrape.
        workers: Merges the metrics of all workers; None in single-worker mode.
        buckets: Upper bounds of the buckets of histograms, by the name without prefix, instead of the default ones.

    Attributes:
        meters: The meters of all configurations that are in use or being built.
        meeting: Held while a meter is made, in any thread, and while all are listed.
    """

    def __init__(
        self,
        version: str,
        read: Callable[[], Iterable[Sample]] = lambda: (),
        workers: WorkerMetrics | None = None,
        buckets: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library does not annotate it
        self._workers = workers
        self._bounds = {} if buckets is None else buckets
        self.meters: WeakValueDictionary[int, AgentMeter] = WeakValueDictionary()
        self.meeting = threading.Lock()
        self._counted: list[Counter | Histogram] = []
        self.registry = registry = CollectorRegistry()
        self.requests = self._counter(
            "requests_total",
            "Requests that have ended, by outcome. Series: agents x 13 operations x 3 bindings x 8 outcomes.",
            ("agent", "operation", "binding", "outcome"),
        )
        self.tenant_requests = self._counter(
            "tenant_requests_total",
            "Requests that have ended, by the caller's tenant: a tenant of the configuration (at most "
            "observe.metrics.max_tenants), other, or - before authentication. Series: tenants x agents x 8 outcomes.",
            ("tenant", "agent", "outcome"),
        )
        self.rejected = self._counter(
            "rejected_total",
            "Requests that the gateway rejected or failed to complete, by error reason. Series: agents x 32 reasons.",
            ("agent", "reason"),
        )
        self.duration = self._histogram(
            "request_duration_seconds",
            "Time from the request headers to the last byte of the response, in seconds. Series: agents x 6 kinds.",
            ("agent", "kind"),
            _DURATIONS,
        )
        self.first_byte = self._histogram(
            "first_byte_seconds",
            "Time from the request headers to the first byte of the response, in seconds. Series: agents x 6 kinds.",
            ("agent", "kind"),
            _DURATIONS,
        )
        self.overhead = self._histogram(
            "overhead_seconds",
            "Latency that the gateway adds before the first byte of the response, in seconds. Series: 6 kinds.",
            ("kind",),
            _OVERHEADS,
        )
        self.request_body = self._histogram(
            "request_body_bytes", "Size of request bodies, in bytes. Series: agents.", ("agent",), _SIZES
        )
        self.response_body = self._histogram(
            "response_body_bytes",
            "Size of response bodies, in bytes; of a stream all of its events. Series: agents.",
            ("agent",),
            _SIZES,
        )
        self.stream_duration = self._histogram(
            "stream_duration_seconds", "Lifetime of closed streams, in seconds. Series: agents.", ("agent",), _LONG
        )
        self.task_duration = self._histogram(
            "task_duration_seconds",
            "Time from the creation of a task to the response or event with its final state, in seconds. Series: "
            "agents.",
            ("agent",),
            _LONG,
        )
        self.in_flight = self._counter(
            "requests_in_flight", "Requests that are being forwarded now. Series: agents.", ("agent",)
        )
        self.streams_open = self._counter("streams_open", "Streams that are open now. Series: agents.", ("agent",))
        self.stream_events = self._counter(
            "stream_events_total",
            "Events relayed in streams. Series: agents x 6 events (task, message, status, artifact, error, other).",
            ("agent", "event"),
        )
        self.streams_closed = self._counter(
            "streams_closed_total",
            "Closed streams, by the side that closed them. Series: agents x 3 sides (agent, client, gateway).",
            ("agent", "by"),
        )
        self.tasks = self._counter(
            "tasks_total",
            "Tasks by their last state in the response or stream of a send. Series: agents x 9 states.",
            ("agent", "state"),
        )
        self.tasks_denied = self._counter(
            "task_access_denied_total",
            "Calls rejected because they named a task of another owner. Series: agents x 13 operations.",
            ("agent", "operation"),
        )
        self.translations = self._counter(
            "translations_total",
            "Calls translated between the dialects of client and agent, such as jsonrpc/0.3. Series: agents x 7 "
            "dialects x 6 others.",
            ("agent", "from", "to"),
        )
        self.limit_hits = self._counter(
            "limit_hits_total",
            "Calls rejected by a limit. Series: 2 scopes (tenant, agent) x names of the file and other x 6 limits "
            "(requests, concurrency, streams, open_tasks, body, bandwidth).",
            ("limit", "scope", "name"),
        )
        self.state_operations = self._counter(
            "state_operations_total",
            "Operations on the task store. Series: 18 operations x 2 results (ok, unavailable).",
            ("operation", "result"),
        )
        self.state_duration = self._histogram(
            "state_operation_seconds",
            "Latency of operations on the task store, in seconds. Series: 18 operations.",
            ("operation",),
            _OPERATIONS,
        )
        self.push_deliveries = self._counter(
            "push_deliveries_total",
            "Delivery attempts of push notifications. Series: agents x 4 results (delivered, retried, dead, refused).",
            ("agent", "result"),
        )
        self.backend_requests = self._counter(
            "backend_requests_total",
            "Requests sent to backends, by status class. Series: backends x 6 (1xx to 5xx, error).",
            ("agent", "backend", "status"),
        )
        self.backend_retries = self._counter(
            "backend_retries_total",
            "Retried requests, by the backend that failed. Series: backends x 3 reasons (connect, reset, 503).",
            ("agent", "backend", "reason"),
        )
        self.backend_ejections = self._counter(
            "backend_ejections_total",
            "Replicas ejected from load balancing after failed calls. Series: backends.",
            ("agent", "backend"),
        )
        self.auth = self._counter(
            "auth_total",
            "Authentications by method. Series: 6 methods (jwt, api_key, mtls, anonymous, none, unknown) "
            "x issuers of the file x 6 results (ok, missing, invalid, expired, limited, unavailable).",
            ("method", "issuer", "result"),
        )
        self.card_fetches = self._counter(
            "card_fetches_total",
            "Fetches of agent cards. Series: agents x 4 results (ok, not_modified, untrusted, error).",
            ("agent", "result"),
        )
        self.loop_lag = self._histogram(
            "event_loop_lag_seconds", "Delay of timers in the event loop, in seconds.", (), _LAGS
        ).of(())
        self.loop_stalls = self._counter("event_loop_stalls_total", "Stalls of the event loop for over 100 ms.")
        self.draining = self._counter("draining", "1 during graceful shutdown, else 0.")
        self.reload_ok = self._counter(
            "config_last_reload_successful", "1 if the last reload of the configuration succeeded, else 0."
        )
        self.reload_time = self._counter(
            "config_last_reload_success_timestamp_seconds",
            "Time of the last successful reload or start, in Unix seconds.",
        )
        self.reloads = self._counter(
            "config_reloads_total",
            "Reloads of the configuration. Series: 3 results (applied, unchanged, refused) x 4 "
            "triggers (signal, admin, watch, poll).",
            ("result", "trigger"),
        )
        for gauge in (self.loop_stalls, self.draining, self.reload_ok, self.reload_time):
            gauge.set((), 0)
        self._counter("build_info", "Version of the gateway; the value is always 1.", ("version",)).set((version,), 1)
        registry.register(_Reader(read))

    def _counter(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Counter:
        counter = Counter(_PREFIX + name, words, labels)
        self._counted.append(counter)
        self.registry.register(counter)
        return counter

    def _histogram(self, name: str, words: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> Histogram:
        histogram = Histogram(_PREFIX + name, words, labels, self._bounds.get(name, bounds))
        self._counted.append(histogram)
        self.registry.register(histogram)
        return histogram

    def sweep(self) -> None:
        """Drop the series of agents and backends that no configuration in use has any more.

        Series of an agent that comes back begin at 0, as after a restart.
        """
        with self.meeting:
            living = self._agents_in_use()
            for counted in self._counted:
                if "agent" in counted.labels or "scope" in counted.labels:
                    counted.drop(_is_gone(counted.labels, living))

    def _agents_in_use(self) -> dict[str, set[str]]:
        """Return the agents in use, with their backends."""
        living: dict[str, set[str]] = {NO_AGENT: set()}
        for meter in [known() for known in self.meters.valuerefs()]:
            if meter is not None:
                living.setdefault(meter.agent, set()).update(meter.backends)
        return living

    def render(self, encode: Encode = generate_latest) -> bytes:
        """Return all metrics; slow with many series, so it is called off the event loop.

        Args:
            encode: Writes the format, by default the text format.
        """
        return encode(self.registry) if self._workers is None else self._workers.render(self.registry, encode)


def _is_gone(labels: Labels, living: Mapping[str, set[str]]) -> Gone:
    if "scope" in labels:
        scope, name = labels.index("scope"), labels.index("name")
        named = living.keys() | {OTHER}
        return lambda values: values[scope] == "agent" and values[name] not in named
    agent = labels.index("agent")
    if "backend" not in labels:
        return lambda values: values[agent] not in living
    backend = labels.index("backend")
    return lambda values: values[backend] not in living.get(values[agent], ())


class AgentMeter:
    """The metrics of one agent, or of requests that found none.

    Args:
        tenants: Tenants with a label of their own in `tenant_requests_total`.

    Attributes:
        backends: Its backends, by the names in metrics.
    """

    def __init__(self, metrics: GatewayMetrics, agent: str, tenants: frozenset[str]) -> None:
        self._metrics = metrics
        self.agent = agent
        self.backends: frozenset[str] = frozenset()
        self._tenants = tenants if NO_TENANT in tenants else tenants | {NO_TENANT}
        self._requests: dict[tuple[str, str], dict[str, float]] = {}
        self._times: dict[Kind, tuple[HistogramSeries, HistogramSeries, HistogramSeries]] = {}
        self._sizes: tuple[HistogramSeries, HistogramSeries] | None = None
        with metrics.meeting:
            metrics.meters[id(self)] = self
            # An agent that was never called has these two series, too: a missing gauge does not count as zero.
            self._in_flight = metrics.in_flight.share(())
            self._streams = metrics.streams_open.share(())
            for gauge in (self._in_flight, self._streams):
                gauge.setdefault(agent, 0)
            self._events = metrics.stream_events.share((agent,))
            self._closed = metrics.streams_closed.share((agent,))
            self._tasks = metrics.tasks.share((agent,))

    def close(self) -> None:
        """Note that no configuration in use has the agent any more."""
        with self._metrics.meeting:
            self._metrics.meters.pop(id(self), None)

    def request(self, operation: str, binding: str, outcome: str, tenant: str) -> None:
        """Count one request that is over."""
        metrics, agent = self._metrics, self.agent
        outcomes = self._requests.get((operation, binding))
        if outcomes is None:
            outcomes = self._requests[operation, binding] = metrics.requests.share((agent, operation, binding))
        outcomes[outcome] += 1
        metrics.tenant_requests.add((tenant if tenant in self._tenants else OTHER, agent, outcome))

    def rejected(self, reason: str) -> None:
        """Count a refusal."""
        self._metrics.rejected.add((self.agent, reason))

    def timed(
        self,
        kind: Kind,
        duration: float,
        first_byte: float | None,
        overhead: float | None,
        trace_id: str | None = None,
    ) -> None:
        """Observe the times of one request, in seconds."""
        times = self._times.get(kind)
        if times is None:
            # Made when they are needed: a thousand idle agents have no histograms to build, render or scrape.
            metrics = self._metrics
            times = self._times[kind] = (
                metrics.duration.of((self.agent, kind.value)),
                metrics.first_byte.of((self.agent, kind.value)),
                metrics.overhead.of((kind.value,)),
            )
        for buckets, seconds in zip(times, (duration, first_byte, overhead), strict=True):
            if seconds is not None:
                buckets.observe(seconds, trace_id)

    def sized(self, request: int, response: int) -> None:
        """Observe the bytes of the two bodies of one request."""
        sizes = self._sizes
        if sizes is None:
            labels, metrics = (self.agent,), self._metrics
            sizes = self._sizes = (metrics.request_body.of(labels), metrics.response_body.of(labels))
        sizes[0].observe(request)
        sizes[1].observe(response)

    def forwarding(self, change: int) -> None:
        """Change the number of requests that are being forwarded, by 1 or -1."""
        self._in_flight[self.agent] += change

    def streaming(self, change: int) -> None:
        """Change the number of open streams, by 1 or -1."""
        self._streams[self.agent] += change

    def stream_closed(self, by: str, duration: float, trace_id: str | None = None) -> None:
        """Count the end of a stream: by agent, client or gateway, after so many seconds."""
        self._closed[by] += 1
        self._metrics.stream_duration.of((self.agent,)).observe(duration, trace_id)

    def event(self, name: str) -> None:
        """Count one event of a stream."""
        self._events[name] += 1

    def task_denied(self, operation: str) -> None:
        """Count a call that named a task of another owner."""
        self._metrics.tasks_denied.add((self.agent, operation))

    def task(self, state: str) -> None:
        """Count a task by the state it was left in."""
        self._tasks[state] += 1

    def task_ended(self, duration: float, trace_id: str | None = None) -> None:
        """Observe the seconds from the creation of a task to its end."""
        self._metrics.task_duration.of((self.agent,)).observe(duration, trace_id)

    def translated(self, client: Dialect, agent: Dialect) -> None:
        """Count a call by the client's dialect and the agent's, where they differ."""
        if client == agent:
            return
        ours, theirs = (f"{dialect.binding.label}/{dialect.version}" for dialect in (client, agent))
        self._metrics.translations.add((self.agent, ours, theirs))

    def repeated(self, backend: str, reason: str) -> None:
        """Count a call that is sent again."""
        self._metrics.backend_retries.add((self.agent, backend, reason))

    def answered(self, backend: str, status: int | None) -> None:
        """Count one answer of a backend; None where there was none."""
        self._metrics.backend_requests.add((self.agent, backend, _CLASSES.get(status, "error")))


_EVERY = 0.05
"""Seconds between two measurements of the lag; with a longer interval a stall of `_STALL` is often missed."""
_STALL = 0.1
"""Lag in seconds that counts as a stall."""


async def watch_lag(metrics: GatewayMetrics) -> None:
    """Measure the lag of the event loop, by which every call is delayed, twenty times a second until cancelled."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look(due: float) -> None:
        nonlocal timer
        now = loop.time()
        late = max(now - due, 0.0)
        metrics.loop_lag.observe(late)
        if late > _STALL:
            metrics.loop_stalls.add(())
        timer = loop.call_at(now + _EVERY, look, now + _EVERY)

    # Not a task that sleeps: an idle gateway would wake twice for each measurement.
    timer = loop.call_later(_EVERY, look, loop.time() + _EVERY)
    try:
        await loop.create_future()
    finally:
        timer.cancel()
