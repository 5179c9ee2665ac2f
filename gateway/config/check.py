"""Everything that can be said of a configuration before it is used: the one entry of `check`, `serve` and a reload."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

from gateway.config.addressing import check_addressing
from gateway.config.allowance import check_allowances
from gateway.config.backend import check_backends
from gateway.config.browser import check_browsers
from gateway.config.client_trust import check_clients
from gateway.config.credential import check_credentials
from gateway.config.endpoint import check_endpoints
from gateway.config.exposure import check_exposure
from gateway.config.finding import Findings
from gateway.config.header import check_headers
from gateway.config.literal import literal_secrets
from gateway.config.load import Loaded, dress, load
from gateway.config.model import Config
from gateway.config.notification import check_notifications
from gateway.config.problem import Problem, in_order
from gateway.config.replication import check_replication
from gateway.config.routes import table as routing_table
from gateway.config.scalar import Value
from gateway.config.source import Marks
from gateway.config.storage import check_storage
from gateway.config.tenancy import Names, check_tenancy
from gateway.config.trial import check_tests, failed_tests
from gateway.config.validity import check_validity


@dataclass(frozen=True, slots=True)
class Examined:
    """A configuration, and all that was found out about it.

    Attributes:
        config: The configuration, or None where there is an error.
        problems: Errors and warnings by place, secrets masked.
        failed: Routing tests that failed, by place; `check` does not pass and `serve` does not start with one.
        text_hash: SHA-256 over all files read, in hex; once stamped (`files.stamped`), over all that are named, too.
        files: All files read.
        stamps: What each of them said, and each that it is served with, when it was read.
        unmatched: Patterns of `include:` that matched no file, or of which that could not be found out.
    """

    config: Config | None
    problems: tuple[Problem, ...]
    failed: tuple[Problem, ...]
    marks: Marks
    text_hash: str
    files: tuple[Path, ...]
    stamps: Mapping[Path, bytes] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the configuration from being used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def examine(
    path: Path,
    environ: Mapping[str, str],
    *,
    text: str | bytes | None = None,
    today: date | None = None,
    literals: bool = False,
) -> Examined:
    """Read a configuration and find everything that is wrong with it; nothing of that is raised.

    Args:
        path: The main file.
        environ: What `${VAR}` is filled in from.
        text: What the main file says, where it is not to be read; `path` is its name then. As bytes, what somebody
            piped; as text, what the program itself wrote.
        today: The day in UTC, for keys that expire; the clock's where it is left out.
        literals: Whether to warn of secrets that the files write out, too.
    """
    loaded = load(path, environ, text)
    findings = Findings(loaded.marks, loaded.broken)
    draft = loaded.draft
    failed: tuple[Problem, ...] = ()
    if draft is not None:
        names = _names(loaded.written)
        _check(draft, names, findings, datetime.now(UTC).date() if today is None else today)
        _presence(names, findings, own=isinstance(text, str))
    found = dress(findings.problems, loaded.sources)
    config = None if any(problem.severity == "error" for problem in found) else loaded.config
    if config is not None:
        table = routing_table(config, loaded.marks)
        failed = dress(failed_tests(config, table, findings), loaded.sources)
    # Without the lines that they stand on.
    written_out = literal_secrets(loaded.written, loaded.marks) if literals else ()
    return Examined(
        config=config,
        problems=in_order((*loaded.problems, *found, *written_out), _files(loaded)),
        failed=failed,
        marks=loaded.marks,
        text_hash=loaded.text_hash,
        files=loaded.files,
        stamps=loaded.stamps,
        unmatched=loaded.unmatched,
    )


def examine_again(examined: Examined, config: Config) -> Examined:
    """The same with another configuration, made of what is written and of what already runs.

    What is wrong with that is an error of the whole, as where a listener that is open to all keeps its address and
    what guards it is no longer written.
    """
    findings = Findings(examined.marks, ())
    names = Names(
        agents=frozenset(config.agents),
        tenants=frozenset(config.tenants),
        keys=frozenset() if config.auth is None else frozenset(config.auth.api_keys),
    )
    _check(config, names, findings, datetime.now(UTC).date())
    found = tuple(problem for problem in findings.problems if problem.severity == "error")
    return replace(examined, config=None if found else config, problems=(*found, *examined.problems))


def _check(draft: Config, names: Names, findings: Findings, today: date) -> None:
    check_exposure(draft, findings)
    check_browsers(draft, findings)
    check_credentials(draft, findings, today)
    check_clients(draft, findings, today)
    check_tenancy(draft, names, findings)
    check_endpoints(draft, findings)
    check_addressing(draft, findings)
    check_backends(draft, findings)
    check_replication(draft, findings)
    check_headers(draft, findings)
    check_storage(draft, findings)
    check_allowances(draft, findings)
    check_notifications(draft, findings)
    check_validity(draft, findings)
    check_tests(draft, names, findings)


def _presence(names: Names, findings: Findings, *, own: bool) -> None:
    """See that there is an agent: a file without any is a wrong file, or one whose `include:` found too little.

    Args:
        own: Whether the program itself wrote the configuration.
    """
    if not names.agents and not findings.is_broken(("agents",), ("include",)):
        tell = findings.warning if own else findings.error
        tell(("agents",), "there is no agent", "add `agents:` with `name: { backend: https://… }`")


def _names(written: Mapping[str, Value]) -> Names:
    auth = written.get("auth")
    return Names(
        agents=_keys(written.get("agents")),
        tenants=_keys(written.get("tenants")),
        keys=_keys(auth.get("api_keys") if isinstance(auth, dict) else None),
    )


def _keys(value: Value) -> frozenset[str]:
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _files(loaded: Loaded) -> list[str]:
    return [source.file for source in loaded.sources]
