"""An agent on stdio as the pipeline sees it: the request and the header fields that it gets."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.a2a.bindings.jsonrpc import open_envelope, read_call
from gateway.a2a.call import Call, Head
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BodyTooLarge
from gateway.a2a.framing.lsp import Framing
from gateway.a2a.paths import PathCall
from gateway.principal import Principal
from gateway.upstream.stdio.agent import Spec, StdioAgent
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Caller, IdentityNames, PreparedHeaders, Treatment, UpstreamTimeouts
from tests.table import for_each
from tests.upstream.stdio.specs import spec

pytestmark = pytest.mark.anyio

DIALECT = Dialect(Binding.JSONRPC, Version.V1_0)
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CALLER = Caller(Principal("acme", "me@acme", "key"), "192.0.2.1", "r-1")
TIMEOUTS = UpstreamTimeouts(connect=30.0, first_byte=30.0, send=30.0, stream_idle=30.0, total=30.0)


class Card:
    version = 1
    spoken = (CardInterface(DIALECT, "stdio:"),)


@asynccontextmanager
async def upstream(how: Spec, treatment: Treatment | None = None, **more: Any) -> AsyncIterator[StdioUpstream]:
    made = StdioUpstream(
        backend="notes",
        url="stdio:notes",
        agent=StdioAgent("notes", how),
        cards=Card(),
        timeouts=more.pop("timeouts", TIMEOUTS),
        treatment=treatment or Treatment(),
        **more,
    )
    try:
        yield made
    finally:
        await made.aclose()
        # Once is enough.
        await made.aclose()


def sending(text: str, *, tenant: str | None = None) -> Call:
    message: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "contextId": "c-1"}
    params: dict[str, Any] = {"message": message}
    if tenant is not None:
        params["tenant"] = tenant
    body = json.dumps({"jsonrpc": "2.0", "id": "mine", "method": "SendMessage", "params": params}).encode()
    return read_call(open_envelope(body), PathCall(), b"", Version.V1_0)


async def told(made: StdioUpstream, call: Call, head: Head) -> Any:
    interface = made.dialects.interface(call, (DIALECT,))
    response = await made.send(call, interface, head, CALLER)
    tree = json.loads(await response.read(100_000, 30))
    assert tree["id"] == "mine"
    return tree["result"]["message"]["parts"][1]["data"]


HEAD = Head(
    "POST",
    b"/notes",
    headers=(
        (b"traceparent", TRACE),
        (b"a2a-extensions", b"urn:a"),
        (b"x-a2a-extensions", b"urn:b"),
        (b"accept", b"application/json"),
        (b"accept-language", b"d\xe9"),
        (b"x-secret", b"1"),
        (b"cookie", b"2"),
        (b"authorization", b"Bearer client"),
        (b"x-a2a-tenant", b"forged"),
    ),
)


async def test_the_agent_gets_the_headers_of_an_allow_list_and_who_calls() -> None:
    treatment = Treatment(
        credentials=((b"authorization", b"Bearer gateway"),), identity=IdentityNames(session=b"x-session")
    )
    async with upstream(spec(), treatment) as made:
        for _ in range(2):
            headers = (await told(made, sending("headers"), HEAD))["headers"]
            assert headers == {
                "content-length": headers["content-length"],
                "content-type": "application/json",
                "a2a-version": "1.0",
                "traceparent": TRACE.decode(),
                "a2a-extensions": "urn:a, urn:b",
                "authorization": "Bearer gateway",
                "x-forwarded-for": "192.0.2.1",
                "x-a2a-tenant": "acme",
                "x-a2a-subject": "me@acme",
                "x-request-id": "r-1",
                "x-session": "c-1",
            }


async def test_with_tracing_the_agent_gets_the_context_of_the_attempt_and_not_the_clients() -> None:
    own = TRACE[:-4] + b"2-01"
    call = sending("headers")
    async with upstream(spec()) as made:
        traced = replace(CALLER, traceparent=own, prepared=PreparedHeaders())
        response = await made.send(call, made.dialects.interface(call, (DIALECT,)), HEAD, traced)
        headers = json.loads(await response.read(100_000, 30))["result"]["message"]["parts"][1]["data"]["headers"]
    assert headers["traceparent"] == own.decode() != TRACE.decode()


async def test_headers_of_a_client_that_are_too_long_for_a_frame_stay_behind() -> None:
    head = Head("POST", b"/notes", headers=((b"baggage", b"x" * 4096), (b"traceparent", TRACE)))
    async with upstream(spec()) as made:
        headers = (await told(made, sending("headers"), head))["headers"]
    assert not {"baggage", "traceparent"} & headers.keys()
    assert (headers["a2a-version"], headers["x-a2a-tenant"]) == ("1.0", "acme")


async def test_a_call_that_is_too_long_for_a_frame_is_refused_alone() -> None:
    """An agent that bounds frames as the gateway does would end, and all that is open at it with it."""
    async with upstream(spec(longest=4096)) as made:
        with pytest.raises(BodyTooLarge):
            await told(made, sending("x" * 5000), HEAD)
        assert "headers" in await told(made, sending("headers"), HEAD)


async def test_a_call_whose_credential_is_too_long_for_a_header_is_refused_alone() -> None:
    head = Head("POST", b"/notes", headers=((b"authorization", b"Bearer " + b"a" * 9000),))
    async with upstream(spec(), Treatment(forward_caller=True)) as made:
        with pytest.raises(BodyTooLarge):
            await told(made, sending("headers"), head)
        assert "headers" in await told(made, sending("headers"), HEAD)


async def test_a_line_has_no_header() -> None:
    how = spec("behaves", "--framing", "ndjson", framing=Framing.NDJSON)
    async with upstream(how) as made:
        assert (await told(made, sending("headers"), HEAD))["headers"] == {}


@for_each(("rule", "expected"), [(None, None), ("keep", "house"), ("strip", None), ("other", "other")])
async def test_the_tenant_is_what_the_file_says(rule: str | None, expected: str | None) -> None:
    async with upstream(spec(), Treatment(tenant=rule)) as made:
        params = (await told(made, sending("headers", tenant="house"), HEAD))["params"]
    assert params.get("tenant") == expected
