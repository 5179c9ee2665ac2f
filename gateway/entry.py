"""Where a client knocks, as far as method, path and host tell."""

import msgspec

from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from gateway.routing.table import Endpoint


class Entry(msgspec.Struct, frozen=True):
    """Where a client knocks.

    Attributes:
        endpoint: None where the path is none.
        path: What stands behind the endpoint's path; None where that means nothing.
        unread: Why the path cannot be read, or None; where there is an endpoint, only its callers may know.
    """

    endpoint: Endpoint | None = None
    path: PathCall | None = None
    unread: BadRequest | None = None

    @property
    def reads_card(self) -> bool:
        """Whether the request reads a card, as anybody may."""
        return self.path is not None and self.path.card is not None


class Place(msgspec.Struct, frozen=True):
    """What method, path and host tell of a request, whatever its other headers are.

    Attributes:
        lasting: Whether it is worth keeping: a path that many requests have, and no refusal.
    """

    binding: Binding
    entry: Entry = Entry()
    version: Version = Version.V1_0
    operation: Operation | None = None
    lasting: bool = False
