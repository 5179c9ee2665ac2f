"""The tenant of a certificate, by its names."""

from typing import Any

import pytest

from gateway.config.model import Client
from gateway.identity.client_names import ClientName, Clients, UnknownClient
from tests.table import for_each

CLIENTS: dict[str, Any] = {
    "mesh": {"uri": "spiffe://m/ns/{tenant}/sa/*"},
    "watched": {"uri": "spiffe://m/ns/acme/sa/*", "tenant": "acme", "agents": "echo"},
    "shut": {"uri": "spiffe://m/ns/acme/sa/lost", "tenant": "acme", "agents": []},
    "hosts": {"dns": ["*.acme.test", "acme.test"], "tenant": "acme"},
    "fax": {"common_name": "fax", "tenant": "globex"},
}


def find(*subjects: str, clients: dict[str, Any] = CLIENTS) -> tuple[str, str, str, frozenset[str] | None]:
    rules = Clients({name: Client.model_validate(entry).as_settings() for name, entry in clients.items()})
    whose = rules.find([ClientName.read(subject) for subject in subjects])
    return whose.client, whose.tenant, whose.name.subject, whose.agents


def test_the_narrowest_pattern_wins_in_any_order() -> None:
    backwards = dict(reversed(CLIENTS.items()))
    for clients in (CLIENTS, backwards):
        assert find("spiffe://m/ns/globex/sa/a", clients=clients)[:2] == ("mesh", "globex")
        assert find("spiffe://m/ns/acme/sa/a", clients=clients)[::3] == ("watched", frozenset({"echo"}))
        assert find("spiffe://m/ns/acme/sa/lost", clients=clients)[::3] == ("shut", frozenset())


def test_several_names_of_one_client_are_one_caller_in_any_order() -> None:
    both = find("b.acme.test", "a.acme.test", "elsewhere.test")
    assert both == find("a.acme.test", "elsewhere.test", "b.acme.test") == ("hosts", "acme", "a.acme.test", None)


def test_a_common_name_counts_only_where_there_is_no_other_name() -> None:
    assert find("CN=fax")[:3] == ("fax", "globex", "CN=fax")
    with pytest.raises(UnknownClient, match=r"fits other\.test"):
        find("CN=fax", "other.test")
    assert find("CN=fax", "acme.test")[1] == "acme"


@for_each(
    ("subjects", "why"),
    [
        ((), "a certificate without names"),
        (("spiffe://m/ns/acme/sa/a", "spiffe://m/ns/globex/sa/a"), "has 2 URIs, and a SPIFFE ID stands alone"),
        (("SPIFFE://m/x", "https://elsewhere.test/x"), "has 2 URIs"),
        (
            ("spiffe://m/ns/acme/sa/a", "acme.test"),
            r"match several clients: hosts \(tenant acme\), watched",
        ),
        (("CN=fax", "CN=other"), "has 2 common names"),
        (("CN=a\x1b[2J",), "fits CN=a�"),
    ],
)
def test_certificates_without_one_certain_client_are_refused(subjects: tuple[str, ...], why: str) -> None:
    with pytest.raises(UnknownClient, match=why):
        find(*subjects)


def test_names_that_fit_crossing_patterns_belong_to_no_client() -> None:
    crossing = {"a": {"uri": "spiffe://m/*/x", "tenant": "a"}, "b": {"uri": "spiffe://m/x/*", "tenant": "b"}}
    with pytest.raises(UnknownClient, match="matches several clients: a, b"):
        find("spiffe://m/x/x", clients=crossing)
