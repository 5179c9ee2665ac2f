"""Two tenants share agents that tell anybody of any task, and nothing leaks: clients on the last a2a-sdk 0.3."""

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.conversing import context_of
from tests.e2e.previous import PreviousAgent, PreviousClient, SdkFailed, previous_agent, previous_client
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.shared_site import ACME, GLOBEX, Witness, found_by_key, key_of, new_id, picked, tenancy
from tests.e2e.site import HOOK, api_key
from tests.support.mark import shows_mark
from tests.table import cells

TENANTS = ("acme", "globex")
CARD = "/.well-known/agent-card.json"
NOT_FOUND = {"JSONRPC": "A2AClientJSONRPCError -32001", "HTTP+JSON": "A2AClientHTTPError 404", "GRPC": "NOT_FOUND 5"}
"""Bindings, and what the SDK makes of TaskNotFound over each, in the words of `legacy/client.py`."""
DEAF = ("HTTP+JSON", "subscribes")
UNREAD = "A2AClientHTTPError 400: HTTP Error 400: Invalid SSE response"
"""What the SDK says of every error there, whatever it is: it looks at the content type first."""
_IDS = re.compile(r"\b[0-9a-f]{16}\b|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a request, and of a task in a URL that the SDK names."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A gateway in front of an agent of either generation, and a client for each tenant."""

    gateway: GatewayProcess
    new: Agent
    old: PreviousAgent
    acme: PreviousClient
    globex: PreviousClient

    def connect(self, agent: str, binding: str) -> Witness:
        """Have both clients find an agent of the file; what it is."""
        by_key = binding == "GRPC"
        url = self.gateway.url if by_key else f"{self.gateway.url}/{agent}"
        for client, tenant, shown in ((self.acme, "acme", ACME), (self.globex, "globex", GLOBEX)):
            headers = api_key(key_of(agent, tenant)) if by_key else shown
            client.do("connect", url=url, binding=binding, headers=headers)
        return self.new if agent == "new" else self.old


@pytest.fixture(scope="module")
def shared(ground: Grounds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with ExitStack() as stack:
        new, old = ground.agent(Shape("new")), stack.enter_context(previous_agent("old"))
        over_grpc = {"url": f"grpc://{old.grpc}", "a2a_version": "0.3"}
        backends: dict[str, dict[str, Any]] = {
            "new": {"backend": new.url},
            "old": {"backend": old.url},
            "old-grpc": {"backend": over_grpc, "card": old.url + CARD},
        }
        agents = {
            name: {
                **backend,
                "match": found_by_key(name, TENANTS),
                "expose": ["jsonrpc", "rest", "grpc"],
            }
            for name, backend in backends.items()
        }
        written = tenancy()
        written["auth"]["api_keys"] |= picked(backends, TENANTS)
        configuration = {**written, "gateway": {"listen_grpc": "127.0.0.1:0"}, "agents": agents}
        gateway = stack.enter_context(gateway_process(configuration, tmp_path_factory.mktemp("shared")))
        acme, globex = stack.enter_context(previous_client()), stack.enter_context(previous_client())
        yield Shared(gateway, new, old, acme, globex)


every_agent = pytest.mark.parametrize(("agent", "binding"), cells(("new", "old", "old-grpc"), tuple(NOT_FOUND)))


def attempts(task: str, agent: str, binding: str) -> dict[str, dict[str, Any]]:
    """All that can be tried on a task by who knows its id, in an order in which its owner can do it."""
    tried: dict[str, dict[str, Any]] = {
        "gets": {"what": "get", "task": task},
        "sets a webhook": {"what": "set_push", "task": task, "name": "hook", "url": HOOK},
        "gets a webhook": {"what": "get_push", "task": task, "name": "hook"},
        "refers": {"what": "send", "text": "as before", "task": {"reference_task_ids": [task]}},
        "subscribes": {"what": "join", "task": task},
        "goes on": {"what": "send", "text": "blue", "task": {"task_id": task}},
        "goes on with a webhook": {"what": "send", "text": "blue", "task": {"task_id": task}, "hook": HOOK},
        "goes on as a stream": {"what": "send", "text": "blue", "task": {"task_id": task}, "how": "streaming"},
        "cancels": {"what": "cancel", "task": task},
    }
    if binding != "JSONRPC" or agent == "old-grpc":
        # Only there that generation has a place for references; elsewhere nobody is told of them.
        del tried["refers"]
    return tried


ENDING = ("goes on", "goes on with a webhook", "goes on as a stream", "cancels")
"""What its owner does with a task of its own each, which asks back."""


def refusal(client: PreviousClient, attempt: dict[str, Any]) -> str:
    """What comes of an attempt that fails, but for ids."""
    with pytest.raises(SdkFailed) as refused:
        client.do(**attempt)
    return _IDS.sub("-", str(refused.value))


def calls(client: PreviousClient, agent: Witness) -> int:
    """How many calls an agent has received up to now."""
    word = f"mark {uuid.uuid4()}"
    client.do("send", text=word)
    return agent.seen(word)


@every_agent
def test_to_another_tenant_a_task_is_none_and_the_agent_hears_nothing(shared: Shared, agent: str, binding: str) -> None:
    witness, acme, globex = shared.connect(agent, binding), shared.acme, shared.globex
    [working] = acme.do("send", text="wait", how="polling")
    tasks = [working["id"], *[acme.do("send", text="ask")[0]["id"] for _ in ENDING]]
    before = calls(acme, witness)
    missing = attempts(new_id(), agent, binding)
    for number, task in enumerate(tasks):
        for name, attempt in attempts(task, agent, binding).items():
            if number > 1 and name not in ENDING:
                # One task that works and one that asks back; the others may only not be ended by it.
                continue
            refused = refusal(globex, attempt)
            assert refused.startswith(UNREAD if (binding, name) == DEAF else NOT_FOUND[binding]), name
            assert refused == refusal(globex, missing[name]), name
    assert calls(acme, witness) == before + 1
    check_owned(acme, tasks, agent, binding)


def check_owned(owner: PreviousClient, tasks: list[str], agent: str, binding: str) -> None:
    """The owner of tasks can do all there is to be done with them."""
    working, *asking_back = tasks
    for task in tasks:
        assert owner.do("get", task=task)["id"] == task
    made = dict(zip(ENDING, asking_back, strict=True))
    told = {
        name: owner.do(**attempts(made.get(name, working), agent, binding)[name])
        for name in attempts(working, agent, binding)
    }
    assert told["gets a webhook"]["pushNotificationConfig"]["url"] == HOOK
    assert working in str(told["subscribes"][0])
    assert (told["goes on"][0]["id"], told["goes on"][0]["status"]["state"]) == (made["goes on"], "completed")
    assert told["goes on as a stream"][-1]["status"]["state"] == "completed"
    assert told["cancels"]["status"]["state"] == "canceled"


@every_agent
def test_one_word_for_a_context_is_two_conversations(shared: Shared, agent: str, binding: str) -> None:
    witness = shared.connect(agent, binding)
    context = f"chat-{uuid.uuid4().hex[:6]}"
    clients = {"ours": shared.acme, "theirs": shared.globex}
    words = {who: [f"{who}-{turn}-{uuid.uuid4()}" for turn in range(2)] for who in clients}
    for turn in range(2):
        for who, client in clients.items():
            converse(client, context, words[who][turn])
    told = {who: {context_of(witness, word) for word in words[who]} for who in words}
    assert [len(contexts) for contexts in told.values()] == [1, 1]
    assert len(told["ours"] | told["theirs"] | {context}) == 3


def converse(client: PreviousClient, context: str, word: str) -> None:
    """Say something in a context, and see it and nothing else everywhere."""
    events = client.do("send", text=f"remember {word}", task={"context_id": context}, how="streaming")
    assert {event["contextId"] for event in events} == {context}
    assert word in str(events)
    task = client.do("get", task=events[0]["id"])
    assert {task["contextId"], *(message["contextId"] for message in task["history"])} == {context}
    assert task["artifacts"][0]["parts"][0]["text"].endswith(word)
    assert not shows_mark([events, task])
