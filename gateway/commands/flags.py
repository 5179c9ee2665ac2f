"""The flags of the commands that read a file: one for each setting that may come from outside it."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from gateway.config.settings import SETTINGS


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
