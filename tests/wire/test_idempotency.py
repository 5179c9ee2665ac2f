"""A message that comes twice, through a whole gateway: safety R2's proof, with its figure (`pytest -rP` shows it)."""

import asyncio
import json
import sys
from collections import Counter

import pytest

from gateway.proxy import idempotency
from tests.support.gateway import RESULT, agent, bearer, fronted, keys, running
from tests.support.scripted import Script, ScriptedBackend, Wire, answers, resets_at_once, whole

pytestmark = pytest.mark.anyio

CLIENTS = 50
IDEMPOTENT = "message_id_idempotent: true"


def sends(id: object, message: str, text: str = "hi", **more: object) -> bytes:  # noqa: A002 - the word
    said = {"messageId": message, "role": "ROLE_USER", "parts": [{"text": text}]}
    return json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": "SendMessage", "params": {"message": said, **more}}
    ).encode()


class Executing:
    """Executes each message that it has not seen, and resets before it answers it for the first time."""

    def __init__(self, *, dedupes: bool) -> None:
        self.executed: Counter[str] = Counter()
        self.asked = 0
        self._dedupes = dedupes

    async def play(self, wire: Wire) -> None:
        while True:
            request = await wire.request()
            self.asked += 1
            call = json.loads(request.body)
            message = call["params"]["message"]["messageId"]
            first = message not in self.executed
            if first or not self._dedupes:
                self.executed[message] += 1
            if first:
                wire.reset()
                return
            result = {"message": {"messageId": f"to {message}", "role": "ROLE_AGENT", "parts": [{"text": "ho"}]}}
            await wire.send(whole(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()))


@pytest.mark.parametrize("messages", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_messages_to_an_agent_that_executes_and_resets_are_executed_once_each(messages: int) -> None:
    executing = Executing(dedupes=True)
    async with fronted(agent(executing.play), IDEMPOTENT) as (gateway, _):
        left = list(range(messages))
        tries = 0

        async def client() -> None:
            nonlocal tries
            while left:
                number = left.pop()
                answer: dict[str, object] = {}
                while "result" not in answer:
                    tries += 1
                    answer = (await gateway.post("/echo", sends(number, f"m{number}"))).json
                assert answer["id"] == number

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        again = gateway.metric("backend_retries_total", reason="reset")
        sys.stdout.write(
            f"R2: {messages} messages, {tries} sends of a retrying client, {again:.0f} repeats of the gateway: "
            f"{executing.executed.total()} executions\n"
        )
        assert executing.executed.total() == messages


def held_until(release: asyncio.Event) -> Script:
    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            await release.wait()
            await wire.send(whole(RESULT))

    return agent(play)


async def test_the_second_of_two_waits_for_the_first_and_has_its_own_id() -> None:
    release = asyncio.Event()
    async with fronted(held_until(release), IDEMPOTENT) as (gateway, backend):
        first = asyncio.ensure_future(gateway.post("/echo", sends(1, "m")))
        await backend.until(lambda: len(backend.requests) == 1)
        # Members in another order, and with other spaces, say the same.
        other = sends("two", "m").replace(
            b'"messageId": "m", "role": "ROLE_USER"', b'"role":"ROLE_USER","messageId":"m"'
        )
        second = asyncio.ensure_future(gateway.post("/echo", other))
        await gateway.until(lambda: gateway.serving == 2)
        release.set()
        one, two = (await first).json, (await second).json
        assert (one["id"], two["id"]) == (1, "two")
        assert one["result"] == two["result"]
        late = (await gateway.post("/echo", sends(3, "m"))).json
        assert (late["id"], late["result"]) == (3, one["result"])
        assert len(backend.requests) == 1
        await gateway.until(lambda: len(gateway.lines) == 3)
        assert sorted(line["attempts"] for line in gateway.lines) == [0, 0, 1]


async def test_one_id_with_two_bodies_is_refused() -> None:
    async with fronted(answers(whole(RESULT)), IDEMPOTENT) as (gateway, backend):
        await gateway.post("/echo", sends(1, "m"))
        answer = (await gateway.post("/echo", sends(2, "m", "another text"))).json
        assert answer["error"]["code"] == -32602
        assert len(backend.requests) == 1


async def test_a_slow_send_keeps_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST", 3)
    release = asyncio.Event()

    async def play(wire: Wire) -> None:
        while True:
            request = await wire.request()
            if b"slow" in request.body:
                await release.wait()
            await wire.send(whole(RESULT))

    async with fronted(agent(play), IDEMPOTENT) as (gateway, backend):
        slow = asyncio.ensure_future(gateway.post("/echo", sends(1, "slow")))
        await backend.until(lambda: len(backend.requests) == 1)
        for number in range(5):
            assert "result" in (await gateway.post("/echo", sends(1, f"m{number}"))).json
        for message, asked in (("m4", 6), ("m0", 7)):
            assert "result" in (await gateway.post("/echo", sends(1, message))).json
            assert len(backend.requests) == asked
        # Nor is it forgotten itself.
        again = asyncio.ensure_future(gateway.post("/echo", sends(2, "slow")))
        await gateway.until(lambda: gateway.serving == 2)
        release.set()
        assert [(await slow).json["id"], (await again).json["id"]] == [1, 2]
        assert len(backend.requests) == 7


async def test_failed_sends_are_not_kept() -> None:
    async with fronted(resets_at_once, f"{IDEMPOTENT}\nretry: {{ max: 0 }}") as (gateway, backend):
        assert "error" in (await gateway.post("/echo", sends(1, "m"))).json
        backend.script = agent(answers(whole(RESULT)))
        assert "result" in (await gateway.post("/echo", sends(1, "m"))).json


async def test_two_tenants_may_have_one_id() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = (
            f"{keys(acme='acme', globex='globex')}tenants: {{ acme: [echo], globex: [echo] }}\n"
            f"agents:\n  echo: {{ backend: {backend.url}, {IDEMPOTENT} }}\n"
        )
        async with running(text) as gateway:
            for name in ("acme", "globex"):
                assert "result" in (await gateway.post("/echo", sends(1, "m", name), (bearer(name),))).json
            assert len(backend.requests) == 2


async def test_a_send_that_waits_for_one_that_leaves_is_sent_next() -> None:
    release = asyncio.Event()
    async with fronted(held_until(release), IDEMPOTENT) as (gateway, backend):
        leaving = await gateway.client()
        await leaving.ask("POST", "/echo", sends(1, "m"), ((b"content-type", b"application/json"),))
        await backend.until(lambda: len(backend.requests) == 1)
        second = asyncio.ensure_future(gateway.post("/echo", sends(2, "m")))
        await gateway.until(lambda: gateway.serving == 2)
        leaving.leave()
        await backend.until(lambda: len(backend.requests) == 2)
        release.set()
        assert (await second).json["id"] == 2
