"""Counts are rendered as Prometheus's own library would, and cost next to nothing to make."""

import threading

import prometheus_client
from prometheus_client import CollectorRegistry, generate_latest

from gateway.telemetry.counters import Counter, Histogram


def rendered(*collectors: Counter | Histogram) -> str:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()


def test_a_histogram_says_what_the_librarys_own_would_say() -> None:
    bounds = (0.1, 1, 10)
    registry = CollectorRegistry()
    own = prometheus_client.Histogram("took_seconds", "Took.", ("kind",), buckets=bounds, registry=registry)
    ours = Histogram("took_seconds", "Took.", ("kind",), bounds)
    for value in (0.05, 0.1, 0.11, 1, 5, 10, 11):
        own.labels("send").observe(value)
        ours.of(("send",)).observe(value)
    wanted = [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
    assert rendered(ours).splitlines() == wanted


def test_rendering_while_new_series_are_counted_loses_and_breaks_nothing() -> None:
    counter = Counter("calls_total", "Calls.", ("agent",))
    done = threading.Event()
    failed: list[BaseException] = []

    def render() -> None:
        try:
            while not done.is_set():
                rendered(counter)
        except RuntimeError as error:  # a dictionary that changed while it was read
            failed.append(error)

    thread = threading.Thread(target=render)
    thread.start()
    for number in range(20_000):
        counter.add((str(number % 997),))
    done.set()
    thread.join()
    assert failed == []
    total = sum(sample.value for metric in counter.collect() for sample in metric.samples)
    assert total == 20_000


def test_only_series_of_removed_objects_are_dropped() -> None:
    counter = Counter("calls_total", "Calls.", ("agent", "outcome"))
    shared = Counter("events_total", "Events.", ("agent", "event"))
    open_now = Counter("open", "Open.", ("agent",))
    times = Histogram("seconds", "Times.", ("agent",), (1,))
    kept, idle = shared.share(("b",)), shared.share(("c",))
    for agent in ("a", "b"):
        counter.add((agent, "ok"))
        shared.share((agent,))["task"] = 1
        open_now.share(())[agent] = 0
        times.of((agent,)).observe(0.5)
    for each in (counter, shared, open_now, times):
        each.drop(lambda values: values[0] == "a")
    text = rendered(counter, shared, open_now, times)
    assert 'agent="a"' not in text
    assert text.count('agent="b"') == 7
    # A share that was handed out still counts, even if it was unused.
    kept["task"] += 1
    idle["task"] = 5
    assert 'events_total{agent="b",event="task"} 2.0' in rendered(shared)
    assert 'events_total{agent="c",event="task"} 5.0' in rendered(shared)
