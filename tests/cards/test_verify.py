"""An agent's card is used only if a configured key has signed it: hostile cards, keys that change or are down."""

import base64
import json
from typing import Any

import httpx
import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # it ships no types
from jwt.api_jws import PyJWS

from gateway.a2a.card import MAX_CARD
from gateway.a2a.fault import CardUntrusted
from gateway.cards.canonical import canonical, served_forms, without_empty
from gateway.cards.fetch import CardPlace, CardReport, CardSource
from gateway.cards.sign import OwnKey, sign
from gateway.cards.verify import ALGORITHMS, CardVerifier, FileKeys
from gateway.identity.jwks import KeySet
from tests.cards.double import agent, always, choose, reply
from tests.identity.issuance import BOUNDS
from tests.support.gateway import card_of

pytestmark = pytest.mark.anyio

PRIVATE, OTHER = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
KEY = OwnKey(PRIVATE, "agent-1").key
KEY_SET = json.dumps({"keys": [KEY.public]}).encode()
CARD: dict[str, Any] = json.loads(card_of("http://agent.test/rpc", "JSONRPC 1.0"))
CAPABILITIES = CARD["capabilities"]


def verifier(*, require: bool = True, document: bytes = KEY_SET) -> CardVerifier:
    return CardVerifier(FileKeys(document), require=require)


async def verified(card: dict[str, Any] | bytes, *, require: bool = True) -> dict[str, Any]:
    raw = card if isinstance(card, bytes) else json.dumps(card).encode()
    found: dict[str, Any] = json.loads((await verifier(require=require).verified(raw, MAX_CARD)).card)
    return found


def jws(payload: bytes, key: Any = PRIVATE, **header: Any) -> dict[str, Any]:
    """A signature; the header's members are its own, and None leaves one out."""
    said = {"alg": "ES256", "typ": "JOSE", "kid": "agent-1", **header}
    said = {name: value for name, value in said.items() if value is not None}
    return raw_jws(payload, json.dumps(said).encode(), key)


def raw_jws(payload: bytes, header: bytes, key: Any = PRIVATE) -> dict[str, Any]:
    """A signature of ES256, whatever its header says."""
    first, body = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, payload))
    signed = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(f"{first}.{body}".encode(), key)
    return {"protected": first, "signature": base64.urlsafe_b64encode(signed).rstrip(b"=").decode()}


def signed(card: dict[str, Any] = CARD, **header: Any) -> dict[str, Any]:
    return {**card, "signatures": [jws(canonical(without_empty(card)), **header)]}


def carrying(*signatures: Any) -> dict[str, Any]:
    return {**CARD, "signatures": list(signatures)}


def hmac_with_public_key(payload: bytes) -> dict[str, Any]:
    pem = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256", "typ": "JOSE", "kid": "agent-1"}
    # PyJWT refuses such a secret, so the signature is made by hand.
    first, body = (
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (json.dumps(header).encode(), payload)
    )
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    made = algorithm.sign(f"{first}.{body}".encode(), pem)
    return {"protected": first, "signature": base64.urlsafe_b64encode(made).rstrip(b"=").decode()}


# ---- Good cards ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dual", [False, True])
async def test_a_card_signed_by_the_sdk_is_valid_and_unsigned_members_are_dropped(*, dual: bool) -> None:
    odd = {
        **CARD,
        "description": "",
        "capabilities": {
            **CAPABILITIES,
            "extensions": [{"uri": "https://e.test", "params": {"n": 1, "f": 0.5, "e": []}}],
        },
    }
    message: AgentCard = parse_agent_card(json.loads(json.dumps(odd)))
    header: Any = {"alg": "ES256", "kid": "agent-1", "typ": "JOSE", "jku": None}
    create_agent_card_signer(PRIVATE, header)(message)  # type: ignore[arg-type]  # PyJWT takes it
    served = MessageToDict(message)
    if dual:
        # Members of 0.3 beside those that are signed, as the SDK serves them, or as somebody on the way adds them.
        served |= {"url": "http://evil.test/", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
    found = await verified(served)
    assert "url" not in found
    assert "signatures" not in found
    assert found["supportedInterfaces"] == CARD["supportedInterfaces"]
    served["name"] = "Another"
    with pytest.raises(CardUntrusted):
        await verified(served)


async def test_every_form_is_verified() -> None:
    legacy = {
        "name": "Öld",
        "url": "http://agent.test/rpc",
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "capabilities": {},
        "skills": [],
        "description": "",
    }
    reduced = {"name": "Öld", "url": "http://agent.test/rpc"}
    empty = {**CARD, "description": "", "skills": []}
    for card, payload in (
        # The document as it is, with members that no version has.
        ({**CARD, "x": {}}, canonical({**CARD, "x": {}})),
        # The empty members that 1.0 requires.
        ({**empty, "iconUrl": ""}, canonical({**empty, "iconUrl": ""})),
        (without_empty(empty), canonical(empty)),
        # 0.3 without defaults, by RFC 8785 and as its SDK writes it.
        (legacy, canonical(reduced)),
        (legacy, json.dumps(reduced, separators=(",", ":"), sort_keys=True).encode()),
    ):
        assert (await verified({**card, "signatures": [jws(payload)]}))["name"] == card["name"]


async def test_the_gateway_verifies_its_own_signatures() -> None:
    body = json.dumps({**CARD, "url": "http://agent.test/rpc"}).encode()
    card = json.loads(sign(body, KEY, "https://gw.test/.well-known/jwks.json"))
    assert (await verified(card))["name"] == "Scripted"
    for form in served_forms(json.loads(body)):
        assert (await verified({**CARD, "url": "http://agent.test/rpc", "signatures": [jws(form)]}))[
            "name"
        ] == "Scripted"


async def test_one_good_signature_is_enough() -> None:
    strange = jws(b"{}", OTHER, kid="another")
    card = signed()
    card["signatures"] = [strange, {"protected": "?"}, *card["signatures"]]
    assert (await verified(card))["name"] == "Scripted"


async def test_a_card_without_signatures_is_used_only_where_none_is_required() -> None:
    for unsigned in (CARD, {**CARD, "signatures": []}):
        assert await verified(unsigned, require=False) == unsigned
        with pytest.raises(CardUntrusted):
            await verified(unsigned)


# ---- Hostile cards -------------------------------------------------------------------------------------------------

_PAYLOAD = canonical(CARD)
_GOOD = jws(_PAYLOAD)
HOSTILE: dict[str, dict[str, Any] | bytes] = {
    "another's key": carrying(jws(_PAYLOAD, OTHER)),
    "a changed card": {**signed(), "name": "Another"},
    "an added member": {**signed(), "documentationUrl": "https://evil.test/"},
    "alg none": carrying({**jws(_PAYLOAD, alg="none"), "signature": ""}),
    "alg none with a signature": signed(alg="none"),
    "alg nOnE": signed(alg="nOnE"),
    "HS256 with the public key": carrying(hmac_with_public_key(_PAYLOAD)),
    "an algorithm of another key type": signed(alg="RS256"),
    "no algorithm": signed(alg=None),
    "no kid": signed(kid=None),
    "an unknown kid": signed(kid="agent-2"),
    "kid as a list": signed(kid=["agent-1"]),
    "the key in the header": carrying(jws(_PAYLOAD, OTHER, kid="own", jwk=OwnKey(OTHER, "own").key.public)),
    "the key at jku": carrying(jws(_PAYLOAD, OTHER, kid="own", jku="https://evil.test/jwks.json")),
    "crit": signed(crit=["exp"], exp=1),
    "b64": signed(crit=["b64"], b64=False),
    "a header with a member twice": carrying(raw_jws(_PAYLOAD, b'{"alg":"none","alg":"ES256","kid":"agent-1"}')),
    "alg beside the protected header": carrying({**_GOOD, "header": {"alg": "ES256"}}),
    "kid beside the protected header": carrying({**jws(_PAYLOAD, kid=None), "header": {"kid": "agent-1"}}),
    "a zero signature": carrying({**_GOOD, "signature": "A" * 86}),
    "padded base64": carrying({**_GOOD, "signature": _GOOD["signature"] + "=="}),
    "signatures that are no list": {**CARD, "signatures": {"0": _GOOD}},
    "signatures that are a text": {**CARD, "signatures": "none"},
    "too many signatures": carrying(*[_GOOD] * 17),
    "a member twice": json.dumps(signed())
    .encode()
    .replace(b'"name": "Scripted"', b'"name": "Evil", "name": "Scripted"'),
    "half a surrogate pair": json.dumps({**signed(), "x": "\ud800"}).encode(),
    "no JSON": b"<html>",
}


def _numbered(digits: str) -> bytes:
    """A card with a number that readers read in several ways, signed as one of them does."""
    value = float("0" if digits == "NaN" else digits)
    value = 0.0 if value == float("inf") else value
    card = {**CARD, "capabilities": {"extensions": [{"uri": "https://e.test", "params": {"n": "#"}}]}}
    read = json.loads(json.dumps(card).replace('"#"', repr(value)))
    text = json.dumps({**card, "signatures": [jws(canonical(read))]})
    return text.replace('"#"', digits).encode()


for _digits in ("1e400", "NaN", "9007199254740993", "0.1000000000000000055511151231257827"):
    HOSTILE[f"the number {_digits}"] = _numbered(_digits)


@pytest.mark.parametrize("require", [True, False])
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_card_is_refused_whether_signatures_are_required_or_not(kind: str, *, require: bool) -> None:
    with pytest.raises(CardUntrusted):
        await verified(HOSTILE[kind], require=require)


def test_no_algorithm_lets_a_verifier_sign() -> None:
    assert not any(name.startswith(("HS", "none")) for name in ALGORITHMS)
    assert set(PyJWS().get_algorithms()) >= ALGORITHMS


@pytest.mark.parametrize("document", [b"{}", b"no JSON", b'{"keys": [{"kty": "oct", "k": "aGk", "kid": "agent-1"}]}'])
async def test_without_keys_no_signature_is_good(document: bytes) -> None:
    for require in (True, False):
        with pytest.raises(CardUntrusted):
            await verifier(require=require, document=document).verified(json.dumps(signed()).encode(), MAX_CARD)


# ---- Fetched cards and keys ----------------------------------------------------------------------------------------


async def test_the_last_good_card_stays_where_the_next_one_is_bad(client: httpx.AsyncClient) -> None:
    async with agent(always(reply(signed()))) as there:
        source = CardSource(CardPlace(there.url), client, verifier=verifier())
        assert await source.refresh() is CardReport.READ
        assert (source.signed_by, (source.card or {})["name"]) == ("agent-1", "Scripted")
        for bad in (CARD, {**signed(), "name": "Evil"}):
            there.answer = always(reply(bad))
            assert await source.refresh() is CardReport.UNTRUSTED
            assert str(source.error).startswith("card_untrusted: ")
            assert (source.card or {})["name"] == "Scripted"
        assert (source.version, source.signed_by) == (1, "agent-1")
        # One that was never good has none.
        fresh = CardSource(CardPlace(there.url), client, verifier=verifier())
        assert await fresh.refresh() is CardReport.UNTRUSTED
        assert (fresh.card, fresh.settled.is_set()) == (None, True)


async def test_keys_at_a_url_are_kept_while_it_is_down_and_without_any_no_card_is_good(
    client: httpx.AsyncClient,
) -> None:
    up = True
    keys = [KEY.public]
    jku: list[str] = []

    def answered(asked: Any) -> bytes:
        jku.append(asked.path)
        return reply({"keys": keys}) if up else reply(b"down", status=503)

    async with (
        agent(choose(answered)) as issuer,
        agent(always(reply(signed(jku="http://evil.test/"), 'ETag: "1"'))) as there,
    ):

        def key_set() -> KeySet:
            return KeySet(
                "keys", issuer_url="", jwks_url=f"{issuer.url}/keys", algorithms=ALGORITHMS, http=client, bounds=BOUNDS
            )

        known = key_set()
        source = CardSource(CardPlace(there.url), client, verifier=CardVerifier(known, require=False))
        assert await known.refresh()
        assert await source.refresh() is CardReport.READ
        up = False
        assert not await known.refresh()
        assert await source.refresh() is CardReport.READ
        unknown = key_set()
        await unknown.refresh()
        other = CardSource(CardPlace(there.url), client, verifier=CardVerifier(unknown, require=False))
        assert await other.refresh() is CardReport.UNTRUSTED
        assert "503" in str(other.error)
        # A key that was taken back makes its card a bad one, though the agent has no other.
        up, keys = True, [OwnKey(OTHER, "agent-2").key.public]
        assert await known.refresh()
        assert await source.refresh() is CardReport.UNTRUSTED
        assert "if-none-match" not in {name.lower() for name in there.asked[-1].headers}
        assert set(jku) == {"/keys"}
