"""Why TLS failed is told in a closed list of words, wherever the gateway connects to others."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.a2a.push_config import PushConfig
from gateway.identity.jwks import KeySet, open_http
from gateway.push.delivery import Deliverer, DeliveryResult, WebhookDelivery
from gateway.push.ssrf import WebhookPolicy
from gateway.push.webhook_pattern import read_pattern
from gateway.tasks.redis_client import RedisClient
from gateway.tasks.state_url import RedisAddress
from gateway.telemetry.tls_failure import TlsFailure, kind, tls_failure
from gateway.upstream.connection_pool import ConnectionPool, Origin, client_tls
from gateway.upstream.grpc_channel import GrpcChannel
from gateway.upstream.outlier_detection import TlsFailed
from gateway.upstream.request_head import request_head
from tests.identity.issuance import BOUNDS
from tests.push.support import Names
from tests.support.certificates import CLIENT, DAY, SERVER, Authority
from tests.support.gateway import CALL, card_of, running

pytestmark = pytest.mark.anyio

HOST = "localhost"
TRUSTED, STRANGER = Authority("trusted"), Authority("stranger")

SHOWN = {
    "wrong name": TRUSTED.issue("other.example", usages=(SERVER,)),
    "expired": TRUSTED.issue(HOST, since=-2 * DAY, until=-DAY, usages=(SERVER,)),
    "not yet valid": TRUSTED.issue(HOST, since=DAY, until=2 * DAY, usages=(SERVER,)),
    "self-signed": TRUSTED.issue(HOST, itself=True, usages=(SERVER,)),
    "unknown authority": STRANGER.issue(HOST, usages=(SERVER,)),
    "wrong purpose": TRUSTED.issue(HOST, usages=(CLIENT,)),
}
FAILURES = (*SHOWN, "no TLS", "ended by the peer")


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def _leaves(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(10_000)


@asynccontextmanager
async def peer(failure: str, folder: Path) -> AsyncIterator[int]:
    """A server on loopback with which TLS fails so; its port."""
    context = None
    if failure in SHOWN:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.load_cert_chain(*SHOWN[failure].write(folder))
    told = _plain if failure == "no TLS" else _leaves

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await told(reader, writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def trusting() -> ssl.SSLContext:
    context = client_tls()
    context.load_verify_locations(cadata=TRUSTED.pem.decode())
    return context


@pytest.mark.parametrize("failure", FAILURES)
async def test_an_agents_fault_says_why_to_operators_and_not_to_clients(failure: str, tmp_path: Path) -> None:
    async with peer(failure, tmp_path) as port:
        pool = ConnectionPool(Origin("https", HOST, port), tls=trusting())
        channel = GrpcChannel(f"grpcs://{HOST}:{port}", connect=2, roots=TRUSTED.pem)
        head = request_head(b"GET", b"/", b"localhost", [], None)
        with pytest.raises(TlsFailed) as over_http:
            await pool.request(head, b"", connect=5, first_byte=5)
        with pytest.raises(TlsFailed) as over_grpc:
            await channel.unary("/a/b", b"", (), timeout=9)
        await pool.aclose()
        await channel.aclose()
    assert over_http.value.detail.startswith(f"https://localhost:{port}: TLS: {failure}")
    assert over_grpc.value.detail.startswith(f"TLS: {failure}; failed to connect")
    for failed in (over_http.value, over_grpc.value):
        assert (failed.failure, failed.message) == (failure, "the agent could not be reached")


@pytest.mark.parametrize("failure", FAILURES)
async def test_keys_webhooks_and_redis_that_are_not_reached_say_why(
    failure: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(TRUSTED.pem)
    async with peer(failure, tmp_path) as port, open_http(trusting()) as client:
        url = f"https://{HOST}:{port}"
        keys = KeySet("corp", issuer_url=url, jwks_url=None, algorithms=("RS256",), http=client, bounds=BOUNDS)
        running = asyncio.ensure_future(keys.run())
        await keys.settled()
        running.cancel()
        policy = WebhookPolicy([read_pattern(url)], block_private=False, resolve=Names())
        webhook = WebhookDelivery("d", PushConfig(f"{url}/secret"), "t", "application/json", b"{}")
        outcome = await Deliverer(policy, None, tls=trusting()).deliver(webhook)
        link = RedisClient(RedisAddress(hosts=((HOST, port),), tls=True, authorities=str(authorities)))
        await link.open()
        await link.aclose()
    told = f"ConnectError (TLS: {failure})"
    assert keys.error == told
    assert f"issuer corp: keys not read: {told}" in caplog.text
    assert (outcome.result, outcome.reason) == (DeliveryResult.RETRIED, f"{url} could not be called: {told}")
    assert f"(TLS: {failure}); calls that need it are refused" in caplog.text


@pytest.mark.parametrize("failure", ["wrong name", "expired", "unknown authority"])
async def test_operators_see_why_at_an_agent_and_its_callers_do_not(failure: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(TRUSTED.pem)
    (tmp_path / "card.json").write_bytes(card_of("https://localhost/", "JSONRPC 1.0"))
    async with peer(failure, tmp_path) as port:
        text = f"""\
defaults: {{ tls: {{ ca: ca.pem }} }}
agents:
  asked: https://{HOST}:{port}
  called: {{ backend: "https://{HOST}:{port}", card: {{ file: card.json }} }}
"""
        async with running(text, path=tmp_path / "gateway.yaml") as gateway:
            answer = await gateway.post("/called", CALL, [(b"A2A-Version", b"1.0")])
            assert answer.reasons[-1] == "UPSTREAM_CONNECT"
            assert b"TLS" not in answer.body
            assert f"TLS: {failure}" in (await gateway.line())["detail"]
            agents = (await gateway.get("/-/agents", admin=True)).json["agents"]
    asked, called = agents
    assert asked["card"]["error"] == f"not reached: ConnectError (TLS: {failure})"
    assert f"TLS: {failure}" in called["replicas"][0]["state"]


# ---- What OpenSSL says -----------------------------------------------------------------------------------------------


def shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLError:
    """Return the client's error of a handshake with this server, which fails; in memory, so that alerts arrive."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=HOST)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    steps: list[Callable[[], object]] = [one.do_handshake, other.do_handshake] * 3
    # In TLS 1.3 the client is done before the server has seen its certificate.
    steps += [lambda: other.read(1), lambda: one.read(1)]
    for step in steps:
        try:
            step()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except ssl.SSLError as error:
            if step in (one.do_handshake, steps[-1]):
                return error
    raise AssertionError("the handshake went well")


def _server(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*TRUSTED.issue(HOST, usages=(SERVER,)).write(folder))
    return context


def _asks(context: ssl.SSLContext) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=TRUSTED.pem.decode())


def _asks_in_1_2(context: ssl.SSLContext) -> None:
    _asks(context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def _is_of_another_version(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3


def _has_other_ciphers(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")


def _knows_no_such_name(context: ssl.SSLContext) -> None:
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME


@pytest.mark.parametrize(
    ("change", "newest", "failure"),
    [
        (_asks, ssl.TLSVersion.TLSv1_3, TlsFailure.CLIENT_CERTIFICATE),
        (_asks_in_1_2, ssl.TLSVersion.TLSv1_2, TlsFailure.HANDSHAKE),
        (_is_of_another_version, ssl.TLSVersion.TLSv1_2, TlsFailure.VERSION),
        (_has_other_ciphers, ssl.TLSVersion.TLSv1_2, TlsFailure.HANDSHAKE),
        (_knows_no_such_name, ssl.TLSVersion.TLSv1_3, TlsFailure.UNKNOWN_NAME),
    ],
)
def test_an_alert_is_told_by_its_kind(
    change: Callable[[ssl.SSLContext], None], newest: ssl.TLSVersion, failure: TlsFailure, tmp_path: Path
) -> None:
    server, client = _server(tmp_path), trusting()
    change(server)
    client.maximum_version = newest
    error = shaken(client, server)
    assert tls_failure(error) is failure, error
    assert kind(error) == f"{type(error).__name__} (TLS: {failure})"


def test_other_errors_get_no_tls_reason_and_no_text_of_the_peer() -> None:
    assert tls_failure(ConnectionResetError("secret")) is None
    assert tls_failure(ConnectionResetError("secret"), connecting=True) is TlsFailure.ENDED
    assert tls_failure(ConnectionRefusedError("secret"), connecting=True) is None
    assert kind(ConnectionRefusedError("secret")) == "ConnectionRefusedError"
    unknown = ssl.SSLCertVerificationError("secret")
    unknown.verify_code = 9999
    assert kind(unknown) == "SSLCertVerificationError (TLS: bad certificate)"
    endless = OSError("secret")
    endless.__cause__ = endless
    assert tls_failure(endless) is None


def test_an_authority_that_has_expired_is_told(tmp_path: Path) -> None:
    old = Authority("old", until=timedelta(hours=-1))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), client_tls()
    server.load_cert_chain(*old.issue(HOST, usages=(SERVER,)).write(tmp_path))
    client.load_verify_locations(cadata=old.pem.decode())
    assert tls_failure(shaken(client, server)) is TlsFailure.EXPIRED
