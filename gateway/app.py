"""The composition root: configuration → snapshot → listeners; start, swap, drain, stop."""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from gateway import __version__
from gateway.a2a.card import CardInvalid
from gateway.a2a.command import NoCommand
from gateway.a2a.fault import Draining
from gateway.a2a.progress import Progress
from gateway.backend.quotas import quotas_of
from gateway.background import FILE_TIMEOUT, Background, FileWork
from gateway.config import effective
from gateway.config.diff import Waiting
from gateway.config.load import Examined
from gateway.config.model import Config, Push
from gateway.config.problem import KeyPath, Problem
from gateway.config.yaml import Marks
from gateway.listener.admin import admin_app
from gateway.listener.asgi import AsgiListener
from gateway.listener.callbacks import Callbacks
from gateway.listener.server import ListenFailed
from gateway.network.address import UNIX
from gateway.policy.limits import QuotaEnforcer
from gateway.policy.shared_rates import SharedRates
from gateway.proxy.client_address import is_trusted
from gateway.proxy.overload import Overload
from gateway.proxy.pipeline import Pipeline
from gateway.push.delivery import DeliveryRetryPolicy
from gateway.push.queue import NotificationQuota
from gateway.push.service import PushService, PushSettings
from gateway.push.ssrf import Resolver
from gateway.push.subscription import Subscription
from gateway.push.webhooks import Webhooks
from gateway.reload import ConfigurationOrigin, Reloader, ReloadReport, Trigger, Unusable, usable
from gateway.routing.route import read_backend_key
from gateway.snapshot import DrainingSnapshots, Snapshot
from gateway.startup import ADMIN_LIMITS, Listeners
from gateway.tasks.ledger import TaskLedger, make_store
from gateway.tasks.state_url import StateUrl
from gateway.tasks.store import Bounds, Store, StoreBroken, counted
from gateway.telemetry import log
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.audit_log import AuditEvent, AuditLog
from gateway.telemetry.log_output import RotatedFile, form_of
from gateway.telemetry.metrics import NO_AGENT, GatewayMetrics, Sample, watch_lag
from gateway.workers import Orders, Worker

_FINAL_EVENTS = 1.0
"""Seconds for the final events of streams that the drain interrupts."""
WARM_UP = 3.0
"""Seconds that a new snapshot waits for its cards and keys before the swap."""
_MOST_CHANGES = 100
"""Changes in one audit event."""

T = TypeVar("T")

logger = logging.getLogger("gateway")


class StartFailed(Exception):  # noqa: N818 - operators read the text
    """A file or a store of the configuration cannot be used; the text has its place and the reason."""


class Gateway:
    """One gateway: its listeners, the active snapshot, and its logs and metrics.

    Args:
        examined: A configuration without errors.
        access_stream: Output of the access log.
        state: URL of the ledger, instead of `gateway.state`.
        resolver: Resolves the hosts of webhooks, instead of the system.
        origin: Source of the configuration for reloads; None if it cannot be reloaded.
        worker: The worker that this process is; None in single-worker mode.
        over_http: As `Listeners`.
        open_store: Opens the store that a URL names.

    Attributes:
        listeners: The sockets.
        limits: The limits and their use.
        recent: The last requests of this process.
        pipeline: The order of steps that every request takes.
        draining_snapshots: Snapshots that were replaced and still have calls.
        ledger: The store of owners; None if tasks have none.
        drains_since: Monotonic time at which draining began.

    Raises:
        StartFailed: The file of the access log cannot be written.
    """

    def __init__(
        self,
        examined: Examined,
        *,
        access_stream: BinaryIO,
        state: StateUrl | None = None,
        resolver: Resolver | None = None,
        origin: ConfigurationOrigin | None = None,
        worker: Worker | None = None,
        over_http: bool = True,
        open_store: Callable[[StateUrl], Store] = make_store,
    ) -> None:
        if examined.config is None:
            raise ValueError("the configuration has problems")
        self._examined = examined
        self._config: Config = examined.config
        self._background = Background()
        self._worker = worker
        self._processes = 1 if worker is None else worker.processes
        self.metrics = GatewayMetrics(
            __version__,
            self._samples,
            None if worker is None else worker.metrics,
            self._config.observe.metrics.buckets.model_dump(exclude_none=True),
        )
        self.access = _open_access(self._config, examined.marks, access_stream)
        self.recent = self.access.recent
        self.started = False
        self.draining = False
        self.drains_since = 0.0
        self._is_stopping = False
        self.public_url = ""
        self._address = ""
        self.admin_url = ""
        self.grpc_address = ""
        self._snapshot: Snapshot | None = None
        self._state = state
        self._open_store = open_store
        self._resolver = resolver
        self.ledger: TaskLedger | None = None
        self._push: PushService | None = None
        self._output = access_stream
        self._audit = AuditLog()
        self.limits = QuotaEnforcer(on_hit=lambda *labels: self.metrics.limit_hits.add(labels))
        self._overload = Overload(
            lambda: self._config.gateway.memory_limit,
            processes=self._processes,
            changed=self._set_overloaded,
        )
        self.pipeline = Pipeline(
            lambda: self.snapshot,
            self.access,
            lambda *labels: self.metrics.auth.add(labels),
            lambda event, line: self._audit.call(event, line),  # noqa: PLW0108 - `start` opens the log
            limits=self.limits,
            overload=self._overload,
        )
        self.listeners = Listeners(
            {} if worker is None else worker.sockets,
            self.pipeline,
            ready=lambda: self.started and not self.draining and not self.state_trouble,
            trouble=lambda: self.state_trouble,
            shares=lambda address: is_trusted(address, self.snapshot.trusted),
            over_http=over_http,
        )
        self.draining_snapshots = DrainingSnapshots(self._background, self.metrics.sweep)
        self._files = FileWork()
        self.reloader: Reloader | None = None
        if origin is not None:
            self.reloader = Reloader(
                origin,
                self.use,
                lambda: self._examined,
                self.metrics,
                applied=self._audit_configuration,
                reported=None if worker is None else worker.reloaded,
            )

    @property
    def asgi(self) -> AsgiListener:
        """Return the listener that serves the requests of an ASGI server.

        Raises:
            RuntimeError: the gateway serves clients over HTTP itself, or was not started.
        """
        if self.listeners.asgi is None:
            raise RuntimeError("not served by an ASGI server")
        return self.listeners.asgi

    @property
    def snapshot(self) -> Snapshot:
        """Return the active snapshot."""
        if self._snapshot is None:
            raise RuntimeError("not started")
        return self._snapshot

    async def start(self) -> None:
        """Listen and serve; if that fails, close everything again.

        Raises:
            ListenFailed: An address or a certificate cannot be used.
            StartFailed: A file or a store cannot be used.
        """
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise

    async def _start(self) -> None:
        self._audit = _open_audit(self._config, self._examined.marks, self._output)
        self.ledger, rates = await self._open_ledger(self._config, self._examined.marks)
        self.limits.share(rates)
        written = self._config.gateway
        token = None if written.admin.token is None else written.admin.token.get_secret_value()
        admin_tls = written.admin.tls
        pages = admin_app(
            self,
            token,
            ADMIN_LIMITS,
            lambda fields: self._audit.write(AuditEvent.ADMIN_CALLED, fields),
            certified=admin_tls is not None and admin_tls.client_ca is not None,
        )
        callbacks = Callbacks(lambda: self._push, lambda: self.snapshot, self.access)
        await self.listeners.open(self._config, self._examined.marks, pages, callbacks)
        self._address = f"{'http' if written.tls is None else 'https'}://{self.listeners.address}"
        self.public_url = written.public_url or self._address
        admin = self.listeners.admin_address
        scheme = "http" if admin_tls is None else "https"
        self.admin_url = f"{scheme}://{admin}" if admin and not admin.startswith(UNIX) else admin
        self.grpc_address = self.listeners.grpc_address
        self._push = self._open_push()
        self._snapshot = await asyncio.to_thread(self._build, self._examined, None)
        self._push.trust(self._snapshot.webhook_tls)
        self.pipeline.admission.processes = self._processes
        self.pipeline.admission.configure(quotas_of(self._config))
        self._snapshot.open(self._background)
        if self.ledger is not None:
            self._background.start("ledger", self.ledger.run)
        self._background.start("push notifications", self._push.run)
        if self.draining:
            # A worker that replaces one of a gateway that drains.
            self.listeners.close_after_answers()
        await self.listeners.start(self._background)
        self._background.start("loop lag", partial(watch_lag, self.metrics))
        self._background.start("overload", self._overload.run)
        if self._worker is not None:
            self._background.start(
                "metrics of this worker", partial(self._worker.metrics.keep_writing, self.metrics.registry)
            )
        if self.reloader is not None:
            self._background.start("configuration", partial(self.reloader.watch, lambda: self._config.gateway.reload))
        self._audit_configuration(self._examined)
        self.metrics.reload_ok.set((), 1)
        self.metrics.reload_time.set((), time.time())  # noqa: TID251 - read by people
        self.started = True
        self.listeners.update_health()
        over_grpc = f", gRPC on {self.grpc_address}" if self.grpc_address else ""
        logger.info("serving %s, admin on %s%s", self.public_url, self.admin_url or "no address", over_grpc)

    def _build(self, examined: Examined, before: Snapshot | None, ledger: TaskLedger | None = None) -> Snapshot:
        assert examined.config is not None
        assert self._push is not None
        written = examined.config.gateway
        return Snapshot.build(
            examined,
            self.metrics,
            written.public_url or self._address,
            written.public_grpc or self.grpc_address,
            ledger=ledger or self.ledger,
            webhooks=Webhooks(self._push.policy_of(push_settings(examined.config.push)), self._push.relay),
            before=before,
        )

    async def use(self, examined: Examined) -> tuple[tuple[Waiting, ...], float]:
        """Activate another configuration.

        Its snapshot is built beside the active one and reads its cards and keys. The swap is one step of the event
        loop, so one snapshot serves each call from begin to end. The old one is closed after its last call.

        Args:
            examined: A configuration without errors.

        Returns:
            The settings that take effect after a restart, and the seconds of the swap.

        Raises:
            Unusable: It cannot be activated; nothing has changed.
        """
        if examined.config is None or self._snapshot is None or self._push is None or self._is_stopping:
            raise Unusable("the gateway is shutting down" if self._is_stopping else "the gateway has not started")
        before = self._snapshot
        examined, waiting = await asyncio.to_thread(
            partial(
                usable,
                self._config,
                examined,
                has_store=self.ledger is not None,
                processes=self._processes,
            )
        )
        config = examined.config
        assert config is not None
        ledger, rates = self.ledger, None
        try:
            certificates = await self._files.run(self.listeners.certificates, config, examined.marks)
            quotas = await asyncio.to_thread(quotas_of, config)
            if ledger is None:
                ledger, rates = await self._open_ledger(config, examined.marks)
            snapshot = await self._warmed_up(examined, before, ledger)
        except BaseException as error:
            if ledger is not None and self.ledger is None:
                await ledger.aclose()
            if isinstance(error, TimeoutError):
                why = f"reading its files took longer than {FILE_TIMEOUT:.0f} s: a disk that does not answer, or a pipe"
                raise Unusable(why) from error
            if isinstance(error, OSError | CardInvalid | NoCommand | ListenFailed | StartFailed):
                raise Unusable(str(error)) from error
            raise
        # The swap: no await until the old snapshot drains.
        began = time.perf_counter()
        self._snapshot, self._examined, self._config = snapshot, examined, config
        self.public_url = config.gateway.public_url or self._address
        self.pipeline.admission.configure(quotas)
        self._push.change(push_settings(config.push))
        self._push.trust(snapshot.webhook_tls)
        if ledger is not None and self.ledger is None:
            self.ledger = ledger
            self.limits.share(rates)
            self._background.start("ledger", ledger.run)
        before.resources.hand_over(snapshot.resources)
        snapshot.resources.enter()
        self.draining_snapshots.drain(before)
        swap = time.perf_counter() - began
        await self.listeners.renew(certificates, config)
        if ended := await self.pipeline.reconsider():
            logger.warning("ended %d streams whose callers lost access", ended)
        return waiting, swap

    async def _warmed_up(self, examined: Examined, before: Snapshot, ledger: TaskLedger | None) -> Snapshot:
        """Return a snapshot that is ready to replace the active one."""
        snapshot = await self._files.run(self._build, examined, before, ledger)
        ready = False
        try:
            snapshot.open(self._background)
            # Requests are served between these steps, which take some milliseconds each with many agents.
            await asyncio.sleep(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(WARM_UP):
                    await snapshot.settled()
            await asyncio.sleep(0)
            ready = not self._is_stopping
        finally:
            if not ready:
                snapshot.resources.hand_over(before.resources)
                snapshot.resources.stop()
                await snapshot.aclose()
        if not ready:
            raise Unusable("the gateway is shutting down")
        return snapshot

    async def reload_others(self) -> dict[str, Any]:
        """Reload the other workers; return the result of each, and the number without an answer in time."""
        return {} if self._worker is None else await self._worker.reload_others()

    async def set_log_level(self, level: str) -> int:
        """Change the level of the own log, in all workers, until the next start.

        Returns:
            The number of workers that have not confirmed it in time.
        """
        return await self._spread(Orders(level=level, level_since=time.monotonic()))

    async def drain(self) -> int:
        """Begin to drain, in all workers; calls are served until SIGTERM.

        Returns:
            The number of workers that have not confirmed it in time.
        """
        return await self._spread(Orders(drains=True))

    async def _spread(self, orders: Orders) -> int:
        self.obey(orders)
        return 0 if self._worker is None else await self._worker.spread(orders)

    def obey(self, orders: Orders) -> None:
        """Execute an operator's order, given to this worker or to another."""
        if orders.level is not None and orders.level != log.current_level():
            log.set_level(orders.level)
            logger.warning("the log level is %s until the next start", orders.level)
        if orders.drains and not self.draining:
            logger.info("draining: not ready any more, serving until SIGTERM")
            self.drains_since = time.monotonic()
            self._begin_draining()

    def _begin_draining(self) -> None:
        self.draining = True
        self.listeners.update_health()
        self.metrics.draining.set((), 1)
        self.listeners.close_after_answers()

    def reload_nowait(self, trigger: Trigger, done: Callable[[], None] = lambda: None) -> None:
        """Start a reload; `done` is called after it unless the gateway stops first."""
        reloader = self.reloader
        if reloader is None:
            logger.warning("reload ignored: the configuration comes from no file")
            done()
            return

        async def work() -> None:
            try:
                await reloader.reload(trigger)
            finally:
                if not self._is_stopping:
                    done()

        self._background.start("reload", work)

    def _audit_configuration(self, examined: Examined, report: ReloadReport | None = None) -> None:
        fields: dict[str, object] = {"hash": examined.text_hash, "agents": len(self._config.agents)}
        if report is not None:
            fields |= {
                "trigger": report.trigger.value,
                "changes": [str(each) for each in report.changed[:_MOST_CHANGES]],
            }
        self._audit.write(AuditEvent.CONFIGURATION_CHANGED, fields)

    async def stop(self, at_once: asyncio.Event, *, delay: float | None = None) -> None:
        """Drain and close.

        Readiness goes false, connections are accepted for `delay` seconds more, open calls get the drain timeout, and
        the streams that are left end with a final event. Time since an earlier `drain` counts towards the delay.

        Args:
            at_once: Ends every wait when it is set.
            delay: Seconds; None for `gateway.drain.delay`.
        """
        self._is_stopping = True
        drained = time.monotonic() - self.drains_since if self.draining else 0.0
        self._begin_draining()
        drain = self._config.gateway.drain
        if delay is None:
            delay = effective.drain_delay(self._config)
        if delay > drained:
            await wait_within(at_once, delay - drained)
        self.listeners.stop_accepting()
        if self.pipeline.open:
            logger.info("draining: up to %.0f s for %d open calls", drain.timeout, self.pipeline.open)
        await _until(lambda: not self.pipeline.open, at_once, drain.timeout)
        ended = self.pipeline.interrupt(lambda: Draining("the gateway is shutting down", retry_after=1.0))
        if ended:
            logger.warning("drain timeout: ended %d open calls", ended)
            await _until(lambda: not self.pipeline.open, asyncio.Event(), _FINAL_EVENTS)
        await self._close()
        logger.info("stopped")

    async def _close(self) -> None:
        self.recent.close()
        await self.listeners.aclose()
        await self._background.aclose()
        await self.draining_snapshots.aclose()
        if self._snapshot is not None:
            await self._snapshot.aclose()
        if self._push is not None:
            self._push.close()
        if self.ledger is not None:
            await self.ledger.aclose()
        await asyncio.to_thread(self.access.close)
        await asyncio.to_thread(self._audit.close)

    async def _open_ledger(self, config: Config, marks: Marks) -> tuple[TaskLedger | None, SharedRates | None]:
        """Return the ledger, if the configuration needs one, and the shared rate limits, if its store is shared.

        Raises:
            StartFailed: The store cannot be opened.
        """
        if not effective.keeps_state(config):
            return None, None
        place = self._state or effective.state(config, marks, os.environ, Path.cwd())
        kept = config.gateway.ledger
        bounds = Bounds(ended=int(kept.ended), open=int(kept.open), tasks=kept.tasks, contexts=kept.contexts)
        metrics = self.metrics
        try:
            if place.kind == "sqlite" and self._state is None and config.gateway.state is None:
                # Only the gateway creates the default directory.
                with suppress(OSError):
                    place.path.parent.mkdir(mode=0o700, exist_ok=True)
            store = self._open_store(place)
            observed = counted(
                store,
                lambda name: metrics.state_operations.share((name,)),
                lambda name, seconds: metrics.state_duration.of((name,)).observe(seconds),
            )
            ledger = TaskLedger(observed, bounds)
            try:
                await ledger.open()
            except BaseException:
                await ledger.aclose()
                raise
        except StoreBroken as error:
            raise StartFailed(f"{marks.place(('gateway', 'state'))}: {error}") from error
        return ledger, _shared_rates(store) if place.is_shared else None

    def _open_push(self) -> PushService:
        return PushService(
            push_settings(self._config.push),
            self.public_url,
            None if self.ledger is None else self.ledger.store,
            observe=self._observe_notification,
            count=lambda *labels: self.metrics.push_deliveries.add(labels),
            entitled=self._entitled,
            audit=self._audit.write,
            resolver=self._resolver,
        )

    def _entitled(self, subscription: Subscription) -> bool:
        """Return whether the owner may still call the agent, by the configuration in force."""
        return self.snapshot.entitles(subscription.owner, subscription.scope, time.time())  # noqa: TID251 - keys end at a date

    async def _observe_notification(self, subscription: Subscription, seen: Progress) -> bool:
        """Record the task of a notification; return whether the owner may still receive it."""
        backend = self.snapshot.backends.get(subscription.scope)
        if backend is None or backend.isolation is None or not self._entitled(subscription):
            return False
        return await backend.isolation.observe_notification(subscription.owner, seen)

    @property
    def state_trouble(self) -> str:
        """Return the reason why the ledger cannot be used, for operators; empty if it can be."""
        return "" if self.ledger is None else self.ledger.store.trouble

    def _samples(self) -> Iterable[Sample]:
        yield Sample(
            "log_dropped_total",
            "Lines of the access log and of the audit log that were not written.",
            (),
            (((), self.access.dropped + self._audit.dropped),),
        )
        yield from self._overload.samples()
        if self._snapshot is None or self._push is None:
            return
        yield from self._snapshot.samples()
        opened = {} if self.ledger is None else self.ledger.open_tasks
        agents, tenants = Counter[str](), Counter[str]()
        for (tenant, scope), count in opened.items():
            agent, _ = read_backend_key(scope)
            agents[agent if agent in self._config.agents else NO_AGENT] += count
            tenants[tenant] += count
        yield Sample(
            "tasks_open",
            "Tasks that have not ended, of all gateways that share the store. Series: agents.",
            ("agent",),
            tuple(((agent,), float(count)) for agent, count in agents.items()),
        )
        yield from self.pipeline.admission.samples(self._snapshot.labelled, tenants)
        yield from self._push.samples(self._config.agents)
        ends = self._snapshot.credential_ends()
        if self._push.key_expires is not None:
            ends["signing_key", "notifications"] = self._push.key_expires
        yield Sample(
            "credential_expiry_timestamp_seconds",
            "When a credential expires, in Unix seconds. Series: API keys with an end (api_key), certificates of the "
            "gateway for clients and for agents (tls, agent_tls), 2 signing keys (signing_key).",
            ("kind", "name"),
            tuple(ends.items()),
        )

    def _set_overloaded(self, short: bool) -> None:  # noqa: FBT001 - a callback of `Overload`
        logger.warning("open files: %s", "near the limit, new calls are refused" if short else "below the limit again")
        self.listeners.set_overloaded(short)


def push_settings(written: Push) -> PushSettings:
    """Return the settings of push notifications."""
    deliver = written.deliver
    return PushSettings(
        mode=written.mode,
        allow=written.allow,
        block_private=written.block_private_networks,
        max_per_task=written.max_per_task,
        sign=written.sign,
        quota=NotificationQuota(written.max_per_tenant, deliver.max_waiting, deliver.max_waiting_bytes),
        retries=DeliveryRetryPolicy(**{name: getattr(deliver, name) for name in DeliveryRetryPolicy.__struct_fields__}),
    )


# ---- Logs ----------------------------------------------------------------------------------------------------------


def _open_access(config: Config, marks: Marks, output: BinaryIO) -> AccessLog:
    """Return the access log.

    Args:
        output: Standard output; workers share theirs.

    Raises:
        StartFailed: Its file cannot be written.
    """
    written, path = config.observe.log, effective.access_log(config, marks)
    if path is not None:
        file = _opened(RotatedFile, path, "access", ("observe", "log", "file"), marks)
        output = cast("BinaryIO", file)  # It is only written to.
    return AccessLog(output, form=form_of(written.format, output), streams=written.streams)


def _open_audit(config: Config, marks: Marks, output: BinaryIO) -> AuditLog:
    """Return the audit log; as `_open_access`."""
    path = effective.audit(config, marks)
    if path is None or path == effective.STANDARD_OUTPUT:
        return AuditLog(None if path is None else output)
    return _opened(AuditLog.open, path, "audit", ("observe", "audit"), marks, instead="; - is standard output")


def _opened(
    open_file: Callable[[Path], T], path: Path, log_name: str, at: KeyPath, marks: Marks, *, instead: str = ""
) -> T:
    try:
        return open_file(path)
    except OSError as error:
        fact = f"the {log_name} log {path} cannot be written: {error.strerror}"
        remedy = f"let the gateway write there, or name a file where it may{instead}"
        raise StartFailed(Problem(marks.place(at), at, fact, remedy).as_text()) from error


def _shared_rates(store: Store) -> SharedRates | None:
    """Return the rate limits that gateways share through the Redis of their ledger."""
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - redis-py is loaded only if it is used

    return SharedRates(store.client, store.client.address.named) if isinstance(store, RedisStore) else None


# ---- Waiting -------------------------------------------------------------------------------------------------------


async def wait_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _until(done: Callable[[], bool], at_once: asyncio.Event, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and not at_once.is_set() and time.monotonic() < deadline:
        await wait_within(at_once, 0.05)
