"""An agent on stdio made of what the file says: from its card to its figures, and one that a card names."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway.demo.stdio_agent
from gateway.reload import ConfigurationOrigin, ReloadResult, Trigger, Unusable
from tests.stdio.test_stdio_misbehaving import call, runs, told
from tests.support.gateway import JSON, RESULT, Running, bearer, card_of, compiled, fronted, keys, running
from tests.support.scripted import WAIT, answers, whole
from tests.support.stdio_agent import FILE

pytestmark = pytest.mark.anyio


def words(mode: str, *more: str) -> str:
    return json.dumps([sys.executable, str(FILE), mode, *more])


async def data(gateway: Running, text: str) -> Any:
    """Return the data of the agent's answer to a text."""
    answer = (await gateway.post("/notes", call(text))).json
    return answer["result"]["message"]["parts"][1]["data"]


async def test_a_command_runs_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("OTHER", "o")
    text = f"""
    agents:
      notes:
        backend:
          stdio:
            command: {words("behaves", "7")}
            env: {{ A: "$HOME; rm -rf /" }}
            env_from: TOKEN
            limits: {{ cpu: 1m, files: 99 }}
        upstream_auth: {{ bearer: secret }}
    """
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as gateway:
        given = await data(gateway, "environment")
        headers = (await data(gateway, "headers"))["headers"]
    assert (given["argv"][1:], given["cwd"]) == (["behaves", "7"], str(tmp_path))
    assert (given["environ"]["A"], given["environ"]["TOKEN"]) == ("$HOME; rm -rf /", "t")
    assert "OTHER" not in given["environ"]
    # It leads a session of its own, and is a child of the gateway itself.
    assert given["group"] == given["session"] == given["pid"] != given["parent"] == os.getpid()
    assert (given["limits"]["CPU"], given["limits"]["NOFILE"]) == ([60, 60], [99, 99])
    assert all("pipe:" in given["descriptors"][number] for number in "012")
    assert len(given["descriptors"]) == 3
    assert headers["authorization"] == "Bearer secret"


async def test_a_stdio_agent_has_a_card_metrics_and_log_lines(tmp_path: Path) -> None:
    text = f"agents:\n  notes: {{ backend: {{ stdio: {words('behaves')} }} }}\n"
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as gateway:
        assert told(await gateway.post("/notes", call("ok"))) == "ok"
        line = await gateway.line()
        assert (line["agent"], line["backend"], line["outcome"], line["operation"]) == (
            "notes",
            "notes",
            "ok",
            "SendMessage",
        )
        card = (await gateway.get("/notes/.well-known/agent-card.json")).json
        assert card["name"] == "Misbehaving"
        assert {each["url"] for each in card["supportedInterfaces"]} == {f"http://127.0.0.1:{gateway.port}/notes"}
        assert "stdio" not in json.dumps(card)
        assert gateway.metric("stdio_processes", agent="notes") == 1
        assert gateway.metric("backend_connections", agent="notes", state="idle") == 1
        [shown] = (await gateway.get("/-/agents", admin=True)).json["agents"]
        assert shown["url"].startswith("stdio:")
        assert [(each["state"], each["starts"]) for each in shown["processes"]] == [("ready", 1)]
        config = (await gateway.get("/-/config", admin=True)).json
        assert "stdio" in json.dumps(config["running"])


async def test_health_defaults_do_not_apply_to_commands(tmp_path: Path) -> None:
    text = f"""
    defaults: {{ health: {{ path: /healthz, every: 10ms, fail_after: 1, breaker: {{ after: 1, time: 5m }} }} }}
    agents:
      notes: {{ backend: {{ stdio: {words("dies")} }} }}
      alike: {{ backend: [{{ stdio: {words("dies")} }}] }}
    """
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as gateway:
        for name in ("notes", "alike"):
            assert told(await gateway.post(f"/{name}", call("ok"))) == "ok"
            assert gateway.metric("backend_up", backend=name) == 1
            answer = await gateway.post(f"/{name}", call("die"))
            assert answer.reasons == ["UPSTREAM_RESET"]
            assert (await gateway.post(f"/{name}", call("ok"))).reasons == ["NO_HEALTHY_BACKEND"]
        assert max(line["attempts"] for line in gateway.lines) == 1
        for shown in (await gateway.get("/-/agents", admin=True)).json["agents"]:
            assert len(shown["processes"]) == len(shown["replicas"]) == 1
            assert "open" in shown["breaker"]


async def test_a_card_of_the_operators_is_a_whole_backend_and_is_shown_before_the_agents_own(tmp_path: Path) -> None:
    line = f"A=1 '{sys.executable}' '{FILE}' behaves"
    stub = {"name": "Stub", "url": line, "preferredTransport": "stdio", "protocolVersion": "0.3.0"}
    (tmp_path / "card.json").write_text(json.dumps(stub))
    text = "agents:\n  notes: { backend: { card: card.json } }\n"
    async with compiled(text, path=tmp_path / "gateway.yaml") as snapshot:
        backend = snapshot.backends["notes"]
        assert backend.source.card is not None
        assert (backend.source.card["name"], FILE.name in str(backend.source.card)) == ("Stub", False)
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as gateway:
        assert told(await gateway.post("/notes", call("ok"))) == "ok"
        answer = (await gateway.post("/notes", call("environment"))).json
        assert answer["result"]["message"]["parts"][1]["data"]["environ"]["A"] == "1"
        backend = gateway.gateway.snapshot.backends["notes"]
        await gateway.until(lambda: (backend.source.card or {}).get("name") == "Misbehaving")


async def test_a_command_in_a_fetched_card_or_in_a_request_is_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "run"
    command = f"touch {marker}"
    interfaces = [{"url": command, "protocolBinding": "stdio", "protocolVersion": "1.0"}]
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    named = {**json.loads(card), "url": command, "preferredTransport": "stdio", "additionalInterfaces": interfaces}
    named["supportedInterfaces"] += interfaces
    async with fronted(answers(whole(RESULT)), card=json.dumps(named).encode()) as (gateway, _):
        body = call("hi").replace(
            b'"params":', json.dumps({"stdio": {"command": command}}).encode()[1:-1] + b', "params":'
        )
        assert (await gateway.post("/echo", body)).status == 200
        shown = (await gateway.get("/echo/.well-known/agent-card.json")).body.decode()
        assert "touch" not in shown
        assert gateway.series("stdio_processes") == []
    assert not marker.exists()


async def test_each_tenant_has_a_process_of_its_own_where_the_file_says_so(tmp_path: Path) -> None:
    stdio = f"{{ stdio: {{ command: {words('behaves')}, per_tenant: true }} }}"
    text = keys(a="acme", g="globex") + "tenants: { acme: [notes], globex: [notes] }\n"
    text += f"agents:\n  notes: {{ backend: {stdio} }}\n"
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as gateway:
        pids = [told(await gateway.post("/notes", call("pid"), (bearer(name),))) for name in ("a", "g", "a", "g")]
        assert pids[0] != pids[1]
        assert pids[:2] == pids[2:]


def calling(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


@pytest.mark.parametrize("processes", [1, 3])
async def test_a_list_of_tasks_is_the_callers_own_and_refused_where_several_processes_have_some_each(
    processes: int, tmp_path: Path
) -> None:
    command = json.dumps([sys.executable, gateway.demo.stdio_agent.__file__])
    text = keys(a="acme", g="globex") + "tenants: { acme: [notes], globex: [notes] }\n"
    text += f"agents:\n  notes: {{ backend: {{ stdio: {{ command: {command}, processes: {processes} }} }} }}\n"
    async with running(text, path=tmp_path / "gateway.yaml", settled=False) as front:

        async def begin(name: str) -> str:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "count 1"}]}
            answer = await front.post("/notes", calling("SendMessage", {"message": message}), (bearer(name),))
            task: str = answer.json["result"]["task"]["id"]
            return task

        for name in ("a", "g"):
            tasks = await asyncio.gather(*(begin(name) for _ in range(8)))
            for task in tasks:
                # Wherever it was made, it is found there.
                got = await front.post("/notes", calling("GetTask", {"id": task}), (bearer(name),))
                assert got.json["result"]["id"] == task
            listed = (await front.post("/notes", calling("ListTasks", {}), (bearer(name),))).json
            if processes == 1:
                assert sorted(task["id"] for task in listed["result"]["tasks"]) == sorted(tasks)
            else:
                assert listed["error"]["code"] == -32004


RELOADED = "gateway: { listen: '127.0.0.1:0', admin: '127.0.0.1:0', reload: { watch: false, poll: 0s } }\n"


async def reloaded(gateway: Running, path: Path, text: str) -> ReloadResult:
    await asyncio.to_thread(path.write_text, "version: 1\n" + text)
    reloader = gateway.gateway.reloader
    assert reloader is not None
    report = await reloader.reload(Trigger.ADMIN)
    return report.result


async def test_another_credential_and_another_generation_keep_the_processes(tmp_path: Path) -> None:
    def text(token: str, version: str) -> str:
        notes = f"backend: {{ stdio: {words('behaves')}, a2a_version: '{version}' }}"
        return RELOADED + f"agents:\n  notes: {{ {notes}, upstream_auth: {{ bearer: {token} }} }}\n"

    path = tmp_path / "gateway.yaml"
    async with running(text("one", "1.0"), path=path, settled=False, written=True) as gateway:
        pid = told(await gateway.post("/notes", call("pid")))
        assert await reloaded(gateway, path, text("two", "0.3")) is ReloadResult.APPLIED
        assert told(await gateway.post("/notes", call("pid"))) == pid
        answer = (await gateway.post("/notes", call("headers"))).json["result"]["message"]["parts"][1]["data"]
        assert (answer["headers"]["authorization"], answer["headers"]["a2a-version"]) == ("Bearer two", "0.3")


async def test_another_command_replaces_the_process_and_loses_no_call_that_is_under_way(tmp_path: Path) -> None:
    def text(pace: str) -> str:
        command = json.dumps([sys.executable, gateway.demo.stdio_agent.__file__, "--pace", pace])
        return RELOADED + f"agents:\n  notes: {{ backend: {{ stdio: {command} }} }}\n"

    async def process(front: Running) -> int:
        [agent] = (await front.get("/-/agents", admin=True)).json["agents"]
        [shown] = agent["processes"]
        assert shown["state"] == "ready"
        return int(shown["pid"])

    path = tmp_path / "gateway.yaml"
    async with running(text("0.05"), path=path, written=True) as front:
        old = await process(front)
        client = await front.client()
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "count 30"}]}
        await client.ask("POST", "/notes", calling("SendStreamingMessage", {"message": message}), (JSON,))
        await client.head()
        assert await reloaded(front, path, text("0.04")) is ReloadResult.APPLIED
        assert await process(front) != old
        assert b"That was 30." in await client.rest()
        await front.until(lambda: not runs(old))


async def test_a_command_does_not_inherit_the_dialects_of_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.app.WARM_UP", 0.05)
    (tmp_path / "card.json").write_bytes(card_of("http://127.0.0.1:9/", "HTTP+JSON 1.0"))
    path = tmp_path / "gateway.yaml"
    text = RELOADED + "agents:\n  notes: { backend: 'http://127.0.0.1:9', card: { file: card.json } }\n"
    async with running(text, path=path, settled=False, written=True) as gateway:
        assert gateway.gateway.snapshot.backends["notes"].source.spoken
        command = words("waits-to-start", "--journal", str(tmp_path / "j"))
        text = RELOADED + f"agents:\n  notes: {{ backend: {{ stdio: {command} }} }}\n"
        assert await reloaded(gateway, path, text) is ReloadResult.APPLIED
        assert gateway.gateway.snapshot.backends["notes"].source.spoken == ()
        (tmp_path / "j.go").touch()
        assert told(await gateway.post("/notes", call("ok"))) == "ok"


async def test_an_agent_of_which_there_can_only_be_one_is_replaced_all_the_same(tmp_path: Path) -> None:
    journal = tmp_path / "j"

    def text(count: int) -> str:
        agent = f"{{ backend: {{ stdio: {words('is-alone', str(count), '--journal', str(journal))} }} }}"
        return RELOADED + f"agents:\n  notes: {agent}\n"

    path = tmp_path / "gateway.yaml"
    async with running(text(1), path=path, settled=False, written=True) as gateway:
        old = told(await gateway.post("/notes", call("pid")))
        assert await reloaded(gateway, path, text(2)) is ReloadResult.APPLIED
        async with asyncio.timeout(WAIT):
            while told(await gateway.post("/notes", call("pid"))) in (old, "no_healthy_backend"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_another_command_in_the_card_is_run_and_told_as_a_change(tmp_path: Path) -> None:
    def write(number: int) -> None:
        line = f"A={number} '{sys.executable}' '{FILE}' behaves" if number else "http://127.0.0.1"
        stub = {"name": "Stub", "url": line, "preferredTransport": "stdio", "protocolVersion": "0.3.0"}
        (tmp_path / "card.json").write_text(json.dumps(stub))

    write(1)
    text = RELOADED + "agents:\n  notes: { backend: { card: card.json } }\n"
    async with running(text, path=tmp_path / "gateway.yaml", settled=False, written=True) as gateway:
        reloader = gateway.gateway.reloader
        assert reloader is not None
        assert (await reloader.reload(Trigger.ADMIN)).result is ReloadResult.UNCHANGED
        write(2)
        report = await reloader.reload(Trigger.ADMIN)
        assert (report.result, [str(each) for each in report.changed]) == (
            ReloadResult.APPLIED,
            ["~ agents.notes.backend.card"],
        )
        answer = (await gateway.post("/notes", call("environment"))).json
        assert answer["result"]["message"]["parts"][1]["data"]["environ"]["A"] == "2"


async def test_a_card_that_names_no_command_by_the_time_it_is_used_changes_nothing(tmp_path: Path) -> None:
    line = f"'{sys.executable}' '{FILE}' behaves"
    stub = {"name": "Stub", "url": line, "preferredTransport": "stdio", "protocolVersion": "0.3.0"}
    card = tmp_path / "card.json"
    card.write_text(json.dumps(stub))
    text = "agents:\n  notes: { backend: { card: card.json } }\n"
    async with running(text, path=tmp_path / "gateway.yaml", settled=False, written=True) as gateway:
        examined = ConfigurationOrigin(tmp_path / "gateway.yaml", {}).read()
        card.write_text(json.dumps({**stub, "url": "http://127.0.0.1", "preferredTransport": "JSONRPC"}))
        with pytest.raises(Unusable, match="stdio"):
            await gateway.gateway.use(examined)
        assert told(await gateway.post("/notes", call("ok"))) == "ok"
