"""Callers over gRPC: who may call, and what the agent and the caller learn of each other."""

import json
import random

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.dialect import Version
from gateway.a2a.framing.grpc import frame
from gateway.a2a.operation import Operation
from tests.loops import both_loops
from tests.support.gateway import JSON, bearer, secret
from tests.support.grpc_agent import says
from tests.support.grpc_bytes import text_field
from tests.support.grpc_tenants import SEND, SETTINGS, Told, head_of, key, message, tenants
from tests.table import for_each

pytestmark = pytest.mark.anyio
anyio_backend = both_loops
V0_3, V1_0 = Version.V0_3, Version.V1_0
STREAM = method_of(Operation.SEND_STREAMING_MESSAGE, V1_0).path
TO_ACME, TO_GLOBEX = message(tenant="acme"), message(tenant="globex")
SAYS_1_0 = (b"A2A-Version", b"1.0")


def refused(told: Told, code: str, reason: str) -> None:
    assert (told.code, told.reason) == (code, reason), told.words


# ---- Who calls -------------------------------------------------------------------------------------------------------


async def test_the_callers_of_one_connection_are_told_apart() -> None:
    """A proxy sends the calls of many over one: headers repeat, and their names are compressed together."""
    shuffled = random.Random(1)
    async with tenants() as site:
        client = await site.client()
        for _ in range(60):
            caller, tenant = shuffled.choice(["acme", "globex", "both", "nobody"]), shuffled.choice(["acme", "globex"])
            told = await site.ask(message(tenant=tenant), key(caller), client=client)
            may = caller in (tenant, "both")
            assert told.code == ("OK" if may else "NOT_FOUND")
            if may:
                agent = site.over_grpc[{"acme": "one", "globex": "two"}[tenant]]
                # The gateway also asks for the card meanwhile.
                [asked] = [each for each in agent.asked if each.told("x-request-id") == [told.id.decode()]]
                assert asked.told("x-a2a-subject") == [caller]


async def test_calls_that_are_open_at_once_are_told_apart() -> None:
    async with tenants() as site:
        client = await site.client()
        streams = {
            client.ask([*head_of(), key(caller)], frame(body)): (caller, body)
            for caller in ("acme", "globex", "both")
            for body in (TO_ACME, TO_GLOBEX)
        }
        await client.until(lambda: streams.keys() <= client.ended.keys())
        told = {stream: dict(client.headers[stream]) | dict(client.trailers.get(stream, [])) for stream in streams}
        served = {streams[stream] for stream, pairs in told.items() if pairs[b"grpc-status"] == b"0"}
        assert served == {("acme", TO_ACME), ("globex", TO_GLOBEX), ("both", TO_ACME), ("both", TO_GLOBEX)}
        by_id = {told[stream][b"x-request-id"].decode(): who for stream, who in streams.items()}
        for name, asked in site.asked:
            caller, body = by_id[str(asked.told("x-request-id")[0])]
            assert asked.told("x-a2a-subject") == [caller]
            assert name == ("one" if body == TO_ACME else "two")


async def test_repeated_guesses_are_refused_unread_and_disturb_no_caller() -> None:
    guesses = SETTINGS.replace("auth:\n", "auth:\n  verification: { failures: 3/min }\n")
    async with tenants(settings=guesses) as site:
        assert (await site.ask(TO_ACME, key("acme"))).code == "OK"
        heard = [await site.ask(TO_ACME, (b"x-api-key", b"a2a_guess-%d" % each)) for each in range(6)]
        assert [each.code for each in heard] == ["UNAUTHENTICATED"] * 3 + ["RESOURCE_EXHAUSTED"] * 3
        refused(heard[-1], "RESOURCE_EXHAUSTED", "RATE_LIMITED")
        # A key that is right, but was never shown from here, is a guess like any other.
        assert (await site.ask(TO_GLOBEX, key("globex"))).code == "RESOURCE_EXHAUSTED"
        # So it is over HTTP, for it is the same address.
        assert (await site.gateway.post("/", b"{}", (bearer("globex"),))).status == 429
        assert (await site.ask(TO_ACME, key("acme"))).code == "OK"
        # A forwarding header does not change the address.
        elsewhere = (b"x-forwarded-for", b"192.0.2.1")
        assert (await site.ask(TO_GLOBEX, key("globex"), elsewhere)).code == "RESOURCE_EXHAUSTED"
        assert site.reached == ["one", "one"]


async def test_a_proxy_that_is_trusted_says_where_a_caller_is() -> None:
    async with tenants(listens='trusted_proxies: ["127.0.0.1/32"]') as site:
        for said, told in ((b"192.0.2.1", "192.0.2.1"), (b"198.51.100.7, 192.0.2.1", "192.0.2.1"), (b"x", "127.0.0.1")):
            await site.ask(TO_ACME, key("acme"), (b"x-forwarded-for", said))
            assert site.asked[-1][1].told("x-forwarded-for") == [told]


# ---- What it may call ------------------------------------------------------------------------------------------------


async def test_methods_that_an_agent_does_not_offer_are_refused_in_every_service() -> None:
    async with tenants(more="methods: [GetTask]") as site:
        for operation in Operation:
            if operation is Operation.GET_CARD:
                continue
            path = method_of(operation, V1_0).path
            number = 4 if operation is Operation.LIST_PUSH_CONFIGS else 1
            told = await site.ask(text_field(number, "acme"), key("acme"), path=path)
            if operation is Operation.GET_TASK:
                assert told.code == "OK"
            else:
                refused(told, "FAILED_PRECONDITION", "METHOD_NOT_ALLOWED")
            if operation is Operation.LIST_TASKS:
                continue
            path = method_of(operation, V0_3, scoped=True).path
            told = await site.ask(text_field(100, "acme"), key("acme"), path=path)
            if operation is not Operation.GET_TASK:
                refused(told, "FAILED_PRECONDITION", "METHOD_NOT_ALLOWED")
        assert {asked.path.rpartition("/")[2] for _, asked in site.asked} == {"GetTask"}


# ---- What its agent is told ------------------------------------------------------------------------------------------


async def test_an_agent_gets_the_callers_credential_where_the_file_says_so_and_only_that() -> None:
    async with tenants(more="forward_caller: true") as site:
        await site.ask(TO_ACME, key("acme"))
        await site.ask(TO_ACME, (b"x-api-key", secret("acme")))
        first, second = (asked for _, asked in site.asked)
        assert (first.told("authorization"), first.told("x-api-key")) == ([key("acme")[1].decode()], [])
        assert (second.told("authorization"), second.told("x-api-key")) == ([], [secret("acme").decode()])


async def test_an_agent_gets_the_gateways_credential_and_nothing_beside_it() -> None:
    more = "upstream_auth: { header: { X-Team: ours, Authorization: the-gateways-own } }, forward_headers: [X-Other]"
    async with tenants(more=more) as site:
        await site.ask(TO_ACME, key("acme"), (b"x-team", b"theirs"), (b"x-other", b"theirs"), (b"x_team", b"theirs"))
        [(_, asked)] = site.asked
        assert asked.told("authorization") == ["the-gateways-own"]
        assert (asked.told("x-team"), asked.told("x-other")) == (["ours"], ["theirs"])


@for_each("upstream_tenant", ["", "upstream_tenant: strip", "upstream_tenant: fleet-7"])
async def test_no_place_of_a_message_tells_an_agent_another_tenant_than_the_file_does(upstream_tenant: str) -> None:
    told = upstream_tenant.partition("fleet")[1:]
    expected = "".join(told) if any(told) else ""
    inner = {"task_push_notification_config": {"tenant": "acme", "url": "https://hooks.example.com/"}}
    sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    configuration = {"taskPushNotificationConfig": {"tenant": "acme", "url": "https://hooks.example.com/"}}
    params = {"tenant": "acme", "message": sent, "configuration": configuration}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    async with tenants(more=upstream_tenant) as site:
        await site.ask(message(tenant="acme", configuration=inner), key("acme"))
        more = (bearer("acme"), SAYS_1_0, JSON)
        await site.gateway.ask("POST", "/", json.dumps(call).encode(), more)
        await site.gateway.ask("POST", "/acme/message:send", json.dumps(params).encode(), more)
        assert site.reached == ["one"] * 3
        for request in site.sent:
            config = request.configuration.task_push_notification_config
            assert config.url == "https://hooks.example.com/"
            assert request.tenant == expected
            assert config.tenant in ("", expected)


# ---- What it is told of its agent ------------------------------------------------------------------------------------

OWN = {b":status", b"content-type", b"grpc-status", b"grpc-message", b"grpc-accept-encoding"}
"""Headers that belong to gRPC itself."""
INSIDE = (
    ("server", "nginx at 10.0.0.7"), ("set-cookie", "a=10.0.0.7"), ("location", "http://10.0.0.7/"),
    ("www-authenticate", "Basic realm=10.0.0.7"), ("x-internal", "10.0.0.7"), ("x-request-id", "10.0.0.7"),
    ("a2a-version", "10.0.0.7"), ("via", "10.0.0.7"), ("grpc-encoding-of-mine", "10.0.0.7"),
    ("access-control-allow-origin", "http://10.0.0.7"), ("retry-after", "10007"), ("cache-control", "public, 10.0.0.7"),
    ("x-internal-bin", b"10.0.0.7"), ("a2a-extensions-bin", b"10.0.0.7"),
)  # fmt: skip


@for_each("path", [SEND, STREAM])
async def test_a_client_is_told_nothing_of_what_an_agent_over_grpc_says_beside_its_answer(path: str) -> None:
    answer = says(b"", headers=(*INSIDE, ("a2a-extensions", "urn:x")), trailers=INSIDE)
    async with tenants(answer) as site:
        told = await site.ask(TO_ACME, key("acme"), path=path)
        assert {name for name, _ in told.pairs} - OWN == {b"x-request-id", b"a2a-extensions"}
        assert b"10.0.0.7" not in b"".join(value for _, value in told.pairs)


async def test_an_answer_of_more_fields_than_anyone_reads_reaches_nobody() -> None:
    crowd = new.SendMessageResponse(task=new.Task(id="t", artifacts=[new.Artifact()] * 200_000)).SerializeToString()
    event = new.StreamResponse(task=new.Task(id="t", artifacts=[new.Artifact()] * 200_000)).SerializeToString()
    assert crowd == event
    async with tenants(says(crowd)) as site:
        refused(await site.ask(TO_ACME, key("acme")), "INTERNAL", "UPSTREAM_PROTOCOL")
        refused(await site.ask(TO_ACME, key("acme"), path=STREAM), "INTERNAL", "UPSTREAM_PROTOCOL")
        params = {"tenant": "acme", "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
        answer = await site.gateway.post("/acme/message:send", json.dumps(params).encode(), (bearer("acme"), SAYS_1_0))
        assert answer.status == 502
