"""A host on stdio reaches agents behind HTTP and gRPC, alone or behind a gateway."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.framing.lsp import Framing
from gateway.command.bridge import Bridge, Session, address, bridge
from gateway.command.failure import CommandFailed
from gateway.config.check import Examined, examine
from gateway.demo.fleet import serving
from gateway.demo.stage import free_port
from tests.doubles.gateway import RESULT, Running, agent, card_of, keys, running, secret
from tests.doubles.scripted import (
    WAIT,
    Script,
    ScriptedBackend,
    Wire,
    answers,
    chunk,
    head,
    refused_port,
    whole,
)
from tests.doubles.stdio_host import Host, ProcessHost, frame, hosting, message, over_pipes

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
SSE = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
FRAMINGS = ("lsp", "ndjson")


@pytest.fixture(scope="module")
def fleet() -> Iterator[tuple[str, int]]:
    port = free_port(0)
    with serving(pace=0.01, grpc=port) as url:
        yield url, port


@asynccontextmanager
async def bridged(
    url: str, *, framing: str = "lsp", key: str | None = None, token: str | None = None, tenant: str | None = None
) -> AsyncIterator[Host]:
    """A host, and the agent that it believes to have started; in this process."""
    found = await asyncio.to_thread(bridge, url, key=key, token=token, tenant=tenant)
    async with served(found, framing) as (host, running):
        yield host
        host.leave()
        async with asyncio.timeout(WAIT):
            assert await running == 0
    assert host.strays == []


@asynccontextmanager
async def served(found: Bridge, framing: str = "lsp") -> AsyncIterator[tuple[Host, asyncio.Future[int]]]:
    source, says = os.pipe()
    hears, target = os.pipe()
    session = Session(found.examined(), io.BytesIO())
    running = asyncio.ensure_future(session.run(source, target, Framing(framing)))
    running.add_done_callback(lambda _: os.close(target))
    try:
        async with over_pipes(hears, says, framing) as host:
            yield host, running
    finally:
        running.cancel()
        os.close(source)


@asynccontextmanager
async def fronting(fleet: str, grpc: int) -> AsyncIterator[Running]:
    """A gateway in front of the fleet, with keys; the clock is behind gRPC, and travel found by its tenant."""
    text = f"""
    {{auth}}
    tenants: {{{{ acme: [echo, clock, travel, rest] }}}}
    agents:
      echo: {fleet}/echo
      clock: {{{{ backend: "grpc://127.0.0.1:{grpc}", card: {fleet}/clock }}}}
      travel: {{{{ backend: {fleet}/travel, match: {{{{ path: /a2a, tenant: travel }}}} }}}}
      rest: {{{{ backend: {fleet}/travel, expose: [rest], visibility: private }}}}
    """
    auth = keys(acme="acme").replace("\n", "\n    ")
    async with running(text.format(auth=auth)) as gateway:
        yield gateway


def texts(task: Any) -> str:
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


async def until(host: Host, queue: Any, last: Callable[[Any], bool]) -> Any:
    """The first event of which this is true; that a task waits is not always the end."""
    while not last(event := (await host.answer(queue))["result"]):
        pass
    return event


# ---- Agents ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_every_operation_of_1_0_is_there(fleet: tuple[str, int], framing: str) -> None:
    async with bridged(f"{fleet[0]}/travel", framing=framing) as host:
        asked = (await host.ask("SendMessage", message("To Lisbon")))["task"]
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        named = {"id": asked["id"]}
        assert (await host.ask("GetTask", named))["id"] == asked["id"]
        assert asked["id"] in {task["id"] for task in (await host.ask("ListTasks", {}))["tasks"]}
        watching = await host.send("SubscribeToTask", named)
        assert (await host.answer(watching))["result"]["task"]["id"] == asked["id"]
        stream = await host.send("SendStreamingMessage", message("On Monday", task=asked["id"]))
        for queue in (stream, watching):
            await until(host, queue, lambda event: "TASK_STATE_COMPLETED" in json.dumps(event))
        again = (await host.ask("SendMessage", message("To Faro")))["task"]
        assert (await host.ask("CancelTask", {"id": again["id"]}))["status"]["state"] == "TASK_STATE_CANCELED"
        assert (await host.ask("GetTask", {"id": "none"}))["error"]["code"] == -32001
        assert (await host.ask("Nonsense"))["error"]["code"] == -32601
        refused = await host.ask("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://hooks.test/x"})
        assert refused["error"]["data"][0]["reason"] in {"PUSH_NOTIFICATION_NOT_SUPPORTED", "INVALID_PARAMS"}


async def test_0_3_is_spoken_to_the_same_agents(fleet: tuple[str, int]) -> None:
    async with bridged(f"{fleet[0]}/travel") as host:
        asked = await host.ask("message/send", message("To Lisbon", older=True))
        assert (asked["kind"], asked["status"]["state"]) == ("task", "input-required")
        stream = await host.send("message/stream", message("On Monday", task=asked["id"], older=True))
        last = await until(host, stream, lambda event: event.get("final") is True)
        assert last["status"]["state"] == "completed"
        assert (await host.ask("tasks/get", {"id": asked["id"]}))["status"]["state"] == "completed"


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_an_agent_behind_grpc_is_called_likewise(fleet: tuple[str, int], framing: str) -> None:
    async with bridged(f"grpc://127.0.0.1:{fleet[1]}", tenant="clock", framing=framing) as host:
        for method, older in (("SendStreamingMessage", False), ("message/stream", True)):
            assert len(await host.stream(method, message("Go", older=older))) == 13
        assert (await host.ask("GetTask", {"id": "none"}))["error"]["code"] == -32001


async def test_agents_behind_a_gateway_are_called_with_a_key(fleet: tuple[str, int]) -> None:
    key = secret("acme").decode()
    async with fronting(*fleet) as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        async with bridged(f"{url}/echo", key=key) as host:
            assert (await host.ask("SendMessage", message("hi")))["message"]["parts"] == [{"text": "hi"}]
        async with bridged(f"{url}/clock", token=key) as host:
            assert len(await host.stream("SendStreamingMessage", message("Go"))) == 13
        for place in ("a2a/travel", "rest"):
            async with bridged(f"{url}/{place}", key=key) as host:
                asked = (await host.ask("SendMessage", message("To Lisbon")))["task"]
                assert (await host.ask("GetTask", {"id": asked["id"]}))["status"][
                    "state"
                ] == "TASK_STATE_INPUT_REQUIRED"
        told = {(line["tenant"], line["agent"]) for line in gateway.lines if line["operation"] is not None}
    assert told == {("acme", "echo"), ("acme", "clock"), ("acme", "travel"), ("acme", "rest")}


async def test_200_calls_and_50_streams_at_once_are_each_answered_with_their_own(fleet: tuple[str, int]) -> None:
    async with fronting(*fleet) as gateway:
        url, key = f"http://127.0.0.1:{gateway.port}", secret("acme").decode()
        async with bridged(f"{url}/echo", key=key) as host, bridged(f"{url}/clock", key=key) as other:
            streams = [await other.send("SendStreamingMessage", message("Go")) for _ in range(50)]
            calls = [await host.send("SendMessage", message(f"call {number}")) for number in range(200)]
            for number, call in enumerate(calls):
                answer = await host.answer(call)
                assert answer["result"]["message"]["parts"] == [{"text": f"call {number}"}]
            tasks = set()
            for stream in streams:
                first, *events = await other.rest(stream)
                own = first["task"]["id"]
                assert {next(iter(event.values()))["taskId"] for event in events} == {own}
                assert len(events) == 12
                tasks.add(own)
            assert len(tasks) == 50
            assert len(host.answers) == 200


async def test_a_stream_may_have_a_thousand_events() -> None:
    def event(number: int) -> bytes:
        update = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": str(number)}]}}
        return sse({"artifactUpdate": update})

    done = sse({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}})
    body = SSE + b"".join(chunk(event(number)) for number in range(1000)) + chunk(done) + chunk(b"")
    async with scripted(answers(body)) as (host, _):
        *events, _ = await host.stream("SendStreamingMessage", message("go"))
        told = [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for event in events]
        assert told == [str(number) for number in range(1000)]


def sse(result: Any) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n\n"


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[tuple[Host, ScriptedBackend]]:
    """A host of one scripted agent."""
    places: list[str] = []

    async def played(wire: Wire) -> None:
        await agent(script, card_of(f"{places[0]}/rpc", "JSONRPC 1.0"))(wire)

    async with ScriptedBackend(played) as backend:
        places.append(backend.url)
        async with bridged(backend.url) as host:
            yield host, backend


async def test_a_gateway_is_reached_over_grpc_too(fleet: tuple[str, int]) -> None:
    text = f"""
    gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", listen_grpc: "127.0.0.1:0" }}
    {keys(acme="acme").replace(chr(10), chr(10) + "    ")}
    tenants: {{ acme: [clock] }}
    agents: {{ clock: {fleet[0]}/clock }}
    """
    async with running(text) as gateway:
        address, key = f"grpc://{gateway.gateway.grpc_address}", secret("acme").decode()
        async with bridged(address, key=key, tenant="clock") as host:
            assert len(await host.stream("SendStreamingMessage", message("Go"))) == 13
        async with bridged(address, tenant="clock") as host:
            assert (await host.ask("SendMessage", message("Go")))["error"]["code"] == -32006


async def test_it_is_itself_an_agent_that_a_gateway_can_run(fleet: tuple[str, int]) -> None:
    command = json.dumps([sys.executable, "-m", "gateway", "stdio", "--agent", f"{fleet[0]}/travel"])
    text = f"""
    agents:
      travel: {{ backend: {{ stdio: {{ command: {command}, env: {{ PYTHONPATH: {ROOT} }} }} }} }}
    """
    async with running(text) as gateway, bridged(f"http://127.0.0.1:{gateway.port}/travel") as host:
        for older in (False, True):
            send, stream, get = (
                ("message/send", "message/stream", "tasks/get")
                if older
                else ("SendMessage", "SendStreamingMessage", "GetTask")
            )
            asked = await host.ask(send, message("To Lisbon", older=older))
            named = {"id": (asked if older else asked["task"])["id"]}
            assert (await host.ask(get, named))["id"] == named["id"]
            queue = await host.send(stream, message("On Monday", task=named["id"], older=older))
            await until(host, queue, lambda event: "completed" in json.dumps(event).lower())


# ---- What goes along -------------------------------------------------------------------------------------------------


async def test_the_agent_is_told_what_the_host_says_of_the_call_and_nothing_of_the_host() -> None:
    async with scripted(answers(whole(RESULT, b"a2a-extensions: urn:x", b"set-cookie: a=b"))) as (host, backend):
        fields = {"A2A_Version": "1.0", "A2A_Extensions": "urn:x", "Authorization": "Bearer mine", "Cookie": "a"}
        await host.answer(await host.send("SendMessage", message("hi"), **fields))
        assert set(host.headers[0]) == {"content-length", "content-type", "a2a-extensions"}
        [asked] = backend.requests
        names = {name.lower() for name, _ in asked.headers}
        assert {b"a2a-version", b"a2a-extensions"} <= names
        assert not {b"authorization", b"cookie", b"x-a2a-tenant", b"x-a2a-subject", b"x-api-key"} & names
        assert asked.target == b"/rpc"
        assert json.loads(asked.body)["id"] == 1


async def test_the_card_is_that_of_the_agent_with_this_program_as_the_way_to_it(fleet: tuple[str, int]) -> None:
    async with bridged(f"{fleet[0]}/echo") as host:
        for method in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"):
            card = await host.ask(method)
            assert (card["name"], card["skills"][0]["id"]) == ("Echo", "echo")
            assert {each["protocolBinding"] for each in card["supportedInterfaces"]} == {"stdio"}
            assert (card["preferredTransport"], card["url"]) == ("stdio", "a2a-gateway stdio")
            assert card["capabilities"]["extendedAgentCard"] is True
            assert "127.0.0.1" not in json.dumps(card)
            assert "stdio.invalid" not in json.dumps(card)


async def test_an_extended_card_is_shown_and_what_keeps_it_from_the_host_is_told() -> None:
    extended = {"name": "Extended", "description": "d", "securitySchemes": {"k": {}}, "url": "http://10.1.2.3/"}
    good = json.dumps({"jsonrpc": "2.0", "id": 1, "result": extended}).encode()
    bad = b'{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no"}}'
    odd = b'{"jsonrpc":"2.0","id":3,"error":{"code":"x","message":"no"}}'
    async with scripted(answers(whole(good), whole(bad), whole(odd))) as (host, _):
        card = await host.ask("GetExtendedAgentCard")
        assert card["name"] == "Extended"
        assert "10.1.2.3" not in json.dumps(card)
        assert "securitySchemes" not in card
        assert (await host.ask("GetExtendedAgentCard"))["error"]["code"] == -32603
        assert "error" in await host.ask("GetExtendedAgentCard")


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


async def test_a_call_that_is_given_up_leaves_the_others_alone() -> None:
    async def script(wire: Wire) -> None:
        asked = await wire.request()
        if b'"wait"' in asked.body:
            await wire.hang()
        else:
            await wire.send(whole(RESULT.replace(b'"id":1', b'"id":2')))
            await wire.hang()

    async with scripted(script) as (host, backend):
        waiting = await host.send("SendMessage", message("wait"))
        await backend.until(lambda: len(backend.requests) == 1)
        await host.write(frame(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}'))
        assert (await host.answer(waiting))["error"]["code"] == -32800
        assert "message" in await host.ask("SendMessage", message("hi"))


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


async def test_what_is_open_at_the_end_of_the_input_is_still_answered(fleet: tuple[str, int]) -> None:
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


# ---- Before the first frame ------------------------------------------------------------------------------------------


def test_where_there_is_no_agent_it_is_said_before_anything_is_served() -> None:
    with pytest.raises(CommandFailed, match="cannot connect"):
        bridge(f"http://127.0.0.1:{refused_port()}/echo")
    with pytest.raises(CommandFailed, match="must be like"):
        bridge("ftp://127.0.0.1/x")
    with pytest.raises(CommandFailed, match="one credential"):
        bridge("http://127.0.0.1:1", key="a", token="b")


async def test_a_card_that_is_gone_by_then_is_told() -> None:
    found = Bridge(f"http://127.0.0.1:{refused_port()}", f"http://127.0.0.1:{refused_port()}/card.json", {})
    with pytest.raises(CommandFailed, match="card cannot be read"):
        await Session(found.examined(), io.BytesIO()).run(0, 1, Framing.LSP)


async def test_a_card_that_is_not_for_everybody_asks_for_a_credential(fleet: tuple[str, int]) -> None:
    async with fronting(*fleet) as gateway:
        with pytest.raises(CommandFailed, match="Show a credential"):
            await asyncio.to_thread(bridge, f"http://127.0.0.1:{gateway.port}/rest")


async def test_who_shows_no_credential_where_one_is_asked_for_is_told(
    fleet: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    async with fronting(*fleet) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/echo"
        async with bridged(url) as host:
            assert (await host.ask("SendMessage", message("hi")))["error"]["code"] == -32006
        told = [record.getMessage() for record in caplog.records if record.name == "gateway.command.bridge"]
        assert told == ["the agent asks for a credential. Show a credential: --key or --token"]
        caplog.clear()
        async with bridged(url, key=secret("acme").decode()):
            pass
        assert not [record for record in caplog.records if record.name == "gateway.command.bridge"]


def test_the_credential_is_in_no_text() -> None:
    found = Bridge("https://agents.test", "https://agents.test/a.json", {"X-API-Key": "very-secret"}, "acme")
    assert "very-secret" not in repr(found)
    examined = found.examined()
    assert examined.config is not None
    entry = examined.config.agents["agent"]
    assert "very-secret" not in repr(entry)
    assert entry.upstream_auth is not None
    assert entry.upstream_auth.header["X-API-Key"].get_secret_value() == "very-secret"
    assert entry.upstream_tenant == "acme"


def test_a_backend_that_no_configuration_can_have_is_refused_in_words() -> None:
    with pytest.raises(CommandFailed, match="grpc://host:port"):
        Bridge("grpc://127.0.0.1:9/path", None, {}).examined()


def file(more: str, gateway: str = "") -> Examined:
    text = f"version: 1\ngateway: {{ listen: 127.0.0.1:8080, {gateway} }}\nagents:\n{more}"
    examined = examine(Path("gateway.yaml"), {}, text=text)
    assert examined.config is not None, examined.errors
    return examined


@pytest.mark.parametrize(
    ("more", "gateway", "tenant", "url"),
    [
        ("  a: http://127.0.0.1:1", "", None, "http://127.0.0.1:8080/a"),
        ("  a: http://127.0.0.1:1", "public_url: https://gw.test/x/", None, "https://gw.test/x/a"),
        ("  a: { backend: http://127.0.0.1:1, match: { path: /b } }", "", None, "http://127.0.0.1:8080/b"),
        (
            "  a: { backend: http://127.0.0.1:1, match: { path: /b, tenant: t } }",
            "",
            None,
            "http://127.0.0.1:8080/b/t",
        ),
        (
            "  a: { backend: http://127.0.0.1:1, match: [{ host: '*.x.test' }, { host: a.test }] }",
            "",
            None,
            "http://a.test:8080",
        ),
        ("  a: { by_tenant: { acme: http://127.0.0.1:1 } }", "", "acme", "http://127.0.0.1:8080/a/acme"),
        ("  a: { by_tenant: { acme: http://127.0.0.1:1 } }", "", None, "http://127.0.0.1:8080/a"),
    ],
)
def test_an_agent_of_the_file_is_found_where_its_gateway_is(
    more: str, gateway: str, tenant: str | None, url: str
) -> None:
    assert address(file(more + "\n", gateway), "a", tenant) == url


def test_an_agent_that_cannot_be_found_by_the_file_is_told_in_words() -> None:
    one = "  a: http://127.0.0.1:1\n"
    with pytest.raises(CommandFailed, match="no agent 'b' in the configuration; it has a"):
        address(file(one), "b")
    with pytest.raises(CommandFailed, match="port 0"):
        address(
            examine(Path("g.yaml"), {}, text=f"version: 1\ngateway: {{listen: '127.0.0.1:0'}}\nagents:\n{one}"), "a"
        )
    with pytest.raises(CommandFailed, match="any host"):
        address(file("  a: { backend: http://127.0.0.1:1, match: { host: '*.x.test' } }\n"), "a")


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


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_what_is_open_with_a_last_word(ending: signal.Signals) -> None:
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
            await backend.until(lambda: len(backend.requests) == 1)
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
        await backend.until(lambda: len(backend.requests) == 2)
        host.process.send_signal(signal.SIGTERM)
        assert await host.ended() == 0


async def test_a_host_that_is_gone_is_outlived_by_nothing(fleet: tuple[str, int]) -> None:
    async with program("--agent", f"{fleet[0]}/echo", framing="lsp") as host:
        await host.ask("SendMessage", message("hi"))
        host.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # as a host that is killed
        await host.write(frame(b'{"jsonrpc":"2.0","id":9,"method":"ListTasks","params":{}}'))
        assert await host.ended() == 0


def test_what_was_typed_wrong_is_told_by_the_exit_code(tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gateway", "stdio", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    for options, code, words in (
        ((), 2, "--agent"),
        (("--agent", "http://127.0.0.1:1", "-c", "x.yaml"), 2, "give the URL"),
        (("--agent", f"http://127.0.0.1:{refused_port()}"), 1, "cannot connect"),
        (("--agent", "echo"), 1, "gateway.yaml"),
        (("--agent", "http://127.0.0.1:1", "--key", "a", "--token", "b"), 2, "one credential"),
    ):
        done = run(*options)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert words in done.stderr
