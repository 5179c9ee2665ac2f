"""A dialect: a binding (the envelope) at a version (the objects)."""

from enum import StrEnum
from typing import Self

import msgspec


class Binding(StrEnum):
    """The envelope, spelled as cards spell it (1.0 `protocolBinding`, 0.3 `transport`).

    Attributes:
        label: The word for it in configuration, metrics and logs.
    """

    label: str

    def __new__(cls, name: str, label: str = "") -> Self:
        """Return a plain attribute: a property of an enumeration costs a call each time it is asked for."""
        binding = str.__new__(cls, name)
        binding._value_ = name
        binding.label = label
        return binding

    # The string's own; that of an enumeration is written in Python.
    __hash__ = str.__hash__

    JSONRPC = "JSONRPC", "jsonrpc"
    REST = "HTTP+JSON", "rest"
    GRPC = "GRPC", "grpc"


class Version(StrEnum):
    """A generation of the protocol: Major.Minor; 0.2 is read and written as 0.3."""

    __hash__ = str.__hash__

    V0_1 = "0.1"
    V0_3 = "0.3"
    V1_0 = "1.0"


class Dialect(msgspec.Struct, frozen=True):
    """The binding and the version that one side of a call uses."""

    binding: Binding
    version: Version

    def __str__(self) -> str:
        return f"{self.binding} {self.version}"


def parse_version(text: str) -> Version | None:
    """Return the generation that a version string names, or None if it is unknown.

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
