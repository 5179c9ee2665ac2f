"""Credentials stay where they belong, and guessing at them is slow: on real sockets (safety H14, K8)."""

import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import pytest

from tests.identity.corpus.genuine import good
from tests.identity.front import front, key_header, shown
from tests.identity.issuance import sha256
from tests.support.answering import answering
from tests.support.gateway import CALL, RESULT, Running, agent, bearer, card_of, keys, running, secret
from tests.support.scripted import Script, ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


# ---- API keys ------------------------------------------------------------------------------------------------------


async def test_guessing_at_keys_is_slow_and_known_callers_are_served() -> None:
    async with front({"failures": "20/h"}) as place:
        assert (await place.call(key_header())).status == 200
        statuses = [(await place.call((b"X-API-Key", b"guess-%d" % number))).status for number in range(40)]
        assert statuses == [401] * 20 + [429] * 20
        assert (await place.call(key_header())).status == 200
        # The right guess is no better than a wrong one, whichever header it is in.
        for guess in (key_header("other"), bearer("other"), shown(good(time.time()))):
            answer = await place.call(guess)
            assert (answer.status, answer.reasons) == (429, ["RATE_LIMITED"])
            assert 1 <= int(answer.header("retry-after") or 0) <= 180
            assert answer.header("www-authenticate") is None
        # A request without a credential is still told so.
        assert (await place.call()).status == 401
        await place.gateway.until(lambda: len(place.gateway.lines) == 46)
        lines = [line for line in place.gateway.lines if line["status"] == 429]
        assert {(line["reason"], line["outcome"], line["tenant"]) for line in lines} == {
            ("rate_limited", "limited", None)
        }
        assert len(place.backend.requests) == 2


async def test_a_key_has_two_hashes_while_it_is_replaced_and_a_last_day() -> None:
    today = datetime.now(UTC).date()
    entries = {
        "rotating": f"{{ sha256: [{sha256(b'new' * 10)}, {sha256(b'old' * 10)}], tenant: acme }}",
        "last-day": f"{{ sha256: {sha256(b'today' * 10)}, tenant: acme, expires: {today} }}",
        "over": f"{{ sha256: {sha256(b'over' * 10)}, tenant: acme, expires: {today - timedelta(days=1)} }}",
    }
    written = "\n".join(f"    {name}: {entry}" for name, entry in entries.items())
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = f"""\
auth:
  api_keys:
{written}
tenants: {{ acme: ["*"] }}
agents: {{ echo: "{backend.url}" }}
"""
        async with running(text) as gateway:
            found = {}
            for key in (b"new", b"old", b"today", b"over", b"other"):
                found[key] = await gateway.post("/echo", CALL, [(b"X-API-Key", key * 10)])
            assert [answer.status for answer in found.values()] == [200, 200, 200, 401, 401]
            assert (found[b"over"].reasons, found[b"other"].reasons) == (["AUTH_EXPIRED"], ["AUTH_INVALID"])


# ---- The gateway's own credentials ---------------------------------------------------------------------------------

OURS = "0ur-0wn-s3cret"


def trusted(url: str) -> AbstractAsyncContextManager[Running]:
    """A gateway that shows its own credential to the one agent, which acme may call."""
    return running(
        f"""\
{keys(acme="acme")}
tenants: {{ acme: ["*"] }}
agents: {{ echo: {{ backend: "{url}", upstream_auth: {{ bearer: {OURS} }} }} }}
"""
    )


@for_each("status", [b"301 Moved", b"302 Found", b"303 See", b"307 Temporary", b"308 Permanent"])
async def test_an_agent_that_redirects_gets_nobody_anything(status: bytes) -> None:
    with answering({"/": (200, RESULT)}) as elsewhere:
        location = b"Location: " + elsewhere.url.encode() + b"/"
        script: Script = answers(whole(b"", location, status=status))
        async with ScriptedBackend(script) as backend:
            async with trusted(backend.url) as gateway:
                answer = await gateway.post("/echo", CALL, [bearer("acme")])
                assert answer.header("location") is None
                assert OURS.encode() not in answer.body + repr(answer.headers).encode()
                assert elsewhere.url.encode() not in answer.body
            assert elsewhere.asked == []
            assert all(each.header(b"authorization") == b"Bearer " + OURS.encode() for each in backend.requests)


async def test_each_tenants_backend_gets_its_own_credential_and_no_other() -> None:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0")
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)), card)) as one,
        ScriptedBackend(agent(answers(whole(RESULT)), card)) as two,
    ):
        text = f"""\
{keys(acme="acme", globex="globex")}
tenants: {{ acme: ["*"], globex: ["*"] }}
defaults: {{ isolation: none }}
agents:
  crm:
    by_tenant:
      acme: {{ backend: "{one.url}", upstream_auth: {{ bearer: {OURS}-one }} }}
      globex: {{ backend: "{two.url}", upstream_auth: {{ header: {{ X-Agent-Key: {OURS}-two }} }} }}
"""
        async with running(text) as gateway:
            for name in ("acme", "globex"):
                call = CALL.replace(b'"params":{', b'"params":{"tenant":"' + name.encode() + b'",')
                answer = await gateway.post("/crm", call, [bearer(name)])
                assert answer.status == 200
                assert OURS.encode() not in answer.body + repr(answer.headers).encode()
            await gateway.until(lambda: len(gateway.lines) == 2)
            assert OURS not in repr(gateway.lines)
        [first], [second] = one.requests, two.requests
        assert (first.header(b"authorization"), first.header(b"x-agent-key")) == (f"Bearer {OURS}-one".encode(), None)
        assert (second.header(b"authorization"), second.header(b"x-agent-key")) == (None, f"{OURS}-two".encode())
        for seen in (*one.requests, *two.requests):
            assert secret("acme") not in repr(seen).encode()
            assert secret("globex") not in repr(seen).encode()
        # Requests of the gateway itself have the credential of their own backend, too.
        assert (OURS + "-two").encode() not in b"".join(bytes(wire.buffer) for wire in one.wires)


@for_each(
    "echoed",
    [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"boom"}}',
        b"<html>boom</html>",
        b"",
    ],
)
@for_each("status", [b"200 OK", b"400 Bad", b"401 Who", b"500 Oops"])
async def test_an_agents_error_tells_nothing_of_the_headers_it_was_sent(status: bytes, echoed: bytes) -> None:
    challenge = b'WWW-Authenticate: Bearer realm="' + OURS.encode() + b'"'
    async with (
        ScriptedBackend(
            agent(answers(whole(echoed, challenge, b"X-Debug: " + OURS.encode(), status=status)))
        ) as backend,
        trusted(backend.url) as gateway,
    ):
        answer = await gateway.post("/echo", CALL, [bearer("acme")])
        assert OURS.encode() not in answer.body + repr(answer.headers).encode()
        assert secret("acme") not in answer.body + repr(answer.headers).encode()
