"""Stands between the gateway and an agent on stdio, so that nothing of the agent outlives either of the two.

A program of its own, started by the gateway as `python -I -S stdio_supervisor.py FD UID MEMORY CPU FILES COMMAND…`. The
agent inherits standard input, output and error; nothing that it says comes through here. Over the socket FD goes:

    gateway → supervisor   `T` terminate the agent's group, `K` kill all that there is; its end: the gateway is gone
    supervisor → gateway   `started PID`, `failed ERRNO` or, at the end, `exited STATUS` (negative for a signal)

The agent leads a process group. Where the system has it, this process is the one that orphans below it fall to, so that
also those are found that left the group. When the agent exits, what it left behind is killed. When the gateway is gone
without a word, the agent gets half a second after SIGTERM. When this process is killed, the agent is, by the system,
and its group by the gateway; what left the group then stays.

It imports nothing but the standard library, and little of that: each agent pays for one.
"""

import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import sys
from time import monotonic

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE = 0.5
_SWEEP_EVERY = 0.02
_LONGEST_SWEEP = 2.0


def main(words: list[str]) -> int:
    """Run a command until it or the gateway ends."""
    control = int(words[0])
    uid, memory, cpu, files = (int(word) for word in words[1:5])
    os.set_inheritable(control, False)
    wake, awake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever signals the gateway's children at large means the gateway; it says here what is to be done.
        signal.signal(number, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    agent = _start(
        words[5:], uid, ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_NOFILE, files))
    )
    if isinstance(agent, OSError):
        _tell(control, f"failed {agent.errno}")
        return 1
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        # Their other ends must see the agent's end, not this process's.
        os.dup2(nothing, descriptor)
    _tell(control, f"started {agent}")
    status = _watch(agent, control, wake)
    _tell(control, f"exited {status}")
    return 0


def _start(command: list[str], uid: int, limits: tuple[tuple[int, int], ...]) -> int | OSError:
    """The process of the agent, or why there is none."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    supervisor = os.getpid()
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    group = _group_of(uid) if uid >= 0 else 0
    agent = os.fork()
    if agent == 0:
        try:
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            for limit, most in limits:
                if most:
                    _, hard = resource.getrlimit(limit)
                    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
                    resource.setrlimit(limit, (bound, bound))
            if uid >= 0:
                os.setgroups([])
                os.setgid(group)
                os.setuid(uid)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)
            _execute(command, path)
        except OSError as error:
            os.write(writing, str(error.errno or 0).encode())
        except BaseException:  # noqa: BLE001 - silence would be told as a start
            os.write(writing, b"0")
        finally:
            os._exit(127)
    os.close(writing)
    with contextlib.suppress(OSError):
        # Both sides say it: whichever comes first, the group is there when a signal is sent to it.
        os.setpgid(agent, agent)
    said = os.read(reading, 16)
    os.close(reading)
    if not said:
        return agent
    os.waitpid(agent, 0)
    return OSError(int(said), "")


def _execute(command: list[str], path: list[str]) -> None:
    """Become a command, found as a shell finds it.

    Not with `os.execvp`, which imports on its way: the user that this process has become need not be able to read the
    library of the Python that runs it, one below /root say.
    """
    program = command[0]
    if "/" in program:
        os.execv(program, command)  # noqa: S606 - no shell is meant
    hidden: OSError | None = None
    missing = OSError(errno.ENOENT, "")
    for folder in path:
        try:
            os.execv(f"{folder or '.'}/{program}", command)  # noqa: S606 - no shell is meant
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            # It may be readable further on; if not, that one is there is more than that none is.
            hidden = error
    raise hidden or missing


def _group_of(uid: int) -> int:
    import pwd  # noqa: PLC0415 - only where it is asked for

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _watch(agent: int, control: int, wake: int) -> int:
    """Do what the gateway says until the agent has exited; how it exited."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(deadline - monotonic(), 0) * 1000
        ready = {descriptor for descriptor, _ in poll.poll(left)}
        exited = False
        if wake in ready:
            os.read(wake, 512)
            exited = _reap(agent)
        if control in ready:
            said = _hear(control)
            if not said:
                # The gateway is gone, and can say nothing more.
                poll.unregister(control)
                deadline = monotonic() + _GRACE
            if not said or b"T" in said:
                _signal(agent, signal.SIGTERM)
            if b"K" in said:
                deadline = monotonic()
        if exited or (deadline is not None and monotonic() >= deadline):
            return _sweep(agent)


def _hear(control: int) -> bytes:
    try:
        return os.read(control, 64)
    except OSError:
        return b""


def _reap(agent: int) -> bool:
    """Bury orphans; whether the agent has exited. It is not buried yet: nobody else has its number until it is."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid == agent:
                return True
            os.waitpid(dead.si_pid, 0)
    return False


def _sweep(agent: int) -> int:
    """Kill all that there is below this process, and bury it; how the agent exited."""
    found = -signal.SIGKILL
    until = monotonic() + _LONGEST_SWEEP
    _signal(agent, signal.SIGKILL)
    while monotonic() < until:
        for child in _children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == agent:
            found = os.waitstatus_to_exitcode(status)
        elif pid == 0:
            select.select((), (), (), _SWEEP_EVERY)
    return found


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def _tell(control: int, words: str) -> None:
    with contextlib.suppress(OSError):
        os.write(control, words.encode() + b"\n")


def _prctl(option: int, value: int) -> None:
    """Linux alone has it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
