"""A person sees the same, whatever version an event is spelled in, and nothing that a terminal would obey."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.command.sight import Sight, safe, see

PARTS = [{"text": "hello"}]
STATUS = {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"role": "ROLE_AGENT", "parts": PARTS}}
OLD_PARTS = [{"kind": "text", "text": "hello"}]
OLD_STATUS = {"state": "input-required", "message": {"kind": "message", "role": "agent", "parts": OLD_PARTS}}
ANCIENT_STATUS = {
    "state": "input-required",
    "message": {"role": "agent", "parts": [{"type": "text", "text": "hello"}]},
}
REST_STATUS = {"state": "TASK_STATE_INPUT_REQUIRED", "update": {"role": "ROLE_AGENT", "content": PARTS}}


@pytest.mark.parametrize(
    "event",
    [
        {"statusUpdate": {"taskId": "t", "contextId": "c", "status": STATUS}},
        {"kind": "status-update", "taskId": "t", "contextId": "c", "status": OLD_STATUS, "final": True},
        {"statusUpdate": {"taskId": "t", "contextId": "c", "status": REST_STATUS, "final": True}},
        {"id": "t", "sessionId": "c", "status": ANCIENT_STATUS, "final": True},
    ],
)
def test_a_status_is_its_state_and_what_was_said(event: dict[str, Any]) -> None:
    assert see(event) == Sight("[input-required] hello\n", "input-required", "t", "c")


@pytest.mark.parametrize(
    "event",
    [
        {"message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": PARTS}},
        {"kind": "message", "messageId": "m", "contextId": "c", "role": "agent", "parts": OLD_PARTS},
        {"msg": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "content": PARTS}},
    ],
)
def test_a_message_is_its_text(event: dict[str, Any]) -> None:
    assert see(event) == Sight("hello\n", "", "", "c")


@pytest.mark.parametrize(
    "event",
    [
        {
            "task": {
                "id": "t",
                "contextId": "c",
                "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"parts": PARTS}],
            }
        },
        {
            "kind": "task",
            "id": "t",
            "contextId": "c",
            "status": {"state": "completed"},
            "artifacts": [{"parts": OLD_PARTS}],
        },
        {"id": "t", "contextId": "c", "status": {"state": "completed"}, "artifacts": [{"parts": OLD_PARTS}]},
    ],
)
def test_a_task_is_its_id_its_state_and_its_results(event: dict[str, Any]) -> None:
    assert see(event) == Sight("task t\n[completed]\nhello\n", "completed", "t", "c")


def test_an_artifact_is_its_parts() -> None:
    parts = [{"text": "a\n"}, {"data": {"b": 1}}, {"url": "https://x.example/f", "filename": "f.png"}]
    parts.append({"kind": "file", "file": {"name": "old.png", "bytes": "AA=="}})
    event = {"artifactUpdate": {"taskId": "t", "artifact": {"parts": parts}}}
    assert see(event).text == 'a\n{"b":1}\n(a file f.png)\n(a file old.png)\n'


def test_both_spellings_of_canceled_are_one() -> None:
    assert see({"statusUpdate": {"status": {"state": "TASK_STATE_CANCELLED"}}}).state == "canceled"


def test_what_an_event_leaves_out_is_still_true_from_before() -> None:
    before = Sight("", "working", "t", "c")
    assert see({"artifactUpdate": {"artifact": {"parts": PARTS}}}).after(before) == Sight(
        "hello\n", "working", "t", "c"
    )
    assert see({}).after(None).text == "(an event of a kind that is not known)\n"


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
    text = see(event).text
    assert all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


def test_an_agent_cannot_command_the_terminal() -> None:
    assert safe("\x1b[31mred\x07 \u202eback\r\n\tok") == "�[31mred� �back�\n\tok"
