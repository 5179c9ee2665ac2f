"""A sink costs its caller no time, whatever happens to the stream behind it."""

import io
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from gateway.telemetry.log_output import Sink
from tests.support.scripted import WAIT


def line(item: str) -> bytes:
    return item.encode() + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "wb", buffering=0) as writer:  # noqa: PTH123 - descriptors
        yield reader, cast("BinaryIO", writer)  # an unbuffered stream is a FileIO, which typeshed calls no BinaryIO


def test_items_are_written_in_order_and_all_of_them_before_close_returns() -> None:
    stream = io.BytesIO()
    sink = Sink(stream)
    for number in range(5_000):
        sink.write(line(str(number)))
    sink.close(timeout=WAIT)
    assert stream.getvalue() == b"".join(line(str(number)) for number in range(5_000))
    assert sink.dropped == 0


def test_a_blocked_reader_costs_lines_but_no_time(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    _, writer = pipe
    sink = Sink(writer, capacity=100)
    began = time.perf_counter()
    for _ in range(20_000):
        sink.write(line("x" * 1_000))
    assert time.perf_counter() - began < 5
    assert sink.dropped > 10_000
    began = time.perf_counter()
    sink.close(timeout=0.1)
    assert time.perf_counter() - began < 5


def test_a_full_disk_costs_lines_and_is_counted() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        sink = Sink(cast("BinaryIO", full))  # as above
        for _ in range(10):
            sink.write(line("x"))
        sink.close(timeout=WAIT)
        assert sink.dropped == 10


def test_a_stream_in_non_blocking_mode_is_tried_again(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reader, writer = pipe
    os.set_blocking(writer.fileno(), False)
    sink = Sink(writer)
    for _ in range(300):
        sink.write(line("x" * 999))
    received = b""
    while len(received) < 300_000:
        received += os.read(reader.fileno(), 65_536)
    sink.close(timeout=WAIT)
    assert received == (b"x" * 999 + b"\n") * 300
    assert sink.dropped == 0


def test_lines_that_a_blocked_stream_does_not_take_are_dropped_at_the_end(
    pipe: tuple[BinaryIO, BinaryIO],
) -> None:
    reader, writer = pipe
    os.set_blocking(writer.fileno(), False)
    sink = Sink(writer)
    for _ in range(300):
        sink.write(line("x" * 999))
    sink.close(timeout=WAIT)
    os.set_blocking(reader.fileno(), False)
    received = os.read(reader.fileno(), 1_000_000)
    assert received.count(b"\n") + sink.dropped == 300
    assert sink.dropped > 0


def test_a_line_that_broke_off_does_not_spoil_the_next_one() -> None:
    class Breaking(io.RawIOBase):
        def __init__(self) -> None:
            self.taken: list[bytes] = []
            self.broke = threading.Event()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            given = bytes(cast("bytes", data))  # the sink writes nothing else
            if not self.broke.is_set():
                if self.taken:
                    self.broke.set()
                    raise OSError
                given = given[:3]
            self.taken.append(given)
            return len(given)

    stream = Breaking()
    sink = Sink(cast("BinaryIO", stream))  # as above
    sink.write(line("first"))
    assert stream.broke.wait(WAIT)
    sink.write(line("second"))
    sink.close(timeout=WAIT)
    assert b"".join(stream.taken) == b"fir\nsecond\n"
    assert sink.dropped == 1


def test_after_close_items_are_dropped_and_closing_again_does_nothing() -> None:
    stream = io.BytesIO()
    sink = Sink(stream)
    sink.close(timeout=WAIT)
    sink.write(line("late"))
    sink.close(timeout=WAIT)
    assert stream.getvalue() == b""
    assert sink.dropped == 1
