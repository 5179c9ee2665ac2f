"""The spellings of the operations: the name of each in every version and binding.

The name of an operation in 1.0, over JSON-RPC and gRPC, is its `value`. Of several names of one version, an agent is
asked by the first; the others are aliases that clients use.
"""

import msgspec

from gateway.a2a.operation import Operation


class Spelling(msgspec.Struct, frozen=True):
    """The names of one operation beside its `value`.

    Attributes:
        grpc_0_3: The method of gRPC in 0.3; empty where it has none.
        jsonrpc_0_3, jsonrpc_0_1: The methods of JSON-RPC; 0.3 and 0.1 share some.
        http: The methods and paths of HTTP+JSON. 0.3 has them, too, behind its prefix `/v1`.
        http_0_3: Those of 0.3, where it has others or agents of 0.3 are asked by another one.
        aliases_1_0: Further methods of JSON-RPC in 1.0.
    """

    grpc_0_3: str
    jsonrpc_0_3: tuple[str, ...]
    jsonrpc_0_1: tuple[str, ...]
    http: tuple[tuple[str, str], ...]
    http_0_3: tuple[tuple[str, str], ...] = ()
    aliases_1_0: tuple[str, ...] = ()


_CONFIGS = "/tasks/{task}/pushNotificationConfigs"
# The protobuf definition of 0.3.0 has the singular.
_CONFIGS_0_3 = "/task/{task}/pushNotificationConfigs"
_SUBSCRIBE = ("/tasks/{task}:subscribe", "/tasks/{task}/subscribe")
# fmt: off
SPELLINGS = {
    Operation.SEND_MESSAGE: Spelling("SendMessage", ("message/send",), ("tasks/send",), (("POST", "/message:send"),)),
    Operation.SEND_STREAMING_MESSAGE: Spelling(
        "SendStreamingMessage", ("message/stream",), ("tasks/sendSubscribe",), (("POST", "/message:stream"),)),
    Operation.GET_TASK: Spelling("GetTask", ("tasks/get",), ("tasks/get",), (("GET", "/tasks/{task}"),)),
    Operation.LIST_TASKS: Spelling("", ("tasks/list",), (), (("GET", "/tasks"),)),
    Operation.CANCEL_TASK: Spelling(
        "CancelTask", ("tasks/cancel",), ("tasks/cancel",), (("POST", "/tasks/{task}:cancel"),)),
    Operation.SUBSCRIBE_TO_TASK: Spelling(
        "TaskSubscription", ("tasks/resubscribe", "tasks/subscribe"), ("tasks/resubscribe",),
        tuple((verb, path) for path in _SUBSCRIBE for verb in ("POST", "GET")), http_0_3=(("GET", _SUBSCRIBE[0]),)),
    # The header `Allow` has the HTTP methods of one path in the order of these rows. 1.0.0-rc wrote the singular.
    Operation.LIST_PUSH_CONFIGS: Spelling(
        "ListTaskPushNotificationConfig", ("tasks/pushNotificationConfig/list",), (),
        (("GET", _CONFIGS),), http_0_3=(("GET", _CONFIGS), ("GET", _CONFIGS_0_3)),
        aliases_1_0=("ListTaskPushNotificationConfig",)),
    Operation.CREATE_PUSH_CONFIG: Spelling(
        "CreateTaskPushNotificationConfig", ("tasks/pushNotificationConfig/set",), ("tasks/pushNotification/set",),
        (("POST", _CONFIGS),), http_0_3=(("POST", _CONFIGS), ("POST", _CONFIGS_0_3))),
    Operation.GET_PUSH_CONFIG: Spelling(
        "GetTaskPushNotificationConfig", ("tasks/pushNotificationConfig/get",), ("tasks/pushNotification/get",),
        (("GET", _CONFIGS + "/{config}"),)),
    Operation.DELETE_PUSH_CONFIG: Spelling(
        "DeleteTaskPushNotificationConfig", ("tasks/pushNotificationConfig/delete",), (),
        (("DELETE", _CONFIGS + "/{config}"),)),
    Operation.GET_EXTENDED_CARD: Spelling(
        "GetAgentCard", ("agent/getAuthenticatedExtendedCard", "agent/authenticatedExtendedCard"), (),
        (("GET", "/extendedAgentCard"),), http_0_3=(("GET", "/card"),)),
}
# fmt: on
