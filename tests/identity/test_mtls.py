"""The contents of a certificate that are read, and the principal that they make."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import AuthExpired, AuthInvalid
from gateway.config.model import Mtls
from gateway.identity.mtls import Certificates, read_certificate
from gateway.principal import Certificate
from tests.support.certificates import DAY, Authority
from tests.table import for_each

MTLS = Mtls.model_validate(
    {
        "ca": "clients.pem",
        "clients": {
            "mesh": {"uri": "spiffe://mesh.test/{tenant}/*"},
            "hosts": {"dns": "a.test", "tenant": "acme", "agents": "echo"},
        },
    }
).as_settings()
ACME = "spiffe://mesh.test/acme/x"


def certificate(*uris: str, dns: tuple[str, ...] = (), expires: float = 100.0, digest: bytes = b"d") -> Certificate:
    return Certificate(digest, uris, dns, expires=expires, subject="CN=x", issuer="CN=ca")


def test_names_issuer_and_end_are_read() -> None:
    authority = Authority("ca")
    shown = authority.issue(ACME, "A.Test", "urn:x", common_names=("one", "two"), until=DAY)
    found = read_certificate(shown.der)
    assert found.digest == hashlib.sha256(shown.der).digest()
    assert (found.uris, found.dns, found.common_names) == ((ACME, "urn:x"), ("a.test",), ("one", "two"))
    assert (found.issuer, set(found.subject.split(","))) == ("CN=ca", {"CN=one", "CN=two"})
    assert found.expires == shown.certificate.not_valid_after_utc.timestamp()
    assert not found.void


@for_each("der", [b"", b"\x30\x00", b"nothing of the kind"])
def test_an_unreadable_certificate_belongs_to_no_client(der: bytes) -> None:
    found = read_certificate(der)
    assert (found.uris, found.dns, found.common_names) == ((), (), ())
    with pytest.raises(AuthInvalid):
        Certificates(MTLS, 10).find(found, 0.0)


SOUND = Authority().issue(ACME, "a.test", common_names=("one",)).der


@given(st.integers(0, len(SOUND) - 1), st.integers(0, 255))
def test_a_certificate_with_any_byte_changed_is_read_or_refused(at: int, byte: int) -> None:
    changed = SOUND[:at] + bytes([byte]) + SOUND[at + 1 :]
    found = read_certificate(changed)
    assert found.digest == hashlib.sha256(changed).digest()


def test_a_caller_has_what_its_certificate_says_as_claims() -> None:
    caller = Certificates(MTLS, 10).find(certificate(dns=("a.test", "b.test")), 0.0)
    assert (caller.tenant, caller.subject, caller.narrowed) == ("acme", "a.test", frozenset({"echo"}))
    assert dict(caller.claims) == {
        "san": ("a.test", "b.test"),
        "subject": "CN=x",
        "issuer": "CN=ca",
        "client": "hosts",
    }
    assert caller.expires == 100.0


def test_an_expired_certificate_is_refused_and_a_corrected_clock_accepts_it_again() -> None:
    certificates = Certificates(MTLS, 10)
    for _ in range(2):
        assert certificates.find(certificate(ACME), 99.9).tenant == "acme"
        with pytest.raises(AuthExpired, match="has expired"):
            certificates.find(certificate(ACME), 100.0)


def test_a_refusal_is_told_again_and_names_the_certificate_to_operators_only() -> None:
    certificates = Certificates(MTLS, 10)
    for _ in range(2):
        with pytest.raises(AuthInvalid) as told:
            certificates.find(certificate("spiffe://other.test/acme/x"), 0.0)
        assert told.value.message == "the certificate is not known here"
        assert told.value.detail == "no entry of auth.mtls.clients fits spiffe://other.test/acme/x"


def test_a_client_with_a_void_certificate_has_to_connect_again() -> None:
    certificates = Certificates(MTLS, 10)
    shown = certificate(ACME)
    assert certificates.find(shown, 0.0).tenant == "acme"
    shown.void = True
    with pytest.raises(AuthInvalid, match="connect again"):
        certificates.find(shown, 0.0)


def test_so_many_certificates_are_remembered_and_no_more() -> None:
    certificates = Certificates(MTLS, 2)
    first, *_, last = [certificates.find(certificate(ACME, digest=bytes([number])), 0.0) for number in range(5)]
    again = [certificates.find(certificate(ACME, digest=bytes([number])), 0.0) for number in (4, 0)]
    assert [found is before for found, before in zip(again, (last, first), strict=True)] == [True, False]
