"""The ledger by itself: what is done for a call or an event because of it, in a loop that does nothing else.

    python -m benchmarks.ledger_alone

In a gateway the same costs more, for each call finds the processor's caches as everything else has left them; but here
a machine that is busy for a while is told by the shortest of several runs.
"""

import asyncio
import json
import math
import sys
import tempfile
import time
import uuid
from pathlib import Path

from benchmarks.fairness import agent
from benchmarks.page import table
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.call import Call
from gateway.a2a.ids import referenced_ids
from gateway.a2a.paths import PathCall
from gateway.a2a.progress import Progress
from gateway.principal import Principal
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.ownership import Isolation, Ownership, ownership_of
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store

PLACES = ("memory", "sqlite")
_SIZE = 2048
_LABEL = "jsonrpc/1.0"
_SENDS = 40_000
_TIMES = 1_000
_CALLER = Principal("acme", "acme-key", "api_key")
_RUNS = 20


def measured(folder: Path, place: str, sends: int) -> tuple[float, float, float]:
    """Microseconds of CPU of a send for a new task, a call about a known one, and an event that brings nothing new.

    Args:
        folder: An empty one.
        place: One of `PLACES`.
        sends: The number of new tasks.
    """
    return asyncio.run(_measured(folder, place, sends))


async def _measured(folder: Path, place: str, sends: int) -> tuple[float, float, float]:
    store: Store = SqliteStore(folder / "state.db") if place == "sqlite" else SqliteStore(None)
    ledger = TaskLedger(store)
    await ledger.open()
    await ledger.cipher()
    isolation = Isolation(ledger, "prompt")
    send = _call(agent.send(size=_SIZE))
    answers = [_new() for _ in range(sends)]

    used = -time.process_time()
    for told in answers:
        await _asked(isolation, send, told)
    used += time.process_time()

    about = answers[0]
    get = _call(agent.get(about.task_id or ""))
    ownership = await _asked(isolation, get, about)
    raw = ownership.prefix.raw
    frame = agent.send(size=300)
    known = event = math.inf
    for _ in range(_RUNS):
        began = time.thread_time()
        for _ in range(_TIMES):
            await _asked(isolation, get, about)
        known = min(known, (time.thread_time() - began) / _TIMES)
        began = time.thread_time()
        for _ in range(_TIMES):
            assert ownership.is_known(about)
            assert raw not in frame
        event = min(event, (time.thread_time() - began) / _TIMES)
    await ledger.aclose()
    return used / sends * 1e6, known * 1e6, event * 1e6


async def _asked(isolation: Isolation, call: Call, told: Progress) -> Ownership:
    """Return the ownership after one call and its answer, with all work that would be done without a ledger, too."""
    ownership = ownership_of(isolation, _CALLER, _LABEL)
    if await ownership.authorize(call, referenced_ids(call)) is not call:
        raise AssertionError("it is not the usual case")
    await ownership.observe(told)
    ownership.release()
    return ownership


def _call(body: bytes) -> Call:
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)


def _new() -> Progress:
    """Return the progress of an answer that names a new task in a new context."""
    task = {"id": str(uuid.uuid4()), "contextId": str(uuid.uuid4()), "status": {"state": "TASK_STATE_COMPLETED"}}
    told = read_progress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode())
    assert told is not None
    return told


def main() -> int:
    rows = []
    for place in PLACES:
        with tempfile.TemporaryDirectory(prefix="benchmark-ledger-") as folder:
            rows.append((place, *(f"{micros:.1f}" for micros in measured(Path(folder), place, _SENDS))))
    head = ("by itself, µs", "a send, for a new task", "GetTask", "an event of a stream")
    sys.stdout.write(table(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
