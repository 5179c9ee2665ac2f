"""What a proxy must know of each operation."""

from gateway.a2a.operation import CALLABLE, Kind, Operation

SENDS = {Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE}


def test_every_operation_has_a_kind() -> None:
    assert {operation.kind for operation in Operation} == set(Kind) - {Kind.OTHER}


def test_a_message_is_never_repeatable_nor_is_a_new_push_config() -> None:
    assert {operation for operation in Operation if not operation.repeatable} == SENDS | {Operation.CREATE_PUSH_CONFIG}


def test_what_sends_and_what_streams() -> None:
    assert {operation for operation in Operation if operation.sends} == SENDS
    streams = {Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK}
    assert {operation for operation in Operation if operation.streams} == streams
    assert {operation for operation in Operation if operation.kind is Kind.STREAM} == streams


def test_clients_call_the_eleven_operations_of_the_specification() -> None:
    assert len(CALLABLE) == 11
    assert Operation.GET_CARD not in CALLABLE
