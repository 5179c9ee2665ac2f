"""What a parent does about its workers; that they serve is in `e2e/test_workers.py`."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.check import Examined
from gateway.config.state import read_state
from gateway.opening import Worker
from gateway.reload import Origin
from gateway.supervisor import Supervisor, supervise
from gateway.telemetry.shared_stream import SharedStream
from tests.doubles.alone import alone

IDLE = 'agents: { idle: "http://127.0.0.1:1" }'
FILE = 'version: 1\ngateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }\n' + IDLE + "\n"
MEMORY = FILE.replace("{ listen", "{ state: memory, listen")


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


@alone
def test_workers_that_cannot_start_end_it_with_their_exit_code(origin: Origin) -> None:
    def fails(_examined: Examined, _worker: Worker, _output: SharedStream) -> int:
        return 3

    assert Supervisor(origin.read(), origin, 2, fails).run() == 3


@alone
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


@alone
def test_it_goes_on_and_ends_well_without_a_place_for_figures(origin: Origin, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor(origin.read(), origin, 2, waits)
    original = supervisor._listen
    killed: list[int] = []

    def listen() -> None:
        original()
        if supervisor._ready == 2 and not killed:
            # As who cleans a folder of temporary files does.
            shutil.rmtree(supervisor._folder)
            killed.append(next(iter(supervisor._alive)))
            os.kill(killed[0], signal.SIGKILL)
        if supervisor._ready == 3 and not supervisor._stopping:
            assert killed[0] not in supervisor._alive
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor._listen = listen  # type: ignore[method-assign]  # to know when
    assert supervisor.run() == 0
    assert "the figures of the workers cannot be kept" in caplog.text


@alone
def test_one_that_stands_still_is_killed_and_replaced(
    origin: Origin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.supervisor.LOOK", 0.01)
    first = True

    def beats(examined: Examined, worker: Worker, output: SharedStream) -> int:
        # The first has given one sign and gives no other, and the next one never has any.
        if first:
            worker.beat()
        return waits(examined, worker, output)

    supervisor = Supervisor(origin.read(), origin, 1, beats)
    original = supervisor._listen

    def listen() -> None:
        nonlocal first
        original()
        first = False
        if supervisor._ready == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor._listen = listen  # type: ignore[method-assign]  # to know when
    assert supervisor.run() == 0
    assert "has given no sign of life" in caplog.text
    assert "exit code -9), another takes its place" in caplog.text


@alone
def test_a_worker_that_starts_hears_no_sighup_until_it_can(origin: Origin) -> None:
    def asked_early(examined: Examined, worker: Worker, output: SharedStream) -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        if signal.SIGHUP not in signal.sigpending():
            return 3
        return waits(examined, worker, output)

    supervisor = Supervisor(origin.read(), origin, 2, asked_early)
    original = supervisor._listen

    def listen() -> None:
        original()
        if supervisor._ready == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor._listen = listen  # type: ignore[method-assign]  # to know when
    assert supervisor.run() == 0


@alone
def test_who_starts_next_begins_with_what_was_good_last(origin: Origin) -> None:
    supervisor = Supervisor(origin.read(), origin, 1, waits)
    origin.path.write_text(FILE.replace(IDLE, "agents: { one: 'http://127.0.0.1:1' }"))
    supervisor._read_again()
    origin.path.write_text("version: 2\n")
    supervisor._read_again()
    assert supervisor._examined.config is not None
    assert list(supervisor._examined.config.agents) == ["one"]


@alone
def test_who_starts_next_goes_on_with_what_is_bound(origin: Origin) -> None:
    supervisor = Supervisor(origin.read(), origin, 2, waits)
    later = 'listen: "127.0.0.2:0", listen_grpc: "127.0.0.1:0", state: "redis://127.0.0.1:1/0"'
    written = FILE.replace(IDLE, "agents: { one: 'http://127.0.0.1:1' }")
    origin.path.write_text(written.replace('listen: "127.0.0.1:0"', later))
    supervisor._read_again()
    config = supervisor._examined.config
    assert config is not None
    assert list(config.agents) == ["one"]
    assert (config.gateway.listen, config.gateway.listen_grpc) == ("127.0.0.1:0", None)
    # A store is opened where there was none, and stays from then on.
    assert config.gateway.state == read_state("redis://127.0.0.1:1/0")
    origin.path.write_text(written.replace('listen: "127.0.0.1:0"', later.replace(":1/0", ":2/0")))
    supervisor._read_again()
    assert supervisor._examined.config is not None
    assert supervisor._examined.config.gateway.state == config.gateway.state


@alone
def test_who_starts_next_begins_with_nothing_that_all_refused(origin: Origin) -> None:
    guarded = 'auth: { api_keys: { one: { sha256: "' + "0" * 64 + '", tenant: acme } } }\ntenants: { acme: {} }\n'
    everywhere = '"0.0.0.0:0", state: "redis://127.0.0.1:1/0", public_url: "http://127.0.0.1:1"'
    open_to_all = FILE.replace('listen: "127.0.0.1:0"', f"listen: {everywhere}")
    origin.path.write_text(open_to_all + guarded)
    first = origin.read()
    assert first.config is not None, first.errors
    supervisor = Supervisor(first, origin, 2, waits)
    # By itself it is good; with the address that is bound it would let everybody in.
    origin.path.write_text(FILE)
    assert origin.read().config is not None
    supervisor._read_again()
    assert supervisor._examined is first


@pytest.mark.parametrize(
    "later",
    [
        "defaults: { isolation: tenant }\nagents: { one: 'http://127.0.0.1:1' }",
        "agents: { one: { backend: { stdio: [cat] } } }",
    ],
)
@alone
def test_who_starts_next_begins_with_nothing_that_several_cannot_serve(origin: Origin, later: str) -> None:
    first = origin.read()
    supervisor = Supervisor(first, origin, 2, waits)
    origin.path.write_text(MEMORY.replace(IDLE, later))
    assert origin.read().config is not None
    supervisor._read_again()
    assert supervisor._examined is first


@alone
def test_several_that_start_commands_are_refused(origin: Origin, capsys: pytest.CaptureFixture[str]) -> None:
    origin.path.write_text(FILE.replace(IDLE, "agents: { one: { backend: { stdio: [cat] } } }"))
    assert supervise(origin.read(), origin, 2, waits) == 1
    told = capsys.readouterr().err
    assert "agents.one.backend: 2 workers would each start this command" in told
    assert "serve with one worker" in told


@alone
def test_several_that_remember_for_themselves_are_refused(origin: Origin, capsys: pytest.CaptureFixture[str]) -> None:
    owned = "agents: { one: 'http://127.0.0.1:1' }\ndefaults: { isolation: tenant }"
    origin.path.write_text(MEMORY.replace(IDLE, owned))
    assert supervise(origin.read(), origin, 2, waits) == 1
    told = capsys.readouterr().err
    assert "gateway.state: 2 workers would each remember for themselves whose task is whose" in told
    assert "sqlite:///PATH" in told
