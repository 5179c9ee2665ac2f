"""What the gateway writes down: where its state is kept, and where audit events go."""

import os
from pathlib import Path

from gateway.config import effective
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable

_STATE: KeyPath = ("gateway", "state")
_AUDIT: KeyPath = ("observe", "audit", "file")
# What Linux takes.
_LONGEST_NAME = 255


def check_storage(config: Config, findings: Findings) -> None:
    """Find what is wrong with the places that the gateway writes to.

    That a folder is there is not asked: the file may be checked on another machine than the one that serves it.
    """
    gateway = config.gateway
    if gateway.state is not None and gateway.state.kind == "sqlite":
        path = gateway.state.beside(_folder(_STATE, findings)).path
        # Where that cannot be told, as of a name that is too long, it is told by who opens it.
        if os.path.isdir(path):  # noqa: PTH112 - that of pathlib raises
            findings.error(_STATE, "this is a folder", "name a file in it, such as state.db")
    if gateway.replicas > 1 and (gateway.state is None or not gateway.state.is_shared):
        kept = "memory" if gateway.state is not None and gateway.state.kind == "memory" else "a file"
        fact = f"each of {gateway.replicas} gateways would remember in {kept} of its own whose task is whose"
        findings.error(("gateway", "replicas"), fact, "write `gateway.state: redis://HOST:PORT/DB`, for all of them")
    _ledger(config, findings)
    _audit(config, findings)


def _ledger(config: Config, findings: Findings) -> None:
    kept = config.gateway.ledger
    if kept.ended > kept.open:
        key = "ended" if "ended" in kept.model_fields_set else "open"
        fact = "tasks that are over are remembered for longer than those that are not, and than their contexts"
        findings.warning(("gateway", "ledger", key), fact, "write an `open` that is as long as `ended`, or longer")


def _audit(config: Config, findings: Findings) -> None:
    file = effective.audit(config, findings.marks)
    if file is None and config.observe.log.level in ("warning", "error"):
        fact = "audit events are told at level info, so that nobody hears of them"
        findings.warning(("observe", "log", "level"), fact, "name a file in `observe.audit`, or write `level: info`")
    if file is None or file == effective.STANDARD_OUTPUT:
        return
    written = "" if config.observe.audit is None else config.observe.audit.file
    remedy = "name a file, such as /var/log/a2a-gateway/audit.jsonl, or - for standard output"
    if not written or written.endswith("/") or not written.isprintable():
        findings.error(_AUDIT, f"{printable(written)!r} names no file", remedy)
    elif len(os.fsencode(file.name)) > _LONGEST_NAME:
        findings.error(_AUDIT, f"names a file by more than {_LONGEST_NAME} bytes", remedy)
    elif os.path.isdir(file):  # noqa: PTH112 - as above
        findings.error(_AUDIT, f"{printable(written)!r} is a folder", remedy)
    elif config.gateway.state is not None and config.gateway.state.kind == "sqlite":
        state = config.gateway.state.beside(_folder(_STATE, findings)).path
        if os.path.normpath(state) == os.path.normpath(file):
            findings.error(_AUDIT, f"the state is kept there ({findings.line(_STATE)})", "name another file")


def _folder(at: KeyPath, findings: Findings) -> Path:
    """What relative paths are relative to."""
    return Path(findings.marks.place(at).file).parent
