"""Shell completion of names that the configuration has: agents, tenants, API keys.

A file that cannot be read completes nothing: a shell has no place for an error.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from gateway.commands.config_file import find_file


def agent_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the agents whose name begins with the text."""
    return _beginning(incomplete, _part(context, "agents"))


def key_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the API keys whose name begins with the text."""
    return _beginning(incomplete, _part(context, "auth", "api_keys"))


def tenant_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tenants whose name begins with the text, also those that only an API key names."""
    keys = _part(context, "auth", "api_keys").values()
    of_keys = [str(key["tenant"]) for key in keys if isinstance(key, dict) and "tenant" in key]
    return _beginning(incomplete, [*_part(context, "tenants"), *of_keys])


def _beginning(text: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(text)]


def _part(context: typer.Context, *path: str) -> dict[str, Any]:
    """Return a mapping of the configuration, or an empty one."""
    from gateway.config.load import load  # noqa: PLC0415 - the configuration is read only to complete a name

    given = context.params.get("config")
    part: Any = load(find_file(Path(given) if given else None, needed=False), os.environ).tree
    for key in path:
        part = part.get(key) if isinstance(part, dict) else None
    return part if isinstance(part, dict) else {}
