"""nginx takes a prefix away as `docs/proxies.md` says, and the path goes on as the client wrote it."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory

from tests.e2e.grpc_site import AGENT, OPEN, site
from tests.e2e.process import ROOT
from tests.e2e.proxy_in_front import PROGRAMS, Front, Ports, in_front, reserved_ports
from tests.e2e.sdk import saying, send, texts
from tests.support.scripted import WAIT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(PROGRAMS["nginx"] is None, reason="nginx is not installed"),
]


def snippets() -> Mapping[str, str]:
    """Return the page's values in place of lines of the file."""
    page = (ROOT / "docs/proxies.md").read_text()
    section = page[page.index("## A prefix in nginx") :]
    mapped, location = re.findall(r"```nginx\n(.*?)```", section, re.DOTALL)[:2]
    shipped = (ROOT / "deploy/nginx.conf").read_text()
    begun = shipped.index("    location / {")
    passed = "proxy_pass http://a2a_gateway;\n"
    replaced = shipped[begun : shipped.index(passed, begun) + len(passed)]
    return {"upstream a2a_gateway {": mapped + "\nupstream a2a_gateway {", replaced: location}


@asynccontextmanager
async def recording(ports: Ports) -> AsyncIterator[list[bytes]]:
    """In the place of the gateway, somebody who writes down the targets of requests."""
    targets: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        targets.append(head.split(b" ", 2)[1])
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", ports.http)
    try:
        yield targets
    finally:
        server.close()
        await server.wait_closed()


async def status_of(front: Front, target: bytes) -> int:
    """The status of a GET of exactly this target."""
    trust: ssl.SSLContext = front.trust
    reader, writer = await asyncio.open_connection("127.0.0.1", front.ports.public, ssl=trust)
    writer.write(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % target)
    async with asyncio.timeout(WAIT):
        line = await reader.readline()
        await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(line.split(b" ")[1])


async def test_the_prefix_is_cut_and_nothing_else_is_changed(tmp_path: Path) -> None:
    with reserved_ports() as ports:
        async with recording(ports) as targets:
            with in_front("nginx", ports, tmp_path, snippets()) as front:
                for target in (
                    b"/echo", b"/", b"/a%2Fb/v1/tasks/t%252F1", b"/%E4%BD%A0?q=a%26b&c=%3F", b"//x", b"/x/./y",
                    b"/x;y=1/%7Ez", b"/a2a/a2a", b"/x?y=/../z",
                ):  # fmt: skip
                    assert await status_of(front, b"/a2a" + target) == 204
                    assert targets == [target]
                    targets.clear()
                # Paths that are below the prefix only after decoding, or only before.
                for target in (
                    b"/%61%32a/echo",
                    b"/x/../a2a/echo",
                    b"//a2a/echo",
                    b"/a2a/../echo",
                    b"/a2ab/echo",
                    b"/a2a%2Fecho",
                ):
                    assert await status_of(front, target) in (400, 404), target
                assert targets == []


async def test_an_agent_is_called_below_the_prefix(tmp_path: Path) -> None:
    with reserved_ports() as ports:
        url = f"https://127.0.0.1:{ports.public}/a2a"
        gateway = {
            "public_url": url,
            "prefix_stripped": True,
            "public_grpc": f"127.0.0.1:{ports.public}",
            "listen": f"127.0.0.1:{ports.http}",
            "listen_grpc": f"127.0.0.1:{ports.grpc}",
            "trusted_proxies": ["127.0.0.1"],
        }
        async with site(tmp_path, {**OPEN, "gateway": gateway}):
            with in_front("nginx", ports, tmp_path, snippets()) as front:
                transport = httpx.AsyncHTTPTransport(verify=front.trust)
                async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=WAIT) as http:
                    for binding in ("JSONRPC", "HTTP+JSON"):
                        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
                        client = await ClientFactory(config).create_from_url(f"{url}/{AGENT}")
                        assert texts(await send(client, saying("hi"))) == [f"{AGENT}: hi"]
