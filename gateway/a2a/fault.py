"""Why a call cannot be answered, in terms that every binding can render.

Each reason is a class: it fixes the word in metrics and logs, the JSON-RPC code and the statuses. `INTERNALS` of the
gateway never appear in `message`; what only operators may know goes to `detail`, which is logged under the request id.
"""

from typing import ClassVar

A2A_DOMAIN = "a2a-protocol.org"
GATEWAY_DOMAIN = "a2a-gateway"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


class Fault(Exception):  # noqa: N818 - the word of the design; each subclass is named after what went wrong
    """A call that cannot be answered.

    Attributes:
        message: For the client: what was wrong, what would be right.
        detail: For the log only.
        retry_after: Seconds after which the client may try again, or None.
    """

    reason: ClassVar[str] = "internal"
    outcome: ClassVar[str] = "gateway_error"
    rpc_code: ClassVar[int] = -32603
    # The HTTP status under which a JSON-RPC client gets the envelope: 200 but where HTTP machinery acts on it.
    rpc_status: ClassVar[int] = 200
    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[str] = "INTERNAL"
    # What callers are told instead of `reason`, where the truth would tell them of what they may not know.
    shown: ClassVar[str | None] = None
    # The A2A or JSON-RPC reason word, for errors that the protocol defines; None where the gateway's own word serves.
    a2a_reason: ClassVar[str | None] = None

    def __init__(self, message: str, *, detail: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.retry_after = retry_after


class Internal(Fault):
    """A fault of the gateway itself."""

    rpc_status = 500


# ---- The caller's own mistakes -------------------------------------------------------------------------------------


class BadRequest(Fault):
    """The request cannot be read as an A2A request (JSON-RPC -32600)."""

    reason = "bad_request"
    outcome = "client_error"
    rpc_code = -32600
    http_status = 400
    grpc_status = "INVALID_ARGUMENT"
    a2a_reason: ClassVar[str | None] = "INVALID_REQUEST"


class ParseFailed(BadRequest):
    """The body is no JSON (JSON-RPC -32700)."""

    rpc_code = -32700
    a2a_reason = "PARSE_ERROR"


class MethodNotFound(BadRequest):
    """The JSON-RPC method does not exist (-32601)."""

    rpc_code = -32601
    http_status = 404
    grpc_status = "NOT_FOUND"
    a2a_reason = "METHOD_NOT_FOUND"


class BadParams(BadRequest):
    """The parameters are of a wrong shape (-32602).

    Attributes:
        field: The way to the one that is, as the client spells it (`message.parts[0].kind`); or empty.
    """

    rpc_code = -32602
    a2a_reason = "INVALID_PARAMS"

    def __init__(self, message: str, *, detail: str = "", retry_after: float | None = None, field: str = "") -> None:
        super().__init__(message, detail=detail, retry_after=retry_after)
        self.field = field


class DuplicateKey(BadRequest):
    """A JSON object names a member twice, or a routing member in another spelling."""

    reason = "duplicate_key"
    a2a_reason = None


class BodyTooLarge(Fault):
    """The body is longer than the limit."""

    reason = "body_too_large"
    outcome = "client_error"
    rpc_code = -31413
    rpc_status = 413
    http_status = 413
    grpc_status = "RESOURCE_EXHAUSTED"


class EncodedBody(BadRequest):
    """The request body is compressed; ids must be readable, so it is refused (415)."""

    rpc_status = 415
    http_status = 415
    a2a_reason = None


class ContentTypeUnsupported(BadRequest):
    """The request body says of itself that it is no JSON (ContentTypeNotSupportedError, 415)."""

    rpc_code = -32005
    rpc_status = 415
    http_status = 415
    a2a_reason = "CONTENT_TYPE_NOT_SUPPORTED"


class BodyTooSlow(BadRequest):
    """The request body stopped coming, or comes in drips (408)."""

    rpc_status = 408
    http_status = 408
    a2a_reason = None


class VersionUnsupported(Fault):
    """The agent, or the gateway, does not speak the client's version (VersionNotSupportedError, 1.0 §3.6)."""

    reason = "version_unsupported"
    outcome = "client_error"
    rpc_code = -32009
    http_status = 400
    grpc_status = "FAILED_PRECONDITION"
    a2a_reason = "VERSION_NOT_SUPPORTED"


class MethodNotAllowed(Fault):
    """The agent, or its entry in the configuration, does not offer the operation (UnsupportedOperationError)."""

    reason = "method_not_allowed"
    outcome = "client_error"
    rpc_code = -32004
    http_status = 400
    grpc_status = "FAILED_PRECONDITION"
    a2a_reason: ClassVar[str | None] = "UNSUPPORTED_OPERATION"


class WrongHttpMethod(MethodNotAllowed):
    """The path exists, but not for this HTTP method (405)."""

    rpc_code = -32600
    rpc_status = 405
    http_status = 405
    a2a_reason = None

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class TaskNotFound(Fault):
    """The task is missing or another's; the two look alike (TaskNotFoundError)."""

    reason = "task_not_owned"
    outcome = "denied"
    rpc_code = -32001
    http_status = 404
    grpc_status = "NOT_FOUND"
    a2a_reason = "TASK_NOT_FOUND"


# ---- Nobody here for this caller -----------------------------------------------------------------------------------


class NoRoute(Fault):
    """The endpoint exists, but nothing there answers what was asked."""

    reason = "no_route"
    outcome = "denied"
    rpc_code = -32602
    http_status = 404
    grpc_status = "NOT_FOUND"


class NoEndpoint(NoRoute):
    """The path is no endpoint, or one where the caller may reach nothing: the two look alike."""

    rpc_code = -31404
    rpc_status = 404


class TenantDenied(NoRoute):
    """The agent is not for this caller; to callers it looks like `NoRoute`."""

    reason = "tenant_denied"
    shown = "no_route"


class TenantDeniedEndpoint(NoEndpoint):
    """As `TenantDenied`, where the caller may reach nothing at all; to callers it looks like `NoEndpoint`."""

    reason = "tenant_denied"
    shown = "no_route"


class RouteConflict(Fault):
    """Two agents that the caller may reach both claim the request; nothing is forwarded."""

    reason = "route_conflict"
    outcome = "denied"
    rpc_code = -31403
    rpc_status = 403
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class HiddenConflict(NoRoute):
    """A conflict with an agent the caller may not know; to callers it looks like `NoRoute`."""

    reason = "route_conflict"
    shown = "no_route"


class NotAdmitted(Fault):
    """The caller's tenant is not admitted at all."""

    reason = "tenant_denied"
    outcome = "denied"
    rpc_code = -31403
    rpc_status = 403
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class InsufficientScope(Fault):
    """The caller's tenant may call the agent, but its token lacks a scope, role or claim that the agent requires.

    Attributes:
        scopes: The scopes that the agent requires, for the challenge (RFC 6750 §3.1).
    """

    reason = "insufficient_scope"
    outcome = "denied"
    rpc_code = -31403
    rpc_status = 403
    http_status = 403
    grpc_status = "PERMISSION_DENIED"

    def __init__(self, message: str, *, detail: str = "", scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message, detail=detail)
        self.scopes = scopes


# ---- Who are you ---------------------------------------------------------------------------------------------------


class AuthMissing(Fault):
    """No credential, where one is needed.

    Attributes:
        issuer: The configured name of the issuer that a token says it is from, proven or not; or empty.
    """

    reason = "auth_missing"
    outcome = "denied"
    rpc_code = -31401
    rpc_status = 401
    http_status = 401
    grpc_status = "UNAUTHENTICATED"

    def __init__(self, message: str, *, detail: str = "", issuer: str = "") -> None:
        super().__init__(message, detail=detail)
        self.issuer = issuer


class AuthInvalid(AuthMissing):
    """A credential that proves nothing."""

    reason = "auth_invalid"


class TenantNotMapped(AuthInvalid):
    """A true token whose tenant claim is no key of the issuer's `tenant_map`, and that can name no tenant by itself."""

    reason = "tenant_denied"
    rpc_code = -31403
    rpc_status = 403
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class AuthExpired(AuthMissing):
    """A credential that was good once."""

    reason = "auth_expired"


class AuthUnavailable(Fault):
    """No keys to verify the token with: the issuer's key set has never been read.

    Attributes:
        issuer: As that of `AuthMissing`.
    """

    reason = "auth_unavailable"
    rpc_code = -31503
    rpc_status = 503
    http_status = 503
    grpc_status = "UNAVAILABLE"

    def __init__(self, message: str, *, detail: str = "", retry_after: float | None = None, issuer: str = "") -> None:
        super().__init__(message, detail=detail, retry_after=retry_after)
        self.issuer = issuer


class RateLimited(Fault):
    """Too many of a kind from one place; `retry_after` says when the next one counts again."""

    reason = "rate_limited"
    outcome = "limited"
    rpc_code = -31429
    rpc_status = 429
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"


class StreamsLimited(RateLimited):
    """The tenant, or the agent, has as many streams open as it may have."""

    reason = "streams_limited"


class TasksLimited(RateLimited):
    """The tenant has as many tasks that are not over as it may have."""

    reason = "tasks_limited"


class ConcurrencyLimited(RateLimited):
    """The tenant, or the agent, has as many calls at a time as it may have, and none of them ended in time."""

    reason = "concurrency_limited"


class PushDenied(BadParams):
    """Where notifications are to go is not allowed here, or none are sent at all.

    The log has the rule that the message tells, too, behind the `detail`: the origin of the webhook, where it has one.
    """

    reason = "push_denied"

    def __init__(self, message: str, *, detail: str = "", retry_after: float | None = None, field: str = "") -> None:
        told = f"{detail}: {message}" if detail else message
        super().__init__(message, detail=told, retry_after=retry_after, field=field)


# ---- The gateway or the agent cannot now ----------------------------------------------------------------------------


class Draining(AuthUnavailable):
    """The gateway is shutting down."""

    reason = "draining"


class Overloaded(AuthUnavailable):
    """The gateway, or the pool of the agent, has no place for one more."""

    reason = "overloaded"
    outcome = "limited"


class StateUnavailable(AuthUnavailable):
    """The store of the ledger does not answer, so that nobody knows whose a task is."""

    reason = "state_unavailable"
    outcome = "gateway_error"


class NoHealthyBackend(AuthUnavailable):
    """No replica of the agent is healthy."""

    reason = "no_healthy_backend"
    outcome = "upstream_error"


class UpstreamConnect(Fault):
    """The agent could not be reached; nothing was sent."""

    reason = "upstream_connect"
    outcome = "upstream_error"
    http_status = 502
    grpc_status = "UNAVAILABLE"


class UpstreamReset(Fault):
    """The agent closed the connection before its answer was complete; what was sent may have been executed."""

    reason = "upstream_reset"
    outcome = "upstream_error"
    http_status = 502
    grpc_status = "UNAVAILABLE"


class UpstreamTimeout(Fault):
    """The agent did not answer in time."""

    reason = "upstream_timeout"
    outcome = "upstream_error"
    http_status = 504
    grpc_status = "DEADLINE_EXCEEDED"


class UpstreamIdle(UpstreamTimeout):
    """The agent's stream fell silent."""

    reason = "upstream_idle"


class UpstreamProtocol(Fault):
    """The agent's answer is no A2A answer (InvalidAgentResponseError)."""

    reason = "upstream_protocol"
    outcome = "upstream_error"
    rpc_code = -32006
    http_status = 502
    grpc_status = "INTERNAL"
    a2a_reason = "INVALID_AGENT_RESPONSE"


class UpstreamLimited(UpstreamProtocol):
    """As `UpstreamProtocol`, where the agent's 429 says when to come again: HTTP machinery acts on that."""

    outcome = "limited"
    rpc_status = 429
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"


class UpstreamBusy(UpstreamProtocol):
    """As `UpstreamProtocol`, where the agent's 503 says when to come again."""

    rpc_status = 503
    http_status = 503
    grpc_status = "UNAVAILABLE"


class ClientGone(Fault):
    """The client left; nobody reads this."""

    reason = "client_gone"
    outcome = "client_gone"
    # nginx's number for it; only the log sees it.
    rpc_status = 499
    http_status = 499
    grpc_status = "CANCELLED"


REASONS = (
    "no_route", "route_conflict", "bad_request", "duplicate_key", "body_too_large", "version_unsupported",
    "method_not_allowed", "auth_missing", "auth_invalid", "auth_expired", "tenant_denied", "task_not_owned",
    "rate_limited", "streams_limited", "tasks_limited", "concurrency_limited", "push_denied", "upstream_connect",
    "upstream_timeout", "upstream_idle", "upstream_reset", "upstream_protocol", "no_healthy_backend", "client_gone",
    "draining", "overloaded", "state_unavailable", "auth_unavailable", "insufficient_scope", "internal",
)  # fmt: skip
"""The closed list: the same words in the metric, the access log, the error details and the docs."""

OUTCOMES = (
    "ok", "task_failed", "client_error", "denied", "limited", "upstream_error", "gateway_error", "client_gone",
)  # fmt: skip
"""The closed set of the `outcome` label."""
