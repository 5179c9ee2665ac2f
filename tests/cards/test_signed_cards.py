"""Signed cards, from the configuration to the client: keys, their set, rotation, entity tags, reload."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import NoSignatureError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.cards.fetch import CardSource
from gateway.cards.sign import OwnKey, sign
from gateway.config.check import examine
from gateway.reload import Trigger
from gateway.tasks.key_ring import ANNOUNCED, CARDS, OVERLAP, REFRESH, SigningKey, rotate
from tests.support.gateway import JSON, LISTENS, Answer, Running, agent, card_of, keys, running, secret
from tests.support.scripted import ScriptedBackend, Wire, whole

pytestmark = pytest.mark.anyio

KEY_SET = "/.well-known/jwks.json"
CARD = "/.well-known/agent-card.json"
PEM = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
AGENT_CARD = card_of("http://agent.test/", "JSONRPC 1.0", "JSONRPC 0.3")


async def plays(wire: Wire) -> None:
    call = json.loads((await wire.request()).body)
    await wire.send(whole(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call["id"]).encode(), AGENT_CARD)))


@asynccontextmanager
async def signing() -> AsyncIterator[Running]:
    """A gateway that signs the cards of one agent by keys that it makes."""
    async with ScriptedBackend(agent(plays, AGENT_CARD)) as backend:
        text = f"defaults: {{ card: {{ sign: true }} }}\nagents: {{ echo: {backend.url} }}"
        async with running(text) as gateway:
            yield gateway


async def key_set(gateway: Running) -> dict[str, dict[str, Any]]:
    """The gateway's key set, by `kid`."""
    answer = await gateway.get(KEY_SET)
    assert (answer.status, answer.header("content-type")) == (200, "application/json")
    return {key["kid"]: key for key in answer.json["keys"]}


def verify(answer: Answer, known: dict[str, dict[str, Any]], card: Any = None) -> str:
    """Return the `kid` of the key that a client of the SDK verifies a card with."""
    found: list[str] = []

    def provide(kid: str | None, jku: str | None) -> Any:
        assert jku is not None
        assert jku.endswith(KEY_SET)
        found.append(str(kid))
        return jwt.PyJWK(known[str(kid)])

    create_signature_verifier(provide, ["ES256"])(parse_agent_card(answer.json if card is None else card))
    return found[-1]


async def test_cards_are_signed_by_a_key_that_the_gateway_publishes() -> None:
    async with ScriptedBackend(agent(plays, AGENT_CARD)) as backend:
        text = f"""
        defaults: {{ card: {{ sign: true }} }}
        agents:
          made: {backend.url}
          own: {{ backend: "{backend.url}", card: {{ sign: {{ key: "${{PEM}}", kid: cards-2026 }} }} }}
          plain: {{ backend: "{backend.url}", card: {{ sign: false }} }}
        """
        async with running(text, environ={"PEM": PEM}) as gateway:
            published = await key_set(gateway)
            assert set(published) > {"cards-2026"}
            assert len(published) == 2
            for key in published.values():
                assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
                assert (key["alg"], key["use"]) == ("ES256", "sig")
            [made] = set(published) - {"cards-2026"}
            for name, kid in (("made", made), ("own", "cards-2026")):
                first, again = await gateway.get(f"/{name}{CARD}"), await gateway.get(f"/{name}{CARD}")
                assert verify(first, published) == kid
                assert again.body == first.body
                tag = first.header("etag") or ""
                known = await gateway.get(f"/{name}{CARD}", [(b"if-none-match", tag.encode())])
                assert (known.status, known.header("etag")) == (304, tag)
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}).encode()
                extended = await gateway.ask("POST", f"/{name}", body, [JSON, (b"a2a-version", b"1.0")])
                assert verify(extended, published, extended.json["result"]) == kid
            plain = await gateway.get(f"/plain{CARD}")
            assert "signatures" not in plain.json
            with pytest.raises(NoSignatureError):
                verify(plain, published)
            shown = await gateway.get("/-/config", admin=True)
            assert b"PRIVATE" not in shown.body
            assert shown.json["running"]["agents"]["own"]["card"]["sign"]["kid"] == "cards-2026"


async def test_the_card_that_says_how_to_sign_in_is_signed_too() -> None:
    async with ScriptedBackend(agent(plays, AGENT_CARD)) as backend:
        text = f"""
        defaults: {{ card: {{ sign: true }} }}
        tenants: {{ acme: [one], globex: [two] }}
        agents:
          one: {{ backend: "{backend.url}", match: {{ path: /a2a, key: acme }} }}
          two: {{ backend: "{backend.url}", match: {{ path: /a2a, key: globex }} }}
        """
        async with running(keys(acme="acme", globex="globex") + dedent(text)) as gateway:
            stranger = await gateway.get(f"/a2a{CARD}")
            assert stranger.json["description"].startswith("Ask again")
            verify(stranger, await key_set(gateway))
            assert (await gateway.get(f"/a2a{CARD}")).body == stranger.body
            verify(await gateway.get(f"/a2a{CARD}", [(b"x-api-key", secret("acme"))]), await key_set(gateway))


async def test_a_rotation_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = [0.0]
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + ahead[0])
    async with signing() as gateway:
        old = await gateway.get(f"/echo{CARD}")
        [first] = await key_set(gateway)
        ledger = gateway.gateway.ledger
        assert ledger is not None
        rotated = await rotate(ledger.store, CARDS, time.time(), drops=False)
        ahead[0] += REFRESH
        # Published before it signs.
        assert list(await key_set(gateway)) == [first, rotated.kid]
        assert verify(await gateway.get(f"/echo{CARD}"), await key_set(gateway)) == first
        ahead[0] += ANNOUNCED
        new = await gateway.get(f"/echo{CARD}")
        assert verify(new, await key_set(gateway)) == rotated.kid
        assert new.header("etag") != old.header("etag")
        # A card that a client has kept verifies until the overlap ends.
        assert verify(old, await key_set(gateway)) == first
        ahead[0] += OVERLAP
        assert list(await key_set(gateway)) == [rotated.kid]


async def test_a_reload_begins_and_ends_signing(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    async with ScriptedBackend(agent(plays, AGENT_CARD)) as backend:
        plain = f"{LISTENS}\nagents: {{ echo: {backend.url} }}"
        signing = f"{plain}\ndefaults: {{ card: {{ sign: {{ key: '${{PEM}}', kid: KID }} }} }}"
        async with running(plain, environ={"PEM": PEM}, path=file, written=True) as gateway:
            assert (await gateway.get(KEY_SET)).status == 404
            reloader = gateway.gateway.reloader
            assert reloader is not None
            for kid in ("one", "two"):
                file.write_text("version: 1\n" + signing.replace("KID", kid))
                assert (await reloader.reload(Trigger.ADMIN)).result == "applied"
                assert list(await key_set(gateway)) == [kid]
                assert verify(await gateway.get(f"/echo{CARD}"), await key_set(gateway)) == kid
            file.write_text("version: 1\n" + plain)
            await reloader.reload(Trigger.ADMIN)
            assert "signatures" not in (await gateway.get(f"/echo{CARD}")).json
            assert (await gateway.get(KEY_SET)).status == 404


@pytest.mark.parametrize(
    ("sign", "place", "fact"),
    [
        ("{ kid: a }", "5:53", "it is of no use without `key`"),
        ('{ key: "${PEM}" }', "5:53", "it is of no use without `kid`"),
        ('{ key: "-----BEGIN hunter2", kid: a }', "5:58", "the key cannot be used: it is no private key in PEM"),
        ('{ key: "${RSA}", kid: a }', "5:58", "the key cannot be used: it is no private key in PEM"),
        ('{ key: "${OTHER}", kid: own }', "5:75", "'own' is the name of another key, line 4"),
        ("maybe", "5:51", "the value is neither true nor false"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_at_its_place(sign: str, place: str, fact: str) -> None:
    curve = generate_private_key(SECP256R1())
    other = curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    text = (
        "version: 1\n"
        "gateway: { listen: '127.0.0.1:0' }\n"
        "agents:\n"
        '  one: { backend: "https://a.test", card: { sign: { key: "${PEM}", kid: own } } }\n'
        f'  two: {{ backend: "https://b.test", card: {{ sign: {sign} }} }}\n'
    )
    environ = {"PEM": PEM, "OTHER": other, "RSA": "-----BEGIN RSA PRIVATE KEY-----"}
    problem, *rest = examine(Path("gateway.yaml"), environ, text=text).errors
    assert rest == []
    assert (f"{problem.place.line}:{problem.place.column}", fact) == (place, problem.fact), problem.as_text()
    assert "hunter2" not in problem.as_text()


# ---- Agents' signatures --------------------------------------------------------------------------------------------

OWN = OwnKey(generate_private_key(SECP256R1()), "agent-1").key
BAD = {**json.loads(AGENT_CARD), "signatures": [{"protected": "e30", "signature": "AA"}]}


def signed_by_agent(key: SigningKey = OWN, name: str = "Scripted") -> bytes:
    return sign(json.dumps({**json.loads(AGENT_CARD), "name": name}).encode(), key, "https://agent.test/jwks.json")


class Agent:
    """An agent whose card changes."""

    def __init__(self) -> None:
        self.card = signed_by_agent()
        self.extended = self.card

    async def plays(self, wire: Wire) -> None:
        received = await wire.request()
        if b"/.well-known/" in received.target:
            await wire.send(whole(self.card))
            return
        call = json.loads(received.body)
        identity = json.dumps(call["id"]).encode()
        await wire.send(whole(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (identity, self.extended)))


@asynccontextmanager
async def verifying(
    folder: Path, there: Agent, *, require: bool = True, more: str = ""
) -> AsyncIterator[tuple[Running, CardSource]]:
    (folder / "keys.json").write_text(json.dumps({"keys": [OWN.public]}))
    async with ScriptedBackend(there.plays) as backend:
        card = f"{{ verify: {{ keys: keys.json, require: {str(require).lower()} }} }}"
        text = f"{LISTENS}\nagents: {{ echo: {{ backend: {backend.url}, card: {card} }} }}\n{more}"
        async with running(text, path=folder / "gateway.yaml", written=True) as gateway:
            yield gateway, gateway.gateway.snapshot.backends["echo"].source


async def signature(gateway: Running) -> dict[str, Any]:
    """Return the entry of `/-/agents` about the signature of the agent's card."""
    [shown] = (await gateway.get("/-/agents", admin=True)).json["agents"]
    found: dict[str, Any] = shown["card"]["signature"]
    return found


async def test_a_verified_card_is_served_by_the_gateways_own_signature(tmp_path: Path) -> None:
    there = Agent()
    async with verifying(tmp_path, there, more="defaults: { card: { sign: true } }") as (gateway, source):
        answer = await gateway.get(f"/echo{CARD}")
        [ours] = await key_set(gateway)
        assert verify(answer, await key_set(gateway)) == ours
        headers = [jwt.get_unverified_header(f"{each['protected']}..") for each in answer.json["signatures"]]
        assert {header["kid"] for header in headers} == {ours}
        assert await signature(gateway) == {"state": "verified", "kid": "agent-1"}
        # The last good card stays in the place of a bad one, which is seen everywhere.
        there.card = json.dumps({**BAD, "name": "Evil"}).encode()
        await source.refresh()
        assert (await gateway.get(f"/echo{CARD}")).body == answer.body
        assert await signature(gateway) == {"state": "card_untrusted", "kid": "agent-1"}
        assert gateway.metric("card_untrusted", agent="echo") == 1
        assert gateway.metric("card_fetches_total", agent="echo", result="untrusted") == 1


async def test_without_a_good_card_none_is_served_in_any_dialect(tmp_path: Path) -> None:
    there = Agent()
    there.card = AGENT_CARD
    async with verifying(tmp_path, there) as (gateway, source):
        for name in (CARD, "/.well-known/agent.json"):
            answer = await gateway.get(f"/echo{name}")
            assert (answer.status, answer.reasons[-1]) == (502, "CARD_UNTRUSTED")
            assert b"not signed" not in answer.body
        assert gateway.metric("rejected_total", reason="card_untrusted") == 2
        assert await signature(gateway) == {"state": "card_untrusted", "kid": None}
        there.card = signed_by_agent()
        await source.refresh()
        assert (await gateway.get(f"/echo{CARD}")).json["name"] == "Scripted"
        assert gateway.metric("card_untrusted", agent="echo") == 0


async def test_an_extended_card_is_verified_too(tmp_path: Path) -> None:
    there = Agent()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}).encode()
    async with verifying(tmp_path, there) as (gateway, _):
        there.extended = signed_by_agent(name="Extended")
        good = await gateway.ask("POST", "/echo", body, [JSON, (b"a2a-version", b"1.0")])
        assert (good.json["result"]["name"], "signatures" in good.json["result"]) == ("Extended", False)
        for bad in (AGENT_CARD, json.dumps(BAD).encode()):
            there.extended = bad
            answer = await gateway.ask("POST", "/echo", body, [JSON, (b"a2a-version", b"1.0")])
            assert answer.reasons[-1] == "CARD_UNTRUSTED"


async def test_other_keys_and_requirements_are_put_to_use_by_a_reload(tmp_path: Path) -> None:
    there = Agent()
    there.card = AGENT_CARD
    async with verifying(tmp_path, there, require=False) as (gateway, _):
        assert (await gateway.get(f"/echo{CARD}")).status == 200
        assert await signature(gateway) == {"state": "unsigned", "kid": None}
        reloader, file = gateway.gateway.reloader, tmp_path / "gateway.yaml"
        assert reloader is not None
        file.write_text(file.read_text().replace("require: false", "require: true"))
        assert (await reloader.reload(Trigger.ADMIN)).result == "applied"
        assert (await gateway.get(f"/echo{CARD}")).status == 502
        other = OwnKey(generate_private_key(SECP256R1()), "agent-2").key
        (tmp_path / "keys.json").write_text(json.dumps({"keys": [other.public]}))
        there.card = signed_by_agent(other)
        assert (await reloader.reload(Trigger.ADMIN)).result == "applied"
        assert (await gateway.get(f"/echo{CARD}")).status == 200
        assert await signature(gateway) == {"state": "verified", "kid": "agent-2"}


@pytest.mark.parametrize(
    ("card", "fact"),
    [
        ("verify: { keys: missing.json }", "'missing.json' is no file"),
        ("verify: { keys: none.json }", "'none.json' has no public key with a `kid`"),
        ("verify: { keys: private.json }", "'private.json' holds a private or symmetric key"),
        ("verify: { keys: gateway.yaml }", "'gateway.yaml' cannot be used: it is no key set"),
        (
            'verify: { keys: "http://keys.test/" }',
            "over plain http anyone on the way could give out keys and sign cards",
        ),
        (
            "verify: { keys: keys.json }, file: card.json",
            "the card is a file of yours: nobody else could have changed it",
        ),
    ],
)
def test_keys_that_cannot_verify_are_refused(tmp_path: Path, card: str, fact: str) -> None:
    file = tmp_path / "gateway.yaml"
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [OWN.public]}))
    (tmp_path / "none.json").write_text('{"keys": []}')
    (tmp_path / "private.json").write_text(json.dumps({"keys": [{**OWN.public, "d": "AAAA"}]}))
    (tmp_path / "card.json").write_bytes(AGENT_CARD)
    text = "version: 1\ngateway: { listen: '127.0.0.1:0' }\nagents:\n"
    file.write_text(text + f'  echo: {{ backend: "https://a.test", card: {{ {card} }} }}\n')
    problem, *rest = examine(file, {}).errors
    assert (rest, problem.fact, problem.place.line) == ([], fact, 4)
