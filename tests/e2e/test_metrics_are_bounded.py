"""No client or agent can add a series of metrics that the file and the closed sets did not foresee (H13)."""

import itertools
import json
import random
import re
import string

import pytest

from gateway.a2a.fault import OUTCOMES, REASONS
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.task_state import STATES
from gateway.tasks.store import OPERATIONS
from tests.support.gateway import CALL, JSON, STREAM, Running, agent, bearer, card_of, keys, running
from tests.support.scripted import ScriptedBackend, Wire, chunk, head, whole

pytestmark = pytest.mark.anyio

DIALECTS = {"jsonrpc/0.1", "jsonrpc/0.3", "jsonrpc/1.0", "rest/0.3", "rest/1.0"}
LABELS = {
    "agent": {"-", "echo", "crm"},
    "backend": {"echo", "crm/acme", "crm/globex"},
    "operation": {"other", *(operation.value for operation in Operation), *OPERATIONS},
    "binding": {"jsonrpc", "rest"},
    "outcome": set(OUTCOMES),
    "tenant": {"-", "other", "acme"},
    "reason": set(REASONS),
    "kind": {kind.value for kind in Kind},
    "state": {*STATES, "active", "idle", "waiting"},
    "event": {"task", "message", "status", "artifact", "error", "other"},
    "by": {"agent", "client", "gateway"},
    "status": {"1xx", "2xx", "3xx", "4xx", "5xx", "error"},
    "method": {"jwt", "api_key", "anonymous", "none", "unknown"},
    "issuer": {"", "corp"},
    "result": {"ok", "missing", "invalid", "expired", "limited", "unavailable", "not_modified", "error"},
    "what": {"streams", "calls"},
    "from": DIALECTS,
    "to": DIALECTS,
}
"""Every value that a label may have at this gateway; `acme` alone is named, by `max_tenants`."""

STATUSES = (200, 299, 404, 499, 500, 599)
_UNBOUNDED = {"le", "version", "hash"}


class Chaos:
    """Words that nobody has thought of, the same kinds of them in the same order each time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self, length: int = 12) -> str:
        return "".join(self._random.choices(string.ascii_letters + string.digits, k=length))

    def method(self) -> str:
        return self.word(8).upper()

    def of(self, *choices: bytes) -> bytes:
        return self._random.choice(choices)


def raving(chaos: Chaos) -> bytes:
    """Return an agent's answer with made-up states, events and codes."""
    task = {"id": chaos.word(), "contextId": chaos.word(), "status": {"state": chaos.word()}, "kind": chaos.word()}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task, chaos.word(): 1}}).encode()


async def rave(gateway: Running, chaos: Chaos) -> None:
    """One of every kind of request, with words of one's own wherever there is room for one."""
    word = chaos.word
    headers = [
        [],
        [bearer("acme")],
        [bearer("globex")],
        [(b"Authorization", f"{word()} {word()}".encode())],
        [(b"Authorization", f"Bearer {word()}".encode())],
        [(b"Authorization", f"Bearer {word()}.{word()}.{word()}".encode())],
        [(b"X-API-Key", word().encode())],
    ]
    for shown in headers:
        strange = [*shown, (b"User-Agent", word(200).encode()), (b"X-" + word().encode(), word().encode())]
        version = [*shown, (b"A2A-Version", word(3).encode())]
        call = CALL.replace(b'"SendMessage"', f'"{word()}"'.encode())
        tenant = CALL.replace(b'"params":{', f'"params":{{"tenant":"{word()}",'.encode())
        for path in (
            f"/{word()}",
            f"/echo/{word()}",
            f"/{word()}/message:send",
            "/echo",
            f"/crm/{word()}/tasks",
            "/crm",
        ):
            await gateway.post(path, call, strange)
            await gateway.post(path, tenant, strange)
            await gateway.post(path, CALL, version)
            await gateway.get(path, strange)
            await gateway.ask(chaos.method(), path, b"{}", [JSON, *strange])
        await gateway.post("/echo", CALL, strange)
        await gateway.post("/echo", STREAM, strange)
        await gateway.get(f"/echo/tasks/{word()}", strange)
        await gateway.get(f"/echo/tasks/{word()}/pushNotificationConfigs/{word()}", strange)
        await gateway.get(f"/crm/{word()}/.well-known/agent-card.json", strange)
        await gateway.post("/echo", f'{{"{word()}":{{"{word()}":1}}}}'.encode(), strange)
        await gateway.post("/echo", word(300).encode(), [*strange, (b"Content-Encoding", word().encode())])
    for raw in (
        f"{word()}\r\n\r\n",
        f"GET / HTTP/{word(1)}\r\n\r\n",
        f"{chaos.method()} {word()} HTTP/1.1\r\nHost: {word()}\r\n\r\n",
    ):
        client = await gateway.client()
        await client.send(raw.encode())
        await client.ended()


def series(gateway: Running) -> set[str]:
    """Every series there is, as its name and labels."""
    text = gateway.gateway.metrics.render().decode()
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


async def test_no_request_and_no_answer_makes_a_series_of_its_own() -> None:
    chaos = Chaos(1)

    async def plays(wire: Wire) -> None:
        while True:
            received = await wire.request()
            if b"SendStreamingMessage" in received.body:
                event = chunk(b"event: " + chaos.word().encode() + b"\ndata: " + raving(chaos) + b"\n\n")
                await wire.send(
                    head(b"transfer-encoding: chunked", content_type=b"text/event-stream") + event + chunk(b"")
                )
            else:
                await wire.send(whole(raving(chaos), status=b"%d %s" % (next(statuses), chaos.word().encode())))

    statuses = itertools.cycle(STATUSES)
    async with ScriptedBackend(agent(plays, card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0"))) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [echo, crm], globex: [echo, crm] }}
observe: {{ metrics: {{ max_tenants: 1 }} }}
agents:
  echo: {backend.url}
  crm: {{ by_tenant: {{ acme: {backend.url}, globex: {backend.url} }} }}
"""
        async with running(text) as gateway:
            found = []
            for seed in (1, 2, 3):
                chaos = Chaos(seed)
                # Every class of made-up statuses comes in each round.
                statuses = itertools.cycle(STATUSES)
                await rave(gateway, chaos)
                await gateway.rested()
                found.append(series(gateway))
            await gateway.until(lambda: len(gateway.lines) > 500)
    assert found[1] - found[0] == set()
    assert found[2] - found[0] == set()
    strange = {
        (name, value)
        for line in found[2]
        for name, value in re.findall(r'(\w+)="([^"]*)"', line)
        if name not in _UNBOUNDED and value not in LABELS[name]
    }
    assert strange == set()
