"""The interface that a call goes to, and the request that the agent gets."""

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call, Head
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall, read_rest, segments
from gateway.principal import Principal
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.dialects import Interface, spellings
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import Caller, Treatment, UpstreamTimeouts
from tests.table import for_each

pytestmark = pytest.mark.anyio

RPC = Dialect(Binding.JSONRPC, Version.V1_0)
REST = Dialect(Binding.REST, Version.V1_0)
RPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
CALLER = Caller(Principal("acme", "alice", "jwt"), "203.0.113.9", "r1")
TIMES = UpstreamTimeouts(connect=1, first_byte=2, send=3, stream_idle=4, total=5)


@dataclass
class Pool:
    """Keeps what it is asked to send."""

    head: bytes = b""
    body: bytes = b""
    asked: dict[str, Any] = field(default_factory=dict)

    async def request(self, head: bytes, body: bytes, **asked: Any) -> None:
        self.head, self.body, self.asked = head, body, asked

    @property
    def line(self) -> str:
        return self.head.decode("latin-1").partition(" HTTP/1.1\r\n")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        pairs = self.head.decode("latin-1").split("\r\n")[1:-2]
        return [(name, value) for name, _, value in (pair.partition(": ") for pair in pairs)]


@dataclass
class Cards:
    version: int = 0
    spoken: tuple[CardInterface, ...] = ()


def offers(*interfaces: tuple[Dialect, str] | tuple[Dialect, str, str]) -> Cards:
    return Cards(1, tuple(CardInterface(*interface) for interface in interfaces))


def upstream(cards: Cards | None = None, *, url: str = "http://agent:8000/base", **more: Any) -> HttpUpstream:
    treatment = more.pop("treatment", Treatment())
    return HttpUpstream(
        backend="billing",
        url=url,
        pool=cast("ConnectionPool", more.pop("pool", Pool())),  # only `request` is called
        cards=cards or Cards(),
        timeouts=TIMES,
        treatment=treatment,
        **more,
    )


def rpc(method: str, params: object, *, tenant: str | None = None, query: bytes = b"") -> Call:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(tenant=tenant), query, None)


def restful(
    method: str, path: str, body: object = None, *, query: bytes = b"", version: Version = Version.V1_0
) -> tuple[Call, Head]:
    found = read_rest(method, segments(path.encode()), tenanted=True)
    assert found is not None
    call = rest.read_call(found, b"" if body is None else json.dumps(body).encode(), query, version)
    return call, Head(method, path.encode(), query)


async def sent(call: Call, head: Head | None = None, *, caller: Caller = CALLER, **more: Any) -> Pool:
    pool = Pool()
    agent = upstream(pool=pool, **more)
    await agent.send(call, agent.dialects.interface(call, spellings(call)), head or Head("POST", b"/"), caller)
    return pool


def where(agent: HttpUpstream, call: Call) -> Interface:
    return agent.dialects.interface(call, spellings(call))


# ---- The request -----------------------------------------------------------------------------------------------------


async def test_the_agent_gets_allowed_headers_and_the_gateways_own_and_no_others() -> None:
    came = (
        (b"host", b"gateway"),
        (b"authorization", b"Bearer client"),
        (b"x-api-key", b"client"),
        (b"a2a-version", b"1.0"),
        (b"x-a2a-tenant", b"globex"),
        (b"x-a2a-subject", b"root"),
        (b"x_a2a_tenant", b"globex"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-region", b"eu"),
        (b"accept-encoding", b"gzip"),
        (b"connection", b"x-a2a-tenant, x-request-id, x-region"),
        (b"transfer-encoding", b"chunked"),
    )
    head = Head("POST", b"/", headers=came)
    treatment = Treatment(credentials=((b"authorization", b"Bearer ours"),), forwarded=frozenset({b"x-region"}))
    pool = await sent(rpc("GetTask", {"id": "t"}), head, treatment=treatment)
    assert pool.headers == [
        ("host", "agent:8000"),
        ("a2a-version", "1.0"),
        ("content-type", "application/json"),
        ("authorization", "Bearer ours"),
        ("accept-encoding", "identity"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-a2a-tenant", "acme"),
        ("x-a2a-subject", "alice"),
        ("x-request-id", "r1"),
        ("content-length", str(len(pool.body))),
    ]


@for_each("said", [b"application/json; charset=utf-7", b"text/plain", b"application/a2a+json"])
async def test_the_agent_is_told_the_type_that_was_read_not_the_one_that_was_claimed(said: bytes) -> None:
    head = Head("POST", b"/", headers=((b"content-type", said), (b"content-type", b"text/html")))
    pool = await sent(rpc("GetTask", {"id": "t"}), head)
    assert [value for name, value in pool.headers if name == "content-type"] == ["application/json"]


subjects = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10) | st.sampled_from([" a", "a ", "%20a", "\ta"])


@given(subjects, subjects)
async def test_two_subjects_never_look_alike_to_an_agent(one: str, two: str) -> None:
    def shown(subject: str) -> Caller:
        return replace(CALLER, principal=Principal("acme", subject))

    call = rpc("GetTask", {"id": "t"})
    [first, second] = [dict((await sent(call, caller=shown(subject))).headers) for subject in (one, two)]
    # As an agent reads them: space around a value is no part of it.
    assert (first["x-a2a-subject"].strip() == second["x-a2a-subject"].strip()) == (one == two)


async def test_cached_headers_of_a_head_hold_for_no_other_call_or_caller() -> None:
    cards = offers(
        (RPC, "http://agent:8000/base/rpc"), (RPC_0_3, "http://agent:8000/old"), (REST, "http://agent:8000/r")
    )
    pool = Pool()
    agent = upstream(cards, pool=pool)
    head = Head("POST", b"/", headers=((b"accept", b"a/b"), (b"content-type", b"application/a2a+json")))
    calls = [
        rpc("SendMessage", {"message": {}}),
        rpc("GetTask", {"id": "t"}),
        rpc("GetTask", {"id": "t"}, query=b"a=b"),
        rpc("message/send", {"message": {}}),
        restful("POST", "/message:send", {"message": {}})[0],
        restful("GET", "/tasks/t")[0],
        replace(rpc("GetTask", {"id": "t"}), verb="POST"),
        replace(rpc("GetExtendedAgentCard", {}), path=PathCall(legacy_card=True)),
    ]
    callers = [
        CALLER,
        replace(CALLER, principal=Principal("acme", "bob")),
        replace(CALLER, forwarded_for="203.0.113.8"),
    ]
    for call in (*calls, *reversed(calls), *calls):
        for caller in (*callers, *callers):
            await agent.send(call, where(agent, call), head, caller)
            fresh = Head("POST", b"/", headers=head.headers)
            again = await sent(call, fresh, caller=caller, cards=cards)
            assert pool.head == again.head
            assert len(caller.prepared.lines) <= 16


# ---- The tenant ------------------------------------------------------------------------------------------------------

ASKS = offers((RPC, "http://agent:8000/base/rpc", "inside"), (REST, "http://agent:8000/base/rest", "inside"))


@for_each(
    ("treatment", "cards", "told", "gets"),
    [
        (None, None, "acme", None),
        (None, None, None, None),
        (None, ASKS, "acme", "inside"),
        (None, ASKS, None, "inside"),
        (None, ASKS, "inside", "inside"),
        ("strip", ASKS, "acme", None),
        ("keep", ASKS, "acme", "acme"),
        ("keep", None, "acme", "acme"),
        ("keep", None, None, None),
        ("other", None, "acme", "other"),
        ("other", None, None, "other"),
        ("other", ASKS, "other", "other"),
    ],
)
async def test_an_agent_gets_the_tenant_that_the_file_or_its_card_asks_for(
    treatment: str | None, cards: Cards | None, told: str | None, gets: str | None
) -> None:
    more: dict[str, Any] = {"cards": cards, "treatment": Treatment(treatment)}
    params: dict[str, Any] = {"message": {}} if told is None else {"tenant": told, "message": {}}
    by_body = rpc("SendMessage", params)
    in_path = rpc("SendMessage", {"message": {}}, tenant=told)
    empty = rpc("SendMessage", {"message": {}, "tenant": ""}, tenant=told)
    for call in (by_body, in_path, empty):
        pool = await sent(call, **more)
        assert json.loads(pool.body)["params"].get("tenant") == gets
        agent = upstream(cards, treatment=Treatment(treatment))
        assert agent.dialects.restores_tenant(call, where(agent, call)) == (told != gets)
    base = "/base" if cards is None else "/base/rest"
    segment = "" if gets is None else f"/{gets}"
    for path, body, query in (
        ("/message:send", params, b""),
        (f"/{told}/message:send" if told else "/message:send", {"message": {}}, b""),
        (f"/{told}/message:send" if told else "/message:send", params, b""),
        ("/message:send", {"message": {}}, b"" if told is None else f"tenant={told}".encode()),
    ):
        pool = await sent(*restful("POST", path, body, query=query), **more)
        assert pool.line == f"POST {base}{segment}/message:send"
        assert json.loads(pool.body).get("tenant", gets) == gets


async def test_a_body_stays_as_it_came_where_it_already_says_what_the_agent_shall_get() -> None:
    kept = Treatment("keep")
    call = rpc("GetTask", {"tenant": "acme", "id": "t"})
    assert (await sent(call, treatment=kept)).body is call.body
    told, head = restful("POST", "/acme/message:send", {"tenant": "acme", "message": {}})
    assert (await sent(told, head, treatment=kept)).body is told.body
    plain, head = restful("POST", "/acme/message:send", {"message": {}})
    assert (await sent(plain, head, treatment=kept)).body is plain.body
    assert (await sent(plain, head)).body is plain.body


async def test_the_push_configuration_that_a_message_brings_names_the_same_tenant() -> None:
    push = {"taskPushNotificationConfig": {"tenant": "acme", "url": "https://x"}}
    call = rpc("SendMessage", {"tenant": "acme", "message": {}, "configuration": push})
    assert b"acme" not in (await sent(call)).body
    params = json.loads((await sent(call, treatment=Treatment("inside"))).body)["params"]
    assert params["tenant"] == params["configuration"]["taskPushNotificationConfig"]["tenant"] == "inside"


async def test_a_tenant_of_the_agents_own_making_stays_one_segment() -> None:
    cards = offers((REST, "http://agent:8000/base/rest", "locations/eu ä?#"))
    pool = await sent(*restful("GET", "/tasks/t"), cards=cards)
    assert pool.line == "GET /base/rest/locations%2Feu%20%C3%A4%3F%23/tasks/t"


@for_each("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.GET_TASK])
async def test_sends_wait_long(operation: Operation) -> None:
    call = replace(rpc("GetTask", {"id": "t"}), operation=operation)
    pool = await sent(call)
    assert pool.asked["first_byte"] == (3 if operation.sends else 2)
