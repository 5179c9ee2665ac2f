"""What messages, parts, tasks and events of 0.3 become, and what is made of those that are not by the letter."""

from copy import deepcopy
from typing import Any

import pytest

from gateway.a2a.json import Tree
from gateway.a2a.versions.v0_3_object import (
    lift_answered_message,
    lift_any,
    lift_sent_message,
    lift_state,
    lift_task,
    lower_any,
    lower_message,
    lower_state,
    lower_task,
)
from gateway.a2a.versions.version import Memo, Misfit

STATES = {
    "submitted": "TASK_STATE_SUBMITTED",
    "working": "TASK_STATE_WORKING",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "auth-required": "TASK_STATE_AUTH_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "canceled": "TASK_STATE_CANCELED",
    "failed": "TASK_STATE_FAILED",
    "rejected": "TASK_STATE_REJECTED",
    "unknown": "TASK_STATE_UNSPECIFIED",
}
ENDS = {"completed", "canceled", "failed", "rejected", "input-required", "auth-required"}


def up(part: Tree) -> Tree:
    sent = {"messageId": "m", "role": "user", "parts": [deepcopy(part)]}
    return dict(lift_sent_message(sent)["parts"][0])


def down(part: Tree) -> Tree:
    return dict(lower_message({"messageId": "m", "role": "ROLE_USER", "parts": [deepcopy(part)]})["parts"][0])


def wrong(part: Any) -> str:
    with pytest.raises(Misfit) as caught:
        up(part)
    return caught.value.field.removeprefix("parts[0].")


def status_of(status: Any) -> Tree:
    """A status as it is lifted inside of a task."""
    return dict(lift_task({"kind": "task", "id": "t", "status": status}, Memo(message_id="made"))["status"])


# ---- Parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kindless", "lifted"),
    [
        ({"text": "t"}, {"text": "t"}),
        ({"text": "", "data": None, "file": None}, {"text": ""}),
        ({"file": {"uri": "u"}}, {"url": "u"}),
        ({"data": {"a": 1}}, {"data": {"a": 1}}),
        ({"data": [1]}, {"data": [1]}),
        ({"data": None}, {"data": None}),
        ({"raw": "AA==", "filename": "f", "mediaType": "m/t"}, {"raw": "AA==", "filename": "f", "mediaType": "m/t"}),
        ({"url": "u", "media_type": "m/t"}, {"url": "u", "mediaType": "m/t"}),
    ],
)
def test_a_part_without_a_kind_is_what_it_holds(kindless: Tree, lifted: Tree) -> None:
    assert up(kindless) == lifted
    assert up({"kind": None, **kindless}) == lifted


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({}, "kind"),
        ({"text": "t", "data": {}}, "kind"),
        ({"kind": "image"}, "kind"),
        ({"kind": {}}, "kind"),
        ({"kind": "text"}, "text"),
        ({"kind": "text", "text": 1}, "text"),
        ({"kind": "text", "text": "t", "metadata": []}, "metadata"),
        ({"kind": "data"}, "data"),
        ({"kind": "data", "data": [1]}, "data"),
        ({"kind": "file"}, "file"),
        ({"kind": "file", "file": "f"}, "file"),
        ({"kind": "file", "file": {}}, "file"),
        ({"kind": "file", "file": {"bytes": "", "uri": ""}}, "file"),
        ({"kind": "file", "file": {"bytes": 1}}, "file.bytes"),
        ({"kind": "file", "file": {"uri": "u", "name": 1}}, "file.name"),
        ({"raw": 1}, "raw"),
    ],
)
def test_a_part_that_cannot_be_told_is_a_misfit(part: Tree, field: str) -> None:
    assert wrong(part) == field


def test_a_part_is_one_thing_to_every_reader() -> None:
    others = {"raw": "AA==", "url": "u", "data": {}, "file": {"uri": "u"}}
    assert up({"kind": "text", "text": "t", **others}) == {"text": "t"}
    assert up({"kind": "data", "data": {"a": 1}, "text": "t", "raw": 5}) == {"data": {"a": 1}}
    assert up({"kind": "file", "file": {"uri": "u"}, "text": "t"}) == {"url": "u"}
    assert down({"text": "t", "file": {"uri": "u"}, "kind": "file"}) == {"kind": "text", "text": "t"}
    assert down({"data": {}, "file": {"uri": "u"}}) == {"kind": "data", "data": {}}


def test_a_file_may_say_null_for_what_it_does_not_have() -> None:
    file = {"bytes": None, "uri": "u", "mimeType": None, "name": ""}
    assert up({"kind": "file", "file": file, "metadata": None}) == {"url": "u"}
    assert up({"kind": "file", "file": {"bytes": "", "mime_type": "m/t", "x": 1}}) == {"raw": "", "mediaType": "m/t"}


def test_a_file_may_be_spelled_as_protojson_has_it() -> None:
    """Trap 7: the text of 1.0 remembers these names, and the schema of 0.3 never had them."""
    assert up({"kind": "file", "file": {"fileWithBytes": "AA=="}}) == {"raw": "AA=="}
    assert up({"kind": "file", "file": {"fileWithUri": "u", "name": "f"}}) == {"url": "u", "filename": "f"}
    assert wrong({"kind": "file", "file": {"fileWithUri": 7}}) == "file.fileWithUri"


def test_a_file_says_what_it_is_there_and_back() -> None:
    for content, theirs in (("raw", "bytes"), ("url", "uri")):
        part: Tree = {content: "AA==", "filename": "f", "mediaType": "m/t", "metadata": {"k": "v"}}
        file = {theirs: "AA==", "name": "f", "mimeType": "m/t"}
        assert down(part) == {"kind": "file", "file": file, "metadata": {"k": "v"}}
        assert up(down(part)) == part


def test_what_0_3_has_for_files_alone_is_kept_in_metadata_of_the_others() -> None:
    parts: tuple[Tree, ...] = ({"text": "t"}, {"data": {}}, {"data": 5})
    for part in parts:
        said = {**part, "mediaType": "m/t", "filename": "f"}
        lowered = down(said)
        assert lowered["metadata"]["media_type_compat"] == "m/t"
        assert lowered["metadata"]["filename_compat"] == "f"
        assert not {"mediaType", "filename"} & lowered.keys()
        assert up(lowered) == said
        beside = {**said, "metadata": {"k": "v"}}
        assert up(down(beside)) == beside
    # A file's metadata is its own.
    file = {"kind": "file", "file": {"uri": "u"}, "metadata": {"filename_compat": "f"}}
    assert up(file) == {"url": "u", "metadata": {"filename_compat": "f"}}


def test_what_is_empty_is_not_kept() -> None:
    assert down({"text": "t", "mediaType": "", "filename": ""}) == {"kind": "text", "text": "t"}
    assert down({"url": "u", "mediaType": "", "filename": ""}) == {"kind": "file", "file": {"uri": "u"}}


@pytest.mark.parametrize("value", [None, 0, False, "", [], [1, {}], "text"])
def test_data_that_is_no_object_is_wrapped(value: Any) -> None:
    lowered = down({"data": value, "metadata": {"k": "v"}})
    assert lowered == {"kind": "data", "data": {"value": value}, "metadata": {"k": "v", "data_part_compat": True}}
    assert up(lowered) == {"data": value, "metadata": {"k": "v"}}


@pytest.mark.parametrize(
    ("data", "mark"), [({"value": 1, "x": 2}, True), ({"x": 1}, True), ({"value": 1}, False), ({"value": 1}, "true")]
)
def test_data_that_only_looks_wrapped_stays(data: Tree, mark: Any) -> None:
    metadata = {"data_part_compat": mark}
    assert up({"kind": "data", "data": data, "metadata": metadata}) == {"data": data, "metadata": metadata}


def test_a_part_of_no_content_is_null() -> None:
    # A writer of 1.0 may have left the null out.
    assert down({}) == {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True}}


# ---- Messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lacking", "field"),
    [
        ({"role": "user", "parts": []}, "messageId"),
        ({"messageId": "m", "parts": []}, "role"),
        ({"messageId": "m", "role": "user", "parts": None}, "parts"),
        ({"messageId": "m", "role": "system", "parts": []}, "role"),
    ],
)
def test_a_clients_message_must_have_what_0_3_requires(lacking: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_sent_message(lacking)
    assert caught.value.field == field


def test_spellings_of_1_0_are_understood_within_0_3() -> None:
    sent = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "t"}]}
    assert lift_sent_message(deepcopy(sent)) == sent


def test_an_agents_message_gets_what_it_lacks() -> None:
    lifted = {"messageId": "made", "role": "ROLE_AGENT", "parts": []}
    for lacking in ({}, {"messageId": "", "role": "ROLE_UNSPECIFIED", "parts": None}):
        assert lift_answered_message(dict(lacking), Memo(message_id="made")) == lifted
    with pytest.raises(Misfit, match="messageId: must be a string"):
        lift_answered_message({"messageId": 0}, Memo(message_id="made"))


def test_a_role_of_nobody_is_the_agents() -> None:
    assert lower_message({"messageId": "m", "role": "ROLE_UNSPECIFIED"})["role"] == "agent"
    assert lower_message({"messageId": "m"}) == {"kind": "message", "messageId": "m", "role": "agent", "parts": []}


def test_empty_ids_are_none() -> None:
    empty = {"messageId": "m", "role": "user", "parts": [], "contextId": "", "taskId": ""}
    assert lift_sent_message(dict(empty)).keys() == {"messageId", "role", "parts"}
    assert lower_message(dict(empty)).keys() == {"kind", "messageId", "role", "parts"}


# ---- Tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "hub"), STATES.items())
def test_every_state_has_its_word_in_both(ours: str, hub: str) -> None:
    assert lift_state(ours) == lift_state(hub) == hub
    assert lower_state(hub) == ours


def test_states_as_protobuf_spells_them_and_unheard_of_ones() -> None:
    assert lift_state("TASK_STATE_CANCELLED") == "TASK_STATE_CANCELED"
    assert lift_state("done") is None
    assert lower_state(None) == lower_state("TASK_STATE_NEW") == "unknown"
    for status in ({"state": "done"}, {"state": None}, {}, {"state": ["working"]}, "working", None):
        with pytest.raises(Misfit, match=r"^status"):
            status_of(status)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-02-03T04:05:06.789Z", "2026-02-03T04:05:06.789Z"),
        ("2026-02-03T04:05:06.249570+00:00", "2026-02-03T04:05:06.249570Z"),
        ("2026-02-03T04:05:06.1234567891+02:00", "2026-02-03T02:05:06.123456789Z"),
        ("2026-02-03 04:05:06", "2026-02-03T04:05:06Z"),
    ],
)
def test_moments_are_told_as_1_0_writes_them(said: str, meant: str) -> None:
    assert status_of({"state": "working", "timestamp": said})["timestamp"] == meant


@pytest.mark.parametrize("said", ["", "now", "2026-02-30T04:05:06Z", 1770091506, None, {}])
def test_a_status_of_no_time_is_still_a_status(said: Any) -> None:
    assert status_of({"state": "working", "timestamp": said}) == {"state": "TASK_STATE_WORKING"}


def test_a_task_that_does_not_name_itself_is_what_the_call_is_about() -> None:
    working = {"state": "working"}
    memo = Memo(task_id="t", context_id="c")
    assert lift_task({"status": dict(working), "contextId": ""}, memo).items() >= {"id": "t", "contextId": "c"}.items()
    with pytest.raises(Misfit, match="id: is required"):
        lift_task({"kind": "task", "status": working}, Memo())
    with pytest.raises(Misfit, match="kind: must be task"):
        lift_task({"kind": "message", "id": "t", "status": working}, Memo())
    with pytest.raises(Misfit, match="status: is required"):
        lift_task({"kind": "task", "id": "t"}, Memo())


def test_a_task_of_no_context_has_the_calls_or_an_empty_one() -> None:
    task = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
    assert lower_task(deepcopy(task), Memo())["contextId"] == ""
    assert lower_task(deepcopy(task), Memo(context_id="c"))["contextId"] == "c"
    assert lift_task({"kind": "task", "id": "t", "status": {"state": "working"}}, Memo()).keys() == {"id", "status"}


def test_a_whole_task_comes_back_as_it_was() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "t"}], "referenceTaskIds": ["r"]}
    task: Tree = {
        "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING", "message": deepcopy(message)},
        "history": [deepcopy(message)], "artifacts": [{"artifactId": "a", "parts": [{"text": "t"}]}],
    }  # fmt: skip
    lowered = lower_task(deepcopy(task), Memo())
    kinds = [lowered["kind"], lowered["status"]["message"]["kind"], lowered["artifacts"][0]["parts"][0]["kind"]]
    assert kinds == ["task", "message", "text"]
    assert lift_task(lowered, Memo()) == task
    assert lower_any({"task": deepcopy(task)}, Memo(), last=True)["kind"] == "task"
    assert lower_any({"message": message}, Memo(), last=True)["kind"] == "message"


def test_an_empty_id_is_none() -> None:
    with pytest.raises(Misfit, match="id: must not be empty"):
        lift_task({"id": "", "status": {"state": "working"}}, Memo())


def test_a_task_of_no_status_is_in_an_unknown_one() -> None:
    assert lower_task({"id": "t", "contextId": "c"}, Memo())["status"] == {"state": "unknown"}


def test_empty_lists_and_nulls_of_a_task_are_tolerated() -> None:
    task: Tree = {"id": "t", "status": {"state": "working", "message": None}, "history": [], "artifacts": None}
    assert lift_task(task, Memo()) == {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "history": []}
    artifact = {"artifactId": "a", "parts": None, "name": None}
    task = {"id": "t", "status": {"state": "working"}, "history": None, "artifacts": [artifact]}
    assert lift_task(task, Memo())["artifacts"] == [{"artifactId": "a", "parts": []}]


def test_what_is_wrong_deep_inside_is_found() -> None:
    task: Tree = {"id": "t", "status": {"state": "working"}, "artifacts": [{"artifactId": "a", "parts": [{}]}]}
    with pytest.raises(Misfit) as caught:
        lift_task(task, Memo())
    assert caught.value.field == "artifacts[0].parts[0].kind"
    task = {"id": "t", "status": {"state": "working", "message": {"parts": {}}}}
    with pytest.raises(Misfit) as caught:
        lift_task(task, Memo())
    assert caught.value.field == "status.message.parts"


# ---- Events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"id": "t", "status": {"state": "working"}}, "task"),
        ({"taskId": "t", "status": {"state": "working"}}, "statusUpdate"),
        ({"task_id": "t", "status": {"state": "working"}}, "statusUpdate"),
        ({"status": {"state": "working"}, "final": True}, "statusUpdate"),
        ({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}, "artifactUpdate"),
        ({"messageId": "m", "role": "agent", "parts": []}, "message"),
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}, "task"),
        ({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}, "message"),
        ({"statusUpdate": {"taskId": "t", "status": {"state": "working"}}}, "statusUpdate"),
        ({"status_update": {"taskId": "t", "status": {"state": "working"}}}, "statusUpdate"),
        ({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}}, "artifactUpdate"),
    ],
)
def test_an_event_without_a_kind_is_what_it_holds(event: Tree, name: str) -> None:
    assert list(lift_any(event, Memo(task_id="call"))) == [name]


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({}, "kind"),
        ({"kind": "status"}, "kind"),
        ({"kind": 1}, "kind"),
        ({"task": []}, "kind"),
        ({"task": {"status": {}}}, "task.id"),
        ({"kind": "status-update", "status": {"state": "working"}}, "taskId"),
        ({"kind": "status-update", "taskId": "t"}, "status"),
        ({"kind": "artifact-update", "taskId": "t"}, "artifact"),
        ({"kind": "artifact-update", "taskId": "t", "artifact": {"parts": []}}, "artifact.artifactId"),
        ({"kind": "artifact-update", "taskId": "t", "append": "yes"}, "append"),
    ],
)
def test_an_event_that_cannot_be_told_is_a_misfit(event: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lift_any(event, Memo())
    assert caught.value.field == field


def test_events_are_about_the_task_that_was_named_before() -> None:
    memo = Memo()
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}
    lift_any(task, memo)
    update = lift_any({"kind": "status-update", "status": {"state": "completed"}, "final": True}, memo)
    assert update == {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


def test_an_event_of_no_context_is_in_one_of_its_task() -> None:
    memo = Memo()
    for _ in range(2):
        event = {"kind": "status-update", "taskId": "t", "contextId": "", "status": {"state": "working"}}
        assert lift_any(event, memo)["statusUpdate"]["contextId"] == "t"
    # What was made up is not remembered as said.
    assert memo == Memo(task_id="t")
    lowered = lower_any(
        {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}, Memo(), last=False
    )
    assert lowered["contextId"] == "t"
    lowered = lower_any({"statusUpdate": {}}, Memo(task_id="call"), last=True)
    assert lowered == {
        "kind": "status-update", "taskId": "call", "contextId": "call", "status": {"state": "unknown"}, "final": False,
    }  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_an_event_is_final_where_the_stream_ends_and_nothing_goes_on(state: str) -> None:
    for last in (True, False):
        event = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": STATES[state]}}}
        assert lower_any(event, Memo(), last=last)["final"] is (last and state in ENDS)


def test_chunks_of_an_artifact_always_say_what_they_are() -> None:
    hub: Tree = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}}
    lowered = lower_any({"artifactUpdate": deepcopy(hub)}, Memo(), last=False)
    assert (lowered["append"], lowered["lastChunk"]) == (False, False)
    assert lift_any(lowered, Memo()) == {"artifactUpdate": hub}
    lowered = lower_any({"artifactUpdate": {**deepcopy(hub), "append": True}}, Memo(), last=True)
    assert (lowered["append"], lowered["lastChunk"]) == (True, False)
