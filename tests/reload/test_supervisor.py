"""The supervisor's actions about its workers; `e2e/test_workers.py` tests that they serve."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.config.load import Examined
from gateway.reload import ConfigurationOrigin, ReloadReport, ReloadResult, Trigger
from gateway.telemetry.log_output import SharedStream
from gateway.workers import Worker, Workers, supervise
from tests.support.alone import alone

FILE = """\
version: 1
gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }
agents: { idle: "http://127.0.0.1:1" }
"""
ONE = FILE.replace("idle", "one")
MEMORY = FILE.replace("{ listen", "{ state: memory, listen")
GUARDED = (
    FILE.replace("127.0.0.1:0", "0.0.0.0:0", 1).replace("{ listen", '{ public_url: "http://127.0.0.1:1", listen')
    + 'auth: { api_keys: { one: { sha256: "'
    + "0" * 64
    + '", tenant: acme } } }\ntenants: { acme: {} }\n'
)


@pytest.fixture
def origin(tmp_path: Path) -> ConfigurationOrigin:
    (tmp_path / "gateway.yaml").write_text(FILE)
    return ConfigurationOrigin(tmp_path / "gateway.yaml", {})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.workers.AGAIN", 0.0)


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, action in before.items():
        signal.signal(number, action)


def supervised(origin: ConfigurationOrigin, work: "Work") -> int:
    workers = Workers(origin.read(), origin, 2, work)
    work.before_any = time.monotonic()
    workers.run()
    return workers.exit_code


class Work:
    """The first worker does as `begin` says, the second one serves, and the third one, in place of the first, ends all.

    Attributes:
        started_with: Holds the names of the agents that the third one had.
        was_told: Is there if the second one was told to reload.
        before_any: A moment before the first one was started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started_with = folder / "agents"
        self.was_told = folder / "told"
        self.before_any = 0.0

    def __call__(self, examined: Examined, worker: Worker, _output: SharedStream) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        number = self._number()
        if number == 1:
            return self.begin(worker)
        worker.ready()
        (self._folder / "serving").touch()
        if number == 3:
            assert examined.config is not None
            self.started_with.write_text(" ".join(examined.config.agents))
            os.kill(os.getppid(), signal.SIGTERM)
        signal.sigwait({signal.SIGTERM})
        if signal.SIGHUP in signal.sigpending():
            self.was_told.touch()
        return 0

    def begin(self, worker: Worker) -> int:
        worker.ready()
        while not (self._folder / "serving").exists():
            time.sleep(0.01)
        return 7

    def _number(self) -> int:
        for number in range(1, 4):
            with suppress(FileExistsError):
                (self._folder / str(number)).touch(exist_ok=False)
                return number
        raise AssertionError("there are more workers than were asked for")


@alone
def test_a_worker_that_ends_is_replaced(
    origin: ConfigurationOrigin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert supervised(origin, Work(tmp_path)) == 0
    assert "exit code 7) and is replaced" in caplog.text


@alone
def test_a_worker_that_cannot_start_ends_all_with_its_exit_code(origin: ConfigurationOrigin, tmp_path: Path) -> None:
    class Fails(Work):
        def begin(self, worker: Worker) -> int:
            return 3

    assert supervised(origin, Fails(tmp_path)) == 3


@alone
def test_a_worker_that_answers_no_pings_is_killed_and_replaced(
    origin: ConfigurationOrigin, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hangs(Work):
        def begin(self, worker: Worker) -> int:
            worker.ready()
            signal.pause()
            return 0

    monkeypatch.setattr("gateway.workers.HANGS_AFTER", 1)
    assert supervised(origin, Hangs(tmp_path)) == 0
    assert "answered no ping" in caplog.text
    assert "exit code -9) and is replaced" in caplog.text


@alone
def test_a_worker_that_starts_hears_no_sighup_until_it_can(origin: ConfigurationOrigin, tmp_path: Path) -> None:
    class AskedEarly(Work):
        def begin(self, worker: Worker) -> int:
            os.kill(os.getpid(), signal.SIGHUP)
            return super().begin(worker) if signal.SIGHUP in signal.sigpending() else 3

    assert supervised(origin, AskedEarly(tmp_path)) == 0


LATER = {
    "applied": (FILE, ONE, "one"),
    "broken": (FILE, "version: 2\n", "idle"),
    "the address stays": (FILE, ONE.replace("127.0.0.1:0", "127.0.0.2:0", 1), "one"),
    "gRPC waits": (FILE, ONE.replace("{ listen", '{ listen_grpc: "127.0.0.1:0", listen'), "one"),
    "open to all at the address that stays": (GUARDED, ONE, "idle"),
    "memory": (FILE, MEMORY.replace("idle", "one") + "defaults: { isolation: tenant }\n", "idle"),
    "stdio": (FILE, ONE.replace('"http://127.0.0.1:1"', "{ backend: { stdio: [cat] } }"), "idle"),
}
"""The first configuration, what it is replaced by, and the agent that a worker has which starts afterwards."""


@alone
def test_a_worker_that_starts_later_begins_with_what_the_others_can_serve(
    origin: ConfigurationOrigin, tmp_path: Path
) -> None:
    class Reloads(Work):
        later = ""

        def begin(self, worker: Worker) -> int:
            origin.path.write_text(self.later)
            worker.reloaded(ReloadReport(Trigger.WATCH, ReloadResult.APPLIED, 0.0, "hash", began=self.before_any))
            return super().begin(worker)

    for name, (first, later, agents) in LATER.items():
        folder = tmp_path / name
        folder.mkdir()
        origin.path.write_text(first)
        work = Reloads(folder)
        work.later = later
        assert supervised(origin, work) == 0, name
        assert work.started_with.read_text() == agents, name
        # It was started after the reload began.
        assert work.was_told.exists() == (agents == "one"), name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            FILE.replace('"http://127.0.0.1:1"', "{ backend: { stdio: [cat] } }"),
            ["agents.idle.backend: 2 workers would each start this command", "serve with one worker"],
        ),
        (
            MEMORY + "defaults: { isolation: tenant }\n",
            ["gateway.state: 2 workers would each keep a ledger of their own", "sqlite:///PATH"],
        ),
    ],
)
def test_a_configuration_that_several_workers_cannot_serve_is_refused(
    origin: ConfigurationOrigin, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: list[str]
) -> None:
    origin.path.write_text(text)
    assert supervise(origin.read(), origin, 2, Work(tmp_path)) == 1
    found = capsys.readouterr().err
    assert all(each in found for each in told)
