"""The error table: every error of A2A and every fault of the gateway, with its codes and statuses on each wire.

`ErrorKind` is an error of the protocol. It is read in both directions: when a fault is rendered for a client, and when
an agent's error is understood. A JSON-RPC code has a meaning only together with a generation: 0.1 uses the codes from
-32006 to -32011 for other errors than later generations do, and 1.0 has two codes that 0.3 does not know.

`Fault` is the reason why the gateway does not answer a call. Each subclass fixes the word for metrics and logs, and
names the error of the table that clients are told. Internals of the gateway never appear in `message`; they go to
`detail`, which only the log has.
"""

import re
from typing import Any, ClassVar

import msgspec

from gateway.a2a.dialect import Version

A2A_DOMAIN = "a2a-protocol.org"
GATEWAY_DOMAIN = "a2a-gateway"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


class ErrorKind(msgspec.Struct, frozen=True):
    """One error of the protocol, or of JSON-RPC or HTTP under it.

    Attributes:
        name: As 0.3 writes it into `type`, and SDKs name their exceptions.
        reason: The word of its `google.rpc.ErrorInfo`, or None where no generation has one.
        code: The JSON-RPC code in 1.0.
        http_status: The status of HTTP+JSON in 1.0.
        grpc_status: Its name in gRPC, and in `error.status` of HTTP+JSON.
        words: Its usual message.
        code_0_3: The code for clients of 0.2 and 0.3; None for the same.
        code_0_1: The code for clients of 0.1; None for the same.
        http_status_0_3: The status in a2a-sdk 0.3, and in the text of 1.0.0 and so in a2a-java; None for the same.
        challenges: Whether it rejects a credential. An agent's rejects the gateway's credential, not the client's.
    """

    name: str
    reason: str | None
    code: int
    http_status: int
    grpc_status: str
    words: str
    code_0_3: int | None = None
    code_0_1: int | None = None
    http_status_0_3: int | None = None
    challenges: bool = False

    def status_toward(self, version: Version) -> int:
        """Return the HTTP status that a client of this version is told."""
        if version is Version.V1_0 or self.http_status_0_3 is None:
            return self.http_status
        return self.http_status_0_3


# fmt: off
TASK_NOT_FOUND = ErrorKind(
    "TaskNotFoundError", "TASK_NOT_FOUND", -32001, 404, "NOT_FOUND", "Task not found")
TASK_NOT_CANCELABLE = ErrorKind(
    "TaskNotCancelableError", "TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION", "Task cannot be canceled",
    http_status_0_3=409)
PUSH_NOTIFICATION_NOT_SUPPORTED = ErrorKind(
    "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, "FAILED_PRECONDITION",
    "Push Notification is not supported", http_status_0_3=501)
UNSUPPORTED_OPERATION = ErrorKind(
    "UnsupportedOperationError", "UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION",
    "This operation is not supported", http_status_0_3=501)
CONTENT_TYPE_NOT_SUPPORTED = ErrorKind(
    "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, "INVALID_ARGUMENT",
    "Incompatible content types", http_status_0_3=415)
INVALID_AGENT_RESPONSE = ErrorKind(
    "InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL", "Invalid agent response",
    code_0_1=-32603, http_status_0_3=502)
EXTENDED_AGENT_CARD_NOT_CONFIGURED = ErrorKind(
    "ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 400, "FAILED_PRECONDITION",
    "Authenticated Extended Card is not configured", code_0_1=-32004, http_status_0_3=404)
EXTENSION_SUPPORT_REQUIRED = ErrorKind(
    "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", -32008, 400, "FAILED_PRECONDITION",
    "Extension support required", code_0_3=-32603, code_0_1=-32603)
VERSION_NOT_SUPPORTED = ErrorKind(
    "VersionNotSupportedError", "VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION", "Version not supported",
    code_0_3=-32603, code_0_1=-32603)
PARSE_ERROR = ErrorKind(
    "JSONParseError", "PARSE_ERROR", -32700, 400, "INVALID_ARGUMENT", "Invalid JSON payload")
INVALID_REQUEST = ErrorKind(
    "InvalidRequestError", "INVALID_REQUEST", -32600, 400, "INVALID_ARGUMENT", "Invalid Request")
METHOD_NOT_FOUND = ErrorKind(
    "MethodNotFoundError", "METHOD_NOT_FOUND", -32601, 404, "NOT_FOUND", "Method not found")
INVALID_PARAMS = ErrorKind(
    "InvalidParamsError", "INVALID_PARAMS", -32602, 400, "INVALID_ARGUMENT", "Invalid params", http_status_0_3=422)
INTERNAL_ERROR = ErrorKind(
    "InternalError", "INTERNAL_ERROR", -32603, 500, "INTERNAL", "Internal error")

# Not in 1.0: 0.1 or a2a-go has these, or HTTP acts on their status. Their codes are the gateway's and end in it.
UNAUTHENTICATED = ErrorKind(
    "AuthenticationRequiredError", "UNAUTHENTICATED", -31401, 401, "UNAUTHENTICATED", "Authentication required",
    code_0_1=-32007, challenges=True)
UNAUTHORIZED = ErrorKind(
    "AuthorizationFailedError", "UNAUTHORIZED", -31403, 403, "PERMISSION_DENIED", "Authorization failed",
    code_0_1=-32008)
BODY_TOO_LARGE = ErrorKind(
    "PayloadTooLargeError", None, -31413, 413, "RESOURCE_EXHAUSTED", "Payload too large")
RATE_LIMIT_EXCEEDED = ErrorKind(
    "RateLimitExceededError", None, -31429, 429, "RESOURCE_EXHAUSTED", "Rate limit exceeded", code_0_1=-32010)
RESOURCE_UNAVAILABLE = ErrorKind(
    "ResourceUnavailableError", None, -31503, 503, "UNAVAILABLE", "Resource unavailable", code_0_1=-32011)

KINDS_1_0 = (
    TASK_NOT_FOUND, TASK_NOT_CANCELABLE, PUSH_NOTIFICATION_NOT_SUPPORTED, UNSUPPORTED_OPERATION,
    CONTENT_TYPE_NOT_SUPPORTED, INVALID_AGENT_RESPONSE, EXTENDED_AGENT_CARD_NOT_CONFIGURED, EXTENSION_SUPPORT_REQUIRED,
    VERSION_NOT_SUPPORTED, PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR,
)
KINDS = (
    *KINDS_1_0, UNAUTHENTICATED, UNAUTHORIZED, BODY_TOO_LARGE, RATE_LIMIT_EXCEEDED, RESOURCE_UNAVAILABLE,
)
# fmt: on
BY_CODE = {kind.code: kind for kind in KINDS}
BY_REASON = {kind.reason: kind for kind in KINDS if kind.reason is not None}

STREAMING_NOT_SUPPORTED_0_1 = -32006
INVALID_TASK_STATE_0_1 = -32009
"""A message to a task that has ended."""
CODES_OF_0_1 = {
    # 1.0 says the same of both.
    STREAMING_NOT_SUPPORTED_0_1: UNSUPPORTED_OPERATION,
    INVALID_TASK_STATE_0_1: UNSUPPORTED_OPERATION,
    # AuthenticationRequired, AuthorizationFailed.
    -32007: UNAUTHENTICATED,
    -32008: UNAUTHORIZED,
    -32010: RATE_LIMIT_EXCEEDED,
    -32011: RESOURCE_UNAVAILABLE,
}
"""The codes to which later generations gave other meanings, as 0.1 means them."""

# Some agents use HTTP statuses as codes. Those about credentials must not look like the gateway's own.
_CODES_OF_HTTP = {401: UNAUTHENTICATED, 403: UNAUTHORIZED, 407: UNAUTHENTICATED}

_BY_HTTP_STATUS = {
    **_CODES_OF_HTTP,
    404: TASK_NOT_FOUND,
    405: METHOD_NOT_FOUND,
    409: TASK_NOT_CANCELABLE,
    413: BODY_TOO_LARGE,
    415: CONTENT_TYPE_NOT_SUPPORTED,
    422: INVALID_PARAMS,
    429: RATE_LIMIT_EXCEEDED,
    501: UNSUPPORTED_OPERATION,
    502: INVALID_AGENT_RESPONSE,
    503: RESOURCE_UNAVAILABLE,
}
"""The likely error if only an HTTP status is known; 400 and 500 are too general."""

_BY_GRPC_STATUS = {
    "FAILED_PRECONDITION": UNSUPPORTED_OPERATION,
    "INVALID_ARGUMENT": INVALID_PARAMS,
    "NOT_FOUND": TASK_NOT_FOUND,
    "PERMISSION_DENIED": UNAUTHORIZED,
    "RESOURCE_EXHAUSTED": RATE_LIMIT_EXCEEDED,
    "UNAUTHENTICATED": UNAUTHENTICATED,
    "UNAVAILABLE": RESOURCE_UNAVAILABLE,
    "UNIMPLEMENTED": UNSUPPORTED_OPERATION,
}
"""The likely error where only a gRPC status is known; six errors share the first of them."""

_LONGEST_NAME = 256


def of_code(code: int, version: Version) -> ErrorKind | None:
    """Return the error that a JSON-RPC code means in this version, or None for an agent's own code."""
    if version is Version.V0_1 and (kind := CODES_OF_0_1.get(code)) is not None:
        return kind
    return BY_CODE.get(code) or _CODES_OF_HTTP.get(code)


def of_name(name: str) -> ErrorKind | None:
    """Return the error called so: `TaskNotFoundError`, `https://a2a-protocol.org/errors/task-not-found`, or alike."""
    return None if len(name) > _LONGEST_NAME else _BY_NAME.get(_plain(name))


def of_status(status: int | None, grpc_status: str, words: str) -> ErrorKind:
    """Return the most likely error where only a status is known.

    Args:
        status: The HTTP status, if there was one.
        grpc_status: The word for it in the body, or empty.
        words: The message; the usual one tells errors of one status apart.
    """
    if status is not None:
        kind = _BY_WORDS.get((status, words.casefold())) or _BY_HTTP_STATUS.get(status)
        if kind is not None:
            return kind
    if (kind := _BY_GRPC_STATUS.get(grpc_status)) is not None:
        return kind
    return INVALID_REQUEST if status is not None and 400 <= status < 500 else INTERNAL_ERROR


def code_toward(code: int, version: Version) -> int:
    """Return the code for a client of this version: never one that means another error to it than in 1.0."""
    kind = BY_CODE.get(code)
    if version is Version.V0_3 and kind is not None and kind.code_0_3 is not None:
        return kind.code_0_3
    if version is Version.V0_1:
        if kind is not None and kind.code_0_1 is not None:
            return kind.code_0_1
        if code in CODES_OF_0_1:
            return INTERNAL_ERROR.code
    return code


def _plain(name: str) -> str:
    """Return the name without package or path, in one spelling."""
    last = re.split(r"[/:#.]", name)[-1]
    return re.sub("[^a-z0-9]", "", last.lower()).removesuffix("error")


_BY_NAME = {
    **{_plain(kind.name): kind for kind in KINDS},
    **{_plain(kind.reason): kind for kind in KINDS if kind.reason is not None},
    # As 0.3 has it.
    "authenticatedextendedcardnotconfigured": EXTENDED_AGENT_CARD_NOT_CONFIGURED,
}
_BY_WORDS = {
    (status, kind.words.casefold()): kind
    for kind in KINDS
    for status in (kind.http_status, kind.http_status_0_3)
    if status is not None
}

# ---- Faults ----------------------------------------------------------------------------------------------------------


class Fault(Exception):  # noqa: N818 - the word of the design; each subclass is named after what went wrong
    """A call that cannot be answered.

    A subclass names its attributes as keywords of its class statement.

    Attributes:
        reason: The word in metrics, logs and details.
        rpc_status: The HTTP status of the JSON-RPC envelope: 200, except for statuses that HTTP machinery acts on.
        code_0_1: The code for clients of 0.1, where it is not that of the row.
        shown: The reason that callers are told, where `reason` would reveal something to them.
        a2a_reason: The reason word of the protocol, for errors that it defines.
        words: The message of refusals that must look alike, or empty.
        message: For the client: what was wrong, what would be right.
        detail: For the log only.
        retry_after: Seconds after which the client may try again, or None.
        field: The path to a wrong parameter, as the client spells it (`message.parts[0].kind`); or empty.
        issuer: The configured name of the issuer that a token names, proven or not; or empty.
        scopes: The scopes that the agent requires, for the challenge (RFC 6750 §3.1).
        allowed: The HTTP methods of the path, where the request's is none of them.
    """

    reason: ClassVar[str] = "internal"
    outcome: ClassVar[str] = "gateway_error"
    rpc_code: ClassVar[int] = INTERNAL_ERROR.code
    rpc_status: ClassVar[int] = 200
    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[str] = "INTERNAL"
    code_0_1: ClassVar[int | None] = None
    shown: ClassVar[str | None] = None
    a2a_reason: ClassVar[str | None] = None
    words: ClassVar[str] = ""

    def __init_subclass__(cls, *, error: ErrorKind | None = None, **own: str | int | None) -> None:
        """Set the attributes of a subclass.

        Args:
            error: The row of the table that clients are told, from which codes, statuses and reason are taken.
            own: The other attributes, by name; they replace those of the row.
        """
        if error is not None:
            in_1_0 = error in KINDS_1_0
            cls.rpc_code = error.code
            cls.http_status = error.http_status
            cls.grpc_status = error.grpc_status
            cls.rpc_status = 200 if in_1_0 else error.http_status
            cls.a2a_reason = error.reason if in_1_0 else None
        for name, value in own.items():
            setattr(cls, name, value)

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        retry_after: float | None = None,
        field: str = "",
        issuer: str = "",
        scopes: tuple[str, ...] = (),
        allowed: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.retry_after = retry_after
        self.field = field
        self.issuer = issuer
        self.scopes = scopes
        self.allowed = allowed

    def code_toward(self, version: Version) -> int:
        """Return the JSON-RPC code that a client of this version is told."""
        if version is Version.V0_1 and self.code_0_1 is not None:
            return self.code_0_1
        return code_toward(self.rpc_code, version)

    def details(self, request_id: str) -> list[dict[str, Any]]:
        """Return the typed details (AIP-193); the `ErrorInfo` of the protocol is first, because SDKs look for it."""
        reasons = [] if self.a2a_reason is None else [(self.a2a_reason, A2A_DOMAIN)]
        if not isinstance(self, TaskNotFound):
            # A foreign task and a missing one get the same bytes, so that answer has the protocol's entry only.
            reasons.append(((self.shown or self.reason).upper(), GATEWAY_DOMAIN))
        entries: list[dict[str, Any]] = [
            {"@type": ERROR_INFO, "reason": reason, "domain": domain, "metadata": {"requestId": request_id}}
            for reason, domain in reasons
        ]
        if self.field:
            violation = {"field": self.field, "description": self.message}
            entries.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
        return entries


class Internal(Fault, rpc_status=500):
    """A defect of the gateway itself."""


# ---- The caller's own mistakes -------------------------------------------------------------------------------------


class BadRequest(Fault, error=INVALID_REQUEST, reason="bad_request", outcome="client_error"):
    """The request cannot be read as an A2A request."""


class ParseFailed(BadRequest, error=PARSE_ERROR):
    """The body is not JSON."""


class MethodNotFound(BadRequest, error=METHOD_NOT_FOUND):
    """The JSON-RPC method does not exist."""


class BadParams(BadRequest, error=INVALID_PARAMS):
    """The parameters are of a wrong shape."""


class DuplicateKey(BadRequest, reason="duplicate_key", a2a_reason=None):
    """A JSON object names a member twice, or a routing member in another spelling."""


class BodyTooLarge(Fault, error=BODY_TOO_LARGE, reason="body_too_large", outcome="client_error"):
    """The body is longer than the limit."""


class EncodedBody(BadRequest, rpc_status=415, http_status=415, a2a_reason=None):
    """The request body is compressed; ids must be readable, so it is refused."""


class ContentTypeUnsupported(BadRequest, error=CONTENT_TYPE_NOT_SUPPORTED, rpc_status=415, http_status=415):
    """The Content-Type of the request body is not JSON."""


class BodyTooSlow(BadRequest, rpc_status=408, http_status=408, a2a_reason=None):
    """The request body stopped coming, or comes too slowly."""


class VersionUnsupported(Fault, error=VERSION_NOT_SUPPORTED, reason="version_unsupported", outcome="client_error"):
    """The agent, or the gateway, does not speak the client's version (1.0 §3.6)."""


class MethodNotAllowed(Fault, error=UNSUPPORTED_OPERATION, reason="method_not_allowed", outcome="client_error"):
    """The agent, or its entry in the configuration, does not offer the operation."""


class WrongHttpMethod(
    MethodNotAllowed, rpc_code=INVALID_REQUEST.code, rpc_status=405, http_status=405, a2a_reason=None
):
    """The path exists, but not for this HTTP method."""


class TaskNotFound(Fault, error=TASK_NOT_FOUND, reason="task_not_owned", outcome="denied"):
    """The task is missing or another's; the two look alike."""


# ---- No agent for this caller --------------------------------------------------------------------------------------


class NoRoute(
    Fault,
    reason="no_route",
    outcome="denied",
    rpc_code=INVALID_PARAMS.code,
    http_status=404,
    grpc_status="NOT_FOUND",
    words="no agent here answers this request",
):
    """The endpoint exists, but no agent there answers what was asked."""


class NoEndpoint(NoRoute, rpc_code=-31404, rpc_status=404, words="there is nothing here"):
    """The path is no endpoint, or one where the caller may reach nothing: the two look alike."""


class TenantDenied(NoRoute, reason="tenant_denied", shown="no_route"):
    """The agent is not for this caller; to callers it looks like `no_route`."""


class TenantDeniedEndpoint(NoEndpoint, reason="tenant_denied", shown="no_route"):
    """The caller may reach no agent at the endpoint; to callers it looks like `no_route`."""


class RouteConflict(Fault, error=UNAUTHORIZED, reason="route_conflict", outcome="denied"):
    """Two agents that the caller may reach both claim the request; nothing is forwarded."""


class HiddenConflict(NoRoute, reason="route_conflict", shown="no_route"):
    """A conflict with an agent the caller may not know; to callers it looks like `no_route`."""


class NotAdmitted(
    Fault, error=UNAUTHORIZED, reason="tenant_denied", outcome="denied", words="this tenant is not admitted"
):
    """The caller's tenant is not admitted at all."""


class InsufficientScope(
    Fault,
    error=UNAUTHORIZED,
    reason="insufficient_scope",
    outcome="denied",
    words="this agent requires a scope, role or claim that the credential does not have",
):
    """The caller's tenant may call the agent, but its token lacks a scope, role or claim that the agent requires."""


# ---- Credentials ---------------------------------------------------------------------------------------------------


class AuthMissing(Fault, error=UNAUTHENTICATED, reason="auth_missing", outcome="denied", words="show a credential"):
    """No credential, where one is needed."""


class AuthInvalid(AuthMissing, reason="auth_invalid"):
    """A credential that proves nothing."""


class TenantNotMapped(AuthInvalid, error=UNAUTHORIZED, reason="tenant_denied"):
    """A valid token whose tenant claim is no key of the issuer's `tenant_map` and names no tenant by itself."""


class AuthExpired(AuthMissing, reason="auth_expired"):
    """An expired credential."""


class AuthUnavailable(Fault, error=RESOURCE_UNAVAILABLE, reason="auth_unavailable"):
    """No keys to verify the token with: the issuer's key set has never been read."""


# ---- Limits --------------------------------------------------------------------------------------------------------


class RateLimited(Fault, error=RATE_LIMIT_EXCEEDED, reason="rate_limited", outcome="limited"):
    """Too many requests, or too much bandwidth, from one tenant, agent or address."""


class StreamsLimited(RateLimited, reason="streams_limited"):
    """The tenant, or the agent, has as many streams open as it may have."""


class TasksLimited(RateLimited, reason="tasks_limited"):
    """The tenant has as many open tasks as it may have."""


class ConcurrencyLimited(RateLimited, reason="concurrency_limited"):
    """The tenant, or the agent, has as many concurrent calls as it may have, and none of them ended in time."""


class PushDenied(BadParams, reason="push_denied"):
    """The webhook is not allowed here, or no notifications are sent at all.

    The log has the rule that the message tells, too, behind the `detail`: the origin of the webhook, if known.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message, detail=f"{detail}: {message}" if detail else message)


# ---- The gateway or the agent cannot now ----------------------------------------------------------------------------


class Draining(AuthUnavailable, reason="draining"):
    """The gateway is shutting down."""


class Overloaded(AuthUnavailable, reason="overloaded", outcome="limited"):
    """The gateway, or the connection pool of the agent, is full."""


class StateUnavailable(AuthUnavailable, reason="state_unavailable", outcome="gateway_error"):
    """The store of the ledger does not answer, so that the owner of a task is not known."""


class NoHealthyBackend(AuthUnavailable, reason="no_healthy_backend", outcome="upstream_error"):
    """No replica of the agent is healthy."""


class UpstreamConnect(
    Fault,
    reason="upstream_connect",
    outcome="upstream_error",
    code_0_1=RESOURCE_UNAVAILABLE.code_0_1,
    http_status=502,
    grpc_status="UNAVAILABLE",
):
    """The agent could not be reached; nothing was sent."""


class UpstreamAuthFailed(
    Fault,
    reason="upstream_auth_failed",
    outcome="upstream_error",
    code_0_1=RESOURCE_UNAVAILABLE.code_0_1,
    http_status=503,
    grpc_status="UNAVAILABLE",
):
    """No credential for the agent can be had, from its token endpoint or a file; nothing was sent to the agent."""


class UpstreamReset(
    Fault, reason="upstream_reset", outcome="upstream_error", http_status=502, grpc_status="UNAVAILABLE"
):
    """The agent closed the connection before its answer was complete; the request may have been executed."""


class UpstreamTimeout(
    Fault, reason="upstream_timeout", outcome="upstream_error", http_status=504, grpc_status="DEADLINE_EXCEEDED"
):
    """The agent did not answer in time."""


class UpstreamIdle(UpstreamTimeout, reason="upstream_idle"):
    """The agent's stream sent nothing for too long."""


class UpstreamProtocol(
    Fault, error=INVALID_AGENT_RESPONSE, reason="upstream_protocol", outcome="upstream_error", http_status=502
):
    """The agent's answer is no A2A answer."""


class CardUntrusted(
    Fault, error=INVALID_AGENT_RESPONSE, reason="card_untrusted", outcome="upstream_error", http_status=502
):
    """The agent's card has no signature that its configured keys verify."""


class UpstreamLimited(
    UpstreamProtocol, outcome="limited", rpc_status=429, http_status=429, grpc_status="RESOURCE_EXHAUSTED"
):
    """An agent's 429 with `Retry-After` that is no A2A error; HTTP machinery acts on the status."""


class UpstreamBusy(UpstreamProtocol, rpc_status=503, http_status=503, grpc_status="UNAVAILABLE"):
    """An agent's 503 with `Retry-After` that is no A2A error."""


# 499 is nginx's number for it; only the log sees it.
class ClientGone(
    Fault, reason="client_gone", outcome="client_gone", rpc_status=499, http_status=499, grpc_status="CANCELLED"
):
    """The client left before the answer."""


OUTCOMES = (
    "ok", "task_failed", "client_error", "denied", "limited", "upstream_error", "gateway_error", "client_gone",
)  # fmt: skip
"""The closed set of the `outcome` label."""

REASONS = (
    "no_route", "route_conflict", "bad_request", "duplicate_key", "body_too_large", "version_unsupported",
    "method_not_allowed", "auth_missing", "auth_invalid", "auth_expired", "tenant_denied", "task_not_owned",
    "rate_limited", "streams_limited", "tasks_limited", "concurrency_limited", "push_denied", "upstream_connect",
    "upstream_timeout", "upstream_idle", "upstream_reset", "upstream_protocol", "card_untrusted",
    "no_healthy_backend", "client_gone", "draining", "overloaded", "state_unavailable", "auth_unavailable",
    "insufficient_scope", "upstream_auth_failed", "internal",
)  # fmt: skip
"""The closed list: the same words in the metric, the access log, the error details and the docs."""
