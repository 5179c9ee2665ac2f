"""`deploy/venv` makes an environment once, whatever Python is at hand, and never leaves half of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "deploy/venv"

# A Python that says it has another version, and makes environments and installs packages in no time.
PYTHON = """\
#!/bin/sh
case "$1 ${{2:-}}" in
  "-V ") echo "Python {version}" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/pyvenv.cfg" && echo made >>"{log}" ;;
  "-m pip") {install} ;;
  *) exec {real} -I -S "$@" ;;
esac
"""


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Shell:
    """A shell with one Python in its path, and what that was asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.environment = folder / "site/.venv-run"
        self.lock = folder / "requirements.lock"
        self.lock.write_text("one==1\n")
        self.python("3.12.1")

    def python(self, version: str, name: str = "python3", install: str = ":") -> Path:
        """Put a Python into the path, in place of the one of that name."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        # Another file, as `mv` would make: a shell may still read the old one.
        path.unlink(missing_ok=True)
        path.write_text(PYTHON.format(version=version, log=self.log, real=sys.executable, install=install))
        path.chmod(0o755)
        return path

    @property
    def made(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.environment.parent.iterdir()}

    def start(self, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", str(SCRIPT), str(self.environment), str(self.lock)],
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell in the background ignores the signal, and its children would, too.
            preexec_fn=heed_interrupts,  # noqa: PLW1509 - there are no threads here
        )

    def run(self, code: int = 0, **environ: str) -> str:
        process = self.start(**environ)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors
        if code == 0:
            assert out == f"{self.environment}/bin/python\n"
        else:
            assert out == ""
        return errors


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_an_environment_is_made_once(shell: Shell) -> None:
    assert "Making" in shell.run()
    assert shell.run() == ""
    assert shell.made == 1
    assert shell.left == {".venv-run"}


def test_another_lock_file_makes_another_environment(shell: Shell) -> None:
    shell.run()
    shell.lock.write_text("one==2\n")
    shell.run()
    assert shell.made == 2
    assert shell.left == {".venv-run"}


def test_a_failed_install_keeps_the_former_environment(shell: Shell) -> None:
    shell.python("3.12.1", install="echo no network >&2; exit 1")
    assert "no network" in shell.run(1)
    assert shell.left == set()
    shell.python("3.12.1")
    shell.run()
    shell.lock.write_text("one==2\n")
    shell.python("3.12.1", install="exit 1")
    assert "could not be installed" in shell.run(1)
    assert shell.left == {".venv-run"}
    shell.lock.write_text("one==1\n")
    assert shell.run() == ""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_install_leaves_no_partial_environment(shell: Shell, ending: signal.Signals) -> None:
    arrived = shell.folder / "arrived"
    os.mkfifo(arrived)
    shell.python("3.12.1", install=f'echo here >"{arrived}"; exec sleep 60')
    with shell.start() as process:
        assert arrived.read_text() == "here\n"
        os.killpg(process.pid, ending)
        process.communicate(timeout=120)
    assert process.returncode != 0
    assert ".venv-run" not in shell.left
    assert shell.left == set() or ending is signal.SIGKILL
    shell.python("3.12.1")
    shell.run()
    assert shell.left == {".venv-run"}


def test_foreign_environments_are_left_alone(shell: Shell) -> None:
    shell.environment.mkdir(parents=True)
    (shell.environment / "pyvenv.cfg").write_text("mine\n")
    assert "move it away" in shell.run(1)
    assert (shell.environment / "pyvenv.cfg").read_text() == "mine\n"
