"""`a2a-gateway init`: a first configuration, made from an agent's own card."""

import re
from urllib.parse import urlsplit

import msgspec

from gateway.command.discovery import WELL_KNOWN, Found, find_card, open_client
from gateway.command.key import scalar
from gateway.command.sight import safe
from gateway.config.address import is_loopback
from gateway.config.model import NAME, RESERVED

_LONGEST_COMMENT = 80


def starter(url: str) -> str:
    """The text of a `gateway.yaml` for the agent at `url`, ready to serve on loopback.

    Raises:
        CommandFailed: there is no agent, or none that can be called.
    """
    with open_client() as client:
        return compose(find_card(client, url))


def compose(found: Found) -> str:
    """The configuration for an agent whose card was read.

    Raises:
        CommandFailed: the card offers no interface that the gateway can call.
    """
    interface = found.interface
    backend = _backend(found)
    name = _name(str(found.card.get("name", "")))
    insecure = urlsplit(backend).scheme == "http" and not is_loopback(urlsplit(backend).hostname or "")
    address = [f"    backend: {_quoted(backend)}"]
    if insecure:
        address = ["    backend:", f"      url: {_quoted(backend)}", "      allow_insecure: true    # plain http"]
    elsewhere = not any(found.url == backend.rstrip("/") + path for path in WELL_KNOWN)
    lines = [
        f"# A gateway in front of {_comment(str(found.card.get('name', '')))} ({interface.dialect}).",
        "#   a2a-gateway check      # looks for mistakes",
        f"#   a2a-gateway serve      # then clients find the agent at http://127.0.0.1:8080/{name}",
        "version: 1",
        "",
        "gateway:",
        "  listen: 127.0.0.1:8080",
        "  # On any other address, say what cards advertise, and who may call (auth, below):",
        "  # public_url: https://agents.example.com",
        "",
        "# Without auth, anonymous callers are served, on loopback only.",
        "# `a2a-gateway key new NAME --tenant TENANT` makes a key and prints the lines for it.",
        "",
        "agents:",
        f"  {scalar(name)}:",
        *address,
        *([f"    card: {_quoted(found.url)}"] if elsewhere else []),
    ]
    return "\n".join(lines) + "\n"


def _backend(found: Found) -> str:
    """The URL whose origin the gateway dials and whose path is the fallback: where the card was found."""
    for path in WELL_KNOWN:
        if found.url.endswith(path):
            return found.url.removesuffix(path)
    return "{0.scheme}://{0.netloc}".format(urlsplit(found.url))


def _name(text: str) -> str:
    """A name for URLs, metrics and logs out of the card's."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return name if NAME.fullmatch(name) and name not in RESERVED else "agent"


def _comment(text: str) -> str:
    return safe(" ".join(text.split()))[:_LONGEST_COMMENT] or "an agent"


def _quoted(url: str) -> str:
    return url if re.fullmatch(r"[A-Za-z0-9._~:/-]+", url) else msgspec.json.encode(url).decode()
