"""Paths, queries and tenants on the wire: one reading decides, is forwarded, and is the only one there is."""

import json

import pytest

from tests.support.gateway import CALL, JSON, Running, bearer
from tests.support.tenancy import guarded
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

ACME = bearer("acme")
V1_0 = (b"A2A-Version", b"1.0")
MESSAGE = b'{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}'


async def sent(gateway: Running, method: str, target: bytes, body: bytes | None = None) -> int:
    """The status of a request by acme with exactly this target."""
    client = await gateway.client()
    head = [method.encode() + b" " + target + b" HTTP/1.1", b"Host: 127.0.0.1"]
    head += [name + b": " + value for name, value in (ACME, V1_0, JSON)]
    head += [] if body is None else [b"Content-Length: %d" % len(body)]
    await client.send(b"\r\n".join(head) + b"\r\n\r\n" + (body or b""))
    answer = await client.answer()
    client.leave()
    return answer.status


# ---- T10 -----------------------------------------------------------------------------------------------------------


FORWARDED = [
    ("GET", "/support/tasks/a:b", "/tasks/a:b"),
    ("POST", "/support/tasks/a:b:cancel", "/tasks/a:b:cancel"),
    ("POST", "/support/tasks/a:cancel:cancel", "/tasks/a:cancel:cancel"),
    ("POST", "/support/tasks/a%3acancel:cancel", "/tasks/a:cancel:cancel"),
    ("POST", "/support/tasks/a%3Ab:cancel/", "/tasks/a:b:cancel"),
    ("POST", "/support/tasks/a/subscribe", "/tasks/a:subscribe"),
    ("GET", "/support/tasks/%c3%a4%3f%20b", "/tasks/%C3%A4%3F%20b"),
    ("GET", "/support/tasks/(a)!,b/", "/tasks/(a)!,b"),
    ("GET", "/support/tasks/a%7eb%40c", "/tasks/a~b@c"),
    ("GET", "/support/tasks/a/pushNotificationConfigs/c%2c%3B", "/tasks/a/pushNotificationConfigs/c,%3B"),
    ("GET", "/support/v1/tasks/a", "/tasks/a"),
    ("GET", "/a2a/research/tasks/a:b", "/tasks/a:b"),
]


async def test_the_forwarded_path_is_written_from_the_parsed_one() -> None:
    async with guarded() as (gateway, backend):
        for method, target, _ in FORWARDED:
            await sent(gateway, method, target.encode())
        assert [request.target.decode() for request in backend.requests] == [path for _, _, path in FORWARDED]


TRICKS = [
    b"/support/../hermit", b"/support/./", b"/./support", b"/support/..", b"/nothing/../support", b"/..;/support",
    b"/support/%2e%2e/hermit", b"/support/%2E", b"/support%2f", b"/%2fsupport", b"/support/tasks/a%2fb",
    b"/support/tasks/a%2F..%2Fb", b"/support/tasks/%2e%2e", b"/support/tasks/..", b"/support/tasks/a%5cb",
    b"/support\\", b"/support/tasks/a\\b", b"//support", b"/support//", b"/support//message:send",
    b"/support;a=b", b"/support/tasks/a;b", b"/support;/message:send", b"/support%00", b"/support/tasks/a%00",
    b"/support/tasks/a%0d%0ax", b"/support%252f", b"/support/tasks/a%252fb", b"/support/tasks/a%25", b"/support%",
    b"/support/tasks/a%c0%af", b"/support/tasks/a%e0%80%af", b"/support/tasks/%ff", b"/support/tasks/%ed%a0%80",
    b"/suppor%74", b"/support/task%73/a", b"/support/tasks/%61", b"/support/messag%65:send", b"/support/tasks/a%20",
    b"/support%20", b"/support/tasks/a\tb", b"/support/\x01", b"/support/tasks/a\xe4", b"*", b"support",
    b"@support", b":80/support", b"127.0.0.1/support", b"/support/tasks/a%u002f", b"/support/message%3Asend",
    b"/a2a/%72esearch/message:send", b"/a2a/research%20/message:send", b"/a2a/research%00/message:send",
]  # fmt: skip


async def test_a_path_that_two_servers_could_read_in_two_ways_is_refused() -> None:
    async with guarded() as (gateway, backend):
        for target in TRICKS:
            assert await sent(gateway, "GET", target) == 400, target
            # 200 is how JSON-RPC tells its clients of -32600.
            assert await sent(gateway, "POST", target, MESSAGE) in (200, 400), target
        assert backend.requests == []


NEARLY = [
    b"/Support", b"/SUPPORT/message:send", b"/supportx", b"/support.", b"/suppor", b"/support~", b"/support/Tasks/a",
    b"/support/MESSAGE:send", b"/support/message:SEND", b"/support/tasks/a/b", b"/support/research/message:send",
    b"/a2a/RESEARCH/message:send", b"/a2a/research./message:send", b"/a2a/research/research/message:send",
    b"/@support", b"/support/@127.0.0.1/tasks/a", b"/support:80", b"/a2a/:80/message:send", b"/",
]  # fmt: skip


async def test_a_path_that_is_nearly_one_is_none() -> None:
    async with guarded() as (gateway, backend):
        for target in NEARLY:
            for method, body in (("GET", None), ("POST", MESSAGE)):
                assert await sent(gateway, method, target, body) in (404, 405), target
        assert backend.requests == []


# ---- T11 -----------------------------------------------------------------------------------------------------------


@for_each(
    ("query", "passed"),
    [
        (b"historyLength=2&A2A-Version=1.0", b"historyLength=2&A2A-Version=1.0"),
        (b"tenant=research", b""),
        (b"pageToken=a%3d%3D%2b/+x&tenant=research&q", b"pageToken=a%3d%3D%2b/+x&q"),
        (b"tenant=%72esearch&&x=1", b"x=1"),
        (b"id=t&taskId=t", b"id=t&taskId=t"),
        (b"assistant_id=1&$alt=json&a.b=c", b"assistant_id=1&$alt=json&a.b=c"),
    ],
)
async def test_the_query_that_goes_on_is_written_from_the_pairs_that_were_read(query: bytes, passed: bytes) -> None:
    async with guarded() as (gateway, backend):
        assert await sent(gateway, "GET", b"/a2a/research/tasks/t?" + query) == 200
        assert backend.requests[0].target == b"/tasks/t" + (b"?" + passed if passed else b"")


QUERIES = [
    b"tenant=billing", b"tenant=research&tenant=research", b"tenant=research&tenant=billing", b"Tenant=research",
    b"TENANT=billing", b"t%65nant=research", b"tenant%00=billing", b"tenant[]=billing", b"+tenant=billing",
    b"ten-ant=billing", b"message.tenant=billing", b"tenant=research;tenant=billing", b"tenant=research%00",
    b"tenant=billing%20", b"tenant=%ef%bd%92esearch", b"tenant=research+", b"id=u", b"taskId=u", b"task_id=u",
    b"taskId=t&task_id=t", b"contextId=c", b"Id=t", b"message.taskId=u", b"historyLength=1&history_length=2",
    b"A2A-Version=0.3", b"A2A-Version=1.0&a2a-version=1.0", b"a=%zz", b"a=%", b"a=%0a", b"a=%c0%80", b"a=b#c",
    b"a=\xe4", b"access_token=x", b"api_key=x", b"=x",
]  # fmt: skip


async def test_a_query_that_says_something_else_or_two_things_is_refused() -> None:
    async with guarded() as (gateway, backend):
        for query in QUERIES:
            assert await sent(gateway, "GET", b"/a2a/research/tasks/t?" + query) == 400, query
        assert backend.requests == []


async def test_the_path_and_the_body_name_one_tenant() -> None:
    body = json.loads(MESSAGE)
    async with guarded() as (gateway, backend):
        for inside, status in (("billing", 400), ("hermit", 400), ("", 200), ("research", 200), (None, 200)):
            written = json.dumps({**body, "tenant": inside}).encode()
            assert await sent(gateway, "POST", b"/a2a/research/message:send", written) == status
        assert len(backend.requests) == 3


# ---- T9 ------------------------------------------------------------------------------------------------------------

VALUES: list[object] = [
    "research ", " research", "Research", "RESEARCH", "\uff52esearch", "rese\u200darch", "research\0", "research\r\n",
    "research\r\nX-A2A-Tenant: globex", "../research", "research/../billing", "research/", "./research",
    "rese\u0301arch", "\u202eresearch", "*", "-", "..", "v1", "tasks", "x" * 65, "research" * 12_500, ["research"], [],
    {"a": "research"}, {}, 0, 1, 1.5, True, False,
]  # fmt: skip


async def test_a_tenant_is_exactly_the_configured_text_in_every_place() -> None:
    async with guarded() as (gateway, backend):
        for value in VALUES:
            await _names_nobody(gateway, value)
        assert backend.requests == []


async def _names_nobody(gateway: Running, value: object) -> None:
    params = json.loads(CALL)["params"]
    push = {"configuration": {"taskPushNotificationConfig": {"url": "https://hook.test", "tenant": value}}}
    bodies = [
        ("/a2a", {**json.loads(CALL), "params": {**params, "tenant": value}}),
        ("/a2a", {**json.loads(CALL), "params": {**params, **push}}),
        ("/a2a/message:send", {**params, "tenant": value}),
        ("/a2a/research/message:send", {**params, "tenant": value}),
        ("/a2a/research/message:send", {**params, **push}),
    ]
    for target, document in bodies:
        answer = await gateway.post(target, json.dumps(document).encode(), [ACME, V1_0])
        assert "error" in answer.json, (target, value)
    if isinstance(value, str) and len(value) < 2_000:
        escaped = b"".join(b"%%%02x" % byte for byte in value.encode())
        assert await sent(gateway, "POST", b"/a2a/" + escaped + b"/message:send", MESSAGE) == 400, value
        assert await sent(gateway, "POST", b"/a2a/message:send?tenant=" + escaped, MESSAGE) in (400, 404), value


async def test_an_escape_of_json_is_no_other_text() -> None:
    async with guarded() as (gateway, backend):
        await gateway.post("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"\\u0072esearch",'), [ACME])
        await gateway.post("/a2a", CALL.replace(b'"params":{', b'"params":{"\\u0074enant":"research",'), [ACME])
        assert len(backend.requests) == 2
        await gateway.line(of=2)
        assert [line["agent"] for line in gateway.lines] == ["research", "research"]


async def test_a_backend_sees_the_tenant_of_the_credential_only() -> None:
    async with guarded() as (gateway, backend):
        await gateway.post("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"research",'), [ACME])
        [request] = backend.requests
        assert request.header(b"x-a2a-tenant") == b"acme"
        assert b"research" not in request.body
