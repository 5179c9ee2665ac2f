"""The pool over TLS: who is trusted, and that everything else is as without."""

import asyncio
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from gateway.a2a.fault import UpstreamConnect, UpstreamReset
from gateway.upstream.connection_pool import ConnectionPool, Origin, client_tls
from tests.support.pooled import ask, now, pooled, send
from tests.support.scripted import (
    ScriptedBackend,
    Wire,
    answers,
    answers_and_closes,
    chunked,
    head,
    whole,
)
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio

OK = whole(b"ok")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = client_tls()
    authority.configure_trust(context)
    return context


def serving(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert(name).configure_cert(context)
    return context


class Tls(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


@undisturbed(0.3)
async def test_agents_are_called_over_tls_and_connections_reused(authority: trustme.CA) -> None:
    pair = Tls(serving(authority), trusting(authority))
    async with pooled(
        answers(whole(b"x" * 100_000), chunked([b"y" * 100_000])), server_tls=pair.server, client_tls=pair.client
    ) as (backend, pool):
        for _ in range(5):
            assert len(await ask(pool, b"z" * 300_000)) == 100_000
        assert len(backend.wires) == 1
        secured = backend.wires[0].transport.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "http/1.1"
        assert secured.version() == "TLSv1.3"
        stream_closed_at = now()
    await backend.all_gone()
    assert now() - stream_closed_at < 1.0


async def test_an_untrusted_or_wrong_certificate_is_a_failed_connect(authority: trustme.CA) -> None:
    stranger = trustme.CA()
    for server_tls in (serving(stranger), serving(authority, "other.example")):
        pair = Tls(server_tls, trusting(authority))
        async with pooled(answers(OK), server_tls=pair.server, client_tls=pair.client) as (backend, pool):
            with pytest.raises(UpstreamConnect) as failed:
                await send(pool)
            assert "certificate" in failed.value.detail
            assert "certificate" not in failed.value.message
            assert pool.active == 0
            assert backend.requests == []


async def test_every_failed_handshake_has_a_reason_in_words(authority: trustme.CA) -> None:
    async def leaves(wire: Wire) -> None:
        await wire.received(1)
        wire.close()

    async with ScriptedBackend(leaves) as backend:
        pool = ConnectionPool(Origin("https", "localhost", backend.port), tls=trusting(authority))
        with pytest.raises(UpstreamConnect) as raised:
            await send(pool)
        place, _, why = raised.value.detail.partition(": ")
        assert place == f"https://localhost:{backend.port}"
        assert why != ""


async def test_a_cut_below_tls_does_not_end_an_answer_without_a_length(authority: trustme.CA) -> None:
    async def cuts(wire: Wire) -> None:
        await wire.request()
        await wire.send(head() + b"half")
        await asyncio.sleep(0.05)
        wire.transport.abort()  # no farewell

    pair = Tls(serving(authority), trusting(authority))
    async with pooled(cuts, server_tls=pair.server, client_tls=pair.client) as (_, pool):
        with pytest.raises(UpstreamReset):
            await ask(pool)


async def test_a_farewell_over_tls_ends_an_answer_without_a_length(authority: trustme.CA) -> None:
    pair = Tls(serving(authority), trusting(authority))
    script = answers_and_closes(head() + b"all of it")
    async with pooled(script, server_tls=pair.server, client_tls=pair.client) as (_, pool):
        assert await ask(pool) == b"all of it"
        assert (pool.active, pool.idle) == (0, 0)


async def test_the_environment_adds_no_trust(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(pem))
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    context = client_tls()
    async with pooled(answers(OK), server_tls=serving(authority), client_tls=context) as (_, pool):
        with pytest.raises(UpstreamConnect):
            await send(pool)
    assert not (tmp_path / "keys").exists()
    async with pooled(answers(OK), server_tls=serving(authority), client_tls=client_tls(str(pem))) as (_, pool):
        assert await ask(pool) == b"ok"


def test_agents_are_verified_by_name_with_a_current_tls() -> None:
    context = client_tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@undisturbed(0.05)
async def test_connecting_has_a_deadline_and_a_cancelled_one_leaves_nothing(authority: trustme.CA) -> None:
    async def silent(wire: Wire) -> None:
        await wire.hang()

    async with ScriptedBackend(silent) as backend:  # takes the connection, never shakes hands
        pool = ConnectionPool(Origin("https", "localhost", backend.port), tls=trusting(authority))
        began = now()
        with pytest.raises(UpstreamConnect) as failed:
            await send(pool, connect=0.2)
        assert 0.19 <= now() - began <= 0.5
        assert "0.2 s" in failed.value.detail
        assert pool.active == 0
        await backend.all_gone()

        task = asyncio.get_running_loop().create_task(send(pool, connect=60.0))
        await backend.until(lambda: backend.open == 1)
        assert pool.active == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pool.active == 0
        await backend.all_gone()
