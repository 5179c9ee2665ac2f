"""The HTTP/1.1 server side of a client's connection: uvicorn's httptools protocol, with what a gateway needs besides.

uvicorn tells an application of a lost connection only when it asks (`receive`). The application here is busy with the
agent then, so the connection itself tells: whoever serves a request leaves a callback in `scope["state"]`.
"""

from collections.abc import Callable
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

GONE = "gateway.gone"
"""Key in `scope["state"]` of a callback that is called once if the client leaves before its answer is complete."""
CONNECTION = "gateway.connection"
"""Key in `scope["state"]` of the connection itself."""


class ClientConnection(HttpToolsProtocol):
    """One connection of a client."""

    def on_message_begin(self) -> None:
        """Let the request know its connection."""
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever is serving a request here."""
        cycle = self.cycle
        serving = cycle is not None and not cycle.response_complete
        super().connection_lost(exc)
        if serving:
            gone = cast("Callable[[], None] | None", cycle.scope["state"].get(GONE))
            if gone is not None:
                gone()

    def cut(self) -> None:
        """Close without completing the answer: its end is missing, so the client cannot take it for whole."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.close()
