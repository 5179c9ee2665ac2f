"""A2A 0.3 with the last SDK of that generation on either side, and what each generation is told of the other."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.every_operation import asks_all
from tests.e2e.previous import PreviousAgent, PreviousClient, SdkFailed, previous_agent, previous_client
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.sdk import BINDINGS, open_http
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
