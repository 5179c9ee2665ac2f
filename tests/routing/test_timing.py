"""The refusal of a hidden agent takes as long, and looks the same, as that of a missing one (safety T16)."""

import io
import statistics
import time
from collections.abc import AsyncIterator

import pytest

from gateway.a2a.call import Head
from gateway.proxy.pipeline import Pipeline
from gateway.telemetry.access_log import AccessLog
from tests.support.gateway import CALL, bearer, compiled, keys
from tests.support.wire import RecordedWire

pytestmark = pytest.mark.anyio

FILE = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [support, billing, hermit, ledgers], globex: [support, ledger] }}
defaults: {{ isolation: none }}
agents:
  support: http://127.0.0.1:1
  billing: {{ match: {{ path: /a2a, tenant: billing }}, backend: "http://127.0.0.1:1", visibility: private }}
  ledger: {{ match: {{ path: /a2a, tenant: ledger }}, backend: "http://127.0.0.1:1", visibility: private }}
  ledgers:
    match: {{ path: /books }}
    by_tenant: {{ acme: "http://127.0.0.1:1" }}
    visibility: private
  hermit: {{ backend: "http://127.0.0.1:1", visibility: private }}
"""
NEAR = 50e-6
"""Seconds by which the medians may differ."""
CALLS = 400
ATTEMPTS = 5
"""A busy machine is no leak: one quiet run out of these is enough."""

BODY = b'{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}'


class Sending(RecordedWire):
    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.sending = body

    async def read(self, limit: int) -> bytes:
        return self.sending


@pytest.fixture
async def pipeline() -> AsyncIterator[Pipeline]:
    log = AccessLog(io.BytesIO())
    async with compiled(FILE) as snapshot:
        yield Pipeline(lambda: snapshot, log, lambda *_: None)
    log.close()


async def asked(pipeline: Pipeline, method: str, path: str, body: bytes) -> tuple[float, tuple[object, ...]]:
    """Seconds that an answer took, and all of it but for its request id."""
    name, value = bearer("globex")
    head = Head(
        method,
        path.encode(),
        headers=((name.lower(), value), (b"a2a-version", b"1.0"), (b"content-type", b"application/json")),
        peer="127.0.0.1",
    )
    wire = Sending(body)
    started = time.perf_counter()
    await pipeline.serve(head, wire)
    took = time.perf_counter() - started
    identity = dict(wire.headers)[b"x-request-id"]
    headers = tuple((key, b"ID" if key == b"x-request-id" else said) for key, said in wire.headers)
    return took, (wire.status, headers, wire.body.replace(identity, b"ID"))


@pytest.mark.parametrize(
    ("method", "hidden", "missing"),
    [
        ("POST", ("/hermit", CALL), ("/nobody", CALL)),
        ("POST", ("/hermit/message:send", BODY + b"}"), ("/nobody/message:send", BODY + b"}")),
        ("GET", ("/hermit/tasks/t", b""), ("/nobody/tasks/t", b"")),
        ("GET", ("/hermit/.well-known/agent-card.json", b""), ("/nobody/.well-known/agent-card.json", b"")),
        ("GET", ("/a2a/billing/.well-known/agent-card.json", b""), ("/a2a/nothing/.well-known/agent-card.json", b"")),
        ("POST", ("/a2a/billing", CALL), ("/a2a/nothing", CALL)),
        ("POST", ("/a2a/billing/message:send", BODY + b"}"), ("/a2a/nothing/message:send", BODY + b"}")),
        (
            "POST",
            ("/a2a/message:send", BODY + b',"tenant":"billing"}'),
            ("/a2a/message:send", BODY + b',"tenant":"nothing"}'),
        ),
        ("POST", ("/books/acme", CALL), ("/books/none", CALL)),
    ],
)
async def test_a_forbidden_agent_and_a_missing_one_look_alike_and_take_as_long(
    pipeline: Pipeline, method: str, hidden: tuple[str, bytes], missing: tuple[str, bytes]
) -> None:
    differences = []
    for _ in range(ATTEMPTS):
        times: tuple[list[float], list[float]] = ([], [])
        answers = set()
        for number in range(2 * CALLS):
            took, answer = await asked(pipeline, method, *(hidden, missing)[number % 2])
            times[number % 2].append(took)
            answers.add(answer)
        assert len(answers) == 1
        differences.append(abs(statistics.median(times[0]) - statistics.median(times[1])))
        if differences[-1] < NEAR:
            return
    pytest.fail(f"medians differ by {min(differences) * 1e6:.0f} µs")
