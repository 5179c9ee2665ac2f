"""Settings for reading an agent's card: its own, else those of `defaults`."""

from gateway.config import effective
from gateway.config.effective import masked
from tests.config.reading import good
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
    assert masked(config)["agents"]["a"]["cards"] == dict(zip(("ttl", "keep", "size"), expected, strict=True))
