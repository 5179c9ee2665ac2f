"""Another's task and none take as long to refuse, over either binding and in a ledger that holds many."""

import io
import statistics
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from gateway.config.check import examine
from gateway.proxy.pipeline import Pipeline
from gateway.snapshot import Snapshot
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Observed, Owner, Store
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.metrics import GatewayMetrics
from tests.routing.test_timing import ATTEMPTS, CALLS, NEAR, asked
from tests.support.gateway import keys

pytestmark = pytest.mark.anyio

FILE = f"""\
version: 1
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents: {{ crm: "http://127.0.0.1:1" }}
"""
MESSAGE = '"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]'
ASKS = {
    "get": ("POST", "/crm", '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"TASK"}}'),
    "cancel": ("POST", "/crm", '{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"TASK"}}'),
    "get over HTTP+JSON": ("GET", "/crm/tasks/TASK", ""),
    "send": ("POST", "/crm/message:send", '{"message":{' + MESSAGE + ',"taskId":"TASK"}}'),
    "reference": ("POST", "/crm/message:send", '{"message":{' + MESSAGE + ',"referenceTaskIds":["TASK"]}}'),
    "webhooks": ("GET", "/crm/tasks/TASK/pushNotificationConfigs", ""),
}
"""Calls about `TASK`."""


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.long), "sqlite"])
async def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pipeline]:
    store: Store = SqliteStore(None) if request.param == "memory" else SqliteStore(tmp_path / "state.db")
    ledger, log = TaskLedger(store), AccessLog(io.BytesIO())
    await ledger.open()
    for number in range(2_000):
        await store.record(
            "crm", Observed(Owner("acme", "/acme"), f"task-{number:04}", f"c{number}", "working", now=ledger.now())
        )
    examined = examine(Path("gateway.yaml"), {}, text=FILE)
    snapshot = Snapshot.build(examined, GatewayMetrics("test"), "https://gw.test", ledger=ledger)
    yield Pipeline(lambda: snapshot, log, lambda *_: None)
    await snapshot.aclose()
    await ledger.aclose()
    log.close()


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_anothers_task_and_none_look_alike_and_take_as_long(
    pipeline: Pipeline, ask: tuple[str, str, str]
) -> None:
    method, path, body = ask
    differences = []
    for _ in range(ATTEMPTS):
        times: tuple[list[float], list[float]] = ([], [])
        answers = set()
        for number in range(2 * CALLS):
            task = f"{('task', 'none')[number % 2]}-{number:04}"
            took, answer = await asked(
                pipeline, method, path.replace("TASK", task), body.replace("TASK", task).encode()
            )
            times[number % 2].append(took)
            answers.add(answer)
        assert len(answers) == 1
        assert b"not found" in cast("bytes", next(iter(answers))[2])
        differences.append(abs(statistics.median(times[0]) - statistics.median(times[1])))
        if differences[-1] < NEAR:
            return
    pytest.fail(f"medians differ by {min(differences) * 1e6:.0f} µs")
