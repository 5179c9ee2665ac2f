"""Issuers and webhooks whose certificates a private authority signed: `tls: { ca: FILE }`, read again with the file."""

import asyncio
import json
import ssl
import time
from pathlib import Path

import pytest
import trustme

from gateway.reload import ReloadReport, ReloadResult, Trigger
from tests.identity.corpus.genuine import good, published
from tests.identity.front import issuer, shown
from tests.identity.issuance import ISSUER, key_set_document
from tests.support.gateway import CALL, RESULT, agent, bearer, keys, running
from tests.support.reloading import Site, serving
from tests.support.scripted import WAIT, ScriptedBackend, Wire, answers, whole
from tests.support.trusting import Trusting

pytestmark = pytest.mark.anyio

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def certified(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def identity_provider(wire: Wire) -> None:
    """Give out keys, and where they are."""
    while True:
        request = await wire.request()
        url = wire.backend.url
        discovered = json.dumps({"issuer": url, "jwks_uri": f"{url}/keys"}).encode()
        await wire.send(whole(key_set_document(*published()) if request.target == b"/keys" else discovered))


async def reread(site: Site) -> ReloadReport:
    reloader = site.running.gateway.reloader
    assert reloader is not None
    return await reloader.reload(Trigger.ADMIN)


async def test_keys_are_read_from_an_issuer_with_a_private_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls/ca.pem").write_bytes(authority.cert_pem.bytes())
    async with (
        ScriptedBackend(identity_provider, tls=certified(authority)) as provider,
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
    ):
        named = issuer(f"{provider.url}/keys", tls="{ ca: tls/ca.pem }")
        found = f"{{ issuer: '{provider.url}', audience: agents, tenant: acme, tls: {{ ca: tls/ca.pem }} }}"
        stranger = f"{{ issuer: '{ISSUER}/x', audience: agents, tenant: acme, jwks: '{provider.url}/keys' }}"
        text = f"""\
auth: {{ issuers: {{ corp: {named}, found: {found}, stranger: {stranger} }} }}
tenants: {{ acme: [echo] }}
agents: {{ echo: {backend.url} }}
"""
        async with running(text, path=tmp_path / "gateway.yaml") as gateway:
            sets = gateway.gateway.snapshot.key_sets
            async with asyncio.timeout(WAIT):
                for each in sets.values():
                    await each.settled()
            assert {name: each.ready for name, each in sets.items()} == {"corp": True, "found": True, "stranger": False}
            assert sets["stranger"].error == "ConnectError (TLS: unknown authority)"
            answer = await gateway.post("/echo", CALL, [shown(good(time.time())), (b"A2A-Version", b"1.0")])
            assert answer.body == RESULT


async def test_the_file_of_an_issuers_authorities_is_read_again(tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "ca.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    async with ScriptedBackend(identity_provider, tls=certified(authority)) as provider:
        text = f"""\
auth: {{ issuers: {{ corp: {issuer(f"{provider.url}/keys", tls="{ ca: ca.pem }")} }} }}
tenants: {{ acme: [echo] }}
agents: {{ echo: http://127.0.0.1:9 }}
"""
        async with serving(tmp_path, text) as site:
            gateway = site.running.gateway
            await gateway.snapshot.key_sets["corp"].settled()
            assert not gateway.snapshot.key_sets["corp"].ready
            file.write_bytes(authority.cert_pem.bytes())
            assert (await reread(site)).result is ReloadResult.APPLIED
            await site.running.until(lambda: gateway.snapshot.key_sets["corp"].ready)
            file.write_text("no certificate")
            assert (await reread(site)).result is ReloadResult.REFUSED
            assert gateway.snapshot.key_sets["corp"].ready


async def test_webhooks_with_a_private_authority_are_called_and_its_file_is_reloaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = trustme.CA()
    file = tmp_path / "ca.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    crm = Trusting("TASK_STATE_WORKING")
    async with (
        ScriptedBackend(crm.script) as backend,
        ScriptedBackend(answers(whole(b"")), tls=certified(authority)) as receiver,
    ):
        text = f"""\
{keys(acme="acme")}
tenants: {{ acme: [crm] }}
agents: {{ crm: "{backend.url}" }}
push:
  mode: relay
  allow: "{receiver.url}"
  block_private_networks: false
  deliver: {{ first_pause: 20ms, longest_pause: 40ms }}
  tls: {{ ca: ca.pem }}
"""
        async with serving(tmp_path, text) as site:
            gateway = site.running
            brought = {"taskPushNotificationConfig": {"url": f"{receiver.url}/hook"}}
            params = {"message": MESSAGE, "configuration": brought}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
            task = (await gateway.post("/crm", body, [bearer("acme"), (b"A2A-Version", b"1.0")])).json["result"]["task"]
            given = crm.asked[-1]["params"]["configuration"]["taskPushNotificationConfig"]
            path = given["url"].removeprefix(gateway.gateway.public_url)
            headers = [(b"X-A2A-Notification-Token", given["token"].encode()), (b"content-type", b"application/json")]
            named = {"taskId": task["id"], "contextId": task["contextId"], "status": {"state": "TASK_STATE_WORKING"}}
            update = json.dumps({"statusUpdate": named}).encode()
            assert (await gateway.ask("POST", path, update, headers)).status == 200
            await gateway.until(lambda: "could not be called: ConnectError (TLS: unknown authority)" in caplog.text)
            assert receiver.requests == []
            file.write_bytes(authority.cert_pem.bytes())
            assert (await reread(site)).result is ReloadResult.APPLIED
            await receiver.until(lambda: len(receiver.requests) == 1)
            assert receiver.requests[0].target == b"/hook"
