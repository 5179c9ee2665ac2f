"""Tokens with odd headers (K2)."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.identity.corpus.genuine import EVIL, Named, said
from tests.identity.issuance import ISSUER, compact, jwk, rsa_key, segment


@cache
def certificate() -> str:
    """The attacker's own certificate, as `x5c` has it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "login.example.com")])
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    key = rsa_key(EVIL)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    text = made.public_bytes(Encoding.PEM).decode()
    return "".join(line for line in text.splitlines() if "-" not in line)


def headers(now: float) -> Named:
    evil = jwk(rsa_key(EVIL), "evil")
    brought: dict[str, dict[str, object]] = {
        "jwk": {"jwk": evil},
        "jwk by its own kid": {"jwk": evil, "kid": "evil"},
        "jwk by our kid": {"jwk": {**evil, "kid": "k1"}},
        "jwk that is a secret": {"jwk": {"kty": "oct", "k": "AAAA"}},
        "jku": {"jku": "http://127.0.0.1:1/keys"},
        "jku of the issuer": {"jku": f"{ISSUER}/keys"},
        "jku to a file": {"jku": "file:///etc/passwd"},
        "jku with our host in it": {"jku": f"https://evil.example/?{ISSUER}/keys"},
        "x5u": {"x5u": "http://127.0.0.1:1/cert"},
        "x5c": {"x5c": [certificate()]},
        "x5c and x5t": {"x5c": [certificate()], "x5t": "AAAA", "x5t#S256": "AAAA"},
        "all of them": {"jwk": evil, "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/", "x5c": ["MIIB"]},
    }
    for name, members in brought.items():
        yield f"header: {name}", compact({"alg": "RS256", "kid": "k1", **members}, said(now), rsa_key(EVIL))
    kids: dict[str, object] = {
        "a path": "../../../../dev/null",
        "a file": "/proc/sys/kernel/randomize_va_space",
        "a URL": "http://127.0.0.1:1/k1",
        "SQL": "k1' UNION SELECT 'secret'--",
        "a command": "k1|id",
        "a template": "{{7*7}}${jndi:ldap://127.0.0.1:1/}",
        "another case": "K1",
        "a space more": "k1 ",
        "a NUL": "k1\0",
        "a newline": "k1\n",
        "not ASCII": "\u043a1",
        "empty": "",
        "long": "k" * 257,
        "very long": "k" * 5000,
        "a prototype": "__proto__",
        "a number": 1,
        "a large number": 10**400,
        "a fraction": 1.5,
        "null": None,
        "true": True,
        "a list": ["k1"],
        "an object": {"k1": "k1"},
    }
    for name, kid in kids.items():
        # By the true key: only its name is wrong.
        yield f"kid: {name}", compact({"alg": "RS256", "kid": kid}, said(now), rsa_key())
    extensions: dict[str, dict[str, object]] = {
        "crit": {"crit": ["exp"]},
        "crit of what it lacks": {"crit": ["http://example.com/understood"], "http://example.com/understood": True},
        "crit is empty": {"crit": []},
        "crit is null": {"crit": None},
        "crit is a string": {"crit": "b64"},
        "b64 and crit": {"b64": False, "crit": ["b64"]},
        "b64 alone": {"b64": False},
        "b64 is true": {"b64": True},
        "zip": {"zip": "DEF"},
        "zip is null": {"zip": None},
    }
    for name, members in extensions.items():
        yield f"header: {name}", compact({"alg": "RS256", "kid": "k1", **members}, said(now), rsa_key())
    header = segment(b'{"alg":"RS256","kid":"k1","b64":false,"crit":["b64"]}')
    plain = json.dumps(said(now), separators=(",", ":")).encode().replace(b".", b"\\u002e")
    signature = rsa_key().sign(header + b"." + plain, padding.PKCS1v15(), hashes.SHA256())
    yield "header: b64 and a payload in plain", header + b"." + plain + b"." + segment(signature)
