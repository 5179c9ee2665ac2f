"""Backends that are commands: what is run, where, and with which environment."""

import errno
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.a2a.card import CardInvalid, parse_card
from gateway.a2a.command import CommandLine, NoCommand, command_of
from gateway.a2a.tree import Tree
from gateway.config.agent import Agent, Backend
from gateway.config.finding import Findings
from gateway.config.problem import KeyPath, printable
from gateway.config.stdio import Stdio, is_stdio

PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of the gateway's environment that every command gets; HOME not where it runs as another user."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHOD = re.compile(r"[A-Za-z0-9_./$-]{1,128}")
_PATH = os.defpath


@dataclass(frozen=True, slots=True)
class Program:
    """What is run for a backend.

    Attributes:
        folder: Where.
        card: The operator's card that names it, or None.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    card: Tree | None


def program(backend: Backend, file: str, environ: Mapping[str, str]) -> Program:
    """What is run for a backend that is a command, and was checked.

    Args:
        file: Where it is written.
        environ: The gateway's own environment.

    Raises:
        OSError, CardInvalid, NoCommand: the card has changed since it was checked.
    """
    here = Path(file).parent.absolute()
    stdio = Stdio() if backend.stdio is None else backend.stdio
    card, line = None, CommandLine(stdio.command)
    if backend.card is not None:
        card = parse_card((here / backend.card).read_bytes())
        line = command_of(card)
    passed = [name for name in PASSED if name != "HOME" or stdio.uid is None]
    environment = {name: environ[name] for name in (*passed, *stdio.env_from) if name in environ}
    environment |= dict(line.assignments)
    environment |= {name: value.get_secret_value() for name, value in stdio.env.items()}
    return Program(line.words, environment, here if stdio.cwd is None else here / stdio.cwd, card)


def check_command(agent: Agent, backend: Backend, at: KeyPath, findings: Findings) -> None:
    """Find what is wrong with a backend that is a command."""
    below: KeyPath = (*at, "stdio")
    stdio = Stdio() if backend.stdio is None else backend.stdio
    if not is_stdio(backend.url):
        key = "stdio" if backend.stdio is not None else "card"
        findings.error_at_key((*at, key), "the backend has a `url` too", "keep one of the two")
        return
    if backend.protocol not in (None, "jsonrpc"):
        remedy = "leave `protocol` out"
        findings.error((*at, "protocol"), f"nobody speaks {backend.protocol} on stdio", remedy)
    if backend.card is not None and stdio.command:
        findings.error((*below, "command"), "the card names the command too", "keep one of the two")
        return
    _environment(stdio, below, findings)
    _user(stdio, below, findings)
    if _METHOD.fullmatch(stdio.card) is None:
        remedy = "write extended, printed, none, or the name of a method"
        findings.error((*below, "card"), f"{printable(stdio.card)!r} is no method", remedy)
    if agent.card is not None and agent.card.file is not None and backend.card is not None:
        findings.warning((*at, "card"), "the agent has a `card` of its own, which is served", "keep one of the two")
    if stdio.framing == "ndjson" and (agent.upstream_auth is not None or agent.forward_caller or agent.forward_headers):
        fact = "messages that are lines have no header, so it is told neither a credential nor any other"
        findings.warning((*below, "framing"), fact, "write `framing: lsp`, if the agent reads that")
    folder = _folder(stdio, below, findings)
    line = _line(backend, stdio, at, findings)
    if folder is None or line is None:
        return
    found = dict(line.assignments) | {name: value.get_secret_value() for name, value in stdio.env.items()}
    path = found.get("PATH", os.environ.get("PATH", _PATH))
    if not _is_there(line.words[0], folder, path):
        where: KeyPath = (*at, "card") if backend.card is not None else (*below, "command")
        fact = f"there is no program {printable(line.words[0])!r} here"
        findings.warning(where, fact, "install it where the gateway runs, or write the whole path")


def _ordinary(path: Path) -> Path:
    if path.exists() and not path.is_file() and not path.is_dir():
        # Reading a pipe would wait for whoever writes it.
        raise OSError(errno.EINVAL, "it is no ordinary file")
    return path


def _line(backend: Backend, stdio: Stdio, at: KeyPath, findings: Findings) -> CommandLine | None:
    if backend.card is None:
        here: KeyPath = (*at, "stdio", "command") if stdio.command else (*at, "stdio")
        if not stdio.command or not stdio.command[0]:
            findings.error_at_key(here, "there is no command", "write `command: [PROGRAM, ARGUMENT, …]`")
            return None
        if any("\0" in word for word in stdio.command):
            findings.error(here, "a word has a character that no command has", "remove it")
            return None
        if len(stdio.command) == 1 and " " in stdio.command[0]:
            fact = f"{printable(stdio.command[0])!r} is one word: the name of the program"
            findings.warning(here, fact, "write a list, a word each: [PROGRAM, ARGUMENT, …]")
        return CommandLine(stdio.command)
    where: KeyPath = (*at, "card")
    folder = Path(findings.marks.place(where).file).parent
    try:
        line = command_of(parse_card(_ordinary(folder / backend.card).read_bytes()))
    except OSError as error:
        fact = f"the card {printable(backend.card)!r} cannot be read: {error.strerror}"
        findings.error(where, fact, f"create it, or correct the path, which is relative to {folder}")
        return None
    except CardInvalid as error:
        findings.error(where, f"it is no card: {error}", "correct the file")
        return None
    except NoCommand as error:
        remedy = 'give it an interface with the transport "stdio" and the command as its `url`'
        findings.error(where, str(error), remedy)
        return None
    if line.shell:
        remedy = "start a shell script instead, or write `stdio: { command: [sh, -c, …] }`"
        findings.warning(where, "its command has something in it that only a shell would understand", remedy)
    return line


def _environment(stdio: Stdio, at: KeyPath, findings: Findings) -> None:
    for name in stdio.env:
        if _VARIABLE.fullmatch(name) is None:
            findings.error_at_key((*at, "env", name), f"{printable(name)!r} is no name of a variable", _AS_NAME)
    for name, value in stdio.env.items():
        if "\0" in value.get_secret_value():
            findings.error((*at, "env", name), "the value has a character that no variable has", "remove it")
    for number, name in enumerate(stdio.env_from):
        here: KeyPath = (*at, "env_from", number)
        if _VARIABLE.fullmatch(name) is None:
            findings.error(here, f"{printable(name)!r} is no name of a variable", _AS_NAME)
        elif name in stdio.env:
            findings.error(here, f"{name} is in `env` too", "keep one of the two")
        elif name not in os.environ:
            remedy = "set it where the gateway runs, or take the name out"
            findings.warning(here, f"there is no variable {name} here, so the command gets none", remedy)


def _user(stdio: Stdio, at: KeyPath, findings: Findings) -> None:
    if stdio.uid is not None and os.geteuid() != 0:
        remedy = "leave `uid` out, or run the gateway as root"
        findings.error((*at, "uid"), "only root can run a command as another user", remedy)


def _folder(stdio: Stdio, at: KeyPath, findings: Findings) -> Path | None:
    here: KeyPath = (*at, "cwd")
    folder = Path(findings.marks.place(here if stdio.cwd is not None else at).file).parent.absolute()
    if stdio.cwd is None:
        return folder
    if not (folder / stdio.cwd).is_dir():
        findings.error(here, f"{printable(stdio.cwd)!r} is no folder", f"create it; it is relative to {folder}")
        return None
    return folder / stdio.cwd


def _is_there(name: str, folder: Path, path: str) -> bool:
    if "/" in name:
        return os.access(folder / name, os.X_OK) and not (folder / name).is_dir()
    return shutil.which(name, path=path) is not None


_AS_NAME = "write letters, digits and _, such as API_TOKEN"
