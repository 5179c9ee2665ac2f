"""Whose push configurations are: the task that each names, as any generation writes it."""

import re

import msgspec

_ABSENT = msgspec.Raw()
_RESOURCE = re.compile(r"tasks/(.+)/pushNotificationConfigs/[^/]*", re.DOTALL)


class PushConfig(msgspec.Struct, rename="camel", gc=False):
    """What says of which task it is: a push configuration of any generation, or a task.

    Attributes:
        task: With the next three: what an answer may be wrapped in, and no configuration has.
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


_list = msgspec.json.Decoder(list[PushConfig])


def task_of(config: PushConfig) -> str | None:
    """The task that a configuration, or whatever else is in a list, names; None for none."""
    task = config.task_id or config.other_task_id
    if task:
        return task
    if config.name and (named := task_of_resource(config.name)) is not None:
        return named
    # In 0.1 a configuration has no id of its own.
    pushes = config.push_notification_config or config.other_push_notification_config
    return config.id if pushes or config.status else None


def task_of_resource(name: str) -> str | None:
    """The task of a configuration that is named as 0.3 does over gRPC; None where the name is none of those."""
    resource = _RESOURCE.fullmatch(name)
    return None if resource is None else resource[1]


def tasks_of(data: bytes | msgspec.Raw) -> set[str] | None:
    """The tasks that the members of a JSON list name; None where that cannot be read."""
    try:
        configs = _list.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    if any(each.task or each.message or each.status_update or each.artifact_update for each in configs):
        return None
    return {task for config in configs if (task := task_of(config))}
