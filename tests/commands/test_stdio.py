"""A host on stdio reaches agents behind HTTP and gRPC, alone or behind a gateway."""

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest

from gateway.a2a.framing.lsp import Framing
from gateway.commands.find_agent import FoundAgent
from gateway.commands.output import CommandFailed
from gateway.commands.stdio import Bridge, Session, address, bridge, command_line, served_path
from gateway.config.check import examine
from gateway.config.load import Examined
from tests.support.bridged import bridged, fronting, scripted, until
from tests.support.gateway import RESULT, keys, running, secret
from tests.support.scripted import answers, refused_port, whole
from tests.support.stdio_host import message
from tests.table import for_each

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
FRAMINGS = ("lsp", "ndjson")


# ---- Agents ----------------------------------------------------------------------------------------------------------


@for_each("framing", FRAMINGS)
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
        refused = await host.ask("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://127.0.0.1/x"})
        assert refused["error"]["data"][1]["reason"] == "PUSH_DENIED"


@for_each("framing", FRAMINGS)
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


@for_each(
    ("typed", "advertised", "path"),
    [
        ("http://gw/support", "https://public/a2a/support", "/support"),
        ("http://gw/x/support", "https://public/a2a/eu/x/support", "/x/support"),
        # A tenant behind it, on either side.
        ("http://gw/crm/acme", "https://public/a2a/crm", "/crm"),
        ("http://gw/crm", "https://public/a2a/crm/rpc", "/crm/rpc"),
        # The card's path is the one that is served.
        ("http://gw/support", "https://public/support", ""),
        ("http://gw/a2a", "https://public/a2a/support", ""),
        ("http://gw/support", "https://public/rpc", ""),
        ("http://gw/support", "https://public/a2a/supporter", ""),
        ("http://gw/support", "http://gw/a2a/support", ""),
        ("http://gw", "https://public/a2a/support", ""),
        ("http://gw/support", "https://public/a2a/../support", ""),
        ("http://gw/support", "https://[public/a2a/support", ""),
    ],
)
def test_a_prefix_is_named_as_it_was_typed(typed: str, advertised: str, path: str) -> None:
    interface = {"url": advertised, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    found = FoundAgent({"name": "A", "supportedInterfaces": [interface]}, f"{typed}/.well-known/agent-card.json")
    assert served_path(found) == path


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


async def test_the_bridge_is_an_agent_that_a_gateway_can_run(fleet: tuple[str, int]) -> None:
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
            command = f"a2a-gateway stdio --agent {fleet[0]}/echo"
            assert (card["preferredTransport"], card["url"]) == ("stdio", command)
            assert {each["url"] for each in card["supportedInterfaces"]} == {command}
            assert card["capabilities"]["extendedAgentCard"] is True
            assert "stdio.invalid" not in json.dumps(card)


@for_each(
    ("found", "framing", "command"),
    [
        (
            Bridge("https://h.test", "https://h.test/a/.well-known/agent-card.json", {}),
            "lsp",
            "--agent https://h.test/a",
        ),
        (Bridge("https://h.test", "https://h.test/.well-known/agent.json", {}), "lsp", "--agent https://h.test"),
        (Bridge("https://h.test", "https://h.test/a;b.json", {}), "lsp", "--agent 'https://h.test/a;b.json'"),
        (Bridge("grpc://127.0.0.1:1", None, {}, "acme"), "lsp", "--agent grpc://127.0.0.1:1 --tenant acme"),
        (
            Bridge("https://h.test", "https://h.test/a.json", {}),
            "ndjson",
            "--agent https://h.test/a.json --framing ndjson",
        ),
        (
            Bridge("https://h.test", "https://h.test/a.json", {"X-API-Key": "hidden"}),
            "lsp",
            "--agent https://h.test/a.json",
        ),
    ],
)
def test_the_card_says_how_this_program_is_started_for_this_agent(found: Bridge, framing: str, command: str) -> None:
    assert command_line(found.examined(), Framing(framing)) == f"a2a-gateway stdio {command}"


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


@for_each("framing", FRAMINGS)
async def test_a_refusal_from_before_the_body_was_read_reaches_the_call_that_it_refuses(
    fleet: tuple[str, int], framing: str
) -> None:
    text = f"""
    {keys(acme="acme").replace(chr(10), chr(10) + "    ")}
    tenants: {{ acme: {{ agents: [echo], limits: {{ requests: 1/h, burst: 1 }} }} }}
    agents: {{ echo: {fleet[0]}/echo }}
    """
    async with running(text) as gateway:
        url, key = f"http://127.0.0.1:{gateway.port}/echo", secret("acme").decode()
        async with bridged(url, key=key, framing=framing) as host:
            assert "message" in await host.ask("SendMessage", message("hi"))
            for method, older in (("SendMessage", False), ("SendStreamingMessage", False), ("message/stream", True)):
                refused = await host.ask(method, message("hi", older=older))
                assert "RATE_LIMITED" in json.dumps(refused).upper()
            assert host.strays == []


@for_each("status", [b"200 OK", b"400 Bad Request", b"429 Too Many Requests", b"503 Service Unavailable"])
async def test_an_agents_error_without_an_id_reaches_its_call(status: bytes) -> None:
    refused = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'
    async with scripted(answers(*[whole(refused, status=status)] * 2)) as (host, _):
        for method in ("SendMessage", "SendStreamingMessage"):
            assert "error" in await host.ask(method, message("hi"))


# ---- Before the first frame ------------------------------------------------------------------------------------------


def test_a_missing_agent_is_reported_before_serving() -> None:
    with pytest.raises(CommandFailed, match="cannot connect"):
        bridge(f"http://127.0.0.1:{refused_port()}/echo")
    with pytest.raises(CommandFailed, match="write the URL as"):
        bridge("ftp://127.0.0.1/x")
    with pytest.raises(CommandFailed, match="one credential"):
        bridge("http://127.0.0.1:1", key="a", token="b")


async def test_a_card_that_is_gone_by_then_is_told() -> None:
    found = Bridge(f"http://127.0.0.1:{refused_port()}", f"http://127.0.0.1:{refused_port()}/card.json", {})
    with pytest.raises(CommandFailed, match="card cannot be read"):
        await Session(found.examined(), io.BytesIO()).run(0, 1, Framing.LSP)


async def test_a_card_that_is_not_for_everybody_asks_for_a_credential(fleet: tuple[str, int]) -> None:
    async with fronting(*fleet) as gateway:
        with pytest.raises(CommandFailed, match="Use --key or --token"):
            await asyncio.to_thread(bridge, f"http://127.0.0.1:{gateway.port}/rest")


async def test_a_missing_credential_is_reported(fleet: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    async with fronting(*fleet) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/echo"
        async with bridged(url) as host:
            assert (await host.ask("SendMessage", message("hi")))["error"]["code"] == -32006
        told = [record.getMessage() for record in caplog.records if record.name == "gateway.commands.stdio"]
        assert told == ["the agent requires a credential. Use --key or --token."]
        caplog.clear()
        async with bridged(url, key=secret("acme").decode()):
            pass
        assert not [record for record in caplog.records if record.name == "gateway.commands.stdio"]


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
    with pytest.raises(CommandFailed, match="grpc://host:port") as failed:
        Bridge("grpc://127.0.0.1:9/path", None, {}).examined()
    # There is no file of which a line could be cited.
    assert ".yaml" not in failed.value.message


def file(more: str, gateway: str = "") -> Examined:
    text = f"version: 1\ngateway: {{ listen: 127.0.0.1:8080, {gateway} }}\nagents:\n{more}"
    examined = examine(Path("gateway.yaml"), {}, text=text)
    assert examined.config is not None, examined.errors
    return examined


@for_each(
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
