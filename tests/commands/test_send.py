"""`send` finds the agent, speaks its dialect, shows what comes, and tells failures in words."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.commands.output import CommandFailed
from gateway.commands.send import Message, Shown, render, safe, send
from gateway.demo.fleet import serving
from tests.support.ancient_agent import ancient_agent
from tests.support.answering import Answer, Answering, answering
from tests.table import for_each

CARD_PATH = "/agent/.well-known/agent-card.json"
DONE = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@pytest.fixture(scope="module")
def fleet() -> Iterator[str]:
    with serving(pace=0.001) as url:
        yield url


def said(errand: Message) -> str:
    written: list[str] = []
    send(errand, written.append)
    return "".join(written)


def card(binding: str, version: str, *, streaming: bool = False, path: str = "/agent/call", **more: str) -> bytes:
    interface = {"url": f"BASE{path}", "protocolBinding": binding, "protocolVersion": version, **more}
    return msgspec.json.encode(
        {"name": "A", "supportedInterfaces": [interface], "capabilities": {"streaming": streaming}}
    )


def sent_to(server: Answering, document: bytes, path: str, answer: Answer, errand: Message | None = None) -> str:
    server.answers[CARD_PATH] = (200, document.replace(b"BASE", server.url.encode()))
    server.answers[path] = answer
    return said(replace(errand or Message("", "hi"), url=f"{server.url}/agent"))


def test_a_stream_is_shown_as_it_comes(fleet: str) -> None:
    lines = said(Message(f"{fleet}/clock", "Go")).splitlines()
    assert lines[0].startswith("task ")
    assert lines[1:3] == ["[submitted]", "[working] Watching the clock."]
    assert lines[-1] == "[completed] That was 10 times."
    assert len(lines) == 14


@pytest.mark.anyio
async def test_an_agent_of_0_1_is_spoken_to_in_its_words() -> None:
    async with ancient_agent() as agent:
        asked = await asyncio.to_thread(said, Message(agent.url, "ask"))
        task = str(agent.received[-1]["params"]["id"])
        assert asked.endswith(f"(answer with --task {task})\n")
        assert "[completed]" in await asyncio.to_thread(said, Message(agent.url, "blue", task=task, context="s"))
        assert agent.received[-1]["params"]["sessionId"] == "s"
        counted = await asyncio.to_thread(said, Message(agent.url, "count"))
    assert counted.splitlines()[-1].startswith("[completed]")


def test_a_question_is_answered_with_the_same_task(fleet: str) -> None:
    asked = said(Message(f"{fleet}/travel", "To Lisbon"))
    task = asked.split(maxsplit=2)[1]
    assert asked.endswith(f"(answer with --task {task})\n")
    assert "Booked for Friday." in said(Message(f"{fleet}/travel", "Friday", task=task))


def test_raw_output_is_one_json_document_a_line(fleet: str) -> None:
    lines = said(Message(f"{fleet}/echo", "hi", raw=True)).splitlines()
    assert [msgspec.json.decode(line)["result"]["message"]["parts"] for line in lines] == [[{"text": "hi"}]]


@for_each(
    ("binding", "version", "path", "answer", "sent"),
    [
        (
            "JSONRPC",
            "1.0",
            "/agent/call",
            {"jsonrpc": "2.0", "id": 1, "result": DONE},
            {"role": "ROLE_USER", "parts": [{"text": "hi"}]},
        ),
        ("HTTP+JSON", "1.0", "/agent/call/message:send", DONE, {"role": "ROLE_USER", "parts": [{"text": "hi"}]}),
        (
            "JSONRPC",
            "0.3",
            "/agent/call",
            {"jsonrpc": "2.0", "id": 1, "result": {"kind": "task", "id": "t", "status": {"state": "completed"}}},
            {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hi"}]},
        ),
        (
            "HTTP+JSON",
            "0.3",
            "/agent/call/v1/message:send",
            {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}},
            {"role": "ROLE_USER", "content": [{"text": "hi"}]},
        ),
    ],
)
def test_every_dialect_is_spoken_as_it_is_spelled(
    binding: str, version: str, path: str, answer: object, sent: dict[str, object]
) -> None:
    with answering({}) as server:
        shown = sent_to(server, card(binding, version), path, (200, msgspec.json.encode(answer)))
        assert shown == "task t\n[completed]\n"
        _, _, headers, body = server.asked[-1]
    assert headers["a2a-version"] == version
    frame = msgspec.json.decode(body)
    message = frame.get("params", frame)["message"]
    assert message.pop("messageId")
    assert message == sent


@for_each(("binding", "path"), [("JSONRPC", "/agent/call"), ("HTTP+JSON", "/agent/call/acme/message:send")])
def test_the_tenant_of_the_card_is_in_the_request_where_the_binding_wants_it(binding: str, path: str) -> None:
    answer = {"result": DONE, **DONE}
    with answering({}) as server:
        sent_to(server, card(binding, "1.0", tenant="acme"), path, (200, msgspec.json.encode(answer)))
        frame = msgspec.json.decode(server.asked[-1][3])
        assert frame.get("params", frame)["tenant"] == "acme"
        other = path.replace("acme", "globex")
        sent_to(
            server,
            card(binding, "1.0", tenant="acme"),
            other,
            (200, msgspec.json.encode(answer)),
            Message("", "x", tenant="globex"),
        )
        frame = msgspec.json.decode(server.asked[-1][3])
        assert frame.get("params", frame)["tenant"] == "globex"


def test_0_3_has_no_tenant() -> None:
    with answering({}) as server, pytest.raises(CommandFailed, match="no tenant field"):
        sent_to(server, card("JSONRPC", "0.3"), "/agent/call", (200, b"{}"), Message("", "x", tenant="acme"))


def test_an_agent_of_grpc_alone_is_not_called() -> None:
    with answering({CARD_PATH: (200, card("GRPC", "1.0"))}) as server, pytest.raises(CommandFailed) as failed:
        said(Message(f"{server.url}/agent", "hi"))
    assert "the card offers gRPC alone\n`send` speaks HTTP" in failed.value.message


def test_credentials_go_with_every_request_in_their_own_header() -> None:
    answer: Answer = (200, msgspec.json.encode({"result": DONE}))
    with answering({}) as server:
        sent_to(server, card("JSONRPC", "1.0"), "/agent/call", answer, Message("", "x", key="k"))
        sent_to(server, card("JSONRPC", "1.0"), "/agent/call", answer, Message("", "x", token="t"))
        shown = [(headers.get("x-api-key"), headers.get("authorization")) for _, _, headers, _ in server.asked]
    assert shown == [("k", None)] * 2 + [(None, "Bearer t")] * 2


def test_a_credential_never_goes_to_an_origin_that_was_not_typed() -> None:
    with answering({}) as typed, answering({"/call": (200, b"{}")}) as other:
        document = card("JSONRPC", "1.0").replace(b"BASE/agent/call", f"{other.url}/call".encode())
        with pytest.raises(CommandFailed, match="directs callers to"):
            sent_to(typed, document, "/x", (200, b""), Message("", "x", key="secret"))
        assert other.asked == []


@for_each("errand", [Message("http://x", "x", "a", "b"), Message("http://x", "x", key="a\r\nb")])
def test_odd_credentials_are_refused_before_anything_is_sent(errand: Message) -> None:
    with pytest.raises(CommandFailed) as failed:
        send(errand, print)
    assert failed.value.code == 2


INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}
RPC_ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no such task", "data": [INFO]}}
REST_ERROR = {"error": {"code": 404, "status": "NOT_FOUND", "message": "no such task", "details": [INFO]}}


@for_each(
    ("binding", "answer", "words"),
    [
        ("JSONRPC", (200, msgspec.json.encode(RPC_ERROR)), "error -32001 TASK_NOT_FOUND: no such task (request r-1)"),
        ("HTTP+JSON", (404, msgspec.json.encode(REST_ERROR)), "error 404 TASK_NOT_FOUND: no such task (request r-1)"),
        ("JSONRPC", (401, msgspec.json.encode(RPC_ERROR)), "Use --key or --token."),
        ("JSONRPC", (502, b"<html>"), "HTTP 502 Bad Gateway (request r-1)"),
        ("JSONRPC", (302, b""), "redirects to /elsewhere"),
        ("JSONRPC", (200, b"<html>"), "not JSON (request r-1)"),
        ("JSONRPC", (200, b"[]"), "not a JSON object"),
        ("JSONRPC", (200, b"{}"), "not an A2A answer"),
        ("JSONRPC", (200, b'{"error":1}'), "answered with an error"),
        (
            "JSONRPC",
            (200, b'data: {"error":{"code":-32603,"message":"gone"}}\n\n', "text/event-stream"),
            "-32603: gone",
        ),
        ("JSONRPC", (200, b"", "text/event-stream"), "empty stream"),
        ("JSONRPC", (200, b'{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_FAILED"}}}}'), "is failed"),
    ],
)
def test_failures_are_told_in_words(binding: str, answer: Answer, words: str) -> None:
    path = "/agent/call" if binding == "JSONRPC" else "/agent/call/message:send"
    with answering({}) as server, pytest.raises(CommandFailed) as failed:
        sent_to(server, card(binding, "1.0"), path, answer)
    assert words in failed.value.message


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(CommandFailed, match="empty") as failed:
        send(Message("http://127.0.0.1:1", " "), print)
    assert failed.value.code == 2


@for_each(
    ("errand", "words"),
    [
        (Message("", "x"), "Use --key or --token."),
        (Message("", "x", key="k"), "The credential is not accepted for it."),
    ],
)
def test_a_refused_card_request_suggests_a_remedy(errand: Message, words: str) -> None:
    with answering({CARD_PATH: (401, b"")}) as server, pytest.raises(CommandFailed) as failed:
        send(Message(f"{server.url}/agent", errand.text, errand.key), print)
    assert failed.value.message.endswith(f"(401)\n{words}")


def test_a_caller_with_a_credential_is_not_asked_for_one() -> None:
    answer: Answer = (401, msgspec.json.encode(RPC_ERROR))
    with answering({}) as server, pytest.raises(CommandFailed) as failed:
        sent_to(server, card("JSONRPC", "1.0"), "/agent/call", answer, Message("", "x", key="k"))
    assert "--key" not in failed.value.message


def test_the_url_of_a_tenants_card_is_suggested() -> None:
    with answering({}) as server, pytest.raises(CommandFailed) as failed:
        send(Message(f"{server.url}/a2a/", "x", tenant="travel"), print)
    assert f"at {server.url}/a2a/travel : use that URL" in failed.value.message


def test_a_stream_that_ends_before_its_task_is_a_failure() -> None:
    event = b'data: {"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'
    with answering({}) as server, pytest.raises(CommandFailed, match="ended before the task"):
        sent_to(server, card("JSONRPC", "1.0", streaming=True), "/agent/call", (200, event, "text/event-stream"))


def test_the_task_and_the_context_are_in_the_message() -> None:
    answer = msgspec.json.encode({"result": DONE})
    with answering({}) as server:
        sent_to(server, card("JSONRPC", "1.0"), "/agent/call", (200, answer), Message("", "x", task="t", context="c"))
        message = msgspec.json.decode(server.asked[-1][3])["params"]["message"]
    assert (message["taskId"], message["contextId"]) == ("t", "c")


PARTS = [{"text": "hello"}]
STATUS = {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"role": "ROLE_AGENT", "parts": PARTS}}
OLD_PARTS = [{"kind": "text", "text": "hello"}]
OLD_STATUS = {"state": "input-required", "message": {"kind": "message", "role": "agent", "parts": OLD_PARTS}}
ANCIENT_STATUS = {
    "state": "input-required",
    "message": {"role": "agent", "parts": [{"type": "text", "text": "hello"}]},
}
REST_STATUS = {"state": "TASK_STATE_INPUT_REQUIRED", "update": {"role": "ROLE_AGENT", "content": PARTS}}


ASKS = Shown("[input-required] hello\n", "input-required", "t", "c")
SAID = Shown("hello\n", "", "", "c")
ENDED = Shown("task t\n[completed]\nhello\n", "completed", "t", "c")
COMPLETED = {"state": "completed"}
IDS = {"taskId": "t", "contextId": "c"}


@for_each(
    ("event", "shown"),
    [
        ({"statusUpdate": {**IDS, "status": STATUS}}, ASKS),
        ({"kind": "status-update", **IDS, "status": OLD_STATUS, "final": True}, ASKS),
        ({"statusUpdate": {**IDS, "status": REST_STATUS, "final": True}}, ASKS),
        ({"id": "t", "sessionId": "c", "status": ANCIENT_STATUS, "final": True}, ASKS),
        ({"message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": PARTS}}, SAID),
        ({"kind": "message", "messageId": "m", "contextId": "c", "role": "agent", "parts": OLD_PARTS}, SAID),
        ({"msg": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "content": PARTS}}, SAID),
        ({"task": {**DONE["task"], "artifacts": [{"parts": PARTS}]}}, ENDED),
        (
            {"kind": "task", "id": "t", "contextId": "c", "status": COMPLETED, "artifacts": [{"parts": OLD_PARTS}]},
            ENDED,
        ),
        ({"id": "t", "contextId": "c", "status": COMPLETED, "artifacts": [{"parts": OLD_PARTS}]}, ENDED),
    ],
)
def test_an_event_is_shown_alike_in_the_words_of_every_version(event: dict[str, Any], shown: Shown) -> None:
    assert render(event) == shown


def test_an_artifact_is_its_parts() -> None:
    parts = [{"text": "a\n"}, {"data": {"b": 1}}, {"url": "https://x.example/f", "filename": "f.png"}]
    parts.append({"kind": "file", "file": {"name": "old.png", "bytes": "AA=="}})
    event = {"artifactUpdate": {"taskId": "t", "artifact": {"parts": parts}}}
    assert render(event).text == 'a\n{"b":1}\n(a file f.png)\n(a file old.png)\n'


def test_members_that_an_event_omits_keep_their_values() -> None:
    before = Shown("", "working", "t", "c")
    assert render({"artifactUpdate": {"artifact": {"parts": PARTS}}}).after(before) == Shown(
        "hello\n", "working", "t", "c"
    )
    assert render({}).after(None).text == "(an event of an unknown kind)\n"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["task", "status", "parts", "message", "artifact", "kind", "file", "data"]), inner
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["task", "message", "statusUpdate", "artifactUpdate", "kind", "status"]), JSON))
def test_no_answer_is_too_odd_to_be_shown(event: dict[str, Any]) -> None:
    text = render(event).text
    assert all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


def test_an_agent_cannot_command_the_terminal() -> None:
    assert safe("\x1b[31mred\x07 \u202eback\r\n\tok") == "�[31mred� �back�\n\tok"


def test_files_and_data_are_parts_in_the_words_of_each_version(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_bytes(b"hi")
    answer: Answer = (200, msgspec.json.encode({"result": DONE}))
    sent = []
    with answering({}) as server:
        for version in ("1.0", "0.3"):
            outgoing = Message("", "x", files=(path,), data='{"a": 1}')
            sent_to(server, card("JSONRPC", version), "/agent/call", answer, outgoing)
            sent.append(msgspec.json.decode(server.asked[-1][3])["params"]["message"]["parts"][1:])
    assert sent[0] == [{"raw": "aGk=", "filename": "note.txt", "mediaType": "text/plain"}, {"data": {"a": 1}}]
    file = {"bytes": "aGk=", "name": "note.txt", "mimeType": "text/plain"}
    assert sent[1] == [{"kind": "file", "file": file}, {"kind": "data", "data": {"a": 1}}]
