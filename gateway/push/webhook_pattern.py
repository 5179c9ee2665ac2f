"""Patterns of webhooks that may be called: `SCHEME://HOST[:PORT][/PATH]`.

The host is exact, or `*.SUFFIX` for every name below it. Without a port it is the scheme's own, and `*` is any. Without
a path every path matches; a path is exact, or a prefix with `*` at its end.
"""

import re
from dataclasses import dataclass
from typing import Literal

from gateway.network.address import ip_of, read_url

_REMEDY = "write it as https://hooks.example.com, https://*.example.com or https://hooks.example.com/a2a/*"
_DEFAULT_PORT = {"http": 80, "https": 443}
_ESCAPED_SLASH = re.compile(r"(?i)\\|%2f|%5c")
_DOT_SEGMENT = re.compile(r"(?i)(?:\.|%2e){1,2}(?:;.*)?")


@dataclass(frozen=True, slots=True)
class WebhookPattern:
    """Webhooks that may be called.

    Attributes:
        host: In lower case, without brackets; `*.` before it stands for one or more labels.
        port: None for any.
        path: Empty for every path; with `*` at its end for all that begin so.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int | None
    path: str = ""

    def matches(self, scheme: str, host: str, port: int, path: str) -> bool:
        """Return whether a webhook is one of them.

        Args:
            scheme: In lower case.
            host: As a URL has it, without brackets; in any case, with or without a dot at its end.
            port: The one that is dialled, also where the URL has none.
            path: As the URL has it, without its query. A path with dot segments or escaped slashes is ambiguous and
                matches no pattern with a path.
        """
        host = _canonical_host(host)
        if scheme != self.scheme or self.port not in (None, port):
            return False
        if self.host.startswith("*."):
            if not host.endswith(self.host[1:]) or host.startswith(".") or ip_of(host) is not None:
                return False
        elif host != self.host:
            return False
        if not self.path:
            return True
        if _ESCAPED_SLASH.search(path) is not None or any(
            _DOT_SEGMENT.fullmatch(segment) for segment in path.split("/")
        ):
            return False
        return path.startswith(self.path[:-1]) if self.path.endswith("*") else path == self.path

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORT[self.scheme] else f":{self.port or '*'}"
        return f"{self.scheme}://{host}{port}{self.path}"


def read_pattern(text: str) -> WebhookPattern:
    """Read a pattern.

    Raises:
        ValueError: with a fact and a remedy.
    """
    # URL parsers refuse a star as a host, so an unused name replaces it.
    wildcard = re.match(r"(?i)(https?://)\*\.(?=[^/*:.])", text)
    rest = text if wildcard is None else wildcard[1] + text[wildcard.end() :]
    path_begins = rest.find("/", rest.find("://") + 3) if "://" in rest else -1
    authority, path = (rest, "") if path_begins < 0 else (rest[:path_begins], rest[path_begins:])
    any_port = authority.endswith(":*")
    authority = authority.removesuffix(":*")
    if "*" in authority:
        raise ValueError(
            "has a * where none can be", f"{_REMEDY}: it stands for the labels before a suffix, or for a port"
        )
    try:
        parts = read_url(authority + path.removesuffix("*"))
    except ValueError as error:
        raise ValueError(error.args[0], _REMEDY) from error
    if "*" in path[:-1]:
        raise ValueError("has a * within its path", "write one at its end only")
    if path == "/":
        raise ValueError("has a / for its path", "leave it out where every path is meant")
    scheme: Literal["http", "https"] = "http" if parts.scheme == "http" else "https"
    host = _canonical_host(parts.hostname or "")
    if wildcard is not None and ip_of(host) is not None:
        raise ValueError("has a * before an address", "write the address alone, or a name")
    if any_port and parts.port is not None:
        raise ValueError("has two ports", _REMEDY)
    port = None if any_port else parts.port or _DEFAULT_PORT[scheme]
    return WebhookPattern(scheme, f"*.{host}" if wildcard else host, port, "" if path == "/*" else path)


def _canonical_host(host: str) -> str:
    """Return the one spelling in which hosts are compared."""
    host = host.lower().removesuffix(".")
    return str(ip_of(host) or host)
