"""Whatever clients and agents write, each line of both logs stays one line, and none obeys it (safety H12)."""

import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agents.grounds import Grounds
from tests.e2e.process import WAIT, GatewayProcess, write
from tests.identity.issuance import ISSUER, compact, jwk, rsa_key
from tests.identity.provider import KEYS
from tests.support.answering import answering
from tests.support.gateway import CALL, RESULT, agent, bearer, card_of, keys, running, secret
from tests.support.scripted import ScriptedBackend, answers, whole

EVIL = {
    "line": 'evil\r\n{"request_id":"evil"}\r\n',
    "terminal": "evil\x1b[2J\x1b]0;evil\x07",
    "c1": "evil\x9b2J\x85evil",
    "bidi": "evil\u202elive\u2066\u2028\u2029",
    "escapes": "evil%0d%0a%1b[2J\\u001b\\r\\n",
    "quotes": 'evil","status":200,"x":"',
    "nul": "evil\x00\x7f\x08",
    "wide": "evil\U0001f480\ufeff\U000e0041",
    "long": "evil" + "x" * 1_000_000,
}
HALF = '"evil\\ud800"'
"""Half a surrogate pair, which only JSON's escapes can bring in."""


def ask(url: str, raw: bytes) -> bytes:
    """The answer to raw bytes, and all that comes until the gateway closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as connection:
        try:
            connection.sendall(raw)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return b"".join(parts)


def request(line: bytes, *headers: bytes, body: bytes = b"", host: bytes = b"127.0.0.1") -> bytes:
    fields = [line + b" HTTP/1.1", b"Host: " + host, b"Connection: close", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(fields) + b"\r\n\r\n" + body


def frame(method: str = "GetTask", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def rave(url: str, evil: str) -> int:
    """Write a text wherever a client can write one; how many requests that were."""
    raw = evil.encode("utf-8", "surrogatepass")
    short = raw[:4000]
    token = compact(
        {"alg": "RS256", "kid": "k1"},
        {
            "iss": ISSUER,
            "aud": "agents",
            "exp": time.time() + 600,
            "sub": evil[:3000],
            "org": "acme",
            "jti": evil[:3000],
        },
        rsa_key(),
    )
    good = b"Authorization: Bearer " + token
    sent = [
        request(short, good),
        request(short + b" /echo", good),
        request(b"GET /echo/" + short, good),
        request(b"GET /echo?" + short, good),
        request(b"GET /echo/tasks/%1b%5b2J%0d%0aevil", good),
        request(b"GET /echo/.well-known/agent-card.json", host=short),
        request(b"GET /echo/.well-known/agent-card.json", b"X-Request-Id: " + short, b"traceparent: " + short),
        request(b"POST /echo", b"Authorization: " + short, body=frame()),
        request(b"POST /echo", b"X-API-Key: " + short, body=frame()),
        request(b"POST /echo", good, b"A2A-Version: " + short, body=frame()),
        request(b"POST /echo", good, b"User-Agent: " + short, b"X-Forwarded-For: " + short, body=frame(id="t")),
        request(b"POST /echo", good, body=frame(evil)),
        request(b"POST /echo", good, body=frame(id=evil, contextId=evil)),
        request(
            b"POST /echo", good, body=frame("SendMessage", message={"taskId": evil, "contextId": evil, "role": evil})
        ),
        request(b"POST /echo", good, body=frame(id="t", tenant=evil)),
        request(
            b"POST /echo", good, body=json.dumps({evil: 1, "jsonrpc": evil, "id": evil, "method": "GetTask"}).encode()
        ),
        request(
            b"POST /echo", good, body=b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%b}}' % HALF.encode()
        ),
        request(b"POST /echo", good, body=raw),
        request(b"POST /down", good, body=frame(id=evil)),
    ]
    for each in sent:
        ask(url, each)
    return len(sent)


@contextmanager
def raving(folder: Path, ground: Grounds, form: str, level: str) -> Iterator[tuple[GatewayProcess, int]]:
    """A gateway that has heard it all, from clients and from agents, and has ended."""
    provider = ground.provider()
    provider.publish(jwk(rsa_key()))
    told = {"id": "\r\n".join(EVIL.values()), "contextId": EVIL["terminal"], "status": {"state": EVIL["line"]}}
    result = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": told}}).encode()
    twice = json.dumps(EVIL["line"] + EVIL["terminal"] + EVIL["bidi"])
    card = json.loads(card_of("http://127.0.0.1/", "JSONRPC 1.0"))
    bad_cards = [
        f"{{{twice}:1,{twice}:2}}".encode(),
        json.dumps({**card, "skills": EVIL["line"]}).encode(),
        b'{"name":"\x1b"}',
    ]
    names = "/.well-known/agent-card.json"
    good = {"/": (200, result), names: (200, json.dumps({**card, "name": EVIL["line"]}).encode())}
    with answering(good) as echo, answering({}) as odd:
        odd.answers = {f"/{number}{names}": (200, bad) for number, bad in enumerate(bad_cards)}
        odd.answers |= {
            f"/{number}": (200, result, EVIL["c1"].encode("latin-1", "replace").decode("latin-1"))
            for number in range(3)
        }
        configuration = {
            "auth": {
                "issuers": {
                    "corp": {"issuer": ISSUER, "audience": "agents", "jwks": provider.url + KEYS, "tenant_claim": "org"}
                }
            },
            "tenants": {"acme": ["*"]},
            "agents": {
                "echo": echo.url,
                "down": "http://127.0.0.1:1",
                **{f"odd{number}": f"{odd.url}/{number}" for number in range(3)},
            },
            "observe": {"log": {"format": form, "level": level}},
        }
        process = GatewayProcess(write(configuration, folder), forked=True)
        try:
            url = process.await_serving().url
            sent = sum(rave(url, evil) for evil in EVIL.values())
            for number in range(3):
                ask(url, request(b"POST /odd%d" % number, body=frame(id="t")))
            last = ask(url, request(b"GET /last-of-all"))
            found = re.search(rb"x-request-id: (\S+)", last, re.IGNORECASE)
            assert found is not None, last
            process.access(found[1].decode()) if form == "json" else process.access_output.find(
                lambda line: "/last-of-all" in line
            )
        finally:
            process.close()
        yield process, sent + 4


@pytest.mark.parametrize("level", ["info", "debug"])
def test_json_logs_are_one_object_a_line_in_ascii_with_short_values(
    tmp_path: Path, ground: Grounds, level: str
) -> None:
    with raving(tmp_path, ground, "json", level) as (process, sent):
        access, own = process.access_output.text, process.log_text
    assert len(access.splitlines()) == sent
    fields = None
    for text in (access, own):
        for line in text.split("\n")[:-1]:
            assert line.isascii(), line[:500]
            assert line.isprintable(), line[:500]
            assert len(line) < 10_000, line[:500]
            found = json.loads(line)
            assert isinstance(found, dict)
            assert found.get("request_id") != "evil"
            for name, value in found.items():
                if name not in ("message", "exception") and isinstance(value, str):
                    assert len(value) <= 257, (name, value[:300])
            if text is access:
                fields = fields or list(found)
                assert list(found) == fields
    assert '"principal":"evil' in access
    assert "Traceback" not in own


def test_text_logs_hold_nothing_that_a_terminal_obeys(tmp_path: Path, ground: Grounds) -> None:
    with raving(tmp_path, ground, "text", "debug") as (process, sent):
        access, own = process.access_output.text, process.log_text
    assert len(access.splitlines()) == sent
    assert access.isascii()
    for line in (access + own).split("\n")[:-1]:
        assert line.isprintable(), line[:500]
        assert len(line) < 10_000, line[:500]


@pytest.mark.anyio
async def test_who_was_refused_is_told_with_whom_it_meant_to_operators_alone() -> None:
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
