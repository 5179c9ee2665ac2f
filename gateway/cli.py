"""The command line: `a2a-gateway serve`, `check`, `route`, `demo`, `send`, `stdio`, `init`, `key`, `state`, `diff`.

No logic of its own: a command reads its options, calls the module that does the work, and prints. Those of `state`
stand in `cli_state`.
Exit codes: 0 good, 1 problems found, 2 usage, 3 a route test failed.
"""

import asyncio
import logging
import os
import shlex
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gateway import process
from gateway.a2a.framing.lsp import Framing
from gateway.cli_state import state_commands
from gateway.command.answer import (
    CommandFailed,
    PlainOption,
    PlainOutput,
    open_closed,
    reporting,
    show,
    show_json,
    write,
)
from gateway.command.bridge import address, bridge
from gateway.command.bridge import run as run_bridge
from gateway.command.differing import differing
from gateway.command.directions import as_text as directions_text
from gateway.command.directions import directions, read_claims
from gateway.command.discovery import check_url
from gateway.command.file import STANDARD_INPUT, ConfigOption, examine_own, find_file, program
from gateway.command.key import new_key
from gateway.command.online import Review, visit
from gateway.command.probe import health_url, probe
from gateway.command.sender import Errand, send
from gateway.command.solo import claim_port, solo
from gateway.command.starter import save, starter
from gateway.config.check import examine
from gateway.config.explain import Inquiry
from gateway.config.problem import as_json, as_text
from gateway.config.schema import schema as schema_of_format
from gateway.config.yaml import LARGEST_FILE
from gateway.demo.fleet import serving
from gateway.demo.stage import ADMIN_PORT, PUBLIC_PORT, free_port, set_up
from gateway.version import package_version

app = typer.Typer(
    name="a2a-gateway",
    epilog="--debug, anywhere, shows tracebacks.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
key_commands = typer.Typer(help="API keys.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(key_commands, name="key")
app.add_typer(state_commands, name="state")


class Output(StrEnum):
    """How `check` reports."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@app.callback(invoke_without_command=True)
def about(*, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """A multi-tenant gateway for A2A agents: one YAML file says who reaches which agent."""
    if version:
        show(f"a2a-gateway {package_version()}")
        raise typer.Exit


@app.command()
def serve(
    config: ConfigOption = None,
    agent: Annotated[str | None, typer.Option(help="Serve this one agent, without a file.", metavar="URL")] = None,
    port: Annotated[
        int | None, typer.Option(help="With --agent: the port for clients, 8080 if left out.", min=0, max=65535)
    ] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="With --agent: the port for operators, 9090 if left out.", min=0, max=65535)
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that serve; several share a file or a Redis.", min=1)] = 1,
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    if agent is None:
        if port is not None or admin_port is not None:
            raise CommandFailed("a file names its own ports: gateway.listen and gateway.admin", code=2)
        raise typer.Exit(process.serve(find_file(config), os.environ, workers))
    if config is not None:
        raise CommandFailed("give a file or --agent, not both", code=2)
    if workers > 1:
        raise CommandFailed("several processes serve a file: write one, as init does", code=2)
    check_url(agent)
    public = claim_port(PUBLIC_PORT if port is None else port, "--port")
    admin = claim_port(ADMIN_PORT if admin_port is None else admin_port, "--admin-port")
    one = solo(agent, public=public, admin=admin)
    examined = examine_own(one.configuration(), "serve --agent", os.environ)
    # Standard output has the access log and nothing else.
    raise typer.Exit(process.serve_examined(examined, on_started=partial(_tell, one.welcome(program()))))


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="gateway.yaml or config/gateway.yaml if left out; - is standard input.")
    ] = None,
    *,
    online: Annotated[bool, typer.Option("--online", help="Also ask every agent, issuer and Redis.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Take warnings, and secrets that are written out, for errors.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Also find what so many workers cannot serve.", min=1)] = 1,
    output: Annotated[Output, typer.Option(help="Who reads the result.")] = Output.TEXT,
) -> None:
    """Look for every mistake in the configuration."""
    # What a visit finds is reported below, not logged.
    logging.disable()
    path = find_file(file, needed=output is Output.TEXT)
    text = sys.stdin.buffer.read(LARGEST_FILE + 1) if path == STANDARD_INPUT else None
    examined = examine(path, os.environ, text=text, literals=strict)
    visits = asyncio.run(visit(examined)) if online and examined.config is not None else ()
    review = Review(examined, visits if online else None, strict, workers)
    if output is Output.JSON:
        show_json(review.as_json())
    else:
        show(review.as_github() if output is Output.GITHUB else review.as_text())
    raise typer.Exit(review.code)


@app.command()
def route(
    method: Annotated[str, typer.Argument(help="HTTP method: POST, GET.")],
    path: Annotated[str, typer.Argument(help="Path of the request; over gRPC /SERVICE/METHOD.")],
    *,
    config: ConfigOption = None,
    tenant: Annotated[str | None, typer.Option(help="The A2A tenant field, or the scope.")] = None,
    caller: Annotated[str | None, typer.Option("--as", help="The caller's tenant.", metavar="TENANT")] = None,
    key: Annotated[str | None, typer.Option(help="Name of the API key that the caller shows.")] = None,
    certificate: Annotated[
        str | None, typer.Option(help="Name on the caller's certificate: a URI, a DNS name, CN=….", metavar="NAME")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Host of the request, or its authority.")] = None,
    claim: Annotated[
        list[str] | None, typer.Option(help="A claim of the caller's token.", metavar="NAME=VALUE")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain every match of every agent.")] = False,
    output: PlainOption = PlainOutput.TEXT,
) -> None:
    """Say which agent a request would reach, and why."""
    with reporting(as_json=output is PlainOutput.JSON):
        claims = read_claims(claim or [])
        examined = examine(find_file(config, needed=output is PlainOutput.TEXT), os.environ)
        if examined.config is None and output is PlainOutput.JSON:
            show_json({"ok": False, "problems": as_json(examined.errors)})
            raise typer.Exit(1)
        if examined.config is None:
            raise CommandFailed(as_text(examined.errors))
        inquiry = Inquiry(path, method, tenant, caller, key, certificate, host, claims)
        answer = directions(examined, inquiry, everything=explain)
        if output is PlainOutput.JSON:
            show_json(answer)
        else:
            show(directions_text(answer))
    raise typer.Exit(0 if answer["agent"] is not None else 1)


@app.command()
def demo() -> None:
    """Run the gateway with five sample agents, four of them in one process with it."""
    over_grpc = free_port(0)
    with serving(grpc=over_grpc) as agents:
        stage = set_up(agents, over_grpc)
        examined = examine_own(stage.configuration(), "demo", os.environ)
        code = process.serve_examined(examined, on_started=lambda: show(stage.moved() + stage.welcome(program())))
    raise typer.Exit(code)


@app.command("send")
def send_command(
    url: Annotated[str, typer.Argument(help="An agent's URL, or its card's (ending in .json).")],
    text: Annotated[str, typer.Argument(help="What to say.")],
    *,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="A2A_KEY")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token.", envvar="A2A_TOKEN")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant field, instead of what the card says.")] = None,
    task: Annotated[str | None, typer.Option(help="Go on with this task.")] = None,
    context: Annotated[str | None, typer.Option(help="Stay in this context.")] = None,
    raw: Annotated[bool, typer.Option("--json", help="Print what comes as JSON, one event a line.")] = False,
) -> None:
    """Say something to an agent and print its answer."""
    send(Errand(url, text, key, token, tenant, task, context, raw), write)


@app.command("stdio")
def stdio_command(
    agent: Annotated[str, typer.Option(help="An agent's URL, or its name in the configuration.", metavar="NAME|URL")],
    *,
    config: ConfigOption = None,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="A2A_KEY")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token.", envvar="A2A_TOKEN")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant field, instead of what the card says.")] = None,
    framing: Annotated[Framing, typer.Option(help="How frames are written; either is read.")] = Framing.LSP,
) -> None:
    """Be an agent on stdio for the program that starts this: its calls go to an agent behind HTTP or gRPC."""
    if "://" not in agent:
        examined = examine(find_file(config), os.environ)
        if examined.config is None:
            raise CommandFailed(as_text(examined.errors))
        agent = address(examined, agent, tenant)
    elif config is not None:
        raise CommandFailed("give the URL of an agent, or a file and the name of one in it", code=2)
    raise typer.Exit(run_bridge(bridge(agent, key=key, token=token, tenant=tenant), framing))


@app.command("init")
def init_command(
    url: Annotated[str, typer.Argument(help="The agent's URL.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this file.")] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a first configuration, from an agent's card."""
    text = starter(url)
    if out is None:
        write(text)
        return
    save(text, out, force=force)
    show(f"{out} is written. Next: {program()} check {shlex.quote(str(out))}")


@key_commands.command("new")
def key_new(
    name: Annotated[str, typer.Argument(help="What the key is called in the configuration and in logs.")],
    tenant: Annotated[str | None, typer.Option(help="Whose key it is; the name itself if left out.")] = None,
) -> None:
    """Make an API key: it is shown once, and the configuration keeps its hash."""
    made = new_key(name, tenant or name)
    show(
        f"The key, shown only now; clients send it as X-API-Key, or as bearer token:\n\n  {made.text}\n\n"
        f"For the configuration:\n\n{made.yaml}"
    )


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="The configuration that runs.")],
    new: Annotated[Path, typer.Argument(help="The one that is to take its place.")],
    output: PlainOption = PlainOutput.TEXT,
) -> None:
    """Say what another configuration would change: keys, who reaches what, and what needs a restart."""
    with reporting(as_json=output is PlainOutput.JSON):
        found = differing(examine(old, os.environ), examine(new, os.environ))
        if output is PlainOutput.JSON:
            show_json(found.as_json())
        else:
            show(found.as_text())


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    show_json(schema_of_format())


@app.command()
def health(
    config: ConfigOption = None,
    url: Annotated[str | None, typer.Option(help="Where the gateway is, instead of reading a file.")] = None,
) -> None:
    """Ask a running gateway whether it lives: 0 yes, 1 no."""
    probe(url or health_url(find_file(config), os.environ))
    show("ok")


def main() -> None:
    """Run the command line; `--debug`, anywhere, shows tracebacks."""
    if "stdout" in open_closed():
        sys.stderr.write("standard output is closed: what belongs there is lost, such as the access log\n")
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in options
    if debug:
        arguments.remove("--debug")
    try:
        app(arguments, prog_name="a2a-gateway")
    except CommandFailed as failed:
        if debug:
            raise
        sys.stderr.write(f"{failed.message}\n")
        sys.exit(failed.code)
    except Exception as error:
        if debug:
            raise
        sys.stderr.write(f"{type(error).__name__}: {error}\nThis should not happen; --debug shows where it did.\n")
        sys.exit(1)


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
