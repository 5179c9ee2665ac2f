import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamConnect, UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.tree import Tree
from gateway.catalog.cards import CardPlace, CardSource, open_client
from gateway.catalog.served import PublicUrl, ServedCards, upstream_hosts
from gateway.routing.route import Place, Rule
from gateway.upstream.connections import ConnectionPool, Origin
from gateway.upstream.http import HttpUpstream, Timeouts, Treatment
from tests.doubles.gateway import card_of

BACKEND = "http://billing.internal:8000"
PUBLIC = PublicUrl.parse("https://gw.example/agents/")
DIALECTS = ("JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3")

pytestmark = pytest.mark.anyio


@pytest.fixture
def client() -> Iterator[httpx.AsyncClient]:
    client = open_client()
    yield client
    asyncio.run(client.aclose())


def rule(path: tuple[str, ...] = ("a2a",), host: str | None = None) -> Rule:
    return Rule("billing", host, path, frozenset(), Place("f", 1))


def shelf(
    client: httpx.AsyncClient, card: Tree | None, *, methods: frozenset[Operation] | None = None
) -> tuple[CardSource, ServedCards]:
    source = CardSource(CardPlace(BACKEND, static=card), client)
    upstream = HttpUpstream(
        backend="billing",
        url=BACKEND,
        pool=ConnectionPool(Origin("http", "billing.internal", 8000)),
        cards=source,
        timeouts=Timeouts(1, 1, 1, 1, 1),
        treatment=Treatment(),
    )
    return source, ServedCards(
        source,
        upstream,
        PUBLIC,
        overrides={"name": "Billing"},
        schemes=("bearer",),
        secrets=upstream_hosts(BACKEND),
        methods=methods,
    )


def agents_card(*dialects: str) -> Tree:
    card: Tree = json.loads(card_of(BACKEND + "/rpc", *(dialects or DIALECTS)))
    return card


def test_the_public_url_may_have_a_path_and_a_host_of_its_own_keeps_scheme_and_port() -> None:
    assert PUBLIC.at(None, ("a2a",)) == "https://gw.example/agents/a2a"
    assert PublicUrl.parse("https://gw.example:8443").at("x.example", ()) == "https://x.example:8443/"


async def test_a_card_has_the_gateways_urls_and_no_address_of_the_agent(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    served = json.loads(cards.card(rule(), None, "").body)
    assert served["name"] == "Billing"
    assert {each["url"] for each in served["supportedInterfaces"]} == {"https://gw.example/agents/a2a"}
    assert b"billing.internal" not in cards.card(rule(), None, "").body


async def test_a_tenant_is_in_the_interface_for_1_0_and_in_the_url_for_0_3(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    served = json.loads(cards.card(rule(), "acme", "").body)
    modern = [each for each in served["supportedInterfaces"] if each["protocolVersion"] == "1.0"]
    assert [each["tenant"] for each in modern] == ["acme", "acme"]
    assert served["url"] == "https://gw.example/agents/a2a/acme"


async def test_the_same_card_is_made_once_and_has_the_same_tag(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    first = cards.card(rule(), None, "")
    assert cards.card(rule(), None, "other.example") is first
    assert cards.card(rule(("b",)), None, "").etag != first.etag


async def test_a_wildcard_host_is_answered_under_the_name_that_was_asked(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    for name in ("a.example", "b.example"):
        served = json.loads(cards.card(rule((), "*.example"), None, name).body)
        assert served["supportedInterfaces"][0]["url"] == f"https://{name}/agents/"


async def test_no_more_than_a_bounded_number_of_cards_is_kept(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    for number in range(500):
        cards.card(rule((), "*.example"), None, f"n{number}.example")
    assert len(cards._kept) <= 64


async def test_a_card_that_was_never_read_is_the_agents_fault(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, None)
    with pytest.raises(UpstreamConnect):
        cards.card(rule(), None, "")


async def test_a_card_promises_only_what_is_relayed(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card(), methods=frozenset({Operation.SEND_MESSAGE}))
    said = json.loads(cards.card(rule(), None, "").body)["capabilities"]
    assert not any(said.get(name) for name in ("streaming", "pushNotifications", "extendedAgentCard"))


async def test_an_extended_card_is_rebuilt_in_the_dialect_of_the_call(client: httpx.AsyncClient) -> None:
    _, cards = shelf(client, agents_card())
    raw = json.dumps(agents_card()).encode()
    modern = json.loads(cards.extended(raw, rule(), None, host="", version=Version.V1_0))
    legacy = json.loads(cards.extended(raw, rule(), None, host="", version=Version.V0_3))
    assert "supportedInterfaces" in modern
    assert "preferredTransport" in legacy
    with pytest.raises(UpstreamProtocol):
        cards.extended(b"[]", rule(), None, host="", version=Version.V1_0)


def test_hosts_are_known_with_and_without_port() -> None:
    assert upstream_hosts("http://user@h.example:80/x", None) == ("h.example:80", "h.example")
