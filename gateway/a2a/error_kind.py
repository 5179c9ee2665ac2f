"""The errors of A2A: what each is called on every wire and in every generation (protocol §4.1).

0.1 gave the codes from -32006 to -32011 other meanings than those that later generations have for them, and 1.0 took
two codes that 0.3 does not know. So a code tells what is wrong only together with the generation of whoever says it.

Four errors are not in 1.0: 0.1 has words for them, or a2a-go, or HTTP has a status on which its machinery acts. They
have the codes that the gateway uses for its own (`fault`), which end in that status.
"""

import re

import msgspec

from gateway.a2a.dialect import Version


class ErrorKind(msgspec.Struct, frozen=True, kw_only=True):
    """One error of the protocol, or of JSON-RPC or HTTP under it.

    Attributes:
        name: As 0.3 writes it into `type`, and SDKs call their exceptions.
        reason: The word of its `google.rpc.ErrorInfo`, or None where no generation has one.
        code: That of JSON-RPC, in 1.0.
        code_0_3: The code that means most nearly the same to a client of 0.2 or 0.3; None for the same.
        code_0_1: Likewise, to a client of 0.1.
        http_status: That of HTTP+JSON, in 1.0.
        http_status_0_3: That of a2a-sdk 0.3 and of the text of 1.0.0, and so of a2a-java; None for the same.
        grpc_status: Its name in gRPC, and in `error.status` of HTTP+JSON.
        words: Its usual message.
        challenges: Whether it says that a credential is not good. An agent's says so of another
            credential than its reader would think: that which the gateway showed.
    """

    name: str
    reason: str | None
    code: int
    code_0_3: int | None = None
    code_0_1: int | None = None
    http_status: int
    http_status_0_3: int | None = None
    grpc_status: str
    words: str
    challenges: bool = False

    def status_toward(self, version: Version) -> int:
        """The HTTP status that a client of this version is told."""
        if version is Version.V1_0 or self.http_status_0_3 is None:
            return self.http_status
        return self.http_status_0_3


TASK_NOT_FOUND = ErrorKind(
    name="TaskNotFoundError",
    reason="TASK_NOT_FOUND",
    code=-32001,
    http_status=404,
    grpc_status="NOT_FOUND",
    words="Task not found",
)
TASK_NOT_CANCELABLE = ErrorKind(
    name="TaskNotCancelableError",
    reason="TASK_NOT_CANCELABLE",
    code=-32002,
    http_status=400,
    http_status_0_3=409,
    grpc_status="FAILED_PRECONDITION",
    words="Task cannot be canceled",
)
PUSH_NOTIFICATION_NOT_SUPPORTED = ErrorKind(
    name="PushNotificationNotSupportedError",
    reason="PUSH_NOTIFICATION_NOT_SUPPORTED",
    code=-32003,
    http_status=400,
    http_status_0_3=501,
    grpc_status="FAILED_PRECONDITION",
    words="Push Notification is not supported",
)
UNSUPPORTED_OPERATION = ErrorKind(
    name="UnsupportedOperationError",
    reason="UNSUPPORTED_OPERATION",
    code=-32004,
    http_status=400,
    http_status_0_3=501,
    grpc_status="FAILED_PRECONDITION",
    words="This operation is not supported",
)
CONTENT_TYPE_NOT_SUPPORTED = ErrorKind(
    name="ContentTypeNotSupportedError",
    reason="CONTENT_TYPE_NOT_SUPPORTED",
    code=-32005,
    http_status=400,
    http_status_0_3=415,
    grpc_status="INVALID_ARGUMENT",
    words="Incompatible content types",
)
INVALID_AGENT_RESPONSE = ErrorKind(
    name="InvalidAgentResponseError",
    reason="INVALID_AGENT_RESPONSE",
    code=-32006,
    code_0_1=-32603,
    http_status=500,
    http_status_0_3=502,
    grpc_status="INTERNAL",
    words="Invalid agent response",
)
EXTENDED_AGENT_CARD_NOT_CONFIGURED = ErrorKind(
    name="ExtendedAgentCardNotConfiguredError",
    reason="EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    code=-32007,
    code_0_1=-32004,
    http_status=400,
    http_status_0_3=404,
    grpc_status="FAILED_PRECONDITION",
    words="Authenticated Extended Card is not configured",
)
EXTENSION_SUPPORT_REQUIRED = ErrorKind(
    name="ExtensionSupportRequiredError",
    reason="EXTENSION_SUPPORT_REQUIRED",
    code=-32008,
    code_0_3=-32603,
    code_0_1=-32603,
    http_status=400,
    grpc_status="FAILED_PRECONDITION",
    words="Extension support required",
)
VERSION_NOT_SUPPORTED = ErrorKind(
    name="VersionNotSupportedError",
    reason="VERSION_NOT_SUPPORTED",
    code=-32009,
    code_0_3=-32603,
    code_0_1=-32603,
    http_status=400,
    grpc_status="FAILED_PRECONDITION",
    words="Version not supported",
)
PARSE_ERROR = ErrorKind(
    name="JSONParseError",
    reason="PARSE_ERROR",
    code=-32700,
    http_status=400,
    grpc_status="INVALID_ARGUMENT",
    words="Invalid JSON payload",
)
INVALID_REQUEST = ErrorKind(
    name="InvalidRequestError",
    reason="INVALID_REQUEST",
    code=-32600,
    http_status=400,
    grpc_status="INVALID_ARGUMENT",
    words="Invalid Request",
)
METHOD_NOT_FOUND = ErrorKind(
    name="MethodNotFoundError",
    reason="METHOD_NOT_FOUND",
    code=-32601,
    http_status=404,
    grpc_status="NOT_FOUND",
    words="Method not found",
)
INVALID_PARAMS = ErrorKind(
    name="InvalidParamsError",
    reason="INVALID_PARAMS",
    code=-32602,
    http_status=400,
    http_status_0_3=422,
    grpc_status="INVALID_ARGUMENT",
    words="Invalid params",
)
INTERNAL_ERROR = ErrorKind(
    name="InternalError",
    reason="INTERNAL_ERROR",
    code=-32603,
    http_status=500,
    grpc_status="INTERNAL",
    words="Internal error",
)

# ---- Not of 1.0 ------------------------------------------------------------------------------------------------------

UNAUTHENTICATED = ErrorKind(
    name="AuthenticationRequiredError",
    reason="UNAUTHENTICATED",
    code=-31401,
    code_0_1=-32007,
    http_status=401,
    grpc_status="UNAUTHENTICATED",
    words="Authentication required",
    challenges=True,
)
UNAUTHORIZED = ErrorKind(
    name="AuthorizationFailedError",
    reason="UNAUTHORIZED",
    code=-31403,
    code_0_1=-32008,
    http_status=403,
    grpc_status="PERMISSION_DENIED",
    words="Authorization failed",
)
BODY_TOO_LARGE = ErrorKind(
    name="PayloadTooLargeError",
    reason=None,
    code=-31413,
    http_status=413,
    grpc_status="RESOURCE_EXHAUSTED",
    words="Payload too large",
)
RATE_LIMIT_EXCEEDED = ErrorKind(
    name="RateLimitExceededError",
    reason=None,
    code=-31429,
    code_0_1=-32010,
    http_status=429,
    grpc_status="RESOURCE_EXHAUSTED",
    words="Rate limit exceeded",
)
RESOURCE_UNAVAILABLE = ErrorKind(
    name="ResourceUnavailableError",
    reason=None,
    code=-31503,
    code_0_1=-32011,
    http_status=503,
    grpc_status="UNAVAILABLE",
    words="Resource unavailable",
)

KINDS = (
    TASK_NOT_FOUND, TASK_NOT_CANCELABLE, PUSH_NOTIFICATION_NOT_SUPPORTED, UNSUPPORTED_OPERATION,
    CONTENT_TYPE_NOT_SUPPORTED, INVALID_AGENT_RESPONSE, EXTENDED_AGENT_CARD_NOT_CONFIGURED, EXTENSION_SUPPORT_REQUIRED,
    VERSION_NOT_SUPPORTED, PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR,
    UNAUTHENTICATED, UNAUTHORIZED, BODY_TOO_LARGE, RATE_LIMIT_EXCEEDED, RESOURCE_UNAVAILABLE,
)  # fmt: skip

BY_CODE = {kind.code: kind for kind in KINDS}
BY_REASON = {kind.reason: kind for kind in KINDS if kind.reason is not None}

CODES_OF_0_1 = {
    # StreamingNotSupported and InvalidTaskState (a message to a task that has ended): 1.0 says the same of both.
    -32006: UNSUPPORTED_OPERATION,
    -32009: UNSUPPORTED_OPERATION,
    # AuthenticationRequired, AuthorizationFailed.
    -32007: UNAUTHENTICATED,
    -32008: UNAUTHORIZED,
    -32010: RATE_LIMIT_EXCEEDED,
    -32011: RESOURCE_UNAVAILABLE,
}
"""What the prose of 0.1 means by the codes that later generations gave away anew."""

# Codes that some agents take from HTTP; what they say of credentials must not pass for the gateway's word.
_CODES_OF_HTTP = {401: UNAUTHENTICATED, 403: UNAUTHORIZED, 407: UNAUTHENTICATED}

BY_HTTP_STATUS = {
    401: UNAUTHENTICATED,
    403: UNAUTHORIZED,
    404: TASK_NOT_FOUND,
    405: METHOD_NOT_FOUND,
    407: UNAUTHENTICATED,
    409: TASK_NOT_CANCELABLE,
    413: BODY_TOO_LARGE,
    415: CONTENT_TYPE_NOT_SUPPORTED,
    422: INVALID_PARAMS,
    429: RATE_LIMIT_EXCEEDED,
    501: UNSUPPORTED_OPERATION,
    502: INVALID_AGENT_RESPONSE,
    503: RESOURCE_UNAVAILABLE,
}
"""What a status means where nothing else tells; 400 and 500 mean nothing of their own."""

BY_GRPC_STATUS = {
    "FAILED_PRECONDITION": UNSUPPORTED_OPERATION,
    "INVALID_ARGUMENT": INVALID_PARAMS,
    "NOT_FOUND": TASK_NOT_FOUND,
    "PERMISSION_DENIED": UNAUTHORIZED,
    "RESOURCE_EXHAUSTED": RATE_LIMIT_EXCEEDED,
    "UNAUTHENTICATED": UNAUTHENTICATED,
    "UNAVAILABLE": RESOURCE_UNAVAILABLE,
    "UNIMPLEMENTED": UNSUPPORTED_OPERATION,
}
"""What the status of gRPC means where nothing else tells; six errors share the first of them."""

_LONGEST_NAME = 256


def of_code(code: int, version: Version) -> ErrorKind | None:
    """What a JSON-RPC code means to a speaker of this version, or None for a code of its own."""
    if version is Version.V0_1 and (kind := CODES_OF_0_1.get(code)) is not None:
        return kind
    return BY_CODE.get(code) or _CODES_OF_HTTP.get(code)


def of_name(name: str) -> ErrorKind | None:
    """What a name means: `TaskNotFoundError`, the URI `https://a2a-protocol.org/errors/task-not-found`, or the like."""
    return None if len(name) > _LONGEST_NAME else _BY_NAME.get(_plain(name))


def of_status(status: int | None, grpc_status: str, words: str) -> ErrorKind:
    """What is most likely meant where only a status tells.

    Args:
        status: That of HTTP, if there was one.
        grpc_status: The word for it in the body, or empty.
        words: The message, which tells errors of one status apart where it is the usual one.
    """
    if status is not None:
        if (kind := _BY_WORDS.get((status, words.casefold()))) is not None:
            return kind
        if (kind := BY_HTTP_STATUS.get(status)) is not None:
            return kind
    if (kind := BY_GRPC_STATUS.get(grpc_status)) is not None:
        return kind
    return INVALID_REQUEST if status is not None and 400 <= status < 500 else INTERNAL_ERROR


def code_toward(code: int, version: Version) -> int:
    """The code that a client of this version is told for one of 1.0: never one that means another thing to it."""
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
    """The name alone, without its package or path, and as every way of writing it has it."""
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
