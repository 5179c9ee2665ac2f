"""Parts of an answer over gRPC that the gateway rewrites: the tenant of push configurations, and cards."""

import json
from pathlib import Path
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.support.gateway import Answer, Running, agent, card_of, keys, running, secret
from tests.support.grpc_agent import Asked, grpc_over, says
from tests.support.grpc_bytes import text_field
from tests.support.grpc_gateway import LISTENS, dialled, fronting, grpc_fronted, request
from tests.support.scripted import ScriptedBackend, Wire
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

V0_3, V1_0 = Version.V0_3, Version.V1_0
FUTURE = text_field(1000, "from a later generation")
EXPOSED = "expose: [jsonrpc, rest, grpc]"
ANYWHERE = f"match: [{{ path: /echo }}, {{ path: / }}]\n{EXPOSED}"
SPEAKS_0_3 = 'a2a_version: "0.3"'
SPEAKS_1_0 = 'a2a_version: "1.0"'

# ---- Push configurations ---------------------------------------------------------------------------------------------

CREATE, GET, LIST = Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS
HOOK: dict[str, Any] = {"id": "hook", "task_id": "t", "url": "https://hooks.example.com/a"}


def hook(tenant: str = "") -> bytes:
    return bytes(new.TaskPushNotificationConfig(tenant=tenant, **HOOK).SerializeToString())


async def echoes(asked: Asked) -> None:
    """Answers with the tenant that it was told, as agents of 1.0 do."""
    method = BY_PATH[asked.path]
    config = hook(request_class(method).FromString(asked.message).tenant) + FUTURE
    if method.operation is LIST:
        page = new.ListTaskPushNotificationConfigsResponse(configs=[new.TaskPushNotificationConfig.FromString(config)])
        config = bytes(page.SerializeToString()) + FUTURE
    await asked.write(config)


def tenants(operation: Operation, message: bytes) -> list[str]:
    """Return the tenants of the configurations in an answer, whose other fields are checked."""
    listed = operation is LIST
    kind = new.ListTaskPushNotificationConfigsResponse if listed else new.TaskPushNotificationConfig
    answer = kind.FromString(message)
    assert FUTURE in message
    configs = list(answer.configs) if listed else [answer]
    for config in configs:
        assert FUTURE in config.SerializeToString()
        assert (config.id, config.task_id, config.url) == tuple(HOOK.values())
    return [config.tenant for config in configs]


BILLING = "match: { path: /, tenant: billing }"
TREATED = {
    # Settings, and the tenants that the client writes, the agent gets, and the client reads.
    "its name": ("", "echo", "", ""),
    "a value of the file's": ("upstream_tenant: acme-prod", "echo", "acme-prod", "echo"),
    "nothing": ("upstream_tenant: acme-prod\nmatch: { path: / }", "", "acme-prod", ""),
    "a tenant of its own": (f"{BILLING}\nupstream_tenant: keep", "billing", "billing", "billing"),
    "one that stays here": (f"{BILLING}\nupstream_tenant: strip", "billing", "", ""),
}  # fmt: skip


@for_each("name", TREATED)
@for_each("operation", [CREATE, GET, LIST])
async def test_a_client_reads_the_tenant_that_it_wrote_and_none_that_the_agent_was_told(
    name: str, operation: Operation
) -> None:
    more, written, expected, echoed = TREATED[name]
    members = HOOK if operation is CREATE else {"task_id": "t"} | ({"id": "hook"} if operation is GET else {})
    async with grpc_fronted(echoes, more) as site:
        told = await site.client.ask(operation, request(operation, tenant=written, **members))
        [asked] = site.agent.asked
        assert request_class(BY_PATH[asked.path]).FromString(asked.message).tenant == expected
        [message] = told.messages
        assert tenants(operation, message) == [echoed]


@for_each(("said", "seen"), [({}, None), ({"tenant": "eu"}, "eu")])
async def test_clients_over_json_read_only_their_own_tenant_too(said: dict[str, str], seen: str | None) -> None:
    params = {"taskId": "t", **said}
    async with grpc_fronted(echoes, "upstream_tenant: acme-prod", backend=SPEAKS_1_0) as site:
        for method in ("GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "id": "hook"}}
            if "List" in method:
                del body["params"]["id"]  # type: ignore[attr-defined]  # the parameters are a dictionary
            answer = await site.gateway.post("/echo", json.dumps(body).encode())
            result = answer.json["result"]
            [config] = result["configs"] if "List" in method else [result]
            assert config.get("tenant") == seen
            assert b"acme-prod" not in answer.body
        path = await site.gateway.get("/echo/v1/tasks/t/pushNotificationConfigs/hook")
        assert path.json["pushNotificationConfig"] == {"id": "hook", "url": HOOK["url"]}


async def test_a_deletion_is_answered_with_nothing_that_an_agent_adds() -> None:
    async with grpc_fronted(says(b""), backend=SPEAKS_1_0) as site:
        deletion = request(Operation.DELETE_PUSH_CONFIG, task_id="t", id="hook")
        assert (await site.client.ask(Operation.DELETE_PUSH_CONFIG, deletion)).messages == (b"",)
        answer = await site.gateway.ask("DELETE", "/echo/v1/tasks/t/pushNotificationConfigs/hook")
        assert (answer.status, answer.json) == (200, {})


# ---- Extended cards --------------------------------------------------------------------------------------------------

CARD = Operation.GET_EXTENDED_CARD


def card_1_0(at: str) -> bytes:
    card = new.AgentCard(
        name="Order Agent",
        description=f"Reads orders; ask {at} directly.",
        version="2.1.0",
        supported_interfaces=[
            new.AgentInterface(url=at, protocol_binding="GRPC", protocol_version="1.0", tenant="inside"),
            new.AgentInterface(url="http://10.0.0.7/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
        ],
        capabilities=new.AgentCapabilities(streaming=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[new.AgentSkill(id="secret", name="S", description=f"of {at}", tags=["t"])],
    )
    card.signatures.add(protected="p", signature="s")
    return bytes(card.SerializeToString()) + FUTURE


def card_0_3(at: str) -> bytes:
    card = old.AgentCard(
        protocol_version="0.3.0",
        name="Order Agent",
        description=f"Reads orders; ask {at} directly.",
        version="2.1.0",
        url=at,
        preferred_transport="GRPC",
        additional_interfaces=[old.AgentInterface(url="http://10.0.0.7/rpc", transport="JSONRPC")],
        capabilities=old.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supports_authenticated_extended_card=True,
        skills=[old.AgentSkill(id="secret", name="S", description=f"of {at}", tags=["t"])],
    )
    return bytes(card.SerializeToString()) + FUTURE


class Carded:
    """An agent behind gRPC with an extended card that names its addresses."""

    def __init__(self) -> None:
        self.at = ""

    async def __call__(self, asked: Asked) -> None:
        await asked.write((card_0_3 if asked.path.startswith("/a2a.v1.") else card_1_0)(self.at))


async def extended_cards(gateway: Running) -> list[tuple[Any, Answer]]:
    """The extended card, as clients of JSON get it: over JSON-RPC and HTTP+JSON, of 1.0 and 0.3."""
    found = []
    for method in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()
        answer = await gateway.post("/echo", body)
        found.append((answer.json["result"], answer))
    for path, headers in (("/echo/extendedAgentCard", [(b"A2A-Version", b"1.0")]), ("/echo/v1/card", [])):
        answer = await gateway.get(path, headers)
        found.append((answer.json, answer))
    return found


@for_each("backend", [SPEAKS_1_0, SPEAKS_0_3])
async def test_an_extended_card_names_the_gateway_and_no_address_of_the_agents(backend: str) -> None:
    carded = Carded()
    async with grpc_fronted(carded, ANYWHERE, backend=backend) as site:
        carded.at = f"127.0.0.1:{site.agent.port}"
        url = site.gateway.gateway.public_url
        grpc = site.gateway.gateway.grpc_address
        modern = await site.client.ask(CARD)
        older = await site.client.ask(CARD, b"", version=V0_3)
        text = modern.text + older.text
        card = new.AgentCard.FromString(*modern.messages)
        assert (card.name, card.version, [skill.id for skill in card.skills]) == ("Order Agent", "2.1.0", ["secret"])
        # The plain service of 0.3 knows no names, and is not the agent's at its path.
        listed = [
            (each.url, each.protocol_binding, each.protocol_version, each.tenant) for each in card.supported_interfaces
        ]
        assert (grpc, "GRPC", "1.0", "echo") in listed
        assert (f"{url}/echo", "JSONRPC", "1.0", "") in listed
        assert {each[0] for each in listed} <= {grpc, f"{url}/echo"}
        assert not card.signatures
        old_card = old.AgentCard.FromString(*older.messages)
        assert (old_card.name, [skill.id for skill in old_card.skills]) == ("Order Agent", ["secret"])
        at = {old_card.url, *(each.url for each in old_card.additional_interfaces)}
        assert at <= {grpc, url, f"{url}/"}
        assert old_card.supports_authenticated_extended_card
        for tree, answer in await extended_cards(site.gateway):
            assert (answer.status, tree["name"], tree["skills"][0]["id"]) == (200, "Order Agent", "secret")
            text += answer.body.decode()
        assert not any(word in text for word in (carded.at, "10.0.0.7", "inside", "later generation"))


async def test_an_extended_card_that_is_none_is_no_answer() -> None:
    for message in (b"", b"\x0a\xff", bytes(new.AgentCard(description="nameless").SerializeToString())):
        async with grpc_fronted(says(message), EXPOSED, backend=SPEAKS_1_0) as site:
            told = await site.client.ask(CARD)
            assert (told.messages, told.code) == ((), "INTERNAL")
            assert told.reasons == ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"]
            rest = await site.gateway.get("/echo/extendedAgentCard", [(b"A2A-Version", b"1.0")])
            assert (rest.status, rest.reasons) == (502, ["INVALID_AGENT_RESPONSE", "UPSTREAM_PROTOCOL"])


# ---- The card that anybody may see -----------------------------------------------------------------------------------


def written(folder: Path, *dialects: str, **members: Any) -> dict[str, Any]:
    """An agent whose card is a file."""
    (folder / "card.json").write_bytes(card_of("https://10.0.0.7", *dialects, **members))
    return {"path": folder / "gateway.yaml"}


async def refuses(wire: Wire) -> None:
    """An agent that nobody is to ask."""
    await wire.request()


PLAIN: dict[str, Any] = {"capabilities": {"streaming": True}}
DIALECTS = [["JSONRPC 1.0"], ["HTTP+JSON 0.3", "JSONRPC 0.3"]]


@pytest.mark.parametrize("dialects", DIALECTS)
async def test_the_card_of_an_agent_without_an_extended_one_is_the_one_that_anybody_may_see(
    dialects: list[str], tmp_path: Path
) -> None:
    """0.3 has one method for both over gRPC, and its SDKs call it for either."""
    given = written(tmp_path, *dialects, **PLAIN)
    more = f"card: card.json\n{ANYWHERE}"
    async with ScriptedBackend(refuses) as backend, fronting(backend.url, more, **given) as (gateway, client):
        told = await client.ask(CARD, b"", version=V0_3)
        [message] = told.messages
        card = old.AgentCard.FromString(message)
        assert (card.name, card.supports_authenticated_extended_card) == ("Scripted", False)
        places = {card.url, *(each.url for each in card.additional_interfaces)}
        # At the root there is no name to say: that is where it was asked.
        url = gateway.gateway.public_url
        assert places == {url, url + "/", gateway.gateway.grpc_address}
        assert "10.0.0.7" not in told.text
        assert backend.requests == []
        line = await gateway.line()
        assert (line["operation"], line["binding"], line["a2a_version"]) == ("GetExtendedAgentCard", "grpc", "0.3")
        assert (line["agent"], line["attempts"], line["outcome"]) == ("echo", 0, "ok")
        assert line["bytes_out"] == len(message) + 5
        # Clients of 1.0 have another method for it, and it is the agent's.
        assert (await client.ask(CARD)).reasons == ["UPSTREAM_RESET"]
        # It may be asked for twice.
        assert len(backend.requests) == 2


async def test_an_agent_with_an_extended_card_is_asked_for_that_one(tmp_path: Path) -> None:
    given = written(tmp_path, "GRPC 1.0")
    carded = Carded()
    async with grpc_fronted(carded, f"card: card.json\n{ANYWHERE}", **given) as site:
        told = await site.client.ask(CARD, b"", version=V0_3)
        assert old.AgentCard.FromString(*told.messages).skills[0].id == "secret"
        [asked] = site.agent.asked
        assert asked.path == "/lf.a2a.v1.A2AService/GetExtendedAgentCard"


async def test_the_card_of_each_tenant_is_its_own() -> None:
    agents = {name: agent(refuses, card_of("https://10.0.0.7", "JSONRPC 1.0", name=name, **PLAIN)) for name in TENANTS}
    async with ScriptedBackend(agents["acme"]) as acme, ScriptedBackend(agents["globex"]) as globex:
        text = f"""\
gateway: {{ {LISTENS} }}
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
defaults: {{ isolation: none }}
agents:
  crm:
    match: {{ path: / }}
    by_tenant: {{ acme: {acme.url}, globex: {globex.url} }}
    expose: [jsonrpc, grpc]
"""
        async with running(text) as gateway, dialled(gateway) as client:
            for tenant in TENANTS:
                shown = ("x-api-key", secret(tenant).decode())
                told = await client.ask(CARD, b"", shown, version=V0_3)
                assert old.AgentCard.FromString(*told.messages).name == tenant
                # By the scoped service likewise.
                told = await client.ask(CARD, text_field(100, tenant), shown, version=V0_3, scoped=True)
                assert old.AgentCard.FromString(*told.messages).name == tenant
            foreign = await client.ask(
                CARD, text_field(100, "globex"), ("x-api-key", secret("acme").decode()), version=V0_3, scoped=True
            )
            assert (foreign.messages, foreign.code) == ((), "NOT_FOUND")
            assert (await client.ask(CARD, b"", version=V0_3)).code == "UNAUTHENTICATED"
        assert acme.requests == globex.requests == []


TENANTS = ("acme", "globex")
