"""Reload the configuration while the gateway serves.

    watch    watchfiles reports changes in the folders of the files; their contents are also compared from time to time
    load     the file, its includes and references are read and checked in a thread
    reject   a configuration with errors or failing routing tests changes nothing
    swap     a new snapshot is built beside the active one and swapped in (`app.Gateway.use`)

Reloads run one at a time. Each result is logged, counted, and shown at `/-/config`.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from watchfiles import awatch

from gateway.background import FILE_TIMEOUT, FileWork
from gateway.config.check import examine, examine_again, files, named, stamped
from gateway.config.checks.gateway import check_workers
from gateway.config.diff import Change, Sort, Waiting, changes, until_restart
from gateway.config.files import NOTHING, any_matches, stamp_of
from gateway.config.load import Examined
from gateway.config.model import Config, Reload
from gateway.config.problem import Problem, as_json, spell
from gateway.telemetry.metrics import GatewayMetrics

_MOST_LOGGED = 20
"""Changes that one reload logs."""
_TICK = 5.0
"""Longest time between two ticks of the watcher, in seconds."""
_DEBOUNCE_MS = 1000
"""Milliseconds of changes that count as one, because a file is written in several steps."""
_STEP_MS = 100
"""Milliseconds between two checks for changes; each check wakes an idle process."""

logger = logging.getLogger("gateway.reload")


class Trigger(StrEnum):
    """The cause of a reload; a label of its metric."""

    SIGNAL = "signal"
    ADMIN = "admin"
    WATCH = "watch"
    POLL = "poll"


class ReloadResult(StrEnum):
    """The result of a reload; a label of its metric."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class Unusable(Exception):  # noqa: N818 - operators read the text
    """A configuration without errors cannot be activated in this process; the text has the reason.

    Attributes:
        problems: Problems with a place in a file.
    """

    def __init__(self, why: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(why)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ConfigurationOrigin:
    """The source of a configuration.

    Attributes:
        path: The main file.
        environ: The environment for `${VAR}`.
    """

    path: Path
    environ: Mapping[str, str]

    def read(self) -> Examined:
        """Read and check the file."""
        return stamped(examine(self.path, self.environ))


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The outcome of one reload.

    Attributes:
        at: Unix seconds of its end.
        why: Reason of the rejection, in one sentence; empty otherwise.
        problems: Errors by place, or the warnings of an accepted configuration.
        waiting: Settings that take effect after a restart.
        changed: Differences to the configuration before.
        took: Seconds from the first byte read to the swap or the rejection.
        swap: Seconds of the swap.
        began: Monotonic seconds of its begin.
    """

    trigger: Trigger
    result: ReloadResult
    at: float
    text_hash: str
    why: str = ""
    problems: tuple[Problem, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    changed: tuple[Change, ...] = ()
    took: float = 0.0
    swap: float = 0.0
    began: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "result": self.result.value,
            "trigger": self.trigger.value,
            "at": self.at,
            "hash": self.text_hash,
            "error": self.why or None,
            "problems": as_json(self.problems),
            "needs_restart": [each.as_json() for each in self.waiting],
            "changes": [each.as_json() for each in self.changed],
            "took_s": round(self.took, 3),
            "swap_s": round(self.swap, 4),
        }


class Reloader:
    """Reloads a configuration.

    Args:
        use: Activates a configuration; returns the settings that take effect after a restart, and the seconds of the
            swap, during which the event loop serves nothing else. Raises `Unusable`.
        running: Returns the active configuration.
        applied: Called after a configuration was activated.
        reported: Called after each reload.
        wall: Returns Unix seconds.

    Attributes:
        last: The report of the last reload; None before the first.
        waiting: Settings that take effect after a restart.
        read_last: Files of the last reload, missing ones included.
        stamps: Their stamps; None before the first reload.
        unmatched: Patterns of `include:` without a match in the last reload.
    """

    def __init__(
        self,
        origin: ConfigurationOrigin,
        use: Callable[[Examined], Awaitable[tuple[tuple[Waiting, ...], float]]],
        running: Callable[[], Examined],
        metrics: GatewayMetrics,
        *,
        applied: Callable[[Examined, ReloadReport], None] = lambda _examined, _report: None,
        reported: Callable[[ReloadReport], None] | None = None,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - read by people
    ) -> None:
        self.origin = origin
        self.last: ReloadReport | None = None
        self.waiting: tuple[Waiting, ...] = ()
        self._use = use
        self._running = running
        self._metrics = metrics
        self._applied = applied
        self._reported = reported
        self._wall = wall
        self._one = asyncio.Lock()
        self.read_last: tuple[Path, ...] = ()
        self.stamps: Mapping[Path, bytes] | None = None
        self.unmatched: tuple[str, ...] = ()
        self._files = FileWork()
        for trigger in Trigger:
            for result in ReloadResult:
                metrics.reloads.set((result.value, trigger.value), 0)

    async def reload(self, trigger: Trigger) -> ReloadReport:
        """Read the configuration, and activate it if it is valid."""
        async with self._one:
            began = time.monotonic()
            try:
                report = await self._reload(trigger, began)
            except TimeoutError:
                why = f"reading its files took longer than {FILE_TIMEOUT:.0f} s: a disk that does not answer, or a pipe"
                report = self._report(trigger, began, ReloadResult.REFUSED, self._running(), why=why)
            except Exception as error:
                # A defect must not end the watcher: the next reload may succeed.
                logger.exception("reload failed")
                why = f"reload failed: {type(error).__name__}: {error}"
                report = self._report(trigger, began, ReloadResult.REFUSED, self._running(), why=why)
            self._log(report)
            if self._reported is not None:
                self._reported(report)
            return report

    async def watch(self, written: Callable[[], Reload]) -> None:
        """Reload when a file of the configuration has changed, until cancelled.

        Folders are watched, not files: editors and ConfigMaps replace a file, or a link to a folder. The contents
        decide; a file that was written again with the same contents has not changed. Network file systems report no
        changes, so the contents are also compared every `poll` seconds.

        Args:
            written: Returns `gateway.reload` of the running configuration.
        """
        while True:
            folders = await asyncio.to_thread(self._folders)
            compared = -math.inf
            poll = written().poll
            tick = poll / math.ceil(poll / _TICK) if poll else _TICK
            async with aclosing(_ticks(folders if written().watch else (), tick)) as ticks:
                async for has_news in ticks:
                    poll, now = written().poll, time.monotonic()
                    # The first tick compares too: files may have changed before the folders were watched.
                    is_due = not has_news and poll > 0 and now - compared >= poll
                    if not (has_news or is_due or compared == -math.inf):
                        continue
                    compared = now
                    if await asyncio.to_thread(self._has_changed):
                        await self.reload(Trigger.POLL if is_due else Trigger.WATCH)
                    if has_news or await asyncio.to_thread(self._folders) != folders:
                        # A watched folder may have been replaced, or the set of files may have changed.
                        break

    def _watched(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*files(self._running()), *self.read_last)))

    def _folders(self) -> tuple[Path, ...]:
        """Return the folders in which a change may change the configuration; of missing ones, the nearest parent."""
        folders: dict[Path, None] = {}
        for file in self._watched():
            path = file.absolute()
            links = (each for each in (path, *path.parents) if each.is_symlink())
            for folder in (path.parent, path.resolve().parent, *(link.parent for link in links)):
                folders[next(each for each in (folder, *folder.parents) if each.is_dir())] = None
        return tuple(folders)

    def _has_changed(self) -> bool:
        """Return whether a file has changed since it was read, or a failed `include:` would now succeed."""
        stamps = self._running().stamps if self.stamps is None else self.stamps
        if any(stamp_of(file) != stamps.get(file, NOTHING) for file in self._watched()):
            return True
        return any_matches(self.unmatched, self.origin.path.parent)

    def _report(
        self,
        trigger: Trigger,
        began: float,
        result: ReloadResult,
        examined: Examined,
        **more: Any,  # noqa: ANN401 - fields
    ) -> ReloadReport:
        took = time.monotonic() - began
        return ReloadReport(trigger, result, self._wall(), examined.text_hash, took=took, began=began, **more)

    async def _reload(self, trigger: Trigger, began: float) -> ReloadReport:
        report = partial(self._report, trigger, began)
        examined = await self._files.run(self.origin.read)
        self.read_last, self.stamps = (*examined.files, *examined.stamps), examined.stamps
        self.unmatched = examined.unmatched
        if examined.config is None:
            return report(ReloadResult.REFUSED, examined, why="the file has errors", problems=examined.errors)
        if examined.failed:
            why = "the configuration fails its own routing tests"
            return report(ReloadResult.REFUSED, examined, why=why, problems=examined.failed)
        before = self._running()
        try:
            self.waiting, swap = await self._use(examined)
        except Unusable as error:
            return report(ReloadResult.REFUSED, examined, why=str(error), problems=error.problems)
        text_hash = before.text_hash
        changed = await asyncio.to_thread(_changes, before, replace(examined, config=self._running().config))
        result = ReloadResult.APPLIED if changed or text_hash != examined.text_hash else ReloadResult.UNCHANGED
        done = report(result, examined, problems=examined.problems, waiting=self.waiting, changed=changed, swap=swap)
        if result is ReloadResult.APPLIED:
            self._applied(examined, done)
        return done

    def _log(self, report: ReloadReport) -> None:
        self.last = report
        metrics = self._metrics
        metrics.reloads.add((report.result.value, report.trigger.value))
        good = report.result is not ReloadResult.REFUSED
        metrics.reload_ok.set((), int(good))
        if not good:
            logger.error(
                "New configuration rejected; the previous one stays active: %s", report.why,
                extra={"trigger": report.trigger.value, "hash": report.text_hash},
            )  # fmt: skip
            for problem in report.problems:
                place = problem.place
                logger.error(
                    "%s:%d:%d  %s: %s → %s",
                    place.file, place.line, place.column, spell(problem.path), problem.fact, problem.remedy,
                )  # fmt: skip
            return
        metrics.reload_time.set((), report.at)
        logger.info(
            "configuration reloaded: %d changes", len(report.changed),
            extra={"trigger": report.trigger.value, "hash": report.text_hash},
        )  # fmt: skip
        for change in report.changed[:_MOST_LOGGED]:
            logger.info("%s", change)
        for waiting in report.waiting:
            logger.warning("%s", waiting)
        if report.result is ReloadResult.APPLIED:
            for problem in report.problems[:_MOST_LOGGED]:
                logger.warning("%s: %s", problem.place, problem.fact)


def usable(
    running: Config, examined: Examined, *, has_store: bool, processes: int = 1
) -> tuple[Examined, tuple[Waiting, ...]]:
    """Return the configuration to activate, with settings kept that need a restart, and the list of these.

    Args:
        running: The active configuration.
        examined: The new one, without errors.
        has_store: As `until_restart`.
        processes: Number of workers.

    Raises:
        Unusable: With the kept settings it has errors, or several workers cannot serve it.
    """
    if examined.config is None:
        raise Unusable("it has errors", examined.errors)
    config, waiting = until_restart(running, examined.config, examined.marks, has_store=has_store)
    if waiting:
        examined = examine_again(examined, config)
        if examined.config is None:
            raise Unusable(
                "it has errors together with settings that only a restart changes: restart the gateway", examined.errors
            )
    problems = check_workers(config, examined.marks, processes)
    if problems:
        raise Unusable(f"{processes} workers cannot serve it", problems)
    return examined, waiting


def _changes(old: Examined, now: Examined) -> tuple[Change, ...]:
    """Return the differences of two configurations, changed certificates and cards included."""
    if old.config is None or now.config is None:
        return ()
    kept = named(old)
    replaced = (
        Change(Sort.CHANGED, path)
        for path, file in named(now).items()
        if kept.get(path) == file and file in old.stamps and old.stamps[file] != now.stamps.get(file)
    )
    return (*changes(old.config, now.config), *replaced)


async def _ticks(folders: tuple[Path, ...], every: float) -> AsyncGenerator[bool, None]:
    """Yield True after a change in one of the folders, and False after each `every` seconds without one.

    If the system cannot watch (too many watches, no inotify), it logs that and yields False only.
    """
    if folders:
        try:
            watching = awatch(
                *folders,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                rust_timeout=max(int(every * 1000), 1),
                yield_on_timeout=True,
                recursive=False,
            )
            async with aclosing(watching):
                async for changes in watching:
                    yield bool(changes)
        except (OSError, RuntimeError) as error:
            logger.warning("configuration files cannot be watched, they are compared periodically: %s", error)
    while True:
        await asyncio.sleep(every)
        yield False
