"""Tasks, artifacts and push configurations of 0.1."""

from typing import Any

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.versions.v0_1_task import (
    lift_artifact,
    lift_push,
    lift_status,
    lift_task,
    lower_artifact,
    lower_push,
    lower_status,
    lower_task,
)
from gateway.a2a.versions.version import Memo, Misfit
from tests.doubles.ancient import STATES, insist


def task(**more: Any) -> Tree:
    return {"id": "t", "status": {"state": "working"}, **more}


def text(said: str) -> Tree:
    return {"type": "text", "text": said}


# ---- Tasks ---------------------------------------------------------------------------------------------------------


def test_the_memo_learns_the_context_that_a_task_tells() -> None:
    memo = Memo(task_id="known", context_id="before")
    assert lift_task(task(sessionId="s"), memo)["contextId"] == "s"
    assert (memo.task_id, memo.context_id) == ("known", "s")


def test_a_task_without_a_session_is_in_the_context_of_the_call_or_one_of_its_own() -> None:
    assert lift_task(task(), Memo(context_id="c"))["contextId"] == "c"
    assert lift_task(task(sessionId=None), Memo())["contextId"] == "t"
    assert lift_task(task(sessionId=""), Memo())["contextId"] == "t"


def test_nulls_are_nothing() -> None:
    nulls = task(
        metadata=None, artifacts=None, history=None, status={"state": "working", "message": None, "timestamp": None}
    )
    assert lift_task(nulls, Memo()) == {"id": "t", "contextId": "t", "status": {"state": "TASK_STATE_WORKING"}}


def test_artifacts_and_messages_of_the_same_name_are_told_apart() -> None:
    said = {"role": "user", "parts": [text("yes")]}
    lifted = lift_task(
        task(
            artifacts=[{"parts": [text("a")]}, {"parts": [], "index": 1}, {"parts": [text("b")], "index": 0}],
            history=[dict(said), {"role": "agent", "parts": []}, {"role": "user", "parts": [text("yes")]}],
        ),
        Memo(),
    )
    assert [artifact["artifactId"] for artifact in lifted["artifacts"]] == ["0", "1", "0-2"]
    first, second, third = (message["messageId"] for message in lifted["history"])
    assert third == f"{first}-2"
    assert second != first


def test_to_tell_many_apart_takes_no_longer_than_to_read_them() -> None:
    given = [f"m-{number}" for number in range(2, 2_000)]
    history = [{"role": "user", "parts": [], "messageId": name} for name in [*given, *["m"] * 2_000]]
    lifted = lift_task(task(history=history), Memo())
    assert len({message["messageId"] for message in lifted["history"]}) == 3_998


def test_a_lowered_task_is_one_of_0_1() -> None:
    memo = Memo()
    lowered = lower_task(
        {
            "id": "t", "contextId": "c", "kind": "task", "sessionId": 1,
            "status": {"state": "TASK_STATE_REJECTED"},
            "artifacts": [{"artifactId": name, "parts": []} for name in "aba"],
        },
        memo,
    )  # fmt: skip
    insist("Task", lowered)
    assert lowered["sessionId"] == "c"
    assert [artifact["index"] for artifact in lowered["artifacts"]] == [0, 1, 0]
    assert memo.artifacts == {"a": 0, "b": 1}


def test_a_task_that_says_nothing_is_the_calls_in_a_state_that_is_unknown() -> None:
    assert lower_task({}, Memo(task_id="t")) == {"id": "t", "status": {"state": "unknown"}}


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_0_1_survives_the_hub(state: str) -> None:
    assert lower_status(lift_status({"state": state}, "t", "c")) == {"state": state}


@pytest.mark.parametrize(
    ("state", "lowered"),
    [
        ("TASK_STATE_REJECTED", "failed"),
        ("TASK_STATE_AUTH_REQUIRED", "input-required"),
        ("TASK_STATE_UNSPECIFIED", "unknown"),
        ("TASK_STATE_OF_TOMORROW", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_state_that_0_1_does_not_have_is_the_next_it_has(state: str | None, lowered: str) -> None:
    assert lower_status({"state": state})["state"] == lowered


def test_states_of_0_2_are_understood() -> None:
    assert lift_status({"state": "rejected"}, "t", "c")["state"] == "TASK_STATE_REJECTED"
    assert lift_status({"state": "auth-required"}, "t", "c")["state"] == "TASK_STATE_AUTH_REQUIRED"


@pytest.mark.parametrize(
    ("written", "lifted"),
    [
        ("2026-02-03T04:05:06.789Z", "2026-02-03T04:05:06.789Z"),
        ("2026-02-03T04:05:06.789012", "2026-02-03T04:05:06.789012Z"),
        ("2026-02-03T06:05:06+02:00", "2026-02-03T04:05:06Z"),
    ],
)
def test_moments_are_in_utc(written: str, lifted: str) -> None:
    assert lift_status({"state": "working", "timestamp": written}, "t", "c")["timestamp"] == lifted


def test_a_moment_that_nobody_can_read_is_left_out() -> None:
    assert lift_status({"state": "working", "timestamp": "noon"}, "t", "c") == {"state": "TASK_STATE_WORKING"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": None}, "id"),
        ({"sessionId": 1}, "sessionId"),
        ({"status": None}, "status"),
        ({"status": "working"}, "status"),
        ({"status": {"state": "TASK_STATE_WORKING"}}, "status.state"),
        ({"status": {"state": "working", "timestamp": 1}}, "status.timestamp"),
        ({"status": {"state": "working", "message": {"role": "agent"}}}, "status.message.parts"),
        ({"artifacts": {}}, "artifacts"),
        ({"artifacts": [{"parts": [{"type": "text"}]}]}, "artifacts[0].parts[0].text"),
        ({"history": ["hi"]}, "history[0]"),
        ({"metadata": 1}, "metadata"),
    ],
)
def test_a_task_of_a_wrong_shape_is_told_by_its_place(wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_task(task(**wrong), Memo())
    assert caught.value.field == field


# ---- Artifacts -----------------------------------------------------------------------------------------------------


def test_an_artifact_is_named_by_its_index() -> None:
    lifted = lift_artifact(
        {"parts": [], "index": 3, "append": True, "lastChunk": None, "artifactId": "x", "extensions": 1}
    )
    assert lifted == {"parts": [], "artifactId": "3"}
    assert lift_artifact({"parts": [], "index": None}) == {"parts": [], "artifactId": "0"}


def test_extensions_of_an_artifact_come_back_from_its_metadata() -> None:
    lowered = lower_artifact({"artifactId": "0", "parts": [], "extensions": ["https://e"]}, Memo())
    insist("Artifact", lowered)
    assert lowered == {"parts": [], "index": 0, "metadata": {"extensions_compat": ["https://e"]}}
    assert lift_artifact(lowered) == {"artifactId": "0", "parts": [], "extensions": ["https://e"]}


def test_what_is_remembered_of_artifacts_has_a_bound() -> None:
    memo = Memo()
    long = "a" * 1_000_000
    indexes = [lower_artifact({"artifactId": name}, memo)["index"] for name in (long, "b", long)]
    assert indexes == [0, 1, 0]
    assert all(len(name) <= 64 for name in memo.artifacts)
    for number in range(10_010):
        lower_artifact({"artifactId": f"n-{number}"}, memo)
    assert len(memo.artifacts) == 10_000
    assert lower_artifact({"artifactId": "b"}, memo)["index"] == 1
    assert lower_artifact({"artifactId": "beyond"}, memo)["index"] == 10_000


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"parts": None}, "parts"),
        ({"index": True}, "index"),
        ({"index": 2**31}, "index"),
        ({"name": 1}, "name"),
        ({"description": []}, "description"),
        ({"append": "yes"}, "append"),
        ({"lastChunk": 1}, "lastChunk"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_an_artifact_of_a_wrong_shape_is_told_by_its_place(wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_artifact({"parts": [], **wrong})
    assert caught.value.field == field


# ---- Push configurations -------------------------------------------------------------------------------------------


def test_a_push_configuration_is_nested_and_has_no_id() -> None:
    hub = {
        "id": "p", "taskId": "t", "tenant": "x", "url": "https://h", "token": "k",
        "authentication": {"scheme": "Bearer", "credentials": "c"},
    }  # fmt: skip
    lowered = lower_push(hub)
    insist("TaskPushNotificationConfig", lowered)
    assert lowered["pushNotificationConfig"]["authentication"] == {"schemes": ["Bearer"], "credentials": "c"}


def test_the_first_of_several_schemes_is_the_one() -> None:
    authentication = {"schemes": ["Bearer", "Basic"], "scheme": "x", "credentials": None, "more": 1}
    assert lift_push({"url": "https://h", "authentication": authentication}) == {
        "url": "https://h",
        "authentication": {"scheme": "Bearer", "more": 1},
    }
    assert lift_push({"url": "https://h", "authentication": {"schemes": []}})["authentication"] == {}
    assert lower_push({"taskId": "t", "url": "u", "authentication": {}})["pushNotificationConfig"][
        "authentication"
    ] == {"schemes": []}


def test_a_push_configuration_brings_no_ids_and_no_tenant_of_its_own() -> None:
    unread = {"id": "x", "taskId": "x", "task_id": "x", "tenant": "x"}
    assert lift_push({"url": "https://h", **unread}) == {"url": "https://h"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"url": None}, "url"),
        ({"url": ""}, "url"),
        ({"token": 1}, "token"),
        ({"authentication": []}, "authentication"),
        ({"authentication": {"schemes": "Bearer"}}, "authentication.schemes"),
        ({"authentication": {"schemes": [1]}}, "authentication.schemes[0]"),
        ({"authentication": {"schemes": [], "credentials": 1}}, "authentication.credentials"),
    ],
)
def test_a_push_configuration_of_a_wrong_shape_is_told_by_its_place(wrong: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_push({"url": "https://h", **wrong})
    assert caught.value.field == field
