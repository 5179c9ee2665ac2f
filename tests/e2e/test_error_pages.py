"""No error that a client can cause tells of the inside: no trace, no package, no address, no path of a file (H15)."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.gateway import CALL, STREAM, Answer, Running, agent, bearer, card_of, keys, running
from tests.support.scripted import (
    Script,
    ScriptedBackend,
    answers,
    answers_and_closes,
    answers_and_resets,
    head,
    whole,
)

pytestmark = pytest.mark.anyio

INSIDE = re.compile(
    rb"Traceback|File \"|line \d+, in|\.py\b|site-packages|/usr/|/home/|/root/|0x[0-9a-f]{6,}|<[a-z_.]+ object|"
    # Where the gateway itself stands, whatever folder that is.
    + re.escape(bytes(Path(__file__).resolve().parents[2]))
    + rb"|uvicorn|starlette|httptools|httpx|uvloop|asyncio|msgspec|pydantic|python|gateway\.[a-z]"
    rb"|[A-Za-z]+(?:Error|Exception|Warning)\b|errno|Errno|ECONN|gaierror|127\.0\.0\.1|localhost|secret",
    re.IGNORECASE,
)
# Words of the A2A specification.
ALLOWED = re.compile(rb"\"(?:error|a2a-protocol\.org)\"")
PAGE = b'<html>Traceback (most recent call last): File "/home/agent/app.py", line 3, in <module> secret</html>'


def refuse_inside(answer: Answer, *secrets: str) -> None:
    """Fail if an answer tells of the inside."""
    said = b"\r\n".join([*(f"{name}: {value}".encode() for name, value in answer.headers), answer.body])
    found = INSIDE.search(ALLOWED.sub(b"", said))
    assert found is None, (found, said)
    # A request id may hold any digits.
    said = re.sub(rb"[0-9a-f]{16}", b"", said)
    for hidden in secrets:
        assert hidden.encode() not in said, (hidden, said)
    assert not {"server", "x-powered-by", "via"} & {name for name, _ in answer.headers}


async def hostile_requests(gateway: Running) -> list[tuple[str, Answer]]:
    """Every way there is to be refused before an agent is asked."""
    key = bearer("acme")
    found = []

    async def add(what: str, answer: Answer) -> None:
        found.append((what, answer))

    for name, body in {
        "no JSON": b"{",
        "a list": b"[]",
        "deep": b"[" * 100_000,
        "a number beyond all": b'{"jsonrpc":"2.0","id":1e999999,"method":"GetTask"}',
        "digits": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"GetTask"}',
        "not UTF-8": b'{"jsonrpc":"2.0","id":"\xff","method":"GetTask"}',
        "no method": b'{"jsonrpc":"2.0","id":1}',
        "a method of nobody": CALL.replace(b"SendMessage", b"__import__('os')"),
        "wrong parameters": b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}',
        "a tenant of a wrong type": CALL.replace(b'"params":{', b'"params":{"tenant":{"a":1},'),
        "a tenant of nobody": CALL.replace(b'"params":{', b'"params":{"tenant":"nobody",'),
        "a member twice": CALL.replace(b'"id":1', b'"id":1,"id":2'),
    }.items():
        await add(name, await gateway.post("/echo", body, [key]))
    for target in (
        "/",
        "/nothing",
        "/echo/nothing",
        "/echo/tasks/%2e%2e",
        "/echo//x",
        "/echo/%00",
        "/-/config",
        "/metrics",
    ):
        await add(target, await gateway.get(target, [key]))
        await add(target + " by a stranger", await gateway.get(target))
    await add("a wrong method", await gateway.ask("DELETE", "/echo", None, [key]))
    await add("an unknown method", await gateway.ask("BREW", "/echo", None, [key]))
    await add("another version", await gateway.post("/echo", CALL, [key, (b"A2A-Version", b"9.9")]))
    await add("an encoded body", await gateway.post("/echo", CALL, [key, (b"Content-Encoding", b"gzip")]))
    await add("a long body", await gateway.post("/echo", b"x" * 100_000, [key]))
    await add("two credentials", await gateway.post("/echo", CALL, [key, (b"X-API-Key", b"other")]))
    await add("a bad key", await gateway.post("/echo", CALL, [(b"X-API-Key", b"what-is-not-known")]))
    await add("a bad token", await gateway.post("/echo", CALL, [(b"Authorization", b"Bearer e30.e30.e30")]))
    await add("another scheme", await gateway.post("/echo", CALL, [(b"Authorization", b"Basic dTpw")]))
    await add("no agent of one's own", await gateway.post("/echo", CALL, [bearer("idle")]))
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /echo HTTP/1.1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: a/../b\r\nConnection: close\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: x\r\n" * 5000 + b"\r\n",
    ):
        client = await gateway.client()
        await client.send(raw)
        said, _, body = (await client.ended()).partition(b"\r\n\r\n")
        lines = said.decode("latin-1").split("\r\n")[1:]
        fields = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
        await add(f"raw {raw[:40]!r}", Answer(0, tuple(pair for pair in fields if pair[0] != "date"), body))
    return found


async def test_no_refusal_tells_of_the_inside() -> None:
    async with ScriptedBackend(agent(answers(whole()), card_of("http://127.0.0.1/", "JSONRPC 1.0"))) as backend:
        text = f"""\
gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", body_limit: 64KiB, public_url: "http://gw.test" }}
{keys(acme="acme", idle="idle")}
tenants: {{ acme: [echo], idle: [] }}
agents: {{ echo: {backend.url} }}
"""
        async with running(text) as gateway:
            for what, answer in await hostile_requests(gateway):
                assert answer.status == 0 or answer.status >= 400 or answer.json.get("error"), what
                refuse_inside(answer, str(backend.port), sys.executable)
                if answer.header("content-type") == "application/json":
                    # JSON answers name the id under which the log has the rest.
                    assert answer.id in answer.body.decode(), what


FAULTS: dict[str, Script] = {
    "nothing": answers_and_closes(b""),
    "a reset": answers_and_resets(b""),
    "garbage": answers_and_closes(PAGE),
    "a page": answers(head(b"content-length: %d" % len(PAGE), content_type=b"text/html") + PAGE),
    "a page of its failure": answers(
        head(b"content-length: %d" % len(PAGE), status=b"500 secret", content_type=b"text/html", version=b"1.1") + PAGE
    ),
    "a page of its framework": answers(
        head(
            b"content-length: %d" % len(PAGE),
            b"server: uvicorn",
            b"x-powered-by: secret",
            b"via: localhost",
            b"set-cookie: secret=1",
            status=b"502 Bad Gateway",
            content_type=b"text/plain",
        )
        + PAGE
    ),
    "a redirect": answers(head(b"location: http://localhost/secret", b"content-length: 0", status=b"302 Found")),
    "two ids": answers(whole(b'{"jsonrpc":"2.0","id":1,"id":"secret","result":{}}')),
    "no JSON": answers(whole(b"secret {")),
    "half a body": answers_and_closes(head(b"content-length: 500") + b'{"jsonrpc":"2.0",'),
    "half a chunk": answers_and_closes(head(b"transfer-encoding: chunked") + b"ff\r\nsecret"),
    "an encoding": answers(whole(b"secret", b"content-encoding: gzip")),
}


# Over HTTP+JSON an answer has no id, and an agent may say what it likes in JSON.
@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        (fault, asked)
        for fault in FAULTS
        for asked in ("call", "stream", "REST", "extended card")
        if (fault, asked) != ("two ids", "REST")
    ],
)
async def test_no_fault_of_an_agent_tells_of_its_inside(fault: str, asked: str) -> None:
    raw = card_of("http://127.0.0.1/", "JSONRPC 1.0", "HTTP+JSON 1.0")
    async with ScriptedBackend(agent(FAULTS[fault], raw)) as backend:
        listens = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", public_url: "http://gw.test" }'
        async with running(f"{listens}\nagents: {{ echo: {backend.url} }}\n") as gateway:
            if asked == "REST":
                answer = await gateway.get("/echo/tasks/t")
            elif asked == "extended card":
                answer = await gateway.post("/echo", b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}')
            else:
                answer = await gateway.post("/echo", CALL if asked == "call" else STREAM)
            assert answer.status >= 400 or answer.json["error"]
            refuse_inside(answer, str(backend.port))
