"""Queries: one more place for a tenant, and bytes that must survive."""

import pytest

from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.params import query_value, query_with_context, refuse_other_ids, split_query
from gateway.a2a.paths import PathCall
from tests.table import for_each

TASK = PathCall(Operation.GET_TASK, task_id="t")
CONFIG = PathCall(Operation.GET_PUSH_CONFIG, task_id="t", config_id="c")


@for_each(
    ("query", "tenant", "passed"),
    [
        (b"", None, b""),
        (b"pageToken=tok%3D%3D&pageSize=5", None, b"pageToken=tok%3D%3D&pageSize=5"),
        (b"tenant=acme", "acme", b""),
        (b"a=1&tenant=acme&b=2", "acme", b"a=1&b=2"),
        (b"tenant=acme&a=%26tenant%3Dother", "acme", b"a=%26tenant%3Dother"),
        (b"tenant=a%26b", "a&b", b""),
        (b"tenant=%61cme", "acme", b""),
        (b"contextId=c%2B1&task_id=%C3%A4&id=1&q=a+b", None, b"contextId=c%2B1&task_id=%C3%A4&id=1&q=a+b"),
        (b"key=K&token=t&filter.id=1&$alt=json&_=1", None, b"key=K&token=t&filter.id=1&$alt=json&_=1"),
        (b"tenant", None, b""),
        (b"tenant=", None, b""),
        (b"a=1&&b=2&", None, b"a=1&b=2"),
        (b"a=tenant=acme", None, b"a=tenant=acme"),
    ],
)
def test_the_tenant_is_taken_out_and_the_rest_is_passed_byte_for_byte(
    query: bytes, tenant: str | None, passed: bytes
) -> None:
    assert split_query(query) == (tenant, passed)


@for_each(
    "query",
    [
        b"tenant=a&tenant=b",
        b"tenant=a&tenant=a",
        b"tenant=a&t%65nant=b",
        b"t%65nant=a",
        b"+tenant=a",
        b"tenant%00=a",
        b"tenant[]=a",
        b"tenant%5B%5D=a",
        b"ten_ant=a",
        b"tenant-=a",
        b"message.tenant=a",
        b"tenantId=a",
        b"x-tenant=a",
        b"configuration.taskPushNotificationConfig.tenant=a",
        b"tenant=a+b",
        b"contextId=a+b",
        b"contextId=a&context_id=a",
        b"pageSize=1&page_size=1",
        b"A2A-Version=1.0&a2a-version=0.3",
        b"message.taskId=a",
        b"message.task_id=a",
        b"message.contextId=a",
        b"message.referenceTaskIds=a",
        b"referenceTaskIds=a",
        b"TaskId=a",
        b"contextid=a",
        b"ID=a",
        b"Name=tasks/a",
        b"PARENT=tasks/a",
        b"na-me=tasks/a",
        b"name=tasks/a+b",
        b"access_token=t",
        b"api_key=t",
        b"X-API-Key=t",
        b"Authorization=t",
        b"=a",
        b"a=%zz",
        b"a=%2",
        b"a=%",
        b"a=%00",
        b"a=%0d%0Ax",
        b"a=%7f",
        b"a=%ff",
        b"a=%c0%ae",
        b"tenant&tenant=b",
        b"a=1&a=2",
        b"Tenant=a",
        b"TENANT=a",
        b"tenan%54=a",
        b"a=1;tenant=b",
        b"tenant=%ff",
        b"%c3%28=1",
        b"a=\xff",
        b"a=\xc3\xa4",
        b"a= b",
        b"a#b",
        b"a\r\nx: y",
        b"a=\0",
    ],
)
def test_an_ambiguous_query_is_refused(query: bytes) -> None:
    with pytest.raises(BadRequest):
        split_query(query)


@for_each(
    ("query", "path"),
    [
        (b"id=t", TASK),
        (b"taskId=t", TASK),
        (b"task_id=t&id=c", CONFIG),
        (b"id=t&pageSize=1", CONFIG),
        (b"id=&taskId=&contextId=", TASK),
        (b"historyLength=1", TASK),
        (b"name=tasks/t", TASK),
        (b"name=tasks%2Ft&parent=&x.name=n", TASK),
        (b"parent=tasks/t", CONFIG),
        (b"parent=tasks/t/pushNotificationConfigs&name=tasks/t/pushNotificationConfigs/c", CONFIG),
        (b"config.name=tasks/t/pushNotificationConfigs/c", CONFIG),
        (b"name=", PathCall(Operation.SEND_MESSAGE)),
    ],
)
def test_ids_of_a_query_that_say_what_the_path_says_are_no_harm(query: bytes, path: PathCall) -> None:
    refuse_other_ids(query, path, listing=False)


@for_each(
    ("query", "path"),
    [
        (b"id=u", TASK),
        (b"taskId=u", TASK),
        (b"a=1&task_id=u", TASK),
        (b"taskId=c", CONFIG),
        (b"id=u", CONFIG),
        (b"contextId=x", TASK),
        (b"taskId=t", PathCall(Operation.SEND_MESSAGE)),
        (b"id=t", PathCall(Operation.LIST_TASKS)),
        (b"name=tasks/u", TASK),
        (b"name=tasks%2Fu", TASK),
        (b"parent=tasks/u", TASK),
        (b"name=t", TASK),
        (b"name=tasks/t/pushNotificationConfigs/d", CONFIG),
        (b"name=tasks/t/pushNotificationConfigs/c/d", CONFIG),
        (b"config.name=tasks/u", CONFIG),
        (b"config.parent=tasks/u/pushNotificationConfigs", CONFIG),
        (b"name=tasks/t", PathCall(Operation.LIST_TASKS)),
        (b"name=tasks/t", PathCall(Operation.SEND_MESSAGE)),
    ],
)
def test_ids_of_a_query_that_say_something_else_are_refused(query: bytes, path: PathCall) -> None:
    with pytest.raises(BadParams):
        refuse_other_ids(query, path, listing=False)


def test_a_list_takes_its_context_from_the_query() -> None:
    refuse_other_ids(b"contextId=c", PathCall(Operation.LIST_TASKS), listing=True)
    with pytest.raises(BadParams):
        refuse_other_ids(b"taskId=t", PathCall(Operation.LIST_TASKS), listing=True)


def test_a_context_is_put_where_one_is_named() -> None:
    changed = query_with_context(b"x=1&contextId=c%2B&y=contextId", "m-c+ \u00e4")
    assert changed == b"x=1&contextId=m-c%2B%20%C3%A4&y=contextId"
    assert query_with_context(b"context_id=c", "d/e") == b"context_id=d%2Fe"
    for query in (b"", b"contextId=", b"contextId", b"status=c", b"x.contextId=c"):
        assert query_with_context(query, "d") == query


def test_the_ids_that_any_query_names_are_found() -> None:
    assert query_value(b"x=1&taskId=t%20&context_id=c", "taskId", "task_id") == "t "
    assert query_value(b"task_id=t&contextId=", "contextId", "context_id") is None
    assert query_value(b"id=t&name=n&sessionId=c", "taskId", "task_id") is None
