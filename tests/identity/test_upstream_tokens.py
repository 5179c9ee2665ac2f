"""Agents that get a token of their own server: the gateway's, or one for each caller, and never a call without it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.a2a.operation import Operation
from gateway.config.effective import masked
from gateway.reload import ReloadResult
from tests.identity.corpus.genuine import good, published
from tests.identity.front import issuer, key_header, shown
from tests.identity.provider import KEYS, provider
from tests.support.assembly import CARD
from tests.support.gateway import CALL, RESULT, STREAM, Running, running, secret
from tests.support.gateway import keys as api_keys
from tests.support.grpc_agent import Asked, grpc_agent, grpc_over, says
from tests.support.grpc_gateway import fronting
from tests.support.reloading import serving
from tests.support.scripted import Script, ScriptedBackend, Wire, refused_port, whole
from tests.support.token_endpoint import TokenEndpoint, refused, token_endpoint

pytestmark = pytest.mark.anyio
__all__ = ["grpc_over"]

GET_TASK = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
TASK = b'{"jsonrpc":"2.0","id":1,"result":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'
OWN = "token_url: 'URL', client_id: gw, client_secret: s3cret"


def guarded(accepts: Callable[[str], bool] = bool) -> Script:
    """An agent that answers 401 to any token that it does not accept, for its card too."""

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            token = (request.header(b"authorization") or b"").removeprefix(b"Bearer ").decode()
            if not accepts(token):
                await wire.send(whole(b"", b"www-authenticate: Bearer", status=b"401 Unauthorized"))
            elif request.method == b"GET":
                await wire.send(whole(CARD))
            else:
                await wire.send(whole(TASK if b"GetTask" in request.body else RESULT))

    return script


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway, its agent, the agent's token endpoint."""

    gateway: Running
    backend: ScriptedBackend
    tokens: TokenEndpoint

    @property
    def calls(self) -> list[str]:
        """The tokens of calls, in order."""
        return self._tokens(b"POST")

    @property
    def cards(self) -> list[str]:
        """The tokens of requests for the card."""
        return self._tokens(b"GET")

    def _tokens(self, method: bytes) -> list[str]:
        found = [each.header(b"authorization") for each in self.backend.requests if each.method == method]
        return ["" if each is None else each.decode().removeprefix("Bearer ") for each in found]


@asynccontextmanager
async def site(
    auth: str, more: str = "", *, accepts: Callable[[str], bool] = bool, down: bool = False, held: bool = False
) -> AsyncIterator[Site]:
    """Serve an agent with `upstream_auth`, where URL is the token endpoint.

    Args:
        more: More lines of the agent.
        down: Whether nobody listens at the token endpoint.
        held: Whether it does not answer yet.
    """
    async with token_endpoint() as tokens, provider() as served, ScriptedBackend(guarded(accepts)) as backend:
        served.publish(*published())
        if held:
            tokens.open.clear()
        url = f"http://127.0.0.1:{refused_port()}/token" if down else tokens.url
        text = f"""\
gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", anonymous: true }}
{api_keys(acme="acme")}
  issuers: {{ corp: {issuer(served.url + KEYS)} }}
tenants: {{ acme: ["*"], globex: ["*"], anonymous: ["*"] }}
agents:
  echo:
    backend: {backend.url}
    upstream_auth: {auth.replace("URL", url)}
{more}
"""
        async with running(text, settled=not held) as gateway:
            await gateway.until(lambda: gateway.gateway.snapshot.key_sets["corp"].ready)
            yield Site(gateway, backend, tokens)


def caller(**claims: object) -> tuple[bytes, bytes]:
    return shown(good(time.time(), **claims))


# ---- Client credentials ----------------------------------------------------------------------------------------------


async def test_calls_streams_the_card_and_health_checks_show_the_gateways_token() -> None:
    health = "    health: { path: /.well-known/agent-card.json, every: 50ms }"
    async with site(f"{{ oauth2: {{ {OWN} }} }}", health) as here:
        for body in (CALL, STREAM):
            answer = await here.gateway.post("/echo", body, [caller()])
            assert answer.status == 200, answer
        assert here.calls == ["t1", "t1"]
        await here.backend.until(lambda: len(here.cards) >= 3)
        assert set(here.cards) == {"t1"}
        assert len(here.tokens.asked) == 1


async def test_many_first_calls_make_one_token_request() -> None:
    many = "    connections: { max: 64, queue: 200, queue_timeout: 60s }"
    async with site(f"{{ oauth2: {{ {OWN} }} }}", many, held=True) as here:
        calls = [asyncio.ensure_future(here.gateway.post("/echo", CALL)) for _ in range(200)]
        await here.gateway.until(lambda: here.gateway.serving >= 200)
        here.tokens.open.set()
        answers = await asyncio.gather(*calls)
        assert {answer.status for answer in answers} == {200}
        assert here.calls == ["t1"] * 200
        assert len(here.tokens.asked) == 1


async def test_without_a_token_nothing_is_sent_and_the_caller_hears_why() -> None:
    async with site(f"{{ oauth2: {{ {OWN} }} }}", down=True) as here:
        rpc = await here.gateway.post("/echo")
        assert (rpc.status, rpc.json["error"]["code"]) == (200, -32603)
        assert rpc.reasons == ["UPSTREAM_AUTH_FAILED"]
        body = json.dumps(json.loads(CALL)["params"]).encode()
        rest = await here.gateway.post("/echo/message:send", body)
        assert (rest.status, rest.reasons) == (503, ["UPSTREAM_AUTH_FAILED"])
        assert int(rest.header("retry-after") or "") >= 1
        assert here.backend.requests == []
        line = await here.gateway.line(of=2)
        assert (line["reason"], line["detail"]) == ("upstream_auth_failed", "not reached: ConnectError")
        [report] = (await here.gateway.get("/-/agents", admin=True)).json["agents"]
        assert "no token for the agent: not reached: ConnectError" in json.dumps(report)


async def test_a_slow_token_endpoint_holds_up_only_those_who_wait_for_it() -> None:
    async with site(f"{{ oauth2: {{ {OWN} }} }}", held=True) as here:
        client = await here.gateway.client()
        await client.ask("POST", "/echo", CALL, [(b"content-type", b"application/json")])
        await here.tokens.until(1)
        waiting = asyncio.ensure_future(here.gateway.post("/echo"))
        client.leave()
        await here.gateway.until(lambda: len(here.gateway.lines) == 1)
        assert here.gateway.lines[0]["reason"] == "client_gone"
        here.tokens.open.set()
        assert (await waiting).status == 200
        assert len(here.tokens.asked) == 1


async def test_a_refused_token_is_replaced_once_and_only_a_safe_call_is_sent_again() -> None:
    good_ones = {"t1"}
    async with site(f"{{ oauth2: {{ {OWN} }} }}", accepts=lambda token: token in good_ones) as here:
        assert (await here.gateway.post("/echo")).status == 200
        good_ones.clear()
        good_ones.add("t2")
        # It may not be sent twice: the caller hears of it, and the next call has another token.
        refusal = await here.gateway.post("/echo")
        assert refusal.reasons[-1] == "UPSTREAM_PROTOCOL"
        assert (await here.gateway.post("/echo")).json["result"]
        assert here.calls == ["t1", "t1", "t2"]
    good_ones = {"t1"}
    kept = "    isolation: none"
    async with site(f"{{ oauth2: {{ {OWN} }} }}", kept, accepts=lambda token: token in good_ones) as here:
        good_ones.clear()
        good_ones.add("t2")
        assert (await here.gateway.post("/echo", GET_TASK)).json["result"]["id"] == "t"
        assert here.calls == ["t1", "t2"]
        # An agent that refuses every token is no reason to ask for one each time.
        good_ones.clear()
        for _ in range(3):
            assert (await here.gateway.post("/echo", GET_TASK)).reasons[-1] == "UPSTREAM_PROTOCOL"
        assert len(here.tokens.asked) == 2


# ---- Exchange --------------------------------------------------------------------------------------------------------


async def test_each_caller_has_a_token_of_its_own_and_nobody_anothers() -> None:
    async with site(f"{{ exchange: {{ {OWN} }} }}", accepts=lambda _: True) as here:
        who = {"ada": "acme", "bob": "globex", "eve": "acme"}
        people = {name: good(time.time(), sub=name, org=org) for name, org in who.items()}
        for _ in range(2):
            await asyncio.gather(*(here.gateway.post("/echo", CALL, [shown(token)]) for token in people.values()))
        exchanged = sorted(one.one("subject_token") for one in here.tokens.asked)
        assert exchanged == sorted(token.decode() for token in people.values())
        calls = [each.header(b"x-a2a-subject") for each in here.backend.requests if each.method == b"POST"]
        told = {(name, token.partition("@")[0]) for name, token in zip(calls, here.calls, strict=True)}
        assert told == {(name.encode(), token.decode()) for name, token in people.items()}
        assert len(calls) == 6
        # Neither the card nor a health check has a caller.
        assert set(here.cards) == {""}


async def test_callers_without_a_token_are_refused_and_their_key_is_shown_to_nobody() -> None:
    async with site(f"{{ exchange: {{ {OWN} }} }}", accepts=lambda _: True) as here:
        key = secret("acme")
        for headers in ([], [key_header()], [(b"Authorization", b"Bearer " + key)]):
            answer = await here.gateway.post("/echo", CALL, headers)
            assert (answer.status, answer.reasons) == (401, ["AUTH_MISSING"])
        assert (here.tokens.asked, here.calls) == ([], [])


async def test_beside_an_exchange_the_gateways_own_token_is_for_the_card() -> None:
    both = f"{{ exchange: {{ {OWN} }}, oauth2: {{ {OWN}, scopes: [cards] }} }}"
    async with site(both) as here:
        assert (await here.gateway.post("/echo", CALL, [caller()])).status == 200
        assert here.cards == ["t1"]
        assert [token.endswith("@2") for token in here.calls] == [True]
        assert here.tokens.asked[0].one("scope") == "cards"


async def test_a_caller_whose_token_cannot_be_exchanged_is_told_so_and_others_go_on() -> None:
    async with site(f"{{ exchange: {{ {OWN} }} }}", accepts=lambda _: True) as here:
        answer, bad = here.tokens.answer, good(time.time(), sub="mallory")
        here.tokens.answer = lambda one: (
            refused("invalid_request") if one.one("subject_token") == bad.decode() else answer(one)
        )
        failed = await here.gateway.post("/echo", CALL, [shown(bad)])
        assert failed.reasons == ["UPSTREAM_AUTH_FAILED"]
        assert (await here.gateway.post("/echo", CALL, [caller()])).status == 200
        assert len(here.calls) == 1
        everything = json.dumps(here.gateway.lines) + failed.body.decode()
        assert bad.decode() not in everything
        assert "s3cret" not in everything


# ---- gRPC ------------------------------------------------------------------------------------------------------------


async def test_over_grpc_the_token_is_metadata_and_a_refused_one_is_replaced(grpc_over: None) -> None:
    good_ones = {"Bearer t1"}

    async def answer(asked: Asked) -> None:
        if asked.told("authorization") != list(good_ones):
            await asked.fail("UNAUTHENTICATED")
        await asked.write(b"")

    async with token_endpoint() as tokens, grpc_agent(answer) as backend:
        auth = f"upstream_auth: {{ oauth2: {{ {OWN.replace('URL', tokens.url)} }} }}\nisolation: none"
        async with fronting(backend.url, auth, backend='a2a_version: "1.0"') as (_, client):
            assert (await client.ask(Operation.GET_TASK)).code == "OK"
            good_ones.clear()
            good_ones.add("Bearer t2")
            assert (await client.ask(Operation.GET_TASK)).code == "OK"
            assert [one.told("authorization") for one in backend.asked][-2:] == [["Bearer t1"], ["Bearer t2"]]
            assert len(tokens.asked) == 2


async def test_over_grpc_a_missing_token_is_a_status(grpc_over: None) -> None:
    async with grpc_agent(says(b"")) as backend:
        url = f"http://127.0.0.1:{refused_port()}/token"
        auth = f"upstream_auth: {{ oauth2: {{ {OWN.replace('URL', url)} }} }}"
        async with fronting(backend.url, auth, backend='a2a_version: "1.0"') as (_, client):
            for operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE):
                told = await client.stream(operation).end()
                assert (told.code, told.reasons) == ("UNAVAILABLE", ["UPSTREAM_AUTH_FAILED"])
        assert backend.asked == []


# ---- The configuration -----------------------------------------------------------------------------------------------


async def test_another_configuration_keeps_the_token_and_another_secret_gets_another_one(tmp_path: Path) -> None:
    async with token_endpoint() as tokens, ScriptedBackend(guarded()) as backend:
        one = f"agents: {{ echo: {{ backend: '{backend.url}', upstream_auth: {{ oauth2: {{ {OWN} }} }} }} }}\n".replace(
            "URL", tokens.url
        )
        async with serving(tmp_path, one) as served:
            assert (await served.running.post("/echo")).status == 200
            two = one + "tenants: { anonymous: ['*'] }\n"
            assert (await served.rewrite(two.replace("echo:", "echo2:"))).result is ReloadResult.APPLIED
            assert (await served.running.post("/echo2")).status == 200
            assert len(tokens.asked) == 1
            assert (await served.rewrite(two.replace("s3cret", "0ther"))).result is ReloadResult.APPLIED
            assert (await served.running.post("/echo")).status == 200
            assert [asked.client for asked in tokens.asked] == [("gw", "s3cret"), ("gw", "0ther")]
            told = (await served.running.get("/-/config", admin=True)).body
            told += json.dumps(masked(served.running.gateway.snapshot.config)).encode()
            assert b"0ther" not in told
            assert tokens.url.encode() in told
