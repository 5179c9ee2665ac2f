"""HTTP+JSON calls: path, query and body together."""

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import fault as faults
from gateway.a2a.bindings import rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Operation
from gateway.a2a.params import with_tenant
from gateway.a2a.paths import PathCall
from tests.a2a.sample import vector
from tests.table import for_each

SEND = PathCall(Operation.SEND_MESSAGE)


def read(path: PathCall, body: object = None, *, query: bytes = b"", version: Version = Version.V1_0) -> Call:
    return rest.read_call(path, b"" if body is None else json.dumps(body).encode(), query, version)


def test_the_task_of_a_push_configuration_is_that_of_the_path() -> None:
    path = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
    assert read(path, {"url": "https://x", "taskId": "t", "id": "c"}).task_id == "t"
    for other in ({"taskId": "u"}, {"task_id": "u"}):
        with pytest.raises(BadParams, match="taskId"):
            read(path, other)


CANCEL = PathCall(Operation.CANCEL_TASK, task_id="t")
CREATE = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
_NAME = "tasks/t/pushNotificationConfigs"


@for_each("version", [Version.V0_3, Version.V1_0])
@for_each(
    ("path", "body"),
    [
        *[(path, {name: "u"}) for path in (CANCEL, CREATE) for name in ("taskId", "task_id")],
        *[(path, {name: said}) for path in (CANCEL, CREATE) for name in ("name", "parent")
          for said in ("tasks/u", "t", "tasks/t2", "tasks/", "tasks/t/u", f"{_NAME}/x/y", f"{_NAME}2", f"{_NAME}x/y")],
        (CANCEL, {"id": "u"}),
        (CANCEL, {"id": 1}),
        (CANCEL, {"name": ["tasks/t"]}),
        (CREATE, {"id": "u", "pushNotificationConfig": {"url": "https://h"}}),
        (CREATE, {"parent": "tasks/t", "config": {"name": "tasks/u/pushNotificationConfigs/x"}}),
        (CREATE, {"config": {"taskId": "u"}}),
        (CREATE, {"config": {"pushNotificationConfig": {"task_id": "u"}}}),
        (CREATE, {"taskPushNotificationConfig": {"parent": "tasks/u"}}),
    ],
)  # fmt: skip
def test_a_body_that_names_another_task_than_the_path_is_refused(
    path: PathCall, body: object, version: Version
) -> None:
    """Servers of a2a-python 0.3 follow the `parent` of a body, others the path."""
    with pytest.raises(BadParams):
        read(path, body, version=version)


CREATE = PathCall(Operation.CREATE_PUSH_CONFIG, prefixed=True, task_id="t")


@for_each(("tenant", "scope"), [("acme", "globex"), (None, "globex")])
def test_the_scope_of_0_3_is_the_tenant_wherever_it_stands(tenant: str | None, scope: str) -> None:
    path = PathCall(Operation.LIST_PUSH_CONFIGS, tenant, prefixed=True, task_id="t")
    with pytest.raises(BadParams, match="scope"):
        read(path, query=b"scope=" + scope.encode(), version=Version.V0_3)
    send = PathCall(Operation.SEND_MESSAGE, tenant, prefixed=True)
    with pytest.raises(BadParams, match="scope"):
        read(send, {"scope": scope, "message": {}}, version=Version.V0_3)
    assert read(send, {"scope": tenant or "", "message": {}}, version=Version.V0_3).tenant == tenant
    assert read(path, query=b"scope=" + (tenant or "").encode(), version=Version.V0_3).tenant == tenant
    # 1.0 has no such word, and agents have parameters of their own.
    assert read(path, query=b"scope=read", version=Version.V1_0).query == b"scope=read"


@for_each(
    "body",
    [
        {"message": None, "request": {"taskId": "other"}},
        {"message": {"taskId": "t"}, "request": {"taskId": "t"}},
        {"message": {"taskId": "t", "task_id": "u"}},
        {"message": []},
        {"message": {"taskId": 1}},
        {"configuration": 1},
        {"tenant": 1},
    ],
)
def test_messages_that_could_be_read_in_two_ways_are_refused(body: object) -> None:
    with pytest.raises(BadParams):
        read(SEND, body)


# ---- The tenant ------------------------------------------------------------------------------------------------------

places = st.sampled_from([None, "", "acme", "globex"])


@given(path=st.sampled_from([None, "acme", "globex"]), inner=places, push=places, queried=places)
def test_all_places_of_the_tenant_agree_or_nothing_is_read(
    *, path: str | None, inner: str | None, push: str | None, queried: str | None
) -> None:
    body: dict[str, Any] = {"message": {}, "configuration": {"taskPushNotificationConfig": {"url": "u"}}}
    if inner is not None:
        body["tenant"] = inner
    if push is not None:
        body["configuration"]["taskPushNotificationConfig"]["tenant"] = push
    query = b"" if queried is None else f"x=1&tenant={queried}".encode()
    named = {place for place in (path, inner, push, queried) if place}
    try:
        call = read(PathCall(Operation.SEND_MESSAGE, path), body, query=query)
    except BadParams:
        assert len(named) > 1
        return
    assert {call.tenant} - {None} == named
    assert parse_qsl(call.query.decode()) == ([] if queried is None else [("x", "1")])
    assert call.told == ({inner, push} <= {None, call.tenant})
    for wanted in (None, "initech"):
        written = json.loads(with_tenant(call.params, call.body, wanted))
        assert written.get("tenant") == wanted
        nested = written["configuration"]["taskPushNotificationConfig"]
        assert nested.get("tenant") == (None if push is None else wanted)


# ---- Faults ----------------------------------------------------------------------------------------------------------

ERRORS = {error["reason"]: error for error in vector("errors")["a2a"]}


def test_an_error_of_0_3_is_found_by_whatever_its_clients_look_for() -> None:
    error = json.loads(rest.render(faults.TaskNotFound("Task not found"), version=Version.V0_3, details=[]))
    seen = ERRORS["TASK_NOT_FOUND"]["v0.3-rest"]
    assert seen["http"]["body"].items() <= error.items()
    for shape in seen["also_seen"][:2]:
        assert shape.items() <= error.items()
    assert error["error"] == {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": []}
