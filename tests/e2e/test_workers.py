"""Several processes that are one gateway: one address, one set of figures, and another takes the place of who dies."""

import asyncio
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio has no types
import httpx
import pytest
from a2a.types import SendMessageRequest, SendMessageResponse
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf has no types of its own

from gateway.demo.fleet import serving
from tests.e2e import sharing
from tests.e2e.faults import figure, ms
from tests.e2e.process import GatewayProcess, write
from tests.e2e.sharing import pids
from tests.support.exposition import total

pytestmark = pytest.mark.anyio

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
SEND = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
HEADERS = {"A2A-Version": "1.0"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[str]:
    with serving(pace=0.05) as agents:
        yield agents


def site(fleet: str, *names: str) -> dict[str, Any]:
    return {
        "gateway": {"reload": {"watch": False, "poll": "0s"}, "drain": {"delay": "0s", "timeout": "5s"}},
        "agents": {"echo": f"{fleet}/echo", "clock": f"{fleet}/clock", **dict.fromkeys(names, f"{fleet}/echo")},
    }


def workers(fleet: str, folder: Path, count: int = 2) -> AbstractAsyncContextManager[GatewayProcess]:
    return sharing.workers(site(fleet), folder, count)


def threads_and_grpc(process: GatewayProcess) -> tuple[int, bool]:
    proc = Path(f"/proc/{process.pid}")
    return len(list((proc / "task").iterdir())), "cygrpc" in (proc / "maps").read_text()


def client() -> httpx.AsyncClient:
    # A connection for each call, so that each may meet another process.
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(trust_env=False, headers=HEADERS, limits=limits, timeout=30)


async def metric(process: GatewayProcess, name: str, **labels: str) -> float:
    async with client() as http:
        text = (await http.get(process.admin + "/metrics")).text
    return total(text, name, **labels)


async def counted(process: GatewayProcess, calls: float) -> None:
    async with asyncio.timeout(30):
        while await metric(process, "requests_total", agent="echo") != calls:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)


async def put_up(process: GatewayProcess, pid: int, calls: float) -> None:
    """Wait until the other processes know what one of them has counted, as they do once a second."""
    async with asyncio.timeout(30):
        known = 0.0
        while known != calls:
            # So that another one is asked.
            os.kill(pid, signal.SIGSTOP)
            try:
                known = await metric(process, "requests_total", agent="echo")
            finally:
                os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.05)


async def test_workers_share_one_address_and_report_as_one_gateway(fleet: str, tmp_path: Path) -> None:
    async with workers(fleet, tmp_path) as process, client() as http:
        assert len(pids(process)) == 2
        # The parent has nothing that a fork would break.
        assert threads_and_grpc(process) == (1, False)
        answers = [await http.post(process.url + "/echo", json=SEND) for _ in range(40)]
        assert {answer.status_code for answer in answers} == {200}
        await counted(process, 40)
        # Either worker answers.
        for _ in range(5):
            assert await metric(process, "requests_total", agent="echo") == 40
            assert await metric(process, "config_last_reload_successful") == 1
            assert await metric(process, "build_info") == 1
        text = (await http.get(process.admin + "/metrics")).text
        assert all(f"\n{name} " in text for name in ("process_resident_memory_bytes", "process_cpu_seconds_total"))


async def test_a_killed_worker_is_replaced_and_its_counts_stay(fleet: str, tmp_path: Path) -> None:
    async with workers(fleet, tmp_path) as process, client() as http:
        for _ in range(20):
            await http.post(process.url + "/echo", json=SEND)
        own = pids(process)
        victim = own[0]
        await put_up(process, victim, 20)
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        answers, replaced = [], 0.0
        while time.monotonic() - killed < 1.0:
            answers.append((await http.post(process.url + "/echo", json=SEND)).status_code)
            if not replaced and len(set(pids(process)) - {victim}) == len(own):
                replaced = time.monotonic() - killed
        assert set(answers) == {200}
        figure(
            "R14",
            f"all of {len(answers)} calls in the second behind a SIGKILL are answered, and what was counted is there; "
            f"another process in its place after {ms(replaced)}",
            holds=0 < replaced < 1,
        )
        await asyncio.to_thread(process.said, f"worker {victim} ended (exit code -9) and is replaced")
        assert len(pids(process)) == 2
        assert victim not in pids(process)
        await counted(process, 20 + len(answers))


async def test_a_killed_worker_ends_no_grpc_calls_of_others(fleet: str, tmp_path: Path) -> None:
    configuration = site(fleet)
    configuration["gateway"]["listen_grpc"] = "127.0.0.1:0"
    request = ParseDict({"tenant": "echo", "message": MESSAGE}, SendMessageRequest())

    async def send() -> str:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(process.grpc, options=options) as channel:
            call = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage", SendMessageRequest.SerializeToString)
            answer = SendMessageResponse.FromString(await call(request, timeout=20, wait_for_ready=True))
            return str(answer.WhichOneof("payload"))

    async with sharing.workers(configuration, tmp_path, 2) as process:
        victim = pids(process)[0]
        for number in range(40):
            if number == 10:
                os.kill(victim, signal.SIGKILL)
            assert await send() in ("task", "message")
        await asyncio.to_thread(process.said, f"worker {victim} ended (exit code -9) and is replaced")
        assert {await send() for _ in range(10)} <= {"task", "message"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_them_all_and_streams_end_well(fleet: str, tmp_path: Path, number: signal.Signals) -> None:
    async with workers(fleet, tmp_path) as process, client() as http:
        own = pids(process)

        begun = asyncio.Semaphore(0)

        async def stream() -> str:
            body = {**SEND, "method": "SendStreamingMessage"}
            async with http.stream("POST", process.url + "/clock", json=body) as answer:
                pieces = answer.aiter_text()
                first = await anext(pieces)
                begun.release()
                return first + "".join([piece async for piece in pieces])

        async with asyncio.TaskGroup() as group:
            streams = [group.create_task(stream()) for _ in range(10)]
            for _ in range(10):
                await begun.acquire()
            process.signal(number)
        assert all("TASK_STATE_COMPLETED" in task.result() for task in streams)
        assert await asyncio.to_thread(process.wait) == 0
        assert not any(_runs(pid) for pid in own)


@pytest.mark.parametrize("way", ["signal", "admin"])
async def test_every_worker_serves_a_new_configuration_and_so_do_later_ones(
    fleet: str, tmp_path: Path, way: str
) -> None:
    async with workers(fleet, tmp_path) as process, client() as http:
        write(site(fleet, "late"), tmp_path)
        if way == "signal":
            process.signal(signal.SIGHUP)
        else:
            answer = await http.post(process.admin + "/-/reload")
            told = answer.json()
            # A worker may have seen the file by itself before it was asked.
            assert (answer.status_code, told["unheard"]) == (200, 0)
            assert told["result"] in {"applied", "unchanged"}
            # With the answer all of them serve it.
            [other] = told["workers"]
            assert (other["hash"], other["error"]) == (told["hash"], None)
            assert other["result"] in {"applied", "unchanged"}
            assert other["pid"] in pids(process)
            for _ in range(20):
                assert (await http.post(process.url + "/late", json=SEND)).status_code == 200
        async with asyncio.timeout(30):
            while await metric(process, "config_reloads_total") < (2 if way == "signal" else 3):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        # A file that is broken by now is nothing to begin with.
        (tmp_path / "gateway.yaml").write_text("version: 2\n")
        for victim in pids(process):
            os.kill(victim, signal.SIGKILL)
            await asyncio.to_thread(process.said, f"worker {victim} ended")
        async with asyncio.timeout(30):
            for _ in range(20):
                assert (await http.post(process.url + "/late", json=SEND)).status_code == 200


async def test_the_manager_is_told_that_it_was_read_when_all_have(
    fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        async def told() -> str:
            while (said := (await asyncio.to_thread(manager.recv, 1000)).decode().splitlines()[0]) == "WATCHDOG=1":
                continue
            return said

        async with workers(fleet, tmp_path) as process, client() as http:
            assert await told() == "READY=1"
            write(site(fleet, "late"), tmp_path)
            process.signal(signal.SIGHUP)
            assert [await told(), await told()] == ["RELOADING=1", "READY=1"]
            for _ in range(20):
                assert (await http.post(process.url + "/late", json=SEND)).status_code == 200


async def test_workers_survive_the_cleaning_of_temporary_files(
    fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    async with workers(fleet, tmp_path) as process, client() as http:
        own = pids(process)
        for folder in temporary.iterdir():
            shutil.rmtree(folder)
        os.kill(own[0], signal.SIGKILL)
        await asyncio.to_thread(process.said, f"worker {own[0]} ended")
        assert (await http.post(process.url + "/echo", json=SEND)).status_code == 200
        process.signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("key", ["listen", "listen_grpc"])
def test_an_address_that_is_taken_ends_it_with_exit_code_1(fleet: str, tmp_path: Path, key: str) -> None:
    text = site(fleet)
    text["gateway"][key] = fleet.removeprefix("http://")
    process = GatewayProcess(write(text, tmp_path), "--workers", "2", forked=True)
    try:
        assert process.wait() == 1
    finally:
        process.close()
    assert "cannot listen on" in process.log_text
    assert "Traceback" not in process.log_text
