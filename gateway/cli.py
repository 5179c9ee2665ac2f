"""The command line, `a2a-gateway COMMAND`.

This module parses arguments and prints. A command's module in `commands/` does the work, and is imported only when the
command runs. Exit codes: 0 good, 1 problems found, 2 usage, 3 a route test failed.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from gateway import __version__
from gateway.commands.config_file import (
    STANDARD_INPUT,
    ConfigOption,
    agent_names,
    examine_file,
    examine_own,
    find_file,
    key_names,
    program,
    takes_settings,
    tenant_names,
)
from gateway.commands.output import (
    COLOR,
    CommandFailed,
    PlainOption,
    choose_color,
    open_closed,
    read_input,
    reporting,
    show,
    show_json,
    wants_color,
    write,
)

if TYPE_CHECKING:
    from gateway.commands.state import StatePlace

_VERSION = f"a2a-gateway {__version__}"


def group(name: str, help: str | None = None) -> typer.Typer:  # noqa: A002 - as Typer names it
    """Return an empty group of commands."""
    return typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        # Typer's options to install completion belong to the program, not to each group.
        add_completion=help is None,
    )


def command(*examples: str) -> type[TyperCommand]:
    """Return the class of a command whose help ends with these examples, a line each, without the program's name."""

    class Command(TyperCommand):
        """A command with examples."""

        def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes that Typer keeps for itself
            """Write the help, and the examples in plain lines that can be pasted."""
            super().format_help(ctx, formatter)
            formatter.write("\nExamples:\n" + "".join(f"  a2a-gateway {example}\n" for example in examples))

    return Command


app = group("a2a-gateway")
key_commands = group("key", help="API keys.")
state_commands = group("state", help="The state of tasks in the ledger.")
app.add_typer(key_commands)
app.add_typer(state_commands)


StateOption = Annotated[
    str | None, typer.Option("--state", help="URL of the ledger, instead of `gateway.state`.", metavar="URL")
]


@app.callback(
    invoke_without_command=True,
    epilog="--color auto|always|never and --debug, which shows tracebacks, may stand anywhere.",
)
def about(*, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """A multi-tenant gateway for A2A agents: one YAML file routes callers to agents."""
    if version:
        show(_VERSION)
        raise typer.Exit


@app.command(cls=command("serve", "serve -c gateway.yaml --workers 4", "serve --agent http://127.0.0.1:9001"))
@takes_settings
def serve(
    *,
    config: ConfigOption = None,
    agent: Annotated[str | None, typer.Option(help="Serve this one agent, without a file.", metavar="URL")] = None,
    port: Annotated[
        int | None, typer.Option(help="With --agent: the port for clients, 8080 if left out.", min=0, max=65535)
    ] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="With --agent: the port for operators, 9090 if left out.", min=0, max=65535)
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that serve; several share a file or a Redis.", min=1)] = 1,
    flags: Mapping[str, str | None],
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    from functools import partial

    from gateway import process
    from gateway.commands.find_agent import check_url
    from gateway.commands.serve import SingleAgent, claim_port
    from gateway.config.outside import setting_names, with_flags
    from gateway.demo.stage import ADMIN_PORT, PUBLIC_PORT

    environ = with_flags(os.environ, flags)
    if agent is None:
        if port is not None or admin_port is not None:
            raise CommandFailed("a file names its own ports: set gateway.listen and gateway.admin in it", code=2)
        raise typer.Exit(process.serve(find_file(config), environ, workers))
    if config is not None:
        raise CommandFailed("give a file or --agent, not both", code=2)
    if workers > 1:
        raise CommandFailed("several processes serve a file: write one, as init does", code=2)
    for name in setting_names(environ):
        raise CommandFailed(f"{name} is a setting of a file, and --agent has none: use --port, or write a file", code=2)
    check_url(agent)
    public = claim_port(PUBLIC_PORT if port is None else port, "--port")
    admin = claim_port(ADMIN_PORT if admin_port is None else admin_port, "--admin-port")
    one = SingleAgent(agent, public, admin)
    examined = examine_own(one.configuration(), "serve --agent", os.environ)
    # Standard output has the access log only.
    raise typer.Exit(process.serve_examined(examined, on_started=partial(_write_error, one.welcome(program()))))


@app.command(cls=command("check", "check gateway.yaml --strict --online", "check - --output json < gateway.yaml"))
@takes_settings
def check(
    file: Annotated[
        Path | None, typer.Argument(help="gateway.yaml or config/gateway.yaml if left out; - is standard input.")
    ] = None,
    *,
    config: ConfigOption = None,
    online: Annotated[bool, typer.Option("--online", help="Also ask every agent, issuer and Redis.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Take warnings, and secrets that are written out, for errors.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Also find what so many workers cannot serve.", min=1)] = 1,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Name the matches that no test of the file takes.")
    ] = False,
    output: Annotated[Literal["text", "json", "github"], typer.Option(help="Output format.")] = "text",
    flags: Mapping[str, str | None],
) -> None:
    """Report every mistake in the configuration."""
    import asyncio
    import logging

    from gateway.commands.check import CheckReport, check_online
    from gateway.config.check import examine
    from gateway.config.outside import with_flags
    from gateway.config.yaml import LARGEST_FILE

    # The report has the messages that the online check would log.
    logging.disable()
    path = find_file(file or config, needed=output == "text")
    text = sys.stdin.buffer.read(LARGEST_FILE + 1) if path == STANDARD_INPUT else None
    examined = examine(path, with_flags(os.environ, flags), text=text, literals=strict)
    answers = asyncio.run(check_online(examined)) if online and examined.config is not None else ()
    report = CheckReport(examined, answers if online else None, strict, workers, coverage)
    if output == "json":
        show_json(report.as_json())
    else:
        show(report.as_github() if output == "github" else report.as_text())
    raise typer.Exit(report.code)


@app.command(
    cls=command(
        "route POST /support --as acme",
        'route POST /a2a --tenant billing --token "$TOKEN" --explain',
        "route --request call.http",
    )
)
def route(
    method: Annotated[str | None, typer.Argument(help="HTTP method; POST if left out.")] = None,
    path: Annotated[str | None, typer.Argument(help="Path of the request; over gRPC /SERVICE/METHOD.")] = None,
    *,
    config: ConfigOption = None,
    request: Annotated[
        Path | None,
        typer.Option(help="A recorded request in a file, as HTTP/1.1 writes it; - is standard input.", metavar="FILE"),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The A2A tenant field, or the scope.")] = None,
    caller: Annotated[
        str | None,
        typer.Option("--as", help="The caller's tenant.", metavar="TENANT", autocompletion=tenant_names),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Name of the API key that the caller shows.", autocompletion=key_names)
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="The caller's token, or API key itself; no signature is checked.")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option(help="Name on the caller's certificate: a URI, a DNS name, CN=….", metavar="NAME")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Host of the request, or its authority.")] = None,
    claim: Annotated[
        list[str] | None, typer.Option(help="A claim of the caller's token.", metavar="NAME=VALUE")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain every match of every agent.")] = False,
    output: PlainOption = "text",
) -> None:
    """Say which agent a request would reach, and why."""
    from msgspec.structs import replace

    from gateway.commands.route import as_text, explain_route, read_claims, read_credential, read_request
    from gateway.config.check import examine
    from gateway.config.problem import as_json
    from gateway.config.problem import as_text as problems_text
    from gateway.routing.explain import Inquiry

    with reporting(output) as report:
        if request is not None:
            if method is not None:
                raise CommandFailed("give METHOD and PATH, or --request, not both", code=2)
            recorded = read_request(read_input(request))
            method, path, token = recorded.method, recorded.path, token or recorded.credential
            host, tenant = host or recorded.host, recorded.tenant if tenant is None else tenant
        if path is None and method is not None and method.startswith("/"):
            method, path = "POST", method
        if method is None or path is None:
            raise CommandFailed("name the request: METHOD PATH, such as POST /support, or --request FILE", code=2)
        claims = read_claims(claim or [])
        if token is not None and (caller or key or certificate or claims):
            raise CommandFailed("the token determines the caller: give no tenant, key, certificate or claims", code=2)
        examined = examine(find_file(config, needed=output == "text"), os.environ)
        if examined.config is None and output == "json":
            show_json({"ok": False, "problems": as_json(examined.errors)})
            raise typer.Exit(1)
        if examined.config is None:
            raise CommandFailed(problems_text(examined.errors))
        inquiry = Inquiry(path, method, tenant, caller, key, certificate, host, claims)
        if token is not None:
            inquiry = replace(inquiry, **read_credential(examined.config, token))
        answer = explain_route(examined, inquiry, everything=explain)
        report(answer, as_text(answer))
    raise typer.Exit(0 if answer["agent"] is not None else 1)


@app.command(cls=command("demo", "demo --write demo-config"))
def demo(
    write_to: Annotated[
        Path | None,
        typer.Option("--write", help="Leave its gateway.yaml and its keys in this folder.", metavar="DIR"),
    ] = None,
) -> None:
    """Run the gateway with five sample agents, four of them in one process with it."""
    from gateway import process
    from gateway.demo.fleet import serving
    from gateway.demo.stage import free_port, set_up

    over_grpc = free_port(0)
    with serving(grpc=over_grpc) as agents:
        stage = set_up(agents, over_grpc)
        if write_to is not None:
            stage.save(write_to)
        examined = examine_own(stage.configuration(), "demo", os.environ)
        code = process.serve_examined(examined, on_started=lambda: show(stage.moved() + stage.welcome(program())))
    raise typer.Exit(code)


@app.command(
    "send",
    cls=command(
        'send http://127.0.0.1:8080/support Hello --key "$A2A_KEY"',
        'send http://127.0.0.1:8080/support "Read this" --file report.pdf',
        "send http://127.0.0.1:8080/support Go --output json --no-stream",
    ),
)
def send_command(
    url: Annotated[str, typer.Argument(help="An agent's URL, or its card's (ending in .json).")],
    text: Annotated[str, typer.Argument(help="The text of the message.")] = "",
    *,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="A2A_KEY")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token.", envvar="A2A_TOKEN")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant field, instead of what the card says.")] = None,
    task: Annotated[str | None, typer.Option(help="Continue this task.")] = None,
    context: Annotated[str | None, typer.Option(help="Stay in this context.")] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A file to send with the text; may be repeated.")] = None,
    data: Annotated[str | None, typer.Option(help="A JSON value to send with the text.", metavar="JSON")] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Stream the answer or not, instead of what the card says."),
    ] = None,
    output: PlainOption = "text",
    raw: Annotated[bool, typer.Option("--json", help="As --output json: one event a line.")] = False,
) -> None:
    """Send a message to an agent and print its answer; on a terminal, answer what the agent asks."""
    from dataclasses import replace

    from gateway.commands.send import Message, send

    in_json = raw or output == "json"
    outgoing = Message(url, text, key, token, tenant, task, context, in_json, tuple(file or ()), data, stream)
    sent = send(outgoing, write)
    while sent.asks and not in_json and sys.stdin.isatty() and sys.stdout.isatty():
        answer = typer.prompt("Your answer")
        outgoing = replace(outgoing, text=answer, files=(), data=None, task=sent.last.task, context=sent.last.context)
        sent = send(outgoing, write)
    _write_error(sent.as_text())


@app.command(
    "stdio",
    cls=command(
        'stdio --agent http://127.0.0.1:8080/support --key "$A2A_KEY"', "stdio --agent support -c gateway.yaml"
    ),
)
def stdio_command(
    agent: Annotated[
        str,
        typer.Option(
            help="An agent's URL, or its name in the configuration.", metavar="NAME|URL", autocompletion=agent_names
        ),
    ],
    *,
    config: ConfigOption = None,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="A2A_KEY")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token.", envvar="A2A_TOKEN")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant field, instead of what the card says.")] = None,
    framing: Annotated[Literal["lsp", "ndjson"], typer.Option(help="How frames are written; either is read.")] = "lsp",
) -> None:
    """Be an agent on stdio for the program that starts this: its calls go to an agent behind HTTP or gRPC."""
    from gateway.a2a.framing import lsp
    from gateway.commands.stdio import address, bridge, run

    if "://" not in agent:
        agent = address(examine_file(find_file(config), os.environ), agent, tenant)
    elif config is not None:
        raise CommandFailed("give the URL of an agent, or a file and the name of one in it", code=2)
    raise typer.Exit(run(bridge(agent, key=key, token=token, tenant=tenant), lsp.Framing(framing)))


@app.command(
    "init",
    cls=command(
        "init http://127.0.0.1:9001 -o gateway.yaml", "init http://127.0.0.1:9001 http://127.0.0.1:9002 -o gateway.yaml"
    ),
)
def init_command(
    urls: Annotated[list[str], typer.Argument(help="The agents' URLs, or their cards'.", metavar="URL...")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this file.")] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a first configuration with comments, from the cards of one or several agents."""
    from gateway.commands.init import first_configuration, save

    text = first_configuration(urls)
    if out is None:
        write(text)
        return
    save(text, out, force=force)
    show(f"{out} is written. Next: {program()} check {shlex.quote(str(out))}")


@key_commands.command("new", cls=command("key new batch --tenant acme"))
def key_new(
    name: Annotated[str, typer.Argument(help="Name of the key in the configuration and in logs.")],
    tenant: Annotated[str | None, typer.Option(help="Tenant of the key; the name of the key if left out.")] = None,
) -> None:
    """Make an API key: it is shown once, and the configuration keeps its hash."""
    from gateway.commands.key import new_key

    made = new_key(name, tenant or name)
    show(
        f"The key, shown only now; clients send it as X-API-Key, or as bearer token:\n\n  {made.text}\n\n"
        f"For the configuration:\n\n{made.yaml}"
    )


@app.command(cls=command("diff running.yaml gateway.yaml"))
def diff(
    old: Annotated[Path, typer.Argument(help="The configuration that runs.")],
    new: Annotated[Path, typer.Argument(help="The configuration that replaces it.")],
    output: PlainOption = "text",
) -> None:
    """Compare two configurations: changed keys, changed access, and settings that need a restart."""
    from gateway.commands.diff import compare
    from gateway.config.check import examine

    with reporting(output) as report:
        differences = compare(examine(old, os.environ), examine(new, os.environ))
        report(differences.as_json(), differences.as_text())


@app.command(cls=command("schema > gateway.schema.json"))
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    # Made from the models by `python -m gateway.config.json_schema`; to load them takes half a second.
    show((Path(__file__).parent / "config" / "gateway.schema.json").read_text(encoding="utf-8"))


@app.command(cls=command("health", "health --url http://127.0.0.1:9090"))
def health(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="The configuration that names its admin listener.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="URL of its admin listener, instead of reading a file.")] = None,
) -> None:
    """Check whether a gateway runs: exit code 0 if it does, else 1.

    Without options it asks A2A_GATEWAY_ADMIN, or 127.0.0.1:9090.
    """
    from gateway.commands.health import health_url, probe

    if url is None and config is None:
        # `--debug`, or a call of `app`: `main` of the package does it without this module.
        from gateway.commands.liveness import main as probe_default

        probe_default()
        return
    probe(url or health_url(find_file(config), os.environ), verify=url is not None)
    show("ok")


@state_commands.command("stats", cls=command("state stats"))
def state_stats(config: ConfigOption = None, state: StateOption = None, output: PlainOption = "text") -> None:
    """Count tasks, contexts and notes by tenant."""
    import asyncio

    from gateway.commands.state import as_json, as_table, figures

    with reporting(output) as report:
        place = _state_place(config, state)
        held = asyncio.run(figures(place))
        report(as_json(held, place.state.label), as_table(held, place.state.label))


@state_commands.command("erase", cls=command("state erase --tenant acme"))
def state_erase(
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant", help="Tenant whose tasks, contexts and notes are erased.", autocompletion=tenant_names
        ),
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
    state: StateOption = None,
    output: PlainOption = "text",
) -> None:
    """Erase everything of a tenant from the ledger: its tasks are not found any more."""
    import asyncio

    from gateway.commands.state import erase, figures, in_words

    with reporting(output) as report:
        if not tenant:
            # Entries without a tenant are the gateway's own, such as its secret.
            raise CommandFailed("--tenant is empty: name the tenant to erase", code=2)
        if output == "json" and not yes:
            raise CommandFailed("--output json asks no questions: add --yes", code=2)
        place = _state_place(config, state)
        held = next((one for one in asyncio.run(figures(place)) if one.tenant == tenant), None)
        if held is not None and not yes:
            typer.confirm(f"{place.state.label}: erase {in_words(held)} of {tenant!r}?", abort=True)
        erased = 0 if held is None else asyncio.run(erase(place, tenant))
        text = f"Nothing to erase of {tenant!r}." if held is None else f"Erased: {in_words(held)}."
        report({"ok": True, "tenant": tenant, "erased": erased}, text)


@state_commands.command("rotate-key", cls=command("state rotate-key", "state rotate-key --use cards --now"))
def state_rotate_key(
    *,
    use: Annotated[
        Literal["notifications", "cards"], typer.Option("--use", help="The things that the key signs.")
    ] = "notifications",
    now: Annotated[bool, typer.Option("--now", help="Revoke the previous keys at once.")] = False,
    config: ConfigOption = None,
    state: StateOption = None,
    output: PlainOption = "text",
) -> None:
    """Rotate the key that signs notifications or cards; running gateways use it by themselves."""
    import asyncio

    from gateway.commands.state import rotate_key
    from gateway.tasks.key_ring import CARDS, NOTIFICATIONS

    with reporting(output) as report:
        purpose = CARDS if use == "cards" else NOTIFICATIONS
        done = asyncio.run(rotate_key(_state_place(config, state), purpose, datetime.now(UTC).timestamp(), drops=now))
        soon = "in a minute; the previous key stays valid for a while"
        text = f"{done.kid} signs {purpose.signs} {'now; the previous keys are revoked' if now else soon}."
        report({"ok": True, "kid": done.kid, "signs_from": done.at, "dropped": now}, text)


@state_commands.command("migrate", cls=command("state migrate sqlite:///state/ledger.db redis://127.0.0.1:6379/0"))
def state_migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="sqlite:///PATH or redis://…; may have ${VAR}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Target, written the same way.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Copy to a target that has a secret of its own.")] = False,
    output: PlainOption = "text",
) -> None:
    """Copy a ledger to another store while no gateway runs; existing entries stay."""
    import asyncio
    from dataclasses import asdict

    from gateway.commands.state import migrate, state_from_url

    with reporting(output) as report:
        old, new = state_from_url(source, os.environ), state_from_url(target, os.environ)
        done = asyncio.run(migrate(old, new, datetime.now(UTC).timestamp(), force=force))
        report({"ok": True, **asdict(done)}, f"{old.state.label} to {new.state.label}: {done.in_words()}")


def _state_place(config: Path | None, state: str | None) -> "StatePlace":
    """Return the place of the ledger, from the option or the configuration."""
    from gateway.commands.state import configured_state, state_from_url

    if state is None:
        return configured_state(find_file(config), os.environ)
    if config is not None:
        raise CommandFailed("give a file or --state, not both", code=2)
    return state_from_url(state, os.environ)


def main() -> None:
    """Run the command line; `--debug`, anywhere, shows tracebacks."""
    if "stdout" in open_closed():
        sys.stderr.write("standard output is closed: the access log is lost\n")
    arguments, debug, color = _anywhere(sys.argv[1:])
    choose_color(color)
    app.rich_markup_mode = "rich" if wants_color() else None
    try:
        if not _run_at_once(arguments):
            app(arguments, prog_name="a2a-gateway")
    except BrokenPipeError:
        # As Typer does: the interpreter must not try again to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except CommandFailed as failed:
        if debug:
            raise
        sys.stderr.write(f"{failed.message}\n")
        sys.exit(failed.code)
    except Exception as error:
        if debug:
            raise
        sys.stderr.write(f"{type(error).__name__}: {error}\nThis is a defect; --debug shows the traceback.\n")
        sys.exit(1)


def _run_at_once(arguments: list[str]) -> bool:
    """Run a command that has no options here, and return whether it was one.

    Typer loads pydantic for any argument that it reads, which takes a tenth of a second of CPU.
    """
    match arguments:
        case ["--version"]:
            show(_VERSION)
        case ["schema"]:
            schema()
        case ["key", "new", name] if not name.startswith("-"):
            key_new(name)
        case _:
            return False
    return True


def _anywhere(arguments: list[str]) -> tuple[list[str], bool, str]:
    """Return the arguments without `--debug` and `--color`, which may stand anywhere before `--`, and these two."""
    kept: list[str] = []
    debug, color = False, "auto"
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*kept, argument, *rest], debug, color
        if argument == "--debug":
            debug = True
        elif argument == "--color" or argument.startswith("--color="):
            color = next(rest, "") if argument == "--color" else argument.removeprefix("--color=")
            if color not in COLOR:
                sys.stderr.write(f"--color is one of {', '.join(COLOR)}\n")
                sys.exit(2)
        else:
            kept.append(argument)
    return kept, debug, color


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
