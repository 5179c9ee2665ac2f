"""The operations of A2A, by their 1.0 names, and what a proxy must know of each."""

from enum import StrEnum


class Kind(StrEnum):
    """What sort of work an operation is; the closed set of the `kind` label of metrics."""

    SEND = "send"
    STREAM = "stream"
    TASK = "task"
    PUSH = "push"
    CARD = "card"


class Operation(StrEnum):
    """One A2A operation (1.0 §3.1), whatever each binding and version calls it."""

    SEND_MESSAGE = "SendMessage"
    SEND_STREAMING_MESSAGE = "SendStreamingMessage"
    GET_TASK = "GetTask"
    LIST_TASKS = "ListTasks"
    CANCEL_TASK = "CancelTask"
    SUBSCRIBE_TO_TASK = "SubscribeToTask"
    CREATE_PUSH_CONFIG = "CreateTaskPushNotificationConfig"
    GET_PUSH_CONFIG = "GetTaskPushNotificationConfig"
    LIST_PUSH_CONFIGS = "ListTaskPushNotificationConfigs"
    DELETE_PUSH_CONFIG = "DeleteTaskPushNotificationConfig"
    GET_EXTENDED_CARD = "GetExtendedAgentCard"
    # Discovery is no operation of the protocol, but it walks the same line (design: cards get identity for free).
    GET_CARD = "GetAgentCard"

    @property
    def kind(self) -> Kind:
        """The sort of work this is."""
        return _KINDS[self]

    @property
    def streams(self) -> bool:
        """Whether a good answer is a stream of events."""
        return self in (Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK)

    @property
    def sends(self) -> bool:
        """Whether it hands the agent a message: it may block for minutes and is never repeated blindly."""
        return self in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)

    @property
    def repeatable(self) -> bool:
        """Whether a second execution changes nothing, so that a lost call may be sent again."""
        return self in _REPEATABLE


_KINDS = {
    Operation.SEND_MESSAGE: Kind.SEND,
    Operation.SEND_STREAMING_MESSAGE: Kind.STREAM,
    Operation.GET_TASK: Kind.TASK,
    Operation.LIST_TASKS: Kind.TASK,
    Operation.CANCEL_TASK: Kind.TASK,
    Operation.SUBSCRIBE_TO_TASK: Kind.STREAM,
    Operation.CREATE_PUSH_CONFIG: Kind.PUSH,
    Operation.GET_PUSH_CONFIG: Kind.PUSH,
    Operation.LIST_PUSH_CONFIGS: Kind.PUSH,
    Operation.DELETE_PUSH_CONFIG: Kind.PUSH,
    Operation.GET_EXTENDED_CARD: Kind.CARD,
    Operation.GET_CARD: Kind.CARD,
}

_REPEATABLE = frozenset(
    {
        Operation.GET_TASK,
        Operation.LIST_TASKS,
        Operation.CANCEL_TASK,
        Operation.SUBSCRIBE_TO_TASK,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
        Operation.GET_EXTENDED_CARD,
        Operation.GET_CARD,
    }
)

CALLABLE = tuple(operation for operation in Operation if operation is not Operation.GET_CARD)
"""The operations that a client calls and `methods:` of the configuration may name."""
