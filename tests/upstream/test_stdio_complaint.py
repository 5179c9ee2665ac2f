"""Standard error: read always, told line by line, and no more of it than may be."""

import asyncio
import logging
from typing import Any, cast

import pytest

from gateway.upstream.stdio_complaint import LONGEST_LINE, Complaints

pytestmark = pytest.mark.anyio


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Pipe:
    """Counts how often it was not to be read."""

    def __init__(self) -> None:
        self.paused = 0
        self.resumed = asyncio.Event()

    def pause_reading(self) -> None:
        self.paused += 1

    def resume_reading(self) -> None:
        self.resumed.set()

    def is_closing(self) -> bool:
        return False


def hearing(caplog: pytest.LogCaptureFixture) -> tuple[Complaints, Pipe, Clock]:
    caplog.set_level(logging.INFO, "gateway.upstream.stdio")
    clock, pipe = Clock(), Pipe()
    complaints = Complaints("notes", clock)
    complaints.connection_made(cast("Any", pipe))
    return complaints, pipe, clock


async def test_whole_lines_are_told_whatever_the_chunks(caplog: pytest.LogCaptureFixture) -> None:
    complaints, _, _ = hearing(caplog)
    for chunk in (b"one\ntw", b"o\n\n \nthr\xff", b"ee"):
        complaints.data_received(chunk)
    assert caplog.messages == ["notes: one", "notes: two"]
    complaints.connection_lost(None)
    assert caplog.messages[2:] == ["notes: thr�ee"]


async def test_a_long_line_is_told_as_far_as_it_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    complaints, _, _ = hearing(caplog)
    for _ in range(100):
        complaints.data_received(b"x" * 1000)
    complaints.data_received(b"\n")
    assert [len(each) for each in caplog.messages] == [LONGEST_LINE + len("notes: ")]


async def test_more_lines_than_may_be_are_counted_and_read_slowly(caplog: pytest.LogCaptureFixture) -> None:
    complaints, pipe, clock = hearing(caplog)
    complaints.data_received(b"line\n" * 500)
    assert len(caplog.messages) == 100
    assert pipe.paused == 1
    await asyncio.wait_for(pipe.resumed.wait(), 10)
    clock.now += 10
    complaints.data_received(b"again\n")
    assert caplog.messages[100:] == [
        "notes wrote 400 more lines to standard error than are told",
        "notes: again",
    ]


async def test_a_flood_without_lines_is_not_cut_into_any(caplog: pytest.LogCaptureFixture) -> None:
    complaints, _, _ = hearing(caplog)
    complaints.data_received(b"line\n" * 200 + b"x" * 10_000)
    complaints.data_received(b"y\n" * 1000)
    complaints.connection_lost(None)
    assert "1101 more lines" in caplog.messages[-1]
