"""A gateway whose callers show certificates, and such callers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from gateway.reload import ReloadResult, Trigger
from tests.support.certificates import CLIENT, SERVER, Authority, Shown, showing
from tests.support.gateway import CALL, JSON, RESULT, Answer, Client, Pairs, Running, agent, running
from tests.support.scripted import Script, ScriptedBackend, answers, whole
from tests.support.strict import skip_behind_asgi

ACME = "spiffe://mesh.test/ns/acme/sa/batch"
GLOBEX = "spiffe://mesh.test/ns/globex/sa/batch"

CLIENTS = """\
      mesh: { uri: "spiffe://mesh.test/ns/{tenant}/sa/*" }
      reports: { dns: reports.acme.test, tenant: acme, agents: [echo] }
      fax: { common_name: fax-7, tenant: globex }
"""
TENANTS = """\
tenants:
  acme: [echo]
  globex: [echo]
"""


class Certified:
    """The files of a gateway, the two authorities, and the gateway that runs.

    Attributes:
        authority: The authority of the clients' certificates.
        site: The authority of the gateway's own certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.site = Authority(), Authority("site")
        self.running: Running | None = None
        self.rest = ""
        self._clients: list[Client] = []
        self.site.issue("localhost", usages=(SERVER, CLIENT)).write(folder, "server")
        (folder / "clients.pem").write_bytes(self.authority.pem)

    def text(
        self,
        *,
        clients: str = CLIENTS,
        more: str = "",
        tenants: str = TENANTS,
        auth: str = "",
        settings: str = "",
        anonymous: bool = False,
    ) -> str:
        """Return the configuration: `more` beside `clients`, `auth` beside `mtls`, `settings` in `gateway`."""
        return (
            f"gateway:\n  listen: 127.0.0.1:0\n  admin: 127.0.0.1:0\n  listen_grpc: 127.0.0.1:0\n"
            # Only what a test asks for is read again.
            f"  reload: {{ watch: false, poll: 0s }}\n"
            f"  anonymous: {str(anonymous).lower()}\n{settings}  tls: {{ cert: server.pem, key: server-key.pem }}\n"
            f"auth:\n  mtls:\n    ca: clients.pem\n{more}    clients:\n{clients}{auth}{tenants}{self.rest}"
        )

    def tls(self, shown: Shown | None) -> ssl.SSLContext:
        """Return the TLS context of a client that shows a certificate, or none."""
        return showing(self.folder, shown, self.site)

    async def client(self, tls: ssl.SSLContext) -> Client:
        """A new connection."""
        assert self.running is not None
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self.running.port, ssl=tls, server_hostname="localhost")
        )
        self._clients.append(client)
        return client

    async def post(self, shown: Shown | None, headers: Pairs = (), *, to: str = "/echo") -> Answer:
        """One call on a connection of its own."""
        client = await self.client(self.tls(shown))
        await client.ask("POST", to, CALL, (JSON, *headers))
        return await client.answer()

    async def line(self, shown: Shown | None) -> dict[str, Any]:
        """Return the access log line of a client that gets no connection."""
        assert self.running is not None
        # Of what never was a request.
        lines = self.running.lines
        before = [each for each in lines if each["status"] is None]
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await self.post(shown)
            raise AssertionError("it got an answer")
        await self.running.until(lambda: [each for each in lines if each["status"] is None] != before)
        return [each for each in lines if each["status"] is None][-1]

    def leave(self) -> None:
        for client in self._clients:
            client.leave()

    async def reload(self, text: str) -> ReloadResult:
        """Write another file, and have it read."""
        assert self.running is not None
        reloader = self.running.gateway.reloader
        assert reloader is not None
        (self.folder / "gateway.yaml").write_text(f"version: 1\n{text}")
        return (await reloader.reload(Trigger.ADMIN)).result


@asynccontextmanager
async def certifying(
    folder: Path,
    script: Script | None = None,
    *,
    agents: str = "",
    card: bytes | None = None,
    written: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[Certified, Running, ScriptedBackend]]:
    """A gateway in front of one agent at /echo; `more` as `Certified.text`.

    Args:
        agents: Further settings of the agent, as lines of YAML.
    """
    skip_behind_asgi("client certificates")
    site = Certified(folder)
    async with ScriptedBackend(agent(answers(whole(RESULT)) if script is None else script, card)) as backend:
        site.rest = f"agents:\n  echo:\n    backend: {backend.url}\n{agents}"
        text = site.text(**more)
        async with running(text, path=folder / "gateway.yaml", written=written) as gateway:
            site.running = gateway
            try:
                yield site, gateway, backend
            finally:
                site.leave()
