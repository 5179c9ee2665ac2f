"""A configuration, compiled: each agent gets what the file says of it, and nothing of another's."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.a2a.dialect import Binding
from gateway.background import Background
from gateway.backing import AnswerBounds, Backing
from gateway.config.agent import DEFAULT_TIMEOUTS
from gateway.tasks.store import Owner
from gateway.upstream.connection_pool import PoolLimits
from tests.doubles.gateway import RESULT, agent, card_of, compiled, fronted
from tests.doubles.pool import pool_of
from tests.doubles.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

BUILT_IN = {name: getattr(DEFAULT_TIMEOUTS, name) for name in ("connect", "first_byte", "send", "stream_idle", "total")}


def timeouts(backing: Backing) -> dict[str, float]:
    return {name: getattr(backing.upstream.timeouts, name) for name in BUILT_IN}


# ---- Backings ------------------------------------------------------------------------------------------------------


SEVERAL = """\
agents:
  echo: http://127.0.0.1:7001
  crm: { by_tenant: { acme: http://127.0.0.1:7003, globex: http://127.0.0.1:7004 } }
"""


async def test_every_backend_has_a_key_of_its_own() -> None:
    async with compiled(SEVERAL) as snapshot:
        assert {key: (each.agent, each.url, each.upstream.backend) for key, each in snapshot.backings.items()} == {
            "echo": ("echo", "http://127.0.0.1:7001", "echo"),
            "crm/acme": ("crm", "http://127.0.0.1:7003", "crm/acme"),
            "crm/globex": ("crm", "http://127.0.0.1:7004", "crm/globex"),
        }
        pools = {id(pool_of(each)) for each in snapshot.backings.values()}
        assert len(pools) == 3
        meters = {key: each.meter for key, each in snapshot.backings.items()}
        assert meters["crm/acme"] is meters["crm/globex"]
        assert meters["crm/acme"] is not meters["echo"]


async def test_an_owner_is_entitled_to_what_its_tenant_may_call() -> None:
    text = f"""\
    auth:
      issuers: {{ corp: {{ issuer: "https://i.test", audience: a, tenant_claim: org, jwks: "https://i.test/keys" }} }}
      api_keys: {{ ann: {{ sha256: {"ab" * 32}, tenant: acme, agents: [crm] }} }}
    tenants:
      acme: [crm, echo]
      globex: [crm]
      reseller: {{ agents: [crm], act_for: [acme] }}
    agents:
      echo: http://127.0.0.1:7001
      crm: {{ by_tenant: {{ acme: http://127.0.0.1:7003, globex: http://127.0.0.1:7004 }} }}
    """
    ann, bob, eve, joe = (
        Owner("acme", "/ann"),
        Owner("acme", "corp/bob"),
        Owner("globex", "corp/eve"),
        Owner("reseller", "corp/joe"),
    )
    entitled = {"crm/acme": (ann, bob, joe), "crm/globex": (eve,), "echo": (bob,)}
    async with compiled(text) as snapshot:
        for scope in (*entitled, "crm", "crm/other", "echo/acme", "none", ""):
            who = tuple(owner for owner in (ann, bob, eve, joe) if snapshot.entitles(owner, scope, 0.0))
            assert who == entitled.get(scope, ())


async def test_what_the_file_says_of_the_dialect_and_the_methods_holds() -> None:
    text = """\
    agents:
      any: http://127.0.0.1:7001
      old:
        backend: { url: "http://127.0.0.1:7002", protocol: rest, a2a_version: "0.3" }
        methods: [SendMessage]
    """
    async with compiled(text) as snapshot:
        assert snapshot.backings["any"].methods is None
        assert snapshot.backings["any"].upstream.interfaces() == {}
        old = snapshot.backings["old"]
        assert [str(method) for method in old.methods or ()] == ["SendMessage"]
        [dialect] = old.upstream.interfaces()
        assert (dialect.binding, str(dialect.version)) == (Binding.REST, "0.3")


# ---- Timeouts ------------------------------------------------------------------------------------------------------


async def test_timeouts_are_the_agents_then_the_defaults_then_built_in() -> None:
    text = """\
    defaults: { timeouts: { connect: 1s, send: 2s } }
    agents:
      own: { backend: "http://127.0.0.1:7001", timeouts: { send: 7s, total: 8s } }
      none: http://127.0.0.1:7002
      crm: { by_tenant: { acme: "http://127.0.0.1:7003" }, timeouts: { stream_idle: 9s } }
    """
    async with compiled(text) as snapshot:
        found = {key: timeouts(each) for key, each in snapshot.backings.items()}
    assert found["own"] == {**BUILT_IN, "connect": 1.0, "send": 7.0, "total": 8.0}
    assert found["none"] == {**BUILT_IN, "connect": 1.0, "send": 2.0}
    assert found["crm/acme"] == {**BUILT_IN, "connect": 1.0, "send": 2.0, "stream_idle": 9.0}


# ---- Connections ----------------------------------------------------------------------------------------------------


async def test_an_agents_own_bounds_come_before_the_defaults_of_the_file() -> None:
    text = """\
    gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", heartbeat: 7s }
    defaults: { connections: { max: 5, idle: 2s, header_count: 50, event: 1MiB } }
    agents:
      own: { backend: "http://127.0.0.1:7001", connections: { max: 9, queue: 0, queue_timeout: 3s, kept: 2KiB } }
      none: http://127.0.0.1:7002
      crm: { by_tenant: { acme: "http://127.0.0.1:7003" }, connections: { headers: 8KiB, event: 64KiB } }
    """
    async with compiled(text) as snapshot:
        pools = {key: pool_of(each)._limits for key, each in snapshot.backings.items()}
        bounds = {key: each.bounds for key, each in snapshot.backings.items()}
    assert pools["own"] == PoolLimits(9, 0, 3.0, 2.0, 32 * 1024, 50)
    assert pools["none"] == PoolLimits(5, 100, 1.0, 2.0, 32 * 1024, 50)
    assert pools["crm/acme"] == PoolLimits(5, 100, 1.0, 2.0, 8 * 1024, 50)
    assert bounds["own"] == AnswerBounds(event=1 << 20, kept=2048, heartbeat=7.0)
    assert bounds["crm/acme"] == AnswerBounds(event=64 * 1024, kept=32 << 20, heartbeat=7.0)


# ---- Credentials for agents ----------------------------------------------------------------------------------------

CREDENTIALS = """\
agents:
  open: http://127.0.0.1:7001
  echo:
    backend: http://127.0.0.1:7002
    upstream_auth: { header: { X-Agent-Key: echo-key } }
    upstream_tenant: keep
    forward_headers: [X-Trace-Me]
    forward_caller: false
  crm:
    upstream_auth: { bearer: shared-bearer }
    upstream_tenant: strip
    by_tenant:
      acme:
        backend: http://127.0.0.1:7003
        upstream_auth: { header: { X-Acme-Key: acme-key } }
        upstream_tenant: acme-inc
      globex: http://127.0.0.1:7004
"""


async def test_a_backend_gets_the_credential_that_is_written_for_it_and_no_other() -> None:
    async with compiled(CREDENTIALS) as snapshot:
        found = {key: dict(each.upstream.treatment.credentials) for key, each in snapshot.backings.items()}
    assert found == {
        "open": {},
        "echo": {b"x-agent-key": b"echo-key"},
        # Its own one instead of the agent's, not beside it.
        "crm/acme": {b"x-acme-key": b"acme-key"},
        "crm/globex": {b"authorization": b"Bearer shared-bearer"},
    }


async def test_the_tenant_that_a_backend_gets_is_its_own_before_the_agents() -> None:
    async with compiled(CREDENTIALS) as snapshot:
        found = {key: each.upstream.treatment.tenant for key, each in snapshot.backings.items()}
    assert found == {"open": None, "echo": "keep", "crm/acme": "acme-inc", "crm/globex": "strip"}


async def test_headers_of_the_client_go_along_where_the_file_says_so() -> None:
    async with compiled(CREDENTIALS) as snapshot:
        treatments = {key: each.upstream.treatment for key, each in snapshot.backings.items()}
    assert treatments["echo"].forwarded == {b"x-trace-me"}
    assert treatments["open"].forwarded == frozenset()
    assert not any(treatment.forward_caller for treatment in treatments.values())


async def test_the_card_is_asked_for_with_the_same_credential_as_calls() -> None:
    asked: list[bytes | None] = []
    async with ScriptedBackend(answers(whole(b"nothing", status=b"404 Not Found"))) as backend:
        text = f"agents: {{ echo: {{ backend: '{backend.url}', upstream_auth: {{ bearer: card-bearer }} }} }}"
        async with compiled(text) as snapshot:
            await snapshot.backings["echo"].source.refresh()
        asked = [request.header(b"authorization") for request in backend.requests]
    assert asked
    assert set(asked) == {b"Bearer card-bearer"}


# ---- Cards from files ----------------------------------------------------------------------------------------------


async def test_a_card_file_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    included = tmp_path / "agents.d"
    (included / "cards").mkdir(parents=True)
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "fax.json").write_bytes(card_of("http://127.0.0.1:7001", "JSONRPC 1.0", name="Main"))
    (included / "cards" / "fax.json").write_bytes(card_of("http://127.0.0.1:7001", "JSONRPC 1.0", name="Included"))
    (included / "team.yaml").write_text(
        "agents:\n"
        "  theirs: { backend: 'http://127.0.0.1:7001', card: cards/fax.json }\n"
        "  long: { backend: 'http://127.0.0.1:7001', card: { file: cards/fax.json } }\n"
    )
    text = """\
    include: agents.d/*.yaml
    agents:
      ours: { backend: "http://127.0.0.1:7001", card: { file: cards/fax.json } }
    """
    async with compiled(text, path=tmp_path / "gateway.yaml") as snapshot:
        cards = {key: each.source.card for key, each in snapshot.backings.items()}
        assert {key: card and card["name"] for key, card in cards.items()} == {
            "ours": "Main",
            "theirs": "Included",
            "long": "Included",
        }
        assert all(each.source.settled.is_set() for each in snapshot.backings.values())


# ---- What no card may show -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("public_url", "backend", "hidden"),
    [
        ("https://gw.test", "https://billing.internal:8443/a", ("billing.internal:8443", "billing.internal")),
        ("https://gw.test", "https://gw.test:8443", ("gw.test:8443",)),
        ("https://gw.test:9000", "https://gw.test:8443", ("gw.test:8443",)),
        ("http://127.0.0.1:8080", "http://127.0.0.1:7001", ("127.0.0.1:7001",)),
        ("http://127.0.0.1:8080", "http://localhost:7001", ("localhost:7001", "localhost")),
    ],
)
async def test_cards_hide_the_agents_host_and_not_the_gateways_own(
    public_url: str, backend: str, hidden: tuple[str, ...]
) -> None:
    async with compiled(f"agents: {{ echo: '{backend}' }}", public_url) as snapshot:
        assert snapshot.backings["echo"].source.discretion.secrets == hidden


async def test_cards_hide_where_the_card_came_from_too() -> None:
    text = "agents: { echo: { backend: 'https://a.internal', card: 'https://cards.internal:9/echo.json' } }"
    async with compiled(text) as snapshot:
        assert set(snapshot.backings["echo"].source.discretion.secrets) == {
            "a.internal",
            "cards.internal:9",
            "cards.internal",
        }


# ---- The whole -----------------------------------------------------------------------------------------------------


async def test_the_path_of_the_public_url_is_expected_unless_something_in_front_removes_it() -> None:
    for stripped, prefix in (("false", ("a", "b")), ("true", ())):
        text = f"""\
        gateway: {{ public_url: "https://gw.test/a/b/", prefix_stripped: {stripped} }}
        agents: {{ echo: http://127.0.0.1:7001 }}
        """
        async with compiled(text, "https://gw.test/a/b") as snapshot:
            assert snapshot.prefix == prefix
            assert (snapshot.public.origin, snapshot.public.prefix) == ("https://gw.test", "/a/b")


# ---- Open and closed -----------------------------------------------------------------------------------------------


async def test_an_open_snapshot_reads_cards_and_keys() -> None:
    keys = b'{"keys":[]}'
    answering = agent(answers(whole(keys)), card_of("http://127.0.0.1/", "JSONRPC 1.0"))
    async with ScriptedBackend(answering) as backend:
        text = f"""\
        auth:
          issuers:
            corp: {{ issuer: "https://i.test", audience: a, tenant: acme, jwks: "{backend.url}/keys" }}
        tenants: {{ acme: [echo] }}
        agents: {{ echo: "{backend.url}" }}
        """
        background = Background()
        async with compiled(text) as snapshot:
            snapshot.open(background)
            await backend.until(lambda: any(request.target == b"/keys" for request in backend.requests))
            await snapshot.backings["echo"].source.settled.wait()
            await background.aclose()
            card: Any = snapshot.backings["echo"].source.card
            assert card["name"] == "Scripted"


async def test_a_closed_snapshot_has_no_connection_left() -> None:
    async with fronted(answers(whole(RESULT)), card=card_of("http://127.0.0.1/", "JSONRPC 1.0")) as (gateway, backend):
        assert (await gateway.post("/echo")).status == 200
        await gateway.rested()
        assert backend.open == 1
        snapshot = gateway.gateway.snapshot
        held: list[Any] = [each.value for each in snapshot.resources._held.values()]
        await snapshot.aclose()
        await backend.all_gone()
        clients = [getattr(each, "client", each) for each in held]
        closed = [client.is_closed for client in clients if isinstance(client, httpx.AsyncClient)]
        assert closed == [True, True]
        # What comes now is told, and dials nobody.
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["error"]["code"]) == (503, -31503)
        assert backend.open == 0
