"""Lines of several processes stay whole on one pipe."""

import os

from gateway.telemetry.log_output import SharedStream
from tests.support.alone import alone

LINES = 50


@alone
def test_long_writes_of_two_processes_are_not_mixed() -> None:
    hear, tell = os.pipe()
    stream = SharedStream(tell)
    own = []
    for letter in (b"a", b"b"):
        pid = os.fork()
        if not pid:
            try:
                os.close(hear)
                for _ in range(LINES):
                    stream.write(letter * 20_000 + b"\n")
                stream.close()
            finally:
                os._exit(0)
        own.append(pid)
    os.close(tell)
    with os.fdopen(hear, "rb") as everything:
        lines = everything.read().splitlines()
    for pid in own:
        assert os.waitpid(pid, 0)[1] == 0
    assert sorted(set(lines)) == [b"a" * 20_000, b"b" * 20_000]
    assert len(lines) == 2 * LINES


def test_a_full_pipe_takes_part_of_a_line() -> None:
    hear, tell = os.pipe()
    os.set_blocking(tell, False)
    stream = SharedStream(tell)
    written = stream.write(b"x" * 1_000_000)
    assert 0 < written < 1_000_000
    os.close(hear)
    os.close(tell)
    stream.close()
