"""Tokens that two readers read differently (K3)."""

import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from tests.identity.corpus.genuine import Named, good, said
from tests.identity.issuance import compact, rsa_key, segment


def forms(now: float) -> Named:
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
                # The signature is made over the odd text as written.
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


def json_texts(now: float) -> Named:
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
