"""A skill picks the best agent that its caller may reach and that is up; a task stays with the agent that made it."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.catalog.fleet import MESSAGE, Fleet, fleet
from tests.doubles.gateway import bearer

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Fleet]:
    async with fleet() as made:
        yield made


async def test_the_best_agent_of_those_within_reach_answers(site: Fleet) -> None:
    assert (await site.task("acme", "translate"))["by"] == "delta"
    assert (await site.task("acme", "summarize"))["by"] == "beta"
    # A tag counts where no agent has the id.
    assert (await site.task("acme", "language"))["by"] == "delta"
    assert (await site.task("globex", "translate"))["by"] == "secret"


async def test_http_json_is_answered_by_the_same_agent(site: Fleet) -> None:
    body = json.dumps({"message": MESSAGE}).encode()
    answer = await site.gateway.post("/skills/translate/message:send", body, [bearer("acme"), (b"A2A-Version", b"1.0")])
    assert answer.status == 200
    assert site.agents["delta"].asked


async def test_a_task_stays_with_its_agent(site: Fleet) -> None:
    made = await site.task("acme", "summarize")
    # For this skill another agent is the best one.
    got = await site.call("acme", "translate", "GetTask", id=made["id"])
    assert got.json["result"]["id"] == made["id"]
    again = await site.task("acme", "translate", taskId=made["id"], contextId=made["contextId"])
    assert again["by"] == "beta"
    foreign = await site.call("globex", "translate", "GetTask", id=made["id"])
    unknown = await site.call("globex", "translate", "GetTask", id="task-99")
    assert foreign.json["error"]["code"] == -32001
    assert foreign.anonymous == unknown.anonymous


@pytest.mark.parametrize("path", ["", "/message:send", CARD, "/tasks/x"])
async def test_an_unknown_skill_and_one_of_foreign_agents_look_alike(site: Fleet, path: str) -> None:
    for who in ("acme", "initech"):
        told = []
        for skill in ("launch", "rockets", "nothing"):
            headers = [bearer(who), (b"A2A-Version", b"1.0")]
            if path in (CARD, "/tasks/x"):
                answer = await site.gateway.get(f"/skills/{skill}{path}", headers)
            else:
                call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
                body = json.dumps({"message": MESSAGE} if path else call).encode()
                answer = await site.gateway.post(f"/skills/{skill}{path}", body, headers)
            told.append(answer)
        assert len({answer.anonymous for answer in told}) == 1
        assert told[0].status in (200, 404)
        assert b"secret" not in told[0].body


async def test_a_stranger_learns_of_listed_agents_alone(site: Fleet) -> None:
    card = await site.gateway.get(f"/skills/translate{CARD}")
    assert card.json["name"] == "Delta"
    refused = [await site.gateway.get(f"/skills/{skill}{CARD}") for skill in ("launch", "whisper", "nothing")]
    assert {answer.status for answer in refused} == {401}
    assert len({answer.anonymous for answer in refused}) == 1
    assert (await site.call(None, "translate")).status == 401


async def test_the_card_is_that_of_the_agent_that_would_answer(site: Fleet) -> None:
    for who, name in (("acme", "Delta"), ("globex", "Secret")):
        answer = await site.gateway.get(f"/skills/translate{CARD}", [bearer(who)])
        url = f"{site.gateway.gateway.public_url}/skills/translate"
        assert answer.json["name"] == name
        assert {each["url"] for each in answer.json["supportedInterfaces"]} == {url}
        assert answer.header("cache-control") == "private, max-age=60"
    own = await site.gateway.get(f"/delta{CARD}")
    assert {each["url"] for each in own.json["supportedInterfaces"]} == {f"{site.gateway.gateway.public_url}/delta"}


async def test_the_route_tells_the_rank_of_every_agent(site: Fleet) -> None:
    told = await site.route("acme", "/skills/translate")
    assert told["agent"] == "delta"
    found = {each["agent"]: each for each in told["candidates"]}
    assert found["delta"]["score"] == {
        "match": "id", "trust": 4, "latency_s": found["delta"]["score"]["latency_s"],
        "latency": found["delta"]["score"]["latency"], "skill": "translate", "rank": 2, "up": True,
    }  # fmt: skip
    assert "is the best for the skill 'translate' (skill id, trust 4" in found["delta"]["why"]
    assert "may not call it" in found["secret"]["why"]
    assert "after 'delta'" in found["beta"]["why"]
    assert found["alpha"]["score"]["match"] == "tag"
    assert found["quiet"]["why"] == "has no skill or tag 'translate' on its card"
    assert (await site.route("acme", "/skills/launch"))["reason"] == "no_route"
    assert (await site.route(None, "/skills/launch"))["reason"] == "auth_missing"


async def test_an_ejected_agent_is_passed_over_and_keeps_its_tasks() -> None:
    async with fleet() as site:
        made = await site.task("acme", "translate")
        assert made["by"] == "delta"
        await site.fail("delta")
        assert (await site.call("acme", "translate")).json["error"]["code"] != -32001
        assert (await site.task("acme", "translate"))["by"] == "beta"
        assert "is not up: ejected" in str(await site.route("acme", "/skills/translate"))
        # Nobody else is asked for the task.
        asked = len(site.agents["beta"].asked)
        got = await site.call("acme", "translate", "GetTask", id=made["id"])
        assert got.reasons == ["UPSTREAM_CONNECT"]
        assert len(site.agents["beta"].asked) == asked
        for name in ("beta", "alpha"):
            await site.fail(name)
            await site.call("acme", "translate")
        gone = await site.call("acme", "translate")
        assert gone.reasons == ["NO_HEALTHY_BACKEND"]
        assert (await site.call("acme", "nothing")).reasons == ["NO_ROUTE"]
