"""Authorities, and certificates of every sort that clients may show."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

DAY = timedelta(days=1)
SIGNING = x509.BasicConstraints(ca=True, path_length=None)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True)
class Shown:
    """A certificate with those that sign it, and its key."""

    certificate: x509.Certificate
    chain: bytes
    key: bytes

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def write(self, folder: Path, name: str = "client") -> tuple[Path, Path]:
        chain, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
        chain.write_bytes(self.chain)
        key.write_bytes(self.key)
        return chain, key


class Authority:
    """Signs certificates; another authority may have signed its own.

    Args:
        only: Domains of URIs and DNS names to which it is constrained.
    """

    def __init__(
        self,
        name: str = "clients",
        by: "Authority | None" = None,
        *,
        until: timedelta = 30 * DAY,
        only: tuple[str, ...] = (),
    ) -> None:
        self.private_key = ec.generate_private_key(ec.SECP256R1())
        self._by = by
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = self if by is None else by
        begun = (
            _begun(self.name, signer.name, self.private_key.public_key(), -DAY, until)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.private_key.public_key()), critical=False)
        )
        if only:
            kinds = (x509.UniformResourceIdentifier, x509.DNSName)
            permitted = [kind(domain) for domain in only for kind in kinds]
            begun = begun.add_extension(x509.NameConstraints(permitted, None), critical=True)
        self.certificate = begun.sign(signer.private_key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        *names: str,
        common_names: tuple[str, ...] = (),
        since: timedelta = -DAY,
        until: timedelta = DAY,
        usages: tuple[ObjectIdentifier, ...] | None = (CLIENT,),
        itself: bool = False,
        more: tuple[x509.ExtensionType, ...] = (),
    ) -> Shown:
        """A certificate with these URIs (which have a colon), addresses and DNS names.

        Args:
            usages: None for a certificate that does not say what it is for.
            itself: Whether it is signed by its own key.
            more: Further extensions.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names])
        begun = _begun(subject, subject if itself else self.name, key.public_key(), since, until)
        if names:
            begun = begun.add_extension(x509.SubjectAlternativeName(map(_name, names)), critical=not common_names)
        if usages is not None:
            begun = begun.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        for extension in more:
            begun = begun.add_extension(extension, critical=True)
        certificate = begun.sign(key if itself else self.private_key, hashes.SHA256())
        pem = certificate.public_bytes(Encoding.PEM)
        between = b"" if self._by is None or itself else self.pem
        plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Shown(certificate, pem + between, plain)


def showing(folder: Path, shown: Shown | None, authority: Authority) -> ssl.SSLContext:
    """Return a client's TLS context that shows a certificate, or none, and trusts this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem.decode())
    if shown is not None:
        context.load_cert_chain(*shown.write(folder))
    return context


def _name(text: str) -> x509.GeneralName:
    if ":" in text:
        return x509.UniformResourceIdentifier(text)
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, since: timedelta, until: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + since)
        .not_valid_after(now + until)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
