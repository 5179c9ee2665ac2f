"""Issuers that are down, slow, hostile or attacked, on real sockets: who was good stays good (K5-K7, R15, R16, R21)."""

import asyncio
import logging
import time
from collections import Counter

import pytest

from tests.identity.corpus.genuine import EVIL, good, published, said
from tests.identity.corpus.key_set import poisoned
from tests.identity.front import Front, Header, front, shown
from tests.identity.issuance import compact, ec_key, jwk, rsa_key, segment
from tests.identity.provider import KEYS, provider
from tests.support.gateway import Client, request
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio

OFTEN = {"keys_every": "20ms", "keys_on_demand": "1h"}


async def statuses(place: Front, *tokens: bytes) -> list[int]:
    return [(await place.call(shown(token))).status for token in tokens]


# ---- Outages -------------------------------------------------------------------------------------------------------


async def test_an_issuer_that_redirects_is_not_followed_anywhere() -> None:
    async with provider() as elsewhere:
        elsewhere.publish(jwk(rsa_key(EVIL), "k1"))
        async with front(OFTEN) as place:
            place.served.heads[KEYS] = b"HTTP/1.1 302 Found\r\nLocation: %b%b\r\n" % (
                elsewhere.url.encode(),
                KEYS.encode(),
            )
            await place.read(3)
            assert elsewhere.asked == {}
            assert await statuses(place, good(time.time()), forged("k1")) == [200, 401]


# ---- Poison --------------------------------------------------------------------------------------------------------


def forged(kid: str) -> bytes:
    return compact({"alg": "RS256", "kid": kid}, said(time.time(), sub="eve"), rsa_key(EVIL))


async def test_no_poisoned_key_set_changes_anything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    async with front({**OFTEN, "failures": "100000/s"}) as place:
        version = place.gateway.gateway.snapshot.key_sets["corp"].version
        before = good(time.time())
        for number, (name, document) in enumerate(poisoned().items()):
            place.served.documents[KEYS] = document
            # The second answer is asked for once the first was judged.
            await place.read(2)
            es256 = compact({"alg": "ES256", "kid": "evil"}, said(time.time()), ec_key(EVIL))
            tokens = (before, good(time.time(), jti=str(number)), forged("k1"), forged("evil"), es256)
            assert await statuses(place, *tokens) == [200, 200, 401, 401, 401], name
            assert place.ready
        assert place.gateway.gateway.snapshot.key_sets["corp"].version == version
        assert place.gateway.metric("rejected_total", reason="internal") == 0
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []
    assert "PRIVATE" not in caplog.text


async def test_a_withdrawn_key_ends_cached_tokens() -> None:
    async with front({**OFTEN, "remember": "1h"}) as place:
        old = good(time.time())
        new = compact({"alg": "RS256", "kid": "k2"}, said(time.time()), rsa_key(2))
        assert await statuses(place, old) == [200]
        place.served.publish(jwk(rsa_key(2), "k2"))
        await place.read(2)
        assert await statuses(place, old, new) == [401, 200]


async def test_a_new_key_is_good_at_once() -> None:
    async with front() as place:
        assert (await place.good()).status == 200
        place.served.publish(*published(), jwk(rsa_key(2), "k2"))
        new = compact({"alg": "RS256", "kid": "k2"}, said(time.time()), rsa_key(2))
        assert await statuses(place, new) == [200]
        assert place.served.asked == {KEYS: 2}


# ---- Storms --------------------------------------------------------------------------------------------------------

STORM = 1000
CONNECTIONS = 8
PROXIED = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", trusted_proxies: [127.0.0.0/8] }'


def origin(address: bytes) -> Header:
    """Return the header of the proxy in front that tells the origin of a request."""
    return b"X-Forwarded-For", address


async def storm(place: Front, *headers: Header) -> Counter[int]:
    """Tokens of names that nobody knows, as fast as they are refused; how often each status came."""
    body = good(time.time()).partition(b".")[2]
    tokens = (segment(b'{"alg":"RS256","kid":"new-%d"}' % number) + b"." + body for number in range(STORM))
    seen = Counter[int]()

    async def attack() -> None:
        client: Client | None = None
        for token in tokens:
            client = await place.gateway.client() if client is None else client
            await client.send(request("GET", "/echo/tasks/t", None, [shown(token), *headers]))
            answer = await client.answer()
            seen[answer.status] += 1
            if answer.header("connection") == "close":
                client = None

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(attack())
    return seen


async def test_a_storm_of_unknown_keys_does_not_affect_valid_callers() -> None:
    async with front({"failures": "600/h"}, more=PROXIED) as place:
        began = time.monotonic()
        known, same, another = shown(good(time.time())), origin(b"192.0.2.1"), origin(b"192.0.2.2")
        assert (await place.call(known, same)).status == 200
        async with asyncio.TaskGroup() as group:
            weather = group.create_task(storm(place, same))
            number = 0
            while not weather.done():
                number += 1
                # Known callers are served at the attacker's own address, and all callers at any other.
                assert (await place.call(known, same)).status == 200
                assert (await place.call(shown(good(time.time(), jti=str(number))), another)).status == 200
        seen = weather.result()
        took = time.monotonic() - began
        # 600 at once and ten in a minute are looked at, the rest is refused unseen.
        assert set(seen) == {401, 429}
        assert 600 <= seen[401] <= 601 + took / 6
        assert place.served.asked[KEYS] <= 2 + took / 10
        assert len(place.backend.requests) == 1 + 2 * number
        assert place.gateway.metric("auth_total", result="limited") == seen[429]
        for guess in (b"one", b"another", b"a third"):
            # Use up what the last seconds gave back.
            await place.call((b"X-API-Key", guess), same)
        refused = await place.call(shown(good(time.time(), jti="late")), same)
        assert (refused.status, refused.reasons, refused.json["error"]["code"]) == (429, ["RATE_LIMITED"], -31429)
        assert int(refused.header("retry-after") or 0) >= 1
        rest = await place.gateway.ask("GET", "/echo/tasks/t", None, [shown(good(time.time(), jti="rest")), same])
        assert (rest.status, rest.json["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")


@undisturbed(0.5)
async def test_a_storm_while_the_issuer_hangs_does_not_delay_valid_callers() -> None:
    async with front(more=PROXIED) as place:
        known, same = shown(good(time.time())), origin(b"192.0.2.1")
        assert (await place.call(known, same)).status == 200
        place.served.open.clear()
        async with asyncio.TaskGroup() as group:
            weather = group.create_task(storm(place, same))
            slowest = 0.0
            while not weather.done():
                started = time.monotonic()
                assert (await place.call(known, same)).status == 200
                assert (await place.good(jti=str(started))).status == 200
                slowest = max(slowest, time.monotonic() - started)
        assert set(weather.result()) == {401, 429}
        # A call that waited for keys would have waited for two seconds.
        assert slowest < 1.5


# ---- The clock -----------------------------------------------------------------------------------------------------
