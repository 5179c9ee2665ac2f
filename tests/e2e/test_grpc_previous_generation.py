"""A2A 0.3 over gRPC with the last SDK of that generation, and the scoped service that was proposed for it.

Calls of 0.3 have neither a path nor a tenant, so its clients say by a key which agent they mean. No
SDK speaks the scoped service: its calls are written here by hand.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as messages
from a2a.utils.grpc_status import status_from_call
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # it ships no types

from gateway.a2a.fault import GATEWAY_DOMAIN
from tests.conformance.matrix import CARD_PATH, entry, slug
from tests.conformance.running import agent_processes
from tests.conformance.software import EVERY_AGENT, SDK_0_3, SDK_1_3, Environment, Software
from tests.e2e.previous import PreviousClient, SdkFailed, previous_client
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.shared_site import found_by_key, key_of, picked
from tests.e2e.site import HOOK, HOOKS
from tests.identity.issuance import sha256

KEY, DESK_KEY = "a2a_the-key-of-acme", "a2a_the-key-of-the-desk"
SCOPE_FIELD = 100
"""The number that `scope` has in requests of the scoped service; the proposal has given it none."""
SCOPED = "/a2a.v1.ScopedA2AService/"
CHUNKS = ["one ", "two"]
"""What `stream` makes of an artifact; see `tests/conformance/agents/serving.py`."""
WAIT = 20.0

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


# ---- The scoped service ----------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    low, high = number & 0x7F, number >> 7
    return bytes([low]) if not high else bytes([low | 0x80]) + varint(high)


def scoped(request: Any, *scopes: str, number: int = SCOPE_FIELD) -> bytes:
    """A request of the plain service with scopes behind it."""
    found: bytes = request.SerializeToString()
    for scope in scopes:
        found += varint(number << 3 | 2) + varint(len(scope.encode())) + scope.encode()
    return found


def sending(text: str) -> Any:
    """A message of the user's."""
    part = messages.Part(text=text)
    message = messages.Message(message_id=str(uuid.uuid4()), role=messages.ROLE_USER, content=[part])
    configuration = messages.SendMessageConfiguration(blocking=True)
    return messages.SendMessageRequest(request=message, configuration=configuration)


@pytest.fixture
def call(past: Past) -> Iterator[Callable[..., bytes]]:
    """Calls a method of the scoped service with one answer."""
    with grpc.insecure_channel(past.address) as channel:

        def done(method: str, request: bytes, key: str = KEY) -> bytes:
            answer: bytes = channel.unary_unary(SCOPED + method)(request, timeout=WAIT, metadata=[("x-api-key", key)])
            return answer

        yield done


def test_the_card_tells_clients_of_0_3_the_scope_of_an_agent_at_a_path(past: Past) -> None:
    card = httpx.get(f"{past.gateway.url}/{slug(OLD)}/{CARD_PATH}", trust_env=False).json()
    assert card["transportOptions"] == {
        "GRPC": {"service": "a2a.v1.ScopedA2AService", "scope": slug(OLD), "url": past.address}
    }
    assert "GRPC" not in {card["preferredTransport"], *(each["transport"] for each in card["additionalInterfaces"])}


@EVERY_AGENT_OF_THEM
def test_the_scope_says_which_agent_is_meant(call: Callable[..., bytes], agent: Software) -> None:
    answer = messages.SendMessageResponse.FromString(call("SendMessage", scoped(sending("echo this"), slug(agent))))
    assert [part.text for artifact in answer.task.artifacts for part in artifact.parts] == ["echo this"]
    found = messages.Task.FromString(
        call("GetTask", scoped(messages.GetTaskRequest(name=f"tasks/{answer.task.id}"), slug(agent)))
    )
    assert (found.id, found.artifacts) == (answer.task.id, answer.task.artifacts)
    card = messages.AgentCard.FromString(call("GetAgentCard", scoped(messages.GetAgentCardRequest(), slug(agent))))
    assert {skill.id for skill in card.skills} == {"echo", "secret"}


def test_streams_are_scoped_too(past: Past) -> None:
    with grpc.insecure_channel(past.address) as channel:
        stream = channel.unary_stream(SCOPED + "SendStreamingMessage")
        request = scoped(sending("stream"), slug(OLD))
        events = [
            messages.StreamResponse.FromString(event)
            for event in stream(request, timeout=WAIT, metadata=[("x-api-key", KEY)])
        ]
    parts = [part.text for each in events for part in each.artifact_update.artifact.parts]
    assert (parts, events[-1].status_update.final) == (CHUNKS, True)


@pytest.mark.parametrize(
    ("scopes", "number", "status", "reason"),
    [
        ((), SCOPE_FIELD, "INVALID_ARGUMENT", "BAD_REQUEST"),
        (("",), SCOPE_FIELD, "INVALID_ARGUMENT", "BAD_REQUEST"),
        (("nobody",), SCOPE_FIELD, "NOT_FOUND", "NO_ROUTE"),
        ((slug(OLD), "nobody"), SCOPE_FIELD, "INVALID_ARGUMENT", "DUPLICATE_KEY"),
        ((slug(OLD), slug(OLD)), SCOPE_FIELD, "INVALID_ARGUMENT", "DUPLICATE_KEY"),
        ((slug(OLD),), SCOPE_FIELD + 1, "INVALID_ARGUMENT", "BAD_REQUEST"),
    ],
    ids=["none", "empty", "nobody's", "two", "twice", "elsewhere"],
)
def test_a_call_that_is_not_scoped_to_one_agent_is_refused(
    call: Callable[..., bytes], scopes: tuple[str, ...], number: int, status: str, reason: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call("SendMessage", scoped(sending("echo this"), *scopes, number=number))
    assert refused.value.code().name == status
    told = status_from_call(refused.value)
    assert told is not None
    infos = [ErrorInfo.FromString(each.value) for each in told.details if each.Is(ErrorInfo.DESCRIPTOR)]
    assert reason in {info.reason for info in infos if info.domain == GATEWAY_DOMAIN}
