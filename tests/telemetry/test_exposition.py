"""The text is the library's own, and whoever writes it may stop at each line."""

from itertools import count

from prometheus_client import CollectorRegistry, generate_latest

from gateway.pacing import WORK, Pace, paced
from gateway.telemetry.exposition import text_of
from gateway.telemetry.tally import Distribution, Tally


def registry() -> CollectorRegistry:
    tally, spread = Tally("calls_total", "Calls.", ("agent",)), Distribution("seconds", "Time.", ("agent",), (1.0, 2.0))
    for number in range(10):
        tally.add((f"one-{number}",))
        spread.of((f"one-{number}",)).observe(number)
    found = CollectorRegistry()
    found.register(tally)
    found.register(spread)
    return found


def test_the_text_is_that_of_the_library() -> None:
    whole = registry()
    assert text_of(whole) == generate_latest(whole)
    pace = Pace(lambda turned: turned(), worked=count(0.0, 1.0).__next__, now=count(0.0, 10 * WORK).__next__)
    assert paced(pace, text_of, whole) == generate_latest(whole)
    lines = [line for line in text_of(whole).splitlines() if not line.startswith(b"#")]
    assert pace.turns >= len(lines)
