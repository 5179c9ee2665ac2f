"""The access log is one safe line per exchange."""

import io
import json
import math
import re
from collections.abc import Mapping
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.access_log import LONGEST, AccessLog

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def written(*lines: Mapping[str, object], form: Literal["json", "text"] = "json") -> bytes:
    stream = io.BytesIO()
    log = AccessLog(stream, form=form)
    for line in lines:
        log.write(line)
    log.close(timeout=10)
    assert log.dropped == 0
    return stream.getvalue()


def test_a_line_is_one_json_object_with_its_time_first() -> None:
    line = written({"request_id": "r1", "status": 200, "stream": False, "duration_s": 0.1234567891})
    assert line.endswith(b"\n")
    read = json.loads(line)
    assert TIME.fullmatch(read.pop("time"))
    assert read == {"request_id": "r1", "status": 200, "stream": False, "duration_s": 0.123457}
    assert line.startswith(b'{"time":')


def test_long_values_are_cut() -> None:
    read = json.loads(written({"path": "/" + "x" * 10_000}))
    assert len(read["path"]) == LONGEST + 1
    assert read["path"].endswith("…")


def test_a_line_that_is_flat_is_written_as_it_is() -> None:
    given_ = {"path": "/a\x1b[31m", "task_id": "x" * 300, "status": 200, "agent": None, "duration_s": 0.5}
    forms: tuple[Literal["json", "text"], ...] = ("json", "text")
    for form in forms:
        stream = io.BytesIO()
        log = AccessLog(stream, form=form)
        log.write(given_, flat=True)
        log.close(timeout=10)
        assert re.fullmatch(rb"[\x20-\x7e]+\n", stream.getvalue())
    assert json.loads(written({}))["time"]


def test_numbers_that_json_lacks_are_words() -> None:
    assert json.loads(written({"a": math.nan, "b": math.inf}))["a"] == "nan"


@given(st.text(), st.sampled_from(["json", "text"]))
def test_nothing_a_client_sends_starts_a_line_or_moves_a_cursor(value: str, form: Literal["json", "text"]) -> None:
    line = written({"path": value}, form=form)
    assert re.fullmatch(rb"[\x20-\x7e]+\n", line)


def test_text_tells_a_person_who_called_what_and_how_it_went() -> None:
    line = written(
        {
            "request_id": "r1",
            "agent": "echo",
            "tenant": "acme",
            "operation": "SendMessage",
            "status": 200,
            "outcome": "client_error",
            "reason": "no_route",
            "duration_s": 0.00312,
            "method": "POST",
            "path": "/a b",
            "bytes_in": 7,
        },
        form="text",
    )
    assert line.split(b" ", 1)[1] == (
        b'200 client_error acme -> echo SendMessage POST "/a b" 3.1ms reason=no_route request_id=r1\n'
    )


def test_text_lines_mark_unknown_values() -> None:
    assert written({"status": 404}, form="text").split(b" ", 1)[1] == b"404 - - -> - - - - -\n"
