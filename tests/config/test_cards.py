"""How an agent's card is read: its own words, else those of `defaults`."""

import pytest

from gateway.cards.fetch import CardSource
from gateway.config import effective
from gateway.config.effective import shown
from tests.config.reading import good
from tests.doubles.gateway import compiled
from tests.table import for_each

TEXT = """\
version: 1
defaults: {{ cards: {{ {defaults} }} }}
agents:
  a: {{ backend: 'http://127.0.0.1:1', cards: {own} }}
  b: http://127.0.0.1:1
"""


@for_each(
    ("defaults", "own", "expected"),
    [
        ("", "{ ttl: 30s }", (30, 3600, 262144)),
        ("", "30s", (30, 3600, 262144)),
        ("", "{ refresh: 30s }", (30, 3600, 262144)),
        ("ttl: 5m, keep: 2h", "{ size: 1KiB }", (300, 7200, 1024)),
        ("ttl: 5m, keep: 2h, size: 1KiB", "{ ttl: 10m, keep: 0s }", (600, 0, 1024)),
        ("refresh: 5m", "{}", (300, 3600, 262144)),
    ],
)
def test_an_agents_own_words_go_before_the_defaults(defaults: str, own: str, expected: tuple[float, ...]) -> None:
    config = good(TEXT.format(defaults=defaults, own=own))
    found = effective.cards(config, config.agents["a"])
    assert (found.refresh, found.keep, found.size) == expected
    assert effective.cards(config, config.agents["b"]) == config.defaults.cards == effective.cards(config)
    assert shown(config)["agents"]["a"]["cards"] == dict(zip(("ttl", "keep", "size"), expected, strict=True))


@pytest.mark.anyio
async def test_the_source_of_a_card_keeps_to_them() -> None:
    text = TEXT.format(defaults="ttl: 5m", own="{ ttl: 30s, keep: 1m, size: 1KiB }").removeprefix("version: 1\n")
    async with compiled(text) as snapshot:
        places = {name: backing.source._place for name, backing in snapshot.backings.items()}
        assert (places["a"].ttl, places["a"].keep, places["a"].longest) == (30, 60, 1024)
        assert (places["b"].ttl, places["b"].keep, places["b"].longest) == (300, 3600, 262144)
        assert isinstance(snapshot.backings["a"].source, CardSource)
