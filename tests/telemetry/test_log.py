"""The gateway's own log can be read by machines and people, and gives nothing away."""

import io
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry import log
from tests.support.yardstick import cpu_seconds
from tests.table import for_each


class Captured:
    """Everything that was logged, once it is asked for."""

    def __init__(self, form: str = "json", level: str = "info") -> None:
        self._stream = io.BytesIO()
        self.sink = log.configure("json" if form == "json" else "text", level, stream=self._stream)

    def text(self) -> str:
        self.sink.close(timeout=10)
        return self._stream.getvalue().decode()

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    names = ("httpx", "httpcore", "asyncio", "uvicorn", "uvicorn.error", "uvicorn.access", "watchfiles")
    before = {
        name: (logging.getLogger(name).level, logging.getLogger(name).disabled, logging.getLogger(name).propagate)
        for name in names
    }
    yield
    logging.captureWarnings(capture=False)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    root.setLevel(level)
    root.handlers[:] = handlers
    for name, (old_level, disabled, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.setLevel(old_level)
        logger.disabled, logger.propagate = disabled, propagate


def test_a_record_is_one_line_of_json_with_its_extra_fields() -> None:
    captured = Captured()
    logging.getLogger("gateway.x").warning("agent %s is slow", "echo", extra={"request_id": "r1", "attempts": 2})
    [line] = captured.lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line.pop("time")))
    assert line == {
        "level": "warning",
        "logger": "gateway.x",
        "message": "agent echo is slow",
        "request_id": "r1",
        "attempts": 2,
    }


def test_an_exception_is_one_field() -> None:
    captured = Captured()
    try:
        raise KeyError("nothing")  # noqa: TRY301 - raised to be logged
    except KeyError:
        logging.getLogger("gateway.x").exception("failed")
    [line] = captured.lines()
    assert str(line["exception"]).startswith("Traceback")
    assert str(line["exception"]).endswith("KeyError: 'nothing'")


def test_text_marks_every_line_of_a_traceback() -> None:
    captured = Captured("text")
    try:
        raise ValueError("x\n2026-01-01T00:00:00.000Z ERROR   gateway: forged")  # noqa: TRY301 - as above
    except ValueError:
        logging.getLogger("gateway.x").exception("failed", extra={"agent": "echo"})
    first, *rest = captured.text().splitlines()
    assert first.endswith("ERROR   gateway.x: failed agent=echo")
    assert all(line.startswith("  | ") for line in rest)


def test_a_stack_is_logged_where_it_is_asked_for() -> None:
    captured = Captured()
    logging.getLogger("gateway.x").warning("here", stack_info=True)
    assert "test_a_stack_is_logged" in str(captured.lines()[0]["exception"])


@given(st.text())
def test_text_lines_hold_nothing_that_moves_a_cursor(message: str) -> None:
    record = logging.makeLogRecord({"msg": message, "name": "gateway", "levelname": "INFO"})
    line = log.render_text(record).decode()
    assert line.endswith("\n")
    assert line[:-1].isprintable()


@given(st.text())
def test_json_lines_are_ascii(message: str) -> None:
    record = logging.makeLogRecord({"msg": message, "name": "gateway", "levelname": "INFO"})
    assert re.fullmatch(rb"[\x20-\x7e]+\n", log.render_json(record))


@for_each(
    "secret",
    [
        "Authorization: Bearer S3CRET.S3CRET",
        "authorization: Basic UzNDUkVUOlMzQ1JFVA==S3CRET",
        "Authorization: S3CRET",
        "headers {'x-api-key': 'S3CRET', 'accept': '*/*'}",
        '{"password": "S3CRET S3CRET"}',
        "X-API-Key: S3CRET",
        "Cookie: session=S3CRET; other=S3CRET",
        "GET /x?access_token=S3CRET&a=b",
        "?a=b&token=S3CRET",
        "client_secret=S3CRET",
        "api_key=S3CRET",
        "connect to https://user:S3CRET@agents.example/x failed",
        "connect to https://S3CRET@agents.example/x failed",
        "key a2a_S3CRETS3CRETS3CRETS3CRET is unknown",
        "token eyJhbGciOi.eyJS3CRET.S3CRET is bad",
        "bearer S3CRETS3CRET",
        "connect to https://user:S3C@RET:S3CRET@agents.example/x failed",
        "connect to //user:S3CRET@agents.example failed",
        f"connect to https://user:{'x' * 5000}S3CRET@agents.example/x failed",
        "[('x-api-key', 'S3CRET')]",
        "[(b'authorization', b'S3CRET'), (b'accept', b'*/*')]",
        "-----BEGIN RSA PRIVATE KEY-----\nS3CRET\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nS3CRET, and then no end",
    ],
)
def test_secrets_are_masked_in_messages_fields_and_exceptions(secret: str) -> None:
    captured = Captured()
    logger = logging.getLogger("gateway.x")
    logger.warning("%s", secret, extra={"more": secret})
    try:
        raise RuntimeError(secret)  # noqa: TRY301 - as above
    except RuntimeError:
        logger.exception("failed")
    text = captured.text()
    assert "S3CRET" not in text
    assert "***" in text


@for_each(
    "plain",
    [
        "agent card of https://agents.example/x: 404",
        "no bearer token was sent",
        "issuer corp: key set has 3 keys",
        "mail to someone@example.com",
        "the token is expired",
    ],
)
def test_plain_sentences_stay_as_they_are(plain: str) -> None:
    assert log.redact(plain) == plain


def test_long_messages_and_tracebacks_are_cut() -> None:
    captured = Captured()
    try:
        raise ValueError("y" * 50_000 + "cause")  # noqa: TRY301 - as above
    except ValueError:
        logging.getLogger("gateway.x").exception("x" * 50_000)
    [line] = captured.lines()
    assert len(str(line["message"])) == log.LONGEST
    assert len(str(line["exception"])) == log.LONGEST_EXCEPTION
    assert str(line["exception"]).endswith("cause")


def test_arguments_that_do_not_fit_are_still_logged() -> None:
    record = logging.makeLogRecord({"msg": "%d of %d", "args": ("one",)})
    assert json.loads(log.render_json(record))["message"] == "%d of %d ('one',)"


def test_long_values_are_cut_in_every_place() -> None:
    captured = Captured()
    error = ValueError("e" * 1_000_000)
    logging.getLogger("gateway.x").warning("%s and %s and %d", "v" * 1_000_000, error, 7, extra={"f": "x" * 1_000_000})
    logging.getLogger("gateway.x").warning("%(name)s", {"name": "v" * 1_000_000})
    first, second = captured.lines()
    assert first["message"] == f"{'v' * log.LONGEST_VALUE}… and {'e' * log.LONGEST_VALUE}… and 7"
    assert first["f"] == f"{'x' * log.LONGEST_VALUE}…"
    assert second["message"] == f"{'v' * log.LONGEST_VALUE}…"


@for_each("form", ["json", "text"])
def test_cut_values_show_no_half_of_a_secret(form: str) -> None:
    captured = Captured(form)
    for length in range(log.LONGEST_VALUE - 40, log.LONGEST_VALUE + 1, 3):
        text = "x" * length + " Authorization: Bearer S3CRETS3CRETS3CRET https://user:S3CRET@h/"
        logging.getLogger("gateway.x").warning("%s", text, extra={"more": text})
    for length in range(log.LONGEST - 40, log.LONGEST + 1, 3):
        logging.getLogger("gateway.x").warning("x" * length + " Bearer S3CRETS3CRETS3CRET")  # noqa: G003 - the message itself
    text = captured.text()
    assert "S3C" not in text
    assert "S3" not in text.replace("S3CRET", "")


@for_each("unit", ["a", "token:'", "token=", "//", "http://a@", "bearer ", "eyJ", "authorization: ", "password', '"])
def test_hostile_text_is_masked_without_much_work(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    record = logging.makeLogRecord({"msg": "%s", "args": (text,), "name": "gateway", "more": text})

    def masked() -> None:
        log.render_json(record)
        log.redact(text[:20_000])

    assert cpu_seconds(masked) < 0.5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_uncaught_exceptions_are_logged_like_other_lines(capsys: pytest.CaptureFixture[str]) -> None:
    captured = Captured()
    secret = "https://user:S3CRET@agents.example/"

    def fail() -> None:
        raise RuntimeError(secret)

    class Unraisable:
        def __del__(self) -> None:
            raise RuntimeError(secret)

    worker = threading.Thread(target=fail, name="worker")
    worker.start()
    worker.join()
    Unraisable()
    try:
        fail()
    except RuntimeError as error:
        sys.excepthook(RuntimeError, error, error.__traceback__)
    lines = captured.lines()
    assert [line["message"] for line in lines] == [
        "worker ended by an exception", "an exception was ignored", "unhandled exception",
    ]  # fmt: skip
    assert all("RuntimeError: https://***@agents.example/" in str(line["exception"]) for line in lines)
    assert capsys.readouterr().err == ""


def test_the_level_is_obeyed() -> None:
    captured = Captured(level="warning")
    logging.getLogger("gateway.x").info("quiet")
    logging.getLogger("gateway.x").warning("loud")
    assert [line["message"] for line in captured.lines()] == ["loud"]


def test_uvicorn_says_warnings_only_and_never_writes_access_lines() -> None:
    logging.getLogger("uvicorn.access").addHandler(logging.StreamHandler())
    captured = Captured(level="debug")
    logging.getLogger("uvicorn.access").error("GET /")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("httpx").info("HTTP Request: GET https://agents.example")
    # A log file beside the configuration would grow by its own lines.
    logging.getLogger("watchfiles.main").info("1 change detected")
    assert [line["message"] for line in captured.lines()] == ["Invalid HTTP request received."]


def test_warnings_of_libraries_become_records() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        captured = Captured()
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "DeprecationWarning: old" in str(captured.lines()[0]["message"])
