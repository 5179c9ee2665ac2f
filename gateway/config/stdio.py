"""An agent of the file that the gateway runs itself: the command, and how its processes are kept."""

from typing import Annotated, Literal

from pydantic import AfterValidator, SecretStr, model_validator

from gateway.config.part import Part
from gateway.config.value import Count, Duration, Flag, Memory, OneOrMany, Positive, Room, Strings, Wait

SCHEME = "stdio:"
"""How the URL of a backend begins that is a command."""


def is_stdio(url: str) -> bool:
    """Whether a backend is a command that the gateway runs."""
    return url.startswith(SCHEME)


class StdioLimits(Part):
    """What one process of an agent may have; no bound where it is left out."""

    memory: Memory | None = None
    """Its data: heap and stack, not what it maps of files."""
    cpu: Wait | None = None
    """CPU time of its whole life; it is killed then, and started again."""
    files: Positive | None = None
    """Open files."""


def _few(value: int) -> int:
    if value > 64:
        raise ValueError("is too many", "write at most 64: each one is a process")
    return value


class Stdio(Part):
    """A command that the gateway runs, and talks to by standard input and output."""

    command: Annotated[tuple[str, ...], OneOrMany()] = ()
    """The program and its arguments, one word each: no shell reads them. Left out where `card` names it."""
    cwd: str | None = None
    """The folder that it runs in, relative to this file; the folder of this file where it is left out."""
    env: dict[str, SecretStr] = {}
    """Its environment; nothing of the gateway's own but PATH, HOME, LANG, LC_ALL, TZ and TMPDIR is there beside it."""
    env_from: Strings = ()
    """Names of variables that it gets from the gateway's environment."""
    processes: Annotated[Positive, AfterValidator(_few)] = 1
    """How many run; tasks stay with the process that made them, so with several of them `ListTasks` is refused."""
    per_tenant: Flag = False
    """Whether each tenant that calls has processes of its own, which find its name in A2A_TENANT."""
    tenants: Positive = 64
    """Most tenants that have processes at a time; whose were idle longest are ended first, with what they remember."""
    framing: Literal["lsp", "ndjson"] = "lsp"
    """How messages are written to it: behind a header as language servers have it, or a line of JSON each. What it
    writes is read either way."""
    frame: Room = 32 * 1024 * 1024
    """The longest message that it may write; also what waits of a stream for a slow client. It is sent as long ones
    where this is written, and 4MiB where it is left out: many an agent ends when a message is longer."""
    card: str = "extended"
    """How it tells its card: `extended`, by the method for the extended card; `printed`, before anything else; `none`;
    or the method that it has for it."""
    start_timeout: Wait = 30.0
    """Time from its start to its card, or to any answer."""
    stop_timeout: Duration = 5.0
    """Time to exit once its input is closed, and as much after SIGTERM; then it is killed."""
    restart: Literal["always", "on-failure", "never"] = "always"
    """When it is started again; `on-failure`: one that has served and exits with 0 is started by the next call."""
    ping: Wait | None = None
    """How often it is asked whether it is there; one that does not answer is started again. Never where left out."""
    uid: Count | None = None
    """The user that it runs as, by number; needs a gateway that runs as root."""
    limits: StdioLimits = StdioLimits()
    """What one process may have."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"command": value} if isinstance(value, str | list) else value
