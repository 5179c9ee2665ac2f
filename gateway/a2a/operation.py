"""The operations of A2A, by their 1.0 names, with the properties that a proxy needs."""

from enum import StrEnum
from typing import Self


class Kind(StrEnum):
    """The sort of work of an operation; the closed set of the `kind` label of metrics."""

    SEND = "send"
    STREAM = "stream"
    TASK = "task"
    PUSH = "push"
    CARD = "card"
    OTHER = "other"
    """Not known: the request was refused before its operation was."""


class Operation(StrEnum):
    """One A2A operation (1.0 §3.1); bindings and versions have other names for it.

    Attributes:
        kind: The sort of work this is.
        streams: Whether a successful answer is a stream of events.
        sends: Whether it sends the agent a message: it may block for minutes and is never retried blindly.
        repeatable: Whether it is idempotent, so that a lost call may be retried.
    """

    kind: Kind
    streams: bool
    sends: bool
    repeatable: bool

    def __new__(cls, name: str, kind: Kind = Kind.OTHER, repeats: str = "") -> Self:
        """Set plain attributes: a property of an enumeration costs a call each time it is read."""
        operation = str.__new__(cls, name)
        operation._value_ = name
        operation.kind = kind
        operation.streams = kind is Kind.STREAM
        operation.sends = name in ("SendMessage", "SendStreamingMessage")
        operation.repeatable = repeats != ""
        return operation

    # The string's own; that of an enumeration is written in Python.
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
    # Discovery is no operation of the protocol, but passes the same pipeline, so that cards get identity too.
    GET_CARD = "GetAgentCard", Kind.CARD, "repeatable"


CALLABLE = tuple(operation for operation in Operation if operation is not Operation.GET_CARD)
"""The operations that a client calls and `methods:` of the configuration may name."""
