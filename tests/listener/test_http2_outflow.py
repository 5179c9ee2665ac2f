"""What goes out: in turns, as far as the client lets it, and nobody waits for a client that takes nothing."""

import asyncio
from typing import Any

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.headers import Pairs
from gateway.listener.http2_allowance import Allowance
from gateway.listener.http2_hpack import HeaderWriter
from gateway.listener.http2_outflow import SLICE, Outflow, _Queue

pytestmark = pytest.mark.anyio

OK: Pairs = [(b":status", b"200")]
END: Pairs = [(b"grpc-status", b"0")]


class Sending:
    """An outflow, and the client that it sends to."""

    def __init__(self, *, streams: int = 2, window: int = 65_535) -> None:
        self.client = H2Connection(H2Configuration(client_side=True))
        self.server = H2Connection(
            H2Configuration(client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        self.client.initiate_connection()
        self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.server.initiate_connection()
        self.streams = [2 * number + 1 for number in range(streams)]
        for stream in self.streams:
            request = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")]
            self.client.send_headers(stream, request, end_stream=True)
        self.server.receive_data(self.client.data_to_send())
        writer = self.server.encoder = HeaderWriter()
        self.outflow = Outflow(self, self.server, writer, Allowance(10, 0.0))
        self.over: list[int] = []
        self.watched = 0
        self.got: list[tuple[int, int]] = []
        self.body: dict[int, bytes] = dict.fromkeys(self.streams, b"")
        self.finished: list[int] = []
        self.full = False
        for stream in self.streams:
            self.outflow.head(stream, OK, end=False)

    def flush(self) -> None:
        for event in self.client.receive_data(self.server.data_to_send()):
            match event:
                case events.DataReceived():
                    self.got.append((event.stream_id, len(event.data or b"")))
                    self.body[event.stream_id] += event.data or b""
                case events.StreamEnded():
                    self.finished.append(event.stream_id)
        if self.full:
            self.outflow.paused = True

    def ended(self, stream: int) -> None:
        self.over.append(stream)

    def watch(self) -> None:
        self.watched += 1

    def grant(self, size: int, *streams: int) -> None:
        """Let the server send more."""
        for stream in streams:
            self.client.increment_flow_control_window(size, stream or None)
        for event in self.server.receive_data(self.client.data_to_send()):
            if isinstance(event, events.WindowUpdated) and event.stream_id:
                self.outflow.granted(event.stream_id)
        self.outflow.pump()


@given(st.lists(st.binary(min_size=1, max_size=3000), min_size=1), st.lists(st.integers(1, 4000), min_size=1))
def test_what_waits_comes_out_as_it_went_in(pieces: list[bytes], sizes: list[int]) -> None:
    queue = _Queue(pieces[0], 0.0)
    for piece in pieces[1:]:
        queue.add(piece)
    out, turn = b"", 0
    while queue.size:
        before = queue.size
        taken = queue.take(sizes[turn % len(sizes)])
        assert taken
        assert queue.size == before - len(taken)
        out, turn = out + taken, turn + 1
    assert out == b"".join(pieces)


def test_pieces_of_a_few_bytes_are_kept_together() -> None:
    queue = _Queue(b"x", 0.0)
    for _ in range(60_000):
        queue.add(b"y")
    assert len(queue._parts) < 10


async def test_what_may_go_out_does_so_at_once() -> None:
    sending = Sending()
    sending.outflow.data(1, b"abc")
    sending.outflow.trailers(1, END)
    sending.flush()
    assert (sending.body[1], sending.finished, sending.over) == (b"abc", [1], [1])
    assert (sending.outflow.waits, sending.watched) == (False, 0)


async def test_a_stream_that_is_shut_delays_no_other() -> None:
    sending = Sending(window=10)
    sending.grant(10_000, 3)
    sending.outflow.data(1, b"x" * 100)
    sending.outflow.trailers(1, END)
    sending.outflow.data(3, b"y" * 1000)
    sending.outflow.trailers(3, END)
    sending.flush()
    assert (len(sending.body[1]), len(sending.body[3]), sending.finished) == (10, 1000, [3])
    assert (sending.outflow.waiting(1), sending.outflow.waiting(3), sending.watched) == (90, 0, 1)
    sending.grant(50, 1)
    assert (len(sending.body[1]), sending.over) == (60, [3])
    sending.grant(50, 1)
    assert (sending.body[1], sending.finished) == (b"x" * 100, [3, 1])


async def test_streams_that_share_what_the_connection_grants_have_turns() -> None:
    sending = Sending(window=10_000_000)
    for stream in sending.streams:
        sending.outflow.data(stream, b"x" * 100_000)
    sending.grant(1 << 20, 0)
    async with asyncio.timeout(5):
        while sending.outflow.waits:  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)
    first = [stream for stream, _ in sending.got[4:10]]
    assert set(first) == {1, 3}
    assert all(size <= SLICE for _, size in sending.got)
    assert {len(body) for body in sending.body.values()} == {100_000}


async def test_a_long_message_goes_out_in_several_turns_of_the_loop() -> None:
    sending = Sending(window=10_000_000)
    sending.grant(10_000_000, 0)
    sending.outflow.data(1, b"x" * 2_000_000)
    sent = len(sending.body[1])
    assert 0 < sent < 300_000
    await asyncio.sleep(0)
    assert sent < len(sending.body[1]) < 2 * sent + 1


async def test_nothing_goes_out_while_the_system_takes_nothing() -> None:
    sending = Sending(window=1_000_000)
    sending.grant(1_000_000, 0)
    sending.full = True
    sending.outflow.data(1, b"x" * 200_000)
    # A few turns went out before that was known.
    assert sending.outflow.waiting(1) == 200_000 - 4 * SLICE
    sending.outflow.data(3, b"y")
    sending.outflow.pump()
    assert (sending.outflow.waiting(1), sending.outflow.waiting(3)) == (200_000 - 4 * SLICE, 1)
    assert list(sending.outflow.stalled(1e9, 1.0)) == []
    sending.full = sending.outflow.paused = False
    sending.outflow.pump()
    assert not sending.outflow.waits
    assert (len(sending.body[1]), sending.body[3]) == (200_000, b"y")


async def test_who_writes_waits_until_little_is_left_or_nobody_takes_it() -> None:
    sending = Sending(window=0)
    sending.outflow.data(1, b"x" * 100_000)
    sending.outflow.data(3, b"x" * 100_000)
    waiters = [asyncio.ensure_future(sending.outflow.drained(stream)) for stream in (1, 3)]
    await asyncio.sleep(0)
    sending.grant(50_000, 1)
    await asyncio.sleep(0)
    assert [waiter.done() for waiter in waiters] == [False, False]
    sending.grant(40_000, 1, 0)
    sending.outflow.drop(3)
    await asyncio.gather(*waiters)
    assert sending.outflow.waiting(1) <= 16 * 1024
    assert sending.outflow.waiting(3) == 0
    await sending.outflow.drained(1)


async def test_who_stops_waiting_is_forgotten() -> None:
    sending = Sending(window=0)
    sending.outflow.data(1, b"x" * 100_000)
    waiter = asyncio.ensure_future(sending.outflow.drained(1))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert sending.outflow._waiting[1].waiters == []


async def test_a_stream_of_which_nothing_is_taken_is_told_apart_from_those_that_move() -> None:
    sending = Sending(window=10)
    for stream in sending.streams:
        sending.outflow.data(stream, b"x" * 100)
    now = asyncio.get_running_loop().time()
    for stream in sending.streams:
        sending.outflow._waiting[stream].moved = now - 10
    sending.grant(5, 1)
    assert list(sending.outflow.stalled(now, 5.0)) == [3]
    assert list(sending.outflow.stalled(now, 20.0)) == []
    sending.outflow.resumed = now
    assert list(sending.outflow.stalled(now, 5.0)) == []


async def test_trailers_that_are_none_are_refused_before_anything_is_sent() -> None:
    sending = Sending(window=1)
    bad: Any = [(b"grpc-message", b"a\nb")]
    for stream, waiting in ((1, b""), (3, b"xx")):
        if waiting:
            sending.outflow.data(stream, waiting)
        with pytest.raises(ValueError, match="line end"):
            sending.outflow.trailers(stream, bad)
        sending.outflow.trailers(stream, END)
    sending.grant(10, 3)
    assert sending.over == [1, 3]


async def test_a_stream_may_end_without_trailers() -> None:
    sending = Sending(window=1)
    sending.outflow.trailers(1, None)
    sending.outflow.data(3, b"xx")
    sending.outflow.trailers(3, None)
    sending.grant(10, 3)
    sending.flush()
    assert sending.finished == [1, 3]
