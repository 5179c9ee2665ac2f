"""Bytes that no client of gRPC sends by itself: refused or harmless, and never another agent's (safety T12)."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import BY_PATH, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.framing.grpc import frame
from gateway.a2a.operation import Operation
from tests.support.grpc_bytes import held, text_field
from tests.support.grpc_tenants import Told, in_json, key, message, tenants

pytestmark = pytest.mark.anyio

V0_3, V1_0 = Version.V0_3, Version.V1_0
SCOPE = 100
LIST = method_of(Operation.LIST_PUSH_CONFIGS, V1_0).path
OLD_SEND = method_of(Operation.SEND_MESSAGE, V0_3).path
SCOPED_SEND = method_of(Operation.SEND_MESSAGE, V0_3, scoped=True).path
ACME, GLOBEX = text_field(1, "acme"), text_field(1, "globex")
WHOLE = message()
"""A send that names nobody."""


def push(tenants: bytes) -> bytes:
    """The configuration of a send, whose push configuration has these fields."""
    return held(3, held(2, tenants))


def refused(told: Told, code: str, reason: str) -> None:
    assert (told.http, told.code, told.reason) == (200, code, reason), told.words
    assert told.messages == ()


# ---- Which tenant ----------------------------------------------------------------------------------------------------


UNREADABLE = {
    "a tenant twice": (ACME + GLOBEX + WHOLE, "DUPLICATE_KEY"),
    "the same one twice": (ACME + WHOLE + ACME, "DUPLICATE_KEY"),
    "one before and one behind": (ACME + WHOLE + GLOBEX, "DUPLICATE_KEY"),
    "an empty one and another": (text_field(1, "") + ACME + WHOLE, "DUPLICATE_KEY"),
    "another under a longer tag": (ACME + WHOLE + b"\x8a\x00\x06globex", "BAD_REQUEST"),
    "one under a longer tag alone": (b"\x8a\x80\x80\x80\x00\x06globex" + WHOLE, "BAD_REQUEST"),
    "a tag without an end": (ACME + WHOLE + b"\x8a\x80\x80\x80\x80\x00\x06globex", "BAD_REQUEST"),
    "a number in its place": (ACME + WHOLE + b"\x08\x01", "BAD_REQUEST"),
    "a number alone in its place": (WHOLE + b"\x08\x01", "BAD_REQUEST"),
    "four bytes in its place": (ACME + WHOLE + b"\x0d\0\0\0\0", "BAD_REQUEST"),
    "eight bytes in its place": (ACME + WHOLE + b"\x09\0\0\0\0\0\0\0\0", "BAD_REQUEST"),
    "a group in its place": (ACME + WHOLE + b"\x0b\x0a\x06globex\x0c", "BAD_REQUEST"),
    "a group round it": (WHOLE + b"\x53\x0a\x06globex\x54" + ACME, "BAD_REQUEST"),
    "a wire type that is none": (ACME + WHOLE + b"\x57", "BAD_REQUEST"),
    "a field with the number 0": (ACME + WHOLE + b"\x02\x00", "BAD_REQUEST"),
    "bytes that are no UTF-8": (b"\x0a\x04ac\xffe" + WHOLE, "BAD_REQUEST"),
    "an overlong dot": (b"\x0a\x05acme\xc0\xae" + WHOLE, "BAD_REQUEST"),
    "a length beyond the end": (WHOLE + b"\x0a\x7facme", "BAD_REQUEST"),
    "a length without an end": (ACME + WHOLE + b"\x52\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "BAD_REQUEST"),
    "a message cut in two": (ACME + WHOLE[:-1], "BAD_REQUEST"),
    "another tenant in the push configuration": (ACME + WHOLE + push(GLOBEX), "BAD_REQUEST"),
    "that, and none outside": (WHOLE + push(ACME) + push(GLOBEX), "DUPLICATE_KEY"),
    "two in one push configuration": (ACME + WHOLE + push(ACME + GLOBEX), "DUPLICATE_KEY"),
    "two in two that are merged": (ACME + WHOLE + held(3, held(2, ACME) + held(2, GLOBEX)), "DUPLICATE_KEY"),
    "a number in the push configuration": (ACME + WHOLE + push(b"\x08\x01"), "BAD_REQUEST"),
    "a longer tag in the push configuration": (ACME + WHOLE + push(b"\x8a\x00\x06globex"), "BAD_REQUEST"),
    "a longer tag on the way there": (ACME + WHOLE + held(3, b"\x92\x00\x08" + GLOBEX), "BAD_REQUEST"),
    "a configuration that is a number": (ACME + WHOLE + b"\x18\x01", "BAD_REQUEST"),
    "a group in the configuration": (ACME + WHOLE + held(3, b"\x53\x54"), "BAD_REQUEST"),
    "a thousand fields": (ACME + WHOLE + b"\x52\x00" * 1000, "BAD_REQUEST"),
}  # fmt: skip


async def test_a_tenant_that_two_parsers_could_read_in_two_ways_reaches_nobody() -> None:
    async with tenants() as site:
        for name, (body, reason) in UNREADABLE.items():
            for caller in ("both", "acme", "globex"):
                told = await site.ask(body, key(caller))
                assert (told.code, told.reason, told.messages) == ("INVALID_ARGUMENT", reason, ()), name
        assert site.reached == []


READABLE = {
    "before the message": ACME + WHOLE,
    "behind the message": WHOLE + ACME,
    "between the halves of the message": b"\x12\x03\x0a\x01m" + ACME + WHOLE,
    "with a length that is longer than it need be": b"\x0a\x84\x80\x00acme" + WHOLE,
    "beside fields that nobody knows": text_field(5, "globex") + ACME + WHOLE + text_field(SCOPE, "globex"),
    "in the push configuration as well": ACME + WHOLE + push(ACME),
    "in the push configuration alone": WHOLE + push(ACME),
    "with an empty one in the push configuration": ACME + WHOLE + push(text_field(1, "")),
    "in the push configuration, with an empty one outside": text_field(1, "") + WHOLE + push(ACME),
}  # fmt: skip


async def test_a_tenant_in_any_place_picks_one_agent_and_is_removed() -> None:
    async with tenants() as site:
        for name, body in READABLE.items():
            for caller in ("both", "acme"):
                assert (await site.ask(body, key(caller))).code == "OK", name
            refused(await site.ask(body, key("globex")), "NOT_FOUND", "NO_ROUTE")
        assert site.reached == ["one"] * 2 * len(READABLE)
        for sent in site.sent:
            assert (sent.tenant, sent.configuration.task_push_notification_config.tenant) == ("", "")
            assert sent.message == new.SendMessageRequest.FromString(WHOLE).message


NO_TENANTS = (
    "ACME", "acme ", " acme", "acme\0", "acme\n", "..", ".", "-", "v1", "tasks", "a/b", "%61cme",
    "\u0430cme", "\uff41cme", "acme\u200b", "*", "acme,globex", "x" * 65, "x" * 100_000, "nobody", "one.agents.test",
)  # fmt: skip


async def test_an_inexact_tenant_picks_no_agent() -> None:
    async with tenants() as site:
        for tenant in NO_TENANTS:
            told = await site.ask(message(tenant=tenant), key("both"))
            assert (told.code, told.reason) in (("NOT_FOUND", "NO_ROUTE"), ("INVALID_ARGUMENT", "BAD_REQUEST"))
            assert len(told.words) < 120
        assert site.reached == []


async def test_the_first_field_of_a_list_is_the_task_and_never_the_tenant() -> None:
    async with tenants() as site:
        both = key("both")
        await site.ask(message(Operation.LIST_PUSH_CONFIGS, task_id="globex", tenant="acme"), both, path=LIST)
        assert site.reached == ["one"]
        assert (site.sent[0].task_id, site.sent[0].tenant) == ("globex", "")
        for body in (ACME, ACME + text_field(3, "globex"), text_field(2, "acme"), b"\x22\x06nobody" + ACME):
            assert (await site.ask(body, both, path=LIST)).code != "OK"
        twice = ACME + text_field(4, "acme") + text_field(4, "globex")
        refused(await site.ask(twice, both, path=LIST), "INVALID_ARGUMENT", "DUPLICATE_KEY")
        assert site.reached == ["one"]


async def test_a_tenant_under_the_number_of_another_request_is_none() -> None:
    """Clients of the candidates of 1.0 have it at 2, 3, 4 and 9, and those of the list at 4."""
    async with tenants() as site:
        for method in [each for each in BY_PATH.values() if each.version is V1_0]:
            own = 4 if method.operation is Operation.LIST_PUSH_CONFIGS else 1
            for number in {1, 2, 3, 4, 5, 9, SCOPE} - {own}:
                told = await site.ask(text_field(number, "globex"), key("both"), path=method.path)
                assert told.code in ("NOT_FOUND", "INVALID_ARGUMENT"), (method.path, number)
                # Beside one that counts it is whatever that field is, or nothing.
                await site.ask(text_field(number, "globex") + text_field(own, "acme"), key("both"), path=method.path)
        assert set(site.reached) <= {"one"}


# ---- The scope -------------------------------------------------------------------------------------------------------


OLD = message(version=V0_3)
TO_ACME, TO_GLOBEX = text_field(SCOPE, "acme"), text_field(SCOPE, "globex")


NO_SCOPES = {
    "missing": (OLD, "BAD_REQUEST"),
    "empty": (OLD + text_field(SCOPE, ""), "BAD_REQUEST"),
    "twice": (OLD + TO_ACME + TO_GLOBEX, "DUPLICATE_KEY"),
    "the same twice": (TO_ACME + OLD + TO_ACME, "DUPLICATE_KEY"),
    "under another number": (OLD + text_field(99, "acme"), "BAD_REQUEST"),
    "under that of 1.0": (ACME + OLD, "BAD_REQUEST"),
    "and a number": (OLD + TO_ACME + b"\xa0\x06\x01", "BAD_REQUEST"),
    "under a longer tag": (OLD + b"\xa2\x86\x00\x04acme", "BAD_REQUEST"),
    "again under a longer tag": (OLD + TO_ACME + b"\xa2\x86\x80\x00\x06globex", "BAD_REQUEST"),
    "no UTF-8": (OLD + b"\xa2\x06\x01\xff", "BAD_REQUEST"),
    "beside a tenant of a candidate": (OLD + TO_ACME + text_field(4, "globex"), "BAD_REQUEST"),
}


async def test_a_call_of_the_scoped_service_has_one_scope_which_picks_the_agent_and_stays_here() -> None:
    async with tenants(speaks='protocol: grpc, a2a_version: "0.3"') as site:
        for name, (body, reason) in NO_SCOPES.items():
            told = await site.ask(body, key("both"), path=SCOPED_SEND)
            assert (told.code, told.reason) == ("INVALID_ARGUMENT", reason), name
        assert site.reached == []
        for body in (OLD + TO_ACME, TO_ACME + OLD):
            assert (await site.ask(body, key("both"), path=SCOPED_SEND)).code == "OK"
        assert site.reached == ["one", "one"]
        assert {(asked.path, asked.message) for _, asked in site.asked} == {(OLD_SEND, OLD)}
        refused(await site.ask(OLD + TO_GLOBEX, key("acme"), path=SCOPED_SEND), "NOT_FOUND", "NO_ROUTE")
        # The authority picks no agent.
        await site.ask(OLD + TO_GLOBEX, key("both"), path=SCOPED_SEND, authority=b"one.agents.test")
        assert site.reached == ["one", "one", "two"]


async def test_a_call_of_the_plain_service_has_no_scope_and_no_tenant() -> None:
    async with tenants(speaks='protocol: grpc, a2a_version: "0.3"') as site:
        for body in (OLD + TO_ACME, OLD + TO_GLOBEX + TO_ACME, OLD + text_field(4, "globex")):
            refused(await site.ask(body, key("both"), path=OLD_SEND), "INVALID_ARGUMENT", "BAD_REQUEST")
        assert site.reached == []


# ---- What is no message ----------------------------------------------------------------------------------------------


FRAMES = {
    "nothing": (b"", "INVALID_ARGUMENT", "BAD_REQUEST"),
    "half a prefix": (b"\0\0", "INVALID_ARGUMENT", "BAD_REQUEST"),
    "half a message": (frame(ACME + WHOLE)[:-1], "INVALID_ARGUMENT", "BAD_REQUEST"),
    # grpc-core refuses these itself, without details, or reads nothing.
    "a compressed message": (b"\1" + frame(ACME + WHOLE)[1:], "INTERNAL", ""),
    # It depends on the core's timing whether it is read as an empty message, or as none.
    "a flag that is none": (b"\2" + frame(ACME + WHOLE)[1:], "", ""),
    "a length of four gibibytes": (b"\0\xff\xff\xff\xff" + ACME, "RESOURCE_EXHAUSTED", ""),
    "more than a body may have": (frame(ACME + WHOLE + b"\x52\x00" * 1024), "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE"),
    "JSON": (frame(b'{"tenant":"acme","message":{"messageId":"m"}}'), "INVALID_ARGUMENT", "BAD_REQUEST"),
}  # fmt: skip


async def test_a_malformed_frame_reaches_no_agent_and_disturbs_no_call() -> None:
    async with tenants(listens="body_limit: 2KiB") as site:
        for number, (name, (body, code, reason)) in enumerate(FRAMES.items()):
            client = await site.client()
            answer = await site.ask(body, key("both"), framed=True, client=client)
            if code:
                assert (answer.http, answer.code, answer.reason) == (200, code, reason), name
            else:
                assert answer.code in ("NOT_FOUND", "INVALID_ARGUMENT"), name
            assert site.reached == ["one"] * number, name
            assert (await site.ask(ACME + WHOLE, key("both"), client=client)).code == "OK", name


async def test_a_message_that_nests_deeper_than_parsers_go_is_refused() -> None:
    async with tenants() as site:
        for depth, code in ((20, "OK"), (2000, "INVALID_ARGUMENT")):
            told = await site.ask(message(tenant="acme") + nested(depth), key("both"))
            assert told.code == code
        assert site.reached == ["one"]


def nested(depth: int) -> bytes:
    """The metadata of a send: an object in an object, and so on."""
    inner = b""
    for _ in range(depth):
        # A name and its value, which is an object.
        inner = held(1, text_field(1, "k") + held(2, held(5, inner)))
    return held(4, inner)


# ---- What is a message, and means nothing ----------------------------------------------------------------------------


async def test_unknown_fields_reach_an_agent_over_grpc() -> None:
    odd = message(tenant="acme", message={"message_id": "m", "role": 99, "parts": [{}]}) + text_field(77, "later")
    async with tenants() as site:
        assert (await site.ask(odd, key("both"))).code == "OK"
        [sent] = site.sent
        assert sent.message.role == 99
        assert text_field(77, "later") in site.asked[0][1].message
        assert site.reached == ["one"]


NOT_IN_JSON: tuple[tuple[dict[str, Any], bytes], ...] = (
    ({"message": {"message_id": "m", "role": 99, "parts": [{"text": "hi"}]}}, b""),
    ({"message": {"message_id": "m", "role": 1, "parts": [{}]}}, b""),
    # A number that JSON has not.
    ({}, b"\x22\x10\x0a\x0e\x0a\x01n\x12\x09\x11\0\0\0\0\0\0\xf8\x7f"),
)


async def test_fields_that_json_cannot_hold_are_refused() -> None:
    async with tenants(script=in_json()) as site:
        for members, more in NOT_IN_JSON:
            told = await site.ask(message(tenant="acme", **members) + more, key("both"))
            refused(told, "INVALID_ARGUMENT", "BAD_REQUEST")
        assert site.reached == []
        assert (await site.ask(message(tenant="acme"), key("both"))).code == "OK"
