"""Near the end of files or memory nothing new is begun, and health and metrics are answered all the same."""

import math
import resource

import pytest

from gateway.proxy import overload
from gateway.proxy.overload import Overload
from tests.support.assembly import CARD, EVENT, streaming
from tests.support.gateway import JSON, RESULT, STREAM, Running, fronted
from tests.support.scripted import answers, whole

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


class Machine:
    """A machine of which a test says what there is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.files = 10
        self.memory = 10 * MIB
        self.kept = 0
        self.granted = math.inf
        patch.setattr(overload, "open_files", lambda: self.files)
        patch.setattr(overload, "resident_memory", lambda: self.memory)
        patch.setattr(overload, "memory_limit", lambda: self.granted)
        patch.setattr(overload, "EVERY", 0.01)
        patch.setattr(resource, "getrlimit", lambda _what: (1000, 1000))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_files_run_out_and_are_enough_again_a_little_later(machine: Machine) -> None:
    told: list[bool] = []
    at = Overload(changed=told.append)
    seen = []
    for files in (849, 850, 801, 799, 849):
        machine.files = files
        at.look()
        seen.append((at.calls, at.streams))
    assert seen == [(False, False), (True, False), (True, False), (False, False), (False, False)]
    assert told == [True, False]


@pytest.mark.parametrize(
    ("granted", "allowed", "processes"), [(100 * MIB, None, 1), (math.inf, 100 * MIB, 1), (300 * MIB, 200 * MIB, 2)]
)
def test_streams_end_first_where_memory_does(
    machine: Machine, granted: float, allowed: int | None, processes: int
) -> None:
    machine.granted = granted
    at = Overload(lambda: allowed, processes=processes)
    seen = []
    for memory in (79, 80, 90, 86, 84, 76, 74):
        machine.memory = memory * MIB
        at.look()
        seen.append((at.streams, at.calls))
    both, first, none = (True, True), (True, False), (False, False)
    assert seen == [none, first, both, both, first, first, none]


def test_long_answers_take_no_more_than_half_of_the_memory(machine: Machine) -> None:
    machine.granted = 100 * MIB
    at = Overload()
    at.look()
    assert [at.answer_memory(limit * MIB) for limit in (40, 80)] == [40 * MIB, 50 * MIB]


def test_figures_are_read_from_the_system() -> None:
    at = Overload()
    at.look()
    figures = {sample.name: sample.values[0][1] for sample in at.samples()}
    assert 3 <= figures["open_files"] < figures["open_files_limit"]
    assert MIB < figures["memory_bytes"] < figures["memory_limit_bytes"]


async def shedding(site: Running, what: str, *, is_on: bool = True) -> None:
    await site.until(lambda: site.metric("shedding", what=what) == float(is_on))


async def test_calls_are_refused_in_words_and_health_and_metrics_are_answered(machine: Machine) -> None:
    async with fronted(answers(whole(RESULT)), card=CARD) as (site, _):
        client = await site.client()
        assert (await site.post("/echo")).status == 200
        machine.files = 900
        await shedding(site, "calls")
        refused = await site.post("/echo")
        assert (refused.status, refused.reasons[-1]) == (503, "OVERLOADED")
        assert refused.header("retry-after") == "1"
        # Their connection is a file, too.
        assert refused.header("connection") == "close"
        for path, admin in (("/-/live", False), ("/-/ready", False), ("/-/live", True), ("/metrics", True)):
            assert (await site.get(path, admin=admin)).status == 200
        assert site.metric("rejected_total", reason="overloaded") == 1
        machine.files = 10
        await shedding(site, "calls", is_on=False)
        await client.ask("POST", "/echo", b"{}", [JSON])
        assert (await client.answer()).header("connection") != "close"


async def test_a_stream_that_is_open_goes_on_and_none_is_begun(machine: Machine) -> None:
    held = streaming()
    machine.granted = 100 * MIB
    async with fronted(held, card=CARD) as (site, _):
        client = await site.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        assert (await client.head())[0] == 200
        assert await client.piece() == EVENT
        machine.memory = 85 * MIB
        await shedding(site, "streams")
        refused = await site.post("/echo", STREAM)
        assert (refused.status, refused.reasons[-1]) == (503, "OVERLOADED")
        assert site.metric("shedding", what="calls") == 0
        held.go.set()
        assert await client.rest() == b""
