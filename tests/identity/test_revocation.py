"""Clients that another configuration locks out learn nothing more, and all others receive their streams to the end."""

import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.framing.sse import SseDecoder
from gateway.a2a.operation import Operation
from gateway.reload import ReloadResult
from tests.identity.issuance import ISSUER, compact, jwk, rsa_key
from tests.identity.provider import KEYS as KEY_SET
from tests.identity.provider import provider
from tests.support.assembly import CARD, EVENT, Held, examined, streaming, until
from tests.support.gateway import JSON, STREAM, Client, agent, bearer, keys, running, secret
from tests.support.grpc_agent import Asked, grpc_agent
from tests.support.grpc_gateway import LISTENS, dialled, request
from tests.support.reloading import Site, serving
from tests.support.scripted import ScriptedBackend, chunk

pytestmark = pytest.mark.anyio

KEYS = keys(acme="acme", more="acme", globex="globex")
FILE = f"""\
{KEYS}
tenants: {{ acme: [crm], globex: [crm] }}
defaults: {{ isolation: none }}
agents:
  crm: "AGENT"
"""
OTHER = "ab" * 32
DIGEST = hashlib.sha256(secret("acme")).hexdigest()
REVOKED = {
    "its tenant": (FILE.replace(KEYS, keys(globex="globex")).replace("acme: [crm], ", ""), "auth_invalid"),
    "its key": (FILE.replace(KEYS, keys(more="acme", globex="globex")), "auth_invalid"),
    "its key's hash": (FILE.replace(DIGEST, OTHER), "auth_invalid"),
    "its key's tenant": (FILE.replace("tenant: acme }", "tenant: globex }", 1), "auth_invalid"),
    "its key's time": (FILE.replace("tenant: acme }", "tenant: acme, expires: 2020-01-01 }", 1), "auth_invalid"),
    "its key's agents": (FILE.replace("tenant: acme }", "tenant: acme, agents: [] }", 1), "tenant_denied"),
    "its tenant's agent": (FILE.replace("acme: [crm]", "acme: []"), "tenant_denied"),
    "its agent, which has tenants of its own by now": (
        FILE.replace("acme: [crm]", "acme: []").replace('"AGENT"', '{ by_tenant: { globex: "AGENT" } }'),
        "tenant_denied",
    ),
    "by the agent": (
        FILE.replace("acme: [crm]", 'acme: ["*"]').replace('"AGENT"', '{ backend: "AGENT", allow: [globex] }'),
        "tenant_denied",
    ),
}
GRANTED = {
    "the same": FILE + "# again\n",
    "another key": FILE.replace(KEYS, keys(acme="acme", globex="globex")),
    "another tenant": FILE.replace(KEYS, keys(acme="acme", more="acme")).replace(", globex: [crm]", ""),
    "one more hash": FILE.replace(DIGEST, f"[{OTHER}, {DIGEST}]"),
    "a later end": FILE.replace("tenant: acme }", "tenant: acme, expires: 2099-01-01 }", 1),
    "an agent that is gone": FILE.replace("[crm]", "[new]").replace("crm:", "new:"),
    "a tenant of its own at the agent": FILE.replace('"AGENT"', '{ by_tenant: { acme: "AGENT", globex: "AGENT" } }'),
}


@asynccontextmanager
async def streamed(site: Site, shown: tuple[bytes, bytes]) -> AsyncIterator[Client]:
    """A stream whose first event has come."""
    client = await site.running.client()
    await client.ask("POST", "/crm", STREAM, [JSON, shown])
    assert (await client.head())[0] == 200
    assert await client.piece() == EVENT
    yield client


@asynccontextmanager
async def two_streams(folder: Path, text: str = FILE) -> AsyncIterator[tuple[Site, Held, Client, Client]]:
    """One of acme's and one of globex's."""
    held = streaming()
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(ScriptedBackend(agent(held, CARD)))
        site = await stack.enter_async_context(serving(folder, text.replace("AGENT", backend.url)))
        acme = await stack.enter_async_context(streamed(site, bearer("acme")))
        globex = await stack.enter_async_context(streamed(site, bearer("globex")))
        original = site.rewrite

        async def rewrite(text: str) -> None:
            assert (await original(text.replace("AGENT", backend.url))).result is ReloadResult.APPLIED

        site.rewrite = rewrite  # type: ignore[assignment,method-assign]  # with the address of the agent filled in
        yield site, held, acme, globex


def last_words(said: bytes) -> str:
    """The reason in the one event that a stream ends with."""
    [event] = SseDecoder(1 << 20).feed(said)
    read = event.read()
    assert read is not None
    [detail] = json.loads(read[1])["error"]["data"]
    reason: str = detail["reason"]
    return reason.lower()


@pytest.mark.parametrize("how", REVOKED)
async def test_a_revoked_client_gets_the_reason_at_once_and_nothing_more(how: str, tmp_path: Path) -> None:
    text, reason = REVOKED[how]
    async with two_streams(tmp_path) as (site, held, acme, globex):
        await site.rewrite(text)
        # By an event of its own, behind whole ones, and at a clean end.
        assert last_words(await acme.rest()) == reason
        await site.running.until(lambda: any(line["reason"] == reason for line in site.running.lines))
        line = next(line for line in site.running.lines if line["reason"] == reason)
        assert (line["tenant"], line["outcome"], line["closed_by"]) == ("acme", "denied", "gateway")
        held.last = chunk(EVENT) + chunk(b"")
        held.go.set()
        assert await globex.rest() == EVENT


@pytest.mark.parametrize("how", GRANTED)
async def test_callers_that_stay_admitted_get_their_streams_to_the_end(how: str, tmp_path: Path) -> None:
    async with two_streams(tmp_path) as (site, held, acme, _):
        await site.rewrite(GRANTED[how])
        held.last = chunk(EVENT) + chunk(b"")
        held.go.set()
        assert await acme.rest() == EVENT


async def test_a_stream_that_begins_while_its_caller_is_shut_out_does_not(tmp_path: Path) -> None:
    async with two_streams(tmp_path) as (site, _, _, _):
        client = await site.running.client()
        head = b"POST /crm HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n%b: %b\r\n" % bearer("acme")
        await client.send(head + b"content-length: %d\r\n\r\n" % len(STREAM))
        line = site.running.gateway.pipeline
        await until(lambda: line.open == 3)
        await site.rewrite(REVOKED["its tenant's agent"][0])
        await client.send(STREAM)
        answer = await client.answer()
        assert (answer.status, answer.json["error"]["code"]) == (403, -31403)


ISSUED = """\
auth: { issuers: { corp: { issuer: "ISSUER", audience: [agents, desks], jwks: "KEYS", tenant_claim: org } } }
tenants: { acme: [crm], globex: [crm] }
defaults: { isolation: none }
agents:
  crm: "AGENT"
"""


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        ("# as it is", "# as it was", True),
        ("[agents, desks]", "[agents]", True),
        ("[agents, desks]", "[desks]", False),
        ("corp:", "other:", False),
        ("tenant_claim: org", "tenant_claim: sub", False),
        ("tenant_claim: org", "tenant: globex", False),
        ("tenant_claim: org", "tenant: acme", True),
        ('"ISSUER"', '"https://elsewhere.example"', False),
        ("acme: [crm], ", "", False),
    ],
)
async def test_a_token_proves_what_its_claims_say_by_the_new_file(
    before: str,
    after: str,
    goes_on: bool,  # noqa: FBT001 - of the table
    tmp_path: Path,
) -> None:
    held = streaming()
    async with AsyncExitStack() as stack:
        issuing = await stack.enter_async_context(provider())
        issuing.publish(jwk(rsa_key()))
        backend = await stack.enter_async_context(ScriptedBackend(agent(held, CARD)))

        def filled(text: str) -> str:
            return text.replace("ISSUER", ISSUER).replace("KEYS", issuing.url + KEY_SET).replace("AGENT", backend.url)

        site = await stack.enter_async_context(serving(tmp_path, filled("# as it is\n" + ISSUED)))
        said = {"iss": ISSUER, "aud": "agents", "exp": time.time() + 3600, "sub": "ada", "org": "acme"}
        token = compact({"alg": "RS256", "kid": "k1"}, said, rsa_key())
        client = await stack.enter_async_context(streamed(site, (b"Authorization", b"Bearer " + token)))
        text = ("# as it is\n" + ISSUED).replace(before, after)
        assert (await site.rewrite(filled(text))).result is ReloadResult.APPLIED
        if goes_on:
            held.last = chunk(EVENT) + chunk(b"")
            held.go.set()
            assert await client.rest() == EVENT
        else:
            assert last_words(await client.rest()) in ("auth_invalid", "tenant_denied")


async def test_over_grpc_a_status_says_so_behind_whole_messages() -> None:
    update = new.TaskStatusUpdateEvent(task_id="t", context_id="c", status={"state": 2})
    event = new.StreamResponse(status_update=update)

    async def answer(asked: Asked) -> None:
        if not BY_PATH[asked.path].operation.streams:
            await asked.fail("UNIMPLEMENTED")
            return
        await asked.write(event.SerializeToString())
        await asked.cancelled.wait()

    async with grpc_agent(answer) as made:
        text = f"""\
gateway: {{ {LISTENS} }}
{KEYS}
tenants: {{ acme: [echo], globex: [echo] }}
defaults: {{ isolation: none }}
agents:
  echo: {{ backend: {{ url: "{made.url}", a2a_version: "1.0" }}, expose: [jsonrpc, grpc] }}
"""
        async with running(text) as gateway, dialled(gateway) as client:
            operation = Operation.SEND_STREAMING_MESSAGE
            message = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="hi")])
            said = request(operation, message=message)
            streams = [
                client.stream(operation, said, (bearer(who)[0].decode().lower(), bearer(who)[1].decode()))
                for who in ("acme", "globex")
            ]
            for stream in streams:
                assert await stream.next() == event.SerializeToString()
            await gateway.gateway.use(examined(text.replace("acme: [echo]", "acme: []")))
            told = await streams[0].end()
            assert (told.code, told.reasons) == ("PERMISSION_DENIED", ["TENANT_DENIED"])
            assert gateway.metric("streams_open") == 1
