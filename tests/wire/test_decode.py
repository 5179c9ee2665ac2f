"""Decoding of requests: the version, and the A2A tenant, that a client names in several places or in none."""

from collections.abc import AsyncIterator

import pytest

from tests.support.gateway import CALL, JSON, RESULT, Pairs, Running, agent, bearer, keys, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def front(anyio_backend: object) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = f"""\
{keys(acme="acme")}
tenants: {{ acme: ["*"] }}
agents:
  echo: {backend.url}
  billing: {{ match: {{ path: /a2a, tenant: billing }}, backend: "{backend.url}" }}
  few: {{ backend: "{backend.url}", methods: [GetTask] }}
"""
        async with running(text) as gateway:
            yield gateway, backend


@for_each(
    ("header", "query", "method", "version"),
    [
        (b"", "", b"SendMessage", "1.0"),
        (b"1.0", "", b"SendMessage", "1.0"),
        (b"1.0.7", "", b"SendMessage", "1.0"),
        (b" 1.0 ", "", b"SendMessage", "1.0"),
        (b"0.2.6", "", b"message/send", "0.3"),
        (b"0.3", "A2A-Version=0.3", b"message/send", "0.3"),
        (b"", "a2a-version=1.0", b"SendMessage", "1.0"),
        (b"", "", b"tasks/send", "0.1"),
        # The objects decide where header and method contradict (protocol §1.4): these are of 1.0.
        (b"", "", b"message/send", "1.0"),
        (b"1.0", "", b"message/send", "1.0"),
        (b"0.3", "", b"SendMessage", "1.0"),
    ],
)
async def test_the_version_is_what_the_client_says_else_what_its_grammar_shows(
    front: tuple[Running, ScriptedBackend], header: bytes, query: str, method: bytes, version: str
) -> None:
    gateway, _ = front
    told = [(b"A2A-Version", header)] if header else []
    await gateway.forget()
    await gateway.post(f"/echo?{query}", CALL.replace(b"SendMessage", method), [bearer("acme"), *told])
    assert (await gateway.line())["a2a_version"] == version


async def test_an_unknown_version_is_refused_under_the_callers_id(front: tuple[Running, ScriptedBackend]) -> None:
    gateway, backend = front
    backend.requests.clear()
    for said in (b"2.0", b"9", b"0.4", b"one", b"1.0, 0.3", b"1.1", b"\xff"):
        answer = await gateway.post(
            "/echo", CALL.replace(b'"id":1', b'"id":"seven"'), [bearer("acme"), (b"A2A-Version", said)]
        )
        assert (answer.json["id"], answer.json["error"]["code"]) == ("seven", -32009), said
    assert backend.requests == []


async def test_two_versions_in_one_request_are_refused(front: tuple[Running, ScriptedBackend]) -> None:
    gateway, backend = front
    backend.requests.clear()
    for target, said in (("/echo?A2A-Version=0.3", [b"1.0"]), ("/echo", [b"1.0", b"0.3"]), ("/echo", [b"1.0", b"1.0"])):
        answer = await gateway.post(target, CALL, [bearer("acme"), *((b"A2A-Version", each) for each in said)])
        assert answer.json["error"]["code"] == -32600
    assert backend.requests == []


SEND = b'{"message":{},"tenant":"%b"}'


def naming(member: bytes) -> bytes:
    return CALL.replace(b'"params":{', b'"params":{' + member + b",")


@for_each(
    ("target", "body"),
    [
        ("/a2a/other", naming(b'"tenant":"billing"')), ("/a2a?tenant=other", naming(b'"tenant":"billing"')),
        ("/a2a/billing?tenant=other", CALL), ("/a2a/other/message:send", SEND % b"billing"),
        ("/a2a/message:send?tenant=other", SEND % b"billing"), ("/a2a/billing/tasks/t?tenant=other", None),
        ("/a2a/tasks/t?tenant=billing&tenant=billing", None), ("/a2a/tasks/t?Tenant=billing", None),
        ("/a2a", naming(b'"tenant":"billing","\\u0074enant":"b"')), ("/a2a", naming(b'"Tenant":"billing"')),
        ("/a2a", naming(b'"tenant":["billing"]')), ("/a2a", naming(b'"tenant":"a\\u0085"')),
        ("/a2a", naming(b'"tenant":"%b"' % (b"x" * 257))), ("/a2a/message:send", SEND % (b"\xc3\xa4" * 129)),
        ("/a2a/tasks/t?tenant=a%C2%85", None), ("/a2a/tasks/t?tenant=" + "x" * 257, None),
    ],
)  # fmt: skip
async def test_a_tenant_in_doubt_is_refused(
    front: tuple[Running, ScriptedBackend], target: str, body: bytes | None
) -> None:
    gateway, backend = front
    backend.requests.clear()
    answer = await gateway.ask("GET" if body is None else "POST", target, body, [JSON, bearer("acme")])
    assert answer.json["error"]["code"] in (400, -32600, -32602)
    assert backend.requests == []


# ---- Long bodies, which a thread decodes -----------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Pairs, tuple[bytes, bytes]]] = {
    "version_unsupported": ("/echo", [(b"A2A-Version", b"7.0")], (b"", b"")),
    "bad_request": ("/echo", [], (b'"parts"', b'"parts')),
    "duplicate_key": ("/echo", [], (b'"parts"', b'"messageId":"m","parts"')),
    "no_route": ("/a2a", [], (b'"params":{', b'"params":{"tenant":"nobody",')),
    "method_not_allowed": ("/few", [], (b"", b"")),
}


@for_each("reason", REFUSED)
async def test_a_long_call_is_refused_and_logged_like_a_short_one(
    front: tuple[Running, ScriptedBackend], reason: str
) -> None:
    gateway, _ = front
    target, headers, change = REFUSED[reason]
    for version, method in (("1.0", b"SendMessage"), ("0.3", b"message/send")):
        seen = []
        for text in (b"hi", b"x" * 300_000):
            await gateway.forget()
            body = CALL.replace(b"SendMessage", method).replace(*change, 1).replace(b"hi", text)
            told = [(b"A2A-Version", version.encode())] if reason != "version_unsupported" else headers
            answer = await gateway.post(target, body, [bearer("acme"), *told])
            line = await gateway.line()
            seen.append((answer.status, answer.anonymous[2], {name: line[name] for name in LOGGED}))
        assert seen[0] == seen[1]
        assert seen[0][2]["reason"] == reason


LOGGED = ("agent", "tenant", "binding", "operation", "a2a_version", "status", "rpc_code", "outcome", "reason", "detail")
