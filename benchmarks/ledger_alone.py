"""The ledger by itself: what is done for a call or an event because of it, in a loop that does nothing else.

    python -m benchmarks.ledger_alone

In a gateway the same costs more, for each call finds the processor's caches as everything else has left them; but here
a machine that is busy for a while is told by the shortest of several runs. The thread that carries new entries over is
part of it, to the last entry.
"""

import asyncio
import json
import math
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from benchmarks.fairness import agent
from benchmarks.page import table
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.mention import mentions
from gateway.a2a.path import PathCall
from gateway.a2a.progress import Progress, read_jsonrpc
from gateway.claims import Claims, claims_of
from gateway.principal import Principal
from gateway.tasks.ledger import Ledger, soon
from gateway.tasks.memory import MemoryStore
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_checkpoint import EVERY
from gateway.tasks.store import Store
from gateway.tenure import Tenure

PLACES = ("memory", "sqlite")
_SIZE = 2048
_LABEL = "jsonrpc/1.0"
_SENDS = 40_000
_WARM = 4
_TURN = 200
_CALLER = Principal("acme", "acme-key", "api_key")
_RUNS = 20


def measured(folder: Path, place: str, sends: int) -> tuple[float, float, float]:
    """Microseconds of CPU of a send for a new task, a call about a known one, and an event that brings nothing new.

    Args:
        folder: An empty one.
        place: One of `PLACES`.
        sends: How many new tasks there are.
    """
    return asyncio.run(_measured(folder, place, sends))


async def _measured(folder: Path, place: str, sends: int) -> tuple[float, float, float]:
    store: Store = SqliteStore(folder / "state.db") if place == "sqlite" else MemoryStore()
    ledger = Ledger(store)
    await ledger.open()
    await soon(ledger.seal())
    tenure = Tenure(ledger, "prompt")
    send = _call(agent.send(size=_SIZE))
    for _ in range(_WARM):
        # The thread fills the filter of what is in the tables, a step with each round.
        _asked(tenure, send, _new())
        await asyncio.sleep(1.1 * EVERY)
    answers = [_new() for _ in range(sends)]

    used = -time.process_time()
    for at in range(0, sends, _TURN):
        for told in answers[at : at + _TURN]:
            _asked(tenure, send, told)
        # As a gateway waits for its clients, so that the thread has its turn.
        await asyncio.sleep(0.02)
    used += time.process_time()

    about = answers[0]
    get = _call(agent.get(about.task_id or ""))
    claims = _asked(tenure, get, about)
    raw = claims.mark.raw
    frame = agent.send(size=300)
    known = _best(500, lambda: _asked(tenure, get, about))
    event = _best(5_000, lambda: claims.knows(about) and raw not in frame)
    # What is left is carried over at the end.
    used -= time.process_time()
    await ledger.aclose()
    used += time.process_time()
    return used / sends * 1e6, known, event


def _asked(tenure: Tenure, call: Call, told: Progress) -> Claims:
    """What becomes of one call and its answer, beside all that would with no ledger too."""
    claims = claims_of(tenure, _CALLER, _LABEL)
    if claims.enter(call, mentions(call)) is not call or claims.meet(told) is not None:
        raise AssertionError("it is not the usual case")
    claims.leave()
    return claims


def _best(times: int, work: Callable[[], object]) -> float:
    """Microseconds of the quickest of several runs."""
    shortest = math.inf
    for _ in range(_RUNS):
        began = time.thread_time()
        for _ in range(times):
            work()
        shortest = min(shortest, time.thread_time() - began)
    return shortest / times * 1e6


def _call(body: bytes) -> Call:
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)


def _new() -> Progress:
    """What an answer tells that names a new task in a new context."""
    task = {"id": str(uuid.uuid4()), "contextId": str(uuid.uuid4()), "status": {"state": "TASK_STATE_COMPLETED"}}
    told = read_jsonrpc(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode())
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
