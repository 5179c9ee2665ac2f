"""Tokens that are no good, each for one reason, and key sets that are no good; made anew, so that nothing in them ages.

The issuer has three keys: `k1` (RSA) and `e1` (P-256), whose algorithms RS256 and ES256 are accepted, and `d1`
(Ed25519), whose algorithm is not. Wherever a signature can be true it is: then the one oddity is all there is against
the token. `tokens(now)` gives them by name, a name being "family: what is odd".
"""

import hmac
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from tests.identity.issuance import (
    ISSUER,
    Private,
    compact,
    ec_key,
    ed_key,
    jwk,
    key_set_document,
    private_for,
    rsa_key,
    segment,
)

ALGORITHMS = ("RS256", "ES256")
EVIL = 66
"""Serial of keys that are the attacker's own."""

P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve."""

Named = Iterator[tuple[str, bytes]]


def published() -> list[dict[str, object]]:
    """The issuer's key set."""
    return [jwk(rsa_key(), "k1"), jwk(ec_key(), "e1"), jwk(ed_key(), "d1")]


def said(now: float, **changes: object) -> dict[str, object]:
    """What a good token says at `now`; a member that is `...` is left out."""
    claims = {"iss": ISSUER, "aud": "agents", "exp": int(now) + 3600, "sub": "ada", "org": "acme", **changes}
    return {name: value for name, value in claims.items() if value is not ...}


def good(now: float, **changes: object) -> bytes:
    """A token without fault."""
    return compact({"alg": "RS256", "kid": "k1"}, said(now, **changes), rsa_key())


def tokens(now: float) -> dict[str, bytes]:
    """Every bad token."""
    found: dict[str, bytes] = {}
    families = (_unsigned, _confused, _foreign, _elliptic, _rsa, _headers, _forms, _json, _times, _claims, _tenants)
    for family in families:
        for name, token in family(now):
            assert name not in found, name
            found[name] = token
    return found


def _signed(header: Mapping[str, object], claims: Mapping[str, object]) -> bytes:
    return segment(json.dumps(header).encode()) + b"." + segment(json.dumps(claims).encode())


# ---- K1: algorithms ------------------------------------------------------------------------------------------------


def _unsigned(now: float) -> Named:
    real = good(now).rpartition(b".")[2]
    for word in ("none", "None", "NONE", "nOnE", "none ", " none", "none\0", "", "null", "unsecured"):
        signed = _signed({"alg": word, "kid": "k1"}, said(now))
        yield f"unsigned: alg {word!r}, nothing signed", signed + b"."
        yield f"unsigned: alg {word!r}, with a signature", signed + b"." + real
    for value in (None, True, 0, [], ["none"], ["RS256"], {"RS256": 1}):
        yield f"unsigned: alg is {value!r}", _signed({"alg": value, "kid": "k1"}, said(now)) + b"." + real
    yield "unsigned: no alg at all", _signed({"kid": "k1"}, said(now)) + b"." + real
    yield "unsigned: alg RS256 and no signature", _signed({"alg": "RS256", "kid": "k1"}, said(now)) + b"."


def _confused(now: float) -> Named:
    """Public keys taken for secrets, in each of the shapes that a library could hand to HMAC."""
    public = rsa_key().public_key()
    numbers = public.public_numbers()
    own = jwk(rsa_key(), "k1")
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secrets: dict[str, bytes] = {
        "PEM": pem,
        "PEM without its last newline": pem.rstrip(b"\n"),
        "PEM in CRLF": pem.replace(b"\n", b"\r\n"),
        "PKCS1 PEM": public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        "DER": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "PKCS1 DER": public.public_bytes(Encoding.DER, PublicFormat.PKCS1),
        "JWK": json.dumps(own).encode(),
        "JWK, short": json.dumps(own, separators=(",", ":"), sort_keys=True).encode(),
        "JWKS": key_set_document(*published()),
        "n": str(own["n"]).encode(),
        "n as bytes": numbers.n.to_bytes(256),
        "kid": b"k1",
        "nothing": b"",
        "EC PEM": ec_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }
    for name, secret in secrets.items():
        for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            signed = _signed({"alg": algorithm, "kid": "k1"}, said(now))
            yield f"confused: {algorithm} by {name}", signed + b"." + segment(hmac.digest(secret, signed, digest))
        # The HMAC under an honest name.
        signed = _signed({"alg": "RS256", "kid": "k1"}, said(now))
        yield f"confused: RS256 by HMAC of {name}", signed + b"." + segment(hmac.digest(secret, signed, "sha256"))


def _foreign(now: float) -> Named:
    """True signatures, by keys or algorithms that are not the issuer's."""
    for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"):
        kid = "d1" if algorithm == "EdDSA" else "k1"
        token = compact({"alg": algorithm, "kid": kid}, said(now), private_for(algorithm))
        yield f"foreign: {algorithm} is not the issuer's", token
    for word in ("rs256", "Rs256", "RS256 ", "RSA256", "RS1", "RSA-OAEP", "es256", "ES256K", "HS256", "dir", "RS256\0"):
        yield f"foreign: alg {word!r}", compact({"alg": word, "kid": "k1"}, said(now), rsa_key())
    yield "foreign: another's RSA key", compact({"alg": "RS256", "kid": "k1"}, said(now), rsa_key(EVIL))
    yield "foreign: another's P-256 key", compact({"alg": "ES256", "kid": "e1"}, said(now), ec_key(EVIL))
    yield "foreign: another's RSA key without kid", compact({"alg": "RS256"}, said(now), rsa_key(EVIL))
    yield "foreign: RS256 by the name of the P-256 key", compact({"alg": "RS256", "kid": "e1"}, said(now), rsa_key())
    yield "foreign: ES256 by the name of the RSA key", compact({"alg": "ES256", "kid": "k1"}, said(now), ec_key())
    header, payload, signature = good(now).split(b".")
    other = good(now, sub="eve").split(b".")
    yield "foreign: the signature of another token", b".".join((header, payload, other[2]))
    yield "foreign: the payload of another token", b".".join((header, other[1], signature))
    longer = segment(b'{"alg":"RS256","kid":"k1","typ":"JWT"}')
    yield "foreign: another header", b".".join((longer, payload, signature))


def _elliptic(now: float) -> Named:
    signed = _signed({"alg": "ES256", "kid": "e1"}, said(now))
    der = ec_key().sign(signed, ec.ECDSA(hashes.SHA256()))
    r, s = decode_dss_signature(der)
    raw = {
        "zero": bytes(64),
        "r is 0": bytes(32) + s.to_bytes(32),
        "s is 0": r.to_bytes(32) + bytes(32),
        "r is the order": P256.to_bytes(32) + s.to_bytes(32),
        "s is the order": r.to_bytes(32) + P256.to_bytes(32),
        "both are the order": P256.to_bytes(32) * 2,
        "r above the order": (2**256 - 1).to_bytes(32) + s.to_bytes(32),
        "all ones": b"\xff" * 64,
        "r and s are 1": (1).to_bytes(32) * 2,
        "swapped": s.to_bytes(32) + r.to_bytes(32),
        "r alone": r.to_bytes(32),
        "DER": der,
        "DER, filled up": der.ljust(80, b"\0"),
        "DER of zero": bytes.fromhex("3006020100020100"),
        "one byte short": (r.to_bytes(32) + s.to_bytes(32))[:-1],
        "one byte more": r.to_bytes(32) + s.to_bytes(32) + b"\0",
        "of 384 bits": r.to_bytes(48) + s.to_bytes(48),
        "little-endian": r.to_bytes(32, "little") + s.to_bytes(32, "little"),
        "one bit off": r.to_bytes(32) + (s ^ 1).to_bytes(32),
        "one byte": b"\0",
    }
    for name, signature in raw.items():
        yield f"elliptic: {name}", signed + b"." + segment(signature)
    other = ec_key(EVIL, ec.SECP384R1)
    yield "elliptic: ES256 by a key of P-384", signed + b"." + segment(_raw(other, signed, hashes.SHA256(), 48))
    yield "elliptic: SHA-512 under ES256", signed + b"." + segment(_raw(ec_key(), signed, hashes.SHA512(), 32))


def _raw(key: ec.EllipticCurvePrivateKey, signed: bytes, digest: hashes.HashAlgorithm, size: int) -> bytes:
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(digest)))
    return r.to_bytes(size) + s.to_bytes(size)


def _rsa(now: float) -> Named:
    signed = _signed({"alg": "RS256", "kid": "k1"}, said(now))
    key, modulus = rsa_key(), rsa_key().public_key().public_numbers().n
    true = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
    signatures = {
        "zero": bytes(256),
        "one": (1).to_bytes(256),
        "the modulus": modulus.to_bytes(256),
        "the modulus less one": (modulus - 1).to_bytes(256),
        "plus the modulus": (int.from_bytes(true) + modulus).to_bytes(257),
        "a zero in front": b"\0" + true,
        "a zero behind": true + b"\0",
        "one byte short": true[:-1],
        "one bit off": true[:-1] + bytes((true[-1] ^ 1,)),
        "backwards": true[::-1],
        "PSS under RS256": key.sign(signed, pss, hashes.SHA256()),
        "SHA-512 under RS256": key.sign(signed, padding.PKCS1v15(), hashes.SHA512()),
        "SHA-1 under RS256": key.sign(signed, padding.PKCS1v15(), hashes.SHA1()),
        "of the payload alone": key.sign(signed.partition(b".")[2], padding.PKCS1v15(), hashes.SHA256()),
        "of the decoded text": key.sign(json.dumps(said(now)).encode(), padding.PKCS1v15(), hashes.SHA256()),
        "a thousand bytes": true.ljust(1000, b"\0"),
    }
    for name, signature in signatures.items():
        yield f"rsa: {name}", signed + b"." + segment(signature)


# ---- K2: the header ------------------------------------------------------------------------------------------------


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


def _headers(now: float) -> Named:
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


# ---- K3: what two readers read differently -------------------------------------------------------------------------


def _forms(now: float) -> Named:
    true = good(now)
    header, payload, signature = true.split(b".")
    yield "form: two segments", header + b"." + payload
    yield "form: four segments", true + b"." + signature
    yield "form: five segments", b".".join((header, signature, payload, payload, signature))
    yield "form: dots", b".."
    yield "form: one dot", b"."
    yield "form: a dot in front", b"." + true
    yield "form: a dot behind", true + b"."
    yield "form: no header", b"." + payload + b"." + signature
    yield "form: no payload", header + b".." + signature
    yield (
        "form: JSON, flattened",
        json.dumps(
            {"protected": header.decode(), "payload": payload.decode(), "signature": signature.decode()}
        ).encode(),
    )
    yield (
        "form: JSON, general",
        json.dumps(
            {
                "payload": payload.decode(),
                "signatures": [{"protected": header.decode(), "signature": signature.decode()}],
            }
        ).encode(),
    )
    yield "form: nested", compact({"alg": "RS256", "kid": "k1", "cty": "JWT"}, true, rsa_key())
    yield (
        "form: nested in a string",
        compact({"alg": "RS256", "kid": "k1"}, json.dumps(true.decode()).encode(), rsa_key()),
    )
    for place, name in enumerate(("header", "payload", "signature")):
        parts = [header, payload, signature]
        for text, what in (
            (b"=", "padding"),
            (b"==", "more padding"),
            (b"%3D", "escaped padding"),
            (b"A", "a letter more"),
        ):
            parts[place] = (header, payload, signature)[place] + text
            yield f"form: {what} in the {name}", b".".join(parts)
    yield from _stray_bits(now)
    for text, name in (
        (b" ", "a space"), (b"\t", "a tab"), (b"\n", "a newline"), (b"\r\n", "a line end"), (b"\0", "a NUL"),
        (b"+", "a plus"), (b"/", "a slash"), (b"~", "a tilde"), (b"\xc2\xa0", "a wide space"), (b"\x85", "a next line"),
    ):  # fmt: skip
        half = len(payload) // 2
        yield f"form: {name} within", header + b"." + payload[:half] + text + payload[half:] + b"." + signature
        yield f"form: {name} before a dot", header + text + b"." + payload + b"." + signature
        # A space there is the header's, not the token's (RFC 9110 §5.6.3).
        if text != b" ":
            yield f"form: {name} at the end", true + text
    yield "form: quoted", b'"' + true + b'"'
    yield "form: twice", true + b", " + true
    yield "form: Bearer twice", b"Bearer " + true
    yield "form: percent-escaped", true.replace(b".", b"%2E")
    yield "form: with a parameter", true + b";x=1"
    yield "form: very long", compact({"alg": "RS256", "kid": "k1"}, said(now, pad="x" * 8192), rsa_key())
    yield "form: the standard alphabet", _with_standard_alphabet(now)


def _stray_bits(now: float) -> Named:
    """The same bytes in another text: the last letter has bits that mean nothing."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, name in enumerate(("header", "payload", "signature")):
        for extra in range(3):
            parts = compact({"alg": "RS256", "kid": "k1", "x": "x" * extra}, said(now, x="x" * extra), rsa_key()).split(
                b"."
            )
            spare = {0: 0, 3: 3, 2: 15}[len(parts[place]) % 4]
            if spare:
                last = alphabet.index(parts[place][-1])
                parts[place] = parts[place][:-1] + alphabet[last | spare :][:1]
                if last | spare == last:
                    continue
                # What is signed is what is written, so the signature is made over the odd text.
                if place < 2:
                    signed = parts[0] + b"." + parts[1]
                    parts[2] = segment(rsa_key().sign(signed, padding.PKCS1v15(), hashes.SHA256()))
                yield f"form: stray bits in the {name}", b".".join(parts)
                break


def _with_standard_alphabet(now: float) -> bytes:
    for number in range(1000):
        header, payload, signature = good(now, n=number).split(b".")
        if b"-" in signature or b"_" in signature:
            return b".".join((header, payload, signature.replace(b"-", b"+").replace(b"_", b"/")))
    raise AssertionError("unlikely")


def _json(now: float) -> Named:
    """Truly signed texts that are no JSON, or more than one."""
    text = json.dumps(said(now))
    body, header = text[1:-1], '"alg":"RS256","kid":"k1"'
    headers: dict[str, str | bytes] = {
        "alg twice": f'{{{header},"alg":"none"}}',
        "alg twice, once escaped": f'{{{header},"\\u0061lg":"none"}}',
        "kid twice": f'{{{header},"kid":"e1"}}',
        "a list": f"[{{{header}}}]",
        "a string": '"RS256"',
        "null": "null",
        "two objects": f"{{{header}}}{{{header}}}",
        "a comment": f"{{{header}/**/}}",
        "a trailing comma": f"{{{header},}}",
        "single quotes": "{'alg':'RS256','kid':'k1'}",
        "a BOM": "\ufeff" + f"{{{header}}}",
        "UTF-16": f"{{{header}}}".encode("utf-16"),
        "UTF-32": f"{{{header}}}".encode("utf-32"),
        "UTF-7": f"{{{header},+AG4-:1}}",
        "no UTF-8": f'{{{header},"x":"'.encode() + b'\xff"}',
        "an overlong letter": f'{{{header},"x":"'.encode() + b'\xc1\x81"}',
        "a surrogate in UTF-8": f'{{{header},"x":"'.encode() + b'\xed\xa0\x80"}',
        "half a surrogate pair": f'{{{header},"x":"\\ud800"}}',
        "a control character": f'{{{header},"x":"\x01"}}',
        "empty": "{}",
        "blank": " ",
        "deep": f'{{{header},"x":' + "[" * 100 + "]" * 100 + "}",
        "a NUL behind": f"{{{header}}}\0",
    }
    for name, odd in headers.items():
        raw = odd if isinstance(odd, bytes) else odd.encode("utf-8", "surrogatepass")
        yield f"json: header is {name}", compact(raw, text.encode(), rsa_key())
    payloads: dict[str, str | bytes] = {
        "org twice": f'{{{body},"org":"globex"}}',
        "org twice, once escaped": f'{{{body},"\\u006frg":"globex"}}',
        "org twice, the same": f'{{{body},"org":"acme"}}',
        "exp twice": f'{{{body},"exp":{int(now) + 9}}}',
        "iss twice": f'{{{body},"iss":"https://evil.example"}}',
        "aud twice": f'{{{body},"aud":"others"}}',
        "sub twice": f'{{{body},"sub":"eve"}}',
        "a name twice, deep": f'{{{body},"x":[{{"y":{{"z":1,"z":2}}}}]}}',
        "an empty name twice": f'{{{body},"":1,"":2}}',
        "a list": f"[{text}]",
        "a string": json.dumps(text),
        "a number": "1",
        "null": "null",
        "two objects": text + text,
        "a newline of two": text + "\n" + text,
        "a comment": f"{{{body}//\n}}",
        "a trailing comma": f"{{{body},}}",
        "NaN": f'{{{body},"x":NaN}}',
        "Infinity": f'{{{body},"x":-Infinity}}',
        "1e400": f'{{{body},"x":1e400}}',
        "5000 digits": f'{{{body},"x":{"9" * 5000}}}',
        "5000 digits after the point": f'{{{body},"x":1{"0" * 400}.{"9" * 4600}}}',
        "a leading zero": f'{{{body},"x":01}}',
        "a plus": f'{{{body},"x":+1}}',
        "hex": f'{{{body},"x":0x1}}',
        "deep": f'{{{body},"x":' + "[" * 1500 + "]" * 1500 + "}",
        "deep and open": f'{{{body},"x":' + '{"x":' * 900,
        "a BOM": "\ufeff" + text,
        "UTF-16": text.encode("utf-16"),
        "UTF-16 without a BOM": text.encode("utf-16-le"),
        "UTF-32": text.encode("utf-32-be"),
        "no UTF-8": f'{{{body},"x":"'.encode() + b'\xff"}',
        "half a surrogate pair": f'{{{body},"x":"\\udc00"}}',
        "half a pair in a name": f'{{{body},"\\ud800":1}}',
        "a control character": f'{{{body},"x":"\n"}}',
        "cut": text[:-1],
        "blank": " ",
        "CBOR": bytes.fromhex("a16373756263616461"),
    }
    for name, odd in payloads.items():
        raw = odd if isinstance(odd, bytes) else odd.encode("utf-8", "surrogatepass")
        yield f"json: payload is {name}", compact(b'{"alg":"RS256","kid":"k1"}', raw, rsa_key())


# ---- K4: claims ----------------------------------------------------------------------------------------------------


def _times(now: float) -> Named:
    later = int(now) + 3600
    values: dict[str, object] = {
        "null": None,
        "a string": str(later),
        "a date": "2099-01-01T00:00:00Z",
        "true": True,
        "false": False,
        "a list": [later],
        "an object": {"$numberLong": str(later)},
        "negative": -1,
        "a small fraction below zero": -0.5,
        "milliseconds": later * 1000,
        "of 400 digits": 10**400,
        "of 4000 digits": 10**4000,
        "1e308": 1e308,
        "two to the 63": 2**63,
        "two to the 64": 2**64,
    }
    for claim in ("exp", "nbf", "iat"):
        for name, value in values.items():
            yield f"time: {claim} is {name}", good(now, **{claim: value})
    yield "time: no exp", good(now, exp=...)
    yield "time: exp is zero", good(now, exp=0)
    yield "time: exp was an hour ago", good(now, exp=int(now) - 3600)
    yield "time: exp was 31 seconds ago", good(now, exp=now - 31)
    yield "time: nbf is in an hour", good(now, nbf=int(now) + 3600)
    yield "time: iat is in an hour", good(now, iat=int(now) + 3600)
    yield "time: exp in another case", good(now, exp=..., Exp=later)
    for text, name in (("1e400", "1e400"), ("9" * 5000, "5000 digits"), ("NaN", "NaN"), ("-1e400", "-1e400")):
        raw = json.dumps(said(now)).replace(str(later), text).encode()
        yield f"time: exp is {name}", compact({"alg": "RS256", "kid": "k1"}, raw, rsa_key())


def _claims(now: float) -> Named:
    issuers: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "a number": 1,
        "a list": [ISSUER],
        "an object": {"iss": ISSUER},
        "a prefix": ISSUER[:-1],
        "longer": ISSUER + ".evil.example",
        "with a slash": ISSUER + "/",
        "with a path": ISSUER + "/realms/evil",
        "with a query": ISSUER + "?",
        "with a fragment": ISSUER + "#",
        "in another case": ISSUER.upper(),
        "http": ISSUER.replace("https", "http"),
        "with a port": ISSUER + ":443",
        "with a user": ISSUER.replace("//", "//evil@"),
        "with a space": ISSUER + " ",
        "with a NUL": ISSUER + "\0",
        "its name in the file": "corp",
    }
    for name, value in issuers.items():
        yield f"issuer: {name}", good(now, iss=value)
    audiences: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "an empty list": [],
        "another": "others",
        "a prefix": "agent",
        "longer": "agents-eu",
        "in another case": "Agents",
        "with a space": "agents ",
        "two in one": "agents others",
        "with a comma": "agents,others",
        "a star": "*",
        "others": ["others", "agents-eu"],
        "a list in a list": [["agents"]],
        "with a number": ["agents", 1],
        "with null": ["agents", None],
        "with an object": ["agents", {}],
        "a number": 1,
        "true": True,
        "an object": {"agents": "agents"},
    }
    for name, value in audiences.items():
        yield f"audience: {name}", good(now, aud=value)
    subjects: dict[str, object] = {
        "a number": 7,
        "null": None,
        "a list": ["ada"],
        "an object": {"name": "ada"},
        "a line end": "ada\r\nX-A2A-Tenant: globex",
        "a newline": "ada\nglobex",
        "a NUL": "ada\0",
        "an escape": "\x1b[2J",
        "a next line": "ada\x85globex",
        "a line separator": "ada\u2028globex",
        "turned round": "\u202eada",
        "nothing to see": "\u200b",
        "a byte order mark": "\ufeffada",
        "a private letter": "\ue000",
        "no letter": "\uffff",
    }
    for name, value in subjects.items():
        yield f"subject: {name}", good(now, sub=value)


def _tenants(now: float) -> Named:
    tenants: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "a number": 1,
        "true": True,
        "a list": ["acme"],
        "two": ["acme", "globex"],
        "an object": {"name": "acme"},
        "with a space": "acme ",
        "with a space in front": " acme",
        "with a newline": "acme\n",
        "with a NUL": "acme\0",
        "with a line end": "acme\r\nX: y",
        "two in one": "acme globex",
        "with a comma": "acme,globex",
        "a star": "*",
        "with a slash": "acme/globex",
        "a dot": ".",
        "dots": "..",
        "a path": "../acme",
        "escaped": "%61cme",
        "anonymous": "anonymous",
        "Cyrillic": "\u0430cme",
        "wide": "\uff41cme",
        "with a joiner": "ac\u200dme",
        "with a combining mark": "acme\u0301",
        "long": "a" * 65,
        "very long": "a" * 4000,
    }
    for name, value in tenants.items():
        yield f"tenant: {name}", good(now, org=value)
    yield "tenant: the claim in another case", good(now, org=..., Org="acme")
    yield "tenant: another claim", good(now, org=..., tenant="acme")


# ---- K5: key sets --------------------------------------------------------------------------------------------------


def poisoned() -> dict[str, bytes]:
    """Key sets that must change nothing for tokens of `k1`, and let no token of the attacker's keys in.

    Those of which `k1` is a member have one bad key beside it; all others are refused whole.
    """
    own = published()
    evil = jwk(rsa_key(EVIL), "evil")
    point = jwk(ec_key(EVIL), "evil")
    whole = key_set_document(*own)
    beside: dict[str, object] = {
        "a secret": {"kty": "oct", "kid": "evil", "k": "c2VjcmV0", "alg": "HS256"},
        "a secret called k1": {"kty": "oct", "kid": "k1", "k": "c2VjcmV0"},
        "a secret that says RS256": {"kty": "oct", "kid": "evil", "k": "c2VjcmV0", "alg": "RS256"},
        "another k1": {**evil, "kid": "k1"},
        "k1 twice, once for RS256": {**evil, "kid": "k1", "alg": "RS256"},
        "for encryption": {**evil, "use": "enc"},
        "not to verify": {**evil, "key_ops": ["encrypt", "sign"]},
        "no operation at all": {**evil, "key_ops": []},
        "alg of another type": {**evil, "alg": "ES256"},
        "alg none": {**evil, "alg": "none"},
        "alg HS256": {**evil, "alg": "HS256"},
        "a private key": {**evil, "d": "AQAB"},
        "RSA of 512 bits": {**evil, "n": _modulus(512)},
        "RSA of 1024 bits": {**evil, "n": _modulus(1024)},
        "RSA of 2047 bits": {**evil, "n": _modulus(2047)},
        "RSA of 16384 bits": {**evil, "n": _modulus(16384)},
        "an even exponent": {**evil, "e": "Ag"},
        "exponent 1": {**evil, "e": "AQ"},
        "exponent 0": {**evil, "e": "AA"},
        "a long exponent": {**evil, "e": "_" * 40},
        "an even modulus": {**evil, "n": "_" * 341 + "g"},
        "no modulus": {**evil, "n": ""},
        "a point off the curve": {**point, "y": point["x"]},
        "the point at infinity": {**point, "x": "A" * 43, "y": "A" * 43},
        "coordinates beyond the field": {**point, "x": "_" * 42 + "8", "y": "_" * 42 + "8"},
        "a short point": {**point, "x": "AAAA"},
        "P-256 by the name of P-384": {**point, "crv": "P-384"},
        "secp256k1": {**point, "crv": "secp256k1"},
        "X25519": {"kty": "OKP", "crv": "X25519", "kid": "evil", "x": "A" * 43},
        "an unknown type": {**evil, "kty": "AKP"},
        "kid is a number": {**evil, "kid": 1},
        "a long kid": {**evil, "kid": "k" * 300},
        "a string": "k1",
        "null": None,
        "a list": [evil],
        "deep": json.loads("[" * 100 + "]" * 100),
    }
    documents = {f"beside: {name}": key_set_document(*own, key) for name, key in _members(beside)}
    secret = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0"}
    documents |= {
        "whole: empty": b"",
        "whole: HTML": b"<!doctype html><title>Sign in</title>",
        "whole: text": b"service unavailable",
        "whole: cut": whole[: len(whole) // 2],
        "whole: cut by a byte": whole[:-1],
        "whole: with a BOM": b"\xef\xbb\xbf" + whole,
        "whole: UTF-16": whole.decode().encode("utf-16"),
        "whole: no UTF-8": whole[:-3] + b'\xff"]}',
        "whole: twice": whole + whole,
        "whole: null": b"null",
        "whole: a list": json.dumps(own).encode(),
        "whole: no keys": b"{}",
        "whole: keys is null": b'{"keys":null}',
        "whole: keys is an object": json.dumps({"keys": {"k1": own[0]}}).encode(),
        "whole: none left": b'{"keys":[]}',
        "whole: secrets alone": key_set_document(secret),
        "whole: weak keys alone": key_set_document({**evil, "n": _modulus(1024)}),
        "whole: 101 keys": key_set_document(*({**point, "kid": f"e{number}"} for number in range(101))),
        "whole: 20000 keys": b'{"keys":[' + b",".join([b'{"kty":"oct","k":"AA"}'] * 20_000) + b"]}",
        "whole: two megabytes": b'{"keys":[' + b" " * 2_000_000 + b"]}",
        "whole: deep": b'{"keys":' + b"[" * 100_000,
        "whole: PEM": private_pem(),
        "whole: one key without a set": json.dumps(own[0]).encode(),
    }
    return documents


def _members(beside: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    yield from beside.items()


def _modulus(bits: int) -> str:
    return segment((2**bits - 2 ** (bits // 2) + 1).to_bytes((bits + 7) // 8)).decode()


def private_pem() -> bytes:
    """A private key where a key set should be: it must be in no message."""
    key: Private = rsa_key(EVIL)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
