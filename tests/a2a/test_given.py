"""Bodies that are translated."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gateway.a2a import json as strict_json
from gateway.a2a.fault import ParseFailed
from gateway.a2a.operation import Operation
from gateway.a2a.params import Parameters, given_params, open_params
from tests.table import for_each


def read(tree: dict[str, Any], operation: Operation = Operation.SEND_MESSAGE) -> Parameters:
    members = msgspec.json.decode(json.dumps(tree), type=dict[str, msgspec.Raw])
    return open_params(operation, members)


def test_members_are_given_as_trees() -> None:
    found = given_params(read({"tenant": "acme", "metadata": {"a": 1.50}}), typed=True)
    assert found == {"metadata": {"a": Decimal("1.5")}}


@for_each("typed", [True, False])
@for_each(
    ("operation", "tree"),
    [
        (Operation.SEND_MESSAGE, {"configuration": {"taskPushNotificationConfig": {"tenant": "a", "url": "u"}}}),
        (Operation.SEND_MESSAGE, {"configuration": {"push_notification_config": {"tenant": "a", "url": "u"}}}),
        (Operation.SEND_MESSAGE, {"pushNotification": {"tenant": None, "url": "u"}}),
        (Operation.CREATE_PUSH_CONFIG, {"tenant": "a", "config": {"tenant": "a", "pushNotification": {"tenant": "a"}}}),
    ],
)
def test_no_place_for_a_tenant_is_left(operation: Operation, tree: dict[str, Any], *, typed: bool) -> None:
    assert b"tenant" not in strict_json.write(given_params(read(tree, operation), typed=typed))


def test_a_tenant_that_is_none_of_the_protocol_stays() -> None:
    tree = {"metadata": {"tenant": "a"}, "message": {"metadata": {"tenant": "b"}}}
    assert given_params(read(tree), typed=True) == tree


@for_each("number", ["1.0", "12345678901234567890123", "0.10", "1E+5"])
def test_numbers_keep_their_digits(number: str) -> None:
    assert strict_json.write(strict_json.read(msgspec.Raw(number.encode()))) == number.encode()


@for_each("raw", [b"", b"{", b'"\xff"', b'"\\ud800"', b"[" * 5000, b"1e99999999999999999999"])
def test_what_cannot_be_read_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ParseFailed):
        strict_json.read(msgspec.Raw(raw))
