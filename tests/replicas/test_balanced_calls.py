"""Several replicas of one agent: who is asked, and what follows a task."""

import json
from pathlib import Path

import pytest

from tests.support.gateway import CALL, JSON, agent, bearer, keys, running, whole_file
from tests.support.replicated import asks, count, get, named, replicated, sends, sent
from tests.support.scripted import SSE, Script, ScriptedBackend, Wire, chunk, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


# ---- Affinity --------------------------------------------------------------------------------------------------------

AUTH = keys(acme="acme") + "tenants: { acme: [echo] }\n"


@for_each("auth", ["", AUTH])
async def test_a_task_is_answered_for_by_the_replica_that_made_it(auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    async with replicated(named("a"), named("b"), named("c"), auth=auth) as (gateway, _):
        made: dict[str, str] = {}
        while len(made) < 3:
            each = (await sent(gateway, headers=headers))["result"]["task"]["id"]
            made[each[0]] = each
        for each in made.values():
            for body in (asks("GetTask", id=each), asks("CancelTask", id=each)):
                assert (await sent(gateway, body, headers=headers))["result"]["id"] == each
            followed = (await sent(gateway, sends(task=each), headers=headers))["result"]["task"]["id"]
            assert followed == each
        assert gateway.metric("rejected_total") == 0


@for_each("auth", ["", AUTH])
async def test_a_context_stays_where_it_began(auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    async with replicated(named("a"), named("b"), named("c"), auth=auth) as (gateway, _):
        for context in map(str, range(8)):
            first = (await sent(gateway, sends(context), headers=headers))["result"]["task"]["id"]
            for _ in range(3):
                again = (await sent(gateway, sends(context), headers=headers))["result"]["task"]["id"]
                assert again[0] == first[0]


async def test_without_affinity_any_replica_is_asked() -> None:
    async with replicated(named("a"), named("b"), more="    affinity: none\n") as (gateway, backends):
        made = (await sent(gateway))["result"]["task"]["id"]
        for _ in range(20):
            await sent(gateway, asks("GetTask", id=made))
        assert min(map(count, backends)) > 2


async def test_a_task_whose_replica_is_gone_is_refused_clearly_or_asked_of_another() -> None:
    for gone, reason in (("refuse", "UPSTREAM_CONNECT"), ("other", None)):
        more = f"    affinity: {{ gone: {gone} }}\n"
        async with replicated(named("a"), named("b"), more=more) as (gateway, backends):
            while not (made := (await sent(gateway))["result"]["task"]["id"]).startswith("a"):
                pass
            await backends[0].__aexit__(None, None, None)
            answer = await sent(gateway, asks("GetTask", id=made))
            if reason is None:
                assert answer["error"]["code"] == -32001
            else:
                assert [each["reason"] for each in answer["error"]["data"]] == [reason]


async def test_a_message_that_only_refers_to_a_task_outlives_its_replica() -> None:
    async with replicated(named("a"), named("b"), auth=AUTH) as (gateway, backends):
        while not (made := (await sent(gateway, headers=(bearer("acme"),)))["result"]["task"]["id"]).startswith("a"):
            pass
        body = sends("new").replace(b'"messageId"', b'"referenceTaskIds": ["%s"], "messageId"' % made.encode())
        before = count(backends[0])
        assert (await sent(gateway, body, headers=(bearer("acme"),)))["result"]["task"]["id"].startswith("a")
        assert count(backends[0]) == before + 1
        await backends[0].__aexit__(None, None, None)
        body = body.replace(b'"new"', b'"newer"')
        assert (await sent(gateway, body, headers=(bearer("acme"),)))["result"]["task"]["id"].startswith("b")
        # Calls about the task are refused as before.
        answer = await sent(gateway, asks("GetTask", id=made), headers=(bearer("acme"),))
        assert answer["error"]["data"][0]["reason"] == "UPSTREAM_CONNECT"


@pytest.mark.parametrize("labels", ["", ", label: stable"], ids=["as it was", "with a label"])
async def test_a_task_stays_with_the_replica_that_was_the_only_one(tmp_path: Path, labels: str) -> None:
    path, mine = tmp_path / "gateway.yaml", (bearer("acme"),)
    async with ScriptedBackend(named("a")) as a, ScriptedBackend(named("b")) as b:
        alone = f"{AUTH}agents:\n  echo:\n    backend: {a.url}\n"
        both = f"{AUTH}agents:\n  echo:\n    backend: [ {{ url: {a.url}{labels} }}, {{ url: {b.url} }} ]\n"
        async with running(alone, path=path, written=True, settled=False) as gateway:
            made = [(await sent(gateway, headers=mine))["result"]["task"]["id"] for _ in range(12)]
            path.write_text(whole_file(both))
            assert (await gateway.ask("POST", "/-/reload", b"", admin=True)).status == 200
            for each in made:
                assert (await sent(gateway, asks("GetTask", id=each), headers=mine))["result"]["id"] == each
            assert count(b) == 0


async def test_tasks_stay_reachable_when_a_name_becomes_several_replicas(tmp_path: Path) -> None:
    path, mine = tmp_path / "gateway.yaml", (bearer("acme"),)
    async with ScriptedBackend(named("a")) as a:
        url = a.url.replace("127.0.0.1", "localhost")
        text = f"{AUTH}agents:\n  echo:\n    backend: {{ url: '{url}' }}\n"
        async with running(text, path=path, written=True, settled=False) as gateway:
            made = (await sent(gateway, headers=mine))["result"]["task"]["id"]
            path.write_text(whole_file(text.replace("' }", "', dns: headless }")))
            assert (await gateway.ask("POST", "/-/reload", b"", admin=True)).status == 200
            assert (await sent(gateway, asks("GetTask", id=made), headers=mine))["result"]["id"] == made


def streaming(name: str) -> Script:
    """Makes a task, tells of it in a stream that does not end, and knows that task alone."""

    async def play(wire: Wire) -> None:
        request = await wire.request()
        call = json.loads(request.body)
        if "Streaming" in call["method"]:
            state = {"task": {"id": name, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
            event = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": state}).encode()
            await wire.send(SSE + chunk(b"data: " + event + b"\n\n"))
            await wire.hang()
            return
        await wire.send(whole(get(name) if call["params"]["id"] == name else b"{}"))

    return agent(play)


@for_each("auth", ["", AUTH])
async def test_a_task_is_known_as_soon_as_its_stream_tells_of_it(auth: str) -> None:
    headers = (bearer("acme"),) if auth else ()
    names = ("a", "b", "c", "d")
    async with replicated(*map(streaming, names), auth=auth) as (gateway, _):
        for _ in names:
            client = await gateway.client()
            await client.ask("POST", "/echo", CALL.replace(b"SendMessage", b"SendStreamingMessage"), (JSON, *headers))
            await client.head()
            name = json.loads((await client.piece())[6:])["result"]["task"]["id"]
            for _ in range(3):
                assert (await sent(gateway, asks("GetTask", id=name), headers=headers))["result"]["id"] == name
        # Each stream is one more that its replica has to do.
        assert [each.condition.active for each in gateway.gateway.snapshot.backends["echo"].replicas] == [1, 1, 1, 1]
    assert [each.condition.active for each in gateway.gateway.snapshot.backends["echo"].replicas] == [0, 0, 0, 0]
