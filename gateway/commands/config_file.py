"""The configuration of a command: its file, the flags that set something in it, and names that it completes.

There is one flag for each setting that may come from outside the file. If the file cannot be read, there are no
completions, because a shell cannot show an error.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands.output import CommandFailed

if TYPE_CHECKING:
    from gateway.config.load import Examined
import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from gateway.config.external_settings import SETTINGS

# ---- the file --------------------------------------------------------------------------------------------------------


DEFAULT_FILES = (Path("gateway.yaml"), Path("config/gateway.yaml"))
STANDARD_INPUT = Path("-")
"""Standard input of `check`; its paths are relative to the working directory."""

ConfigOption = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="The configuration; gateway.yaml or config/gateway.yaml if left out."),
]


def find_file(given: Path | None, *, needed: bool = True) -> Path:
    """Return the file to read; with `needed=False` a missing one is left to be reported as a problem."""
    if given is not None:
        return given
    for path in DEFAULT_FILES:
        if os.path.lexists(path):
            return path
    if not needed:
        return DEFAULT_FILES[0]
    raise CommandFailed(
        f"There is no gateway.yaml here and no config/gateway.yaml.\n"
        f"  {program()} init URL -o gateway.yaml   writes one for an agent\n"
        f"  {program()} demo                       needs none"
    )


def examine_file(path: Path, environ: Mapping[str, str]) -> "Examined":
    """Check the configuration in a file.

    Raises:
        CommandFailed: It has errors.
    """
    from gateway.config.check import examine  # noqa: PLC0415 - half a second that most commands do not need
    from gateway.config.problem import as_text  # noqa: PLC0415 - as above

    examined = examine(path, environ)
    if examined.config is None:
        raise CommandFailed(as_text(examined.errors))
    return examined


def examine_own(text: str, command: str, environ: Mapping[str, str]) -> "Examined":
    """Check a configuration that a command generated; messages quote no line of it.

    Raises:
        CommandFailed: The arguments make no valid configuration.
    """
    from gateway.config.check import examine  # noqa: PLC0415 - as above

    examined = examine(Path(f"({command})"), environ, text=text)
    if examined.config is None:
        raise CommandFailed("\n".join(f"{error.fact}\n  → {error.remedy}" for error in examined.errors), code=2)
    return examined


def program() -> str:
    """Return the command that starts this program."""
    named = os.environ.get("A2A_GATEWAY_PROGRAM")
    if named:
        return shlex.quote(named)
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m gateway"
    return "a2a-gateway"


# ---- flags -----------------------------------------------------------------------------------------------------------


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of `settings.SETTINGS` to a command, which gets those that are given as `flags`, by name."""
    added = {setting.name.replace("-", "_"): setting for setting in SETTINGS}

    @wraps(command)
    def with_settings(**arguments: Any) -> None:  # noqa: ANN401 - those of any command
        flags: Mapping[str, str | None] = {each.flag: arguments.pop(name) for name, each in added.items()}
        command(**arguments, flags=flags)

    signature = inspect.signature(command)
    own = [each for name, each in signature.parameters.items() if name != "flags"]
    hints = {
        name: Annotated[str | None, typer.Option(each.flag, help=each.help, metavar=each.metavar)]
        for name, each in added.items()
    }
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in hints.items()
    ]
    made: Any = with_settings
    made.__signature__ = signature.replace(parameters=[*own, *parameters])
    made.__annotations__ = {**{each.name: each.annotation for each in own}, **hints}
    return with_settings


# ---- shell completion of agents, tenants and API keys ----------------------------------------------------------------


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
