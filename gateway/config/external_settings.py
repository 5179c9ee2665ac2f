"""The settings that may come from outside the file, in one table (`outside` reads them).

Nothing heavy is imported here: every command shows the flags in its help.
"""

from dataclasses import dataclass

PREFIX = "A2A_GATEWAY_"


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the file that a flag or a variable can set, too.

    Attributes:
        name: Of the flag, without its dashes.
        several: Whether commas separate several values.
    """

    name: str
    path: tuple[str, ...]
    metavar: str
    help: str
    several: bool = False

    @property
    def flag(self) -> str:
        """Return the flag of the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """Return the variable of the environment."""
        return PREFIX + self.name.upper().replace("-", "_")


SETTINGS = (
    Setting("listen", ("gateway", "listen"), "ADDRESS", "Addresses for clients, with commas between them.", True),
    Setting("admin", ("gateway", "admin", "listen"), "ADDRESS", "Address for operators."),
    Setting("listen-grpc", ("gateway", "listen_grpc"), "ADDRESS", "Address for clients of gRPC."),
    Setting("public-url", ("gateway", "public_url"), "URL", "The URL that cards advertise."),
    Setting("log-level", ("observe", "log", "level"), "LEVEL", "debug, info, warning or error."),
    Setting("state", ("gateway", "state"), "URL", "The store of the ledger."),
)
