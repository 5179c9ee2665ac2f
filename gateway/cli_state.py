"""`a2a-gateway state`: what is remembered of tasks. No logic of its own: `command.state` does the work."""

import asyncio
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gateway.command.answer import CommandFailed, PlainOption, PlainOutput, reporting, show, show_json
from gateway.command.file import ConfigOption, find_file
from gateway.command.state import Keeping, as_table, erase, figures, in_words, migrate, rotate_key, typed, written
from gateway.command.state import as_json as figures_as_json

state_commands = typer.Typer(help="What is remembered of tasks.", no_args_is_help=True, rich_markup_mode=None)

StateOption = Annotated[
    str | None, typer.Option("--state", help="The place, instead of that of the configuration.", metavar="URL")
]


@state_commands.command("stats")
def state_stats(config: ConfigOption = None, state: StateOption = None, output: PlainOption = PlainOutput.TEXT) -> None:
    """Count what is remembered, tenant by tenant."""
    with reporting(as_json=output is PlainOutput.JSON):
        keeping = _keeping(config, state)
        held = asyncio.run(figures(keeping))
        if output is PlainOutput.JSON:
            show_json(figures_as_json(held, keeping.state.label))
        else:
            show(as_table(held, keeping.state.label))


@state_commands.command("erase")
def state_erase(
    tenant: Annotated[str, typer.Option("--tenant", help="Whose tasks, contexts and notes are to be forgotten.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
    state: StateOption = None,
    output: PlainOption = PlainOutput.TEXT,
) -> None:
    """Forget all that belongs to a tenant: nobody finds its tasks by the gateway from then on."""
    as_json = output is PlainOutput.JSON
    with reporting(as_json=as_json):
        if not tenant:
            # What belongs to none is the gateway's own: its secret, from which marks and page tokens are made.
            raise CommandFailed("--tenant is empty: name whose state is to be forgotten", code=2)
        if as_json and not yes:
            raise CommandFailed("a program cannot be asked: add --yes", code=2)
        keeping = _keeping(config, state)
        held = next((one for one in asyncio.run(figures(keeping)) if one.tenant == tenant), None)
        if held is not None and not yes:
            typer.confirm(f"{keeping.state.label}: forget {in_words(held)} of {tenant!r}?", abort=True)
        erased = 0 if held is None else asyncio.run(erase(keeping, tenant))
        if as_json:
            show_json({"ok": True, "tenant": tenant, "erased": erased})
        else:
            show(f"Nothing is remembered of {tenant!r}." if held is None else f"Forgotten: {in_words(held)}.")


@state_commands.command("rotate-key")
def state_rotate_key(
    *,
    now: Annotated[bool, typer.Option("--now", help="The keys before it have leaked: take them back at once.")] = False,
    config: ConfigOption = None,
    state: StateOption = None,
    output: PlainOption = PlainOutput.TEXT,
) -> None:
    """Have another key sign notifications, which gateways that run take up by themselves."""
    with reporting(as_json=output is PlainOutput.JSON):
        done = asyncio.run(rotate_key(_keeping(config, state), datetime.now(UTC).timestamp(), drops=now))
        if output is PlainOutput.JSON:
            show_json({"ok": True, "kid": done.kid, "signs_from": done.at, "dropped": now})
        else:
            soon, at_once = "in a minute; the one before it is known for a while", "now; those before it are void"
            show(f"{done.kid} signs notifications {at_once if now else soon}.")


@state_commands.command("migrate")
def state_migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="sqlite:///PATH or redis://…; may have ${VAR}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same, for the place that it goes to.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Also to a place that has a secret of its own.")] = False,
    output: PlainOption = PlainOutput.TEXT,
) -> None:
    """Copy all that is remembered to another place, while no gateway serves; what is there already stays."""
    with reporting(as_json=output is PlainOutput.JSON):
        old, new = typed(source, os.environ), typed(target, os.environ)
        done = asyncio.run(migrate(old, new, datetime.now(UTC).timestamp(), force=force))
        if output is PlainOutput.JSON:
            show_json({"ok": True, **asdict(done)})
        else:
            show(f"{old.state.label} to {new.state.label}: {done.in_words()}")


def _keeping(config: Path | None, state: str | None) -> Keeping:
    """Where state is kept, by the option or by the configuration."""
    if state is None:
        return written(find_file(config), os.environ)
    if config is not None:
        raise CommandFailed("give a file or --state, not both", code=2)
    return typed(state, os.environ)
