"""Metadata that says who somebody is not, or two things at once: over gRPC as over HTTP (safety H1 to H5, T5, T11)."""

from base64 import b64encode

import pytest

from gateway.a2a.bindings.grpc_method import BY_PATH, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.support.gateway import CALL, bearer, secret
from tests.support.grpc_bytes import text_field
from tests.support.grpc_tenants import OPEN, SEND, Told, in_json, key, message, tenants

pytestmark = pytest.mark.anyio

V0_3, V1_0 = Version.V0_3, Version.V1_0
GET_TASK = method_of(Operation.GET_TASK, V1_0).path
TO_ACME, TO_GLOBEX, TO_NOBODY = message(tenant="acme"), message(tenant="globex"), message(tenant="initech")
SPOOFED = [
    (name.encode(), b"c3Bvb2ZlZA" if name.endswith("-bin") else b"spoofed")
    for name in (
        "x-a2a-tenant", "x-a2a-subject", "x-a2a-session", "x-forwarded-for", "x-forwarded-host", "x-forwarded-user",
        "x-forwarded-proto", "x-forwarded-prefix", "x-real-ip", "x-client-ip", "forwarded", "via", "x-request-id",
        "x-original-url", "x-rewrite-url", "x-http-method-override", "x-remote-user", "remote-user", "cookie",
        "referer", "x_a2a_tenant", "x_a2a_subject", "x-a2a_tenant", "x_forwarded_for", "x.a2a.tenant", "a2a_version",
        "x-a2a-tenant-bin", "x-a2a-subject-bin", "x-forwarded-for-bin", "authorization-bin", "a2a-extensions-bin",
        "grpc-trace-bin", "grpc-tags-bin",
        "proxy-authorization", "x-tenant", "tenant", "scope", "a2a-tenant", "a2a-scope", "host-override", "lb-token",
    )
]  # fmt: skip
IDENTITY = {"x-a2a-tenant": "acme", "x-a2a-subject": "acme", "x-forwarded-for": "127.0.0.1"}


def refused(told: Told, code: str, reason: str) -> None:
    assert (told.http, told.code, told.reason) == (200, code, reason), told.words


# ---- Who somebody is not ---------------------------------------------------------------------------------------------


async def test_an_agent_over_grpc_is_told_who_calls_by_the_gateway_alone() -> None:
    async with tenants(more='forward_headers: [X-Harmless, "X-Odd"]') as site:
        more = [*SPOOFED, (b"x-harmless", b"passes"), (b"x-harmless-bin", b"c3Bvb2ZlZA"), (b"x-odd", b"spoofed \xff")]
        # Fewer than a call may have at once.
        told = await site.ask(TO_ACME, key("acme"), *more)
        assert told.code == "OK"
        [(name, asked)] = site.asked
        assert name == "one"
        for each, value in IDENTITY.items():
            assert asked.told(each) == [value]
        assert asked.told("x-request-id") == [told.id.decode()]
        assert asked.told("x-harmless") == ["passes"]
        assert "spoofed" not in str(asked.metadata)
        assert secret("acme").decode() not in str(asked.metadata)
        assert {each for each, _ in asked.metadata} == {
            *IDENTITY, "x-request-id", "x-harmless", "a2a-version", "user-agent",
        }  # fmt: skip


async def test_an_agent_over_http_is_told_who_calls_by_the_gateway_alone() -> None:
    async with tenants(script=in_json()) as site:
        told = await site.ask(TO_ACME, key("acme"), *SPOOFED)
        assert told.code == "OK"
        [(name, request)] = site.requests
        assert name == "one"
        for each, value in IDENTITY.items():
            assert request.header(each.encode()) == value.encode()
        assert request.header(b"x-request-id") == told.id
        assert b"spoofed" not in b"".join(b"%b%b" % pair for pair in request.headers)
        assert secret("acme") not in b"".join(value for _, value in request.headers)


async def test_a_name_that_http_2_cannot_have_ends_the_call() -> None:
    async with tenants() as site:
        client = await site.client()
        for name in (b"X-A2A-Tenant", b"Authorization", b"x-api-keY", b"x a2a tenant", b"x-a2a-tenant:", b""):
            told = await site.ask(TO_ACME, key("acme"), (name, b"globex"), client=client)
            assert told.code == "INTERNAL", name
        assert site.reached == []
        assert (await site.ask(TO_ACME, key("acme"), client=client)).code == "OK"


async def test_a_value_with_a_line_end_ends_the_call() -> None:
    async with tenants() as site:
        for value in (b"a\r\nx-a2a-tenant: globex", b"a\nb", b"a\0b", b"a\x7f"):
            assert (await site.ask(TO_ACME, key("acme"), (b"traceparent", value))).code == "INVALID_ARGUMENT"
        assert site.reached == []


# ---- Two things at once ----------------------------------------------------------------------------------------------


NO_CREDENTIAL = {
    "two of authorization": [key("acme"), key("globex")],
    "the same twice": [key("acme"), key("acme")],
    "one in each place": [key("acme"), (b"x-api-key", secret("globex"))],
    "the same in each place": [key("acme"), (b"x-api-key", secret("acme"))],
    "two of x-api-key": [(b"x-api-key", secret("acme")), (b"x-api-key", secret("globex"))],
    "one and an empty one": [key("acme"), (b"authorization", b"")],
    "a list": [(b"authorization", b"Bearer " + secret("acme") + b", Bearer " + secret("globex"))],
    "another scheme": [(b"authorization", b"Basic YTpi")],
    "no scheme": [(b"authorization", secret("acme"))],
    "binary": [(b"authorization-bin", b64encode(key("acme")[1]))],
    "for a proxy": [(b"proxy-authorization", key("acme")[1])],
    "underscores": [(b"x_api_key", secret("acme"))],
    "none": [],
}


async def test_a_call_shows_one_credential() -> None:
    async with tenants() as site:
        for name, more in NO_CREDENTIAL.items():
            for body in (TO_ACME, TO_GLOBEX, message()):
                assert (await site.ask(body, *more)).code == "UNAUTHENTICATED", name
        assert site.reached == []


async def test_two_credentials_are_refused_where_nobody_asks_for_one() -> None:
    async with tenants(settings=OPEN) as site:
        for more in ([key("acme"), key("globex")], [key("acme"), (b"x-api-key", b"x")], [(b"x-api-key", b"x")] * 2):
            refused(await site.ask(TO_ACME, *more), "INVALID_ARGUMENT", "BAD_REQUEST")
        assert site.reached == []


async def test_a_version_is_one_that_there_is() -> None:
    async with tenants() as site:
        for several in ([b"1.0", b"0.3"], [b"1.0", b"1.0"]):
            told = await site.ask(TO_ACME, key("acme"), *((b"a2a-version", each) for each in several))
            refused(told, "INVALID_ARGUMENT", "BAD_REQUEST")
        for unknown in (b"9.9", b"1.0, 0.3", b"latest", b"\xff", b"1" * 1000):
            told = await site.ask(TO_ACME, key("acme"), (b"a2a-version", unknown))
            refused(told, "FAILED_PRECONDITION", "VERSION_UNSUPPORTED")
        assert site.reached == []


async def test_the_package_tells_the_generation_and_metadata_does_not() -> None:
    async with tenants() as site:
        for said in (b"0.3", b"0.1", b"1.0.7", b""):
            assert (await site.ask(TO_ACME, key("acme"), (b"a2a-version", said))).code == "OK"
            assert (site.asked[-1][1].path, site.asked[-1][1].told("a2a-version")) == (SEND, ["1.0"])


# ---- Where it is sent to ---------------------------------------------------------------------------------------------


async def test_no_host_picks_an_agent() -> None:
    async with tenants() as site:
        both = key("both")
        for more in ((), ((b"host", b"one.agents.test"),)):
            told = await site.ask(message(), both, *more, authority=b"one.agents.test")
            refused(told, "NOT_FOUND", "NO_ROUTE")
        assert (await site.ask(TO_GLOBEX, both, authority=b"one.agents.test")).code == "OK"
        assert site.reached == ["two"]


NO_METHODS = (
    "/lf.a2a.v1.A2AService/sendmessage", "/LF.a2a.v1.A2AService/SendMessage", SEND + "/", "/" + SEND, SEND + "#",
    SEND + "?tenant=globex", "/acme" + SEND, "/lf.a2a.v1.A2AService/%53endMessage",
    "/lf.a2a.v1.A2AService/../A2AService/SendMessage", "/lf.a2a.v1.A2AService/TaskSubscription",
    "/a2a.v1.A2AService/SubscribeToTask", "/a2a.v1.A2AService/ListTasks", "/lf.a2a.v1.ScopedA2AService/SendMessage",
    "/a2a.v1.ScopedA2AService/SubscribeToTask", "/one", "/",
)  # fmt: skip


async def test_a_path_that_is_no_method_reaches_nobody() -> None:
    async with tenants() as site:
        for path in NO_METHODS:
            for more in ((), (key("both"),)):
                told = await site.ask(TO_ACME, *more, path=path, authority=b"one.agents.test")
                assert told.code == "UNIMPLEMENTED", path
        assert site.reached == []


async def test_a_method_of_grpc_is_no_path_of_http() -> None:
    """Not even once it has been called: what is known of one is not known of the other."""
    async with tenants() as site:
        body = CALL.replace(b'"params":{', b'"params":{"tenant":"acme",')
        before = [await site.gateway.post(SEND, body, more) for more in ((), (bearer("both"),))]
        # The authority that clients of HTTP name as well.
        assert (await site.ask(TO_ACME, key("both"), authority=b"127.0.0.1")).code == "OK"
        for said in (body, b'{"tenant":"acme","message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}'):
            after = [await site.gateway.post(SEND, said, more) for more in ((), (bearer("both"),))]
            assert [each.status for each in after] == [401, 404]
            assert [each.anonymous for each in after] == [each.anonymous for each in before]
        assert site.reached == ["one"]


# ---- What strangers learn --------------------------------------------------------------------------------------------


async def test_a_hidden_agent_is_told_from_a_missing_one_by_nothing() -> None:
    async with tenants() as site:
        for method in BY_PATH.values():
            if method.version is V0_3 and not method.scoped:
                continue
            scoped = 4 if method.operation is Operation.LIST_PUSH_CONFIGS else 1
            number = 100 if method.version is V0_3 else scoped
            heard = [
                await site.ask(text_field(number, tenant), key("acme"), path=method.path)
                for tenant in ("globex", "initech")
            ]
            assert heard[0].anonymous == heard[1].anonymous, method.path
            refused(heard[0], "NOT_FOUND", "NO_ROUTE")
        assert site.reached == []


async def test_a_caller_without_agents_gets_the_same_answer_everywhere() -> None:
    async with tenants() as site:
        heard = [
            await site.ask(body, key("nobody"), authority=authority)
            for body in (TO_ACME, TO_GLOBEX, TO_NOBODY, message(), b"\xff", b"\x0a\x04acme" * 2)
            for authority in (b"gateway.example", b"one.agents.test", b"nowhere.test", b"127.0.0.1:1")
        ]
        assert {each.anonymous[0] for each in heard} == {200}
        assert len({str(each.anonymous) for each in heard}) == 1
        assert site.reached == []


async def test_a_stranger_gets_the_same_answer_to_every_call() -> None:
    async with tenants() as site:
        heard = [
            await site.ask(body, path=path, authority=authority)
            for body in (TO_ACME, TO_NOBODY, b"\xff", b"")
            for path in (SEND, GET_TASK)
            for authority in (b"gateway.example", b"one.agents.test", b"nowhere.test")
        ]
        assert len({str(each.anonymous) for each in heard}) == 1
        refused(heard[0], "UNAUTHENTICATED", "AUTH_MISSING")
        assert site.reached == []
