"""A skill picks the best agent that its caller may reach and that is up; a task stays with the agent that made it."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.fleet import MESSAGE, Fleet, Skilled, card, fleet
from tests.config.reading import examined
from tests.support.gateway import agent, bearer, keys, running
from tests.support.scripted import ScriptedBackend

pytestmark = pytest.mark.anyio

BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}).encode()
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


async def test_a_match_of_one_skill_is_better_than_none_and_goes_to_the_best() -> None:
    at = "[{{ path: /{name} }}, {{ path: /desk, skill: translate }}]"
    async with fleet(
        {"quiet": "visibility: unlisted"},
        matches={
            "beta": at.format(name="beta"),
            "delta": at.format(name="delta"),
            "alpha": "{ path: /desk }",
        },
    ) as site:
        path = "/desk"
        for expected in ("delta", "beta", "alpha"):
            answer = await site.gateway.post(path, BODY, [bearer("acme"), (b"A2A-Version", b"1.0")])
            assert answer.json["result"]["task"]["id"].startswith(expected)
            assert (await site.route("acme", path))["agent"] == expected
            await site.fail(expected)
            await site.gateway.post(path, BODY, [bearer("acme"), (b"A2A-Version", b"1.0")])


async def test_a_tenants_own_backend_answers_by_its_own_card() -> None:
    """Of a `by_tenant` agent the skills of the caller's backend count, and nobody sees those of another's."""
    async with AsyncExitStack() as stack:
        made = {name: Skilled(name) for name in ("one", "two")}
        backends = {
            name: await stack.enter_async_context(
                ScriptedBackend(agent(each.script, card(name, {f"{name}-skill": []})))
            )
            for name, each in made.items()
        }
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [crm], globex: [crm] }}
agents:
  crm:
    match: [{{ path: /crm }}, {{ path: "/skills/{{skill}}" }}]
    by_tenant: {{ acme: "{backends["one"].url}", globex: "{backends["two"].url}" }}
"""
        site = Fleet(await stack.enter_async_context(running(text)), made, backends)
        assert (await site.task("acme", "one-skill"))["by"] == "one"
        assert (await site.task("globex", "two-skill"))["by"] == "two"
        foreign, unknown = await site.call("acme", "two-skill"), await site.call("acme", "nothing")
        assert foreign.anonymous == unknown.anonymous
        # A stranger is told of no customer's skills.
        for skill in ("one-skill", "two-skill", "nothing"):
            assert (await site.gateway.get(f"/skills/{skill}{CARD}")).status == 401
        for who, own in (("acme", b"one at work"), ("globex", b"two at work")):
            told = await site.gateway.get("/.well-known/ai-catalog.json", [bearer(who)])
            assert own in told.body
        stranger = await site.gateway.get("/.well-known/ai-catalog.json")
        assert b"at work" not in stranger.body


async def test_a_context_stays_with_its_agent_while_that_is_up() -> None:
    async with fleet() as site:
        first = await site.task("acme", "translate", contextId="chat")
        assert first["by"] == "delta"
        await site.fail("delta")
        await site.call("acme", "translate")
        other = await site.task("acme", "translate", contextId="second")
        assert other["by"] == "beta"
        # The first agent of `chat` is down: another one goes on.
        assert (await site.task("acme", "translate", contextId="chat"))["by"] == "beta"
        # Nobody else's `second` is this one.
        assert (await site.task("globex", "translate", contextId="second"))["by"] == "secret"


async def test_a_stream_behind_a_skill_is_followed_up_like_a_message() -> None:
    async with fleet() as site:
        await site.call("acme", "summarize", "SendStreamingMessage")
        [task] = site.agents["beta"].tasks
        got = await site.call("acme", "translate", "GetTask", id=task)
        assert got.json["result"]["id"] == task


async def test_a_task_that_a_client_of_0_1_named_stays_with_its_agent(tmp_path: Path) -> None:
    async with fleet(path=tmp_path / "gateway.yaml") as site:

        async def ask(method: str, **params: object) -> Any:
            body = json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "mine", **params}}
            ).encode()
            return (await site.gateway.post("/skills/translate", body, [bearer("acme")])).json

        said = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
        assert (await ask("tasks/send", message=said))["result"]["id"] == "mine"
        [made] = site.agents["delta"].tasks
        await site.rewrite("trust: 4", "trust: 1")
        assert (await site.task("acme", "translate"))["by"] == "beta"
        assert (await ask("tasks/get"))["result"]["id"] == "mine"
        assert site.agents["delta"].asked[-1]["params"]["id"] == made


@pytest.mark.parametrize(
    ("agents", "fact"),
    [
        (
            'a: { backend: B, expose: [jsonrpc, grpc], match: { path: "/skills/{skill}" } }',
            "no client of gRPC can reach it",
        ),
        ('a: { backend: B, match: { path: "/{skill}" } }', "has {skill} where it stands for no skill"),
        ('a: { backend: B, match: { path: "/skills/{skill}/x" } }', "has the segment 'skills'"),
        (
            "a: { backend: B, match: { path: /x, skill: s } }\n  b: { backend: B, match: { path: /x, skill: t } }",
            "another skill",
        ),
        (
            'a: { backend: B, match: [{ path: "/skills/{skill}" }, { path: "/skills/{skill}" }] }',
            "another match of its own",
        ),
        ("a: { backend: B, trust: 0 }", "0 is no degree of trust"),
        ("a: { backend: B, trust: 2.5 }", "is no whole number"),
        ("a: { backend: B, latency: 5 }", "5 is no duration"),
        ("a: { backend: B, latency: fast }", "'fast' is no duration"),
        ("a: { backend: B, match: { path: /x, skill: '' } }", "can be no skill"),
    ],
)
def test_a_file_that_means_nothing_is_refused(agents: str, fact: str) -> None:
    text = f"version: 1\ngateway: {{ listen_grpc: '127.0.0.1:0' }}\nagents:\n  {agents.replace('B', 'http://127.0.0.1:9')}\n"
    assert any(fact in problem.fact for problem in examined(text).errors), examined(text).errors


def test_a_routing_test_of_a_skill_cannot_run() -> None:
    found = examined(
        'version: 1\nagents: { a: { backend: "http://127.0.0.1:9", match: { path: "/skills/{skill}" } } }\n'
        "tests: [{ name: one, request: /skills/s, expect: a }]\n"
    )
    assert "cannot run" in found.failed[0].fact
