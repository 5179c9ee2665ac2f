"""The parts of an agent's card that clients may read."""

import copy
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.card import MAX_CARD, CardInvalid, parse_card
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import REMOVED, Discretion, Redaction, SanitizedCard, sanitize
from tests.support.yardstick import cpu_seconds
from tests.table import for_each

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
DUAL: Tree = VECTORS["dual (one document read by 0.3 and 1.0 clients)"]
UPSTREAM = ("orders.svc.cluster.local", "orders.svc.cluster.local:8000", "10.1.2.3", "orders-v2")
OWN = ("gateway.example", "*.agents.example:8443", "127.0.0.1:8080")


def sanitized(
    said: Tree, overrides: Mapping[str, object] | None = None, secrets: tuple[str, ...] = (), **more: object
) -> SanitizedCard:
    return sanitize({"name": "Echo", **said, **more}, Discretion(overrides or {}, secrets, OWN))


# ---- What is taken over --------------------------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from(sorted(DUAL)), st.integers() | st.lists(st.integers() | st.text(max_size=3))))
def test_a_member_of_a_wrong_type_counts_as_missing(said: Tree) -> None:
    found = sanitize(said, Discretion())
    assert all(isinstance(text, str) for text in (found.name, found.description, found.version))
    assert found.skills == ()


def test_extensions_are_kept_with_their_parameters() -> None:
    extension = {
        "uri": "https://ext.example/v1",
        "description": "d",
        "required": True,
        "params": {"a": [1, {"b": None}]},
    }
    said = {"extensions": [{**extension, "junk": 1}, {"description": "no uri"}, "text"]}
    assert sanitized({}, capabilities=said).extensions == (extension,)


@for_each(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://u:p@h/",
        "//h/x",
        "data:text/html,x",
        "https://",
        "https://a\\b/",
        "https://a/\u2028",
        "https://a/\u202etxt.exe",
    ],
)
def test_links_that_browsers_must_not_follow_go(url: str) -> None:
    found = sanitized({"documentationUrl": url, "iconUrl": url, "provider": {"organization": "x", "url": url}})
    assert (found.documentation_url, found.icon_url) == (None, None)
    assert found.provider == {"organization": "x", "url": ""}


def test_the_agents_card_is_left_as_it_was() -> None:
    before = copy.deepcopy(DUAL)
    sanitized(DUAL, secrets=("example.net", "example.org"))
    assert before == DUAL


# ---- The operator's words ------------------------------------------------------------------------------------------


def test_the_operators_members_win_whole() -> None:
    overrides = {
        "name": "Fax",
        "provider": {"organization": "Example Corp", "url": "https://example.com"},
        "capabilities": {"streaming": False},
        "supportedInterfaces": [{"url": "http://evil/"}],
        "url": "http://evil/",
        "signatures": [],
        "securitySchemes": {"evil": {}},
        "protocolVersion": "9",
    }
    found = sanitized(DUAL, overrides)
    assert found.name == "Fax"
    assert found.provider == overrides["provider"]
    assert (found.streaming, found.push, found.extended) == (False, None, None)
    assert "evil" not in json.dumps(asdict(found))


def test_the_operator_denies_an_extended_card_in_either_spelling() -> None:
    said = {"capabilities": {"extendedAgentCard": True, "streaming": True}, "supportsAuthenticatedExtendedCard": True}
    denied = sanitized(said, {"supportsAuthenticatedExtendedCard": False})
    assert (denied.extended, denied.streaming) == (False, True)
    assert sanitized(said, {"capabilities": {"extendedAgentCard": False}}).extended is False


def test_a_bare_card_has_nothing_personal_but_what_the_operator_sets() -> None:
    overrides = {"version": "9", "skills": [{"id": "ours"}]}
    whole = sanitized(VECTORS["v0.3"], overrides, description="Only for our customer Globex.")
    bare = whole.bare("orders", overrides)
    assert "Globex" not in json.dumps(asdict(bare))
    assert (bare.name, bare.version, bare.description, bare.provider) == ("orders", "9", "", None)
    assert [skill["id"] for skill in bare.skills] == ["ours"]
    assert (bare.streaming, bare.input_modes) == (whole.streaming, whole.input_modes)
    assert whole.bare("orders", {"name": "ours"}).name == whole.name


# ---- Nothing of the upstream ---------------------------------------------------------------------------------------


def test_links_to_the_upstream_go_and_text_about_it_is_cut() -> None:
    found = sanitized(
        {
            "name": "Orders at orders.svc.cluster.local",
            "description": "Call http://10.1.2.3:8000/internal/rpc or orders-v2:8000; docs at https://docs.example/orders-v2.",
            "documentationUrl": "http://orders.svc.cluster.local:8000/docs",
            "iconUrl": "https://cdn.example/?src=http%3A%2F%2F10.1.2.3%2Fi.png",
            "provider": {"organization": "Orders", "url": "http://orders-v2/"},
            "skills": [
                {
                    "id": "orders-v2",
                    "tags": ["orders-v2", "http://orders-v2:1/"],
                    "examples": ["curl http://10.1.2.3/x"],
                }
            ],
            "capabilities": {
                "extensions": [
                    {"uri": "http://orders.svc.cluster.local/ext"},
                    {"uri": "https://ext.example/v1", "params": {"host": "10.1.2.3:8000", "http://orders-v2/": 1}},
                ]
            },
        },
        secrets=UPSTREAM,
    )
    assert found.name == f"Orders at {REMOVED}"
    assert found.description == f"Call {REMOVED} or {REMOVED} docs at https://docs.example/orders-v2."
    assert (found.documentation_url, found.icon_url) == (None, None)
    assert found.provider == {"organization": "Orders", "url": ""}
    assert found.skills[0]["id"] == "orders-v2"
    assert found.skills[0]["tags"] == ["orders-v2", REMOVED]
    assert found.skills[0]["examples"] == [f"curl {REMOVED}"]
    assert found.extensions == ({"uri": "https://ext.example/v1", "params": {"host": REMOVED}},)


def test_the_hosts_of_the_cards_own_interfaces_are_upstream_hosts_too() -> None:
    found = sanitized(
        {
            "description": "See http://orders.internal.example:7001/docs and orders.internal.example.",
            "documentationUrl": "https://orders.internal.example/manual",
            "url": "http://orders.internal.example:7001/rpc",
            "additionalInterfaces": [{"url": "grpc-orders.internal.example:50051", "transport": "GRPC"}],
            "skills": [{"id": "a", "name": "a", "description": "at grpc-orders.internal.example:50051", "tags": []}],
        }
    )
    assert "internal.example" not in json.dumps(asdict(found))


def test_the_gateways_own_hosts_stay_on_a_card_and_an_agent_at_another_port_of_them_goes() -> None:
    found = sanitized(
        {
            "description": "At http://127.0.0.1:7001/rpc, behind http://127.0.0.1:8080/orders.",
            "url": "http://127.0.0.1:7001/rpc",
        }
    )
    assert found.description == "At [removed] behind http://127.0.0.1:8080/orders."
    found = sanitized(
        {
            "description": "a.agents.example:8443 a.agents.example a.agents.example:9 agents.example:8443",
            "url": "https://a.agents.example:8443/orders",
            "additionalInterfaces": [{"url": "http://a.agents.example:9/"}, {"url": "https://agents.example:8443/"}],
        }
    )
    # `agents.example` itself is no host below it, so whatever holds its name goes.
    assert found.description == f"{REMOVED} {REMOVED} {REMOVED} {REMOVED}"
    found = sanitized(
        {
            "description": "a.agents.example:8443 a.agents.example a.agents.example:9",
            "url": "https://a.agents.example:8443/orders",
            "additionalInterfaces": [{"url": "http://a.agents.example:9/"}],
        }
    )
    assert found.description == f"a.agents.example:8443 a.agents.example {REMOVED}"


def test_every_host_of_very_many_interfaces_is_removed() -> None:
    hosts = [f"h{number}.internal.example" for number in range(200)]
    listed = [{"url": f"http://{host}:{number}/"} for number, host in enumerate(hosts)]
    found = sanitized(
        {"description": " ".join(hosts), "supportedInterfaces": listed[:100], "additionalInterfaces": listed[100:]}
    )
    assert found.description.split() == [REMOVED] * 200


def test_undialable_hosts_are_not_removed_from_texts() -> None:
    said = {"url": "http://a\ufdd0b:1/", "additionalInterfaces": [{"url": f"http://{'x' * 300}.y/"}]}
    found = sanitized(said, description="a b", skills=[{"id": "a", "tags": ["b"]}])
    assert (found.description, found.skills[0]["tags"]) == ("a b", ["b"])


# ---- No more work than a bound ---------------------------------------------------------------------------------------


def _long(unit: str) -> str:
    return unit * (200_000 // len(unit.encode()))


def _listed(count: int) -> Tree:
    places = [{"url": f"http://h{number}:{number}/"} for number in range(count)]
    return {"supportedInterfaces": places[::2], "additionalInterfaces": places[1::2]}


LONG = pytest.mark.long
HOSTILE_TEXTS = ("h1:1 ", "h1:2 ", "//", "%2f ", "%252f", "%", "% ", "\xe9%2f", "//h1@", "//u x@h1 ", "h1:", "h1.x ")
WORST: Mapping[str, Tree] = {
    **{
        f"text of {unit!r}, {found!r} in it": {"description": found + _long(unit)}
        for unit in HOSTILE_TEXTS
        for found in ("", "h1:1 ", "h1%3a1 ")
    },
    **{
        f"strings with {unit!r}": {"skills": [{"id": "a", "tags": [f"{unit}{number}" for number in range(14_000)]}]}
        for unit in ("h1:1", "//h1", "%2f", "a", "//u x@h1 ", "\xe9")
    },
    "skills": {"skills": [{"id": ""}] * 6_000},
    "extensions": {"capabilities": {"extensions": [{"uri": "a"}] * 6_000}},
    "parameters": {"capabilities": {"extensions": [{"uri": "a", "params": {f"k{n}": 0 for n in range(19_000)}}]}},
    "lists": {"capabilities": {"extensions": [{"uri": "a", "params": {"h1:1": [[]] * 19_000}}]}},
    "numbers": {"capabilities": {"extensions": [{"uri": "a", "params": {"h1:1": [0] * 110_000}}]}},
    "interfaces": {"supportedInterfaces": [{}] * 19_000},
}
"""Cards as long as any may be, of the shapes that cost most."""


@pytest.mark.parametrize(
    ("hosts", "shapes"),
    [(60, list(WORST)[::5]), pytest.param(2, WORST, marks=LONG), pytest.param(60, WORST, marks=LONG)],
)
def test_no_card_of_the_longest_kind_costs_much(hosts: int, shapes: Iterable[str]) -> None:
    for shape in shapes:
        assert_cheap(shape, hosts)


def assert_cheap(shape: str, hosts: int) -> None:
    raw = json.dumps({"name": "x", **_listed(hosts), **WORST[shape]}, separators=(",", ":")).encode()
    assert len(raw) <= 2 * MAX_CARD

    def read() -> None:
        with suppress(CardInvalid):
            sanitize(parse_card(raw, longest=2 * MAX_CARD), Discretion(secrets=UPSTREAM))

    assert cpu_seconds(read) < 0.25


# ---- Addresses of upstreams in text ----------------------------------------------------------------------------------

HOSTS = ("agent.svc.cluster.local", "10.0.0.7", "support", "support:8000", "[::1]:9000", "localhost")


@for_each(
    ("text", "cleaned"),
    [
        ("see http://10.0.0.7:8000/docs/x, then go", f"see {REMOVED} then go"),
        ("[docs](https://agent.svc.cluster.local/a)", f"[docs]({REMOVED})"),
        ("Agent.SVC.cluster.LOCAL.", REMOVED),
        ("https://docs.example/?from=http%3A%2F%2Fagent.svc.cluster.local%2Fx", REMOVED),
        ("https://docs.example/?a=https%253A%252F%252F10.0.0.7", REMOVED),
        ("http://u:p@support/x", REMOVED),
        ("grpc at support:8000 and support:50051", f"grpc at {REMOVED} and {REMOVED}"),
        ("http://localhost", REMOVED),
        ("http://[::1]:9000/", REMOVED),
        ("call//support\n//support.", f"{REMOVED}\n{REMOVED}"),
    ],
)
def test_the_whole_word_around_a_host_goes(text: str, cleaned: str) -> None:
    assert Redaction(HOSTS).clean(text) == cleaned


@for_each(
    "text",
    [
        "Customer support agent",
        "support",
        "supporter:1",
        "https://support.example.com/x",
        "//supports",
        "team/support",
        "@support",
    ],
)
def test_a_bare_label_is_also_an_honest_word(text: str) -> None:
    assert Redaction(HOSTS).clean(text) == text


def test_many_texts_are_cleaned_at_once_and_each_as_if_it_were_alone() -> None:
    texts = ["x", "http://10.0.0.7/ is up", "//support", "support", "x", "//u p@support", "10.0.0", ".7"]
    assert Redaction(HOSTS).replacements(texts) == {
        "http://10.0.0.7/ is up": f"{REMOVED} is up",
        "//support": REMOVED,
        "//u p@support": REMOVED,
    }


def test_no_hosts_no_change() -> None:
    assert Redaction(()).clean("http://10.0.0.7/") == "http://10.0.0.7/"
    assert Redaction(("", " ")).clean("anything") == "anything"


pieces = st.lists(
    st.sampled_from(
        [*HOSTS, "//", "@", ":", "8000", " ", "http", "%2F", "%40", "%25", "(", "a", ".", "-", "/x", "%", REMOVED]
    ),
    max_size=14,
).map("".join)


@given(pieces)
def test_cleaned_text_names_no_host_and_stays_as_it_is(text: str) -> None:
    redaction = Redaction(HOSTS)
    cleaned = redaction.clean(text)
    assert not redaction.finds(cleaned)
    assert redaction.clean(cleaned) == cleaned
    for host in ("agent.svc.cluster.local", "10.0.0.7", "support:8000", "[::1]:9000"):
        assert host not in cleaned


@given(st.lists(pieces, max_size=5))
def test_no_text_changes_what_becomes_of_another(texts: list[str]) -> None:
    redaction = Redaction(HOSTS)
    replaced = redaction.replacements(texts)
    assert [replaced.get(text, text) for text in texts] == [redaction.clean(text) for text in texts]


@given(pieces, st.lists(st.sampled_from(["word", "\u017fupport", "\uffff", "%ef%bf%bf", "\n"]), max_size=3))
def test_only_words_that_name_a_host_go_unless_all_do(text: str, others: list[str]) -> None:
    redaction = Redaction(HOSTS)
    whole = " ".join([text, *others])
    cleaned = redaction.clean(whole)
    assert not redaction.finds(cleaned)
    assert cleaned == REMOVED or cleaned.endswith("".join(f" {word}" for word in others))


@for_each(
    ("text", "cleaned"),
    [
        ("http://\u017fupport/x or y", f"{REMOVED} or y"),
        ("http://SUPPORT:1 \u00e9%C3%A9 y%", f"{REMOVED} \u00e9%C3%A9 y%"),
        ("//u x@support and more", REMOVED),
        ("10.0.0.7 %EF%BF%BF", f"{REMOVED} %EF%BF%BF"),
        ("x\uffff10.0.0.7\uffffy", REMOVED),
    ],
)
def test_no_letter_and_no_gap_hides_a_host(text: str, cleaned: str) -> None:
    assert Redaction(HOSTS).clean(text) == cleaned


@for_each(
    "text", ["/" * 250_000, "//a" * 80_000, "@" * 250_000, "//" + "a@" * 100_000, "support:" * 30_000, "%2f" * 80_000]
)
def test_hostile_text_is_searched_without_much_work(text: str) -> None:
    assert cpu_seconds(lambda: Redaction(HOSTS).clean(text)) < 1.0
