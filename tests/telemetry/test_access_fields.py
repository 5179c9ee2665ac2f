"""The access log of a running gateway: who called from where with what, streams that open, ids of proxies, rotation."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.proxy.request import FIELDS
from gateway.reload import Trigger
from tests.support.gateway import CALL, RESULT, agent, fronted, running
from tests.support.scripted import ScriptedBackend, answers, chunk, whole
from tests.support.streaming import Held, frame, opened

pytestmark = pytest.mark.anyio

ECHO = answers(whole(RESULT))


async def test_a_line_names_the_client_and_the_agents_address() -> None:
    async with fronted(ECHO) as (gateway, backend):
        await gateway.post("/echo", CALL, [(b"User-Agent", b"curl/8 \x9b31m \xff")])
        line = await gateway.line()
        assert tuple(line)[1:] == FIELDS
        assert line["host"] == "127.0.0.1"
        assert line["user_agent"] == "curl/8 \x9b31m \xff"
        assert line["http_version"] == "1.1"
        assert line["upstream_address"] == backend.url.removeprefix("http://")
        await gateway.post("/nowhere", CALL)
        line = await gateway.line(of=2)
        assert (line["user_agent"], line["upstream_address"]) == (None, None)


async def test_a_stream_has_a_line_when_it_opens_where_that_is_asked_for() -> None:
    held = Held()
    async with ScriptedBackend(agent(held)) as backend:
        text = f"observe: {{ log: {{ streams: true }} }}\nagents: {{ echo: '{backend.url}' }}"
        async with running(text) as gateway:
            client = await opened(gateway)
            await client.head()
            first = await gateway.line()
            assert (first["outcome"], first["agent"], first["closed_by"], first["events"]) == ("open", "echo", None, 0)
            held.say(chunk(b"data: " + frame(1) + b"\n\n") + chunk(b""))
            await client.rest()
            last = await gateway.line(of=2)
            assert (last["outcome"], last["request_id"], last["events"]) == ("ok", first["request_id"], 1)
            assert (last["host"], last["upstream_address"]) == (first["host"], first["upstream_address"])
            assert len(gateway.gateway.recent.since()) == 1


async def test_only_a_trusted_proxy_gives_a_request_its_id() -> None:
    ours = b"7b0bdc6e-3a4b-4c5d-8e9f-001122334455"
    told: list[tuple[str, list[tuple[bytes, bytes]], bool]] = [
        ("[127.0.0.1]", [(b"X-Request-Id", ours)], True),
        ("[127.0.0.1]", [(b"X-Request-Id", b"Root=1-67891233-abcdef012345678912345678")], True),
        ("[127.0.0.1]", [(b"X-Request-Id", b"x" * 129)], False),
        ("[127.0.0.1]", [(b"X-Request-Id", b"a b")], False),
        ("[127.0.0.1]", [(b"X-Request-Id", b'a"\xff')], False),
        ("[127.0.0.1]", [(b"X-Request-Id", b"")], False),
        ("[127.0.0.1]", [(b"X-Request-Id", ours), (b"X-Request-Id", b"b")], False),
        ("[10.0.0.0/8]", [(b"X-Request-Id", ours)], False),
    ]
    for proxies, headers, kept in told:
        settings = f"trusted_proxies: {proxies}, request_id: keep"
        async with fronted(ECHO, settings=settings) as (gateway, backend):
            answer = await gateway.post("/echo", CALL, headers)
            line = await gateway.line()
            assert (answer.id == headers[0][1].decode("latin-1")) is kept, headers
            [(_, sent)] = [pair for pair in backend.requests[-1].headers if pair[0] == b"x-request-id"]
            assert answer.id == line["request_id"] == sent.decode()


async def test_without_the_setting_every_id_is_new() -> None:
    async with fronted(ECHO, settings="trusted_proxies: [127.0.0.1]") as (gateway, _):
        assert (await gateway.post("/echo", CALL, [(b"X-Request-Id", b"theirs")])).id != "theirs"


def test_ids_of_proxies_need_proxies() -> None:
    text = "version: 1\ngateway: { request_id: keep }\nagents: { a: 'http://127.0.0.1:1' }\n"
    [problem] = examine(Path("gateway.yaml"), {}, text=text).errors
    fact = "no id is kept: there is no proxy to trust with it"
    assert (problem.fact, problem.place.line, problem.place.column) == (fact, 2, 24)


async def test_a_log_file_that_is_moved_away_loses_no_line(tmp_path: Path) -> None:
    path, file = tmp_path / "access.log", tmp_path / "gateway.yaml"
    async with ScriptedBackend(agent(ECHO)) as backend:
        text = f"observe: {{ log: {{ file: access.log }} }}\nagents: {{ echo: '{backend.url}' }}"
        async with running(text, path=file, written=True) as gateway:
            for number in range(4):
                calls = [asyncio.create_task(gateway.post("/echo", CALL)) for _ in range(10)]
                await gateway.until(path.exists)
                # As logrotate does it, with and without the signal afterwards.
                path.rename(tmp_path / f"access.log.{number}")
                if number % 2:
                    gateway.gateway.reload_nowait(Trigger.SIGNAL)
                await asyncio.gather(*calls)
            await gateway.post("/echo", CALL)
            await gateway.until(lambda: path.exists() and bool(path.read_bytes()))
    files = [each.read_bytes() for each in tmp_path.glob("access.log*")]  # noqa: ASYNC240 - the gateway has ended
    lines = [json.loads(line) for text in files for line in text.splitlines()]
    assert len({line["request_id"] for line in lines}) == len(lines) == 41
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_logs_share_no_file() -> None:
    text = "version: 1\nobserve: { log: { file: %s }, audit: a.log }\nagents: { a: 'http://127.0.0.1:1' }\n"
    for name, fact in (("a.log", "the access log is written there (line 2)"), ("'-'", "'-' names no file")):
        found = examine(Path("gateway.yaml"), {}, text=text % name).errors
        assert [problem.fact for problem in found] == [fact]
