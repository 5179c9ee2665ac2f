"""Every interface that either card of an agent lists works, for agents of every generation, however they are found.

Clients are told one interface only and cannot pick another. `tests/conformance` has more software and operations.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import AgentCard, AgentInterface, GetTaskRequest
from a2a.utils.errors import MethodNotFoundError, TaskNotFoundError

from tests.conformance.matrix import slug
from tests.conformance.running import agent_processes
from tests.conformance.software import AGENTS, DOUBLES, JSONRPC, REST, SDK_0_3, SDK_1_3, Environment, Software
from tests.e2e.previous import PreviousClient, SdkFailed, previous_client
from tests.e2e.process import gateway_process
from tests.e2e.sdk import COMPLETED, open_http, saying, send, texts, told
from tests.e2e.wire import V1, frame, message, old_message
from tests.support.ancient_client import AncientClient, Failed
from tests.table import cells

pytestmark = pytest.mark.skipif(bool(SDK_0_3.missing), reason=SDK_0_3.missing)

NEW, OLD = ".well-known/agent-card.json", ".well-known/agent.json"
BOTH = (JSONRPC, REST)
CHUNKS = ["one ", "two"]
"""What `stream` makes of an artifact; see `tests/conformance/agents/serving.py`."""
OLD_REST_MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "echo this"}]}
NARROWED = {"rpc-only": JSONRPC, "rest-only": REST}


def _named(each: Software | str) -> str:
    return each if isinstance(each, str) else slug(each)


# Those of 1.0 are run by the interpreter of the tests.
SOFTWARE = tuple(
    replace(each, environment=Environment("", "a2a-sdk")) if each.environment == SDK_1_3 else each
    for each in AGENTS
    if each.environment in (SDK_1_3, SDK_0_3, DOUBLES)
)
WAYS = ("{}", "a2a/{}", "crm/{}")
EVERY_AGENT_AND_WAY = pytest.mark.parametrize(("agent", "way"), cells(SOFTWARE, WAYS), ids=_named)
"""`way` is where the card is. Clients of 1.0 call the second and third at `/a2a` and `/crm`, with a tenant."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """All the agents, each by a path, by a tenant, as the backend of a tenant, and with narrowed cards."""
    with ExitStack() as stack:
        urls = {slug(each): place.url for each, place in stack.enter_context(agent_processes(SOFTWARE)).items()}
        agents: dict[str, Any] = {}
        for name, url in urls.items():
            agents[name] = url
            agents[f"{name}-shared"] = {"backend": url, "match": {"path": "/a2a", "tenant": name}}
            agents[f"{name}-rpc-only"] = {"backend": url, "expose": "jsonrpc"}
            agents[f"{name}-rest-only"] = {"backend": url, "expose": ["rest"]}
        agents["crm"] = {"match": {"path": "/crm"}, "by_tenant": urls}
        configuration = {"defaults": {"isolation": "none"}, "agents": agents}
        yield stack.enter_context(gateway_process(configuration, tmp_path_factory.mktemp("gateway"))).url


@pytest.fixture(scope="module")
def previous() -> Iterator[PreviousClient]:
    with previous_client() as client:
        yield client


def test_there_are_agents_of_every_generation_over_every_binding_of_it() -> None:
    assert {each.dialect for each in SOFTWARE} == {("1.0", JSONRPC), ("1.0", REST), ("0.3", JSONRPC), ("0.3", REST), (
        "0.1", JSONRPC)}  # fmt: skip


@pytest.mark.anyio
@EVERY_AGENT_AND_WAY
async def test_a_client_of_1_0_may_take_any_interface_of_either_card(gateway: str, agent: Software, way: str) -> None:
    url = f"{gateway}/{way.format(slug(agent))}"
    async with open_http() as http:
        for path, dialects in (
            (NEW, [("1.0", JSONRPC), ("1.0", REST), ("0.3", JSONRPC), ("0.3", REST)]),
            # The SDK reads a card of 0.3 as one of its own, whose version has a patch number.
            (OLD, [("0.3.0", JSONRPC), ("0.3.0", REST)]),
        ):
            card = await A2ACardResolver(http, url, path).get_agent_card()
            listed = [(each.protocol_version, each.protocol_binding) for each in card.supported_interfaces]
            assert sorted(listed) == sorted(dialects)
            for interface in card.supported_interfaces:
                async with only(card, interface, http) as clients:
                    await talk(*clients)


@EVERY_AGENT_AND_WAY
@pytest.mark.parametrize("path", [NEW, OLD])
def test_a_client_of_0_3_may_take_any_interface_of_either_card(
    gateway: str, previous: PreviousClient, agent: Software, way: str, path: str
) -> None:
    for binding in BOTH:
        card = previous.do(
            "connect", url=f"{gateway}/{way.format(slug(agent))}", binding=binding, headers={}, path=path
        )
        listed = {card["preferredTransport"], *(each["transport"] for each in card["additionalInterfaces"])}
        assert listed == set(BOTH)
        [task] = previous.do("send", text="echo this")
        assert (task["status"]["state"], words(task["artifacts"])) == ("completed", ["echo this"])
        assert previous.do("get", task=task["id"])["artifacts"] == task["artifacts"]
        events = previous.do("send", text="stream", how="streaming")
        assert words([each["artifact"] for each in events if "artifact" in each]) == CHUNKS
        assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)
        [asked] = previous.do("send", text="ask")
        [answered] = previous.do("send", text="blue", task={"task_id": asked["id"], "context_id": asked["contextId"]})
        assert (asked["status"]["state"], answered["status"]["state"]) == ("input-required", "completed")
        with pytest.raises(SdkFailed) as refused:
            previous.do("get", task="none")
        assert refused.value.code == (-32001 if binding == JSONRPC else 404)


@pytest.mark.anyio
@EVERY_AGENT_AND_WAY
async def test_a_client_of_0_1_calls_what_its_card_says(gateway: str, agent: Software, way: str) -> None:
    async with open_http() as http:
        card = (await http.get(f"{gateway}/{way.format(slug(agent))}/{OLD}")).json()
        client = AncientClient(http, card["url"])
        task = await client.send("echo this")
        assert (task["status"]["state"], words(task["artifacts"])) == ("completed", ["echo this"])
        assert (await client.get(task["id"]))["artifacts"] == task["artifacts"]
        events = [event async for event in client.stream("stream")]
        assert words([each["artifact"] for each in events if "artifact" in each]) == CHUNKS
        assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)
        asked = await client.send("ask")
        answered = await client.send("blue", id=asked["id"])
        assert (asked["status"]["state"], answered["status"]["state"]) == ("input-required", "completed")
        with pytest.raises(Failed) as refused:
            await client.get("none")
        assert refused.value.code == -32001


@pytest.mark.anyio
@pytest.mark.parametrize(("agent", "exposed"), cells(SOFTWARE, tuple(NARROWED)), ids=_named)
async def test_a_narrowed_card_lists_one_binding_and_the_other_still_answers(
    gateway: str, agent: Software, exposed: str
) -> None:
    url = f"{gateway}/{slug(agent)}-{exposed}"
    async with open_http() as http:
        cards = [(await http.get(f"{url}/{path}")).json() for path in (NEW, OLD)]
        for card in cards:
            assert card["preferredTransport"] == NARROWED[exposed]
            assert "additionalInterfaces" not in card
            assert "supportedInterfaces" not in card or [
                (each["protocolVersion"], each["protocolBinding"]) for each in card["supportedInterfaces"]
            ] == [("1.0", NARROWED[exposed]), ("0.3", NARROWED[exposed])]
        for answer in (
            await http.post(url, content=frame("SendMessage", message("echo this")), headers=V1),
            await http.post(url, content=frame("message/send", old_message("echo this"))),
            await http.post(f"{url}/message:send", json=message("echo this"), headers=V1),
            await http.post(f"{url}/v1/message:send", json={"message": OLD_REST_MESSAGE}),
        ):
            assert answer.status_code == 200
            assert "echo this" in answer.text


@asynccontextmanager
async def only(
    card: AgentCard, interface: AgentInterface, http: httpx.AsyncClient
) -> AsyncIterator[tuple[Client, Client]]:
    """A client that streams and one that does not, of a card that lists one interface."""
    narrow = AgentCard()
    narrow.CopyFrom(card)
    del narrow.supported_interfaces[:]
    narrow.supported_interfaces.append(interface)
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[interface.protocol_binding])
    yield ClientFactory(config).create(narrow), ClientFactory(replace(config, streaming=False)).create(narrow)


async def talk(streaming: Client, unary: Client) -> None:
    """A send, a look at its task, a stream, a second turn, and an error."""
    task = await send(unary, saying("echo this"))
    assert (task.status.state, texts(task)) == (COMPLETED, ["echo this"])
    assert texts(await unary.get_task(GetTaskRequest(id=task.id))) == ["echo this"]
    events = [event async for event in streaming.send_message(saying("stream"))]
    assert told(events) == CHUNKS
    assert events[-1].status_update.status.state == COMPLETED
    answered = await send(unary, saying("blue", await send(unary, saying("ask"))))
    assert (answered.status.state, texts(answered)) == (COMPLETED, ["told blue"])
    # A 404 of an agent of 0.3 says no more over HTTP+JSON, where it is passed on as it came.
    with pytest.raises((TaskNotFoundError, MethodNotFoundError)):
        await unary.get_task(GetTaskRequest(id="none"))


def words(artifacts: list[dict[str, Any]]) -> list[str]:
    """The texts of artifacts of 0.3 or 0.1."""
    return [part["text"] for artifact in artifacts for part in artifact["parts"]]
