"""How connections begin, and which outlive a change of who is trusted; tests/test_mtls_reload.py sees them end."""

import asyncio
import ssl
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.config.certificate import ServerTls
from gateway.listener.introduction import UNMET, Introduction, introduced
from tests.doubles.certificates import SERVER, Authority, Shown, showing

SITE, CLIENTS = Authority("site"), Authority("clients")
ONE, TWO = b"1" * 32, b"2" * 32


def asking(folder: Path, *authorities: bytes, mode: ssl.VerifyMode = ssl.CERT_OPTIONAL) -> ServerTls:
    context = ServerTls(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*SITE.issue("localhost", usages=(SERVER,)).write(folder, "server"))
    context.load_verify_locations(cadata=CLIENTS.pem.decode())
    context.verify_mode = mode
    context.authorities = frozenset(authorities)
    context.set_alpn_protocols(["h2"])
    return context


class Shaken:
    """The transport of a connection whose handshake is over."""

    def __init__(self, folder: Path, tls: ServerTls, shown: Shown | None) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client_tls = showing(folder, shown, SITE)
        client_tls.set_alpn_protocols(["h2"])
        server = tls.wrap_bio(incoming, outgoing, server_side=True)
        client = client_tls.wrap_bio(outgoing, incoming, server_hostname="localhost")
        for side in (client, server, client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        self._extra = {"ssl_object": server}

    def get_extra_info(self, name: str) -> Any:
        return self._extra.get(name)


def met(folder: Path, then: ServerTls, now: ServerTls | None, shown: Shown | None) -> Introduction:
    return introduced(cast("asyncio.BaseTransport", Shaken(folder, then, shown)), now)


def test_without_tls_nobody_shows_anything() -> None:
    class Plain:
        def get_extra_info(self, name: str) -> None:
            return None

    assert introduced(cast("asyncio.BaseTransport", Plain()), None) is UNMET
    assert (UNMET.scheme, UNMET.certificate, UNMET.tls, UNMET.protocol) == ("http", None, None, None)


def test_a_certificate_is_read_where_there_is_one(tmp_path: Path) -> None:
    tls = asking(tmp_path, ONE)
    found = met(tmp_path, tls, tls, CLIENTS.issue("a.test"))
    assert found.certificate is not None
    assert (found.certificate.dns, found.certificate.void) == (("a.test",), False)
    assert (found.scheme, found.tls, found.protocol) == ("https", tls, "h2")
    assert met(tmp_path, tls, tls, None).certificate is None


@pytest.mark.parametrize(
    ("then", "now", "lives"),
    [
        ((ONE,), (ONE,), True),
        ((ONE,), (ONE, TWO), True),
        ((ONE, TWO), (ONE,), False),
        ((ONE,), (TWO,), False),
        ((ONE,), (), False),
    ],
)
def test_a_connection_ends_with_the_first_authority_that_is_gone(
    tmp_path: Path, then: tuple[bytes, ...], now: tuple[bytes, ...], *, lives: bool
) -> None:
    before, after = asking(tmp_path, *then), asking(tmp_path, *now)
    found = met(tmp_path, before, before, CLIENTS.issue("a.test"))
    assert found.certificate is not None
    assert found.outlives(after) is lives
    assert found.certificate.void is not lives
    # As where it was still shaking hands.
    late = met(tmp_path, before, after, CLIENTS.issue("a.test"))
    assert late.certificate is not None
    assert late.certificate.void is not lives


def test_who_showed_nothing_goes_on_unless_all_have_to(tmp_path: Path) -> None:
    before = asking(tmp_path, ONE)
    found = met(tmp_path, before, before, None)
    assert found.outlives(asking(tmp_path, TWO))
    assert not found.outlives(asking(tmp_path, ONE, mode=ssl.CERT_REQUIRED))
    assert UNMET.outlives(asking(tmp_path, ONE, mode=ssl.CERT_REQUIRED))
