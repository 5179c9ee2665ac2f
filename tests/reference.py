"""Writes the pages of docs/reference from the code: `python -m tests.reference`."""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_origin

import typer.main
import yaml

from gateway import __version__
from gateway.a2a import fault, headers
from gateway.cli import app
from gateway.config.agent import (
    DEFAULT_AFFINITY,
    DEFAULT_BREAKER,
    DEFAULT_EJECT,
    DEFAULT_HEALTH,
    DEFAULT_IDENTITY_HEADERS,
    DEFAULT_RETRY,
    DEFAULT_TIMEOUTS,
)
from gateway.config.external_settings import SETTINGS
from gateway.config.json_schema import schema
from gateway.config.limit import DEFAULT_CONNECTIONS, DEFAULT_LIMITS, DEFAULT_TENANT_LIMITS
from gateway.config.model import Config
from gateway.config.values import Part
from gateway.listener.admin import OPERATIONS
from gateway.proxy.request import FIELDS
from gateway.telemetry import audit_log
from tests.bounds import CONSTANTS, KEYS, Beyond, measured, ranges, value_and_reason
from tests.config.examples import examples, part_in

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
RELEASES = sorted((ROOT / "tests" / "config" / "keys").glob("*.txt"))
"""The keys of each release, one a line; `python -m tests.reference --release` writes those of this version."""
DEFAULTS = {
    type(each).__name__: each.model_dump(by_alias=True)
    for each in (
        DEFAULT_AFFINITY,
        DEFAULT_BREAKER,
        DEFAULT_CONNECTIONS,
        DEFAULT_EJECT,
        DEFAULT_HEALTH,
        DEFAULT_IDENTITY_HEADERS,
        DEFAULT_LIMITS,
        DEFAULT_RETRY,
        DEFAULT_TENANT_LIMITS,
        DEFAULT_TIMEOUTS,
    )
}
"""Defaults that a mapping does not have itself, because an agent's own come before those of `defaults`."""
PATTERNS = (
    ("ms|s|m|h|d", "duration"),
    ("(/s)?", "size a second"),
    ("[KMG]", "size"),
    ("s|min|h", "rate"),
    (r"\d{4}-", "date"),
    ("[0-7]", "octal digits"),
    ("^[01]", "share from 0 to 1"),
)
"""Kinds of values by a part of the pattern of their texts; the first one counts."""
LONGEST_EXAMPLE = 70
PERIODS = {1.0: "s", 60.0: "min", 3600.0: "h"}
UNITS = {86400: "d", 3600: "h", 60: "m", 1: "s"}
NOTE = "Generated from the code by `python -m tests.reference`; a test compares the two.\n"


def cell(value: object) -> str:
    """Return text that fits into a cell of a table."""
    text = " ".join(str(value).split()).replace("|", "\\|")
    # In code nothing is a tag.
    return "`".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(text.split("`")))


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cell(each) for each in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def kind_of(node: dict[str, Any]) -> str:
    """Return the type of a schema in a few words, without the `${…}` that stands for any value."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in node:
        return ", ".join(f"`{each}`" for each in node["enum"])
    if "const" in node:
        return f"`{flow(node['const'])}`"
    if "anyOf" in node:
        choices = [each for each in node["anyOf"] if each.get("pattern") != r"\$\{"]
        kinds = list(dict.fromkeys(kind_of(each) for each in choices))
        if len(kinds) > 1 and kinds[-1].startswith(("size", "share")):
            return kinds[-1]  # A number stands for one without a unit.
        return " or ".join(kinds)
    if node.get("type") == "array":
        return f"list of {kind_of(node.get('items', {}))}"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map to {kind_of(node['additionalProperties'])}"
    pattern = str(node.get("pattern", ""))
    return next((kind for part, kind in PATTERNS if part in pattern), str(node.get("type", "any value")))


def mapping_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return the long form of a definition."""
    return next((each for each in node.get("anyOf", ()) if "properties" in each), node)


def mappings() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, definition and keys of each mapping of the file."""
    made = schema()
    for name, node in (("Config", made), *made["$defs"].items()):
        yield name, node, mapping_of(node).get("properties", {})


def default_of(name: str, key: str, node: dict[str, Any]) -> str:
    """Return the default as a file would write it; empty where there is none."""
    value = node.get("default", DEFAULTS.get(name, {}).get(key))
    if value is None or kind_of(node).startswith("["):
        return ""
    written = WRITTEN.get(kind_of(node))
    return f"`{flow(value) if written is None else written(value)}`"


def duration(seconds: float) -> str:
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    if not seconds:
        return "0s"
    unit = next((unit for unit in UNITS if seconds % unit == 0), 1)
    return f"{seconds / unit:g}{UNITS[unit]}"


def size(count: int) -> str:
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def rate(value: tuple[float, float]) -> str:
    count, seconds = value
    return f"{count:g}/{PERIODS[seconds]}"


WRITTEN: dict[str, Callable[[Any], str]] = {
    "duration": duration,
    "rate": rate,
    "size": size,
    "octal digits": lambda mode: f'"{mode:04o}"',
}
"""Kinds of values whose defaults are numbers that the file writes with a unit."""


def flow(value: object) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def example_of(values: list[Any], node: dict[str, Any], default: str) -> str:
    """Return the first example that is not the default, or any; long ones of other mappings are shown there."""
    short = [text for each in values if len(text := flow(each)) <= LONGEST_EXAMPLE]
    if not short:
        return "below" if "](#" in kind_of(node) else f"`{flow(values[0])}`"
    telling = [text for text in short if text not in ("{}", "null") and f"`{text}`" != default]
    return f"`{(telling or short)[0]}`"


def since(name: str, key: str) -> str:
    """Return the first release that has the key."""
    return next((each.stem for each in RELEASES if f"{name}.{key}" in each.read_text().split()), "unreleased")


def configuration() -> str:
    shown = examples()
    page = (
        f"# Configuration\n\n{NOTE}\nThe [reference file](../../config/gateway.reference.yaml) shows most keys in use."
        "\n\n- **example**: a value of that file, of another of `config/`, or of a page; a test has it accepted "
        "there. *below*: see the table of that mapping.\n"
        "- **since**: the first release with the key.\n"
        "- The least and the most that a number may be is in [limits and bounds](limits-and-bounds.md).\n"
    )
    for name, node, keys in mappings():
        rows = (
            (
                f"`{key}`",
                one.get("description", ""),
                kind_of(one),
                default := default_of(name, key, one),
                example_of(shown[name, key], one, default),
                since(name, key),
            )
            for key, one in keys.items()
        )
        title, words = ("The file", "") if name == "Config" else (name, cell(node.get("description", "")))
        page += f"\n## {title}\n\n" + (f"{words}\n\n" if words else "")
        keyed = table(("key", "meaning", "type", "default", "example", "since"), rows)
        page += f'<div class="keys" markdown>\n\n{keyed}\n</div>\n'
    return page


def paths(part: type[Part], at: str) -> Iterator[tuple[str, str]]:
    """Yield each mapping of the file with its place, `X` for a name."""
    yield part.__name__, at
    for name, field in part.model_fields.items():
        below = part_in(field.annotation)
        if below is not None:
            among = ".X" if get_origin(field.annotation) is dict else ""
            key = field.alias or name
            yield from paths(below, f"{at}.{key}{among}" if at else f"{key}{among}")


def told(beyond: Beyond) -> str:
    """Return a consequence as the cell of a table."""
    if isinstance(beyond, str):
        return beyond
    code = "" if beyond.rpc_status == beyond.http_status else f"; over JSON-RPC {beyond.rpc_status}, {beyond.rpc_code}"
    return f"[`{beyond.reason}`](error-reasons.md#{beyond.reason}): HTTP {beyond.http_status}{code}"


def bounds() -> str:
    places: dict[str, str] = {}
    for name, at in paths(Config, ""):
        places.setdefault(name, at)
    page = (
        f"# Limits and bounds\n\n{NOTE}\nEverything that callers, agents and issuers can fill is bounded. "
        "[Limits](../limits.md) says how limits work together, and "
        "[operations](../operations.md#overload-short-of-files-or-memory) what happens under overload.\n\n"
        "## Keys\n\n"
        "A key of `defaults` is a key of each agent, too. A limit that is not written and has no default is none. "
        "The *range* is what `check` accepts.\n\n"
    )
    rows = []
    for name, _, keys in mappings():
        for key, one in keys.items():
            found = ranges(kind_of(one), name, key) if f"{name}.{key}" in KEYS else None
            if found is not None:
                place = f"[`{places[name]}.{key}`](configuration.md#{name.lower()})"
                least, most = (f"`{each}`" if each else "" for each in found)
                span = f"{least} to {most}" if most else f"from {least}"
                rows.append((place, default_of(name, key, one), span, told(KEYS[f"{name}.{key}"])))
    keyed = table(("key", "default", "range", "beyond it, or after it"), sorted(rows))
    page += f'<div class="bounds" markdown>\n\n{keyed}\n</div>\n'
    page += "\n## Constants\n\nNo key changes these. Each stands in the code beside its reason.\n"
    for group in dict.fromkeys(each.group for each in CONSTANTS):
        constants = []
        for each in CONSTANTS:
            if each.group == group:
                value, reason = value_and_reason(each.where)
                constants.append((each.what, measured(value, each.unit), told(each.beyond), reason, f"`{each.where}`"))
        page += f"\n### {group}\n\n" + table(("what", "bound", "beyond it", "note in the code", "where"), constants)
    return page


def commands(command: Any, words: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, below in sorted(command.commands.items()):
            yield from commands(below, f"{words} {name}")
        return
    context = command.context_class(command, info_name=words, terminal_width=100, max_content_width=100)
    yield f"\n## {words.partition(' ')[2]}\n\n```text\n{command.get_help(context).strip()}\n```\n"


def command_line() -> str:
    return f"# Command line\n\n{NOTE}" + "".join(commands(typer.main.get_command(app), "a2a-gateway"))


def series() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, labels and help of each series that the code makes."""
    kinds = {"_counter": "gauge", "_histogram": "histogram", "Sample": "gauge"}
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            made_by = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if made_by not in kinds or not isinstance(node.args[0], ast.Constant):
                continue
            name, words = str(node.args[0].value), ast.literal_eval(node.args[1])
            kind = "counter" if name.endswith("_total") else kinds[made_by]
            labels = ast.unparse(node.args[2]) if len(node.args) > 2 else "()"
            yield f"`a2a_gateway_{name}`", kind, ", ".join(ast.literal_eval(labels)), words


def metrics() -> str:
    return f"# Metrics\n\n{NOTE}\n" + table(("series", "type", "labels", "meaning"), sorted(series()))


def environment() -> str:
    rows = (
        (f"`{each.variable}`", f"`{each.flag}`", f"`{'.'.join(map(str, each.path))}`", each.help) for each in SETTINGS
    )
    others = (
        ("`A2A_GATEWAY_CONFIG`", "the file of `gateway.asgi:app`"),
        ("`A2A_KEY`, `A2A_TOKEN`", "the credential of `send` and `stdio`"),
        ("`NO_COLOR`, `FORCE_COLOR`", "whether output has colour, as `--color`"),
        ("`NOTIFY_SOCKET`, `WATCHDOG_USEC`", "the service manager, as sd_notify(3) has it"),
    )
    return (
        f"# Environment\n\n{NOTE}\nA flag wins over a variable, a variable over the file, the file over the default. "
        "An unknown variable that begins with `A2A_GATEWAY_` is refused.\n\n"
        + table(("variable", "flag", "key", "meaning"), rows)
        + "\n"
        + table(("other variable", "meaning"), others)
    )


def log_fields() -> str:
    tree = ast.parse((ROOT / "gateway/telemetry/audit_log.py").read_text())
    [events] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AuditEvent"]
    said = [node.value for node in events.body if isinstance(node, ast.Expr)]
    words = [node.value for node in said if isinstance(node, ast.Constant)]
    return (
        f"# Log fields\n\n{NOTE}\n## Access log\n\nEach line has `time` and these; what is absent is null.\n\n"
        + "".join(f"- `{each}`\n" for each in FIELDS)
        + "\n## Audit log\n\nEach event has `time`, `event`, and of a call these.\n\n"
        + "".join(f"- `{each}`\n" for each in audit_log.FIELDS)
        + "\n### Events\n\n"
        + table(("event", "meaning"), zip((f"`{each}`" for each in audit_log.AuditEvent), words[1:], strict=True))
    )


_REMEDY = re.compile(
    r"^## (\w+)$.*?(\n- \*\*Caller\*\*: \S.*?\.\n- \*\*Operator\*\*: \S.*?\.\n.*?)(?=\n## |\Z)",
    re.MULTILINE | re.DOTALL,
)
REMEDIES = dict(_REMEDY.findall((FOLDER / "error-reasons.md").read_text()))
"""The steps that help after a fault of each reason, as the page has them."""


def faults(kind: type[fault.Fault]) -> Iterator[type[fault.Fault]]:
    yield kind
    for below in kind.__subclasses__():
        yield from faults(below)


def error_reasons() -> str:
    """Return the page with the remedies that it has: they are written there by hand."""
    page = (
        f"# Error reasons\n\n{NOTE}The steps for callers and operators are written by hand.\n\n"
        "A refusal or failure of the gateway carries one of these words: in the error's details in upper case, "
        "in the access log and in `a2a_gateway_rejected_total` as `reason`. "
        "[Errors](../errors.md) says how an error is written in each binding.\n"
    )
    kinds = [kind for kind in faults(fault.Fault) if kind.__module__ == fault.__name__ and kind is not fault.Fault]
    for reason in sorted(fault.REASONS):
        rows = sorted({(meaning(each), *statuses(each), seen_as(each)) for each in kinds if each.reason == reason})
        page += f"\n## {reason}\n\n" + table(
            ("meaning", "JSON-RPC: HTTP, code", "HTTP+JSON", "gRPC", "callers see"), rows
        )
        page += REMEDIES.get(reason, "\n- **Caller**:\n- **Operator**:\n")
    return page


def meaning(kind: type[fault.Fault]) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0]


def seen_as(kind: type[fault.Fault]) -> str:
    if kind is fault.ClientGone:
        return "nothing"
    return "`TASK_NOT_FOUND`" if kind is fault.TaskNotFound else f"`{(kind.shown or kind.reason).upper()}`"


def statuses(kind: type[fault.Fault]) -> tuple[str, str, str]:
    return f"{kind.rpc_status}, {kind.rpc_code}", str(kind.http_status), kind.grpc_status


def admin_api() -> str:
    rows = (
        (
            f"`{each.method} {each.path}`",
            each.summary,
            ", ".join(f"`{name}`" for name in each.query or ()),
            "; ".join(f"{status}: {words}" for status, words in each.answers.items()),
            "no" if each.is_open else "yes",
        )
        for each in OPERATIONS
    )
    page = f"# Admin API\n\n{NOTE}\n`GET /-/openapi.json` is the same as an OpenAPI 3.1 document.\n\n"
    return page + table(("operation", "does", "query", "answers", "needs the token, if set"), rows)


def header_lists() -> str:
    lists = (
        ("To the agent", "Client headers that are forwarded; all others are dropped.", headers.TO_AGENT),
        ("To the client", "Agent headers that are forwarded; all others are dropped.", headers.TO_CLIENT),
        ("Never forwarded", "`forward_headers` may not name these.", headers.NEVER_FORWARDED),
    )
    page = f"# Headers\n\n{NOTE}"
    for title, words, names in lists:
        page += f"\n## {title}\n\n{words}\n\n" + "".join(f"- `{each.decode()}`\n" for each in sorted(names))
    return page


PAGES = {
    "configuration": configuration,
    "limits-and-bounds": bounds,
    "command-line": command_line,
    "metrics": metrics,
    "log-fields": log_fields,
    "error-reasons": error_reasons,
    "admin-api": admin_api,
    "environment": environment,
    "headers": header_lists,
}

if __name__ == "__main__":
    if "--release" in sys.argv[1:]:
        names = sorted(f"{name}.{key}" for name, _, keys in mappings() for key in keys)
        (ROOT / "tests/config/keys" / f"{__version__}.txt").write_text("\n".join(names) + "\n")
    FOLDER.mkdir(exist_ok=True)
    for name, write in PAGES.items():
        (FOLDER / f"{name}.md").write_text(write())
