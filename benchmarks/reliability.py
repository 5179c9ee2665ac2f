"""The table of faults: what is done to a gateway process, what has to come of it, and what came of it here.

    python -m benchmarks.reliability [--write] [ROW ...]

A row is kept by tests, which tell its figure; this runs them, those marked long as well, and puts the figures beside
the targets. Loopback only, bounded, all files are temporary. Exits with 1 where a test failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.edge.contestant import ROOT
from benchmarks.page import machine

PAGE = ROOT / "docs/reliability.md"
OVER = " (over the target)"
_WITHIN = 1200.0
"""Seconds that all of it may take."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        fault: The fault.
        target: The expected behaviour.
        told: The tests that tell a figure, as pytest names them; each name stands for all its parameters.
        kept: Other tests that keep the row, by file, in words or cases that need no process.
    """

    name: str
    fault: str
    target: str
    told: tuple[str, ...]
    kept: tuple[str, ...] = ()


@dataclass(slots=True)
class Found:
    """The results of the tests of one row."""

    figures: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


_AGENTS = "tests/e2e/test_agent_faults.py::"
_ISSUERS = "tests/e2e/test_issuer_faults.py::"
_AROUND = "tests/e2e/test_surroundings.py::"
_CLIENTS = "tests/e2e/test_slow_clients.py::"

ROWS = (
    Row(
        "R1",
        "an agent refuses connections",
        "`upstream_connect` in < 100 ms, and at most two repeats; others' p99 unchanged",
        (_AGENTS + "test_r1_an_agent_that_refuses_is_told_at_once_and_costs_others_nothing",),
        ("tests/replicas/test_retry.py",),
    ),
    Row(
        "R2",
        "it accepts, and resets or closes without a byte",
        "`upstream_reset` in < 100 ms; sent once; again only what may be repeated",
        (_AGENTS + "test_r2_an_agent_that_leaves_without_a_byte_is_told_at_once_and_asked_once",),
        ("tests/replicas/test_retry.py", "tests/wire/test_idempotency.py"),
    ),
    Row(
        "R3",
        "it hangs before or inside the head of its answer",
        "`upstream_timeout` at the limit ± 0.5 s; the place is free, the connection closed",
        (_AGENTS + "test_r3_an_agent_that_hangs_in_its_head_is_given_up_in_time",),
        (),
    ),
    Row(
        "R4",
        "it hangs or dies in a body",
        "a fault where nothing was told yet; else a cut, never a clean end",
        (_AGENTS + "test_r4_an_agent_that_hangs_or_dies_in_a_body_is_reported_at_any_point",),
        (),
    ),
    Row(
        "R5",
        "it dies in a stream",
        "one error event with the request id, then the end; the client subscribes again",
        (_AGENTS + "test_r5_a_stream_that_dies_says_so_and_the_client_resumes",),
        ("tests/streams/test_stream.py",),
    ),
    Row(
        "R6",
        "it drips a byte every 10 ms",
        "passes; the idle limit counts silence",
        (_AGENTS + "test_r6_a_slow_drip_passes_for_only_silence_counts",),
        (),
    ),
    Row(
        "R7",
        "wrong lengths, garbage, 101, floods of 1xx, heads without end, second answers",
        "a fault; the connection never used again; ≤ 32 MiB of growth",
        (_AGENTS + "test_r7_no_answer_that_lies_passes_and_none_costs_much",),
        ("tests/wire/test_hostile_agents.py", "tests/wire/test_hostile_memory.py"),
    ),
    Row(
        "R8",
        "it answers 5xx or 429",
        "passed on unchanged; counted against it are 502, 503, 504, failed connects and resets",
        (_AGENTS + "test_r8_an_agents_own_errors_pass_unchanged",),
        ("tests/upstream/test_circuit_breaker.py", "tests/replicas/test_balanced_calls.py"),
    ),
    Row(
        "R9",
        "two replicas on the official SDK, each with its own tasks, are restarted by turns under load",
        "0 repeatable calls failed, 0 messages executed twice, at most one failed send per send on its way at a kill",
        (
            "tests/e2e/test_replicas.py::test_r9_replicas_are_restarted_one_after_the_other_and_nothing_repeatable_fails",
            "tests/e2e/test_replicas.py::test_r9_for_a_minute",
        ),
    ),
    Row(
        "R10",
        "DNS says another address",
        "new calls use it within 30 s; what is left of the old one is drained",
        (_AROUND + "test_r10_another_address_of_a_name_is_used_soon",),
        ("tests/replicas/test_dns.py", "tests/upstream/test_connection_pool.py"),
    ),
    Row(
        "R11",
        "clients leave in the middle of a call or a stream",
        "the agent's connection closed ≤ 200 ms later, the worst of ten; 200 of 200 gone after 2 s; no task cancelled",
        (_AGENTS + "test_r11_the_agents_connection_closes_when_the_client_leaves",),
        ("tests/wire/test_leaving_clients.py",),
    ),
    Row(
        "R12",
        "SIGTERM with 200 open streams",
        "unready at once; streams end with an error event; exit code 0; a second signal ends it now",
        ("tests/e2e/test_draining.py::test_every_client_sees_whole_events_a_last_one_and_a_clean_end",),
        ("tests/e2e/test_lifecycle.py", "tests/reload/test_app_stopping.py"),
    ),
    Row(
        "R13",
        "20 reloads, good and broken, under 10,000 calls and 200 streams or more",
        "0 failed, 0 cut; swap ≤ 50 ms with 1,000 agents; the loop never late by > 50 ms",
        (
            "tests/e2e/test_reload.py::test_twenty_reloads_under_ten_thousand_calls_and_two_hundred_streams",
            "tests/e2e/test_reload.py::test_the_process_itself_keeps_nobody_waiting_while_it_reads_a_thousand_agents",
        ),
        (
            "tests/reload/test_reloading.py",
            "tests/reload/test_draining_snapshots.py",
            "tests/reload/test_reload_watch.py",
        ),
    ),
    Row(
        "R14",
        "SIGKILL for one of two workers",
        "the other serves; only the calls of the dead one are lost; another in its place in < 1 s",
        ("tests/e2e/test_workers.py::test_a_killed_worker_is_replaced_and_its_counts_stay",),
        ("tests/reload/test_supervisor.py",),
    ),
    Row(
        "R15",
        "an issuer is down when the gateway starts",
        "it starts; its tokens get 503, others are served; asked again until it answers",
        (_ISSUERS + "test_r15_an_issuer_that_is_down_at_the_start_takes_nobody_elses_service",),
        ("tests/identity/test_edge_keys.py",),
    ),
    Row(
        "R16",
        "an issuer fails, talks garbage or hangs later",
        "known keys serve for 24 h; verifying never waits: p99 unchanged",
        (_ISSUERS + "test_r16_an_issuer_that_fails_later_costs_nobody_anything",),
        ("tests/identity/test_edge_keys.py", "tests/identity/test_jwks.py"),
    ),
    Row(
        "R17",
        "Redis is killed, frozen or full",
        "limits go on by themselves within 50 ms, tasks are refused, not opened; back within 1 s",
        (_AROUND + "test_r17_without_redis_limits_go_on_and_tasks_are_refused",),
        ("tests/tasks/test_redis_outage.py", "tests/policy/test_shared.py"),
    ),
    Row(
        "R18",
        "the disk of the log is full, or nobody reads its pipe",
        "calls go on, lines are dropped and counted, the loop never blocks",
        (_AROUND + "test_r18_a_log_that_nobody_takes_costs_lines_and_no_calls",),
        ("tests/telemetry/test_sink.py",),
    ),
    Row(
        "R19",
        "open files run out",
        "calls refused in words, health and metrics answered; recovers < 1 s after",
        ("tests/e2e/test_overload.py::test_idle_connections_that_use_up_the_open_files_cost_no_health_and_no_metrics",),
        ("tests/limits/test_overload.py",),
    ),
    Row(
        "R20",
        "memory runs out",
        "≤ 256 KiB a stream; at 80 % no stream is begun, at 90 % no call",
        ("tests/e2e/test_overload.py::test_r20_a_stream_holds_little_and_none_is_begun_where_memory_ends",),
        ("tests/limits/test_overload.py", "tests/wire/test_hostile_memory.py"),
    ),
    Row(
        "R21",
        "the wall clock is set by minutes and hours",
        "timers do not notice; good sessions outlive 60 s; a warning",
        (_ISSUERS + "test_r21_a_wall_clock_that_is_set_ends_no_session_and_moves_no_timer",),
        ("tests/identity/test_clock.py",),
    ),
    Row(
        "R22",
        "packets to an agent vanish",
        "noticed: 15 s where something is sent, 30 s where nothing is; connecting takes 3 s a try",
        ("tests/e2e/test_partition.py::test_r22_a_line_that_breaks_without_a_word_is_noticed",),
        ("tests/upstream/test_connection.py",),
    ),
    Row(
        "R23",
        "clients read nothing of their streams",
        "64 KiB wait in the buffer of each; cut after the limit, and the agent left",
        (_CLIENTS + "test_r23_a_stream_that_nobody_reads_costs_little_and_ends",),
        ("tests/listener/test_slowness.py",),
    ),
    Row(
        "R24",
        "heads and bodies that stop coming, or drip",
        "408 at the limit: 10 s for a head, 30 s of silence in a body, 1 KiB/s after 10 s",
        (
            _CLIENTS + "test_r24_requests_that_stop_coming_are_refused_in_time",
            _CLIENTS + "test_r24_a_body_that_drips_is_refused_once_its_rate_counts",
        ),
        ("tests/listener/test_slowness.py",),
    ),
    Row(
        "R25",
        "2,000 idle connections",
        "a good call takes < 1 s",
        (_CLIENTS + "test_r25_idle_connections_by_the_thousand_do_not_matter",),
        ("tests/listener/test_slowness.py",),
    ),
    Row(
        "R26",
        "calls, heavy bodies and bursts of unknown tokens at once",
        "the loop is late by < 20 ms at p99",
        ("tests/e2e/test_loop_lag.py::test_r26_no_input_blocks_the_event_loop",),
        ("tests/identity/test_throttle.py",),
    ),
)


def main() -> int:
    chosen = _options()
    rows = [row for row in ROWS if not chosen.row or row.name in chosen.row]
    with tempfile.TemporaryDirectory(prefix="benchmark-reliability-") as folder:
        report = Path(folder, "report.xml")
        nodes = [node for row in rows for node in row.told]
        options = ["-q", "-o", "junit_logging=system-out", f"--junitxml={report}", "-p", "no:cacheprovider"]
        sys.stderr.write(f"{len(rows)} rows, some minutes\n")
        load = os.getloadavg()[1]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *nodes],
            cwd=ROOT,
            stdout=sys.stderr,
            timeout=_WITHIN,
            check=False,
        )
        if not report.exists():
            return done.returncode or 1
        found = read(rows, report)
    sys.stdout.write(table(rows, found))
    if chosen.write:
        # Other load of the machine shows in every figure that is a time.
        after = os.getloadavg()[1]
        on = f"{machine('uvloop')}. Its load, over five minutes, was {load:.1f} before and {after:.1f} after."
        PAGE.write_text(page(rows, found, on, datetime.now().astimezone().date()))
    return done.returncode


def read(rows: Iterable[Row], report: Path) -> Mapping[str, Found]:
    """Return the results of each row, out of pytest's report."""
    rows = tuple(rows)
    found = {row.name: Found() for row in rows}
    for case in ET.parse(report).iter("testcase"):
        file, test = case.get("classname", "").replace(".", "/") + ".py", case.get("name", "")
        node = f"{file}::{test.partition('[')[0]}"
        for row in rows:
            if node not in row.told:
                continue
            at = found[row.name]
            if case.find("failure") is not None or case.find("error") is not None:
                at.failed.append(test)
            elif (left_out := case.find("skipped")) is not None:
                at.skipped.append(left_out.get("message", ""))
            for line in (case.findtext("system-out") or "").splitlines():
                name, colon, text = line.partition(": ")
                if colon and name in (row.name, row.name + OVER):
                    at.figures.append(text + ("**, over the target**" if name.endswith(OVER) else ""))
    return found


def table(rows: Sequence[Row], found: Mapping[str, Found]) -> str:
    """The rows as Markdown."""
    lines = ["| | what is done | target | here | kept by |", "|---|---|---|---|---|"]
    for row in rows:
        at = found[row.name]
        told = [*at.figures, *(f"**FAILED: {test}**" for test in at.failed), *(f"not run: {why}" for why in at.skipped)]
        files = dict.fromkeys([*(node.partition("::")[0] for node in row.told), *row.kept])
        kept = " ".join(f"[`{Path(file).stem}`](../{file})" for file in files)
        lines.append(f"| {row.name} | {row.fault} | {row.target} | {'<br>'.join(told) or '**no figure**'} | {kept} |")
    return "\n".join(lines) + "\n"


def page(rows: Sequence[Row], found: Mapping[str, Found], on: str, today: date) -> str:
    """The whole page."""
    return _PAGE.format(table=table(rows, found), machine=on, date=today.isoformat())


_PAGE = """\
# Reliability

What is done to a gateway, what has to come of it, and what came of it in one run. Everything here is written by
`python -m benchmarks.reliability --write`.

Taken on {date}, with {machine}

The gateway is a process as an operator runs it, its agents and clients are others on the same machine, and they share
its processors: a figure is what a client saw, not what the gateway cost. Limits that are 10 s or more by default are
set to less where a row would take long; the figure says so.

{table}
A row is kept by the first of its files with a figure, by the others in more cases and without a process. Tests that
take longer than ten seconds are run by `tests/long`, all others with every check. R10 and R22 change `/etc/hosts` and a
network of their own (`unshare`), and are left out where the system does not allow that; R17 needs a `redis-server`.

```
python -m benchmarks.reliability R5 R22     # some rows
python -m benchmarks.reliability --write    # this page
```
"""


def _options() -> argparse.Namespace:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reliability", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("row", nargs="*", metavar="ROW", help=f"{names[0]} to {names[-1]}; all of them")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} anew")
    chosen = parser.parse_args()
    if unknown := set(chosen.row) - set(names):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if chosen.write and chosen.row:
        parser.error("--write needs the whole run: without ROW")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
