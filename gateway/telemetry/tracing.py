"""Traces by OTLP: one server span for each exchange, one client span for each attempt to call its agent.

The one module that imports opentelemetry (the extra `otel`); it is imported where tracing is configured. Nothing of it
is global: each configuration has a tracer provider, an exporter and a queue of its own. Spans wait in a bounded queue
for the exporting thread, so a slow or missing collector loses spans and never delays a call.
"""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread, get_ident
from typing import Any, Protocol
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import Fault
from gateway.a2a.headers import TRACEPARENT
from gateway.a2a.progress import Progress
from gateway.telemetry import span_names as names
from gateway.telemetry.access_log import short

FLUSH_TIMEOUT = 2.0
"""Seconds for the export of the last spans, after the drain of calls."""
_EXPORT_TIMEOUT = 5.0
"""Seconds for one batch, its retries included."""
_EVERY_MS = 1000
"""Longest time that a span waits for others in its batch."""
_QUEUE = 4096
"""Spans that wait at most; a new one displaces the oldest."""
_BATCH = 512
_LIMITS = SpanLimits(max_events=128)
"""Values are cut where they are made: the SDK logs each one that it cuts."""
_NO_PARENT = Context()
_FAILED = frozenset({"upstream_error", "gateway_error"})
"""Outcomes that make a server span one of an error; a client's own mistakes do not."""
# The loggers of the two exporters.
_EXPORTERS = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
_PATH = "/v1/traces"

logger = logging.getLogger("gateway.telemetry.tracing")


class GatewayTracer:
    """Makes the spans of one configuration, and exports them.

    Args:
        url: Of the collector; over HTTP `/v1/traces` is added unless it ends so (OTLP specification, Endpoint URLs).
        sample: Share of traces without a parent that are sampled, 0 to 1; with a parent, its flag decides.
        protocol: `grpc` or `http/protobuf`.
        headers: Headers of each export.
        version: Of the gateway.
    """

    def __init__(self, url: str, *, sample: float, protocol: str, headers: Mapping[str, str], version: str) -> None:
        service = {"service.name": "a2a-gateway", "service.version": version, "service.instance.id": str(uuid.uuid4())}
        # Resource attributes of the environment override the built-in ones.
        resource = Resource.create(service).merge(OTELResourceDetector().detect())
        sampler = ParentBasedTraceIdRatio(sample)
        self._exporter = _Reported(url, protocol, headers)
        self._provider = TracerProvider(sampler, resource, shutdown_on_exit=False, span_limits=_LIMITS)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=_QUEUE,
                schedule_delay_millis=_EVERY_MS,
                max_export_batch_size=_BATCH,
                export_timeout_millis=_EXPORT_TIMEOUT * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("a2a-gateway", version)

    def exchange(self, head: Head) -> "ExchangeSpan":
        """Begin the server span of a request, below the span that its `traceparent` names."""
        return ExchangeSpan(self._tracer, self._tracer.start_span("HTTP", _parent(head), SpanKind.SERVER))

    async def aclose(self) -> None:
        """Export waiting spans, for at most `FLUSH_TIMEOUT` seconds, and end the exporter."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def flush() -> None:
            self._provider.shutdown()
            # The caller may have stopped waiting, and the loop may be closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        # No thread of the pool: the process would wait for it at its end.
        Thread(target=flush, name="flush of traces", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await done.wait()
        except TimeoutError:
            logger.warning("the last spans were not exported within %.0f s", FLUSH_TIMEOUT)
            self._exporter.shutdown()


class ExchangeSpan:
    """The server span of one exchange.

    Attributes:
        trace_id: In hex, as in `traceparent`.
        span_id: Likewise.
    """

    __slots__ = ("_last", "_span", "_tracer", "span_id", "trace_id")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._last: tuple[str | None, str | None] | None = None
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}"
        self.span_id = f"{context.span_id:016x}"

    def attempt(self, call: Call, *, agent: str, backend: str, url: str, number: int) -> "AttemptSpan":
        """Begin the client span of one attempt.

        Args:
            call: As the agent gets it.
            backend: The key of the replica in metrics and logs.
            url: Its URL in the configuration.
            number: 1 for the first attempt.
        """
        if not self._span.is_recording():
            # It would not be exported; the agent learns that the trace is not sampled.
            return AttemptSpan(self._span)
        place, binding = urlsplit(url), call.dialect.binding
        attributes: dict[str, str | int] = {
            names.AGENT: agent,
            names.OPERATION: call.operation,
            names.VERSION: call.dialect.version,
            names.BINDING: binding.label,
            names.BACKEND: backend,
        }
        if call.operation.sends:
            attributes[names.GEN_AI_OPERATION] = names.INVOKE_AGENT
        if binding is not Binding.REST:
            attributes[names.RPC_SYSTEM] = "grpc" if binding is Binding.GRPC else "jsonrpc"
        if place.hostname:
            attributes[names.SERVER_ADDRESS] = place.hostname
        if place.port:
            attributes[names.SERVER_PORT] = place.port
        if number > 1:
            attributes[names.RESEND_COUNT] = number - 1
        context = set_span_in_context(self._span, _NO_PARENT)
        span = self._tracer.start_span(f"{call.operation} {agent}", context, SpanKind.CLIENT, attributes)
        return AttemptSpan(span, is_http=place.scheme in ("http", "https"))

    def add_progress(self, progress: Progress) -> None:
        """Add an event if a task is in another state than before."""
        seen = (progress.task_id, progress.state)
        if progress.state is None or seen == self._last or not self._span.is_recording():
            return
        self._last = seen
        task = {} if progress.task_id is None else {names.TASK_ID: short(progress.task_id) or ""}
        self._span.add_event(names.TASK_STATE_EVENT, {**task, names.TASK_STATE: progress.state})

    def end(self, line: Mapping[str, Any], agent: str) -> None:
        """End the span.

        Args:
            line: The fields of the access log; their values are flat.
            agent: The agent that was called; empty for none.
        """
        span = self._span
        if not span.is_recording():
            return
        span.set_attributes({name: line[field] for field, name in names.OF_EXCHANGE.items() if line[field] is not None})
        if agent:
            span.set_attribute(names.AGENT, agent)
        if line["rpc_code"] is not None:
            span.set_attribute(names.RPC_STATUS, str(line["rpc_code"]))
        failed = line["outcome"] in _FAILED
        if failed or line["reason"] is not None:
            span.set_attribute(names.ERROR_TYPE, line["reason"] or line["outcome"])
        if failed:
            span.set_status(StatusCode.ERROR)
        if line["operation"] is not None:
            span.update_name(f"{line['operation']} {agent}".rstrip())
        span.end()


class AttemptSpan:
    """The client span of one attempt; that of the exchange itself where nothing is recorded.

    Attributes:
        traceparent: The header for the agent (W3C Trace Context §3.2).
        reply: The agent's reply, once it has begun.
    """

    __slots__ = ("_is_http", "_span", "reply", "traceparent")

    def __init__(self, span: Span, *, is_http: bool = False) -> None:
        self._span = span
        self._is_http = is_http
        self.reply: TracedReply | None = None
        context = span.get_span_context()
        self.traceparent = b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)

    def end(self, fault: Fault | None = None) -> None:
        """End the span; only the first call counts.

        Args:
            fault: Why the attempt failed; None if the agent answered, or the client left.
        """
        span, reply = self._span, self.reply
        if not span.is_recording():
            return
        error = None if fault is None else fault.reason
        if reply is not None:
            status, failure = reply.http_status, reply.failure
            if failure is not None:
                span.set_attribute(names.RPC_STATUS, str(failure.code))
            elif self._is_http:
                span.set_attribute(names.HTTP_STATUS, status)
            if error is None and status >= 400:
                error = str(status if failure is None else failure.code)
        if error is not None:
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(StatusCode.ERROR)
        span.end()


class TracedReply(Protocol):
    """The parts of an agent's reply that its span has."""

    @property
    def http_status(self) -> int:
        """The status in HTTP's numbers."""

    @property
    def failure(self) -> Status | None:
        """The status of gRPC with which the agent failed."""


def _parent(head: Head) -> Context:
    """Return the context of the caller's span; an empty one for none (W3C Trace Context §3.2, §3.3)."""
    value = head.first(b"traceparent")
    if value is None or TRACEPARENT.fullmatch(value) is None:
        return _NO_PARENT
    state = [each.decode("latin-1") for each in head.all(b"tracestate")]
    parent = SpanContext(
        int(value[3:35], 16),
        int(value[36:52], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(value[53:55], 16)),
        trace_state=TraceState.from_header(state),
    )
    return set_span_in_context(NonRecordingSpan(parent), _NO_PARENT)


# ---- Export ----------------------------------------------------------------------------------------------------------


class _Reported(SpanExporter):
    """Exports by OTLP, and logs the begin of a failure with its reason, and the recovery.

    Args:
        url, protocol, headers: As `GatewayTracer`.
    """

    def __init__(self, url: str, protocol: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._is_good = True
        self._is_closed = False
        self._words = ""
        # The thread that exports.
        self._thread: int | None = None
        self._library = logging.getLogger(_EXPORTERS[protocol])
        self._library.addFilter(self._hear)
        self._exporter = _exporter(url, protocol, {name.lower(): value for name, value in headers.items()})

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch; a failure is a result."""
        self._thread, self._words = get_ident(), ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - of the library, which would log it for each batch
            self._words = self._words or type(error).__name__
            result = SpanExportResult.FAILURE
        is_good = result is SpanExportResult.SUCCESS
        if is_good != self._is_good:
            self._is_good = is_good
            if is_good:
                logger.info("spans are exported to %s again", self._url)
            else:
                logger.warning("spans cannot be exported to %s and are dropped: %s", self._url, self._words)
        return result

    def shutdown(self) -> None:
        """End a running export and close the connections."""
        if not self._is_closed:
            self._is_closed = True
            self._exporter.shutdown()
            self._library.removeFilter(self._hear)

    def _hear(self, record: logging.LogRecord) -> bool:
        """Keep the library's first line about a batch of this exporter; return whether it may be logged as it is."""
        if record.thread != self._thread:
            return True
        self._words = self._words or record.getMessage()
        return False


def _exporter(url: str, protocol: str, headers: Mapping[str, str]) -> SpanExporter:
    """Return the library's exporter; only the one that is used is imported."""
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as over_grpc  # noqa: PLC0415 - see above

        return over_grpc.OTLPSpanExporter(
            url, insecure=url.startswith("http:"), headers=dict(headers), timeout=_EXPORT_TIMEOUT
        )
    import requests  # noqa: PLC0415 - comes with the exporter
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as over_http  # noqa: PLC0415 - see above

    session = requests.Session()
    # The headers are secrets: they go to the collector, and to no other place that a redirect names. A password of
    # ~/.netrc would replace them.
    session.max_redirects = 0
    session.trust_env = False
    whole = url if url.endswith(_PATH) else url.rstrip("/") + _PATH
    return over_http.OTLPSpanExporter(whole, headers=headers, timeout=_EXPORT_TIMEOUT, session=session)
