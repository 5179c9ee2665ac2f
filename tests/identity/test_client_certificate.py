"""Agents over TLS: the client certificate, and the name that is checked, over HTTP and over gRPC."""

import ssl
from pathlib import Path

import pytest
import trustme
from a2a.types import Message, Role, SendMessageResponse

from gateway.upstream.grpc_library import grpc
from tests.support.gateway import RESULT, Running, agent, card_of, running
from tests.support.grpc_agent import grpc_agent, says
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

CARD = card_of("https://127.0.0.1/", "JSONRPC 1.0")


class Place:
    """Two authorities: of agents, and of those who may call them; and the files of the gateway."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.agents, self.callers = trustme.CA(), trustme.CA()
        own = self.callers.issue_cert("gateway.example.com")
        self.folder = folder
        (folder / "ca.pem").write_bytes(self.agents.cert_pem.bytes())
        (folder / "own.pem").write_bytes(b"".join(each.bytes() for each in own.cert_chain_pems))
        (folder / "own.key").write_bytes(own.private_key_pem.bytes())
        self.certificate = self.agents.issue_cert(*names)

    def server(self) -> ssl.SSLContext:
        """As an agent is that serves those alone whom its own authority vouches for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.certificate.configure_cert(context)
        self.callers.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        self.asked: list[str | None] = []
        context.sni_callback = lambda _socket, name, _context: self.asked.append(name)
        return context

    def grpc_server(self) -> object:
        chain = b"".join(each.bytes() for each in self.certificate.cert_chain_pems)
        pair = (self.certificate.private_key_pem.bytes(), chain)
        return grpc.ssl_server_credentials([pair], self.callers.cert_pem.bytes(), require_client_auth=True)

    def text(self, url: str, tls: str) -> str:
        return f"agents:\n  echo: {{ backend: '{url}', tls: {{ ca: ca.pem{tls} }} }}\n"


SHOWN = ", cert: own.pem, key: own.key"
NAMED = ", server_name: agent.internal"


async def asked(place: Place, url: str, tls: str) -> Running:
    async with running(place.text(url, tls), path=place.folder / "gateway.yaml") as gateway:
        gateway.answer = await gateway.post("/echo")  # type: ignore[attr-defined]
        gateway.read = gateway.gateway.snapshot.backends["echo"].source.card is not None  # type: ignore[attr-defined]
        return gateway


@pytest.mark.parametrize(
    ("tls", "good"), [(SHOWN + NAMED, True), (NAMED, False), (SHOWN, False)], ids=["both", "no certificate", "no name"]
)
async def test_an_agent_that_asks_for_a_certificate_gets_the_one_of_the_file(
    tmp_path: Path, tls: str, *, good: bool
) -> None:
    place = Place(tmp_path, "agent.internal")
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD), tls=place.server()) as one:
        found = await asked(place, one.url, tls)
        assert (found.answer.body == RESULT) is good  # type: ignore[attr-defined]
        # Its card is asked for alike.
        assert found.read is good  # type: ignore[attr-defined]
        if good:
            assert set(place.asked) == {"agent.internal"}


@pytest.mark.parametrize(
    ("tls", "good"), [(SHOWN + NAMED, True), (NAMED, False), (SHOWN, False)], ids=["both", "no certificate", "no name"]
)
async def test_a_grpc_agent_is_reached_with_the_client_certificate(tmp_path: Path, tls: str, *, good: bool) -> None:
    place = Place(tmp_path, "agent.internal")
    message = SendMessageResponse(message=Message(message_id="m2", role=Role.ROLE_AGENT)).SerializeToString()
    async with grpc_agent(says(message), tls=place.grpc_server()) as one:
        found = await asked(place, one.url, tls)
        answer = found.answer.json  # type: ignore[attr-defined]
        assert ("result" in answer) is good, answer


async def test_a_replica_at_an_address_is_verified_by_its_name(tmp_path: Path) -> None:
    place = Place(tmp_path, "localhost")
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD), tls=place.server()) as one:
        url = f"https://localhost:{one.port}"
        text = place.text("URL", SHOWN).replace("'URL'", f"{{ url: '{url}', dns: headless }}")
        async with running(text, path=tmp_path / "gateway.yaml") as gateway:
            assert (await gateway.post("/echo")).body == RESULT
            line = await gateway.line()
            assert line["backend"].startswith(f"echo@localhost:{one.port}@")
