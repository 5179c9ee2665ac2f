"""Counts are rendered as Prometheus's own library would, and cost next to nothing to make."""

import threading

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from gateway.telemetry.counters import Distribution, Spread, Tally


def rendered(*collectors: Tally | Distribution) -> str:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()


def test_a_counter_counts_for_each_combination_of_labels() -> None:
    tally = Tally("calls_total", "Calls.", ("agent", "outcome"))
    tally.add(("a", "ok"))
    tally.add(("a", "ok"), 2)
    tally.add(("b", "no"))
    assert 'calls_total{agent="a",outcome="ok"} 3.0' in rendered(tally)
    assert 'calls_total{agent="b",outcome="no"} 1.0' in rendered(tally)
    assert "# TYPE calls_total counter" in rendered(tally)


def test_a_name_that_does_not_end_in_total_is_a_gauge() -> None:
    tally = Tally("open", "Open.", ("agent",))
    tally.add(("a",), 2)
    tally.add(("a",), -1)
    tally.set(("b",), 7)
    text = rendered(tally)
    assert "# TYPE open gauge" in text
    assert 'open{agent="a"} 1.0' in text
    assert 'open{agent="b"} 7.0' in text


def test_a_histogram_says_what_the_librarys_own_would_say() -> None:
    bounds = (0.1, 1, 10)
    registry = CollectorRegistry()
    own = Histogram("took_seconds", "Took.", ("kind",), buckets=bounds, registry=registry)
    ours = Distribution("took_seconds", "Took.", ("kind",), bounds)
    for value in (0.05, 0.1, 0.11, 1, 5, 10, 11):
        own.labels("send").observe(value)
        ours.of(("send",)).observe(value)
    wanted = [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
    assert rendered(ours).splitlines() == wanted


def test_a_series_is_made_once() -> None:
    ours = Distribution("took_seconds", "Took.", ("kind",), (1,))
    assert ours.of(("send",)) is ours.of(("send",))
    assert ours.of(("send",)) is not ours.of(("task",))


def test_the_buckets_of_a_series_add_up_to_its_count() -> None:
    spread = Spread((1.0, 2.0), [0, 0, 0])
    for value in (0.5, 1.5, 2.5, 2.0):
        spread.observe(value)
    assert (spread.counts, spread.sum) == ([1, 2, 1], 6.5)


def test_rendering_while_new_series_are_counted_loses_and_breaks_nothing() -> None:
    tally = Tally("calls_total", "Calls.", ("agent",))
    done = threading.Event()
    failed: list[BaseException] = []

    def render() -> None:
        try:
            while not done.is_set():
                rendered(tally)
        except RuntimeError as error:  # a dictionary that changed while it was read
            failed.append(error)

    thread = threading.Thread(target=render)
    thread.start()
    for number in range(20_000):
        tally.add((str(number % 997),))
    done.set()
    thread.join()
    assert failed == []
    total = sum(sample.value for metric in tally.collect() for sample in metric.samples)
    assert total == 20_000


def test_a_share_is_rendered_like_any_other_series() -> None:
    tally = Tally("events_total", "Events.", ("agent", "event"))
    share = tally.share(("a",))
    share["task"] = share.get("task", 0) + 1
    assert tally.share(("a",)) is share
    tally.add(("b", "task"), 2)
    assert 'events_total{agent="a",event="task"} 1.0' in rendered(tally)
    assert 'events_total{agent="b",event="task"} 2.0' in rendered(tally)


def test_series_of_what_is_gone_are_dropped_and_no_others() -> None:
    tally = Tally("calls_total", "Calls.", ("agent", "outcome"))
    shared = Tally("events_total", "Events.", ("agent", "event"))
    open_now = Tally("open", "Open.", ("agent",))
    times = Distribution("seconds", "Times.", ("agent",), (1,))
    kept, idle = shared.share(("b",)), shared.share(("c",))
    for agent in ("a", "b"):
        tally.add((agent, "ok"))
        shared.share((agent,))["task"] = 1
        open_now.share(())[agent] = 0
        times.of((agent,)).observe(0.5)
    for each in (tally, shared, open_now, times):
        each.drop(lambda values: values[0] == "a")
    text = rendered(tally, shared, open_now, times)
    assert 'agent="a"' not in text
    assert text.count('agent="b"') == 7
    # Who has asked for a share counts in it as before, also where nothing was counted in it yet.
    kept["task"] += 1
    idle["task"] = 5
    assert 'events_total{agent="b",event="task"} 2.0' in rendered(shared)
    assert 'events_total{agent="c",event="task"} 5.0' in rendered(shared)
