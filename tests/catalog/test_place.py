"""Where cards are looked for, and which addresses are one origin."""

import pytest

from gateway.catalog.place import CardPlace, origin

NAMES = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@pytest.mark.parametrize(
    ("backend", "card", "asked"),
    [
        ("http://a.example", None, [f"http://a.example{name}" for name in NAMES]),
        ("http://a.example/base/", None, [f"http://a.example/base{name}" for name in NAMES]),
        ("http://a.example", "http://b.example/card.json", ["http://b.example/card.json"]),
        ("http://a.example", "http://b.example/card?of=7", ["http://b.example/card?of=7"]),
        (
            "http://a.example",
            "http://b.example/echo/",
            [*(f"http://b.example/echo{name}" for name in NAMES), "http://b.example/echo/"],
        ),
    ],
)
def test_the_usual_names_are_asked_where_none_is_written(backend: str, card: str | None, asked: list[str]) -> None:
    assert list(CardPlace(backend, card_url=card).candidates) == asked


def test_replicas_are_asked_in_turn() -> None:
    place = CardPlace("http://a", others=("http://b", "http://c"))
    turns = [place, second := place.elsewhere(), third := second.elsewhere(), third.elsewhere()]
    assert [each.backend_url for each in turns] == ["http://a", "http://b", "http://c", "http://a"]
    assert all(len(each.others) == 2 for each in turns)
    alone = CardPlace("http://a")
    assert alone.elsewhere() is alone


def test_no_query_is_shown() -> None:
    assert CardPlace("http://a", card_url="http://b/card?key=secret").shown == "http://b/card"


def test_an_origin_is_scheme_host_and_port() -> None:
    assert origin("http://A.example/x") == origin("http://a.example:80/y?z") != origin("https://a.example")
    assert origin("https://a.example") == origin("https://a.example:443")
    # What cannot be asked is like nothing else.
    assert origin("http://a.example:x") != origin("http://a.example:y")
    assert origin("http://a.example:x")[1] is None
