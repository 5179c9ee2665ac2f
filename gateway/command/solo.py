"""`a2a-gateway serve --agent URL`: one agent served without a file, whether it is up yet or not."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.command.answer import CommandFailed
from gateway.command.discovery import WELL_KNOWN, check_url
from gateway.command.starter import entry, name_from
from gateway.listener.server import ListenFailed, bind


@dataclass(frozen=True, slots=True)
class Solo:
    """One agent, and the gateway in front of it.

    Attributes:
        url: What was typed: the agent's URL, or its card's.
        name: By which clients find it. It comes from the URL alone, so that it is the same whether the agent is up.
        public: Port for clients.
        admin: Port for operators.
    """

    url: str
    name: str
    public: int
    admin: int

    def configuration(self) -> str:
        """The `gateway.yaml` that this would be."""
        card = self.url if urlsplit(self.url).path.endswith(".json") else self.url.rstrip("/") + WELL_KNOWN[0]
        lines = [
            "version: 1",
            f"gateway: {{ listen: '127.0.0.1:{self.public}', admin: '127.0.0.1:{self.admin}' }}",
            # What is not in order is told; that all is well is told by `welcome`.
            # The access log names each refusal, which is what the audit log would add.
            "observe: { log: { format: text, level: warning }, audit: /dev/null }",
            "agents:",
            *entry(self.name, card),
        ]
        return "\n".join(lines) + "\n"

    def welcome(self, program: str) -> str:
        """Where the agent is found now, and how to call it.

        Args:
            program: How a shell starts this command line.
        """
        agent = f"http://127.0.0.1:{self.public}/{self.name}"
        return f"""\
{self.url} is served at {agent}   (operators: http://127.0.0.1:{self.admin})

  {program} send {agent} Hello

One line per request follows. Ctrl-C ends it.
"""


def solo(url: str, *, public: int, admin: int) -> Solo:
    """Make out how the agent at `url` is to be served; nobody is asked.

    Raises:
        CommandFailed: it is no URL of an agent.
    """
    check_url(url)
    path = urlsplit(url).path
    for well_known in WELL_KNOWN:
        path = path.removesuffix(well_known)
    return Solo(url, name_from(path.rstrip("/").rpartition("/")[2].removesuffix(".json")), public, admin)


def claim_port(port: int, option: str) -> int:
    """Return the loopback port to listen on; of 0 one that the system picks.

    Args:
        option: The option that names another port.

    Raises:
        CommandFailed: the port is taken, or may not be used.
    """
    try:
        with bind(f"127.0.0.1:{port}") as listener:
            return int(listener.getsockname()[1])
    except ListenFailed as error:
        raise CommandFailed(f"{error}\n  → stop what listens there, or name another port with {option}") from error
