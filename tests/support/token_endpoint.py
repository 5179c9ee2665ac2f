"""A token endpoint on loopback: answers as it is told, and remembers what it was asked."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote_plus

from tests.support.scripted import WAIT, whole


@dataclass(frozen=True, slots=True)
class Asked:
    """One token request: the form, and the id and secret of the client."""

    form: dict[str, list[str]]
    client: tuple[str, str] | None
    headers: dict[str, str]

    def one(self, name: str) -> str:
        [value] = self.form[name]
        return value


Answer = Callable[[Asked], bytes]


def granted(token: str, **more: object) -> bytes:
    """A good answer; a member that is `...` is left out."""
    said = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, **more}
    return whole(json.dumps({name: value for name, value in said.items() if value is not ...}).encode())


def refused(code: str = "invalid_client", *fields: bytes, status: bytes = b"401 Unauthorized") -> bytes:
    """An error of RFC 6749 §5.2, with a description that nobody may repeat."""
    body = json.dumps({"error": code, "error_description": "the secret s3cret is wrong"}).encode()
    return whole(body, *fields, status=status)


@dataclass
class TokenEndpoint:
    """A token endpoint whose answer a test may change.

    Attributes:
        answer: Returns the raw answer to a request.
        asked: Every request.
        open: Cleared, every answer waits until it is set again.
    """

    url: str = ""
    answer: Answer = field(default=lambda asked: granted("never set"))
    asked: list[Asked] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.open.set()
        self.number()

    def number(self) -> None:
        """Answer with `t1`, `t2` and so on; with `<subject token>@1` and so on to exchanges."""

        def answer(asked: Asked) -> bytes:
            name = asked.one("subject_token") + "@" if "subject_token" in asked.form else "t"
            return granted(f"{name}{len(self.asked)}")

        self.answer = answer

    async def until(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(WAIT), self._news:
            await self._news.wait_for(lambda: len(self.asked) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head[:-4].split("\r\n")
                assert first.startswith("POST /token "), first
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                form = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=True)
                asked = Asked(form, _client(headers.get("authorization")), headers)
                async with self._news:
                    self.asked.append(asked)
                    self._news.notify_all()
                raw = self.answer(asked)
                await self.open.wait()
                writer.write(raw)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the gateway left
        finally:
            writer.close()


def _client(authorization: str | None) -> tuple[str, str] | None:
    if authorization is None:
        return None
    name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
    return unquote_plus(name), unquote_plus(secret)


@asynccontextmanager
async def token_endpoint() -> AsyncIterator[TokenEndpoint]:
    """One endpoint at `/token` of a port of its own."""
    served = TokenEndpoint()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
    try:
        yield served
    finally:
        served.open.set()
        server.close()
        await server.wait_closed()
