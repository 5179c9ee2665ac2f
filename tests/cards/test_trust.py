"""Authorities are read once, and calls and cards trust the same ones."""

import ssl
from pathlib import Path

import pytest
import trustme

from gateway.cards.trust import Trust, authorities
from gateway.resources import Resources

pytestmark = pytest.mark.anyio


async def test_each_set_of_authorities_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    resources = Resources()
    trust = Trust(resources)
    system, own = trust.of(), trust.of(file)
    assert trust.of() is system
    assert trust.of(file) is own
    assert system.tls is not own.tls
    assert own.tls.cert_store_stats()["x509_ca"] == 1
    await resources.aclose()
    assert system.client.is_closed
    assert own.client.is_closed


async def test_a_file_that_is_gone_is_no_trust_in_everybody(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Trust().of(tmp_path / "gone.pem")


def trusted(pem: bytes) -> set[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    return set(context.get_ca_certs(binary_form=True))


def paths(monkeypatch: pytest.MonkeyPatch, cafile: Path, capath: Path) -> None:
    # The system's paths are those that OpenSSL was built with; the other two are the environment's.
    found = ssl.DefaultVerifyPaths("/nowhere", "/nowhere", "SSL_CERT_FILE", str(cafile), "SSL_CERT_DIR", str(capath))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: found)


def test_the_systems_are_its_file_or_those_in_its_folder_that_openssl_would_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, stray = trustme.CA(), trustme.CA(), trustme.CA()
    folder = tmp_path / "certs"
    folder.mkdir()
    one.cert_pem.write_to_path(folder / "0a1b2c3d.0")
    other.cert_pem.write_to_path(folder / "0a1b2c3d.1")
    stray.cert_pem.write_to_path(folder / "notes.pem")
    file = tmp_path / "bundle.pem"
    paths(monkeypatch, file, folder)
    assert trusted(authorities()) == trusted(one.cert_pem.bytes()) | trusted(other.cert_pem.bytes())
    stray.cert_pem.write_to_path(file)
    assert trusted(authorities()) == trusted(stray.cert_pem.bytes())


def test_the_environment_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    before = authorities()
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(file))
    assert authorities() == before
