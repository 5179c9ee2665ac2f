"""The tasks of several processes in one list, of the sample agent."""

import asyncio
import json
import os
import sys
from typing import Any

import pytest

import gateway.demo.stdio_agent
from gateway.a2a.bindings.jsonrpc import open_envelope, read_call
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams
from gateway.a2a.path import PathCall
from gateway.upstream.stdio import StdioUpstream
from gateway.upstream.stdio_child import Command
from gateway.upstream.stdio_worker import Spec
from tests.upstream.stdio_spec import spec
from tests.upstream.test_stdio import CALLER, DIALECT, upstream
from tests.upstream.test_stdio_pool import all_ready

pytestmark = pytest.mark.anyio

HEAD = Head("POST", b"/notes")
SAMPLE = Spec(
    Command((sys.executable, gateway.demo.stdio_agent.__file__), "/", {"PATH": os.environ["PATH"]}), processes=3
)


def calling(method: str, **params: Any) -> Call:
    body = json.dumps({"jsonrpc": "2.0", "id": "mine", "method": method, "params": params}).encode()
    return read_call(open_envelope(body), PathCall(), b"", Version.V1_0)


async def ask(made: StdioUpstream, method: str, **params: Any) -> Any:
    call = calling(method, **params)
    response = await made.send(call, made.interface(call, (DIALECT,)), HEAD, CALLER)
    tree = json.loads(await response.read(1_000_000, 30))
    assert (response.status, tree["id"]) == (200, "mine")
    return tree


async def begin(made: StdioUpstream, number: int) -> str:
    message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "count 1"}]}
    name: str = (await ask(made, "SendMessage", message=message))["result"]["task"]["id"]
    return name


async def test_the_tasks_of_all_processes_are_in_one_list() -> None:
    async with upstream(SAMPLE) as made:
        await all_ready(made.agent.pool("acme"))
        begun = await asyncio.gather(*(begin(made, number) for number in range(30)))
        assert all(worker.link is not None and worker.link.served for _, worker in made.agent.workers())
        whole = (await ask(made, "ListTasks"))["result"]
        assert sorted(task["id"] for task in whole["tasks"]) == sorted(begun)
        assert (whole["totalSize"], whole["nextPageToken"]) == (30, "")
        found: list[str] = []
        token: dict[str, str] = {}
        while token.get("pageToken") != "":
            page = (await ask(made, "ListTasks", pageSize=7, **token))["result"]
            found += [task["id"] for task in page["tasks"]]
            token = {"pageToken": page["nextPageToken"]}
        assert found == [task["id"] for task in whole["tasks"]]


async def test_a_page_token_of_nobodys_is_refused() -> None:
    async with upstream(SAMPLE) as made:
        await all_ready(made.agent.pool("acme"))
        with pytest.raises(BadParams):
            await ask(made, "ListTasks", pageToken="theirs")


async def test_what_one_of_them_complains_of_is_the_answer() -> None:
    async with upstream(spec("refuses", processes=2)) as made:
        await all_ready(made.agent.pool("acme"))
        assert (await ask(made, "ListTasks"))["error"]["code"] == -32601
