"""Of which task push configurations are, in the words of any generation."""

from typing import Any

import msgspec
import pytest

from gateway.a2a.progress import task_of_resource, tasks_of


@pytest.mark.parametrize(
    "config",
    [
        {"taskId": "t", "id": "c", "url": "https://x/"},
        {"task_id": "t", "id": "c", "url": "https://x/"},
        {"taskId": "t", "pushNotificationConfig": {"id": "c"}},
        {"id": "t", "pushNotificationConfig": {"url": "https://x/"}},
        {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {}},
        {"id": "t", "status": {"state": "working"}},
    ],
)
def test_a_configuration_names_its_task(config: dict[str, Any]) -> None:
    assert tasks_of(msgspec.json.encode([config, config])) == {"t"}
    assert tasks_of(msgspec.json.encode([config, {"taskId": "u"}])) == {"t", "u"}


def test_what_names_none_is_nobodys() -> None:
    assert tasks_of(b"[]") == tasks_of(b'[{"id":"c","url":"https://x/"}]') == tasks_of(b'[{"name":"c"}]') == set()


@pytest.mark.parametrize("data", [b"[1]", b"{}", b'[{"taskId":1}]', b"[[]]", b'[{"task":{"id":"t"}}]', b"[" * 10_000])
def test_what_cannot_be_read_may_be_anybodys(data: bytes) -> None:
    assert tasks_of(data) is None


def test_a_task_may_have_slashes_in_its_name() -> None:
    assert task_of_resource("tasks/a/b/pushNotificationConfigs/c") == "a/b"
    assert task_of_resource("tasks/a") is None
