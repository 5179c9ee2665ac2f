"""The composition root: a configuration becomes listeners that serve it, until another takes its place or the end."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from gateway.a2a.card import CardInvalid
from gateway.a2a.command import NoCommand
from gateway.a2a.fault import Draining
from gateway.a2a.progress import Progress
from gateway.admission import quotas_of
from gateway.background import FILE_TIMEOUT, Background, FileWork
from gateway.config import effective
from gateway.config.check import Examined
from gateway.config.model import Config
from gateway.config.state import StateUrl
from gateway.config.yaml import Marks
from gateway.draining import OutgoingSnapshots
from gateway.listener.admin import admin_app
from gateway.listener.asgi import AsgiListener
from gateway.listener.callback import Callbacks
from gateway.listener.server import ListenFailed
from gateway.listeners import Listeners
from gateway.opening import StartFailed, open_audit, open_ledger
from gateway.origin import is_trusted
from gateway.policy.limits import Limits
from gateway.policy.shared import SharedRates
from gateway.pressure import Pressure
from gateway.proxy import Line
from gateway.push.service import PushService
from gateway.push.ssrf import Resolver
from gateway.push.subscription import Subscription
from gateway.reload import Origin, Reloader, Report, Trigger, Unusable, Used, usable
from gateway.snapshot import Snapshot
from gateway.tasks.ledger import Ledger
from gateway.telemetry.access import AccessLog
from gateway.telemetry.audit import AuditLog, Event
from gateway.telemetry.lag import watch_lag
from gateway.telemetry.metrics import Metrics, Sample
from gateway.version import package_version
from gateway.webhooks import Webhooks
from gateway.workers import Worker

_LAST_WORDS = 1.0
_WARM = 3.0
"""Seconds for which a new configuration waits for cards and keys of its own before it is put to use."""
_MOST_TOLD = 100

logger = logging.getLogger("gateway")


class Gateway:
    """One gateway: listeners, a snapshot, and what they report to.

    Args:
        examined: A configuration without errors.
        access_stream: Where the access log goes, or None for nowhere but `AccessLog`'s own count.
        state: Where the ledger is kept, instead of where the configuration says.
        resolver: Looks up the hosts of webhooks, instead of the system.
        origin: Where the configuration comes from, to be read again; None for what cannot be.
        worker: Which worker this process is; None in a gateway of one process.
        over_http: As `Listeners`.
    """

    def __init__(
        self,
        examined: Examined,
        *,
        access_stream: BinaryIO,
        state: StateUrl | None = None,
        resolver: Resolver | None = None,
        origin: Origin | None = None,
        worker: Worker | None = None,
        over_http: bool = True,
    ) -> None:
        if examined.config is None:
            raise ValueError("the configuration has problems")
        self._examined = examined
        self._config: Config = examined.config
        self._background = Background()
        self._worker = worker
        self._processes = 1 if worker is None else worker.processes
        self.metrics = Metrics(package_version(), self._samples, None if worker is None else worker.metrics)
        self.access = AccessLog(access_stream, form=self._config.observe.log.format)
        self.started = False
        self.draining = False
        self.public_url = ""
        self._address = ""
        self.admin_url = ""
        self.grpc_address = ""
        self._snapshot: Snapshot | None = None
        self._state = state
        self._resolver = resolver
        self._ledger: Ledger | None = None
        self._push: PushService | None = None
        self._output = access_stream
        self._audit = AuditLog()
        self._limits = Limits(on_hit=self._count_hit)
        self._pressure = Pressure(
            lambda: self._config.gateway.memory_limit,
            processes=self._processes,
            changed=self._press,
        )
        self._line = Line(
            lambda: self.snapshot,
            self.access,
            self._count_auth,
            self._audited,
            limits=self._limits,
            pressure=self._pressure,
        )
        self._listeners = Listeners(
            {} if worker is None else worker.sockets,
            self._line,
            ready=self._takes_calls,
            trouble=lambda: self.state_trouble,
            shares=self._is_proxy,
            over_http=over_http,
        )
        self._outgoing = OutgoingSnapshots(self._background, self.metrics.sweep)
        self._files = FileWork()
        self.reloader: Reloader | None = None
        if origin is not None:
            self.reloader = Reloader(
                origin,
                self.use,
                lambda: self._examined,
                self.metrics,
                applied=self._audit_configuration,
                told=None if worker is None else worker.reloaded,
            )

    @property
    def asgi(self) -> AsgiListener:
        """Return the listener that serves what an ASGI server has read.

        Raises:
            RuntimeError: the gateway serves clients over HTTP itself, or was not started.
        """
        if self._listeners.asgi is None:
            raise RuntimeError("not served by an ASGI server")
        return self._listeners.asgi

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
        self._audit = open_audit(self._config, self._examined.marks, self._output)
        self._ledger, rates = await self._open_ledger(self._config, self._examined.marks)
        self._limits.share(rates)
        written = self._config.gateway
        token = None if written.admin.token is None else written.admin.token.get_secret_value()
        pages = admin_app(self, token, self._audit_admin)
        callbacks = Callbacks(lambda: self._push, lambda: self.snapshot, self.access)
        await self._listeners.open(self._config, self._examined.marks, pages, callbacks)
        self._address = f"{'http' if written.tls is None else 'https'}://{self._listeners.address}"
        self.public_url = written.public_url or self._address
        self.admin_url = f"http://{self._listeners.admin_address}" if self._listeners.admin_address else ""
        self.grpc_address = self._listeners.grpc_address
        self._push = self._open_push()
        self._snapshot = await asyncio.to_thread(self._build, self._examined, None)
        self._push.trust(self._snapshot.webhook_tls)
        self._line.admission.processes = self._processes
        self._line.admission.configure(self._config)
        self._snapshot.open(self._background)
        if self._ledger is not None:
            self._background.start("ledger", self._ledger.run)
        self._background.start("push notifications", self._push.run)
        await self._listeners.start(self._background)
        self._background.start("loop lag", partial(watch_lag, self.metrics))
        self._background.start("pressure", self._pressure.run)
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
        self._listeners.tell_health()
        over_grpc = f", gRPC on {self.grpc_address}" if self.grpc_address else ""
        logger.info("serving %s, admin on %s%s", self.public_url, self.admin_url or "no address", over_grpc)

    def _build(self, examined: Examined, before: Snapshot | None, ledger: Ledger | None = None) -> Snapshot:
        assert examined.config is not None
        assert self._push is not None
        written = examined.config.gateway
        return Snapshot.build(
            examined,
            self.metrics,
            written.public_url or self._address,
            written.public_grpc or self.grpc_address,
            ledger=ledger or self._ledger,
            webhooks=Webhooks(self._push.policy_of(examined.config.push), self._push.relay),
            before=before,
        )

    async def use(self, examined: Examined) -> Used:
        """Put another configuration to use.

        It is built beside the one that runs, its cards and keys are read, and then it is swapped in, in one step of
        the loop: each call is served wholly by one of the two. Nothing of the old one is closed before the last of its
        calls is over.

        Args:
            examined: A configuration without errors.

        Raises:
            Unusable: it cannot be put to use; everything is as it was.
        """
        if examined.config is None or self._snapshot is None or self._push is None or self.draining:
            raise Unusable("the gateway is shutting down" if self.draining else "the gateway has not started")
        before = self._snapshot
        examined, waiting = await asyncio.to_thread(
            partial(
                usable,
                self._config,
                examined,
                has_store=self._ledger is not None,
                processes=self._processes,
            )
        )
        config = examined.config
        assert config is not None
        ledger, rates = self._ledger, None
        try:
            certificates = await self._files.run(self._listeners.certificates, config, examined.marks)
            quotas = await asyncio.to_thread(quotas_of, config)
            if ledger is None:
                ledger, rates = await self._open_ledger(config, examined.marks)
            snapshot = await self._beside(examined, before, ledger)
        except BaseException as error:
            if ledger is not None and self._ledger is None:
                await ledger.aclose()
            if isinstance(error, TimeoutError):
                files = "its certificates and cards"
                why = f"{files} were not read within {FILE_TIMEOUT:.0f} s: a disk that does not answer, or a pipe"
                raise Unusable(why) from error
            if isinstance(error, OSError | CardInvalid | NoCommand | ListenFailed | StartFailed):
                raise Unusable(str(error)) from error
            raise
        # From here on nothing is waited for.
        began = time.perf_counter()
        self._snapshot, self._examined, self._config = snapshot, examined, config
        self.public_url = config.gateway.public_url or self._address
        self._line.admission.configure(config, quotas)
        self._push.change(config.push)
        self._push.trust(snapshot.webhook_tls)
        if ledger is not None and self._ledger is None:
            self._ledger = ledger
            self._limits.share(rates)
            self._background.start("ledger", ledger.run)
        before.holdings.part(snapshot.holdings)
        snapshot.holdings.enter()
        self._outgoing.drain(before)
        swap = time.perf_counter() - began
        await self._listeners.renew(certificates, config)
        if ended := await self._line.reconsider():
            logger.warning("ended %d streams of callers that may not have them any more", ended)
        return Used(waiting, swap)

    async def _beside(self, examined: Examined, before: Snapshot, ledger: Ledger | None) -> Snapshot:
        """A configuration that is ready to be used beside the one that is."""
        snapshot = await self._files.run(self._build, examined, before, ledger)
        ready = False
        try:
            snapshot.open(self._background)
            with suppress(TimeoutError):
                async with asyncio.timeout(_WARM):
                    await snapshot.settled()
            ready = not self.draining
        finally:
            if not ready:
                snapshot.holdings.part(before.holdings)
                snapshot.holdings.rest()
                await snapshot.aclose()
        if not ready:
            raise Unusable("the gateway is shutting down")
        return snapshot

    async def reload_others(self) -> dict[str, Any]:
        """Have the other workers reload; return what each made of it, and how many did not answer in time."""
        return {} if self._worker is None else await self._worker.reload_others()

    def reload_nowait(self, trigger: Trigger, done: Callable[[], None] = lambda: None) -> None:
        """Have the configuration read again, soon; `done` is called afterwards, unless the gateway ends before."""
        reloader = self.reloader
        if reloader is None:
            logger.warning("this configuration comes from no file: there is nothing to read again")
            done()
            return

        async def work() -> None:
            try:
                await reloader.reload(trigger)
            finally:
                if not self.draining:
                    done()

        self._background.start("reading the configuration again", work)

    def _audit_configuration(self, examined: Examined, report: Report | None = None) -> None:
        fields: dict[str, object] = {"hash": examined.text_hash, "agents": len(self._config.agents)}
        if report is not None:
            fields |= {"trigger": report.trigger.value, "changes": [str(each) for each in report.changed[:_MOST_TOLD]]}
        self._audit.write(Event.CONFIGURATION_CHANGED, fields)

    async def stop(self, hurry: asyncio.Event, *, delay: float | None = None) -> None:
        """Drain and close: not ready at once, accept for `delay` more, let calls end, end streams with a last event.

        Args:
            hurry: When set, nothing is waited for any more.
            delay: Seconds; None for what the configuration says.
        """
        self.draining = True
        self._listeners.tell_health()
        self.metrics.draining.set((), 1)
        drain = self._config.gateway.drain
        if delay is None:
            delay = effective.drain_delay(self._config)
        self._listeners.wind_down()
        if delay > 0:
            await _within(hurry, delay)
        self._listeners.stop_accepting()
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
        await self._listeners.aclose()
        await self._background.aclose()
        await self._outgoing.aclose()
        if self._snapshot is not None:
            await self._snapshot.aclose()
        if self._push is not None:
            self._push.close()
        if self._ledger is not None:
            await self._ledger.aclose()
        await asyncio.to_thread(self.access.close)
        await asyncio.to_thread(self._audit.close)

    async def _open_ledger(self, config: Config, marks: Marks) -> tuple[Ledger | None, SharedRates | None]:
        return await open_ledger(config, marks, self._state_counts, state=self._state)

    def _open_push(self) -> PushService:
        return PushService(
            self._config.push,
            self.public_url,
            None if self._ledger is None else self._ledger.store,
            observe=self._observe_notification,
            count=self._count_delivery,
            entitled=self._entitled,
            audit=self._audit.write,
            resolver=self._resolver,
        )

    def _entitled(self, subscription: Subscription) -> bool:
        """Return whether the owner may still call the agent, by the configuration in force."""
        return self.snapshot.entitles(subscription.owner, subscription.scope, time.time())  # noqa: TID251 - keys end at a date

    async def _observe_notification(self, subscription: Subscription, told: Progress) -> bool:
        """Record what a notification names; return whether its task is the owner's, who may still be told."""
        backing = self.snapshot.backings.get(subscription.scope)
        if backing is None or backing.isolation is None or not self._entitled(subscription):
            return False
        return await backing.isolation.observe_notification(subscription.owner, told)

    def _count_delivery(self, agent: str, result: str) -> None:
        self.metrics.push_deliveries.add((agent, result))

    def _audit_admin(self, fields: Mapping[str, object]) -> None:
        self._audit.write(Event.ADMIN_CALLED, fields)

    def _audited(self, event: Event, line: Mapping[str, object]) -> None:
        self._audit.call(event, line)

    @property
    def state_trouble(self) -> str:
        """Return the reason why the ledger cannot be used, for operators; empty where none is known."""
        return "" if self._ledger is None else self._ledger.store.condition.trouble

    def _takes_calls(self) -> bool:
        return self.started and not self.draining and not self.state_trouble

    def _is_proxy(self, address: str) -> bool:
        return is_trusted(address, self.snapshot.trusted)

    def _samples(self) -> Iterable[Sample]:
        yield Sample(
            "log_dropped_total",
            "Lines of the access log and of the audit log that were not written.",
            (),
            (((), self.access.dropped + self._audit.dropped),),
        )
        yield from self._pressure.samples()
        if self._snapshot is not None:
            yield from self._snapshot.samples()

    def _press(self, short: bool) -> None:  # noqa: FBT001 - as `Pressure` tells it
        logger.warning("open files are %s", "running out: no call is begun" if short else "enough again")
        self._listeners.press(short)

    def _count_hit(self, limit: str, scope: str, name: str) -> None:
        self.metrics.limit_hits.add((limit, scope, name))

    def _state_counts(self, operation: str) -> dict[str, float]:
        return self.metrics.state_operations.share((operation,))

    def _count_auth(self, method: str, issuer: str, result: str) -> None:
        self.metrics.auth.add((method, issuer, result))


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
