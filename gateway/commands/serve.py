"""`a2a-gateway serve --agent URL`: serve one agent without a file, before or after it starts."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.commands.find_agent import WELL_KNOWN
from gateway.commands.init import entry, name_from
from gateway.commands.output import CommandFailed
from gateway.listener.server import ListenFailed, bind


@dataclass(frozen=True, slots=True)
class SingleAgent:
    """One agent and the ports of the gateway in front of it.

    Attributes:
        url: The agent's URL, or its card's; it was checked.
        public: Port for clients.
        admin: Port for operators.
    """

    url: str
    public: int
    admin: int

    @property
    def name(self) -> str:
        """Return its name, derived from the URL alone, so that it does not depend on a running agent."""
        path = urlsplit(self.url).path
        for well_known in WELL_KNOWN:
            path = path.removesuffix(well_known)
        return name_from(path.rstrip("/").rpartition("/")[2].removesuffix(".json"))

    def configuration(self) -> str:
        """Return the equivalent `gateway.yaml`."""
        card = self.url if urlsplit(self.url).path.endswith(".json") else self.url.rstrip("/") + WELL_KNOWN[0]
        lines = [
            "version: 1",
            f"gateway: {{ listen: '127.0.0.1:{self.public}', admin: '127.0.0.1:{self.admin}' }}",
            # The access log has each refusal, so that the audit log would add nothing.
            "observe: { log: { format: text, level: warning }, audit: /dev/null }",
            "agents:",
            *entry(self.name, card),
        ]
        return "\n".join(lines) + "\n"

    def welcome(self, program: str) -> str:
        """Return the text with the agent's URL here and an example call.

        Args:
            program: The command that starts this program.
        """
        agent = f"http://127.0.0.1:{self.public}/{self.name}"
        return f"""\
{self.url} is served at {agent}   (operators: http://127.0.0.1:{self.admin})

  {program} send {agent} Hello

One line per request follows. Ctrl-C ends it.
"""


def claim_port(port: int, option: str) -> int:
    """Return the loopback port to listen on; for 0 the system picks one.

    Args:
        option: The option that names another port.

    Raises:
        CommandFailed: The port cannot be used.
    """
    try:
        with bind(f"127.0.0.1:{port}") as listener:
            return int(listener.getsockname()[1])
    except ListenFailed as error:
        raise CommandFailed(f"{error}\n  → stop its listener, or name another port with {option}") from error
