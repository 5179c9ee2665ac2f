"""What a parent does about its workers; that they serve is in `e2e/test_workers.py`."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.check import Examined
from gateway.opening import Worker
from gateway.reload import Origin
from gateway.supervisor import Supervisor, supervise
from gateway.telemetry.shared_stream import SharedStream

# The parent has no threads; the process of the tests has.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

FILE = 'version: 1\ngateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }\nagents: {}\n'


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    file = tmp_path / "gateway.yaml"
    file.write_text(FILE)
    return Origin(file, {})


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    # What was sent and nobody waited for any more.
    while signal.sigtimedwait(numbers, 0) is not None:
        continue
    for number, action in before.items():
        signal.signal(number, action)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def waits(_examined: Examined, worker: Worker, _output: SharedStream) -> int:
    """Be ready, and end with the first SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    worker.ready()
    signal.sigwait({signal.SIGTERM})
    return 0


def test_workers_that_cannot_start_end_it_with_their_exit_code(origin: Origin) -> None:
    def fails(_examined: Examined, _worker: Worker, _output: SharedStream) -> int:
        return 3

    assert Supervisor(origin.read(), origin, 2, fails).run() == 3


def test_it_ends_well_when_all_have(origin: Origin) -> None:
    parent = os.getpid()
    supervisor = Supervisor(origin.read(), origin, 2, waits)
    folder = supervisor._folder
    original = supervisor._listen
    told: list[bool] = []

    def listen() -> None:
        original()
        if supervisor._ready >= 2 and not supervisor._stopping and not told:
            told.append(True)
            os.kill(parent, signal.SIGTERM)

    supervisor._listen = listen  # type: ignore[method-assign]  # to know when
    assert supervisor.run() == 0
    assert not folder.exists()
    assert supervisor._alive == {}


def test_who_starts_next_begins_with_what_was_good_last(origin: Origin) -> None:
    supervisor = Supervisor(origin.read(), origin, 1, waits)
    origin.path.write_text(FILE.replace("agents: {}", "agents: { one: 'http://127.0.0.1:1' }"))
    supervisor._read_again()
    origin.path.write_text("version: 2\n")
    supervisor._read_again()
    assert supervisor._examined.config is not None
    assert list(supervisor._examined.config.agents) == ["one"]


def test_several_that_remember_for_themselves_are_refused(origin: Origin, capsys: pytest.CaptureFixture[str]) -> None:
    origin.path.write_text(FILE.replace("agents: {}", "agents: {}\ndefaults: { isolation: tenant }\n") + "\n")
    origin.path.write_text(origin.path.read_text().replace("agents: {}", "agents: { one: 'http://127.0.0.1:1' }"))
    assert supervise(origin.read(), origin, 2, waits) == 1
    assert "redis://" in capsys.readouterr().err
