"""The HTTP/1.1 server side of a client's connection: uvicorn's httptools protocol, with what a gateway needs besides.

uvicorn tells an application of a lost connection only when it asks (`receive`). The application here is busy with the
agent then, so the connection itself tells: whoever serves a request leaves a callback in `scope["state"]`.

One request at a time: what a client sends behind a request before that is answered (pipelining) is not served, for it
would hide that the client has left; the connection ends with the answer, and the client asks again (RFC 9112 §9.3.2).
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

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; those behind one that is being answered are dropped."""
        if self._answers():
            self.cycle.keep_alive = False
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Let the request know its connection.

        Raises:
            ValueError: another one is being answered; it stops the parser.
        """
        if self._answers():
            raise ValueError("a request behind one that is not answered")
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self

    def on_headers_complete(self) -> None:
        """Begin to serve the request; fields that follow its body (trailers) are no headers of it."""
        super().on_headers_complete()
        # uvicorn appends them to the list that the request has: a credential there would count (safety H4).
        self.headers = []

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; never in the middle of an answer."""
        if not self._answers():
            super().send_400_response(msg)
            return
        self.cycle.keep_alive = False

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

    def _answers(self) -> bool:
        """Whether a request has come whole and is not answered yet."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete
