"""Find the task that a push configuration names, in the spelling of any version."""

import re

import msgspec

_ABSENT = msgspec.Raw()
_RESOURCE = re.compile(r"tasks/(.+)/pushNotificationConfigs/[^/]*", re.DOTALL)


class TaskNames(msgspec.Struct, rename="camel", gc=False):
    """The members that name the task of a push configuration of any version, or of a task.

    Attributes:
        task: With the next three: the wrappers of an answer, which no configuration has.
    """

    id: str | None = None
    task_id: str | None = None
    other_task_id: str | None = msgspec.field(default=None, name="task_id")
    name: str | None = None
    push_notification_config: msgspec.Raw = _ABSENT
    other_push_notification_config: msgspec.Raw = msgspec.field(default=_ABSENT, name="push_notification_config")
    status: msgspec.Raw = _ABSENT
    task: msgspec.Raw = _ABSENT
    message: msgspec.Raw = _ABSENT
    status_update: msgspec.Raw = _ABSENT
    artifact_update: msgspec.Raw = _ABSENT


_list = msgspec.json.Decoder(list[TaskNames])


def task_of(config: TaskNames) -> str | None:
    """Return the task that a configuration, or another entry of a list, names; None for none."""
    task = config.task_id or config.other_task_id
    if task:
        return task
    if config.name and (named := task_of_resource(config.name)) is not None:
        return named
    # In 0.1 a configuration has no id of its own.
    pushes = config.push_notification_config or config.other_push_notification_config
    return config.id if pushes or config.status else None


def task_of_resource(name: str) -> str | None:
    """Return the task in the resource name of a configuration, as 0.3 writes it over gRPC; None for another name."""
    resource = _RESOURCE.fullmatch(name)
    return None if resource is None else resource[1]


def tasks_of(data: bytes | msgspec.Raw) -> set[str] | None:
    """Return the tasks that the members of a JSON list name; None where it cannot be read."""
    try:
        configs = _list.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    if any(each.task or each.message or each.status_update or each.artifact_update for each in configs):
        return None
    return {task for config in configs if (task := task_of(config))}
