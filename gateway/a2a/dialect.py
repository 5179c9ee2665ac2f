"""A dialect: how one side speaks, which is a binding (the envelope) at a version (the objects)."""

from dataclasses import dataclass
from enum import StrEnum


class Binding(StrEnum):
    """The envelope, spelled as cards spell it (1.0 `protocolBinding`, 0.3 `transport`)."""

    JSONRPC = "JSONRPC"
    REST = "HTTP+JSON"
    GRPC = "GRPC"

    @property
    def label(self) -> str:
        """The word for it in configuration, metrics and logs."""
        return _LABELS[self]


_LABELS = {Binding.JSONRPC: "jsonrpc", Binding.REST: "rest", Binding.GRPC: "grpc"}


class Version(StrEnum):
    """A generation of the protocol: Major.Minor; 0.2 is read and written as 0.3."""

    V0_1 = "0.1"
    V0_3 = "0.3"
    V1_0 = "1.0"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one side speaks."""

    binding: Binding
    version: Version

    def __str__(self) -> str:
        return f"{self.binding} {self.version}"


def parse_version(text: str) -> Version | None:
    """The generation that a version string names, or None for one that this gateway does not know.

    A patch number is ignored and 0.2.x is the 0.3 dialect (1.0 §3.6: Major.Minor alone negotiates).
    """
    return _VERSIONS.get(".".join(text.strip().split(".")[:2]))


_VERSIONS = {
    "0.1": Version.V0_1,
    "0.2": Version.V0_3,
    "0.3": Version.V0_3,
    "1.0": Version.V1_0,
    "1": Version.V1_0,
}
