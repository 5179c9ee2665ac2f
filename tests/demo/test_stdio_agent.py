"""The sample agent on stdio, asked by its pipes."""

import ast
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.demo import stdio_agent
from tests.support.scripted import WAIT
from tests.support.stdio_host import ProcessHost, frame, hosting, message
from tests.table import for_each

pytestmark = pytest.mark.anyio

FILE = Path(stdio_agent.__file__)
COMMAND = (sys.executable, "-W", "error", str(FILE))
FRAMINGS = ("lsp", "ndjson")
NEVER = ("--pace", "3600")


@asynccontextmanager
async def agent(*options: str, framing: str = "lsp") -> AsyncIterator[ProcessHost]:
    """The agent, which must have nothing to complain of in the end, and nothing to say that nobody asked for."""
    async with hosting(*COMMAND, "--framing", framing, *options, framing=framing) as host:
        yield host
        assert await host.close() == 0
    assert host.complaints == b""
    assert host.strays == []


@pytest.fixture(scope="module")
async def host() -> AsyncIterator[ProcessHost]:
    """One agent for the tests that leave no work behind."""
    async with agent() as started:
        yield started


def texts(task: Any) -> str:
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


@for_each("framing", FRAMINGS)
async def test_a_message_is_answered_by_a_message_or_a_task(framing: str) -> None:
    async with agent(framing=framing) as host:
        said = await host.ask("SendMessage", message("hallo, wörld"))
        assert said["message"]["parts"] == [{"text": "hallo, wörld"}]
        counted = (await host.ask("SendMessage", message("count 3")))["task"]
        assert (counted["status"]["state"], texts(counted)) == ("TASK_STATE_COMPLETED", "1\n2\n3\n")
        assert await host.ask("GetTask", {"id": counted["id"]}) == counted
        assert "history" not in await host.ask("GetTask", {"id": counted["id"], "historyLength": 0})
        assert [each["id"] for each in (await host.ask("ListTasks"))["tasks"]] == [counted["id"]]
        assert (await host.ask("ListTasks", {"contextId": "another"}))["tasks"] == []


@for_each("framing", FRAMINGS)
async def test_a_stream_begins_with_the_task_and_ends_when_it_rests(framing: str) -> None:
    async with agent(framing=framing) as host:
        first, *middle, last = await host.stream("SendStreamingMessage", message("count 1000"))
        assert first["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
        assert middle.pop(0)["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
        updates = [each["artifactUpdate"] for each in middle]
        assert [each["artifact"]["parts"][0]["text"] for each in updates] == [f"{n}\n" for n in range(1, 1001)]
        assert [each["append"] for each in updates] == [False, *[True] * 999]
        assert [each["lastChunk"] for each in updates] == [*[False] * 999, True]
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_question_is_answered_in_the_same_task(host: ProcessHost) -> None:
    asked = (await host.ask("SendMessage", message("count")))["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    again = await host.stream("SendStreamingMessage", message("well", task=asked["id"]))
    assert [next(iter(each)) for each in again] == ["task", "statusUpdate"]
    assert again[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert await host.stream("SubscribeToTask", {"id": asked["id"]}) == [
        {"task": await host.ask("GetTask", {"id": asked["id"]})}
    ]
    done = (await host.ask("SendMessage", message("2", task=asked["id"])))["task"]
    assert (done["id"], done["contextId"], texts(done)) == (asked["id"], asked["contextId"], "1\n2\n")
    said = [each["parts"][0]["text"] for each in done["history"]]
    assert said == ["count", "How far?", "well", "How far?", "2", "Counting."]


async def test_a_task_may_be_left_found_again_watched_and_canceled() -> None:
    async with agent(*NEVER) as host:
        params = {**message("count 5"), "configuration": {"returnImmediately": True}}
        task = (await host.ask("SendMessage", params))["task"]
        watching = [await host.send("SubscribeToTask", {"id": task["id"]}) for _ in range(2)]
        first = [await host.answer(queue) for queue in watching]
        assert [each["result"]["task"]["id"] for each in first] == [task["id"]] * 2
        canceled = await host.ask("CancelTask", {"id": task["id"]})
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        for queue in watching:
            [last] = await host.rest(queue)
            assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        assert await host.ask("GetTask", {"id": task["id"]}) == canceled


async def test_the_card_names_the_command_that_started_it(host: ProcessHost) -> None:
    card = await host.ask("GetExtendedAgentCard")
    [interface] = card["supportedInterfaces"]
    assert (interface["protocolBinding"], interface["protocolVersion"]) == ("stdio", "1.0")
    assert interface["url"].endswith("stdio_agent.py --framing lsp")


# ---- Errors ----------------------------------------------------------------------------------------------------------


@for_each(
    ("method", "params", "code", "reason"),
    [
        ("GetTask", {"id": "none"}, -32001, "TASK_NOT_FOUND"),
        ("SendMessage", message("hi", task="none"), -32001, "TASK_NOT_FOUND"),
        ("SubscribeToTask", {"id": "none"}, -32001, "TASK_NOT_FOUND"),
        ("CreateTaskPushNotificationConfig", {}, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("message/send", message("hi"), -32601, "METHOD_NOT_FOUND"),
        ("SendMessage", {}, -32602, "INVALID_PARAMS"),
        ("SendMessage", {"message": {"parts": []}}, -32602, "INVALID_PARAMS"),
        ("Nonsense", {}, -32601, "METHOD_NOT_FOUND"),
        ("ListTasks", ["by position"], -32602, "INVALID_PARAMS"),
    ],
)
async def test_unsupported_calls_get_their_code_and_reason(
    host: ProcessHost, method: str, params: Any, code: int, reason: str
) -> None:
    error = (await host.ask(method, params))["error"]
    assert (error["code"], error["data"][0]["reason"]) == (code, reason)


async def test_a_task_that_is_over_takes_nothing_any_more(host: ProcessHost) -> None:
    task = (await host.ask("SendMessage", message("count 1")))["task"]
    asked = (("SendMessage", message("2", task=task["id"])), ("CancelTask", {"id": task["id"]}))
    codes = [(await host.ask(method, params))["error"]["code"] for method, params in asked]
    codes.append((await host.ask("SubscribeToTask", {"id": task["id"]}))["error"]["code"])
    assert codes == [-32004, -32002, -32004]


async def test_a_malformed_request_is_refused_and_the_next_one_answered(host: ProcessHost) -> None:
    nobody, before = host.expect(None), len(host.answers)
    for content, code in ((b"{", -32700), (b"[]", -32600), (b'{"id":1}', -32600)):
        await host.write(frame(content))
        assert (await host.answer(nobody))["error"]["code"] == code
    await host.write(frame(b'{"jsonrpc":"2.0","method":"ListTasks"}'))
    assert "tasks" in await host.ask("ListTasks")
    assert len(host.answers) == before + 4


# ---- The process -----------------------------------------------------------------------------------------------------


async def test_either_framing_is_read_whichever_is_written(host: ProcessHost) -> None:
    queue = host.expect("a line")
    await host.write(b'\n{"jsonrpc":"2.0","id":"a line","method":"ListTasks"}\n')
    assert "tasks" in (await host.answer(queue))["result"]


@for_each(
    "broken",
    [
        b"hello\r\n\r\n",
        b"Content-Type: application/json\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 9999999\r\n\r\n",
        b"Content-Length: 10\r\n\r\n{}",
        b"Content-Length: 10\r\n",
        b"\xff: 1\r\n\r\n",
    ],
)
def test_a_broken_frame_ends_it_with_a_word(broken: bytes) -> None:
    done = subprocess.run(COMMAND, input=broken, capture_output=True, timeout=WAIT, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"ERROR broken frame: ")
    assert b"Traceback" not in done.stderr


def test_the_agent_needs_nothing_but_python() -> None:
    tree = ast.parse(FILE.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_example_in_its_words_works() -> None:
    assert stdio_agent.__doc__ is not None
    [asked] = re.findall(r"^    (\{.*\"SendMessage\".*)$", stdio_agent.__doc__, re.MULTILINE)
    done = subprocess.run(
        [*COMMAND, "--framing", "ndjson"], input=asked, text=True, capture_output=True, timeout=WAIT, check=True
    )
    assert "TASK_STATE_COMPLETED" in done.stdout
