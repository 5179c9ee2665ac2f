"""Callbacks and keys on the clients' port."""

import json

import pytest

from tests.doubles.gateway import LISTENS, running
from tests.test_webhooks import RELAY, site

pytestmark = pytest.mark.anyio

NOWHERE = "/-/push/" + "A" * 43


async def test_without_a_relay_there_are_no_callbacks_and_no_keys() -> None:
    async with site("") as there:
        for path in (NOWHERE, "/.well-known/jwks.json"):
            answer = await there.gateway.get(path)
            assert answer.status in (401, 404)


async def test_keys_are_read_and_nothing_else_done_with_them() -> None:
    async with site(RELAY) as there:
        answer = await there.gateway.get("/.well-known/jwks.json")
        assert answer.status == 200
        assert answer.header("content-type") == "application/json"
        assert answer.header("x-request-id") is not None
        assert (await there.gateway.ask("HEAD", "/.well-known/jwks.json")).status == 200
        refused = await there.gateway.ask("POST", "/.well-known/jwks.json", b"{}")
        assert (refused.status, refused.header("allow")) == (405, "GET, HEAD")


async def test_a_callback_takes_posts_of_what_a_notification_may_be() -> None:
    async with site(RELAY) as there:
        assert (await there.gateway.ask("POST", NOWHERE, b"{}")).status == 404
        assert (await there.gateway.ask("PUT", NOWHERE, b"{}")).status == 405
        assert (await there.gateway.get(NOWHERE)).status == 404
        assert (await there.gateway.ask("POST", NOWHERE, b"x" * (1024 * 1024 + 1))).status == 413
        assert (await there.gateway.get(NOWHERE + "?validationToken=abc")).status == 404


async def test_agents_that_ask_first_whether_somebody_is_there_are_answered() -> None:
    async with site(RELAY) as there:
        task = (await there.send("acme"))["id"]
        await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
        path = there.agent.configs[task]["mine"]["url"].removeprefix(there.gateway.gateway.public_url)
        answer = await there.gateway.get(path + "?validationToken=abc-1")
        assert (answer.status, answer.body) == (200, b"abc-1")


async def test_below_a_public_path_they_are_below_it() -> None:
    settings = LISTENS.replace(" }", ', public_url: "https://gw.test/a2a" }')
    text = f"{settings}\nagents: {{ echo: 'http://127.0.0.1:1' }}\npush: {{ mode: relay }}\n"
    async with running(text, settled=False) as gateway:
        assert (await gateway.get("/a2a/.well-known/jwks.json")).status == 200
        assert json.loads((await gateway.get("/a2a/.well-known/jwks.json")).body)["keys"]
        assert (await gateway.get("/.well-known/jwks.json")).status == 404
