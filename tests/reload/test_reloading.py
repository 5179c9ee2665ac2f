"""A configuration is read again: what has changed is served from then on, and nobody who is being served notices."""

import asyncio
import io
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from gateway.app import Gateway
from gateway.config.problem import spell
from gateway.reload import ConfigurationOrigin, ReloadResult, Trigger
from gateway.tasks.state_url import StateUrl
from tests.support.assembly import CARD, EVENT, Held, streaming, until
from tests.support.gateway import CALL, JSON, RESULT, STREAM, agent, bearer, keys, running, whole_file
from tests.support.reloading import ECHO, IDLE, backends, serving
from tests.support.scripted import ScriptedBackend, chunk

pytestmark = pytest.mark.anyio


# ---- What changes ----------------------------------------------------------------------------------------------------


async def test_a_connection_of_a_client_meets_the_new_configuration_with_its_next_request(tmp_path: Path) -> None:
    auth = keys(acme="acme", globex="globex")
    reach = "tenants: {{ acme: [one], globex: [{}] }}\ndefaults: {{ isolation: none }}\nagents: {{ one: '{}' }}\n"
    async with backends(ECHO) as (one,), serving(tmp_path, auth + reach.format("one", one.url)) as site:
        client = await site.running.client()
        for _ in range(2):
            await client.ask("POST", "/one", CALL, [JSON, bearer("globex")])
            assert (await client.answer()).status == 200
        await site.rewrite(auth + reach.format("", one.url))
        await client.ask("POST", "/one", CALL, [JSON, bearer("globex")])
        assert (await client.answer()).status == 404
        await site.rewrite(keys(acme="acme") + reach.format("one", one.url).replace(", globex: [one]", ""))
        await client.ask("POST", "/one", CALL, [JSON, bearer("globex")])
        assert (await client.answer()).status == 401


async def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    async with backends(ECHO) as (one,):
        text = f"agents: {{ one: '{one.url}' }}"
        async with serving(tmp_path, text) as site:
            report = await site.rewrite(text)
            assert (report.result, report.changed, report.waiting) == (ReloadResult.UNCHANGED, (), ())
            assert site.reloads(ReloadResult.UNCHANGED) == 1


@pytest.mark.parametrize("name", ["ca.pem", "card.json"])
async def test_a_file_that_is_named_and_says_something_else_is_a_change(tmp_path: Path, name: str) -> None:
    (tmp_path / "ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "card.json").write_bytes(CARD)
    text = "agents: { one: { backend: 'https://127.0.0.1:1', tls: { ca: ca.pem }, card: { file: card.json } } }"
    async with serving(tmp_path, text) as site:
        reloader = site.running.gateway.reloader
        assert reloader is not None
        first = await reloader.reload(Trigger.ADMIN)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
        report = await reloader.reload(Trigger.WATCH)
        assert report.result is ReloadResult.APPLIED
        assert report.text_hash != first.text_hash
        told = {"ca.pem": "agents.one.tls.ca", "card.json": "agents.one.card"}
        assert [spell(change.path) for change in report.changed] == [told[name]]
        assert site.running.gateway.snapshot.examined.text_hash == report.text_hash


# ---- What survives ---------------------------------------------------------------------------------------------------


async def test_a_reload_keeps_unchanged_agents_connected(tmp_path: Path) -> None:
    async with backends(ECHO, ECHO) as (one, two):
        rest = "tenants: { acme: ['*'] }\ndefaults: { isolation: none }\n"
        text = f"{keys(acme='acme')}{rest}agents:\n  one: '{one.url}'\n"
        async with serving(tmp_path, text) as site:
            before = site.running.gateway.snapshot
            assert (await site.running.post("/one", headers=[bearer("acme")])).status == 200
            await site.running.rested()
            await site.rewrite(f"{text}  two: '{two.url}'\n")
            after = site.running.gateway.snapshot
            assert after is not before
            assert (await site.running.post("/one", headers=[bearer("acme")])).status == 200
            assert {request.connection for request in one.requests} == {one.requests[0].connection}
            assert after.backends["one"].source is before.backends["one"].source
            assert after.authenticator is before.authenticator


@pytest.mark.parametrize(
    "more",
    [
        "connections: { max: 7 }",
        "timeouts: { first_byte: 7s }",
        "card: { set: { name: Another } }",
        "methods: [SendMessage]",
    ],
)
async def test_an_agent_that_is_asked_otherwise_is_asked_otherwise_at_once(tmp_path: Path, more: str) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(ScriptedBackend(agent(ECHO, CARD)))
        site = await stack.enter_async_context(serving(tmp_path, f"agents: {{ one: {{ backend: '{one.url}' }} }}"))
        old = site.running.gateway.snapshot.backends["one"]
        report = await site.rewrite(f"agents: {{ one: {{ backend: '{one.url}', {more} }} }}")
        assert report.result is ReloadResult.APPLIED, report
        new = site.running.gateway.snapshot.backends["one"]
        assert new is not old
        assert (new.source is old.source) == (not more.startswith("card"))
        assert (new.upstream.pool is old.upstream.pool) == (not more.startswith("connections"))  # type: ignore[attr-defined]  # over HTTP
        if more.startswith("timeouts"):
            assert new.upstream.timeouts.first_byte == 7
        assert new.source.card is not None


async def test_a_stream_goes_on_with_the_agent_that_it_began_with(tmp_path: Path) -> None:
    held = streaming()
    async with backends(held, ECHO) as (one, two), serving(tmp_path, f"agents: {{ one: '{one.url}' }}") as site:
        client = await site.running.client()
        await client.ask("POST", "/one", STREAM, [JSON])
        assert (await client.head())[0] == 200
        assert await client.piece() == EVENT
        await site.rewrite(f"agents: {{ one: '{two.url}' }}")
        assert (await site.running.post("/one")).json == json.loads(RESULT)
        assert two.requests
        held.last = chunk(EVENT) + chunk(b"")
        held.go.set()
        assert await client.rest() == EVENT
        await site.running.until(lambda: any(line["stream"] for line in site.running.lines))
        line = next(line for line in site.running.lines if line["stream"])
        assert (line["closed_by"], line["events"]) == ("agent", 2)


async def test_limits_change_and_drop_nobody(tmp_path: Path) -> None:
    held = Held()
    text = "agents: {{ one: {{ backend: '{}', limits: {{ concurrency: {}, queue: 0 }} }} }}"
    async with backends(held) as (one,), serving(tmp_path, text.format(one.url, 2)) as site:
        client = await site.running.client()
        await client.ask("POST", "/one", CALL, [JSON])
        await held.asked.wait()
        await site.rewrite(text.format(one.url, 1))
        refused = await site.running.post("/one")
        assert refused.reasons[-1] == "CONCURRENCY_LIMITED"
        held.go.set()
        assert (await client.answer()).status == 200


# ---- What waits ------------------------------------------------------------------------------------------------------


async def test_settings_that_need_a_restart_are_named_and_the_rest_applies(tmp_path: Path) -> None:
    listens = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", http: { header_count: %d } }\n'
    async with backends(ECHO) as (one,), serving(tmp_path, listens % 50 + IDLE) as site:
        report = await site.rewrite(listens % 60 + f"agents: {{ one: '{one.url}' }}")
        assert report.result is ReloadResult.APPLIED
        [waiting] = report.waiting
        assert str(waiting) == (
            f"{site.file}:2:63  gateway.http takes effect with the next start: the bounds are those of the socket"
        )
        assert (await site.running.post("/one")).status == 200
        told = (await site.running.get("/-/config", admin=True)).json
        assert told["running"]["gateway"]["http"]["header_count"] == 50
        assert [each["path"] for each in told["needs_restart"]] == ["gateway.http"]
        report = await site.rewrite(listens % 50 + f"agents: {{ one: '{one.url}' }}")
        assert report.waiting == ()


async def test_a_reload_reports_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fact = "there is no program 'no-such-program' here"
    async with backends(ECHO) as (one,), serving(tmp_path, f"agents: {{ one: '{one.url}' }}") as site:
        report = await site.rewrite(f"agents: {{ one: '{one.url}', two: {{ backend: {{ stdio: no-such-program }} }} }}")
        assert report.result is ReloadResult.APPLIED
        assert [(each.severity, each.fact) for each in report.problems] == [("warning", fact)]
        assert report.as_json()["problems"][0]["severity"] == "warning"
        assert sum(fact in each.message for each in caplog.records) == 1
        assert (await site.running.post("/one")).status == 200
        await site.rewrite(site.file.read_text(), Trigger.SIGNAL)
        assert sum(fact in each.message for each in caplog.records) == 1


async def test_an_open_address_is_never_left_without_what_guards_it(tmp_path: Path) -> None:
    guarded = keys(acme="acme") + "tenants: { acme: [one] }\nagents: { one: 'http://127.0.0.1:1' }\n"
    anywhere = 'gateway: { listen: "0.0.0.0:0", admin: "127.0.0.1:0", public_url: "https://gw.test" }\n'
    async with serving(tmp_path, anywhere + guarded) as site:
        # By itself this file is good: nobody is proven, but only this machine may call.
        report = await site.rewrite("agents: { one: 'http://127.0.0.1:1' }")
        assert report.result is ReloadResult.REFUSED
        assert "restart" in report.why
        assert [problem.fact for problem in report.problems][:1] == [
            "without `auth` every machine that reaches this address could call every agent"
        ]
        assert (await site.running.post("/one")).status == 401


async def test_a_configuration_without_a_file_cannot_be_reloaded() -> None:
    async with running("agents: {}") as site:
        answer = await site.ask("POST", "/-/reload", b"", admin=True)
        assert answer.status == 409


async def test_two_that_ask_at_once_are_both_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, IDLE) as site:
        site.file.write_text(whole_file("agents: { one: 'http://127.0.0.1:1' }"))
        reloader = site.running.gateway.reloader
        assert reloader is not None
        reports = await asyncio.gather(*(reloader.reload(trigger) for trigger in Trigger))
        assert [report.result for report in reports] == [ReloadResult.APPLIED, *[ReloadResult.UNCHANGED] * 3]


async def test_changes_of_a_reload_are_audited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gateway.audit")
    async with serving(tmp_path, IDLE) as site:
        await site.rewrite("agents: { idle: 'http://127.0.0.1:1', one: 'http://127.0.0.1:1' }", Trigger.SIGNAL)
        events = [record for record in caplog.records if record.name == "gateway.audit"]
        assert events[-1].__dict__["audit_trigger"] == "signal"
        assert events[-1].__dict__["audit_changes"] == ["+ agents.one"]


async def test_credentials_revoked_during_the_start_are_not_accepted(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = "tenants: {{ acme: [] }}\nagents: {{ idle: 'http://127.0.0.1:1' }}\n{}"
    file.write_text(whole_file(text.format(keys(acme="acme", left="acme"))))
    origin = ConfigurationOrigin(file, {})
    gateway = Gateway(origin.read(), access_stream=io.BytesIO(), origin=origin, state=StateUrl("memory"))
    file.write_text(whole_file(text.format(keys(acme="acme"))))
    await gateway.start()
    try:
        await until(lambda: gateway.reloader is not None and gateway.reloader.last is not None)
        auth = gateway.snapshot.config.auth
        assert auth is not None
        assert list(auth.api_keys) == ["acme"]
    finally:
        await gateway.stop(asyncio.Event())
