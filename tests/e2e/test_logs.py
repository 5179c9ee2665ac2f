"""The contents of both logs for operators, and the values that they never hold (safety H12)."""

import logging

import pytest

from tests.support.gateway import CALL, RESULT, agent, bearer, keys, running, secret
from tests.support.scripted import ScriptedBackend, answers, whole


@pytest.mark.anyio
async def test_refusals_are_told_with_their_agent_to_operators_alone() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [one, two, shut], globex: [one] }}
agents:
  one: {{ match: [{{ path: /a2a, key: acme }}, {{ path: /a2a, key: globex }}], backend: {backend.url} }}
  two: {{ match: {{ path: /a2a, tenant: two }}, backend: {backend.url} }}
  shut: {backend.url}
"""
        call = CALL.replace(b'"params":{', b'"params":{"tenant":"two",')
        async with running(text) as gateway:
            told = [
                await gateway.post("/a2a", call, [bearer("acme")]),
                await gateway.post("/a2a", call, [bearer("globex")]),
                await gateway.post("/shut", CALL, [bearer("globex")]),
                await gateway.post("/nothing", CALL, [bearer("globex")]),
            ]
            lines = {line["request_id"]: line for line in [await gateway.line(number, of=4) for number in range(4)]}
    found = [lines[answer.id] for answer in told]
    assert [(line["reason"], line["agent"]) for line in found] == [
        ("route_conflict", "two, one"),
        ("route_conflict", "two, one"),
        ("tenant_denied", "shut"),
        ("no_route", None),
    ]
    assert all(line["backend"] is None for line in found)
    assert [line["match_line"] is not None for line in found] == [True, True, True, False]
    assert not any(name.encode() in answer.body for answer in told for name in ("one,", "shut", "gateway.yaml"))


@pytest.mark.anyio
async def test_the_logs_hold_no_credential_no_query_and_no_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    query, spoken, own = "the-token-of-a-query", "words-that-nobody-should-log", "what-the-gateway-shows-to-the-agent"
    bodies = (CALL.replace(b'"hi"', f'"{spoken}"'.encode()), f"{{{spoken}".encode())
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = f"""\
{keys(acme="acme")}
tenants: {{ acme: [echo] }}
agents: {{ echo: {{ backend: {backend.url}, upstream_auth: {{ bearer: {own} }} }} }}
"""
        async with running(text) as gateway:
            for path in ("/echo", "/nowhere"):
                for body in bodies:
                    for name in ("acme", "stranger"):
                        await gateway.post(f"{path}?token={query}", body, [bearer(name)])
            await gateway.line(of=8)
            assert spoken.encode() in backend.requests[-1].body
            assert backend.requests[-1].header(b"authorization") == b"Bearer " + own.encode()
            said = repr(gateway.lines) + caplog.text
    for hidden in (query, spoken, own, secret("acme").decode(), secret("stranger").decode()):
        assert hidden not in said
