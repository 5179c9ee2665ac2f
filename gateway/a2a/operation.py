"""The operations of A2A, by their 1.0 names, and what a proxy must know of each."""

from enum import StrEnum
from typing import Self


class Kind(StrEnum):
    """What sort of work an operation is; the closed set of the `kind` label of metrics."""

    SEND = "send"
    STREAM = "stream"
    TASK = "task"
    PUSH = "push"
    CARD = "card"
    OTHER = "other"
    """Nothing that is known: the request was refused before anybody knew what it wanted."""


class Operation(StrEnum):
    """One A2A operation (1.0 §3.1), whatever each binding and version calls it.

    Attributes:
        kind: The sort of work this is.
        streams: Whether a good answer is a stream of events.
        sends: Whether it hands the agent a message: it may block for minutes and is never repeated blindly.
        repeatable: Whether a second execution changes nothing, so that a lost call may be sent again.
    """

    kind: Kind
    streams: bool
    sends: bool
    repeatable: bool

    def __new__(cls, name: str, kind: Kind = Kind.OTHER, repeats: str = "") -> Self:
        """Plain attributes: properties of an enumeration cost a call each time one is asked for."""
        operation = str.__new__(cls, name)
        operation._value_ = name
        operation.kind = kind
        operation.streams = kind is Kind.STREAM
        operation.sends = name in ("SendMessage", "SendStreamingMessage")
        operation.repeatable = repeats != ""
        return operation

    # As a string has it; an enumeration's own is written in Python.
    __hash__ = str.__hash__

    SEND_MESSAGE = "SendMessage", Kind.SEND
    SEND_STREAMING_MESSAGE = "SendStreamingMessage", Kind.STREAM
    GET_TASK = "GetTask", Kind.TASK, "repeatable"
    LIST_TASKS = "ListTasks", Kind.TASK, "repeatable"
    CANCEL_TASK = "CancelTask", Kind.TASK, "repeatable"
    SUBSCRIBE_TO_TASK = "SubscribeToTask", Kind.STREAM, "repeatable"
    CREATE_PUSH_CONFIG = "CreateTaskPushNotificationConfig", Kind.PUSH
    GET_PUSH_CONFIG = "GetTaskPushNotificationConfig", Kind.PUSH, "repeatable"
    LIST_PUSH_CONFIGS = "ListTaskPushNotificationConfigs", Kind.PUSH, "repeatable"
    DELETE_PUSH_CONFIG = "DeleteTaskPushNotificationConfig", Kind.PUSH, "repeatable"
    GET_EXTENDED_CARD = "GetExtendedAgentCard", Kind.CARD, "repeatable"
    # Discovery is no operation of the protocol, but it walks the same line (design: cards get identity for free).
    GET_CARD = "GetAgentCard", Kind.CARD, "repeatable"


CALLABLE = tuple(operation for operation in Operation if operation is not Operation.GET_CARD)
"""The operations that a client calls and `methods:` of the configuration may name."""
