"""Settings that need a restart are told with their places; all others are applied as written."""

from pathlib import Path
from typing import Any

from gateway.config.check import examine
from gateway.config.diff import until_restart
from tests.table import for_each

HEAD = "version: 1\nagents: {}\n"


def told(running: str, written: str, *, has_store: bool = True) -> tuple[list[tuple[object, int]], list[Any]]:
    old, new = (examine(Path("gateway.yaml"), {}, text=HEAD + text) for text in (running, written))
    assert old.config is not None
    assert new.config is not None
    merged, waiting = until_restart(old.config, new.config, new.marks, has_store=has_store)
    shown = [merged.gateway.listen, merged.gateway.state, merged.push.mode, merged.gateway.public_url]
    return [(each.as_json()["path"], each.place.line) for each in waiting], shown


@for_each(
    ("running", "written", "path"),
    [
        ("", "gateway: { listen: '127.0.0.1:1' }", "gateway.listen"),
        ("", "gateway: { listen_grpc: '127.0.0.1:1' }", "gateway.listen_grpc"),
        ("", "gateway: { admin: '127.0.0.1:1' }", "gateway.admin"),
        ("gateway: { state: memory }", "gateway: { ledger: { tasks: 5 } , state: memory }", "gateway.ledger"),
        ("", "gateway: { admin: { token: 0123456789abcdef0123456789abcdef } }", "gateway.admin"),
        ("gateway: { state: memory }", "gateway: { state: 'sqlite:///other.db' }", "gateway.state"),
        ("", "gateway: { http: { header_count: 5 } }", "gateway.http"),
        ("", "gateway: { grpc: { streams: 5 } }", "gateway.grpc"),
        ("", "observe: { log: { level: debug } }", "observe.log"),
        ("", "observe: { audit: '-' }", "observe.audit"),
        ("", "push: { mode: relay }", "push.mode"),
        ("push: { mode: relay }", "", "push.mode"),
    ],
)
def test_settings_of_opened_resources_wait_for_a_restart(running: str, written: str, path: str) -> None:
    waiting, _ = told(running, written)
    assert path in [each for each, _ in waiting]


@for_each(
    "written",
    [
        "gateway: { drain: 1s }",
        "gateway: { body_limit: 1MiB, heartbeat: 5s, trusted_proxies: [10.0.0.0/8], public_url: 'http://127.0.0.1' }",
        "gateway: { reload: { watch: false, poll: 0s } }",
        "push: { mode: none }",
        "defaults: { timeouts: { connect: 1s } }",
    ],
)
def test_other_settings_do_not_wait(written: str) -> None:
    assert told("", written)[0] == []


def test_a_waiting_setting_is_told_with_its_place_and_keeps_its_value() -> None:
    waiting, (listen, *_) = told("gateway: { listen: '127.0.0.1:1' }", "gateway:\n  listen: 127.0.0.1:2\n")
    assert waiting == [("gateway.listen", 4)]
    assert listen == ("127.0.0.1:1",)


def test_a_store_that_is_not_open_is_opened_where_the_file_says_by_then() -> None:
    assert told("", "gateway: { state: memory }")[0] == [("gateway.state", 3)]
    waiting, (_, state, *_) = told("", "gateway: { state: memory }", has_store=False)
    assert waiting == []
    assert state is not None


def test_the_url_that_agents_were_given_callbacks_below_stays() -> None:
    relay = "push: { mode: relay }\ngateway: { public_url: 'http://127.0.0.1:%d' }"
    waiting, (*_, public) = told(relay % 1, relay % 2)
    assert [path for path, _ in waiting] == ["gateway.public_url"]
    assert public == "http://127.0.0.1:1"
