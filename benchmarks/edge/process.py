"""Processes that a run starts: each in a group of its own, stopped in the end, and asked what it has used.

CPU is what the kernel has booked for a process and its children (each one's CPU-time clock, in nanoseconds), never wall
time, so that a busy machine moves the figures little. Memory is the resident set of the same processes.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_WITHIN = 20.0
_STOP_WITHIN = 5.0
# Of the clocks of a process, that which counts what the scheduler gave it: Linux' CPUCLOCK_SCHED.
_SCHEDULED = 2


class NotStarted(Exception):  # noqa: N818 - says what happened, as subprocess.TimeoutExpired does
    """A process ended, or did not listen in time."""


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs, with its children."""

    name: str
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that it and its children have used so far."""
        return sum(map(_used, _family(self.pid)))

    def resident(self) -> int:
        """Bytes of memory that it and its children hold now; pages that they share count once for each."""
        return sum(map(_resident, _family(self.pid)))


@contextmanager
def started(
    name: str,
    command: Sequence[object],
    *,
    folder: Path,
    ports: Sequence[int],
    environ: Mapping[str, str] | None = None,
    told: str | None = None,
) -> Iterator[Process]:
    """Start a process, wait until it listens on all `ports`, and stop it in the end.

    Args:
        folder: Where it runs, and where NAME.out and NAME.err go.
        environ: Variables beside those of this process.
        told: Text on standard error that shows that it has started.

    Raises:
        NotStarted: with the end of what it wrote on standard error.
    """
    errors = folder / f"{name}.err"
    with (folder / f"{name}.out").open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START_WITHIN

        def wait(true: Callable[[], bool]) -> None:
            while not true():
                if child.poll() is not None or time.monotonic() > deadline:
                    raise NotStarted(f"{name} did not start: {errors.read_text(errors='replace')[-2000:].strip()}")
                time.sleep(0.02)

        for port in ports:
            wait(lambda port=port: _listens(port))  # type: ignore[misc]  # a lambda with a default
        wait(lambda: told is None or told in errors.read_text(errors="replace"))
        yield Process(name, child.pid)
    finally:
        _stop(child)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def open_files(wanted: int) -> int:
    """Let this process, and those that it starts from now on, have `wanted` open files; how many the system grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_WITHIN)
    # The rest of the group, such as a worker whose master died first.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def _family(pid: int) -> list[int]:
    """The ids of a process and all below it."""
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold anything; what comes behind it is proc(5) from field 3 on.
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    found = [pid]
    for known in found:  # grows while it is walked
        found.extend(child for child, parent in parents.items() if parent == known)
    return [known for known in found if known in parents]


def _used(pid: int) -> float:
    """Seconds of CPU of one process, with those of its threads that have ended."""
    with contextlib.suppress(OSError):
        # As clock_getcpuclockid(3) makes it, which Python does not have.
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    return 0.0


def family(pid: int) -> list[float]:
    """Seconds of CPU of a process, and of each one below it."""
    return [_used(each) for each in _family(pid)]


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
