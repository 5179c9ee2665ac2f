"""Faults between a host and its agent, and how the program between them ends."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.commands.stdio import bridge
from tests.program import run
from tests.support.bridged import bridged, fronting, scripted, served, sse
from tests.support.gateway import RESULT, agent, card_of, secret
from tests.support.scripted import SSE, WAIT, ScriptedBackend, Wire, answers, chunk, refused_port, whole
from tests.support.stdio_host import ProcessHost, frame, hosting, message

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


# ---- What goes wrong -------------------------------------------------------------------------------------------------


async def test_an_agent_that_goes_away_is_an_error_of_that_call() -> None:
    working = sse({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}})

    async def script(wire: Wire) -> None:
        asked = await wire.request()
        if b"Streaming" in asked.body:
            await wire.send(SSE + chunk(working.replace(b'"id": 1', b'"id": 2')))
            wire.close()
        elif b'"die"' in asked.body:
            wire.close()
        else:
            await wire.send(whole(RESULT.replace(b'"id":1', b'"id":3')))
            await wire.hang()

    async with scripted(script) as (host, _):
        assert (await host.ask("SendMessage", message("die")))["error"]["code"] == -32603
        stream = await host.send("SendStreamingMessage", message("go"))
        assert "statusUpdate" in (await host.answer(stream))["result"]
        assert (await host.answer(stream))["error"]["code"] == -32603
        assert "message" in await host.ask("SendMessage", message("live"))


async def test_a_stream_without_a_last_word_is_ended_by_one() -> None:
    working = sse({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}})
    async with scripted(answers(SSE + chunk(working) + chunk(b""))) as (host, _):
        stream = await host.send("SendStreamingMessage", message("go"))
        await host.answer(stream)
        assert (await host.answer(stream))["result"] is None
        assert host.headers[-1]["a2a-stream"] == "end"


async def test_a_stream_that_is_given_up_is_let_go_of_at_the_agent() -> None:
    working = sse({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}})
    gone = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(SSE + chunk(working))
        await wire.hang()
        gone.set()

    async with scripted(script) as (host, _):
        stream = await host.send("SendStreamingMessage", message("go"))
        await host.answer(stream)
        await host.write(frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}'))
        assert (await host.answer(stream))["error"]["code"] == -32800
        async with asyncio.timeout(WAIT):
            await gone.wait()
    assert len(host.answers) == 2


async def test_open_calls_are_answered_after_the_input_ends(fleet: tuple[str, int]) -> None:
    async with bridged(f"{fleet[0]}/clock") as host:
        stream = await host.send("SendStreamingMessage", message("Go"))
        host.leave()
        assert len(await host.rest(stream)) == 13


async def test_a_frame_that_is_none_ends_it_badly(fleet: tuple[str, int]) -> None:
    found = await asyncio.to_thread(bridge, f"{fleet[0]}/echo")
    async with served(found) as (host, running):
        nobody = host.expect(None)
        call = await host.send("SendMessage", message("hi"))
        await host.write(b"Content-Length: many\r\n\r\n")
        assert (await host.answer(nobody))["error"]["code"] == -32700
        assert "result" in await host.answer(call)
        async with asyncio.timeout(WAIT):
            assert await running == 1


# ---- The process -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def program(*options: str, **settings: Any) -> AsyncIterator[ProcessHost]:
    """The command line itself."""
    env = {"PYTHONPATH": str(ROOT), **settings.pop("env", {})}
    command = (sys.executable, "-W", "error", "-m", "gateway", "stdio", *options)
    async with hosting(*command, env=env, **settings) as host:
        yield host


async def test_the_program_says_nothing_but_frames_and_ends_well_with_its_input(fleet: tuple[str, int]) -> None:
    async with program("--agent", f"{fleet[0]}/echo") as host:
        assert (await host.ask("SendMessage", message("hi")))["message"]["parts"] == [{"text": "hi"}]
        assert await host.close() == 0
    assert host.strays == []
    assert b" SendMessage " in host.complaints
    assert b"Traceback" not in host.complaints


async def test_an_agent_of_a_configuration_is_named_and_the_key_comes_from_the_environment(
    fleet: tuple[str, int], tmp_path: Path
) -> None:
    async with fronting(*fleet) as gateway:
        text = f"version: 1\ngateway: {{ listen: 127.0.0.1:{gateway.port} }}\nagents: {{ clock: {fleet[0]}/clock }}\n"
        (tmp_path / "gateway.yaml").write_text(text)
        env = {"A2A_KEY": secret("acme").decode()}
        async with program("--agent", "clock", "--framing", "ndjson", cwd=tmp_path, framing="ndjson", env=env) as host:
            assert len(await host.stream("SendStreamingMessage", message("Go"))) == 13
            host.process.send_signal(signal.SIGTERM)
            assert await host.ended() == 0


@pytest.mark.parametrize("ending", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_signal_ends_open_calls_with_an_error(ending: signal.Signals) -> None:
    async def never(wire: Wire) -> None:
        await wire.request()
        await wire.hang()

    places: list[str] = []

    async def played(wire: Wire) -> None:
        await agent(never, card_of(places[0], "JSONRPC 1.0"))(wire)

    async with ScriptedBackend(played) as backend:
        places.append(backend.url)
        async with program("--agent", backend.url) as host:
            call = await host.send("SendMessage", message("hi"))
            await backend.until(lambda: len(backend.requests) == 1, for_ever=True)
            host.process.send_signal(ending)
            assert (await host.answer(call))["error"]["code"] == -31503
            assert await host.ended() == 0


async def test_a_signal_is_heard_while_the_card_is_read() -> None:
    asked = asyncio.Event()

    async def once(wire: Wire) -> None:
        await wire.request()
        if asked.is_set():
            await wire.hang()
        asked.set()
        await wire.send(whole(card_of("http://127.0.0.1:1/rpc", "JSONRPC 1.0")))
        wire.close()

    async with ScriptedBackend(once) as backend, program("--agent", backend.url) as host:
        await backend.until(lambda: len(backend.requests) == 2, for_ever=True)
        host.process.send_signal(signal.SIGTERM)
        assert await host.ended() == 0


async def test_a_host_that_is_gone_is_outlived_by_nothing(fleet: tuple[str, int]) -> None:
    async with program("--agent", f"{fleet[0]}/echo", framing="lsp") as host:
        await host.ask("SendMessage", message("hi"))
        host.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # as a host that is killed
        await host.write(frame(b'{"jsonrpc":"2.0","id":9,"method":"ListTasks","params":{}}'))
        assert await host.ended() == 0


def test_usage_errors_set_the_exit_code(tmp_path: Path) -> None:
    for options, code, words in (
        ((), 2, "--agent"),
        (("--agent", "http://127.0.0.1:1", "-c", "x.yaml"), 2, "give the URL"),
        (("--agent", f"http://127.0.0.1:{refused_port()}"), 1, "cannot connect"),
        (("--agent", "echo"), 1, "gateway.yaml"),
        (("--agent", "http://127.0.0.1:1", "--key", "a", "--token", "b"), 2, "one credential"),
    ):
        done = run("stdio", *options, cwd=tmp_path, code=code)
        assert done.stdout == ""
        assert words in done.stderr
