"""The audit log: who was kept from what."""

import json
import logging
import os
import stat
from pathlib import Path

import pytest

from gateway.telemetry.audit_log import FIELDS, STRANGERS, AuditEvent, AuditLog
from gateway.telemetry.log_output import RotatedFile

LINE = {
    "request_id": "r1",
    "tenant": "acme",
    "principal": "alice",
    "agent": "crm",
    "operation": "GetTask",
    "task_id": "t1",
    "reason": "task_not_owned",
    "detail": "it is another's",
    "status": 404,
    "path": "/crm?token=secret",
}


def test_an_event_of_a_call_says_who_and_what_and_nothing_else(tmp_path: Path) -> None:
    audit = AuditLog.open(tmp_path / "audit.log")
    audit.call(AuditEvent.TASK_DENIED, LINE)
    audit.close()
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told.pop("event") == "task_denied"
    assert set(told) == set(FIELDS)
    assert told["tenant"] == "acme"
    assert told["task_id"] == "t1"
    assert "secret" not in line


def test_the_audit_log_is_appended_to_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for name in ("one", "two"):
        audit = AuditLog.open(path)
        audit.write(AuditEvent.STATE_ERASED, {"tenant": name})
        audit.close()
    assert [json.loads(line)["tenant"] for line in path.read_text().splitlines()] == ["one", "two"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_refused_credentials_are_logged_a_few_a_second_and_counted_beyond(tmp_path: Path) -> None:
    now = [100.0]
    audit = AuditLog.open(tmp_path / "audit.log", clock=lambda: now[0])
    for _ in range(STRANGERS + 500):
        audit.call(AuditEvent.IDENTITY_REFUSED, LINE)
    audit.call(AuditEvent.TASK_DENIED, LINE)
    now[0] += 1.0
    for _ in range(2):
        audit.call(AuditEvent.IDENTITY_REFUSED, LINE)
    audit.close()
    told = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [each["event"] for each in told[STRANGERS:]] == ["task_denied", "identity_refused", "identity_refused"]
    assert [each.get("omitted") for each in told] == [None] * (STRANGERS + 1) + [500, None]


def test_a_file_that_was_moved_away_is_followed_by_another(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = RotatedFile(path)
    file.write(b"one\n")
    path.rename(tmp_path / "audit.log.1")
    file.write(b"two\n")
    path.unlink()
    file.write(b"three\n")
    file.close()
    assert (tmp_path / "audit.log.1").read_bytes() == b"one\n"
    assert path.read_bytes() == b"three\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_old_file_is_used_if_a_new_one_cannot_be_opened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "here").mkdir()
    file = RotatedFile(tmp_path / "here" / "audit.log")
    (tmp_path / "here").rename(tmp_path / "there")
    file.write(b"one\n")
    file.close()
    assert (tmp_path / "there" / "audit.log").read_bytes() == b"one\n"
    assert "cannot be opened again" in caplog.text


def test_a_pipe_that_nobody_reads_from_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.log")
    with pytest.raises(OSError, match="No such device"):
        AuditLog.open(tmp_path / "audit.log")


def test_values_of_clients_start_no_line_of_their_own(tmp_path: Path) -> None:
    audit = AuditLog.open(tmp_path / "audit.log")
    audit.call(AuditEvent.TASK_DENIED, {**LINE, "task_id": 't\n{"event":"forged"}\x1b[2J' + "x" * 1000})
    audit.close()
    (line,) = (tmp_path / "audit.log").read_bytes().splitlines()
    assert line.isascii()
    assert len(json.loads(line)["task_id"]) < 300


def test_audit_events_without_a_file_go_to_the_gateways_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gateway.audit"):
        AuditLog().call(AuditEvent.AGENT_DENIED, LINE)
    (record,) = caplog.records
    assert record.getMessage() == "agent_denied"
    assert record.__dict__["audit_tenant"] == "acme"
    assert "audit_trace_id" not in record.__dict__


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="audit"):
        AuditLog.open(tmp_path / "missing" / "audit.log")
