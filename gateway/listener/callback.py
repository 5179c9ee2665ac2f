"""What agents and receivers of notifications ask of the gateway itself: callbacks of `push.mode: relay`, and keys."""

import secrets
from collections.abc import Callable

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.fault import BodyTooLarge, Fault
from gateway.listener.wire import ClientWire
from gateway.push.relay import PATH
from gateway.push.service import PushService

KEYS = b"/.well-known/jwks.json"
_PREFIX = PATH.encode("ascii")
_JSON = b"application/json"


class Callbacks:
    """Answers what is no call of a client's.

    Args:
        service: Gives what runs; None for nothing.
        prefix: Segments of the public path that incoming requests carry, as a path.
    """

    def __init__(self, service: Callable[[], PushService | None], prefix: Callable[[], bytes]) -> None:
        self._service = service
        self._prefix = prefix

    def takes(self, head: Head) -> bool:
        """Whether a request is one of these."""
        path = head.path
        if not (path.endswith(KEYS) or _PREFIX in path):
            return False
        service = self._service()
        if service is None or service.relay is None:
            return False
        prefix = self._prefix()
        return path == prefix + KEYS or path.startswith(prefix + _PREFIX)

    async def serve(self, head: Head, wire: ClientWire) -> None:
        """Answer one."""
        service = self._service()
        relay = None if service is None else service.relay
        if service is None or relay is None:
            await _answer(wire, 404)
            return
        prefix = self._prefix()
        if head.path == prefix + KEYS:
            await self._show_keys(service, head, wire)
            return
        hook_id = head.path[len(prefix + _PREFIX) :].decode("latin-1")
        if head.method == "GET":
            said = await relay.challenge(hook_id, head.query.decode("latin-1"))
            await _answer(wire, 404 if said is None else 200, said or b"", b"text/plain; charset=utf-8")
        elif head.method != "POST":
            await _answer(wire, 405, allow=b"GET, POST")
        else:
            try:
                body = await wire.read(relay.max_body)
            except BodyTooLarge:
                await _answer(wire, 413)
                return
            except Fault as fault:
                await _answer(wire, fault.http_status)
                return
            await _answer(wire, await relay.receive(hook_id, dict(head.headers), body))

    async def _show_keys(self, service: PushService, head: Head, wire: ClientWire) -> None:
        if head.method not in ("GET", "HEAD"):
            await _answer(wire, 405, allow=b"GET, HEAD")
            return
        try:
            keys = await service.jwks()
        except Fault as fault:
            await _answer(wire, fault.http_status)
            return
        await _answer(wire, 404 if keys is None else 200, b"" if keys is None else msgspec.json.encode(keys), _JSON)


async def _answer(wire: ClientWire, status: int, body: bytes = b"", said: bytes = b"", *, allow: bytes = b"") -> None:
    headers = [(b"x-request-id", secrets.token_hex(8).encode("ascii")), (b"cache-control", b"no-store")]
    if body:
        headers.append((b"content-type", said))
    if allow:
        headers.append((b"allow", allow))
    await wire.answer(status, headers, body)
