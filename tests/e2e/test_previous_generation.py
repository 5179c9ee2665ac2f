"""A2A 0.3 with the last SDK of that generation on either side, and what each generation is told of the other."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, TaskState
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError

from tests.e2e.agents.agent import SECRET_SKILL, Agent, Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.every_operation import asks_all
from tests.e2e.previous import PreviousAgent, PreviousClient, SdkFailed, previous_agent, previous_client
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.sdk import BINDINGS, COMPLETED, open_http, saying, send, texts, told
from tests.e2e.site import ACME_KEY, DESK_KEY, FORGED, HOOKS, api_key
from tests.e2e.wire import V1, error, frame, old_message, reasons
from tests.identity.issuance import sha256
from tests.table import cells


@dataclass(frozen=True, slots=True)
class Past:
    """A gateway in front of an agent of 0.3 and one of 1.0."""

    gateway: GatewayProcess
    old: PreviousAgent
    new: Agent
    client: PreviousClient


@dataclass(frozen=True, slots=True)
class Road:
    """One way to the agent of 0.3, which cannot be told a tenant but by its URL."""

    path: str
    key: str
    url: str = ""

    def __str__(self) -> str:
        return self.path.strip("/").replace("/", "-")


ROADS = (
    Road("/old", ACME_KEY),
    Road("/desk", DESK_KEY),
    Road("/a2a/old", ACME_KEY),
    Road("/crm", ACME_KEY, "/crm/acme"),
)


@pytest.fixture(scope="module")
def past(ground: Grounds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    new = ground.agent(Shape("new"))
    with previous_agent("old") as old:
        configuration = {
            "auth": {
                "api_keys": {
                    "acme-key": {"sha256": sha256(ACME_KEY.encode()), "tenant": "acme"},
                    "desk-key": {"sha256": sha256(DESK_KEY.encode()), "tenant": "acme"},
                }
            },
            "tenants": {"acme": ["*"]},
            "push": HOOKS,
            "agents": {
                "old": old.url,
                "new": new.url,
                "desk": {"backend": old.url, "match": {"path": "/desk", "key": "desk-key"}},
                "shared": {"backend": old.url, "match": {"path": "/a2a", "tenant": "old"}},
                "crm": {"match": {"path": "/crm"}, "by_tenant": {"acme": old.url}},
            },
        }
        folder = tmp_path_factory.mktemp("past")
        with gateway_process(configuration, folder) as gateway, previous_client() as client:
            yield Past(gateway, old, new, client)


every_road = pytest.mark.parametrize(("road", "binding"), cells(ROADS, BINDINGS), ids=str)


@pytest.fixture
def client(past: Past, road: Road, binding: str) -> PreviousClient:
    """A client of 0.3 that has found the agent of 0.3 from nothing but its URL behind the gateway."""
    card = past.client.do(
        "connect", url=past.gateway.url + road.path, binding=binding, headers={**FORGED, **api_key(road.key)}
    )
    public = past.gateway.url + (road.url or road.path)
    assert card["name"] == "old"
    assert card["url"] == public
    assert {interface["url"] for interface in card["additionalInterfaces"]} == {public}
    assert {interface["transport"] for interface in card["additionalInterfaces"]} | {card["preferredTransport"]} == set(
        BINDINGS
    )
    assert past.old.port not in str(card)
    return past.client


@every_road
def test_a_client_of_0_3_notices_nothing_of_an_agent_of_0_3(
    past: Past, client: PreviousClient, road: Road, binding: str
) -> None:
    asks_all(client, "old", binding)
    text = f"hello {uuid.uuid4()}"
    client.do("send", text=text)
    call = past.old.received(text)
    assert call["path"] == ("/rpc" if binding == "JSONRPC" else "/rest/v1/message:send")
    assert call["headers"]["x-a2a-tenant"] == "acme"
    assert not {"x-api-key", "authorization", "cookie", "x-anything", "a2a-version"} & set(call["headers"])
    [task] = client.do("send", text="wait", how="polling")
    first, *_, last = client.do("resubscribe", task=task["id"])
    assert first["kind"] in ("artifact-update", "status-update", "task")
    assert (last["kind"], last["final"], last["status"]["state"]) == ("status-update", True, "completed")
    card = client.do("extended")
    assert card["url"] == past.gateway.url + (road.url or road.path)
    assert past.old.port not in str(card)
    with pytest.raises(SdkFailed):
        client.do("cancel", task="no-such-task")


# ---- One generation meets the other --------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_client_of_0_3_notices_nothing_of_an_agent_of_1_0(past: Past, binding: str) -> None:
    client = past.client
    card = client.do("connect", url=past.gateway.url + "/new", binding=binding, headers=api_key(ACME_KEY))
    assert card["name"] == "new"
    asks_all(client, "new", binding)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.anyio
async def test_a_client_of_1_0_notices_nothing_of_an_agent_of_0_3(past: Past, binding: str) -> None:
    async with open_http(api_key(ACME_KEY)) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        client = await create_client(past.gateway.url + "/old", config)
        unary = await create_client(
            past.gateway.url + "/old",
            ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False),
        )
        task = await send(unary, saying("hello"))
        assert (task.status.state, texts(task)) == (COMPLETED, ["old: hello"])
        events = [event async for event in client.send_message(saying("stream 2"))]
        assert told(events) == ["old: part 0", "old: part 1"]
        assert (await unary.get_task(GetTaskRequest(id=task.id))).status.state == TaskState.TASK_STATE_COMPLETED
        with pytest.raises(TaskNotFoundError):
            await unary.cancel_task(CancelTaskRequest(id="no-such-task"))
        with pytest.raises(UnsupportedOperationError):
            await unary.list_tasks(ListTasksRequest())


@pytest.mark.anyio
async def test_an_operation_that_the_agents_generation_lacks_is_unsupported_and_goes_nowhere(past: Past) -> None:
    url, after = past.gateway.url + "/old", f"after {uuid.uuid4()}"
    async with open_http(api_key(ACME_KEY)) as http:
        rpc = await http.post(url, content=frame("ListTasks", {"contextId": "never seen"}), headers=V1)
        rest = await http.get(url + "/tasks?contextId=never%20seen", headers=V1)
        await http.post(url, content=frame("message/send", old_message(after)))
    assert (rpc.status_code, error(rpc)["code"]) == (200, -32004)
    assert (rest.status_code, error(rest)["status"]) == (400, "FAILED_PRECONDITION")
    for answer in (rpc, rest):
        assert error(answer)["message"] == "this agent speaks A2A 0.3, which has no ListTasks"
        assert "UNSUPPORTED_OPERATION" in reasons(answer)
    past.old.received(after)
    assert not past.old.knows("never seen")
    assert not past.old.knows("never%20seen")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "params"),
    [("message/send", old_message("hello")), ("message/stream", old_message("stream 1"))],
)
async def test_a_0_3_client_may_say_0_3_or_nothing(past: Past, method: str, params: dict[str, object]) -> None:
    async with open_http(api_key(ACME_KEY)) as http:
        for headers in ({}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.3.0"}, {"A2A-Version": "0.2.6"}):
            answer = await http.post(past.gateway.url + "/old", content=frame(method, params), headers=headers)
            assert "old: " in answer.text


@pytest.mark.anyio
async def test_the_extended_card_of_0_2_is_rebuilt_too(past: Past) -> None:
    async with open_http(api_key(ACME_KEY)) as http:
        answer = await http.get(past.gateway.url + "/old/agent/authenticatedExtendedCard")
    assert answer.status_code == 200
    assert SECRET_SKILL in {skill["id"] for skill in answer.json()["skills"]}
    assert answer.json()["url"] == past.gateway.url + "/old"
    assert past.old.port not in answer.text
