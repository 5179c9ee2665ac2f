"""The names of spans' attributes and events.

Where OpenTelemetry has a name for a thing it is used (semantic conventions for HTTP, RPC and generative AI); A2A has no
conventions of its own there, and the rest begins with `a2a.`.
"""

from collections.abc import Mapping

HTTP_STATUS = "http.response.status_code"
RESEND_COUNT = "http.request.resend_count"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
RPC_SYSTEM = "rpc.system.name"
RPC_STATUS = "rpc.response.status_code"
GEN_AI_OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"

OPERATION = "a2a.operation"
VERSION = "a2a.protocol.version"
BINDING = "a2a.protocol.binding"
BACKEND = "a2a.gateway.backend"
TASK_ID = "a2a.task.id"
TASK_STATE = "a2a.task.state"

INVOKE_AGENT = "invoke_agent"
"""The value of `GEN_AI_OPERATION` for an operation that sends the agent a message."""
TASK_STATE_EVENT = "a2a.task.state_changed"
"""The event of a change of the task's state."""

OF_EXCHANGE: Mapping[str, str] = {
    "method": "http.request.method",
    "path": "url.path",
    "client_ip": "client.address",
    "status": HTTP_STATUS,
    "bytes_in": "http.request.body.size",
    "bytes_out": "http.response.body.size",
    "context_id": "gen_ai.conversation.id",
    "operation": OPERATION,
    "a2a_version": VERSION,
    "binding": BINDING,
    "task_id": TASK_ID,
    "task_state": TASK_STATE,
    "backend": BACKEND,
    "request_id": "a2a.gateway.request_id",
    "tenant": "a2a.gateway.tenant",
    "outcome": "a2a.gateway.outcome",
    "attempts": "a2a.gateway.attempts",
    "events": "a2a.gateway.stream.events",
    "closed_by": "a2a.gateway.stream.closed_by",
}
"""Attributes of the server span, by the field of the access log that has the value.

Left out on purpose: `principal`, `detail` and `a2a_tenant`, which hold text of callers and agents."""
