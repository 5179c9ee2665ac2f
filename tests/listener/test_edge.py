"""Connections are counted by whose they are, and a connection_limit is turned away in words."""

import pytest

from gateway.listener.http1 import ConnectionLimit
from tests.listener.front import Front, fronting, limited, patient
from tests.support.gateway import fronted, request
from tests.support.scripted import answers, whole

GET = request("GET", "/", None)


def test_a_whole_network_of_ipv6_is_one_client() -> None:
    counts = ConnectionLimit(100, 2, lambda _: False)
    peers = ["2001:db8::1", "2001:db8::2", "2001:db8::3"]
    assert [counts.enter(peer) for peer in peers] == [True, True, False]
    assert counts.enter("2001:db8:0:1::1")
    assert [counts.enter(peer) for peer in ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1")] == [
        True,
        True,
        False,
    ]


# ---- On real connections -------------------------------------------------------------------------------------------


async def turned_away(front: Front) -> None:
    said = await front.says(GET)
    assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 1\r\n" in said
    assert b"\r\nconnection: close\r\n" in said
    assert said.endswith(b")\n")


@pytest.mark.anyio
async def test_a_connection_too_many_is_told_to_come_again() -> None:
    async with fronting(limits=limited(connections=2)) as front:
        one, other = await front.client(), await front.client()
        await front.until(lambda: len(front.connections) == 2)
        for _ in range(3):
            await turned_away(front)
        assert front.refused == [(503, "there are too many connections")] * 3
        for client in (one, other):
            await client.send(GET)
            assert (await client.answer()).status == 200
        one.leave()
        await front.until(lambda: len(front.connections) == 1)
        client = await front.client()
        await client.send(GET)
        assert (await client.answer()).status == 200


@pytest.mark.anyio
async def test_a_client_with_too_many_connections_is_turned_away_and_a_trusted_proxy_is_not() -> None:
    async with fronting(patient, limited(connections_per_peer=1)) as front:
        kept = await front.client()
        await kept.send(GET)
        await front.until(lambda: len(front.heads) == 1)
        await turned_away(front)
        front.go.set()
        assert (await kept.answer()).status == 200
    async with fronting(limits=limited(connections_per_peer=1), shares=lambda peer: peer == "127.0.0.1") as front:
        for _ in range(3):
            client = await front.client()
            await client.send(GET)
            assert (await client.answer()).status == 200


@pytest.mark.anyio
async def test_the_bounds_of_the_file_hold_and_its_proxies_are_exempt() -> None:
    for proxies, status in (("", b"503"), (", trusted_proxies: [127.0.0.1/32]", b"404")):
        settings = f"http: {{ connections_per_peer: 1 }}{proxies}"
        async with fronted(answers(whole()), settings=settings) as (gateway, _):
            first = await gateway.client()
            await gateway.until(lambda: len(gateway.gateway.listeners.servers[0].state.connections) == 1)
            second = await gateway.client()
            await second.send(request("GET", "/", None, [(b"Connection", b"close")]))
            assert (await second.ended())[9:12] == status
            first.leave()
