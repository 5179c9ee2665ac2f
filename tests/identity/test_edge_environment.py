"""The environment has no say over keys, cards and agents: a process of its own, with a hostile one (safety K9)."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.sdk import open_http
from tests.e2e.wire import V1
from tests.identity.corpus.genuine import good, published
from tests.identity.issuance import ISSUER, key_set_document, sha256
from tests.support.answering import Answering, answering
from tests.support.gateway import CALL, RESULT, agent, card_of
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

REPLY = json.loads(RESULT)["result"]["message"]
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def hostile(tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that would lead astray: the authority is one that only the environment knows."""
    bundle, secrets = tmp_path / "authority.pem", tmp_path / "secrets.log"
    authority.cert_pem.write_to_path(bundle)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(secrets))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login evil password evil\n")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return secrets


@asynccontextmanager
async def agent_at(context: ssl.SSLContext | None) -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend(
        agent(answers(whole(RESULT)), card_of("http://x/", "JSONRPC 1.0")), tls=context
    ) as found:
        yield found


def configuration(keys_url: str, backend: str) -> dict[str, Any]:
    return {
        "auth": {
            "issuers": {"corp": {"issuer": ISSUER, "audience": "agents", "jwks": keys_url, "tenant_claim": "org"}}
        },
        "tenants": {"acme": ["*"]},
        "agents": {"echo": backend},
    }


async def call(gateway: GatewayProcess) -> tuple[int, Any]:
    headers = {**V1, "Authorization": f"Bearer {good(time.time()).decode()}"}
    async with open_http(headers) as http:
        answer = await http.post(gateway.url + "/echo", content=CALL)
    return answer.status_code, answer.json()


@asynccontextmanager
async def proxied(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedBackend]:
    """A proxy that the environment asks everybody to use."""

    async with ScriptedBackend(answers(whole(b"evil"))) as proxy:
        for name in PROXY_NAMES:
            monkeypatch.setenv(name, proxy.url)
        yield proxy


async def test_no_proxy_of_the_environment_is_asked_for_keys_cards_or_answers(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering({"/keys": (200, key_set_document(*published()))}) as served:
        async with agent_at(None) as backend, proxied(monkeypatch) as proxy:
            with gateway_process(configuration(served.url + "/keys", backend.url), tmp_path) as gateway:
                status, body = await call(gateway)
                assert (status, body.get("result")) == (200, {"message": REPLY}), body
                async with open_http() as http:
                    card = await http.get(gateway.url + "/echo/.well-known/agent-card.json")
                assert card.json()["name"] == "Scripted"
            assert proxy.wires == []
            check_unsigned(served)
            assert all(each.header(b"authorization") is None for each in backend.requests)
    check_unwritten(hostile)


def check_unwritten(secrets: Path) -> None:
    """No session's secrets were written where the environment says."""
    assert not secrets.exists()


def check_unsigned(served: Answering) -> None:
    """Nobody's password was shown to the issuer."""
    assert served.asked
    assert all("authorization" not in headers for _, _, headers, _ in served.asked)


async def test_no_authority_of_the_environment_is_trusted_and_no_secret_written_where_it_says(
    hostile: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    knocks: list[str | None] = []
    context.sni_callback = lambda _session, name, _context: knocks.append(name)
    async with agent_at(context) as backend:
        url = f"https://localhost:{backend.port}"
        # A client that trusts the authority gets an answer.
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(trusting)
        async with httpx.AsyncClient(verify=trusting, trust_env=False) as http:
            assert (await http.get(f"{url}/.well-known/agent-card.json")).status_code == 200
        knocks.clear()
        settings = configuration(f"{url}/keys", url)
        settings["auth"]["api_keys"] = {"batch": {"sha256": sha256(b"k" * 40), "tenant": "acme"}}
        with gateway_process(settings, tmp_path) as gateway:
            await asyncio.to_thread(gateway.said, "keys not read: ConnectError")
            await asyncio.to_thread(gateway.said, "no card from")
            assert (await call(gateway))[0] == 503
            async with open_http({**V1, "X-API-Key": "k" * 40}) as http:
                answer = await http.post(gateway.url + "/echo", content=CALL)
            assert "UPSTREAM_CONNECT" in answer.text
            assert json.loads(answer.text)["error"]["code"] == -32603
        assert backend.requests == []
        # Keys, card and call: all three came as far as the certificate.
        assert len(knocks) >= 3
    check_unwritten(hostile)
