"""The gateway's own log, on standard error: JSON lines or text, with secrets masked and control characters shown.

Warnings and unhandled exceptions of Python go through it, too.
"""

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import BinaryIO

from gateway.telemetry.log_output import GREY, RED, YELLOW, Form, Sink, coloured

LONGEST = 4_096
"""Characters of a message that are kept."""
LONGEST_VALUE = 256
"""Characters of an argument of a message, or of an extra field, that are kept: they may hold text of peers."""
LONGEST_EXCEPTION = 16_384
"""Characters of a traceback that are kept: the last ones, which have the cause."""

logger = logging.getLogger("gateway.telemetry.log")

_QUIET = ("httpx", "httpcore", "asyncio", "uvicorn.error", "watchfiles")
"""Loggers of libraries that log from WARNING upwards. At INFO httpx writes every URL, and watchfiles every change: a
log file in a watched folder would then grow by its own lines for ever."""

# Attributes of every record; the others were given as `extra` and are fields of their own.
_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}

_SENSITIVE = (
    r"(?:proxy-)?authorization|x-api-key|api[_-]?key|(?:set-)?cookie|(?:access|id|refresh|auth)_token|token"
    r"|client_secret|client_assertion|secret|password|passwd"
)
_SECRETS = (
    # user:password@ of a URL, up to the last @: a password may hold one
    (re.compile(r"((?:\b[a-z][a-z0-9+.-]{0,15}:)?//)[^/\s\"'<>]+@", re.IGNORECASE), r"\1***@"),
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        "***",
    ),
    (re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), r"\1\2***"),
    # API keys of this gateway, and tokens in any place
    (re.compile(r"\ba2a_[A-Za-z0-9_-]{16,}"), "a2a_***"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]*"), "***"),
    # name=value of a query or a form, 'name': 'value' or ('name', b'value') of what is printed, Name: value of a header
    (re.compile(rf"\b({_SENSITIVE})=[^&\s\"',;)\]}}]+", re.IGNORECASE), r"\1=***"),
    (re.compile(rf"\b({_SENSITIVE})([\"']\s*[:=,]\s*b?)([\"'])(?:(?!\3).)*\3", re.IGNORECASE), r"\1\2\3***\3"),
    (re.compile(r"\b((?:proxy-)?authorization|x-api-key|(?:set-)?cookie)(:\s*)[^\r\n]+", re.IGNORECASE), r"\1\2***"),
)


def configure(form: Form, level: str, *, stream: BinaryIO | None = None) -> Sink:
    """Send every logger of the process to standard error, or to `stream`; replaces what an earlier call set up.

    uvicorn's access lines are off (the access log has them), and libraries log from WARNING upwards.

    Args:
        level: debug, info, warning or error.

    Returns:
        The sink behind it, for its count of dropped lines and for closing it at the end.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LineHandler)]:
        root.removeHandler(handler)
        if handler.sink is not None:
            handler.sink.close()
    sink = Sink(sys.stderr.buffer if stream is None else stream)
    root.addHandler(_LineHandler(_RENDER[form], sink))
    set_level(level)
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False
    access.disabled = True
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Otherwise warnings of libraries and unhandled exceptions would be plain text between the lines.
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    return sink


def redact(text: str) -> str:
    """Mask bearer tokens, API keys, passwords and the userinfo of URLs in a text."""
    for pattern, mask in _SECRETS:
        text = pattern.sub(mask, text)
    return text


def printable(text: str) -> str:
    """Escape all characters of a text that move a cursor, end a line or change its direction."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def render_json(record: logging.LogRecord) -> bytes:
    """Render one line of JSON: time, level, logger, message, extra fields, and `exception` as one string."""
    fields: dict[str, object] = {
        "time": _time(record),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message(record),
        **_extra(record),
    }
    if exception := _exception(record):
        fields["exception"] = exception
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def render_text(record: logging.LogRecord, *, in_colour: bool = False) -> bytes:
    """Render one line for people with the extra fields, and a traceback on lines of its own, each with a bar."""
    time, level = _time(record), f"{record.levelname:<7}"
    if in_colour:
        colour = next((colour for least, colour in _COLOURS if record.levelno >= least), None)
        time, level = coloured(time, GREY), level if colour is None else coloured(level, colour)
    line = f"{record.name}: {_message(record)}"
    line += "".join(f" {name}={value}" for name, value in _extra(record).items())
    lines = [line, *(f"  | {line}" for line in _exception(record).splitlines())]
    text = f"{time} {level} " + "\n".join(printable(line) for line in lines) + "\n"
    return text.encode("utf-8", "backslashreplace")


_COLOURS = ((logging.ERROR, RED), (logging.WARNING, YELLOW))
_RENDER: Mapping[Form, Callable[[logging.LogRecord], bytes]] = {
    "json": render_json,
    "text": render_text,
    "colour": partial(render_text, in_colour=True),
}


def configure_directly(form: Form, level: str) -> None:
    """Configure the log of a process that forks: without a thread, each line is written at once.

    `configure` replaces it.
    """
    logging.getLogger().addHandler(_LineHandler(_RENDER[form]))
    set_level(level)


def set_level(level: str) -> None:
    """Set the least severe level that is logged: debug, info, warning or error."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def current_level() -> str:
    """Return the least severe level that is logged, in lower case."""
    return logging.getLevelName(logging.getLogger().level).lower()


class _LineHandler(logging.Handler):
    """Renders a record where it is logged, because its objects may change later.

    Args:
        sink: Writes the lines; None to write each at once to standard error.
    """

    def __init__(self, render: Callable[[logging.LogRecord], bytes], sink: Sink | None = None) -> None:
        super().__init__()
        self.sink = sink
        self._render = render

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line; a log call never raises."""
        try:
            line = self._render(record)
        except Exception as error:  # noqa: BLE001 - a record that cannot be rendered must not fail the call that logs it
            # Not `handleError`, which writes the unmasked record to standard error.
            words = {"name": record.name, "levelno": record.levelno, "levelname": record.levelname}
            args = (type(error).__name__,)
            line = self._render(logging.makeLogRecord({**words, "msg": "a record cannot be written: %s", "args": args}))
        if self.sink is not None:
            self.sink.write(line)
            return
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), line)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logger.critical("unhandled exception", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        name = "a thread" if args.thread is None else args.thread.name
        logger.error("%s ended by an exception", name, exc_info=(args.exc_type, args.exc_value, args.exc_traceback))


def _unraisable(args: "sys.UnraisableHookArgs") -> None:
    if args.exc_value is not None:
        logger.error("an exception was ignored", exc_info=(args.exc_type, args.exc_value, args.exc_traceback))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    message, args = str(record.msg), record.args
    if args:
        short = (
            {name: _short(value) for name, value in args.items()}
            if isinstance(args, Mapping)
            else (*map(_short, args),)
        )
        try:
            message %= short
        except Exception:  # noqa: BLE001 - arguments that do not fit their format are still worth reading
            message = f"{message} {short!r}"
    # More than is kept, so that a cut secret is still recognised.
    return redact(message[: 2 * LONGEST])[:LONGEST]


def _short(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return value if len(text) <= LONGEST_VALUE else redact(text[: 2 * LONGEST])[:LONGEST_VALUE] + "…"


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {
        name: value if value is None or isinstance(value, bool | int) else redact(str(_short(value)))
        for name, value in record.__dict__.items()
        if name not in _ORDINARY
    }


def _exception(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return redact("\n".join(parts)[-2 * LONGEST_EXCEPTION :])[-LONGEST_EXCEPTION:]
