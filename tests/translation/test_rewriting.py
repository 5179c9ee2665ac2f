"""Parts that clients must not get as they came: the agent's tenant in push configurations, its addresses in cards."""

import json
from typing import Any

import pytest

from tests.support.gateway import JSON, card_of, fronted
from tests.support.scripted import (
    Wire,
    answers,
    whole,
)
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]


# ---- What must be changed ------------------------------------------------------------------------------------------


PUSH = (
    b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{ "tenant" : "mine","taskId":"t","id":"c","url":"https://x.test" ,'
    b'"big":12345678901234567890}}'
)


@for_each(
    ("method", "result"),
    [
        (b"CreateTaskPushNotificationConfig", b'{ "url":"https://u.test/","tenant":"theirs" ,"n":1.0}'),
        (b"GetTaskPushNotificationConfig", b'{"tenant":"theirs","url":"https://u.test/","n":1.0}'),
        (
            b"ListTaskPushNotificationConfigs",
            b'{"nextPageToken":"","configs":[{"tenant":"theirs","url":"https://u.test/","n":1.0}]}',
        ),
    ],
)
@for_each("indirect", [False, True])
async def test_a_push_configuration_shows_the_clients_own_tenant(
    method: bytes, result: bytes, *, indirect: bool
) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"
    more = "upstream_tenant: theirs\nmatch: { path: /echo, tenant: mine }"
    async with fronted(answers(whole(body)), more) as (gateway, backend):
        call = PUSH.replace(b"%b", method)
        if indirect:
            # As a2a-java does: the tenant in the path too, and here nowhere else.
            call = call.replace(b'"tenant" : "mine",', b"")
        answer = await gateway.post("/echo/mine" if indirect else "/echo", call)
        shown = answer.json["result"]
        assert b"theirs" not in answer.body
        assert shown.get("configs", [shown])[0] == {"tenant": "mine", "url": "https://u.test/", "n": 1.0}
        assert json.loads(backend.requests[0].body)["params"]["tenant"] == "theirs"
        assert b"12345678901234567890" in backend.requests[0].body
        assert backend.requests[0].target == b"/"


async def test_a_push_configuration_over_http_json_shows_the_clients_own_tenant() -> None:
    more = "upstream_tenant: theirs\nmatch: { path: /echo, tenant: mine }"
    async with fronted(answers(whole(b'{"tenant":"theirs","url":"https://u.test/"}')), more) as (gateway, backend):
        path = "/echo/mine/tasks/t/pushNotificationConfigs"
        answer = await gateway.post(path, b'{"tenant":"mine","url":"https://u.test/"}')
        assert answer.json == {"tenant": "mine", "url": "https://u.test/"}
        received = backend.requests[0]
        assert (received.target, received.body) == (
            b"/theirs/tasks/t/pushNotificationConfigs",
            b'{"tenant":"theirs","url":"https://u.test/"}',
        )


@for_each("url", ["https://u.test/", "https://u.test/" + "x" * (1 << 20)])
async def test_the_agents_tenant_is_taken_out_where_the_client_has_none(url: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":{"tenant":"theirs","url":"%b"}}' % url.encode()
    async with fronted(answers(whole(body)), "upstream_tenant: theirs") as (gateway, _):
        call = PUSH.replace(b"%b", b"GetTaskPushNotificationConfig").replace(b'"tenant" : "mine",', b"")
        assert (await gateway.post("/echo", call)).json["result"] == {"url": url}


@for_each(
    "result",
    [
        b'{"tenant":"theirs","tenant":"theirs"}',
        b'{"Tenant":"theirs"}',
        b'[{"tenant":"theirs","tenant":"x"}]',
    ],
)
async def test_a_configuration_that_hides_the_agents_tenant_is_refused(result: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"
    async with fronted(answers(whole(body)), "upstream_tenant: theirs") as (gateway, _):
        call = PUSH.replace(b"%b", b"ListTaskPushNotificationConfigs").replace(b'"tenant" : "mine",', b"")
        answer = await gateway.post("/echo", call)
        assert answer.json["error"]["code"] == -32006
        assert b"theirs" not in answer.body
        assert (await gateway.line())["reason"] == "upstream_protocol"


# ---- Extended cards ------------------------------------------------------------------------------------------------

DIALECTS = ("JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3")


def extended(place: bytes) -> bytes:
    return card_of(f"http://{place.decode()}/deep", *DIALECTS, name="Extended", documentationUrl="https://docs.test")


class ExtendedAgent:
    """Serves a card at its well-known path and in answer to calls, wrapped as `wrapped`."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def __call__(self, wire: Wire) -> None:
        while True:
            await wire.request()
            place = b"127.0.0.1:%d" % wire.backend.port
            await wire.send(whole(self._raw.replace(b"PLACE", place).replace(b"CARD", extended(place))))


@for_each(
    ("target", "call", "raw", "seen"),
    [
        (
            "/echo",
            b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}',
            b'{"jsonrpc":"2.0","id":1,"result":CARD}',
            b"/",
        ),
        (
            "/echo",
            b'{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}',
            b'{"jsonrpc":"2.0","id":1,"result":CARD}',
            b"/",
        ),
        ("/echo/extendedAgentCard", None, b"CARD", b"/extendedAgentCard"),
        ("/echo/v1/card", None, b"CARD", b"/v1/card"),
        ("/echo/agent/authenticatedExtendedCard", None, b"CARD", b"/agent/authenticatedExtendedCard"),
    ],
)
async def test_an_extended_card_is_rebuilt_in_every_binding(target: str, call: Any, raw: bytes, seen: bytes) -> None:
    card = card_of("http://127.0.0.1/", *DIALECTS)
    async with fronted(ExtendedAgent(raw), card=card) as (gateway, backend):
        method = "GET" if call is None else "POST"
        answer = await gateway.ask(method, target, call, [JSON])
        shown = answer.json["result"] if call is not None else answer.json
        assert shown["name"] == "Extended"
        assert str(backend.port) not in answer.body.decode()
        urls = {each["url"] for each in shown.get("supportedInterfaces", [])} | {shown.get("url")}
        assert urls - {None} == {gateway.gateway.public_url + "/echo"}
        assert backend.requests[0].target == seen


@for_each(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":null}',
        b'{"jsonrpc":"2.0","id":1,"result":CARD,"result":CARD}',
        b'{"jsonrpc":"2.0","id":1,"result":"http://PLACE/"}',
        b'{"jsonrpc":"2.0","id":1,"error":false,"result":CARD}',
        b'{"jsonrpc":"2.0","id":1,"error":{},"result":CARD}',
        b'{"jsonrpc":"2.0","id":1,"error":"","result":CARD}',
    ],
)
async def test_a_malformed_extended_card_is_refused(raw: bytes) -> None:
    card = card_of("http://127.0.0.1/", *DIALECTS)
    async with fronted(ExtendedAgent(raw), card=card) as (gateway, backend):
        answer = await gateway.post("/echo", b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}')
        assert answer.json["error"]["code"] == -32006
        assert str(backend.port) not in answer.body.decode()
        line = await gateway.line()
        assert (line["reason"], line["outcome"]) == ("upstream_protocol", "upstream_error")


async def test_beside_an_extended_card_nothing_is_passed() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"Result":CARD,"result":CARD,"from":"http://PLACE/"}'
    async with fronted(ExtendedAgent(raw), card=card_of("http://127.0.0.1/", *DIALECTS)) as (gateway, backend):
        answer = await gateway.post("/echo", b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}')
        assert set(answer.json) == {"jsonrpc", "id", "result"}
        assert str(backend.port) not in answer.body.decode()


async def test_an_extended_card_that_the_agent_refuses_is_refused_in_its_words() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"none"}}'
    async with fronted(answers(whole(body))) as (gateway, _):
        call = b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}'
        assert (await gateway.post("/echo", call)).body == body


async def test_an_extended_card_that_is_too_long_is_refused() -> None:
    long = b'{"jsonrpc":"2.0","id":1,"result":{"url":"http://PLACE/' + b"x" * (1 << 20) + b'"}}'
    async with fronted(ExtendedAgent(long), card=card_of("http://127.0.0.1/", *DIALECTS)) as (gateway, _):
        answer = await gateway.post("/echo", b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}')
        assert answer.json["error"]["code"] == -32006
