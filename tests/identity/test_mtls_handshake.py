"""Handshakes in which clients show certificates, on either loop: which are good, and what is told of the others."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.reload import ReloadResult
from tests.loops import both_loops
from tests.support.certificates import DAY, SERVER, Authority, Shown
from tests.support.certified import ACME, GLOBEX, certifying
from tests.support.gateway import CALL, JSON, request
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio
anyio_backend = both_loops

Issue = Callable[[Authority], Shown]


def _alone(shown: Shown) -> Shown:
    """A certificate without those that sign it."""
    return Shown(shown.certificate, shown.certificate.public_bytes(Encoding.PEM), shown.key)


def _signed_by(signer: Shown) -> Shown:
    """A certificate that a client's own key has signed."""
    forger = Authority("batch")
    shown = forger.issue(ACME)
    return Shown(shown.certificate, shown.chain + signer.chain, shown.key)


UNTRUSTED: dict[str, tuple[Issue, str]] = {
    "of another authority": (lambda _: Authority("other").issue(ACME), "unable to get"),
    "of one that has taken its name": (lambda _: Authority().issue(ACME), "certificate signature failure"),
    "of its own": (lambda by: by.issue(ACME, itself=True, common_names=("me",)), "self-signed"),
    "over": (lambda by: by.issue(ACME, until=-DAY / 2), "certificate has expired"),
    "not begun": (lambda by: by.issue(ACME, since=DAY / 2), "certificate is not yet valid"),
    "for servers only": (lambda by: by.issue(ACME, usages=(SERVER,)), "unsuitable certificate purpose"),
    "by one who is over": (lambda by: Authority("below", by, until=-DAY / 2).issue(ACME), "certificate has expired"),
    "by an intermediate that is not sent": (lambda by: _alone(Authority("below", by).issue(ACME)), "unable to get"),
    "by one who may not sign for it": (
        lambda by: Authority("below", by, only=("other.test",)).issue(ACME),
        "permitted subtree violation",
    ),
    "by one who may not sign": (lambda by: _signed_by(by.issue(GLOBEX)), "unable to get"),
}


async def test_a_certificate_that_cannot_be_verified_ends_the_handshake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with certifying(tmp_path) as (site, gateway, agent):
        for number, (what, (issue, why)) in enumerate(UNTRUSTED.items(), 1):
            caplog.clear()
            with caplog.at_level("INFO", "gateway.audit"):
                line = await site.line(issue(site.authority))
            assert line["detail"].startswith(f"the client's certificate: {why}"), what
            assert (line["reason"], line["outcome"], line["client_ip"]) == ("auth_invalid", "denied", "127.0.0.1")
            assert gateway.metric("auth_total", method="mtls", result="invalid") == number
            assert gateway.metric("rejected_total", reason="auth_invalid") == number
            audited = [record.message for record in caplog.records if record.name == "gateway.audit"]
            assert audited == ["identity_refused"], what
        assert agent.requests == []


async def test_an_intermediate_is_trusted_without_its_root_and_within_its_constraints(tmp_path: Path) -> None:
    async with certifying(tmp_path, written=True) as (site, _, _agent):
        partner = Authority("partner", Authority("root"), only=("mesh.test", "acme.test"))
        (tmp_path / "clients.pem").write_bytes(partner.pem)
        assert await site.reload(site.text()) is ReloadResult.APPLIED
        for name in (ACME, "reports.acme.test"):
            assert (await site.post(partner.issue(name))).status == 200
        for name in ("spiffe://other.test/x", "other.test"):
            line = await site.line(partner.issue(name))
            assert line["detail"] == "the client's certificate: permitted subtree violation"


async def test_a_required_certificate_is_needed_for_a_connection(tmp_path: Path) -> None:
    async with certifying(tmp_path, more="    require: true\n") as (site, _, _):
        line = await site.line(None)
        assert (line["reason"], line["detail"]) == ("auth_invalid", "the client has shown no certificate")
        assert (await site.post(site.authority.issue(ACME))).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_that_is_resumed_is_the_same_callers(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with certifying(tmp_path) as (site, gateway, agent):
        tls = site.tls(site.authority.issue(ACME))
        tls.minimum_version = tls.maximum_version = version
        first = await asyncio.to_thread(resumed, gateway.port, tls, None)
        second = await asyncio.to_thread(resumed, gateway.port, tls, first[0])
    assert (first[1], second[1]) == (False, True)
    assert [each.header(b"x-a2a-subject") for each in agent.requests] == [ACME.encode()] * 2


def resumed(port: int, tls: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
    """Call over a connection that goes on with a session; the next one, and whether this one was gone on with."""
    with (
        socket.create_connection(("127.0.0.1", port), WAIT) as plain,
        tls.wrap_socket(plain, server_hostname="localhost", session=session) as secured,
    ):
        secured.sendall(request("POST", "/echo", CALL, [JSON]))
        assert secured.recv(65536).startswith(b"HTTP/1.1 200")
        return secured.session, bool(secured.session_reused)
