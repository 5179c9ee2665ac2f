"""Identity headers: of claims, and of clients that are trusted with them because of their certificate."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.reload import ReloadResult
from tests.identity.corpus.genuine import good
from tests.identity.front import Front, front, shown
from tests.support.certificates import Shown
from tests.support.certified import ACME, CLIENTS, Certified, certifying
from tests.support.gateway import CALL, JSON, Running, bearer, keys
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

TENANT, SUBJECT, SESSION = b"X-A2A-Tenant", b"X-A2A-Subject", b"X-A2A-Session"
NAMES = (TENANT, SUBJECT, SESSION)
TRUSTING = CLIENTS.replace('sa/*" }', 'sa/*", trust_identity_headers: true }', 1)
TOLD = "    identity_headers: { session: X-A2A-Session }\n"
BOT = keys(bot="acme").removeprefix("auth:\n")


def told(backend: ScriptedBackend) -> tuple[bytes | None, ...]:
    """The values of the three headers that the agent got last, where it got each at most once."""
    headers = backend.requests[-1].headers
    found = [[value for name, value in headers if name.lower() == each.lower()] for each in NAMES]
    assert all(len(values) <= 1 for values in found), headers
    return tuple(values[0] if values else None for values in found)


@asynccontextmanager
async def trusting(folder: Path, **more: str) -> AsyncIterator[tuple[Certified, Running, ScriptedBackend, Shown]]:
    settings = {"clients": TRUSTING, "agents": TOLD, **more}
    async with certifying(folder, **settings) as (site, gateway, backend):  # type: ignore[arg-type]
        yield site, gateway, backend, site.authority.issue(ACME)


# ---- of claims -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def claiming(written: str) -> AsyncIterator[Front]:
    async with front(more=f"defaults: {{ identity_headers: {written} }}") as place:
        yield place


@for_each(
    ("written", "claims", "expected"),
    [
        ('{ session: "claim:sid" }', {"sid": "s 1"}, (b"acme", b"ada", b"s%201")),
        ('{ session: "claim:sid" }', {}, (b"acme", b"ada", None)),
        ('{ session: "claim:sid" }', {"sid": ["a", "b"]}, (b"acme", b"ada", None)),
        ('{ session: "claim:sid" }', {"sid": True}, (b"acme", b"ada", None)),
        ('{ session: "claim:act.sid" }', {"act": {"sid": 7}}, (b"acme", b"ada", b"7")),
        (
            '{ subject: "claim:email" }',
            {"email": "a@b\r\nx-a2a-tenant: c"},
            (b"acme", b"a@b%0D%0Ax-a2a-tenant:%20c", None),
        ),
        ('{ tenant: "claim:organization" }', {"organization": ["Acme Corp"]}, (b"Acme%20Corp", b"ada", None)),
        ('{ tenant: "claim:organization", subject: null }', {}, (None, None, None)),
    ],
)
async def test_an_agent_is_told_what_a_claim_says(
    written: str, claims: dict[str, object], expected: tuple[bytes | None, ...]
) -> None:
    async with claiming(written) as place:
        forged = [(name, b"forged") for name in NAMES]
        answer = await place.call(shown(good(time.time(), **claims)), *forged)
        assert answer.status == 200
        assert told(place.backend) == expected


async def test_a_claim_may_be_told_under_another_name() -> None:
    async with claiming("{ session: X-Sess, claims: { session: sid } }") as place:
        await place.call(shown(good(time.time(), sid="s1")), (b"X-Sess", b"forged"))
        assert [value for name, value in place.backend.requests[-1].headers if name.lower() == b"x-sess"] == [b"s1"]


# ---- of trusted clients ----------------------------------------------------------------------------------------------


async def test_a_trusted_client_names_the_principal(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (site, gateway, backend, mine):
        said = [(TENANT, b"acme"), (SUBJECT, b"alice%20b"), (SESSION, b"s1")]
        assert (await site.post(mine, said)).status == 200
        assert told(backend) == (b"acme", b"alice%20b", b"s1")
        assert (await gateway.line())["principal"] == f"{ACME} for alice b"
        assert (await site.post(mine)).status == 200
        assert told(backend) == (b"acme", ACME.encode(), None)


async def test_each_call_of_a_connection_has_its_own_principal(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (site, _, backend, mine):
        client = await site.client(site.tls(mine))
        for name in (b"alice", b"bob", b"alice", b"alice"):
            await client.ask("POST", "/echo", CALL, [JSON, (SUBJECT, name)])
            assert (await client.answer()).status == 200
            assert told(backend)[1] == name


async def test_a_trusted_client_speaks_for_no_other_tenant(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (site, gateway, backend, mine):
        for value in (b"globex", b"ACME", b"acme%20", b"*"):
            answer = await site.post(mine, [(TENANT, value), (SUBJECT, b"alice")])
            assert (answer.status, answer.reasons) == (403, ["TENANT_DENIED"])
        assert backend.requests == []
        await gateway.until(lambda: len(gateway.lines) == 4)
        assert {line["tenant"] for line in gateway.lines} == {"acme"}


@pytest.mark.parametrize(
    "said",
    [
        [(SUBJECT, b"alice"), (SUBJECT, b"bob")],
        [(SUBJECT, b"alice"), (b"x-a2a-subject", b"alice")],
        [(SUBJECT, b"a%0Ab")],
        [(SUBJECT, b"a%00")],
        [(SUBJECT, b"%ff")],
        [(SUBJECT, b"a" * 257)],
        [(SESSION, b"a%0D%0Ax: y")],
        [(SUBJECT, "å".encode())],
    ],
)
async def test_identity_headers_without_a_name_are_refused(tmp_path: Path, said: list[tuple[bytes, bytes]]) -> None:
    async with trusting(tmp_path) as (site, _, backend, mine):
        answer = await site.post(mine, said)
        assert answer.json["error"]["code"] == -32600
        assert backend.requests == []


async def test_misspelled_and_hop_by_hop_identity_headers_are_dropped(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (site, _, backend, mine):
        for said in (
            [(b"X_A2A_Subject", b"alice"), (b"X_A2A_Tenant", b"globex")],
            [(b"Connection", b"close, X-A2A-Subject"), (SUBJECT, b"alice")],
            [(b"X-Forwarded-User", b"alice"), (b"Remote-User", b"alice")],
        ):
            assert (await site.post(mine, said)).status in (200, 400)
        for request in backend.requests:
            assert all(b"alice" not in value and b"globex" not in value for _, value in request.headers)


@pytest.mark.parametrize("who", ["untrusted entry", "key", "key beside a certificate", "anonymous"])
async def test_everybody_elses_headers_are_dropped(tmp_path: Path, who: str) -> None:
    said = [(TENANT, b"globex"), (SUBJECT, b"alice"), (SESSION, b"s1")]
    settings = {"auth": BOT, "more": "    with_token: true\n"}
    async with trusting(tmp_path, **settings) as (site, _, backend, mine):
        other = site.authority.issue("reports.acme.test")
        certificate = {"untrusted entry": other, "key beside a certificate": mine}.get(who)
        headers = [*said, bearer("bot")] if who.startswith("key") else said
        answer = await site.post(certificate, headers)
        if who == "anonymous":
            assert answer.status == 401
            return
        assert answer.status == 200
        subject = b"bot" if who.startswith("key") else b"reports.acme.test"
        assert told(backend) == (b"acme", subject, None)


async def test_delegated_principals_have_their_own_tasks(tmp_path: Path) -> None:
    state = b'"status":{"state":"TASK_STATE_WORKING"}'
    task = b'{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1",%b}}}' % state
    get = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}'
    agents = "    isolation: principal\n"
    async with certifying(tmp_path, answers(whole(task)), agents=agents, clients=TRUSTING) as (site, _, agent):
        mine = site.authority.issue(ACME)
        assert (await site.post(mine, [(SUBJECT, b"alice")])).status == 200
        for said, code in (
            ([(SUBJECT, b"alice")], None),
            ([(SUBJECT, b"bob")], -32001),
            ([], -32001),
            # No name looks like another certificate's, nor like alice's with it.
            ([(SUBJECT, ACME.encode())], -32001),
        ):
            client = await site.client(site.tls(mine))
            await client.ask("POST", "/echo", get, [JSON, *said])
            assert (await client.answer()).json.get("error", {}).get("code") == code
        other = site.authority.issue(ACME + "-2")
        client = await site.client(site.tls(other))
        await client.ask("POST", "/echo", get, [JSON, (SUBJECT, b"alice")])
        assert (await client.answer()).json["error"]["code"] == -32001
        assert len(agent.requests) == 2


async def test_a_client_that_is_no_longer_trusted_speaks_for_nobody(tmp_path: Path) -> None:
    async with certifying(tmp_path, clients=TRUSTING, agents=TOLD, written=True) as (site, _, backend):
        client = await site.client(site.tls(site.authority.issue(ACME)))
        for name in (b"alice", ACME.encode()):
            await client.ask("POST", "/echo", CALL, [JSON, (SUBJECT, b"alice")])
            assert (await client.answer()).status == 200
            assert told(backend)[1] == name
            assert await site.reload(site.text()) in (ReloadResult.APPLIED, ReloadResult.UNCHANGED)
