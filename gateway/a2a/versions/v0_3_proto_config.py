"""Push configurations of A2A 0.3 over HTTP+JSON, and the resource names that say whose they are, lifted to the hub.

The configuration is inside a resource, `{"name": "tasks/T/pushNotificationConfigs/C", "pushNotificationConfig": {}}`;
the hub's is flat. Ids stand in names as they are, escaped by nobody: one that holds a `/` is recognised only where the
call says which task it is about, and else refused.
"""

import re
from typing import Any

from gateway.a2a.json import Tree
from gateway.a2a.versions.foreign import drop, foreign
from gateway.a2a.versions.shape import COUNT, ID, TEXTS, Field, Shape, required, shape, within
from gateway.a2a.versions.version import Memo, Misfit

_WHOSE = foreign("taskId", "tenant")
_CONFIG_NAME = re.compile("tasks/([^/]+)/pushNotificationConfigs/([^/]*)")
_TASK_NAME = re.compile("tasks/([^/]+)")


def _finish_push(push: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    # In the hub these would say whose configuration it is, which the request says here.
    drop(push, _WHOSE)
    if not push.get("authentication"):
        push.pop("authentication", None)


def _finish_asked_push(push: Tree, memo: Memo) -> None:
    required("url")(push, memo)
    _finish_push(push, memo)


def _split(name: str, task: str | None) -> tuple[str, str]:
    """The task and the configuration of a resource name, as they are: nobody escapes anything in one.

    Args:
        task: The task that is expected, whose id may hold a `/`; another is told apart by having none.

    Raises:
        Misfit: it names no configuration.
    """
    before = f"tasks/{task}/pushNotificationConfigs/"
    if task and name.startswith(before) and "/" not in name[len(before) :]:
        return task, name[len(before) :]
    found = _CONFIG_NAME.fullmatch(name)
    if found is None:
        raise Misfit("name", "must be tasks/{task}/pushNotificationConfigs/{id}")
    return found[1], found[2]


def _finish_resource(resource: Tree, memo: Memo) -> None:
    """Make a configuration with its name a flat one."""
    flat = resource.get("pushNotificationConfig")
    if flat is None:
        raise Misfit("pushNotificationConfig", "is required")
    task, last = resource.get("taskId") or memo.task_id, None
    if "name" in resource:
        task, last = _split(resource["name"], task)
    if not task:
        raise Misfit("name", "is required")
    flat["taskId"] = task
    # Where a configuration has no id of its own, servers take the task's (protocol §8.2).
    flat["id"] = flat.get("id") or last or task
    resource.clear()
    resource.update(flat)


def _finish_creation(asked: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    """Make a flat configuration of the request, or of the bare resource that a2a-js sends.

    The task is the one in the path. A `parent` or `name` that speaks of another is refused: agents differ in which of
    them they follow.
    """
    wrapped = asked.get("config")
    if wrapped is not None and ("name" in asked or "pushNotificationConfig" in asked):
        raise Misfit("config", "must not stand beside name or pushNotificationConfig")
    resource, way = (asked, "") if wrapped is None else (wrapped, "config.")
    flat = resource.get("pushNotificationConfig")
    if flat is None:
        raise Misfit(f"{way}pushNotificationConfig", "is required")
    tasks = [(asked.get("taskId"), "taskId"), (resource.get("taskId"), f"{way}taskId"), (_parent(asked), "parent")]
    task = next((task for task, _ in tasks if task), None)
    named_id = None
    if "name" in resource:
        try:
            named_task, named_id = _split(resource["name"], task)
        except Misfit as misfit:
            raise Misfit(f"{way}name", misfit.words) from None
        tasks.append((named_task, f"{way}name"))
        task = task or named_task
    for other, name in tasks:
        if other and other != task:
            raise Misfit(name, "must name the task of the request")
    if not task:
        raise Misfit("parent", "is required")
    config = asked.get("configId")
    if config and flat.setdefault("id", config) != config:
        raise Misfit("configId", "must be the id of the configuration")
    # Inside the request a2a-python ends the name in "None" where there is no id; the bare resource has but the name.
    if named_id and wrapped is None:
        flat.setdefault("id", named_id)
    flat["taskId"] = task
    asked.clear()
    asked.update(flat)


def _parent(asked: Tree) -> str | None:
    parent: str | None = asked.get("parent")
    if parent is None:
        return None
    # The proto's own path has the second form.
    parent = parent.removesuffix("/pushNotificationConfigs")
    task: str | None = asked.get("taskId")
    if task and parent == f"tasks/{task}":
        return task
    return task_of(parent, "parent")


def task_of(name: str, field: str) -> str:
    """The task of a resource name, which stands at `field`.

    Raises:
        Misfit: it names none.
    """
    found = _TASK_NAME.fullmatch(name)
    if found is None:
        raise Misfit(field, "must be tasks/{task}")
    return found[1]


def _finish_config(params: Tree, memo: Memo) -> None:
    name = params.pop("name", None)
    if name is not None:
        task, config = _split(name, params.get("taskId"))
        if params.setdefault("taskId", task) != task or (config and params.setdefault("id", config) != config):
            raise Misfit("name", "must name the configuration of the request")
    parent = _parent(params)
    params.pop("parent", None)
    if parent is not None and params.setdefault("taskId", parent) != parent:
        raise Misfit("parent", "must name the task of the request")
    required("taskId")(params, memo)


def _finish_deletion(params: Tree, memo: Memo) -> None:
    _finish_config(params, memo)
    required("id")(params, memo)


def _first(values: list[Any], memo: Memo) -> str | None:
    """The one scheme that 1.0 has room for."""
    if TEXTS.read is not None:
        TEXTS.read(values, memo)
    return values[0] or None if values else None


_SCHEMES = Field(list, "must be a list of strings", _first, name="scheme")
_AUTHENTICATION = shape({"scheme": ID, "credentials": ID})
_AUTHENTICATION = Shape({**_AUTHENTICATION.fields, "schemes": _SCHEMES})
_PUSH_FIELDS = {"id": ID, "url": ID, "token": ID, "authentication": within(_AUTHENTICATION)}
_NAMED = {"name": ID, "taskId": ID}
_CONFIG = {"taskId": ID, "id": ID, "name": ID, "parent": ID}

ASKED_PUSH = shape(_PUSH_FIELDS, _finish_asked_push)
"""A configuration within a send."""
RESOURCE = shape({**_NAMED, "pushNotificationConfig": within(shape(_PUSH_FIELDS, _finish_push))}, _finish_resource)
"""A configuration with its name, as agents send it."""
_ASKED_RESOURCE = {**_NAMED, "pushNotificationConfig": within(ASKED_PUSH)}
CREATION = shape(
    {"parent": ID, "configId": ID, "config": within(shape(_ASKED_RESOURCE)), **_ASKED_RESOURCE}, _finish_creation
)
"""Parameters that create one."""
LISTING = shape({**_CONFIG, "pageSize": COUNT, "pageToken": ID}, _finish_config)
"""Parameters that list those of a task."""
CONFIG = shape(_CONFIG, _finish_config)
"""Parameters that get one."""
DELETION = shape(_CONFIG, _finish_deletion)
"""Parameters that delete one."""
