from pathlib import Path

from gateway.config.check import examine
from tests.config.reading import errors, warnings
from tests.table import for_each

AGENTS = "agents: { a: http://127.0.0.1:1 }\n"


def text(gateway: str = "", observe: str = "") -> str:
    return f"version: 1\ngateway: {{ {gateway} }}\nobserve: {{ {observe} }}\n{AGENTS}"


@for_each(
    "gateway",
    [
        *("replicas: 1", "state: memory", "replicas: 3, state: 'redis://h'", "replicas: 3, state: 'rediss://h'"),
        *("replicas: 3, state: 'unix:///run/redis.sock'", "state: 'sqlite:///no/such/folder/state.db'"),
    ],
)
def test_one_gateway_keeps_its_state_anywhere(gateway: str) -> None:
    assert errors(text(gateway)) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    found = examine(tmp_path / "gateway.yaml", {}, text=text("state: 'sqlite://data'", "audit: data"))
    assert [(one.path, one.fact) for one in found.errors] == [
        (("gateway", "state"), "this is a folder"),
        (("observe", "audit"), "'data' is a folder"),
    ]


def test_audit_events_go_to_standard_output_or_beside_the_file() -> None:
    for written in ("audit: '-'", "audit: { file: '-' }", "audit: audit.jsonl", "audit: no/such/folder/audit.jsonl"):
        assert errors(text(observe=written)) == []


def test_audit_events_that_nobody_would_hear_of_are_told() -> None:
    quiet = "log: { level: warning }"
    fact = "audit events are logged at level info, so that they are lost"
    assert warnings(text(observe=quiet)) == [("observe.log.level", fact)]
    assert warnings(text(observe=f"{quiet}, audit: x.jsonl")) == []


def test_audit_events_are_not_written_over_the_state() -> None:
    assert errors(text("state: 'sqlite://data/../x.db'", "audit: x.db")) == [
        ("observe.audit", "the state is kept there (line 2)")
    ]
    assert errors(text("state: 'sqlite://y.db'", "audit: x.db")) == []


@for_each(
    ("ledger", "key"),
    [("ended: 91d", "ended"), ("open: 7d", "open"), ("ended: 10d, open: 9d", "ended")],
)
def test_tasks_that_are_over_should_not_outlive_those_that_are_not(ledger: str, key: str) -> None:
    fact = "ended tasks are remembered for longer than open ones and than their contexts"
    assert warnings(text(f"ledger: {{ {ledger} }}")) == [(f"gateway.ledger.{key}", fact)]


@for_each("ledger", ["", "ended: 90d", "open: 30d", "ended: 5d, open: 5d"])
def test_as_long_is_no_longer(ledger: str) -> None:
    assert warnings(text(f"ledger: {{ {ledger} }}")) == []
