"""One JSON document, peeked at: its members are found, and what nobody needs to read stays bytes.

A routing decision is made on one reading, so a document that two parsers could read in two ways is refused: a member
named twice (most parsers keep the last, some the first) and, where a member decides the route, the same name in
another spelling (Go's parser takes any case, others `task-id`), or a name that a parser may cut or give a meaning of
its own. The check is for the objects that are opened here, never inside metadata or data. The rest need not be read to
be sure of: all of it is strict JSON (RFC 8259) in UTF-8, within the bounds of `bounds` and without numbers beyond a
double.
"""

import codecs
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from gateway.a2a.bounds import BOUNDS, SLICE, BodyBounds, refuse_numbers, skeleton
from gateway.a2a.fault import BadParams, BadRequest, DuplicateKey, ParseFailed
from gateway.a2a.layout import is_compact, is_whole

Raw: TypeAlias = msgspec.Raw
Members: TypeAlias = dict[str, msgspec.Raw]

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()

_TELLING = frozenset({
    "jsonrpc", "id", "method", "params", "tenant", "message", "request", "configuration", "taskId", "task_id",
    "contextId", "context_id", "referenceTaskIds", "reference_task_ids", "pushNotificationConfigId",
    "push_notification_config_id", "sessionId", "session_id", "taskPushNotificationConfig",
    "task_push_notification_config", "pushNotificationConfig", "push_notification_config", "pushNotification",
    "push_notification", "config", "configId", "config_id", "name", "parent", "role", "scope", "url",
    "token", "authentication",
})  # fmt: skip
_KNOWN = _TELLING | {
    "messageId", "parts", "metadata", "extensions", "acceptedOutputModes", "historyLength", "returnImmediately",
    "blocking", "kind", "result", "error",
}  # fmt: skip
"""Names that mislead nobody, as they are written here."""


def _folded(name: str) -> str:
    """A name as somebody may read it who takes any spelling of it."""
    # Case as Go folds it: the long s and the Kelvin sign are letters of `params` and `taskId` to its parser.
    return name.casefold().replace("_", "").replace("-", "")


_BY_FOLDED = {_folded(name): name for name in sorted(_TELLING)}


def open_body(body: bytes, bounds: BodyBounds = BOUNDS) -> Members:
    """The members of a whole body, which must be one JSON object in strict UTF-8.

    Raises:
        ParseFailed: it is no JSON (an empty body, a byte-order mark, UTF-16, `NaN`, half a surrogate pair).
        BadRequest: it is JSON, but no object (a batch is one such), or beyond the bounds.
        DuplicateKey: a member stands twice, or a telling one in another spelling.
    """
    if not body.isascii():
        _refuse_other_encodings(body)
    found = skeleton(body, bounds)
    try:
        members = _object.decode(body)
    except msgspec.ValidationError as error:
        if body.lstrip()[:1] == b"[":
            raise BadRequest("batch requests are not supported: send one request") from error
        raise BadRequest("the body is not a JSON object") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ParseFailed("the body is not valid JSON") from error
    refuse_numbers(found)
    _refuse_twins(body, members)
    return members


def open_object(raw: msgspec.Raw, name: str) -> Members:
    """The members of a value of an opened body that must be an object.

    Raises:
        BadParams: it is none.
        DuplicateKey: as `open_body`.
    """
    try:
        members = _object.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadParams(f"{name} must be an object") from error
    _refuse_twins(raw, members)
    return members


def text(members: Members, key: str) -> str | None:
    """A member that must be a string; None where it is absent, null or empty (ProtoJSON: unset).

    Raises:
        BadParams: it is of another type.
    """
    raw = members.get(key)
    if raw is None or raw == _NULL:
        return None
    try:
        return _string.decode(raw) or None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParams(f"{key} must be a string") from error


def write(members: Mapping[str, msgspec.Raw | str]) -> bytes:
    """The object again, each value's bytes as they came."""
    return _encoder.encode(members)


_NULL = msgspec.Raw(b"null")


def _refuse_other_encodings(body: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), SLICE):
            decoder.decode(body[start : start + SLICE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ParseFailed("the body is not UTF-8") from error


def _refuse_twins(raw: bytes | msgspec.Raw, members: Members) -> None:
    if not _KNOWN.issuperset(members):
        _refuse_likenesses(members)
    if not is_compact(members, len(raw)) and has_twins(bytes(raw), members):
        raise DuplicateKey("a member stands twice in one object")


def _refuse_likenesses(members: Members) -> None:
    for key in members.keys() - _KNOWN:
        folded = _folded(key)
        if (exact := _BY_FOLDED.get(folded)) is not None:
            raise DuplicateKey(f"a member is named like {exact!r}, but not so")
        if "pushnotification" in folded:
            # A plural, or another generation's word: nobody could tell whether an agent finds a webhook in it.
            raise DuplicateKey("a member is named like a push configuration, but not so")
        # In C a name may end at its first NUL; in JavaScript this one is the object's prototype.
        if "\0" in key or key == "__proto__":
            raise DuplicateKey("a member has a name that stands for another to some parsers")


def has_twins(raw: bytes, members: Members) -> bool:
    """Whether an object that was read as these members has one of them twice."""
    return not is_whole(raw, members)
