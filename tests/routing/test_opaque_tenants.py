"""The A2A `tenant` through a whole gateway: any text is one and is compared exactly, and only a path asks for more."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_message import request_class
from gateway.a2a.bindings.grpc_method import SCOPE_FIELD, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import is_tenant
from gateway.routing.route import backend_key, read_backend_key
from tests.support.gateway import CALL, Answer, Running, agent, bearer, card_of, keys, running
from tests.support.grpc_bytes import held
from tests.support.grpc_gateway import LISTENS, GrpcClient, Told, dialled
from tests.support.grpc_tenants import in_json
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

WILD = "orgs/42"
CARD = "/.well-known/agent-card.json"
MESSAGE = b'{"message":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"ho"}]}}}'
LIKE_IT = [
    "orgs/42 ",
    " orgs/42",
    "Orgs/42",
    "orgs%2F42",
    "orgs/4\uff12",
    "orgs\u2215" + "42",
    "orgs/42\u200d",
    "orgs",
    "orgs/42/",
]
NONE = ["a\nb", "a\x00", "\x7f", "a\x85b", "x" * 257, "\u00e4" * 129, "..", "v1"]


def rpc(tenant: object, operation: str = "SendMessage") -> bytes:
    call = json.loads(CALL)
    call["method"] = operation
    call["params"]["tenant"] = tenant
    return json.dumps(call).encode()


def rest(tenant: object) -> bytes:
    return json.dumps({"tenant": tenant, "message": json.loads(CALL)["params"]["message"]}).encode()


@asynccontextmanager
async def site(
    text: str, *dialects: str, script: Any = None
) -> AsyncIterator[tuple[Running, ScriptedBackend, GrpcClient]]:
    """A gateway in front of one backend at `{url}`, and a client of gRPC; the card has the dialects."""
    card = card_of("http://127.0.0.1:1/", *(dialects or ("JSONRPC 1.0",)))
    async with ScriptedBackend(agent(script or in_json(), card)) as backend:
        listens = f"gateway: {{ {LISTENS}, public_url: 'https://gw.test' }}\n"
        async with running(listens + text.replace("{url}", backend.url)) as gateway, dialled(gateway) as client:
            yield gateway, backend, client


async def send(client: GrpcClient, tenant: str, *metadata: tuple[str, str], scoped: bool = False) -> Told:
    version = Version.V0_3 if scoped else Version.V1_0
    kind = request_class(method_of(Operation.SEND_MESSAGE, version))
    if scoped:
        message = kind(request={"message_id": "m", "role": 1, "content": [{"text": "hi"}]}).SerializeToString()
        message += held(SCOPE_FIELD, tenant.encode())
        return await client.ask(Operation.SEND_MESSAGE, message, *metadata, version=version, scoped=True)
    sent = {"message_id": "m", "role": 1, "parts": [{"text": "hi"}]}
    return await client.ask(Operation.SEND_MESSAGE, kind(tenant=tenant, message=sent).SerializeToString(), *metadata)


FOUND = f"agents: {{ it: {{ backend: '{{url}}', match: {{ path: /a2a, tenant: {WILD} }} }} }}"


async def asked(gateway: Running, client: GrpcClient, tenant: str) -> list[Answer | Told]:
    """The same send with a tenant in every place that is no path."""
    query = "?tenant=" + quote(tenant, safe="")
    return [
        await gateway.post("/a2a", rpc(tenant)),
        await gateway.post("/a2a" + query, CALL),
        await gateway.post("/a2a/message:send", rest(tenant)),
        await gateway.post("/a2a/message:send" + query, rest("")),
        await send(client, tenant),
        await send(client, tenant, scoped=True),
    ]


def worked(told: Answer | Told) -> bool:
    return told.code == "OK" if isinstance(told, Told) else told.status == 200 and "error" not in told.json


async def test_a_tenant_is_found_by_any_text_in_bodies_queries_and_grpc() -> None:
    async with site(FOUND) as (gateway, backend, client):
        assert [worked(each) for each in await asked(gateway, client, WILD)] == [True] * 6
        assert {json.loads(each.body).get("params", {}).get("tenant") for each in backend.requests} == {None}
        assert {line["a2a_tenant"] for line in (await gateway.line(of=6), *gateway.lines)} == {WILD}


@for_each("tenant", LIKE_IT)
async def test_similar_tenants_are_different_tenants(tenant: str) -> None:
    async with site(FOUND) as (gateway, backend, client):
        for told in await asked(gateway, client, tenant):
            assert told.reasons[-1] == "NO_ROUTE"
        assert backend.requests == []


@for_each("tenant", NONE)
async def test_a_malformed_tenant_is_refused_in_the_callers_dialect(tenant: str) -> None:
    async with site(FOUND) as (gateway, backend, client):
        told = await asked(gateway, client, tenant)
        assert not any(worked(each) for each in told)
        assert {each.reasons[-1] for each in told} == {"BAD_REQUEST"}
        assert told[0].json["error"]["code"] == -32602  # type: ignore[union-attr]  # over HTTP
        assert [told[2].status, told[4].code, told[5].code] == [400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"]  # type: ignore[union-attr]
        assert backend.requests == []


@for_each("tenant", [["orgs/42"], {"a": 1}, 42, True])
async def test_a_tenant_is_a_string(tenant: object) -> None:
    async with site(FOUND) as (gateway, backend, _):
        for path, body in (("/a2a", rpc(tenant)), ("/a2a/message:send", rest(tenant))):
            assert (await gateway.post(path, body)).reasons[-1] == "BAD_REQUEST"
        assert backend.requests == []


async def test_two_places_that_differ_are_refused() -> None:
    async with site(FOUND) as (gateway, backend, _):
        for path, body in (
            ("/a2a?tenant=orgs%2F43", rpc(WILD)),
            ("/a2a/orgs", rpc(WILD)),
            ("/a2a/orgs/message:send", rest(WILD)),
            ("/a2a/message:send?tenant=orgs", rest(WILD)),
        ):
            assert (await gateway.post(path, body)).reasons[-1] == "BAD_REQUEST"
        for path in ("/a2a/orgs/42", "/a2a/orgs%2F42", "/a2a/orgs/42/message:send", "/a2a/orgs%2f42/message:send"):
            assert (await gateway.post(path, rpc(WILD))).status in (400, 404)
        assert backend.requests == []


# ---- What the agent is told ------------------------------------------------------------------------------------------

KEEP = "agents: { it: { backend: '{url}', match: { path: /a2a }, upstream_tenant: keep } }"


@for_each("tenant", [WILD, "a b", "\u00e4" * 128, "x/../../y"])
async def test_an_agent_that_keeps_tenants_is_told_any_over_json_rpc(tenant: str) -> None:
    for dialects in (("JSONRPC 1.0",), ("HTTP+JSON 1.0", "JSONRPC 1.0")):
        async with site(KEEP, *dialects) as (gateway, backend, _):
            told = [await gateway.post("/a2a", rpc(tenant)), await gateway.post("/a2a/message:send", rest(tenant))]
            assert [worked(each) for each in told] == [True, True]
            assert {json.loads(each.body)["params"]["tenant"] for each in backend.requests} == {tenant}
            assert {each.target for each in backend.requests} == {b"/"}


@for_each("tenant", [WILD, "a b", "\u00e4", "x" * 65, "x/../../y", "a%2fb", "a;b"])
async def test_a_tenant_that_no_path_can_say_never_reaches_an_agent_over_http_and_json_alone(tenant: str) -> None:
    async with site(KEEP, "HTTP+JSON 1.0", script=answers(whole(MESSAGE))) as (gateway, backend, _):
        for path, body in (("/a2a", rpc(tenant)), ("/a2a/message:send", rest(tenant))):
            told = await gateway.post(path, body)
            assert told.reasons[-1] == "BAD_REQUEST"
            assert b"asked over HTTP+JSON" in told.body
        assert backend.requests == []
        assert worked(await gateway.post("/a2a/message:send", rest("acme")))
        assert [each.target for each in backend.requests] == [b"/acme/message:send"]


async def test_an_agent_is_told_the_tenant_of_the_file() -> None:
    text = KEEP.replace("keep", "orgs/42")
    async with site(text) as (gateway, backend, _):
        assert worked(await gateway.post("/a2a", rpc("acme")))
        assert json.loads(backend.requests[0].body)["params"]["tenant"] == WILD
    async with site(text, "HTTP+JSON 1.0") as (gateway, backend, _):
        told = await gateway.post("/a2a", rpc("acme"))
        assert (told.json["error"]["code"], backend.requests) == (-32004, [])


# ---- Backends of tenants ---------------------------------------------------------------------------------------------

DIVIDED = (
    keys(acme="acme", globex="globex")
    + """\
tenants: { acme: { agents: [crm], act_for: [orgs/42, "a b"] }, globex: [crm] }
agents:
  crm:
    match: [{ path: /crm }, { key: acme }]
    by_tenant: { orgs/42: "{url}", "a b": "{url}" }
"""
)


async def test_only_a_caller_that_acts_for_an_opaque_tenant_reaches_its_backend() -> None:
    async with site(DIVIDED) as (gateway, backend, client):
        for tenant in (WILD, "a b"):
            assert worked(await gateway.post("/crm", rpc(tenant), [bearer("acme")]))
            assert (await gateway.post("/crm", rpc(tenant), [bearer("globex")])).reasons[-1] == "NO_ROUTE"
        assert len(backend.requests) == 2
        lines = [await gateway.line(of=4), *gateway.lines]
        assert {line["backend"] for line in lines if line["outcome"] == "ok"} == {"crm/orgs%2F42", "crm/a%20b"}
        metrics = await gateway.ask("GET", "/metrics", admin=True)
        assert b'"crm/orgs%2F42"' in metrics.body
        key = bearer("acme")[1].decode()
        assert (await send(client, WILD, ("authorization", key))).code == "OK"


@given(st.lists(st.text(max_size=40).filter(is_tenant), min_size=2, max_size=2, unique=True))
def test_two_tenants_never_have_one_backend(tenants: list[str]) -> None:
    one, other = (backend_key("crm", tenant) for tenant in tenants)
    assert one != other
    assert [read_backend_key(key) for key in (one, other)] == [("crm", tenant) for tenant in tenants]
    # The ledger puts keys before spaces, and reads the agent up to the slash.
    assert not any(character in one.removeprefix("crm/") for character in " /\n\0")
    assert (backend_key("crm"), read_backend_key("crm")) == ("crm", ("crm", None))
    assert backend_key("crm", "acme-1.x_Y") == "crm/acme-1.x_Y"


# ---- Cards -----------------------------------------------------------------------------------------------------------

LISTED = FOUND.replace("match:", "expose: [jsonrpc, rest, grpc], match:")


async def test_the_card_is_found_by_the_query_and_lists_what_can_say_the_tenant() -> None:
    async with site(LISTED) as (gateway, _, _):
        for query in ("?tenant=orgs%2F42", "?tenant=orgs/42"):
            card = (await gateway.get("/a2a" + CARD + query)).json
            assert [
                (each["protocolBinding"], each["protocolVersion"], each["tenant"])
                for each in card["supportedInterfaces"]
            ] == [("JSONRPC", "1.0", WILD), ("GRPC", "1.0", WILD)]
            assert card["supportedInterfaces"][0]["url"] == "https://gw.test/a2a"
            assert card["transportOptions"]["GRPC"]["scope"] == WILD
        for query in ("", "?tenant=orgs", "?tenant=orgs%2F43", "?tenant=orgs%252F42", "?tenant=orgs%2F42&tenant=x"):
            assert (await gateway.get("/a2a" + CARD + query)).status == 404
        for path in ("/a2a/orgs/42", "/a2a/orgs%2F42", "/a2a/orgs"):
            assert (await gateway.get(path + CARD)).status in (400, 404)
    async with site(FOUND) as (gateway, _, _):
        card = (await gateway.get("/a2a" + CARD + "?tenant=orgs%2F42")).json
        assert [each["url"] for each in card["supportedInterfaces"]] == ["https://gw.test/a2a"]
        assert not {"url", "additionalInterfaces", "preferredTransport"} & card.keys()


async def test_a_customers_card_is_for_who_acts_for_it() -> None:
    async with site(DIVIDED) as (gateway, _, _):
        where = "/crm" + CARD + "?tenant=orgs%2F42"
        card = (await gateway.ask("GET", where, headers=[bearer("acme")])).json
        assert [(each["protocolBinding"], each.get("tenant")) for each in card["supportedInterfaces"]] == [
            ("JSONRPC", WILD)
        ]
        other = await gateway.ask("GET", where, headers=[bearer("globex")])
        assert other.status == 404
        hidden = [await gateway.ask("GET", path) for path in (where, "/nowhere" + CARD + "?tenant=orgs%2F42")]
        assert [each.status for each in hidden] == [401, 401]
        assert hidden[0].anonymous == hidden[1].anonymous
