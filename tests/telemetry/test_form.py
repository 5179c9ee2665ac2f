"""The form of the logs: JSON for programs, text with colour for people at a terminal."""

import io
import logging
import os
import re
from typing import Literal, cast

from gateway.telemetry import log
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.log_output import Form, form_of
from tests.table import for_each

Written = Literal["json", "text"] | None


@for_each(
    ("written", "on_terminal", "environ", "form"),
    [
        (None, False, {}, "json"),
        (None, True, {}, "colour"),
        (None, True, {"NO_COLOR": ""}, "colour"),
        (None, True, {"NO_COLOR": "1"}, "text"),
        (None, True, {"TERM": "dumb"}, "text"),
        ("json", True, {}, "json"),
        ("text", True, {}, "colour"),
        ("text", False, {}, "text"),
    ],
)
def test_a_terminal_gets_text_in_colour_and_a_pipe_json(
    written: Written, *, on_terminal: bool, environ: dict[str, str], form: Form
) -> None:
    ends = os.openpty() if on_terminal else os.pipe()
    with os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb", 0) as stream:
        assert form_of(written, cast("io.BufferedWriter", stream), environ) == form


def test_colours_are_the_gateways_own_and_never_a_clients() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream, form="colour")
    for outcome in ("ok", "denied", "upstream_error"):
        access.write({"status": 200, "outcome": outcome, "path": "/\x1b[31m\n"})
    access.close(timeout=10)
    lines = stream.getvalue().decode().splitlines()
    assert [re.findall(r"\x1b\[(\d+)m[^\x1b]*\x1b\[0m", line) for line in lines] == [
        ["90", "32"],
        ["90", "33"],
        ["90", "31"],
    ]
    assert all(line.count("\x1b") == 4 and line.endswith(r'"/\u001b[31m\n" -') for line in lines)


def test_the_own_log_marks_warnings_and_errors_in_colour() -> None:
    for level, shown in (("ERROR", "\x1b[31mERROR  \x1b[0m"), ("WARNING", "\x1b[33mWARNING\x1b[0m"), ("INFO", "INFO")):
        record = logging.makeLogRecord({"levelname": level, "levelno": getattr(logging, level), "msg": "a\x1b[1mb"})
        line = log.render_text(record, in_colour=True).decode()
        assert shown in line
        assert r"a\x1b[1mb" in line
