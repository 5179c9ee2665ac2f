"""Parameters in path and query."""

from typing import Any

import pytest

from gateway.a2a.bindings.rest import read_query
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Operation
from gateway.a2a.params import split_query
from gateway.a2a.paths import path_id
from tests.table import for_each

LIST, GET = Operation.LIST_TASKS, Operation.GET_TASK

# ---- Queries read ----------------------------------------------------------------------------------------------------


@for_each(
    ("query", "meant"),
    [
        (
            (
                b"contextId=c1&status=TASK_STATE_WORKING&pageSize=5&pageToken=tok%3D%3D&historyLength=2"
                b"&statusTimestampAfter=2026-01-02T03%3A04%3A05.678Z&includeArtifacts=true"
            ),
            {
                "contextId": "c1",
                "status": "TASK_STATE_WORKING",
                "pageSize": 5,
                "pageToken": "tok==",
                "historyLength": 2,
                "statusTimestampAfter": "2026-01-02T03:04:05.678Z",
                "includeArtifacts": True,
            },
        ),
        (
            b"includeArtifacts=false&lastUpdatedAfter=2026-01-02T03:04:05.123456789Z&pageSize=100",
            {"includeArtifacts": False, "statusTimestampAfter": "2026-01-02T03:04:05.123456789Z", "pageSize": 100},
        ),
        (b"historyLength=%203&pageSize=+7", {"historyLength": 3, "pageSize": 7}),
        (
            b"context_id=c&page_size=5&page_token=t&history_length=0&include_artifacts=TRUE&status_timestamp_after=x",
            {
                "contextId": "c",
                "pageSize": 5,
                "pageToken": "t",
                "historyLength": 0,
                "includeArtifacts": True,
                "statusTimestampAfter": "x",
            },
        ),
        (b"status=3", {"status": "TASK_STATE_COMPLETED"}),
        (b"status=TASK_STATE_CANCELLED", {"status": "TASK_STATE_CANCELED"}),
        (b"status=TASK_STATE_UNSPECIFIED", {}),
        (b"pageToken=&contextId=&pageSize=&status=&includeArtifacts", {}),
        (b"A2A-Version=1.0&filter=x&foo.bar=1", {}),
        (b"statusTimestampAfter=2026-01-02T03:04:05.5+02:00", {"statusTimestampAfter": "2026-01-02T03:04:05.5+02:00"}),
        (b"statusTimestampAfter=2026-01-02+03:04", {"statusTimestampAfter": "2026-01-02 03:04"}),
    ],
)
def test_what_clients_write_into_a_query_is_read(query: bytes, meant: dict[str, Any]) -> None:
    assert split_query(query) == (None, query)
    assert read_query(LIST, query) == meant


@for_each(
    "query",
    [
        b"pageSize=ten", b"pageSize=1.5", b"pageSize=0x10", b"pageSize=2147483648", b"pageSize=99999999999",
        b"pageSize=%20", b"historyLength=1_0", b"historyLength=%D9%A3", b"includeArtifacts=yes", b"includeArtifacts=1",
        b"status=working", b"status=TASK_STATE_FOO", b"status=9", b"status=-1",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_its_name(query: bytes) -> None:
    with pytest.raises(BadParams) as caught:
        read_query(LIST, query)
    assert caught.value.field == query.partition(b"=")[0].decode()


# ---- Queries written -------------------------------------------------------------------------------------------------


# ---- Ids -------------------------------------------------------------------------------------------------------------


def carried(value: object, *, verb: bool = True) -> str:
    return path_id({"id": value}, "id", verb=verb)


@for_each(
    "value",
    [
        "a/b", "a%2Fb", "100%", "a\\b", ".", "..", "", " a", "a ", "a\nb", "a\0", "\u2028", "x:cancel", "x:Subscribe",
        "i" * 513, "\ud800",
    ],
)  # fmt: skip
def test_ids_that_a_path_cannot_carry_are_refused_by_their_name(value: object) -> None:
    with pytest.raises(BadParams, match=r"^id ") as caught:
        carried(value)
    assert caught.value.field == "id"
