"""Another file while callers with certificates are connected: who they are, and whether they still are anybody."""

from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
import pytest

from gateway.reload import ReloadResult
from tests.loops import both_loops
from tests.support.assembly import Held, streaming
from tests.support.certificates import Authority, Shown
from tests.support.certified import ACME, CLIENTS, TENANTS, Certified, certifying
from tests.support.gateway import CALL, JSON, STREAM, Client, bearer, keys, request, running
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


async def asked(client: Client) -> tuple[int, list[str]]:
    await client.ask("POST", "/echo", CALL, [JSON])
    answer = await client.answer()
    return answer.status, [] if answer.status == 200 else answer.reasons


async def connected(site: Certified) -> Client:
    client = await site.client(site.tls(site.authority.issue(ACME)))
    assert await asked(client) == (200, [])
    return client


def trust(site: Certified, *authorities: Authority) -> None:
    (site.folder / "clients.pem").write_bytes(b"".join(each.pem for each in authorities))


async def test_rules_hold_for_old_connections_from_the_next_request_on(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, _, agent):
        client = await connected(site)
        # Its tenant is let in no more, nor known by its name, and then another's.
        mesh, others = CLIENTS.splitlines(keepends=True)[0], "tenants:\n  globex: [echo]\n"
        assert await site.reload(site.text(clients=mesh, tenants=others)) is ReloadResult.APPLIED
        assert await asked(client) == (403, ["TENANT_DENIED"])
        fax = "      fax: { common_name: fax-7, tenant: globex }\n"
        assert await site.reload(site.text(clients=fax)) is ReloadResult.APPLIED
        assert await asked(client) == (401, ["AUTH_INVALID"])
        whole = f'      it: {{ uri: "{ACME}", tenant: globex }}\n'
        assert await site.reload(site.text(clients=whole)) is ReloadResult.APPLIED
        assert await asked(client) == (200, [])
        assert agent.requests[-1].header(b"x-a2a-tenant") == b"globex"
        assert (
            await site.reload(site.text(clients=whole.replace("globex", "globex, agents: []"))) is ReloadResult.APPLIED
        )
        assert (await asked(client))[0] == 404


async def test_an_authority_more_is_believed_at_once_and_disturbs_nobody(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, _, _agent):
        client = await connected(site)
        other = Authority("other")
        assert (await site.line(other.issue(ACME)))["reason"] == "auth_invalid"
        trust(site, site.authority, other)
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        assert await asked(client) == (200, [])
        assert (await site.post(other.issue(ACME))).status == 200


async def test_an_authority_less_ends_connections_that_it_may_have_vouched_for(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, _, _agent):
        client, stranger = await connected(site), await site.client(site.tls(None))
        other = Authority("other")
        trust(site, other)
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        assert await client.ended() == b""
        # A caller without a credential loses nothing.
        assert await asked(stranger) == (401, ["AUTH_MISSING"])
        assert (await site.line(site.authority.issue(ACME)))["detail"].startswith("the client's certificate: ")
        assert (await site.post(other.issue(ACME))).status == 200


async def test_a_request_that_had_begun_is_nobodys_when_its_authority_is_gone(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, gateway, agent):
        client = await connected(site)
        raw = request("POST", "/echo", CALL, [JSON])
        await client.send(raw[:30])
        [connection] = gateway.gateway.listeners.servers[0].state.connections
        await gateway.until(lambda: connection.unread > 0)
        trust(site, Authority("other"))
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        await client.send(raw[30:])
        answer = await client.answer()
        assert (answer.status, answer.reasons, answer.header("connection")) == (401, ["AUTH_INVALID"], "close")
        assert len(agent.requests) == 1


async def test_a_call_that_is_being_answered_is_answered(tmp_path: Path) -> None:
    held = Held()
    async with certifying(tmp_path, held, written=True) as (site, _, _agent):
        client = await site.client(site.tls(site.authority.issue(ACME)))
        await client.ask("POST", "/echo", CALL, [JSON])
        await held.asked.wait()
        trust(site, Authority("other"))
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        held.go.set()
        assert (await client.answer()).status == 200
        assert await client.ended() == b""


async def test_certificates_begin_and_cease_to_count_without_a_restart(tmp_path: Path) -> None:
    bot = keys(bot="acme")
    async with certifying(tmp_path, written=True, auth=bot.removeprefix("auth:\n")) as (site, _, _agent):
        client = await connected(site)
        text = site.text()
        without = text[: text.index("auth:")] + bot + TENANTS + site.rest
        assert await site.reload(without) is ReloadResult.APPLIED
        assert await client.ended() == b""
        # Nobody is asked for one any more.
        assert (await site.post(site.authority.issue(ACME))).reasons == ["AUTH_MISSING"]
        keyed = await site.client(site.tls(None))
        assert await site.reload(site.text(auth=bot.removeprefix("auth:\n"))) is ReloadResult.APPLIED
        await keyed.ask("POST", "/echo", CALL, [JSON, bearer("bot")])
        assert (await keyed.answer()).status == 200
        assert (await site.post(site.authority.issue(ACME))).status == 200
        # And now everybody has to.
        assert await site.reload(site.text(more="    require: true\n")) is ReloadResult.APPLIED
        assert await keyed.ended() == b""


async def test_a_bundle_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, _, _agent):
        client = await connected(site)
        (tmp_path / "clients.pem").write_text("nothing of the kind")
        assert await site.reload(site.text(clients=CLIENTS.replace("fax-7", "fax-9"))) is ReloadResult.REFUSED
        assert await asked(client) == (200, [])
        assert (await site.post(site.authority.issue(ACME))).status == 200


async def test_a_stream_ends_with_the_entry_or_the_authority_of_its_caller(tmp_path: Path) -> None:
    mesh, *others = CLIENTS.splitlines(keepends=True)
    for change in ("entry", "authority"):
        folder = tmp_path / change
        folder.mkdir()
        held = streaming()
        async with certifying(folder, held, written=True) as (site, gateway, _):
            client = await site.client(site.tls(site.authority.issue(ACME)))
            await client.ask("POST", "/echo", STREAM, [JSON])
            assert (await client.head())[0] == 200
            await client.piece()
            # A change that does not affect its caller ends nothing.
            trust(site, site.authority, Authority("other"))
            assert await site.reload(site.text(clients=mesh)) is ReloadResult.APPLIED
            assert gateway.metric("streams_open") == 1
            if change == "authority":
                trust(site, Authority("other"))
                others = [mesh]
            assert await site.reload(site.text(clients="".join(others))) is ReloadResult.APPLIED
            assert b"AUTH_INVALID" in await client.rest()
            held.go.set()


@pytest.mark.parametrize("shows", [True, False], ids=["an authority that is gone", "no certificate"])
async def test_a_stream_of_a_token_ends_where_a_certificate_is_required_by_now(tmp_path: Path, *, shows: bool) -> None:
    auth, both = keys(bot="acme").removeprefix("auth:\n"), "    with_token: true\n"
    held = streaming()
    async with certifying(tmp_path, held, written=True, auth=auth, more=both) as (site, gateway, _):
        client = await site.client(site.tls(site.authority.issue(ACME) if shows else None))
        await client.ask("POST", "/echo", STREAM, [JSON, bearer("bot")])
        assert (await client.head())[0] == 200
        await client.piece()
        if shows:
            # By itself that matters to nobody who has a token, and with the next request it does.
            trust(site, Authority("other"))
            assert await site.reload(site.text(auth=auth, more=both)) is ReloadResult.APPLIED
            assert gateway.metric("streams_open") == 1
        assert await site.reload(site.text(auth=auth, more=both + "    require: true\n")) is ReloadResult.APPLIED
        assert b"AUTH_INVALID" in await client.rest()
        held.go.set()


async def test_a_request_that_had_begun_is_refused_where_a_certificate_is_required_by_now(tmp_path: Path) -> None:
    auth, both = keys(bot="acme").removeprefix("auth:\n"), "    with_token: true\n"
    async with certifying(tmp_path, written=True, auth=auth, more=both) as (site, gateway, agent):
        client = await site.client(site.tls(None))
        raw = request("POST", "/echo", CALL, [JSON, bearer("bot")])
        await client.send(raw)
        assert (await client.answer()).status == 200
        await client.send(raw[:30])
        [connection] = gateway.gateway.listeners.servers[0].state.connections
        await gateway.until(lambda: connection.unread > 0)
        assert await site.reload(site.text(auth=auth, more=both + "    require: true\n")) is ReloadResult.APPLIED
        await client.send(raw[30:])
        assert (await client.answer()).reasons == ["AUTH_MISSING"]
        assert len(agent.requests) == 1


async def test_over_http_2_clients_are_sent_elsewhere_and_come_back_by_who_is_trusted_now(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, gateway, _):
        other = Authority("other")
        shown = other.issue(ACME)
        trust(site, site.authority, other)
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        mine = site.authority.issue(ACME)
        address = gateway.gateway.grpc_address.replace("127.0.0.1", "localhost")

        def channel(of: Shown) -> Any:
            return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(site.site.pem, of.key, of.chain))

        async def code(over: Any) -> str:
            with pytest.raises(grpc.aio.AioRpcError) as told:
                await over.unary_unary("/lf.a2a.v1.A2AService/GetTask")(b"", timeout=WAIT)
            name = str(told.value.code().name)
            # grpc-core says so of a call that arrives on a connection while its server ends; clients call again.
            return await code(over) if name == "CANCELLED" else name

        async with channel(mine) as gone, channel(shown) as stays:
            # A known caller is told the fault of the call.
            assert await code(gone) == await code(stays) == "NOT_FOUND"
            trust(site, other)
            assert await site.reload(site.text()) is ReloadResult.APPLIED
            # On a connection of its own, made anew.
            assert await code(stays) == "NOT_FOUND"
            assert await code(gone) == "UNAVAILABLE"


async def test_certificates_come_with_tls_which_needs_a_restart(tmp_path: Path) -> None:
    site = Certified(tmp_path)
    site.rest = "agents: { echo: http://127.0.0.1:9 }\n"
    plain = f"gateway:\n  listen: 127.0.0.1:0\n  admin: 127.0.0.1:0\n{keys(bot='acme')}{TENANTS}{site.rest}"
    async with running(plain, path=tmp_path / "gateway.yaml", settled=False, written=True) as gateway:
        site.running = gateway
        assert await site.reload(site.text()) is ReloadResult.REFUSED
        reloader = gateway.gateway.reloader
        assert reloader is not None
        assert reloader.last is not None
        told = [problem.fact for problem in reloader.last.problems]
        assert told == ["without `gateway.tls` no client shows a certificate"]
