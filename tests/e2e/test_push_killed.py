"""A notification that the gateway has accepted is delivered, also when the gateway is killed before."""

import asyncio
import hashlib
import json
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.e2e.process import GatewayProcess, gateway_process, write
from tests.e2e.sdk import open_http
from tests.e2e.shared_site import ACME, tenancy
from tests.e2e.wire import V1, frame
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.support.trusting import Trusting

pytestmark = pytest.mark.anyio


def configuration(agent: ScriptedBackend, receiver: ScriptedBackend, folder: Path) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    state = f"sqlite://{folder / 'state.db'}"
    return {
        **tenancy(),
        "gateway": {"listen": place, "public_url": f"http://{place}", "state": state},
        "agents": {"shared": agent.url},
        "push": {
            "mode": "relay",
            "allow": [f"{receiver.url}/*"],
            "block_private_networks": False,
            # Long enough for the kill to come before the second attempt.
            "deliver": {"first_pause": "3s", "timeout": "2s"},
        },
    }


async def notify(http: httpx.AsyncClient, config: dict[str, Any], state: str) -> int:
    """Post a notification for a configuration, as an agent does; return the status."""
    update = {"statusUpdate": {"taskId": "task-1", "contextId": "context-1", "status": {"state": state}}}
    headers = {"X-A2A-Notification-Token": config["token"]}
    return (await http.post(config["url"], json=update, headers=headers)).status_code


async def test_accepted_notifications_are_delivered_in_order_after_a_kill(tmp_path: Path) -> None:
    agent = Trusting("TASK_STATE_WORKING")
    agent.fixed = "context-1"
    async with (
        ScriptedBackend(agent.script) as backend,
        ScriptedBackend(answers(whole(b"", b"connection: close", status=b"503 Busy"))) as receiver,
    ):
        file = configuration(backend, receiver, tmp_path)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        brought = {"taskPushNotificationConfig": {"url": f"{receiver.url}/hook", "token": "tok"}}
        killed = GatewayProcess(write(file, tmp_path), forked=True)
        try:
            await asyncio.to_thread(killed.await_serving)
            async with open_http({**V1, **ACME}) as http:
                params = {"message": message, "configuration": brought}
                answer = await http.post(killed.url + "/shared", content=frame("SendMessage", params))
                assert answer.json()["result"]["task"]["id"] == "task-1"
                config = agent.asked[0]["params"]["configuration"]["taskPushNotificationConfig"]
                for state in ("TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"):
                    assert await notify(http, config, state) == 200
            # The first attempt has failed; nothing is on its way.
            await asyncio.to_thread(killed.said, "is not delivered yet, after 1 attempts")
            killed.signal(signal.SIGKILL)
            killed.wait()
        finally:
            killed.close()
        tried = len(receiver.requests)
        receiver.script = answers(whole(b"", b"connection: close"))
        with gateway_process(file, tmp_path) as gateway:
            # Those that waited behind the first one come when the lease of the killed process has ended.
            async with asyncio.timeout(30):
                await receiver.until(lambda: len(receiver.requests) >= tried + 3, for_ever=True)
            async with open_http({}) as http:
                keys = (await http.get(gateway.url + "/.well-known/jwks.json")).json()["keys"]
        delivered = receiver.requests[tried:]
        states = [json.loads(each.body)["statusUpdate"]["status"]["state"] for each in delivered]
        assert states == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]
        assert len({each.header(b"x-a2a-delivery") for each in receiver.requests}) == 3
        # The one key signs before and after.
        for request in receiver.requests:
            assert request.header(b"x-a2a-notification-token") == b"tok"
            token = (request.header(b"authorization") or b"").removeprefix(b"Bearer ")
            claims = jwt.decode(token, jwt.PyJWK(keys[0]), ["ES256"], audience=receiver.url, issuer=gateway.url)
            assert claims["request_body_sha256"] == hashlib.sha256(request.body).hexdigest()
