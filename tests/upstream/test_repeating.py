"""The table: what may be sent again (the tests of `gateway/repetition.py` see it done)."""

import pytest
from msgspec.structs import replace

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import Overloaded, UpstreamConnect, UpstreamProtocol, UpstreamReset, UpstreamTimeout
from gateway.a2a.operation import CALLABLE, Operation
from gateway.upstream.repeating import Budget, Missed, may_repeat, message_id, missed
from tests.upstream.test_http import rpc

READS = {
    Operation.GET_TASK,
    Operation.LIST_TASKS,
    Operation.GET_PUSH_CONFIG,
    Operation.LIST_PUSH_CONFIGS,
    Operation.GET_EXTENDED_CARD,
}
CHANGES_NOTHING_TWICE = {Operation.CANCEL_TASK, Operation.DELETE_PUSH_CONFIG, Operation.SUBSCRIBE_TO_TASK}


def call(operation: Operation) -> Call:
    return replace(rpc("GetTask", {"id": "t"}), operation=operation)


@pytest.mark.parametrize("operation", CALLABLE)
def test_the_table(operation: Operation) -> None:
    asked = call(operation)
    assert may_repeat(asked, Missed.CONNECT, idempotent=False)
    assert may_repeat(asked, Missed.BUSY, idempotent=True) is (operation in READS)
    if operation is not Operation.CREATE_PUSH_CONFIG:
        again = operation in READS | CHANGES_NOTHING_TWICE
        assert may_repeat(asked, Missed.RESET, idempotent=False) is again


@pytest.mark.parametrize(
    ("method", "params", "again"),
    [
        ("SendMessage", {"message": {"messageId": "m"}}, True),
        ("SendMessage", {"message": {"messageId": ""}}, False),
        ("SendMessage", {"message": {}}, False),
        ("SendStreamingMessage", {"message": {"messageId": "m"}}, False),
        ("message/send", {"message": {"messageId": "m"}}, True),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "id": "c", "url": "https://h"}, True),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://h"}, False),
        ("tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": {"id": "c"}}, True),
        ("tasks/pushNotificationConfig/set", {"id": "t", "pushNotificationConfig": {"url": "https://h"}}, False),
    ],
)
def test_what_depends_on_what_the_client_wrote(method: str, params: dict[str, object], again: bool) -> None:  # noqa: FBT001 - a row
    assert may_repeat(rpc(method, params), Missed.RESET, idempotent=True) is again


def test_a_message_without_an_id_has_none_and_grpc_tells_none() -> None:
    assert message_id(rpc("SendMessage", {"message": {"messageId": "m"}})) == '"m"'
    assert message_id(rpc("SendMessage", {"message": {}})) is None
    grpc = replace(rpc("GetTask", {"id": "t"}), dialect=Dialect(Binding.GRPC, Version.V1_0))
    assert message_id(grpc) is None


def test_who_is_slow_is_not_asked_again() -> None:
    assert missed(UpstreamConnect("no")) is Missed.CONNECT
    assert missed(UpstreamReset("no")) is Missed.RESET
    assert missed(Overloaded("no")) is Missed.CONNECT
    for kind in (UpstreamTimeout, UpstreamProtocol):
        assert missed(kind("no")) is None


def taken(budget: Budget, now: float) -> int:
    count = 0
    while budget.take(now):
        count += 1
    return count


def test_without_calls_there_are_twenty() -> None:
    budget = Budget(0.2)
    assert taken(budget, 100) == 20
    assert taken(budget, 109) == 0
    assert taken(budget, 110) == 20


def test_a_share_of_the_calls_of_the_last_ten_seconds_comes_on_top() -> None:
    budget = Budget(0.2)
    for number in range(1000):
        budget.call(100 + number / 100)
    assert abs(taken(budget, 110) - 220) <= 20


def test_calls_from_long_ago_count_nothing() -> None:
    budget = Budget(0.2)
    for _ in range(1000):
        budget.call(100)
    assert taken(budget, 130) == 20
