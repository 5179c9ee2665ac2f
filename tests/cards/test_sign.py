"""Served cards are signed: the official SDKs verify every shape of them, and refuse a changed one."""

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.a2a.card_rewriting import encode_card
from gateway.a2a.dialect import Binding
from gateway.cards.canonical import canonical, without_empty
from gateway.cards.serve import GrpcPlace, ServedCard, SignedCards
from gateway.cards.sign import OwnKey
from gateway.routing.route import AgentRules, Route
from gateway.routing.table import Table
from tests.cards.serving import DIALECTS, LEGACY, LEGACY_REST, MODERN, OWN, cards, extended
from tests.cards.test_serve_sdks import JAVASCRIPT, node_version, run
from tests.e2e.previous import interpreter
from tests.support.gateway import card_of

pytestmark = pytest.mark.anyio

VECTORS = Path(__file__).parents[1] / "vectors"
KEY_SET = "https://gw.test/agents/.well-known/jwks.json"
PRIVATE = generate_private_key(SECP256R1())
KEYS = OwnKey(PRIVATE, "cards-1")
PUBLIC: Any = jwt.PyJWK(KEYS.key.public)
PLAIN: dict[str, Any] = {}
# Members in which the canonical forms of readers differ: empty ones, numbers, text that is not ASCII.
ODD: dict[str, Any] = {
    "description": "",
    "skills": [],
    "capabilities": {
        "streaming": False,
        "stateTransitionHistory": True,
        "extendedAgentCard": True,
        "extensions": [
            {
                "uri": "https://ext.example/a",
                "required": False,
                "description": "",
                "params": {"n": 1, "f": 1.5e300, "big": 2**60, "none": None, "e": {}, "ö€𐀀": ["", 0, -0.0, True]},
            }
        ],
    },
    "provider": {"organization": "Société", "url": ""},
}


def verify(card: dict[str, Any], key: Any = PUBLIC) -> None:
    """As a client of the SDK for Python does with the JSON that it read."""
    asked = []

    def provide(kid: str | None, jku: str | None) -> Any:
        asked.append((kid, jku))
        return key

    create_signature_verifier(provide, ["ES256"])(parse_agent_card(json.loads(json.dumps(card))))
    assert set(asked) == {("cards-1", KEY_SET)}


def signed_cards() -> SignedCards:
    return SignedCards(KEYS, KEY_SET)


@pytest.mark.parametrize("members", [{}, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("schemes", [(), ("bearer", "api_key", "mtls")])
async def test_the_sdk_for_python_verifies_the_card_and_refuses_a_changed_one(
    schemes: tuple[str, ...], members: dict[str, Any]
) -> None:
    table = Table.build(
        [AgentRules(OWN.agent, (OWN,), {None: Route("echo", "echo", "http://x")}, OWN.place)], {}, grpc=True
    )
    place = GrpcPlace("gw.test:50051", table.grpc_address, table.written)
    raw = card_of("http://agent.internal:7000/deep", *DIALECTS, **members)
    async with cards(raw=raw, schemes=schemes, grpc=place, exposed=tuple(Binding), signs=signed_cards()) as made:
        found = [
            json.loads((await made.cards.signed(made.cards.card(OWN, None, "gw.test", modern=modern))).body)
            for modern in (False, True)
        ]
        found.append(json.loads(await extended(made, raw, dialect=MODERN)))
        for card in found:
            verify(card)
            card["name"] += "."
            with pytest.raises(InvalidSignaturesError):
                verify(card)
        # Each shape that knows signatures has them.
        old = await made.cards.signed(made.cards.card(OWN, None, "gw.test", old=True))
        others = [old.body, *[await extended(made, raw, dialect=dialect) for dialect in (LEGACY, LEGACY_REST)]]
        assert all(len(json.loads(each)["signatures"]) == 1 for each in others)


PREVIOUS = """
import json, sys
from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK
asked = json.load(sys.stdin)
verify = create_signature_verifier(lambda kid, jku: PyJWK(asked["key"]), ["ES256"])
def verdict(card):
    try:
        verify(AgentCard.model_validate(card))
    except Exception as error:
        return type(error).__name__
    return "verified"
changed = [{**card, "name": card["name"] + "."} for card in asked["cards"]]
json.dump([[verdict(card) for card in each] for each in (asked["cards"], changed)], sys.stdout)
"""


async def test_the_sdk_of_0_3_verifies_the_shapes_of_0_3() -> None:
    raw = card_of("http://agent.internal:7000/deep", *DIALECTS)
    async with cards(raw=raw, schemes=("bearer", "api_key"), signs=signed_cards()) as made:
        bodies = [
            (await made.cards.signed(made.cards.card(OWN, None, "gw.test", old=old))).body for old in (True, False)
        ]
        bodies += [await extended(made, raw, dialect=dialect) for dialect in (LEGACY, LEGACY_REST)]
    read = run(
        [interpreter(), "-c", PREVIOUS], {"key": KEYS.key.public, "cards": [json.loads(each) for each in bodies]}
    )
    assert read == [["verified"] * 4, ["InvalidSignaturesError"] * 4]


SCRIPT = """
import { readFileSync } from "node:fs";
console.debug = () => {};
const sdk = await import("a2a-1.3");
const asked = JSON.parse(readFileSync(0));
const verify = sdk.verifyAgentCardSignature(async () => asked.key);
const verdict = (card) => verify(card).then(() => "verified", (error) => "refused");
// Raw JSON: the SDK parses it by itself, and a parsed card loses its schemes when it is parsed again.
const changed = asked.cards.map((card) => ({ ...card, name: card.name + "." }));
const found = [];
for (const cards of [asked.cards, changed]) found.push(await Promise.all(cards.map(verdict)));
console.log(JSON.stringify(found));
"""


@pytest.mark.skipif(node_version() < 20, reason="there is no node of 20 or newer")
@pytest.mark.skipif(not (JAVASCRIPT / "node_modules").exists(), reason="tests/check installs the SDKs of JavaScript")
async def test_the_sdk_of_javascript_verifies_the_card_and_refuses_a_changed_one() -> None:
    found = []
    for members in (PLAIN, ODD):
        raw = card_of("http://agent.internal:7000/deep", *DIALECTS, **members)
        async with cards(raw=raw, schemes=("bearer", "api_key"), signs=signed_cards()) as made:
            for modern in (False, True):
                card = await made.cards.signed(made.cards.card(OWN, None, "gw.test", modern=modern))
                found.append(json.loads(card.body))
    read = run(
        ["node", "--input-type=module", "--eval", SCRIPT], {"key": KEYS.key.public, "cards": found}, cwd=JAVASCRIPT
    )
    assert read == [["verified"] * 4, ["refused"] * 4]


def test_the_canonical_form_is_that_of_the_vector() -> None:
    vector = json.loads((VECTORS / "signing.json").read_text())
    unsigned = {name: value for name, value in vector["signed_card"].items() if name != "signatures"}
    assert canonical(without_empty(unsigned)).decode() == vector["canonical_payload"]


async def test_a_card_is_signed_once_and_its_tag_is_that_of_its_content_and_key() -> None:
    other = OwnKey(generate_private_key(SECP256R1()), "cards-2")
    async with cards(signs=signed_cards()) as made:
        plain = made.cards.card(OWN, None, "gw.test")
        first = await made.cards.signed(plain)
        assert await made.cards.signed(plain) is first
        # Another worker makes another signature, which is as good.
        again = await signed_cards().signed(plain)
        assert (again.etag, again.body == first.body) == (first.etag, False)
        assert (await SignedCards(other, KEY_SET).signed(plain)).etag != first.etag
        changed = ServedCard(plain.body, 'W/"another"')
        assert (await made.cards.signed(changed)).etag != first.etag != plain.etag


_texts = some.text(some.characters(exclude_categories=["Cs"]), max_size=4)
_values = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**64 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(params=some.dictionaries(_texts, _values, max_size=4), text=_texts)
async def test_any_parameters_of_extensions_verify(params: dict[str, Any], text: str) -> None:
    capabilities = {"extensions": [{"uri": "https://ext.example/a", "description": text, "params": params}]}
    card = {
        "name": "Agent",
        "description": text,
        "supportedInterfaces": [],
        "capabilities": capabilities,
        "skills": [{"id": "s", "name": text, "description": "", "tags": []}],
    }
    signed = await signed_cards().signed(ServedCard(encode_card(card), ""))
    verify(json.loads(signed.body))
