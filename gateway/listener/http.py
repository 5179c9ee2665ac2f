"""The listener for clients: health for balancers, and the pipeline for everything else."""

import secrets
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from gateway.a2a.call import Head
from gateway.a2a.headers import Pairs
from gateway.listener.callback import Callbacks
from gateway.proxy.pipeline import Pipeline
from gateway.proxy.responder import Responder


class PublicListener:
    """What clients talk to.

    Args:
        ready: Whether the gateway takes new requests; `/-/ready` says so.
        callbacks: Answers what is no call of a client's.
        trouble: What else than draining keeps it from that; empty for nothing.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        ready: Callable[[], bool],
        callbacks: Callbacks | None = None,
        *,
        trouble: Callable[[], str] = str,
    ) -> None:
        self._pipeline = pipeline
        self._callbacks = callbacks
        self._ready = ready
        self._trouble = trouble

    def __call__(self, head: Head, wire: Responder) -> Coroutine[Any, Any, None]:
        """Serve one request."""
        if head.path in (b"/-/live", b"/-/ready"):
            return self._tell(head, wire)
        if self._callbacks is not None and self._callbacks.takes(head):
            return self._callbacks.serve(head, wire)
        # Not awaited here: each frame in between is gone through again whenever the request goes on.
        return self._pipeline.serve(head, wire)

    async def _tell(self, head: Head, wire: Responder) -> None:
        if head.method not in ("GET", "HEAD"):
            await wire.answer(HTTPStatus.METHOD_NOT_ALLOWED, [*_named(), (b"allow", b"GET, HEAD")], b"")
            return
        good = head.path == b"/-/live" or self._ready()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        body = b"ok\n" if good else f"{self._trouble() or 'draining'}\n".encode()
        await wire.answer(status, [(b"content-type", b"text/plain; charset=utf-8"), *_named()], body)


def _named() -> Pairs:
    """What names an answer that has no line in the log."""
    return [(b"x-request-id", secrets.token_hex(8).encode("ascii"))]
