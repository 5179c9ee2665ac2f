"""Callbacks and keys on the clients' port."""

import asyncio
import json
from typing import Any

import pytest

from gateway.listener import callbacks as callback
from tests.push.test_webhooks import RELAY, Site, site
from tests.support.gateway import LISTENS, Client, running
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio

NOWHERE = "/-/push/" + "A" * 43


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
        assert (await there.gateway.ask("POST", NOWHERE, b"x" * (1024 * 1024 + 1))).status == 404
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


async def test_bodies_of_strangers_are_not_read() -> None:
    async with site(RELAY) as there:
        given = await _given(there)
        own = given["url"].removeprefix(there.gateway.gateway.public_url)
        for path, token in ((NOWHERE, given["token"]), (own, "x"), (own[:-1], given["token"])):
            client = await _began(there, path, token)
            # The body never comes, and is not waited for.
            assert (await client.answer()).status == 404
            client.leave()


async def test_no_more_are_read_at_a_time_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "PATIENCE", 0.05)
    async with site(RELAY) as there:
        given = await _given(there)
        path = given["url"].removeprefix(there.gateway.gateway.public_url)
        open_ = [await _began(there, path, given["token"]) for _ in range(callback.MOST_OF_AGENT)]
        for client in open_:
            # They are being read: the gateway asks for more.
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        client = await _began(there, path, given["token"])
        answer = await client.answer()
        assert (answer.status, answer.header("retry-after")) == (503, "5")
        await there.gateway.until(lambda: len(_lines(there)) == 1)
        (line,) = _lines(there)
        assert (line["status"], line["outcome"], line["agent"], line["tenant"]) == (503, "limited", "crm", "acme")
        for each in (*open_, client):
            each.leave()
        await there.gateway.until(lambda: len(_lines(there)) == callback.MOST_OF_AGENT + 1)
        assert await there.notify(given, {"task": {"id": "nobody's"}}) == 403


async def test_notifications_are_logged_and_counted_without_the_callbacks_id() -> None:
    async with site(RELAY) as there:
        given = await _given(there)
        name = given["url"].rpartition("/")[2]
        task = {"id": given["taskId"], "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        assert await there.notify(given, {"task": task}) == 200
        assert await there.notify(given, {"task": task}, token="wrong") == 404
        await there.gateway.until(lambda: len(_lines(there)) == 2)
        taken, refused = _lines(there)
        assert (taken["status"], taken["outcome"], taken["path"]) == (200, "ok", "/-/push/…")
        assert (taken["agent"], taken["tenant"], taken["method"]) == ("crm", "acme", "POST")
        assert taken["task_id"] == given["taskId"]
        assert taken["bytes_in"] > 0
        assert (refused["status"], refused["outcome"], refused["path"]) == (404, "client_error", "/-/push/…")
        assert (refused["agent"], refused["tenant"], refused["bytes_in"]) == (None, None, 0)
        assert name not in json.dumps(there.gateway.lines)
        counted = {"operation": "other", "binding": "rest"}
        assert there.gateway.metric("requests_total", agent="crm", outcome="ok", **counted) == 1
        assert there.gateway.metric("requests_total", agent="-", outcome="client_error", **counted) == 1


async def _given(there: Site) -> Any:
    """Return the webhook of acme's that the agent was given."""
    task = (await there.send("acme"))["id"]
    await there.call("acme", "CreateTaskPushNotificationConfig", taskId=task, id="mine", url=there.hook)
    return there.agent.configs[task]["mine"]


async def _began(there: Site, path: str, token: str) -> Client:
    """A notification whose body does not come."""
    client = await there.gateway.client()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n"
    async with asyncio.timeout(WAIT):
        await client.send(f"{head}X-A2A-Notification-Token: {token}\r\n\r\n".encode())
    return client


def _lines(there: Site) -> list[dict[str, Any]]:
    return [line for line in there.gateway.lines if "/-/push/" in str(line["path"])]
