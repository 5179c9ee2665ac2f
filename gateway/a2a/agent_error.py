"""Errors that agents answer with: read from any dialect, and written for the client's.

What an error is, is told by the first of these that its body has: the reason of A2A's `ErrorInfo`, the code of
JSON-RPC in the meaning of the agent's generation, the name in `type`, the HTTP status, which up to eight errors share
(protocol §4.1). What comes out is 1.0's way of saying it.

An agent may write what it likes. Whatever it is, reading it costs linear time and raises nothing; what goes on to the
client is a message of `LONGEST_MESSAGE` characters at most, and details within the bounds of `error_detail`.

Decision, 2026-11-22: an agent that does not accept a credential tells nobody but the gateway, as in `upstream.page`.
Such an error is flagged (`challenges`) for the caller to refuse, and is written as an invalid answer should one get as
far as that: passed on, it would say that the credential shown *here* is bad. 403 is the agent's own word on
what it does for a caller, and passes.
"""

import msgspec

from gateway.a2a import error_detail, error_kind
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.error_detail import encoder, integer
from gateway.a2a.error_kind import BY_CODE, INTERNAL_ERROR, INVALID_AGENT_RESPONSE, ErrorKind
from gateway.a2a.tree import Tree

LONGEST_MESSAGE = 2_000
"""Characters of a message."""


class AgentError(msgspec.Struct, frozen=True):
    """An error of an agent's, as 1.0 says it.

    Attributes:
        code: That of JSON-RPC in the meaning of 1.0, or one of the agent's own.
        reason: The word for it in A2A or JSON-RPC, or None where they have none.
        message: What the agent says, cut; never empty.
        details: Typed objects; that with the reason is the first.
        http_status: That of HTTP+JSON in 1.0, whatever the agent's was.
        data: What an agent of an older generation had in `data`, for clients of such; or `msgspec.UNSET`.
        challenges: Whether it says that a credential is not good. The caller answers `UpstreamProtocol` then.
    """

    code: int
    reason: str | None
    message: str
    details: tuple[Tree, ...] = ()
    http_status: int = 500
    data: object = msgspec.UNSET
    challenges: bool = False


NOT_ACCEPTED = AgentError(
    code=INVALID_AGENT_RESPONSE.code,
    reason=INVALID_AGENT_RESPONSE.reason,
    message="the agent does not accept the gateway",
    details=(error_detail.bare(INVALID_AGENT_RESPONSE),),
    http_status=502,
)
"""What a client is told instead of an error that challenges."""


class _Members(msgspec.Struct):
    """The members that an error, or what it stands in, has in any dialect; each as it came."""

    error: msgspec.Raw = msgspec.Raw()
    code: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    details: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()
    type: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()
    detail: msgspec.Raw = msgspec.Raw()
    errors: msgspec.Raw = msgspec.Raw()


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read_jsonrpc(error: bytes | msgspec.Raw, version: Version) -> AgentError | None:
    """What the `error` of a JSON-RPC answer says, or None where it is no object.

    Args:
        version: The agent's, which decides what its code means.
    """
    told = _open(error)
    if told is None:
        return None
    return _made(
        version,
        code=integer(told.code),
        name=_text(told.type),
        status=None,
        word="",
        message=_text(told.message),
        details=error_detail.read(told.data),
        data=told.data,
    )


def read_rest(status: int, body: bytes, version: Version) -> AgentError | None:
    """What the body of an HTTP+JSON error says, or None where it is no error of A2A: a page, or other JSON.

    It is one in each of the shapes that agents have (protocol §4.2): `{"error": {...}}` as AIP-193 writes it;
    `{"message"}`, from agents of 0.3 alone, or from any beside a `type` or `code` that A2A knows; a problem (RFC 9457).
    """
    outer = _open(body)
    if outer is None:
        return None
    inner = _open(outer.error)
    if inner is not None and _is_status(inner):
        return _nested(inner, outer, status, version)
    return _flat(outer, status, version) or _problem(outer, status, version)


def read_event(data: bytes, binding: Binding, version: Version) -> AgentError | None:
    """What an event of a stream says if it is an error: None if it is none."""
    outer = _open(data)
    if outer is None or not outer.error:
        return None
    if binding is Binding.JSONRPC:
        return read_jsonrpc(outer.error, version)
    inner = _open(outer.error)
    return None if inner is None else _nested(inner, outer, None, version)


def _is_status(told: _Members) -> bool:
    return integer(told.code) is not None or _text(told.message) is not None or _text(told.status) is not None


def _nested(inner: _Members, outer: _Members, status: int | None, version: Version) -> AgentError:
    """An error as AIP-193 writes it, maybe beside the members of 0.3; or a JSON-RPC envelope over HTTP+JSON."""
    codes = (integer(inner.code), integer(outer.code))
    if status is None:
        status = next((code for code in codes if code is not None and 400 <= code < 600), None)
    data = outer.data or inner.data
    return _made(
        version,
        code=_negative(*codes),
        name=_text(inner.type) or _text(outer.type),
        status=status,
        word=_text(inner.status) or "",
        message=_text(inner.message) or _text(outer.message),
        details=error_detail.read(inner.details) or error_detail.read(data),
        data=data,
    )


def _flat(told: _Members, status: int, version: Version) -> AgentError | None:
    """An error of 0.3: a message alone (a2a-sdk 0.3), with a name, or with a code (a2a-js)."""
    message, name, code = _text(told.message), _text(told.type), _negative(integer(told.code))
    if message is None:
        return None
    if version is Version.V1_0 and code is None and (name is None or error_kind.of_name(name) is None):
        # Every second server on the way says no more than this.
        return None
    return _made(
        version,
        code=code,
        name=name,
        status=status,
        word="",
        message=message,
        details=error_detail.read(told.details) or error_detail.read(told.data),
        data=told.data,
    )


def _problem(told: _Members, status: int, version: Version) -> AgentError | None:
    """A problem as drafts of 1.0 wrote it (RFC 9457)."""
    name, message = _text(told.type), _text(told.detail) or _text(told.title)
    if name is None or message is None:
        return None
    return _made(
        version,
        code=None,
        name=name,
        status=status,
        word="",
        message=message,
        details=error_detail.violations(told.errors),
        data=msgspec.Raw(),
    )


def _made(
    version: Version,
    *,
    code: int | None,
    name: str | None,
    status: int | None,
    word: str,
    message: str | None,
    details: list[Tree],
    data: msgspec.Raw,
) -> AgentError:
    info, kind = error_detail.take_own(details)
    if info is not None and kind is INTERNAL_ERROR and (kept := error_detail.kept_code(info)) is not None:
        code, info, kind = kept, None, None
    elif kind is None:
        kind = _kind(version, code, name)
        if kind is None and code is None:
            kind = error_kind.of_status(status, word, message or "")
        if kind is not None and kind.reason is not None:
            info = error_detail.bare(kind)
    if kind is not None:
        code = kind.code
    known = kind or INTERNAL_ERROR
    return AgentError(
        code=known.code if code is None else code,
        reason=None if kind is None else kind.reason,
        message=_cut(message or known.words),
        details=error_detail.bounded(details if info is None else [info, *details]),
        http_status=known.http_status,
        data=msgspec.UNSET if version is Version.V1_0 else error_detail.given(data),
        challenges=known.challenges or status in (401, 407),
    )


def _kind(version: Version, code: int | None, name: str | None) -> ErrorKind | None:
    kind = None if code is None else error_kind.of_code(code, version)
    return error_kind.of_name(name) if kind is None and name is not None else kind


# ---- Writing ---------------------------------------------------------------------------------------------------------


def write_jsonrpc(error: AgentError, *, id: bytes, version: Version) -> bytes:  # noqa: A002 - JSON-RPC's word
    """The envelope of an error, for a client of this version.

    Args:
        id: The client's own, as it wrote it.
    """
    error = NOT_ACCEPTED if error.challenges else error
    told: Tree = {"code": error_kind.code_toward(error.code, version), "message": error.message}
    if version is not Version.V1_0 and error.data is not msgspec.UNSET:
        told["data"] = error.data
    elif error.details:
        told["data"] = error.details
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + encoder.encode(told) + b"}"


def write_rest(error: AgentError, *, version: Version) -> tuple[int, bytes]:
    """The HTTP status and the body of an error, for a client of this version.

    1.0 gets AIP-193; 0.3, which has no shape of its own, that with all the members for which its clients look.
    """
    error = NOT_ACCEPTED if error.challenges else error
    kind = BY_CODE.get(error.code)
    details = error.details
    if kind is None:
        details = (error_detail.keeping(error.code), *details)
    known = kind or INTERNAL_ERROR
    status = error.http_status if version is Version.V1_0 else known.status_toward(version)
    told: Tree = {"code": status, "status": known.grpc_status, "message": error.message, "details": details}
    if version is Version.V1_0:
        return status, encoder.encode({"error": told})
    beside: Tree = {} if error.data is msgspec.UNSET else {"data": error.data}
    code = error_kind.code_toward(error.code, version)
    return status, encoder.encode({
        "code": code, "type": known.name, "message": error.message, **beside, "error": told,
    })  # fmt: skip


# ---- Values ----------------------------------------------------------------------------------------------------------

_members = msgspec.json.Decoder(_Members)
_string = msgspec.json.Decoder(str)


def _open(raw: bytes | msgspec.Raw) -> _Members | None:
    try:
        return _members.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _negative(*codes: int | None) -> int | None:
    """The first that is a code of JSON-RPC; what is positive is a status of HTTP."""
    return next((code for code in codes if code is not None and code < 0), None)


def _text(raw: msgspec.Raw) -> str | None:
    """A string that is not blank."""
    try:
        text = _string.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if not text or text.isspace() else text


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
