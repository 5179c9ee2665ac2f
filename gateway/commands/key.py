"""`a2a-gateway key new`: an API key that is shown once, and its entry for the configuration."""

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from gateway.a2a.paths import fits_path
from gateway.commands.output import CommandFailed
from gateway.principal import ANONYMOUS_TENANT

PREFIX = "a2a_"
"""Prefix of every key, by which secret scanners and the log recognise it."""

_BYTES = 24
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# Words that YAML 1.1 tools read as something else than a string.
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key and the configuration that admits it.

    Attributes:
        text: The key itself: `a2a_` and 192 random bits.
        sha256: Its digest in hex, all that the gateway needs.
        yaml: The lines for the configuration.
    """

    text: str
    sha256: str
    yaml: str


def new_key(name: str, tenant: str, random: Callable[[int], str] = secrets.token_urlsafe) -> NewKey:
    """Make a key called `name` for a tenant.

    Args:
        random: Returns that many random bytes as URL-safe text.

    Raises:
        CommandFailed: The name or the tenant is invalid.
    """
    for what, value in (("name", name), ("tenant", tenant)):
        if not fits_path(value):
            raise CommandFailed(
                f"{value!r} is not a valid {what}: write 1 to 64 characters of A-Z a-z 0-9 . _ -", code=2
            )
    if tenant == ANONYMOUS_TENANT:
        raise CommandFailed(f"{tenant!r} is the tenant of callers without a key: name another with --tenant", code=2)
    text = PREFIX + random(_BYTES)
    sha256 = hashlib.sha256(text.encode("ascii")).hexdigest()
    yaml = f"auth:\n  api_keys:\n    {scalar(name)}:\n      sha256: {sha256}\n      tenant: {scalar(tenant)}\n"
    yaml += f"# and below `tenants:`, the agents that it may call:   {scalar(tenant)}: [AGENT, ...]\n"
    return NewKey(text, sha256, yaml)


def scalar(text: str) -> str:
    """Return a name as YAML, quoted where YAML could read something else than a string."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS else f'"{text}"'
