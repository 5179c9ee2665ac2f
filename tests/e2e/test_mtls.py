"""The official client with a certificate of its own, over every binding."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import AgentCard, GetTaskRequest
from a2a.utils.errors import A2AError, TaskNotFoundError

from tests.e2e.grpc_site import AGENT, Site, site
from tests.e2e.sdk import COMPLETED, saying, send
from tests.support.certificates import SERVER, Authority, Shown, showing

pytestmark = pytest.mark.anyio

ACME, GLOBEX = "spiffe://mesh.test/ns/acme/sa/desk", "spiffe://mesh.test/ns/globex/sa/desk"


class Party:
    """Two authorities, and callers whose certificates they sign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site, self.clients = Authority("site"), Authority("clients")
        self.site.issue("localhost", "127.0.0.1", usages=(SERVER,)).write(folder, "server")
        (folder / "clients.pem").write_bytes(self.clients.pem)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "gateway": {
                "listen_grpc": "127.0.0.1:0",
                "tls": {"cert": "server.pem", "key": "server-key.pem"},
            },
            "auth": {
                "mtls": {
                    "ca": "clients.pem",
                    "clients": {"mesh": {"uri": "spiffe://mesh.test/ns/{tenant}/sa/*"}},
                }
            },
            "tenants": {"acme": [AGENT], "globex": [AGENT]},
        }

    def tls(self, shown: Shown | None) -> ssl.SSLContext:
        return showing(self.folder, shown, self.site)

    @asynccontextmanager
    async def calling(self, here: Site, shown: Shown | None, binding: str) -> AsyncIterator[tuple[Client, AgentCard]]:
        """A client that waits for whole answers, and the card that it found."""
        channel = grpc.ssl_channel_credentials(
            self.site.pem, None if shown is None else shown.key, None if shown is None else shown.chain
        )

        async with httpx.AsyncClient(trust_env=False, verify=self.tls(shown), timeout=20) as http:
            config = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=[binding],
                grpc_channel_factory=lambda address: grpc.aio.secure_channel(address, channel),
            )
            streaming = await ClientFactory(config).create_from_url(f"{here.url}/{AGENT}")
            card: AgentCard = streaming._card  # type: ignore[attr-defined]  # the factory gives it to nobody
            client = ClientFactory(replace(config, streaming=False)).create(card)
            try:
                yield client, card
            finally:
                await client.close()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_the_official_client_calls_with_its_certificate(tmp_path: Path, binding: str) -> None:
    party = Party(tmp_path)
    async with site(tmp_path, party.settings) as here:
        mine, theirs = party.clients.issue(ACME), party.clients.issue(GLOBEX)
        async with party.calling(here, mine, binding) as (client, card):
            assert card.security_schemes["mtls"].HasField("mtls_security_scheme")
            assert [list(each.schemes) for each in card.security_requirements] == [["mtls"]]
            task = await send(client, saying("hello"))
            assert task.status.state == COMPLETED
            assert (await client.get_task(GetTaskRequest(id=task.id))).id == task.id
        # A task is its tenant's, whichever certificate of its shows up.
        async with party.calling(here, party.clients.issue(ACME + "-2"), binding) as (client, _):
            assert (await client.get_task(GetTaskRequest(id=task.id))).id == task.id
        async with party.calling(here, theirs, binding) as (client, _):
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id=task.id))
        async with party.calling(here, None, binding) as (client, _):
            # Over gRPC every client has to show one, so there is no connection.
            with pytest.raises((A2AClientError, A2AError), match=r"(?i)credential|401|unavailable"):
                await send(client, saying("hello"))
        lines = await here.stop()
        seen = {(line["principal"], line["auth_method"], line["binding"]) for line in lines}
        spoken = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}[binding]
        strangers = set() if binding == "GRPC" else {(None, None, spoken)}
        assert {(ACME, "mtls", spoken), (GLOBEX, "mtls", spoken), *strangers} <= seen


async def test_a_channel_with_an_untrusted_certificate_cannot_connect(tmp_path: Path) -> None:
    party = Party(tmp_path)
    async with site(tmp_path, party.settings) as here:
        shown = Authority("other").issue(ACME)
        credentials = grpc.ssl_channel_credentials(party.site.pem, shown.key, shown.chain)
        async with grpc.aio.secure_channel(here.address, credentials) as channel:
            call = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"", timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        # grpc.aio tells nothing of a handshake that failed.
        assert await here.stop() == []
