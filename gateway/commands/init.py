"""`a2a-gateway init`: a first configuration, made from an agent's own card."""

import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from gateway.a2a.command import CommandLine, NoCommand, command_of
from gateway.a2a.paths import fits_path
from gateway.commands.find_agent import WELL_KNOWN, CardDenied, FoundAgent, OnlyGrpc, find_card, open_client
from gateway.commands.key import scalar
from gateway.commands.output import CommandFailed
from gateway.commands.send import safe
from gateway.network.address import is_exposed

_LONGEST_COMMENT = 80


def first_configuration(urls: Sequence[str]) -> str:
    """Return the text of a `gateway.yaml` for the agents at the URLs, ready to serve on loopback.

    Raises:
        CommandFailed: There is no agent at one of them, or it cannot be called.
    """
    with open_client() as client:
        return compose([_find_agent(client, url) for url in urls])


def _find_agent(client: httpx.Client, url: str) -> FoundAgent:
    try:
        found = find_card(client, url)
        _command(found)
    except CardDenied as denied:
        remedy = "Save the card as a file, write `card: FILE` below the agent, and its credential as `upstream_auth`."
        raise CommandFailed(f"{denied.message}\n{remedy}") from denied
    except OnlyGrpc as error:
        # A card tells the host and the port, but not whether there is TLS.
        remedy = (
            "Write the file by hand: `backend: grpcs://HOST:PORT` (grpc:// without TLS), and `card:` with that URL."
        )
        raise CommandFailed(f"{error.message}\n{remedy}") from error
    return found


def save(text: str, path: Path, *, force: bool) -> None:
    """Write a configuration to a file.

    Args:
        force: Whether an existing file may be overwritten.

    Raises:
        CommandFailed: The file exists, or cannot be written.
    """
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except (FileExistsError, IsADirectoryError) as error:
        if path.is_dir():
            raise CommandFailed(f"{path} is a folder: name the file in it, such as {path / 'gateway.yaml'}") from error
        raise CommandFailed(f"{path} exists: name another file, or overwrite it with --force") from error
    except FileNotFoundError as error:
        raise CommandFailed(f"{path} cannot be written: there is no folder {path.parent}; make it first") from error
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


def compose(found: Sequence[FoundAgent]) -> str:
    """Return the configuration for the agents of some cards.

    Raises:
        CommandFailed: A card has no interface that the gateway can call, and no command that it can run.
    """
    names: list[str] = []
    entries: list[str] = []
    for one in found:
        own = name_from(str(one.card.get("name", "")))
        numbered = (f"{own}-{number}" for number in count(2))
        name = next(each for each in chain([own], numbered) if each not in names)
        names.append(name)
        command = _command(one)
        spoken = "stdio" if command is not None else str(one.interface.dialect)
        entries.append(f"  # {_comment(str(one.card.get('name', '')))} ({spoken}): http://127.0.0.1:8080/{name}")
        entries += entry(name, one.url) if command is None else _stdio_entry(name, command)
    return _TEXT.replace("ENTRIES", "\n".join(entries)).replace("FIRST", scalar(names[0]))


_TEXT = """\
# yaml-language-server: $schema=gateway.schema.json
# For completion and checks in an editor: a2a-gateway schema > gateway.schema.json
#
#   a2a-gateway check      # finds mistakes
#   a2a-gateway serve      # then clients find each agent at the URL in its comment
version: 1

gateway:
  listen: 127.0.0.1:8080        # for clients
  admin: 127.0.0.1:9090         # for operators: the page, /metrics, /-/ready
  # On any other address, cards need to know where clients find the gateway, and callers need a credential (auth):
  # public_url: https://agents.example.com

# Without auth, anonymous callers are served, on loopback only. `a2a-gateway key new NAME --tenant acme` makes a key:
# auth:
#   api_keys:
#     batch: { sha256: "...", tenant: acme }

# A tenant reaches the agents that it lists, and sees its own tasks only:
# tenants:
#   acme: [FIRST]

agents:
ENTRIES

# Routing tests, which `a2a-gateway check` runs:
# tests:
#   - { name: acme reaches FIRST, tenant: acme, request: { path: /FIRST }, expect: FIRST }
"""


def _command(found: FoundAgent) -> CommandLine | None:
    """Return the command of a card without another interface; None for an agent that is called by HTTP.

    Raises:
        CommandFailed: The card has neither, or a command that should not be run.
    """
    try:
        _ = found.interface
    except CommandFailed as nothing:
        try:
            command = command_of(found.card)
        except NoCommand as error:
            if isinstance(nothing, OnlyGrpc):
                raise nothing from error
            raise CommandFailed(f"{nothing.message}; {error}", code=nothing.code) from error
    else:
        return None
    origin = urlsplit(found.url)
    if is_exposed(origin):
        fact = "the card names a command, and over plain http anyone on the network path could have written it"
        raise CommandFailed(f"{found.url}: {fact}\nUse https.")
    if not all(text.isprintable() for text in (*command.words, *(value for _, value in command.assignments))):
        raise CommandFailed(
            f"{found.url}: the card names a command with unprintable characters: have its owner correct it"
        )
    return command


def _stdio_entry(name: str, command: CommandLine) -> list[str]:
    """Return the lines below `agents:` for an agent that the gateway starts itself."""
    comments = [
        "    # The card names this program, and the gateway runs it on this machine: look at it before you serve it."
    ]
    if command.shell:
        comments.append("    # No shell reads it: $NAME, | and the like are plain characters.")
    words = ", ".join(_text(word) for word in command.words)
    variables = ", ".join(f"{key}: {_text(value)}" for key, value in dict(command.assignments).items())
    environment = [f"        env: {{ {variables} }}"] if variables else []
    return [
        f"  {scalar(name)}:",
        *comments,
        "    backend:",
        "      stdio:",
        f"        command: [{words}]",
        *environment,
    ]


def entry(name: str, card_url: str) -> list[str]:
    """Return the lines below `agents:` for the agent of the card at a URL."""
    backend = _backend(card_url)
    address = [f"    backend: {_quoted(backend)}"]
    if is_exposed(urlsplit(backend)):
        address = ["    backend:", f"      url: {_quoted(backend)}", "      allow_insecure: true    # plain http"]
    elsewhere = not any(card_url == backend.rstrip("/") + path for path in WELL_KNOWN)
    return [f"  {scalar(name)}:", *address, *([f"    card: {_quoted(card_url)}"] if elsewhere else [])]


def _backend(card_url: str) -> str:
    """Return the URL of the backend: its origin is dialled, its path is used if the card has none."""
    for path in WELL_KNOWN:
        if card_url.endswith(path):
            return card_url.removesuffix(path)
    return "{0.scheme}://{0.netloc}".format(urlsplit(card_url))


def name_from(text: str) -> str:
    """Return a name for URLs, metrics and logs, made from another name."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return name if fits_path(name) else "agent"


def _comment(text: str) -> str:
    return safe(" ".join(text.split()))[:_LONGEST_COMMENT] or "an agent"


def _quoted(url: str) -> str:
    return url if re.fullmatch(r"[A-Za-z0-9._~:/-]+", url) else _text(url)


def _text(text: str) -> str:
    """Return a quoted text; a ${ in it is escaped."""
    return msgspec.json.encode(text.replace("${", "$${")).decode()
