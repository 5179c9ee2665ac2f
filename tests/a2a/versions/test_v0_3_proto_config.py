"""Push configurations with their names, in the shapes that clients and agents give them."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import Memo, Misfit, Step
from tests.table import for_each

CREATION = FORM.rules[Operation.CREATE_PUSH_CONFIG].params_up
CONFIG = FORM.rules[Operation.GET_PUSH_CONFIG].params_up
LISTING = FORM.rules[Operation.LIST_PUSH_CONFIGS].params_up
DELETION = FORM.rules[Operation.DELETE_PUSH_CONFIG].params_up
RESOURCE = FORM.rules[Operation.GET_PUSH_CONFIG].result_up

NAME = "tasks/t/pushNotificationConfigs/c"
FLAT = {"taskId": "t", "id": "c", "url": "u"}
SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6)


def lifted(step: Step, tree: Tree, task: str | None = None) -> Tree:
    return dict(step(deepcopy(tree), Memo(task_id=task)))


def refused(step: Step, tree: Tree) -> str:
    with pytest.raises(Misfit) as caught:
        lifted(step, tree)
    return caught.value.field


# ---- Created ---------------------------------------------------------------------------------------------------------


@for_each(
    "asked",
    [
        # a2a-python
        {"taskId": "t", "parent": "tasks/t", "configId": "c",
         "config": {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}}},
        {"taskId": "t", "parent": "tasks/t", "config_id": "c",
         "config": {"name": NAME, "push_notification_config": {"id": "c", "url": "u"}}},
        # a2a-js
        {"taskId": "t", "name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"taskId": "t", "name": NAME, "pushNotificationConfig": {"url": "u"}},
        # by hand
        {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"task_id": "t", "configId": "c", "config": {"pushNotificationConfig": {"url": "u"}}},
        # gRPC, by the two forms that the proto gives the parent
        {"parent": "tasks/t", "configId": "c", "config": {"pushNotificationConfig": {"url": "u"}}},
        {"parent": "tasks/t/pushNotificationConfigs", "config": {"pushNotificationConfig": {"id": "c", "url": "u"}}},
        {"config": {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}}},
    ],
)  # fmt: skip
def test_a_creation_is_lifted_in_any_shape(asked: Tree) -> None:
    assert lifted(CREATION, asked) == FLAT


def test_the_name_that_a2a_python_makes_up_is_no_id() -> None:
    config = {"name": "tasks/t/pushNotificationConfigs/None", "pushNotificationConfig": {"url": "u"}}
    assert lifted(CREATION, {"taskId": "t", "parent": "tasks/t", "config": config}) == {"taskId": "t", "url": "u"}


@for_each(
    ("change", "field"),
    [
        ({"parent": "tasks/other"}, "parent"),
        ({"parent": "t"}, "parent"),
        ({"parent": "tasks/t/x"}, "parent"),
        ({"parent": 1}, "parent"),
        ({"configId": "d"}, "configId"),
        ({"config_id": "d"}, "config_id"),
        ({"config": None}, "pushNotificationConfig"),
        ({"config": {}}, "config.pushNotificationConfig"),
        ({"config": {"pushNotificationConfig": {"id": "c"}}}, "config.pushNotificationConfig.url"),
        ({"config": {"name": "t/c", "pushNotificationConfig": {"url": "u"}}}, "config.name"),
        ({"config": {"name": NAME + "/d", "pushNotificationConfig": {"url": "u"}}}, "config.name"),
        ({"config": {"name": NAME.replace("t/", "s/"), "pushNotificationConfig": {"url": "u"}}}, "config.name"),
        ({"config": {"taskId": "s", "pushNotificationConfig": {"url": "u"}}}, "config.taskId"),
        ({"name": NAME}, "config"),
        ({"pushNotificationConfig": {"url": "u"}}, "config"),
        ({"config": {"pushNotificationConfig": {"url": "u", "token": 1}}}, "config.pushNotificationConfig.token"),
    ],
)
def test_a_creation_that_says_two_things_is_a_misfit(change: Tree, field: str) -> None:
    config = {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}}
    asked = {"taskId": "t", "parent": "tasks/t", "configId": "c", "config": config}
    assert refused(CREATION, {**asked, **change}) == field


def test_a_creation_must_name_a_task() -> None:
    assert refused(CREATION, {"config": {"pushNotificationConfig": {"url": "u"}}}) == "parent"


# ---- Answered --------------------------------------------------------------------------------------------------------


@for_each(
    "answer",
    [
        {"name": NAME, "pushNotificationConfig": {"id": "c", "url": "u"}},
        {"name": NAME, "push_notification_config": {"url": "u", "token": ""}},
        {"name": NAME, "pushNotificationConfig": {"url": "u", "taskId": "x", "tenant": "y"}, "more": 1},
        {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": "u"}},
    ],
)
def test_a_resource_is_lifted_flat(answer: Tree) -> None:
    assert lifted(RESOURCE, answer) == FLAT


@for_each("name", ["tasks/t/pushNotificationConfigs/", None])
def test_a_resource_without_an_id_has_the_id_of_its_task(name: str | None) -> None:
    answer = {"name": name, "pushNotificationConfig": {"url": "u"}}
    assert lifted(RESOURCE, answer, "t") == {"taskId": "t", "id": "t", "url": "u"}


@for_each(
    ("answer", "field"),
    [
        ({"name": NAME}, "pushNotificationConfig"),
        ({"pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "tasks/a/b/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "tasks//pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": "/" + NAME, "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": NAME + "\n/", "pushNotificationConfig": {"url": "u"}}, "name"),
        ({"name": 1, "pushNotificationConfig": {"url": "u"}}, "name"),
    ],
)
def test_a_resource_that_is_none_is_a_misfit_that_names_the_place(answer: Tree, field: str) -> None:
    assert refused(RESOURCE, answer) == field


def test_an_id_with_a_slash_is_known_only_where_the_call_says_it() -> None:
    answer = {"name": "tasks/a/b/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u"}}
    assert lifted(RESOURCE, answer, "a/b") == {"taskId": "a/b", "id": "c", "url": "u"}


@given(SEGMENTS, SEGMENTS)
def test_ids_stand_in_names_as_they_are(task: str, config: str) -> None:
    answer = {"name": f"tasks/{task}/pushNotificationConfigs/{config}", "pushNotificationConfig": {"url": "u"}}
    assert lifted(RESOURCE, answer) == {"taskId": task, "id": config, "url": "u"}


# ---- Got, listed, deleted --------------------------------------------------------------------------------------------


@for_each(
    ("step", "asked", "meant"),
    [
        (CONFIG, {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}),
        (CONFIG, {"name": NAME}, {"taskId": "t", "id": "c"}),
        (CONFIG, {"name": NAME, "task_id": "t"}, {"taskId": "t", "id": "c"}),
        (CONFIG, {"taskId": "t"}, {"taskId": "t"}),
        (DELETION, {"name": NAME}, {"taskId": "t", "id": "c"}),
        (LISTING, {"parent": "tasks/t", "page_size": "5", "pageToken": ""}, {"taskId": "t", "pageSize": 5}),
        (LISTING, {"parent": "tasks/a/b", "taskId": "a/b"}, {"taskId": "a/b"}),
    ],
)
def test_requests_may_name_a_resource(step: Step, asked: Tree, meant: Tree) -> None:
    assert lifted(step, asked) == meant


@for_each(
    ("step", "asked", "field"),
    [
        (CONFIG, {}, "taskId"),
        (CONFIG, {"name": NAME, "taskId": "s"}, "name"),
        (CONFIG, {"name": NAME, "id": "d"}, "name"),
        (CONFIG, {"name": "tasks/t"}, "name"),
        (DELETION, {"taskId": "t"}, "id"),
        (LISTING, {"parent": "t"}, "parent"),
        (LISTING, {"parent": "tasks/t", "taskId": "s"}, "parent"),
    ],
)
def test_requests_that_name_no_resource_are_misfits(step: Step, asked: Tree, field: str) -> None:
    assert refused(step, asked) == field
