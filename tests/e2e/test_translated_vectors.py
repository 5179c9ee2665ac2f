"""The vectors, through the gateway: a client of every dialect, an agent of every other, over real sockets."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.path import read_rest, segments
from tests.a2a.dialects import (
    DIALECTS,
    Case,
    call_of,
    cases,
    comparable,
    events_of,
    hub_event,
    hub_params,
    hub_result,
    is_final,
    vector,
)
from tests.doubles.scripted import Received, Script, Wire, chunk, head
from tests.e2e.running import running
from tests.e2e.sdk import open_http

pytestmark = pytest.mark.anyio


def agent(case: Case) -> Script:
    """An agent that answers as the vector has it, under the id that it was asked with."""
    content = vector(case.file)
    dialect = DIALECTS[case.theirs]

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            await wire.send(_answer(content, case, dialect, request))

    return script


def _answer(content: dict[str, Any], case: Case, dialect: Dialect, request: Received) -> bytes:
    def named(body: bytes) -> bytes:
        if dialect.binding is not Binding.JSONRPC:
            return body
        return json.dumps({**json.loads(body), "id": json.loads(request.body)["id"]}).encode()

    if "events" in content:
        events = [b"data: " + named(event) + b"\r\n\r\n" for event in events_of(content, case.theirs)]
        opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
        return opening + b"".join(chunk(event) for event in events) + chunk(b"")
    answers = content["response"]
    http = (answers.get(case.theirs) or answers.get(case.theirs.removesuffix("-snake")) or {"http": {}})["http"]
    body = b"" if http.get("body") is None else named(json.dumps(http["body"]).encode())
    return head(b"content-length: %d" % len(body), content_type=b"application/json") + body


def received_call(request: Received, dialect: Dialect) -> Call:
    """What the agent was asked, as an agent of its dialect reads it."""
    if dialect.binding is Binding.JSONRPC:
        root = read_rest("POST", (), tenanted=False)
        assert root is not None
        return jsonrpc.read_call(jsonrpc.open_envelope(request.body), root, b"", dialect.version)
    path, _, query = request.target.partition(b"?")
    found = read_rest(request.method.decode(), segments(path), tenanted=True)
    assert found is not None
    return rest.read_call(found, request.body, query, dialect.version)


def is_told_apart(case: Case) -> bool:
    """Whether the first request shows who asks: 0.1 and 0.3 share names, and what came before tells them apart."""
    shared = case.file in ("GetTask", "CancelTask", "SubscribeToTask", "GetTaskPushNotificationConfig")
    return not (
        shared and (case.ours == "v0.1-jsonrpc" or (case.ours, case.theirs) == ("v0.3-jsonrpc", "v0.1-jsonrpc"))
    )


@pytest.mark.parametrize("case", [case for case in cases() if is_told_apart(case)], ids=str)
async def test_a_client_and_an_agent_of_two_dialects_understand_each_other(case: Case, tmp_path: Path) -> None:
    content = vector(case.file)
    ours, theirs = DIALECTS[case.ours], DIALECTS[case.theirs]
    http = content["request"][case.ours]["http"]
    call = call_of(content["request"][case.ours], ours)
    speaks = (theirs.binding.label, theirs.version.value)
    settings: dict[str, Any] = {"match": {"path": "/agent", "tenant": "acme"}}
    at = "" if ours.version is Version.V1_0 and ours.binding is Binding.JSONRPC else "/acme"
    suffix = http["path"].removeprefix("/acme").removeprefix("/rest" if ours.binding is Binding.REST else "/rpc")
    query = "?" + urlencode(http["query"]) if http.get("query") else ""
    async with running(agent(case), tmp_path, speaks=speaks, **settings) as gateway, open_http() as client:
        answer = await client.request(
            http["method"],
            gateway.url + at + suffix + query,
            content=None if http.get("body") is None else json.dumps(http["body"]).encode(),
            headers=http["headers"],
        )
        assert answer.status_code == 200, answer.text
        [request] = gateway.backend.requests
        said = request.header(b"a2a-version")
        assert said == (None if theirs.version is Version.V0_1 else theirs.version.encode())
        read = received_call(request, theirs)
        # The agent's own generation was told of no tenant: it was the gateway's to route by.
        assert read.tenant is None
        if read.operation is call.operation:
            meant = hub_params(call_of(content["request"][case.theirs], theirs))
            assert comparable(hub_params(read), loose=case.loose) == comparable(meant, loose=case.loose)
        _check_answer(case, content, call, answer.content)
        await gateway.stop()
    [line] = gateway.access
    assert (line["binding"], line["a2a_version"]) == (ours.binding.label, ours.version.value)
    assert (line["operation"], line["outcome"], line["agent"]) == (call.operation.value, "ok", "agent")


def _check_answer(case: Case, content: dict[str, Any], call: Call, body: bytes) -> None:
    if "events" in content:
        events = [block.removeprefix(b"data: ") for block in body.split(b"\n\n")[:-1]]
        expected = events_of(content, case.ours)
        wrapped = call.dialect.binding is Binding.JSONRPC
        assert [is_final(json.loads(event), wrapped=wrapped) for event in events] == [
            is_final(json.loads(event), wrapped=wrapped) for event in expected
        ]
        assert [comparable(hub_event(call, event), loose=case.loose) for event in events] == [
            comparable(hub_event(call, event), loose=case.loose) for event in expected
        ]
        return
    answers = content["response"]
    found = answers.get(case.ours) or answers.get(case.ours.removesuffix("-snake"))
    expected = found and found["http"].get("body")
    if call.dialect.binding is Binding.JSONRPC:
        assert json.loads(body)["id"] == "req-1"
    if call.operation is Operation.DELETE_PUSH_CONFIG:
        assert json.loads(body) == ({**expected, "result": None} if expected else {})
        return
    assert comparable(hub_result(call, body), loose=case.loose) == comparable(
        hub_result(call, json.dumps(expected).encode()), loose=case.loose
    )


def test_every_pair_of_dialects_is_there() -> None:
    pairs = {(DIALECTS[case.ours], DIALECTS[case.theirs]) for case in cases()}
    dialects = set(DIALECTS.values())
    assert len(pairs) == len(dialects) * (len(dialects) - 1)
