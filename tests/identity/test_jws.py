import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthInvalid
from gateway.identity.jws import parse, unbase64url
from tests.identity.issuance import claims, compact, segment

HEADER = b'{"alg":"RS256","kid":"k1"}'
PAYLOAD = json.dumps(claims()).encode()


def raw(header: bytes = HEADER, payload: bytes = PAYLOAD, signature: bytes = b"signature") -> bytes:
    return b".".join((segment(header), segment(payload), segment(signature)))


def test_a_token_is_taken_apart() -> None:
    jws = parse(raw())
    assert (jws.algorithm, jws.kid, jws.signature) == ("RS256", "k1", b"signature")
    assert jws.claims == claims()
    assert jws.signed == segment(HEADER) + b"." + segment(PAYLOAD)


def test_a_kid_may_be_left_out_and_foreign_header_members_mean_nothing() -> None:
    foreign = b'{"alg":"ES256","typ":"at+jwt","jku":"https://evil.example/","jwk":{"kty":"oct"},"x5u":1,"x5c":[]}'
    assert parse(raw(foreign)).kid is None


def test_the_claims_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        parse(raw()).claims["sub"] = "eve"  # type: ignore[index]  # that is the promise


GOOD = raw()
HEAD, BODY, SIGNATURE = GOOD.split(b".")

CORPUS = {
    "empty": b"",
    "a word": b"secret",
    "two segments": HEAD + b"." + BODY,
    "four segments": GOOD + b".AA",
    "five segments (JWE)": GOOD + b".AA.AA",
    "no signature": HEAD + b"." + BODY + b".",
    "empty header": b"." + BODY + b"." + SIGNATURE,
    "dots": b"..",
    "a newline at the end": GOOD + b"\n",
    "a space inside": GOOD.replace(b".", b". "),
    "padded": HEAD + b"=." + BODY + b"." + SIGNATURE,
    "padded signature": GOOD + b"=",
    "standard alphabet": HEAD + b"." + BODY + b".+/+/",
    "NUL": GOOD + b"\0",
    "not ASCII": GOOD + "é".encode(),
    "a length that cannot be": HEAD + b"." + BODY + b".AAAAA",
    "stray bits": HEAD + b"." + BODY + b".AB",
    "JSON serialisation": json.dumps({"payload": BODY.decode(), "signatures": []}).encode(),
    "header is no JSON": raw(b"alg"),
    "header is a list": raw(b'["RS256"]'),
    "header twice": raw(HEADER + HEADER),
    "header with a comment": raw(HEADER + b"//"),
    "header in UTF-16": raw(HEADER.decode().encode("utf-16")),
    "header with a BOM": raw(b"\xef\xbb\xbf" + HEADER),
    "header is no UTF-8": raw(b'{"alg":"RS256","x":"\xff"}'),
    "overlong UTF-8": raw(b'{"alg":"RS256","x":"\xc0\xaf"}'),
    "alg missing": raw(b"{}"),
    "alg is null": raw(b'{"alg":null}'),
    "alg is a list": raw(b'{"alg":["RS256"]}'),
    "alg twice": raw(b'{"alg":"RS256","alg":"none"}'),
    "alg twice, once escaped": raw(b'{"alg":"RS256","\\u0061lg":"none"}'),
    "kid is a number": raw(b'{"alg":"RS256","kid":1}'),
    "kid is null": raw(b'{"alg":"RS256","kid":null}'),
    "kid is long": raw(b'{"alg":"RS256","kid":"' + b"k" * 257 + b'"}'),
    "kid has half a surrogate pair": raw(b'{"alg":"RS256","kid":"\\ud800"}'),
    "crit": raw(b'{"alg":"RS256","crit":["exp"]}'),
    "crit is empty": raw(b'{"alg":"RS256","crit":[]}'),
    "b64": raw(b'{"alg":"RS256","b64":false}'),
    "b64 is true": raw(b'{"alg":"RS256","b64":true}'),
    "zip": raw(b'{"alg":"RS256","zip":"DEF"}'),
    "payload is empty": raw(payload=b" "),
    "payload is a string": raw(payload=b'"agents"'),
    "payload is a nested token": raw(payload=GOOD),
    "claim twice": raw(payload=b'{"org":"acme","org":"globex"}'),
    "claim twice, deep": raw(payload=b'{"a":[{"b":1,"b":2}]}'),
    "half a surrogate pair": raw(payload=b'{"sub":"\\udc00"}'),
    "NaN": raw(payload=b'{"exp":NaN}'),
    "Infinity": raw(payload=b'{"exp":-Infinity}'),
    "1e400": raw(payload=b'{"exp":1e400}'),
    "5000 digits": raw(payload=b'{"exp":' + b"9" * 5000 + b"}"),
    "leading zero": raw(payload=b'{"exp":01}'),
    "deep and open": raw(payload=b'{"a":' + b"[" * 5500),
    "deep": raw(payload=b'{"a":' + b"[" * 2500 + b"]" * 2500 + b"}"),
    "65 levels": raw(payload=b'{"a":' + b"[" * 64 + b"]" * 64 + b"}"),
    "control character": raw(payload=b'{"sub":"\x01"}'),
    "trailing comma": raw(payload=b'{"sub":"a",}'),
    "long": HEAD + b"." + BODY + b"." + b"A" * 8192,
}


@pytest.mark.parametrize("token", CORPUS.values(), ids=CORPUS.keys())
def test_what_two_readers_could_read_differently_is_no_token(token: bytes) -> None:
    with pytest.raises(AuthInvalid) as caught:
        parse(token)
    assert "RS256" not in caught.value.message
    assert len(caught.value.message) < 60


def test_every_escape_that_makes_sense_is_understood() -> None:
    assert parse(raw(payload=b'{"sub":"\\ud83d\\ude00 \\u00e9"}')).claims == {"sub": "\U0001f600 é"}


def test_brackets_in_strings_and_side_by_side_are_not_depth() -> None:
    deepest = "[" * 63 + "]" * 63
    said = f'{{"a":{deepest},"b":"{"[" * 100} \\" {"[" * 100}","c":[{"[]," * 100}1]}}'
    assert parse(raw(payload=said.encode())).claims == json.loads(said)


def test_a_hostile_text_takes_no_long_time_to_refuse() -> None:
    with pytest.raises(AuthInvalid):
        parse(raw(payload=b"[" * 65 + b'"' + b'\\"' * 2900))


@given(st.binary(max_size=40))
def test_only_one_text_stands_for_some_bytes(data: bytes) -> None:
    assert unbase64url(segment(data)) == data


@given(st.binary(max_size=12))
def test_a_text_that_is_decoded_comes_back_the_same(text: bytes) -> None:
    with suppress(ValueError):
        assert segment(unbase64url(text)) == text


@settings(deadline=None)  # the first key takes long to make
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.lists(st.floats(allow_nan=False))))
def test_any_json_object_is_read_or_refused(payload: dict[str, object]) -> None:
    with suppress(AuthInvalid):
        assert parse(compact({"alg": "RS256"}, payload)).claims == payload
