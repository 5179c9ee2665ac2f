"""The bounds that an operator may change: what holds where nothing is written, and what can be no bound."""

from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.config.limit import (
    DEFAULT_CONNECTIONS,
    Body,
    Cards,
    Connections,
    Cors,
    Grpc,
    Http,
    Ledger,
    Limits,
    TenantLimits,
    Verification,
)

MIB = 1024 * 1024
DAY = 86_400


def told(text: str) -> list[str]:
    examined = examine(Path("gateway.yaml"), {}, text=f"version: 1\nagents: {{a: http://127.0.0.1:1}}\n{text}\n")
    return [f"{problem.place.line}: {problem.fact}" for problem in examined.problems if problem.severity == "error"]


def test_the_defaults_are_those_of_the_table() -> None:
    http = Http()
    assert (http.target, http.headers, http.header_count, http.header_timeout) == (8192, 32768, 100, 10)
    assert (http.body_idle, http.body_rate, http.keep_alive) == (30, 1024, 30)
    assert (http.write_buffer, http.write_stall, http.tls_handshake) == (65536, 30, 10)
    assert (Body().depth, Body().members, Body().aside) == (64, 10_000, 256 * 1024)
    grpc = Grpc()
    assert (grpc.connections, grpc.streams, grpc.metadata, grpc.resets) == (10_000, 4096, 32768, 200)
    assert (grpc.keepalive, grpc.idle, grpc.deadline, grpc.scope_field) == (60, 900, 10, 100)
    proofs = Verification()
    assert (proofs.remember, proofs.remember_bad, proofs.entries) == (60, 5, 10_000)
    assert (proofs.keys_every, proofs.keys_on_demand, proofs.keys_kept) == (300, 10, 86_400)
    assert (proofs.keys_size, proofs.keys_count) == (MIB, 100)
    assert (Cards().refresh, Cards().size) == (600, 256 * 1024)
    assert (DEFAULT_CONNECTIONS.max, DEFAULT_CONNECTIONS.queue, DEFAULT_CONNECTIONS.queue_timeout) == (1024, 100, 1)
    assert (DEFAULT_CONNECTIONS.headers, DEFAULT_CONNECTIONS.header_count) == (32768, 100)
    assert (DEFAULT_CONNECTIONS.idle, DEFAULT_CONNECTIONS.event, DEFAULT_CONNECTIONS.kept) == (4, 16 * MIB, 32 * MIB)
    ledger = Ledger()
    assert (ledger.ended, ledger.open, ledger.tasks, ledger.contexts) == (30 * DAY, 90 * DAY, 100_000, 100_000)


def test_nothing_is_limited_that_is_not_written() -> None:
    assert set(TenantLimits().model_dump().values()) == {None}
    assert set(TenantLimits.model_fields) - set(Limits.model_fields) == {"open_tasks", "weight"}


def test_limits_are_written_with_their_units() -> None:
    written = {"requests": "600/min", "burst": 50, "body": "1MiB", "bandwidth": "10MiB/s", "queue": 0, "weight": 2}
    limits = TenantLimits.model_validate(written)
    assert (limits.requests, limits.burst, limits.queue, limits.weight) == ((600.0, 60.0), 50, 0, 2)
    assert (limits.body, limits.bandwidth) == (MIB, 10 * MIB)


def test_what_an_agent_does_not_write_is_left_to_the_defaults() -> None:
    assert set(Connections().model_dump().values()) == {None}


def test_pages_may_call_from_the_origins_that_are_written_alone() -> None:
    cors = Cors(origins=("https://console.example.com",))
    assert (cors.credentials, cors.headers, cors.max_age) == (False, (), 600)


def test_cards_have_a_short_form() -> None:
    assert Cards.model_validate("5m").refresh == 300


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("gateway: {http: {header_count: 0}}", "is not enough"),
        ("gateway: {http: {header_timeout: 0s}}", "is no time to wait"),
        ("gateway: {http: {target: many}}", "is no size"),
        ("gateway: {body: {depth: 0}}", "is not enough"),
        ("gateway: {grpc: {streams: 0}}", "is not enough"),
        ("gateway: {grpc: {keepalive: 0s}}", "is no time to wait"),
        ("gateway: {grpc: {metadata: many}}", "is no size"),
        ("gateway: {grpc: {scope_field: 3}}", "can be no field's number here"),
        ("gateway: {grpc: {scope_field: 19999}}", "can be no field's number here"),
        ("gateway: {grpc: {scope_field: 536870912}}", "can be no field's number here"),
        ("auth: {verification: {failures: 600}}", "is no rate"),
        ("auth: {verification: {failures: 0/min}}", "is no rate"),
        ("auth: {verification: {failures: 600/day}}", "is no rate"),
        ("defaults: {connections: {max: 0}}", "is not enough"),
        ("defaults: {cards: {refresh: 0s}}", "is no time to wait"),
        ("defaults: {limits: {requests: 0/s}}", "is no rate"),
        ("defaults: {limits: {requests: -5/s}}", "is no rate"),
        ("defaults: {limits: {requests: 600}}", "is no rate"),
        ("defaults: {limits: {burst: 0}}", "is not enough"),
        ("defaults: {limits: {concurrency: 0}}", "is not enough"),
        ("defaults: {limits: {concurrency: -1}}", "is no whole number"),
        ("defaults: {limits: {queue: -1}}", "is no whole number"),
        ("defaults: {limits: {queue_timeout: 0s}}", "is no time to wait"),
        ("defaults: {limits: {streams: 0}}", "is not enough"),
        ("defaults: {limits: {body: 0}}", "is not enough"),
        ("defaults: {limits: {bandwidth: 0}}", "is not enough"),
        ("defaults: {limits: {bandwidth: 1MiB/min}}", "is no number of bytes a second"),
        ("defaults: {limits: {weight: 2}}", "unknown key 'weight'"),
        ("defaults: {limits: {open_tasks: 2}}", "unknown key 'open_tasks'"),
        ("tenants: {t: {agents: a, limits: {open_tasks: 0}}}", "is not enough"),
        ("tenants: {'*': {agents: a, limits: {weight: 0}}}", "is not enough"),
        ("gateway: {ledger: {ended: 999ms}}", "is no time to remember something"),
        ("gateway: {ledger: {open: 0s}}", "is no time to remember something"),
        ("gateway: {ledger: {tasks: 0}}", "is not enough"),
        ("gateway: {replicas: 0}", "is not enough"),
    ],
)
def test_what_bounds_nothing_is_refused_at_its_place(text: str, fact: str) -> None:
    assert any(one.startswith("3: ") and fact in one for one in told(text)), told(text)


@pytest.mark.parametrize("number", ["4", "18999", "20000", "536870911"])
def test_the_scope_has_any_number_that_is_free(number: str) -> None:
    assert told(f"gateway: {{grpc: {{scope_field: {number}}}}}") == []
