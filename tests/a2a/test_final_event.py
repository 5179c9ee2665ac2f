"""The first event of a stream, and the last one, for clients that are told of it."""

from typing import Any

from gateway.a2a.dialect import Version
from gateway.a2a.final_event import Ending, opening
from tests.table import for_each


def status(state: str, **more: Any) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **more}}}


TASK = {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}
MESSAGE = {"message": {"messageId": "m"}}
ARTIFACT = {"artifactUpdate": {"taskId": "t"}}


@for_each(
    ("version", "event", "held"),
    [
        (Version.V1_0, status("COMPLETED"), False),
        (Version.V0_3, status("COMPLETED"), True),
        (Version.V0_3, status("INPUT_REQUIRED"), True),
        (Version.V0_3, status("WORKING"), False),
        (Version.V0_3, TASK, False),
        (Version.V0_3, MESSAGE, False),
        (Version.V0_3, ARTIFACT, False),
        (Version.V0_1, TASK, True),
        (Version.V0_1, MESSAGE, True),
        (Version.V0_1, ARTIFACT, False),
    ],
)
def test_what_may_be_the_last_event_is_held_back(version: Version, event: dict[str, Any], *, held: bool) -> None:
    ending = Ending(version)
    assert ending.hold(event) is held
    assert ending.holds is held
    assert (ending.take(last=True) is event) is held
    assert not ending.holds


def test_only_what_is_over_cannot_be_followed() -> None:
    ending = Ending(Version.V0_3)
    assert not ending.is_over
    ending.hold(status("INPUT_REQUIRED"))
    assert not ending.is_over
    ending.take(last=False)
    ending.hold(status("FAILED"))
    assert ending.is_over


def test_the_status_in_which_the_task_rests_is_said_again_at_the_end() -> None:
    ending = Ending(Version.V0_3)
    ending.hold(status("COMPLETED", message={"messageId": "m"}, timestamp="2026-01-01T00:00:00Z"))
    ending.take(last=False)
    ending.hold(ARTIFACT)
    assert ending.take(last=True) == status("COMPLETED", timestamp="2026-01-01T00:00:00Z")
    assert ending.take(last=True) is None


def test_what_another_status_followed_is_not_said_again() -> None:
    ending = Ending(Version.V0_3)
    ending.hold(status("INPUT_REQUIRED"))
    ending.take(last=False)
    ending.hold(status("WORKING"))
    assert ending.take(last=True) is None


def task(state: str, **more: Any) -> dict[str, Any]:
    return {"task": {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **more}}}


WRITTEN = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a"}}}
NOTED = {"statusUpdate": {**status("WORKING")["statusUpdate"], "metadata": {"progress": 1}}}


@for_each(
    ("event", "begun"),
    [
        (TASK, (TASK,)),
        (MESSAGE, (MESSAGE,)),
        (status("WORKING"), (task("WORKING"),)),
        (status("SUBMITTED", timestamp="2026"), (task("SUBMITTED", timestamp="2026"),)),
        (status("WORKING", message={"a": 1}), (task("WORKING"), status("WORKING", message={"a": 1}))),
        (NOTED, (task("WORKING"), NOTED)),
        (status("COMPLETED"), (task("COMPLETED"), status("COMPLETED"))),
        (status("INPUT_REQUIRED"), (task("INPUT_REQUIRED"), status("INPUT_REQUIRED"))),
        (WRITTEN, (task("WORKING"), WRITTEN)),
    ],
)
def test_a_stream_about_a_task_begins_with_the_task(event: dict[str, Any], begun: tuple[dict[str, Any], ...]) -> None:
    assert opening(event) == begun
