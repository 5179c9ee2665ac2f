"""A wire whose head goes out with what comes behind it."""

import pytest

from gateway.late import LateHead
from tests.doubles.wire import RecordedWire

pytestmark = pytest.mark.anyio

HEADERS = [(b"content-type", b"text/event-stream")]


async def test_the_head_waits_for_something_behind_it() -> None:
    wire = RecordedWire()
    late = LateHead(wire)
    late.open(200, HEADERS)
    await late.write(b"")
    late.write_nowait(b"")
    assert not late.opened
    await late.write(b"one")
    assert (late.opened, wire.status, wire.headers) == (True, 200, HEADERS)
    late.write_nowait(b"two")
    await late.drained()
    await late.close()
    assert (wire.sent, wire.closed) == (b"onetwo", True)


async def test_what_is_written_whether_it_is_read_or_not_opens_it_too() -> None:
    wire = RecordedWire()
    late = LateHead(wire)
    late.open(200, HEADERS)
    assert late.write_nowait(b"one")
    assert (wire.opened, wire.sent) == (True, b"one")


async def test_an_end_with_nothing_before_it_is_an_empty_answer() -> None:
    wire = RecordedWire()
    late = LateHead(wire)
    late.open(200, HEADERS)
    await late.close()
    assert (wire.opened, wire.status, wire.sent, wire.closed) == (True, 200, b"", True)


async def test_until_then_another_answer_takes_its_place() -> None:
    wire = RecordedWire()
    late = LateHead(wire)
    late.open(200, HEADERS)
    await late.answer(404, [], b"none")
    assert (wire.status, wire.headers, wire.body) == (404, [], b"none")


async def test_the_rest_is_the_clients_own_wire() -> None:
    wire = RecordedWire()
    late = LateHead(wire)
    left: list[str] = []
    late.when_gone(lambda: left.append("gone"))
    wire.leave()
    assert (left, await late.read(1), late.extra) == (["gone"], b"", wire.extra)
    late.cut()
    assert wire.was_cut
