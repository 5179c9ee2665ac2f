"""A configuration, compiled: each agent gets what the file says of it, and nothing of another's."""

from pathlib import Path

import pytest

from gateway.tasks.store import Owner
from tests.support.gateway import card_of, compiled
from tests.table import for_each

pytestmark = pytest.mark.anyio


# ---- Backends ------------------------------------------------------------------------------------------------------


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


async def test_the_tenant_that_a_backend_gets_is_its_own_before_the_agents() -> None:
    async with compiled(CREDENTIALS) as snapshot:
        found = {key: each.upstream.treatment.tenant for key, each in snapshot.backends.items()}
    assert found == {"open": None, "echo": "keep", "crm/acme": "acme-inc", "crm/globex": "strip"}


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
        cards = {key: each.source.card for key, each in snapshot.backends.items()}
        assert {key: card and card["name"] for key, card in cards.items()} == {
            "ours": "Main",
            "theirs": "Included",
            "long": "Included",
        }
        assert all(each.source.settled.is_set() for each in snapshot.backends.values())


# ---- What no card may show -----------------------------------------------------------------------------------------


@for_each(
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
        assert snapshot.backends["echo"].source.discretion.secrets == hidden


async def test_cards_hide_where_the_card_came_from_too() -> None:
    text = "agents: { echo: { backend: 'https://a.internal', card: 'https://cards.internal:9/echo.json' } }"
    async with compiled(text) as snapshot:
        assert set(snapshot.backends["echo"].source.discretion.secrets) == {
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
