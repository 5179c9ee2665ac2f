"""What a file said is told from what it says by its bytes alone."""

import os
from pathlib import Path

from gateway.config.stamp import NOTHING, stamp, stamp_of


def test_a_file_bears_the_stamp_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_bytes(b"")
    assert stamp_of(file) == stamp(b"") != NOTHING
    file.write_bytes(b"one")
    os.utime(file, (0, 0))
    assert stamp_of(file) == stamp(b"one") != stamp(b"two")


def test_what_is_no_file_says_nothing_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "gone", Path("a\0b")):
        assert stamp_of(path) == NOTHING
