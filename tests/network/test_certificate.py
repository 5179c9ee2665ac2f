"""Certificates and keys are read as TLS reads them, and what is wrong with one is told with the key that names it."""

import contextlib
import hashlib
import os
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.network.certificate import (
    CertificateUnusable,
    ServerTls,
    ask,
    check_authorities,
    read_authorities,
    server_context,
)
from tests.support.certificates import DAY, Authority


class Files:
    """A certificate with its key, and files that are something else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = trustme.CA()
        one, other = authority.issue_cert("127.0.0.1"), trustme.CA().issue_cert("127.0.0.1")
        self.authority = authority.cert_pem.bytes().decode()
        self.chain = self.write("chain.pem", b"".join(blob.bytes() for blob in one.cert_chain_pems))
        self.key = self.write("key.pem", one.private_key_pem.bytes())
        self.other = self.write("other.pem", other.private_key_pem.bytes())
        self.kind = self.write(
            "kind.pem",
            rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )
        self.text = self.write("text.pem", b"nothing of the kind\n")
        self.empty = self.write("empty.pem", b"")
        self.broken = self.write("broken.pem", self.chain.read_bytes()[:200])
        self.missing = folder / "missing.pem"
        self.malformed = folder / "a\0b"
        self.locked = self.write(
            "locked.pem",
            load_pem_private_key(self.key.read_bytes(), None).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")
            ),
        )
        self.pipe = folder / "pipe.pem"
        os.mkfifo(self.pipe)

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_http_2_is_agreed_on_with_clients_that_offer_it_and_its_ciphers_are_those_of_its_specification(
    files: Files,
) -> None:
    context = server_context(files.chain, files.key, ["h2"])
    client = ssl.create_default_context(cadata=files.authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_alpn_protocols(["h2", "http/1.1"])
    mine, theirs = _talking(context, client)
    assert mine.selected_alpn_protocol() == theirs.selected_alpn_protocol() == "h2"
    refused = re.compile("CBC|SHA$|^AES|RSA_WITH|^DHE")
    assert not [each["name"] for each in context.get_ciphers() if refused.search(each["name"])]
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert _talking(server_context(files.chain, files.key), client)[0].selected_alpn_protocol() == "http/1.1"


def _talking(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a handshake that is done."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(there, here, server_side=True),
        client.wrap_bio(here, there, server_hostname="127.0.0.1"),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0], ends[1]


@pytest.mark.parametrize(
    ("chain", "key", "named", "fact"),
    [
        ("missing", "key", "cert", "cannot be read: No such file or directory"),
        ("folder", "key", "cert", "is a folder, not a file"),
        ("pipe", "key", "cert", "is no ordinary file"),
        ("malformed", "key", "cert", "cannot be read: its name is malformed"),
        ("empty", "key", "cert", "is empty"),
        ("text", "key", "cert", "has no certificate, or a broken one"),
        ("broken", "key", "cert", "has no certificate, or a broken one"),
        ("key", "chain", "cert", "has no certificate, or a broken one"),
        ("chain", "missing", "key", "cannot be read: No such file or directory"),
        ("chain", "empty", "key", "is empty"),
        ("chain", "text", "key", "has no private key"),
        ("chain", "chain", "key", "has no private key"),
        ("chain", "other", "key", "is not the private key of the certificate"),
        ("chain", "kind", "key", "is not the private key of the certificate"),
        ("chain", "locked", "key", "is under a passphrase"),
    ],
)
def test_a_bad_file_is_reported_with_its_key(files: Files, chain: str, key: str, named: str, fact: str) -> None:
    with pytest.raises(CertificateUnusable) as caught:
        server_context(getattr(files, chain), getattr(files, key))
    assert (caught.value.key, caught.value.fact) == (named, fact)
    assert caught.value.remedy


def test_a_certificate_that_tls_would_refuse_as_too_weak_is_told(files: Files) -> None:
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "weak")])
    now = datetime.now(UTC)
    weak = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(CertificateUnusable, match="is too weak for TLS"):
        server_context(files.write("weak.pem", weak), files.write("weak-key.pem", private))


def test_a_file_that_may_not_be_read_is_told(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(CertificateUnusable, match="cannot be read: Permission denied") as caught:
        server_context(files.chain, files.key)
    assert "gateway's user" in caught.value.remedy


@pytest.mark.parametrize("name", ["missing", "folder", "text", "empty", "broken", "key"])
def test_authorities_are_certificates(files: Files, name: str) -> None:
    check_authorities(files.chain)
    with pytest.raises(CertificateUnusable) as caught:
        check_authorities(getattr(files, name))
    assert caught.value.key == "ca"


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_ciphers_have_forward_secrecy_and_renegotiation_is_off(files: Files, protocol: str) -> None:
    context = server_context(files.chain, files.key, (protocol,))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    offered = [cipher["name"] for cipher in context.get_ciphers()]
    assert offered
    for name in offered:
        assert name.startswith(("TLS_", "ECDHE-", "DHE-")), name
        assert not name.endswith("-SHA"), name
        assert not {"NULL", "RC4", "DES", "MD5", "anon"} & set(name.split("-")), name


# ---- The file of the authorities, and what a context does with it; `test_mtls_handshake.py` shakes hands by ----------


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
