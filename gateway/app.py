"""The composition root: a configuration becomes listeners that serve it, until somebody says stop."""

import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

import uvloop

from gateway.a2a.fault import Draining
from gateway.a2a.progress import Progress
from gateway.background import Background
from gateway.config import effective
from gateway.config.check import Examined, examine
from gateway.config.limit import Http
from gateway.config.model import Config, Tls
from gateway.config.problem import as_text
from gateway.config.state import StateUrl
from gateway.listener.admin import LONGEST_QUESTION, MOST_CONNECTIONS, admin_app
from gateway.listener.asgi import AsgiListener
from gateway.listener.callback import Callbacks
from gateway.listener.edge import Edge
from gateway.listener.http import PublicListener
from gateway.listener.server import HttpServer, ListenFailed, bind, client_limits, raise_file_limit, server_tls
from gateway.origin import is_trusted
from gateway.policy.limits import Limits
from gateway.policy.shared import SharedRates
from gateway.proxy import Line
from gateway.push.hook import Hook
from gateway.push.resolver import Resolver
from gateway.push.service import PushService
from gateway.snapshot import Snapshot
from gateway.tasks import opening
from gateway.tasks.ledger import Ledger
from gateway.tasks.store import Bounds, Soon, Store, StoreBroken
from gateway.telemetry import log
from gateway.telemetry.access import AccessLog
from gateway.telemetry.audit import AuditLog, Event
from gateway.telemetry.metrics import Metrics, Sample
from gateway.upstream.stdio_agent import StdioAgents
from gateway.webhooks import Webhooks

_LAG_EVERY = 0.5
_LAST_WORDS = 1.0

logger = logging.getLogger("gateway")


def package_version() -> str:
    """The version of this package; `0+source` where it runs from a checkout."""
    try:
        return version("a2a-gateway")
    except PackageNotFoundError:
        return "0+source"


class StartFailed(Exception):  # noqa: N818 - as ListenFailed
    """What the configuration names cannot be used; the text says where it is written and why."""


class Gateway:
    """One gateway: listeners, a snapshot, and what they report to.

    Args:
        examined: A configuration without errors.
        access_stream: Where the access log goes, or None for nowhere but `AccessLog`'s own count.
        state: Where the ledger is kept, instead of where the configuration says.
        resolver: Looks up the hosts of webhooks, instead of the system.
    """

    def __init__(
        self,
        examined: Examined,
        *,
        access_stream: BinaryIO,
        state: StateUrl | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        if examined.config is None:
            raise ValueError("the configuration has problems")
        self._examined = examined
        self._config: Config = examined.config
        self._background = Background()
        self.metrics = Metrics(package_version(), self._samples)
        self.access = AccessLog(access_stream, form=self._config.observe.log.format)
        self.started = False
        self.draining = False
        self.public_url = ""
        self.admin_url = ""
        self.grpc_address = ""
        self._snapshot: Snapshot | None = None
        self._state = state
        self._resolver = resolver
        self._ledger: Ledger | None = None
        self._stdio = StdioAgents()
        self._push: PushService | None = None
        self._audit = AuditLog()
        self._limits = Limits(on_hit=self._count_hit)
        self._line = Line(lambda: self.snapshot, self.access, self._count_auth, self._audited, limits=self._limits)
        self._servers: list[HttpServer] = []
        # Those for clients.
        self._public: list[HttpServer] = []
        self._tell_health: Callable[[], None] = lambda: None

    @property
    def snapshot(self) -> Snapshot:
        """The configuration that runs."""
        if self._snapshot is None:
            raise RuntimeError("not started")
        return self._snapshot

    async def start(self) -> None:
        """Listen, and serve from now on; if that fails, everything is closed again.

        Raises:
            ListenFailed: an address cannot be listened on, or not with this certificate.
        StartFailed: a file or a store cannot be used.
        """
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise

    async def _start(self) -> None:
        self._audit = self._open_audit()
        self._ledger = await self._open_ledger()
        written = self._config.gateway
        tls = None if written.tls is None else self._tls(written.tls)
        callbacks = Callbacks(lambda: self._push, lambda: self.snapshot, self.access)
        listener = PublicListener(self._line, self._takes_calls, callbacks)
        edge = Edge(listener, client_limits(written.http), self._line.unreadable, self._is_proxy)
        self._servers.append(HttpServer(bind(written.listen), edge, tls=tls))
        token = None if written.admin.token is None else written.admin.token.get_secret_value()
        pages = AsgiListener(admin_app(self, token, self._audit_admin), LONGEST_QUESTION)
        self._servers.append(HttpServer(bind(written.admin.listen), Edge(pages, Http(connections=MOST_CONNECTIONS))))
        public, admin = self._servers
        self._public = [public]
        if written.listen_grpc is not None:
            grpc = self._serve_grpc(written.listen_grpc)
            self._servers.append(grpc)
            self._public.append(grpc)
            self.grpc_address = grpc.address
        scheme = "http" if tls is None else "https"
        self.public_url = written.public_url or f"{scheme}://{public.address}"
        self.admin_url = f"http://{admin.address}"
        public_grpc = written.public_grpc or self.grpc_address
        self._push = self._open_push()
        self._snapshot = Snapshot.build(
            self._examined,
            self.metrics,
            self.public_url,
            public_grpc,
            ledger=self._ledger,
            webhooks=Webhooks(self._push.policy, self._push.relay),
            stdio=self._stdio,
        )
        self._line.admission.configure(self._config)
        self._snapshot.open(self._background)
        if self._ledger is not None:
            self._background.start("ledger", self._ledger.run)
        self._background.start("push notifications", self._push.run)
        for server, name in zip(self._servers, ("public", "admin", "grpc"), strict=False):
            await server.start(self._background, name)
        self._background.start("loop lag", self._watch_lag)
        self._audit.write(
            Event.CONFIGURATION_CHANGED, {"hash": self._examined.text_hash, "agents": len(self._config.agents)}
        )
        self.metrics.reload_ok.set((), 1)
        self.metrics.reload_time.set((), time.time())  # noqa: TID251 - read by people
        self.started = True
        self._tell_health()
        over_grpc = f", gRPC on {self.grpc_address}" if self.grpc_address else ""
        logger.info("serving %s, admin on %s%s", self.public_url, self.admin_url, over_grpc)

    async def stop(self, hurry: asyncio.Event, *, delay: float | None = None) -> None:
        """Drain and close: not ready at once, accept for `delay` more, let calls end, end streams with a last event.

        Args:
            hurry: When set, nothing is waited for any more.
            delay: Seconds; None for what the configuration says.
        """
        self.draining = True
        self._tell_health()
        self.metrics.draining.set((), 1)
        drain = self._config.gateway.drain
        if delay is None:
            delay = effective.drain_delay(self._config)
        for server in self._public:
            server.wind_down()
        if delay > 0:
            await _within(hurry, delay)
        for server in self._public:
            server.stop_accepting()
        if self._line.open:
            logger.info("waiting up to %.0f s for %d open calls", drain.timeout, self._line.open)
        await _until(lambda: not self._line.open, hurry, drain.timeout)
        ended = self._line.interrupt(lambda: Draining("the gateway is shutting down", retry_after=1.0))
        if ended:
            logger.warning("ended %d calls that were still open", ended)
            await _until(lambda: not self._line.open, asyncio.Event(), _LAST_WORDS)
        await self._close()
        logger.info("stopped")

    async def _close(self) -> None:
        for server in self._servers:
            await server.aclose()
        await self._background.aclose()
        if self._snapshot is not None:
            await self._snapshot.aclose()
        if self._push is not None:
            self._push.close()
        if self._ledger is not None:
            await self._ledger.aclose()
        await asyncio.to_thread(self.access.close)
        await asyncio.to_thread(self._audit.close)

    async def _open_ledger(self) -> Ledger | None:
        """The ledger, where the configuration asks for one.

        Raises:
            StartFailed: its store can never work as it is written.
        """
        if not effective.keeps_state(self._config):
            return None
        marks = self._examined.marks
        state = self._state or effective.state(self._config, marks, os.environ, Path.cwd())
        kept = self._config.gateway.ledger
        bounds = Bounds(ended=int(kept.ended), open=int(kept.open), tasks=kept.tasks, contexts=kept.contexts)
        try:
            store = opening.make(state)
            if state.is_shared:
                self._limits.share(_shared_rates(store))
            ledger = Ledger(opening.served(store, self._state_counts), bounds)
            await ledger.open()
        except StoreBroken as error:
            raise StartFailed(f"{marks.place(('gateway', 'state'))}: {error}") from error
        return ledger

    def _open_push(self) -> PushService:
        return PushService(
            self._config.push,
            self.public_url,
            None if self._ledger is None else self._ledger.store,
            meet=self._met_by_push,
            count=self._count_delivery,
            audit=self._audit.write,
            resolver=self._resolver,
        )

    def _met_by_push(self, hook: Hook, told: Progress) -> Soon[bool]:
        """Write down what a notification names; whether its task is the hook's owner's."""
        backing = self.snapshot.backings.get(hook.scope)
        if backing is None or backing.tenure is None:
            return False
        return backing.tenure.notified(hook.owner, told)

    def _count_delivery(self, agent: str, result: str) -> None:
        self.metrics.push_deliveries.add((agent, result))

    def _open_audit(self) -> AuditLog:
        """The audit log.

        Raises:
            StartFailed: its file cannot be written.
        """
        path = effective.audit(self._config, self._examined.marks)
        if path == effective.STANDARD_OUTPUT:
            return AuditLog(sys.stdout.buffer)
        try:
            return AuditLog.open(path)
        except OSError as error:
            place = self._examined.marks.place(("observe", "audit"))
            raise StartFailed(f"{place}: the audit log cannot be written: {error.strerror}") from error

    def _audit_admin(self, fields: Mapping[str, object]) -> None:
        self._audit.write(Event.ADMIN_CALLED, fields)

    def _audited(self, event: Event, line: Mapping[str, object]) -> None:
        self._audit.call(event, line)

    def _serve_grpc(self, listen: str) -> HttpServer:
        # HTTP/2 and its headers cost 10 MiB, which nobody pays who does without.
        from gateway.listener.grpc import GrpcListener  # noqa: PLC0415 - see above
        from gateway.listener.grpc_request import GrpcBounds  # noqa: PLC0415 - see above
        from gateway.listener.http2 import Http2Connection  # noqa: PLC0415 - see above

        gateway = self._config.gateway
        written = gateway.grpc
        bounds = GrpcBounds(
            connections=written.connections,
            streams=written.streams,
            metadata=written.metadata,
            resets=written.resets,
            keepalive=written.keepalive,
            idle=written.idle,
            deadline=written.deadline,
        )
        listener = GrpcListener(self._line, self._takes_calls, scope_field=written.scope_field)
        self._tell_health = listener.changed
        limits = client_limits(gateway.http.model_copy(update={"connections": written.connections}))
        edge = Edge(listener, limits, self._line.unreadable, self._is_proxy)
        tls = None if gateway.tls is None else self._tls(gateway.tls, "h2")
        return HttpServer(bind(listen), edge, tls=tls, protocol=partial(Http2Connection, bounds=bounds))

    def _takes_calls(self) -> bool:
        return self.started and not self.draining

    def _tls(self, written: Tls, protocol: str = "http/1.1") -> ssl.SSLContext:
        folder = Path(self._examined.marks.place(("gateway", "tls")).file).parent
        return server_tls(folder / written.cert, folder / written.key, protocol=protocol)

    def _is_proxy(self, address: str) -> bool:
        return is_trusted(address, self.snapshot.trusted)

    def _samples(self) -> Iterable[Sample]:
        yield Sample(
            "log_dropped_total",
            "Lines of the access log and of the audit log that were not written.",
            (),
            (((), self.access.dropped + self._audit.dropped),),
        )
        if self._snapshot is not None:
            yield from self._snapshot.samples()

    def _count_hit(self, limit: str, scope: str, name: str) -> None:
        self.metrics.limit_hits.add((limit, scope, name))

    def _state_counts(self, operation: str) -> dict[str, float]:
        return self.metrics.state_operations.share((operation,))

    def _count_auth(self, method: str, issuer: str, result: str) -> None:
        self.metrics.auth.add((method, issuer, result))

    async def _watch_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_EVERY
            await asyncio.sleep(_LAG_EVERY)
            self.metrics.loop_lag.observe(max(loop.time() - due, 0.0))


async def run(gateway: Gateway, *, delay: float | None = None, on_started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; a second one stops at once.

    Args:
        delay: As `Gateway.stop`, for SIGTERM.
        on_started: Called once requests are taken.

    Raises:
        ListenFailed, StartFailed: as `Gateway.start`.
    """
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    quick = False

    def on_signal(number: signal.Signals) -> None:
        nonlocal quick
        if stop.is_set():
            hurry.set()
            return
        quick = number is signal.SIGINT
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await gateway.start()
    # What is there now stays: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    on_started()
    await stop.wait()
    # A person at a terminal has no balancer that must be given time.
    await gateway.stop(hurry, delay=0.0 if quick else delay)


def serve(path: Path, environ: Mapping[str, str]) -> int:
    """Serve a configuration file until a signal; the exit code.

    Problems and addresses that are taken are told on standard error.
    """
    examined = examine(path, environ)
    if examined.config is None or examined.failed:
        sys.stderr.write(as_text((*examined.problems, *examined.failed)) + "\n")
        if examined.config is not None:
            # A file that breaks a promise of its own about who reaches what is not put to use.
            sys.stderr.write("\nnot started: the configuration fails its own routing tests\n")
        return 1
    return serve_examined(examined)


def serve_examined(
    examined: Examined, *, access_stream: BinaryIO | None = None, on_started: Callable[[], None] = lambda: None
) -> int:
    """Serve a configuration that was examined and has no errors; the exit code.

    Args:
        access_stream: Where the access log goes; standard output where it is left out.
        on_started: Called once requests are taken.
    """
    assert examined.config is not None
    settings = examined.config.observe.log
    log.configure(settings.format, settings.level)
    raise_file_limit()
    for problem in examined.problems:
        logger.warning("%s: %s", problem.place, problem.fact)
    stream = sys.stdout.buffer if access_stream is None else access_stream
    gateway = Gateway(examined, access_stream=stream)
    try:
        uvloop.run(run(gateway, on_started=on_started))
    except (ListenFailed, StartFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _shared_rates(store: Store) -> SharedRates | None:
    """How requests are counted together with other gateways: through the Redis that keeps the ledger, too."""
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - only those who have one pay for it

    return SharedRates(store.link, store.link.address.named) if isinstance(store, RedisStore) else None


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _until(done: Callable[[], bool], hurry: asyncio.Event, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and not hurry.is_set() and time.monotonic() < deadline:
        await _within(hurry, 0.05)
