"""A gateway assembled from a text, and what stands around one while it starts, drains and stops."""

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import trustme

from gateway.app import Gateway
from gateway.config.check import examine
from gateway.config.load import Examined
from gateway.tasks.state_url import StateUrl
from tests.support.gateway import RESULT, card_of
from tests.support.names import public_names
from tests.support.scripted import WAIT, Wire, chunk, head, whole

CARD = card_of("http://127.0.0.1/", "JSONRPC 1.0")
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'  # noqa: E501 - as it goes over the wire
ANYWHERE = '{ listen: "0.0.0.0:0", admin: "127.0.0.1:0", anonymous: true, public_url: "https://gw.test" }'
HERE = '{ listen: "127.0.0.1:0", admin: "127.0.0.1:0" }'


def examined(text: str, path: Path = Path("gateway.yaml")) -> Examined:
    found = examine(path, {}, text=f"version: 1\n{dedent(text)}")
    assert found.errors == (), found.errors
    return found


def assembled(text: str, path: Path = Path("gateway.yaml")) -> Gateway:
    return Gateway(examined(text, path), access_stream=io.BytesIO(), state=StateUrl("memory"), resolver=public_names())


@asynccontextmanager
async def taken() -> AsyncIterator[str]:
    """An address that somebody listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield f"127.0.0.1:{other.getsockname()[1]}"


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds that sends no event."""
    async with asyncio.timeout(WAIT):
        while not true():  # noqa: ASYNC110 - the kernel and other threads tell nobody
            await asyncio.sleep(0.005)


class Held:
    """An agent that has been asked, and answers when it is told to."""

    def __init__(self, first: bytes = b"", last: bytes = whole(RESULT)) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.first, self.last = first, last

    async def __call__(self, wire: Wire) -> None:
        await wire.request()
        if self.first:
            await wire.send(self.first)
        self.asked.set()
        await self.go.wait()
        await wire.send(self.last)
        await wire.hang()


def streaming() -> Held:
    return Held(head(b"transfer-encoding: chunked", content_type=b"text/event-stream") + chunk(EVENT), chunk(b""))


def certified(folder: Path) -> trustme.CA:
    """Write `tls/chain.pem` and `tls/key.pem` into a folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    (folder / "tls").mkdir(parents=True)
    (folder / "tls/chain.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "tls/key.pem").write_bytes(certificate.private_key_pem.bytes())
    return authority


SECURED = """\
gateway:
  listen: 127.0.0.1:0
  admin: 127.0.0.1:0
  tls: { cert: tls/chain.pem, key: tls/key.pem }
agents: {}
"""
