"""The supervisor: nothing of an agent outlives it or whoever started it."""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.upstream import stdio_supervisor

WAIT = 20.0


class Supervised:
    """A command behind the supervisor, and the test in the gateway's place."""

    def __init__(self, *command: str, uid: int = -1, files: int = 0) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(WAIT)
        bounds = [str(each) for each in (uid, 0, 0, files)]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", stdio_supervisor.__file__, str(theirs.fileno()), *bounds, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._lines = self.control.makefile("rb")

    def said(self) -> list[str]:
        """The next line."""
        return self._lines.readline().decode().split()

    def printed(self) -> str:
        """The next line of the command."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def close(self) -> None:
        self._lines.close()
        self.control.close()


@contextmanager
def supervised(*command: str, **bounds: int) -> Iterator[Supervised]:
    found = Supervised(*command, **bounds)
    try:
        yield found
    finally:
        found.close()
        found.process.wait(WAIT)
        for stream in (found.process.stdin, found.process.stdout):
            assert stream is not None
            stream.close()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_tells_who_was_started_and_how_that_ended() -> None:
    with supervised("sh", "-c", "exit 3") as one:
        word, pid = one.said()
        assert word == "started"
        assert int(pid) > 0
        assert one.said() == ["exited", "3"]


def test_it_tells_why_nothing_was_started() -> None:
    with supervised("/no/such/program") as one:
        assert one.said() == ["failed", "2"]
    with supervised("/etc/passwd") as one:
        assert one.said() == ["failed", "13"]


def test_a_signal_goes_to_the_whole_group_of_the_agent() -> None:
    with supervised("sh", "-c", "sleep 1000 & echo $!; wait") as one:
        one.said()
        child = int(one.printed())
        one.control.send(b"T")
        assert one.said() == ["exited", "-15"]
        one.process.wait(WAIT)
        assert not runs(child)


def test_who_ignores_a_signal_is_killed_when_that_is_said() -> None:
    with supervised("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done") as one:
        one.said()
        assert one.printed() == "up"
        one.control.send(b"T")
        one.control.send(b"K")
        assert one.said() == ["exited", "-9"]


@pytest.mark.parametrize("script", ["sleep 1000 & echo $!; exit 0", "setsid sleep 1000 & sleep 0.2; echo $!; exit 0"])
def test_what_an_agent_leaves_behind_is_ended_wherever_it_went(script: str) -> None:
    with supervised("sh", "-c", script) as one:
        one.said()
        child = int(one.printed())
        assert one.said() == ["exited", "0"]
        one.process.wait(WAIT)
        assert not runs(child)


def test_a_gateway_that_is_gone_takes_the_agent_with_it_however_stubborn() -> None:
    with supervised("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done") as one:
        one.said()
        agent = int(one.printed())
        one.close()
        one.process.wait(WAIT)
        assert not runs(agent)


def test_a_supervisor_that_is_killed_takes_the_agent_with_it() -> None:
    with supervised("sh", "-c", "echo $$; while :; do sleep 1; done") as one:
        one.said()
        agent = int(one.printed())
        ended = os.pidfd_open(agent)
        one.process.kill()
        one.process.wait(WAIT)
        assert one.said() == []
        # The pipe ends with its last holder.
        assert one.process.stdout is not None
        assert one.process.stdout.read() == b""
        # A process closes its files before it counts as ended.
        assert select.select([ended], [], [], WAIT)[0]
        os.close(ended)
        assert not runs(agent)


def test_the_agent_leads_a_group_has_its_signals_and_no_descriptor_but_the_pipes() -> None:
    program = "import os, signal; print(os.getpgid(0) == os.getpid(), signal.getsignal(signal.SIGTERM).name,"
    program += " sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4])"
    with supervised(sys.executable, "-I", "-S", "-c", program) as one:
        one.said()
        # The folder itself is the fourth.
        assert one.printed() == "True SIG_DFL [0, 1, 2, 3]"


def test_bounds_hold_for_the_agent() -> None:
    with supervised("sh", "-c", "ulimit -n", files=40) as one:
        one.said()
        assert one.printed() == "40"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_agent_runs_as_the_user_that_is_said() -> None:
    # A number of nobody's: the system counts the processes of a user, wherever on the machine they are.
    with supervised("sh", "-c", "id -u; id -G", uid=64_973) as one:
        assert one.said()[0] == "started"
        assert one.printed() == "64973"
        assert "0" not in one.printed().split()


def test_a_user_who_cannot_read_pythons_library_can_run_an_agent() -> None:
    """Between the fork and the command nothing is imported: Python may live below /root."""
    guarded = """
import os, runpy, sys
own = os.getpid()
sys.addaudithook(lambda event, _: event == "import" and os.getpid() != own and os.write(1, b"imports "))
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    for command in (["sh", "-c", "echo up"], ["/bin/sh", "-c", "echo up"], ["no-such-program"]):
        control, theirs = socket.socketpair()
        uid = "64973" if os.geteuid() == 0 else "-1"
        with control, theirs:
            words = [stdio_supervisor.__file__, str(theirs.fileno()), uid, "0", "0", "0", *command]
            ran = subprocess.run(
                [sys.executable, "-I", "-S", "-c", guarded, *words],
                stdout=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                timeout=WAIT,
                check=False,
            )
            theirs.close()
            assert ran.stdout == (b"" if command == ["no-such-program"] else b"up\n")
            said = control.recv(100).split()
            assert said[:1] == ([b"failed"] if command == ["no-such-program"] else [b"started"])


def test_a_command_is_found_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("closed", "open"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "open" / "agent").chmod(0o755)
    closed, opened = str(tmp_path / "closed"), str(tmp_path / "open")
    for path, found in (
        ([closed, opened], "started"),
        (["/no/such/folder", "/etc/passwd", opened], "started"),
        ([closed], f"failed {errno.EACCES}"),
        (["/no/such/folder"], f"failed {errno.ENOENT}"),
    ):
        monkeypatch.setenv("PATH", ":".join(path))
        with supervised("agent") as one:
            assert " ".join(one.said()).startswith(found)
            if found == "started":
                assert one.printed() == "found"


def test_signals_for_the_gateways_children_at_large_do_not_reach_the_supervisor() -> None:
    with supervised("sh", "-c", "read line; echo $line") as one:
        one.said()
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        assert one.process.stdin is not None
        one.process.stdin.write(b"still here\n")
        one.process.stdin.flush()
        assert one.printed() == "still here"
