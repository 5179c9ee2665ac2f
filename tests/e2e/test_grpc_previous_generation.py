"""A2A 0.3 over gRPC with the last SDK of that generation.

Calls of 0.3 have neither a path nor a tenant, so its clients say by a key which agent they mean.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.conformance.matrix import entry, slug
from tests.conformance.running import agent_processes
from tests.conformance.software import EVERY_AGENT, SDK_0_3, SDK_1_3, Environment, Software
from tests.e2e.previous import PreviousClient, SdkFailed, previous_client
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.shared_site import found_by_key, key_of, picked
from tests.e2e.site import HOOK, HOOKS
from tests.identity.issuance import sha256

KEY, DESK_KEY = "a2a_the-key-of-acme", "a2a_the-key-of-the-desk"
CHUNKS = ["one ", "two"]
"""What `stream` makes of an artifact; see `tests/conformance/agents/serving.py`."""

# Those of 1.0 are run by the interpreter of the tests.
SOFTWARE = tuple(
    replace(each, environment=Environment("", "a2a-sdk")) if each.environment == SDK_1_3 else each
    for each in EVERY_AGENT
    if each.environment in (SDK_1_3, SDK_0_3)
)
OLD = next(each for each in SOFTWARE if each.key == "py-0.3 grpc")
EVERY_AGENT_OF_THEM = pytest.mark.parametrize("agent", SOFTWARE, ids=slug)

pytestmark = pytest.mark.skipif(bool(SDK_0_3.missing), reason=SDK_0_3.missing)


@dataclass(frozen=True, slots=True)
class Past:
    """A gateway, and a client of 0.3."""

    gateway: GatewayProcess
    client: PreviousClient

    @property
    def address(self) -> str:
        """Host and port where the gateway is called over gRPC."""
        said = re.search(r"gRPC on ([\d.]+:\d+)", self.gateway.said("gRPC on "))
        assert said is not None
        return said[1]

    def connect(self, agent: Software) -> dict[str, Any]:
        """Have the client find the agent that its key picks; its card."""
        shown = {"X-API-Key": key_of(slug(agent))}
        card: dict[str, Any] = self.client.do("connect", url=self.gateway.url, binding="GRPC", headers=shown)
        return card


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """The agents of both generations, each at a path and by a key of its own."""
    with ExitStack() as stack:
        places = stack.enter_context(agent_processes(SOFTWARE))
        agents = {
            slug(each): {**entry(each, place), "match": found_by_key(slug(each))} for each, place in places.items()
        }
        agents["desk"] = {**entry(OLD, places[OLD]), "match": {"path": "/desk", "key": "desk-key"}}
        configuration = {
            "gateway": {"listen_grpc": "127.0.0.1:0"},
            "auth": {
                "api_keys": {
                    "acme-key": {"sha256": sha256(KEY.encode()), "tenant": "acme"},
                    "desk-key": {"sha256": sha256(DESK_KEY.encode()), "tenant": "acme"},
                    **picked(map(slug, places)),
                }
            },
            "tenants": {"acme": ["*"]},
            "push": HOOKS,
            "agents": agents,
        }
        gateway = stack.enter_context(gateway_process(configuration, tmp_path_factory.mktemp("past")))
        yield Past(gateway, stack.enter_context(previous_client()))


def words(artifacts: list[dict[str, Any]]) -> list[str]:
    """The texts of artifacts."""
    return [part["text"] for artifact in artifacts for part in artifact["parts"]]


# ---- The client of 0.3 -----------------------------------------------------------------------------------------------


def test_there_are_agents_of_both_generations_over_every_binding() -> None:
    assert len({each.dialect for each in SOFTWARE}) == 6


@EVERY_AGENT_OF_THEM
def test_a_client_of_0_3_finds_any_agent_by_its_key(past: Past, agent: Software) -> None:
    card = past.connect(agent)
    listed = {card["preferredTransport"]: card["url"]}
    listed |= {each["transport"]: each["url"] for each in card["additionalInterfaces"]}
    assert listed["GRPC"] == past.address
    client = past.client
    [task] = client.do("send", text="echo this")
    assert (task["status"]["state"], words(task["artifacts"])) == ("completed", ["echo this"])
    assert client.do("get", task=task["id"])["artifacts"] == task["artifacts"]
    events = client.do("send", text="stream", how="streaming")
    assert words([each["artifact"] for each in events if "artifact" in each]) == CHUNKS
    assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)
    [message] = client.do("send", text="hello")
    assert message["kind"] == "message"
    [asked] = client.do("send", text="ask")
    [answered] = client.do("send", text="blue", task={"task_id": asked["id"], "context_id": asked["contextId"]})
    assert (asked["status"]["state"], answered["status"]["state"]) == ("input-required", "completed")
    made = client.do("set_push", task=task["id"], name="hook", url=HOOK)
    assert made["pushNotificationConfig"]["url"] == HOOK
    assert client.do("get_push", task=task["id"], name="hook") == made
    assert {skill["id"] for skill in client.do("extended")["skills"]} == {"echo", "secret"}


@EVERY_AGENT_OF_THEM
def test_a_running_task_is_joined_and_another_cancelled(past: Past, agent: Software) -> None:
    past.connect(agent)
    client, word = past.client, str(uuid.uuid4())
    [task] = client.do("send", text=f"wait {word}", how="polling")
    assert client.do("cancel", task=task["id"])["status"]["state"] == "canceled"
    [task] = client.do("send", text=f"wait {word}", how="polling")
    first, *_, last = client.do("resubscribe", task=task["id"], word=word)
    assert first["kind"] in ("task", "status-update", "artifact-update")
    assert (last["kind"], last["final"], last["status"]["state"]) == ("status-update", True, "completed")


@EVERY_AGENT_OF_THEM
def test_errors_are_called_what_0_3_calls_them(past: Past, agent: Software) -> None:
    past.connect(agent)
    with pytest.raises(SdkFailed) as unknown:
        past.client.do("get", task="no-such-task")
    assert (unknown.value.kind, unknown.value.text.partition(":")[0]) == ("NOT_FOUND", "TaskNotFoundError")
    [task] = past.client.do("send", text="echo this")
    with pytest.raises(SdkFailed) as over:
        past.client.do("cancel", task=task["id"])
    assert over.value.kind in ("UNIMPLEMENTED", "FAILED_PRECONDITION")
    assert over.value.text.startswith("TaskNotCancelableError: ")


def test_a_client_of_0_3_may_be_known_by_its_key_alone(past: Past) -> None:
    headers = {"X-API-Key": DESK_KEY}
    past.client.do("connect", url=past.address, binding="GRPC", headers=headers, blind=True)
    [task] = past.client.do("send", text="echo this")
    assert words(task["artifacts"]) == ["echo this"]


@pytest.mark.parametrize(("headers", "status"), [({}, "UNAUTHENTICATED"), ({"X-API-Key": KEY}, "NOT_FOUND")])
def test_a_client_of_0_3_that_says_nothing_of_the_agent_gets_nowhere(
    past: Past, headers: dict[str, str], status: str
) -> None:
    past.client.do("connect", url=past.address, binding="GRPC", headers=headers, blind=True)
    with pytest.raises(SdkFailed) as refused:
        past.client.do("send", text="echo this")
    assert refused.value.kind == status
