"""Calls of two tenants, each with a marker of its own: nobody sees another's, and nothing is left behind."""

import asyncio
import random
import signal
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.commands.key import new_key
from gateway.demo.fleet import serving
from tests.e2e.process import GatewayProcess, gateway_process

CLIENTS = 8
SHORT = 2.0
LONG = 120.0
GROWTH = 32 * 1024 * 1024
"""Bytes by which the process may grow after its first calls."""

pytestmark = pytest.mark.anyio

KEYS = {name: new_key(name, name) for name in ("acme", "globex")}


def site(agents: str) -> dict[str, object]:
    """Each tenant has agents of its own at the same paths; the credential and the tenant field pick."""
    return {
        "auth": {"api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in KEYS.items()}},
        "tenants": {name: [f"echo-{name}", f"clock-{name}", "crm"] for name in KEYS},
        "agents": {
            **{
                f"{kind}-{name}": {"backend": f"{agents}/{kind}", "match": {"path": f"/{kind}", "key": name}}
                for name in KEYS
                for kind in ("echo", "clock")
            },
            "crm": {"by_tenant": dict.fromkeys(KEYS, f"{agents}/echo")},
        },
    }


class Caller:
    """One client of one tenant, which does whatever comes to its mind."""

    def __init__(self, client: httpx.AsyncClient, tenant: str, number: int) -> None:
        self._client = client
        self._chance = random.Random(number)
        self._headers = {"X-API-Key": KEYS[tenant].text, "A2A-Version": "1.0"}
        self._tenant = tenant
        self._number = 0
        self._mine = f"marker-of-{tenant}"
        self._foreign = {f"marker-of-{name}" for name in KEYS} - {self._mine}
        self.done: Counter[str] = Counter()

    async def until(self, end: float) -> None:
        acts = (self.send, self.send_rest, self.by_tenant, self.stream, self.leave)
        while time.monotonic() < end:
            act = self._chance.choice(acts)
            await act()
            self.done[act.__name__] += 1

    def _message(self) -> dict[str, object]:
        self._number += 1
        text = f"{self._mine}-{self._number}"
        return {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}

    def _rpc(self, method: str, **params: object) -> dict[str, object]:
        return {
            "jsonrpc": "2.0",
            "id": self._number,
            "method": method,
            "params": {"message": self._message(), **params},
        }

    def _mine_only(self, text: str) -> None:
        assert not any(marker in text for marker in self._foreign)

    async def _echoed(self, path: str, body: dict[str, object]) -> None:
        answer = await self._client.post(path, json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        assert f"{self._mine}-{self._number}" in answer.text
        self._mine_only(answer.text)

    async def send(self) -> None:
        await self._echoed("/echo", self._rpc("SendMessage"))

    async def send_rest(self) -> None:
        await self._echoed("/echo/message:send", {"message": self._message()})

    async def by_tenant(self) -> None:
        await self._echoed("/crm", self._rpc("SendMessage", tenant=self._tenant))

    async def stream(self) -> None:
        body = self._rpc("SendStreamingMessage")
        async with self._client.stream("POST", "/clock", json=body, headers=self._headers) as answer:
            text = (await answer.aread()).decode()
        assert answer.status_code == 200, text
        assert text.rstrip().endswith("}")
        assert "TASK_STATE_COMPLETED" in text
        self._mine_only(text)

    async def leave(self) -> None:
        body = self._rpc("SendStreamingMessage")
        async with self._client.stream("POST", "/clock", json=body, headers=self._headers) as answer:
            async for _ in answer.aiter_raw():
                break


def resident(process: GatewayProcess) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


async def figures(client: httpx.AsyncClient, admin: str) -> dict[str, float]:
    text = (await client.get(admin + "/metrics")).text
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            state = sample.labels.get("state") or sample.labels.get("outcome") or ""
            found[f"{sample.name} {state}".strip()] += sample.value  # type: ignore[assignment]
    return dict(found)


async def soak(seconds: float, folder: Path) -> None:
    with serving(pace=0.005) as agents, gateway_process(site(agents), folder, forked=False) as process:
        async with httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=30) as client:
            callers = [Caller(client, name, number) for number in range(CLIENTS // 2) for name in KEYS]

            async def all_until(end: float) -> None:
                async with asyncio.TaskGroup() as group:
                    for caller in callers:
                        group.create_task(caller.until(end))

            await all_until(time.monotonic() + seconds / 4)
            before = resident(process)
            await all_until(time.monotonic() + seconds)
            assert resident(process) - before < GROWTH
            done = sum((caller.done for caller in callers), Counter[str]())
            assert min(done.values()) > 0, done
            deadline = time.monotonic() + 10
            while True:
                seen = await figures(client, process.admin)
                left = [
                    seen.get(f"a2a_gateway_{name}", 0)
                    for name in ("streams_open", "requests_in_flight", "backend_connections active")
                ]
                if not any(left) or time.monotonic() > deadline:
                    break
            assert not any(left), seen
            assert seen["a2a_gateway_requests_total ok"] >= sum(done.values()) - done["leave"]
            for outcome in ("gateway_error", "upstream_error", "denied", "client_error"):
                assert seen.get(f"a2a_gateway_requests_total {outcome}", 0) == 0, seen
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        for line in process.access_lines:
            assert line["agent"] is None or line["agent"] == "crm" or line["agent"].endswith(line["tenant"]), line


@pytest.mark.long
async def test_two_tenants_never_meet_and_nothing_is_left_behind(tmp_path: Path) -> None:
    await soak(SHORT, tmp_path)


@pytest.mark.long
async def test_two_tenants_never_meet_in_two_minutes_either(tmp_path: Path) -> None:
    await soak(LONG, tmp_path)
