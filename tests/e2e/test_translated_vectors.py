"""The vectors, through the gateway: a client of every dialect, an agent of every other, over real sockets."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from grpc import aio  # type: ignore[import-untyped]  # it brings no types

from gateway.a2a.bindings import grpc, jsonrpc, rest
from gateway.a2a.bindings.grpc import with_tenant
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import read_rest, segments
from tests.a2a.dialects import (
    DIALECTS,
    FILES,
    Case,
    answer_of,
    call_of,
    cases,
    comparable,
    events_of,
    hub_event,
    hub_params,
    hub_result,
    is_final,
    told,
    vector,
)
from tests.e2e.sdk import open_http
from tests.support.gateway import Running, card_of, running
from tests.support.grpc_agent import Answer, Asked, grpc_agent, says
from tests.support.grpc_gateway import LISTENS
from tests.support.scripted import Received, Script, ScriptedBackend, Wire, chunk, head

pytestmark = pytest.mark.anyio

SPOKEN = [f"{binding.value} {version}" for version in ("1.0", "0.3") for binding in Binding]
"""Interfaces on every agent's card; the file says which of these it is."""


# ---- The agent's side ------------------------------------------------------------------------------------------------


def over_http(site: "Site") -> Script:
    """An agent that answers as the vector has it, under the id that it was asked with."""

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            case = site.case
            await wire.send(_answer(vector(case.file), case, DIALECTS[case.theirs], request))

    return script


def over_grpc(site: "Site") -> Answer:
    async def answer(asked: Asked) -> None:
        await says(*answers(site.case))(asked)

    return answer


def _answer(content: dict[str, Any], case: Case, dialect: Dialect, request: Received) -> bytes:
    def named(body: bytes) -> bytes:
        if dialect.binding is not Binding.JSONRPC:
            return body
        return json.dumps({**json.loads(body), "id": json.loads(request.body)["id"]}).encode()

    if "events" in content:
        events = [b"data: " + named(event) + b"\r\n\r\n" for event in events_of(content, case.theirs)]
        opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
        return opening + b"".join(chunk(event) for event in events) + chunk(b"")
    answer = answer_of(content, case.theirs)
    body = b"" if answer is None else named(answer)
    return head(b"content-length: %d" % len(body), content_type=b"application/json") + body


def call_over_http(request: Received, dialect: Dialect) -> Call:
    """Return the call as an agent of its dialect reads it."""
    if dialect.binding is Binding.JSONRPC:
        root = read_rest("POST", (), tenanted=False)
        assert root is not None
        return jsonrpc.read_call(jsonrpc.open_envelope(request.body), root, b"", dialect.version)
    path, _, query = request.target.partition(b"?")
    found = read_rest(request.method.decode(), segments(path), tenanted=True)
    assert found is not None
    return rest.read_call(found, request.body, query, dialect.version)


def call_over_grpc(asked: Asked) -> Call:
    return grpc.read_call(BY_PATH[asked.path], asked.message)


def version_over_grpc(asked: Asked) -> bytes | None:
    [version] = asked.told("a2a-version")
    assert isinstance(version, str)
    return version.encode()


def answers(case: Case) -> list[bytes]:
    """The messages that an agent over gRPC answers with."""
    content = vector(case.file)
    return events_of(content, case.theirs) if "events" in content else [answer_of(content, case.theirs) or b""]


Seen = tuple[Call, bytes | None]
"""A call as the agent read it, and the version that it was told."""


class Site:
    """A gateway in front of an agent of one dialect, which plays one case after the other."""

    gateway: Running
    case: Case
    observed: Callable[[], list[Seen]]
    _played = 0

    @contextmanager
    def playing(self, case: Case) -> Iterator[None]:
        """Have the agent answer as this case has it; a failure names it."""
        self.case = case
        self._played += 1
        try:
            yield
        except BaseException as failure:
            failure.add_note(str(case))
            raise

    def seen(self) -> Seen:
        """Return the requests of this case that the agent saw."""
        seen = self.observed()
        assert len(seen) == self._played
        return seen[-1]

    async def line(self) -> dict[str, Any]:
        """The line of the access log for this case."""
        return await self.gateway.line(of=self._played)


@asynccontextmanager
async def before(dialect: Dialect, folder: Path) -> AsyncIterator[Site]:
    """A gateway in front of an agent of this dialect."""
    site = Site()
    async with AsyncExitStack() as stack:
        if dialect.binding is Binding.GRPC:
            served = await stack.enter_async_context(grpc_agent(over_grpc(site)))
            url, address = served.url, served.url.partition("//")[2]
            site.observed = lambda: [(call_over_grpc(each), version_over_grpc(each)) for each in served.asked]
        else:
            scripted = await stack.enter_async_context(ScriptedBackend(over_http(site)))
            url = address = scripted.url
            site.observed = lambda: [
                (call_over_http(each, dialect), each.header(b"a2a-version")) for each in scripted.requests
            ]

        (folder / "card.json").write_bytes(card_of(address, *SPOKEN))
        text = f"""\
gateway: {{ {LISTENS} }}
agents:
  agent:
    match: [{{ path: /agent, tenant: acme }}, {{ path: / }}]
    backend: {{ url: "{url}", protocol: {dialect.binding.label}, a2a_version: "{dialect.version}" }}
    card: card.json
"""
        site.gateway = await stack.enter_async_context(running(text, path=folder / "gateway.yaml"))
        yield site


# ---- The client's side -----------------------------------------------------------------------------------------------


async def ask_over_http(gateway: Running, case: Case) -> bytes:
    """The body of the answer."""
    ours = DIALECTS[case.ours]
    http = vector(case.file)["request"][case.ours]["http"]
    at = "" if ours.version is Version.V1_0 and ours.binding is Binding.JSONRPC else "/acme"
    suffix = http["path"].removeprefix("/acme").removeprefix("/rest" if ours.binding is Binding.REST else "/rpc")
    query = "?" + urlencode(http["query"]) if http.get("query") else ""
    async with open_http() as client:
        answer = await client.request(
            http["method"],
            f"http://127.0.0.1:{gateway.port}/agent{at}{suffix}{query}",
            content=None if http.get("body") is None else json.dumps(http["body"]).encode(),
            headers=http["headers"],
        )
        assert answer.status_code == 200, answer.text
        return answer.content


async def ask_over_grpc(gateway: Running, case: Case) -> list[bytes]:
    """The messages of the answer."""
    entry = vector(case.file)["request"][case.ours]["grpc"]
    call = call_of({"grpc": entry}, DIALECTS[case.ours])
    async with aio.insecure_channel(gateway.gateway.grpc_address) as channel:
        answer = channel.unary_stream(call.method)(call.body, metadata=tuple(map(tuple, entry["metadata"])))
        return [message async for message in answer]


async def said_over(gateway: Running, case: Case, call: Call) -> list[bytes]:
    """The answer, or each event of it."""
    if call.dialect.binding is Binding.GRPC:
        return await ask_over_grpc(gateway, case)
    body = await ask_over_http(gateway, case)
    return told(call, body) if call.operation.streams else [body]


# ---- Both ------------------------------------------------------------------------------------------------------------


def is_told_apart(case: Case) -> bool:
    """Whether the first request shows who asks: 0.1 and 0.3 share names, and what came before tells them apart."""
    shared = case.file in ("GetTask", "CancelTask", "SubscribeToTask", "GetTaskPushNotificationConfig")
    return not (
        shared and (case.ours == "v0.1-jsonrpc" or (case.ours, case.theirs) == ("v0.3-jsonrpc", "v0.1-jsonrpc"))
    )


@pytest.mark.parametrize("theirs", DIALECTS)
async def test_a_client_and_an_agent_of_two_dialects_understand_each_other(theirs: str, tmp_path: Path) -> None:
    played = set()
    async with before(DIALECTS[theirs], tmp_path) as site:
        for case in cases():
            if case.theirs == theirs and is_told_apart(case):
                with site.playing(case):
                    await _understand_each_other(site, case)
                played.add(case.ours)
    assert {DIALECTS[ours] for ours in played} == set(DIALECTS.values()) - {DIALECTS[theirs]}


async def _understand_each_other(site: Site, case: Case) -> None:
    content = vector(case.file)
    ours, theirs = DIALECTS[case.ours], DIALECTS[case.theirs]
    call = call_of(content["request"][case.ours], ours)
    said = await said_over(site.gateway, case, call)
    read, version = site.seen()
    assert version == (None if theirs.version is Version.V0_1 else theirs.version.encode())
    # The agent's own generation was told of no tenant: it was the gateway's to route by.
    assert read.tenant is None
    if read.operation is call.operation:
        meant = hub_params(call_of(content["request"][case.theirs], theirs))
        assert comparable(hub_params(read), loose=case.loose) == comparable(meant, loose=case.loose)
    _check_answer(case, content, call, said)
    line = await site.line()
    assert (line["binding"], line["a2a_version"]) == (ours.binding.label, ours.version.value)
    assert (line["operation"], line["outcome"], line["agent"]) == (call.operation.value, "ok", "agent")


def _check_answer(case: Case, content: dict[str, Any], call: Call, said: list[bytes]) -> None:
    if "events" in content:
        expected = events_of(content, case.ours)
        assert [is_final(call, event) for event in said] == [is_final(call, event) for event in expected]
        assert [comparable(hub_event(call, event), loose=case.loose) for event in said] == [
            comparable(hub_event(call, event), loose=case.loose) for event in expected
        ]
        return
    [body] = said
    answer = answer_of(content, case.ours)
    if call.dialect.binding is Binding.JSONRPC:
        assert json.loads(body)["id"] == "req-1"
    if call.operation is Operation.DELETE_PUSH_CONFIG:
        if call.dialect.binding is Binding.GRPC:
            assert body == b""
        else:
            envelope = json.loads(answer or b"{}")
            assert json.loads(body) == ({**envelope, "result": None} if envelope else {})
        return
    assert answer is not None
    assert comparable(hub_result(call, body), loose=case.loose) == comparable(
        hub_result(call, answer), loose=case.loose
    )


@pytest.mark.parametrize("name", ["v1.0-grpc", "v0.3-grpc"])
async def test_between_two_that_speak_grpc_alike_the_bytes_pass_as_they_came(name: str, tmp_path: Path) -> None:
    async with before(DIALECTS[name], tmp_path) as site:
        for case in (Case(file, name, name) for file in FILES if name in vector(file)["request"]):
            with site.playing(case):
                call = call_of(vector(case.file)["request"][name], DIALECTS[name])
                said = await said_over(site.gateway, case, call)
                read, _ = site.seen()
                # But for the tenant, which was the gateway's to route by.
                assert read.tenant is None
                assert read.body == with_tenant(call, None)
                assert len(read.body) == len(call.body) - (0 if call.tenant is None else 2 + len(call.tenant))
                assert said == answers(case)


def test_every_pair_of_dialects_is_there() -> None:
    pairs = {(DIALECTS[case.ours], DIALECTS[case.theirs]) for case in cases()}
    dialects = set(DIALECTS.values())
    assert len(pairs) == len(dialects) * (len(dialects) - 1)
