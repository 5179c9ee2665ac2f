"""The file of the authorities, and what a context does with it; `test_mtls_handshake.py` shakes hands by it."""

import hashlib
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.network.certificate import CertificateUnusable, ServerTls, ask, read_authorities
from tests.support.certificates import DAY, Authority


def test_authorities_are_known_by_their_digests_and_when_they_end(tmp_path: Path) -> None:
    one, other = Authority("one"), Authority("other", until=-DAY / 2)
    (tmp_path / "ca.pem").write_bytes(b"# of 2026\n" + one.pem + b"\n" + other.pem)
    found = read_authorities(tmp_path / "ca.pem")
    ders = [each.certificate.public_bytes(Encoding.DER) for each in (one, other)]
    assert found.digests == {hashlib.sha256(der).digest() for der in ders}
    today = datetime.now(UTC).date()
    assert [name for name, _ in found.ends] == ["CN=one", "CN=other"]
    assert found.ends[0][1] > today >= found.ends[1][1]
    assert found.pem == (one.pem + other.pem).decode()


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"nothing of the kind", "has no certificate, or a broken one"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "has no certificate, or a broken one"),
    ],
)
def test_a_file_without_authorities_is_told(tmp_path: Path, content: bytes | None, fact: str) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    with pytest.raises(CertificateUnusable) as told:
        read_authorities(tmp_path / "ca.pem")
    assert (told.value.key, told.value.fact) == ("ca", fact)


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(Authority().pem + Authority().pem[:200])
    with pytest.raises(CertificateUnusable) as told:
        read_authorities(tmp_path / "ca.pem")
    assert told.value.fact in ("has a broken certificate", "has no certificate, or a broken one")


def test_a_bundle_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(Authority().pem + b"#" * (4 * 1024 * 1024))
    with pytest.raises(CertificateUnusable) as told:
        read_authorities(tmp_path / "ca.pem")
    assert told.value.fact == "is larger than 4 MiB"


@pytest.mark.parametrize("required", [False, True])
def test_clients_are_asked_or_have_to(tmp_path: Path, *, required: bool) -> None:
    (tmp_path / "ca.pem").write_bytes(Authority().pem)
    authorities = read_authorities(tmp_path / "ca.pem")
    context = ServerTls(ssl.PROTOCOL_TLS_SERVER)
    assert (context.verify_mode, context.authorities) == (ssl.CERT_NONE, frozenset())
    ask(context, authorities, required=required)
    assert context.verify_mode is (ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL)
    assert context.authorities == authorities.digests
    assert context.cert_store_stats()["x509_ca"] == 1
