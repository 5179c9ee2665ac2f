"""A request's path: its segments, and the operation that they are in HTTP+JSON.

One parse gives both the decision and the forwarded path. A path is read raw, never unescaped as a whole: percent
escapes are allowed only in task and push-config ids, are decoded once, and are written again in canonical form. Clients
differ in the case of hex digits and in the marks that they escape (`:`, `!`, `~` and alike); an escaped letter, digit,
dot, slash or percent sign is never needed, and refused.
"""

import re
from urllib.parse import quote, unquote_to_bytes

import msgspec

from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation

NAME = re.compile(
    r"(?!(?:-|\.|\.\.|\.well-known|v1|skills|tasks|card|extendedAgentCard)\Z)[A-Za-z0-9._-]{1,64}",
)
"""Grammar of a tenant in a path: never a path segment of the protocol, nor one that climbs (protocol §2.5)."""

WRONG_NAME = "a tenant has at most 256 bytes, no control characters, and is no word of the protocol's paths"
"""The message for an invalid tenant (`tenant.is_tenant`)."""

_RAW = re.compile(rb"(/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+)*/?")
# Controls, `%`, `/` and `\\`; and letters, digits, `.`, `-` and `_`, which need no escape (RFC 3986 §2.3).
_ESCAPED_TRAPS = re.compile(r"%(?:[01][0-9A-F]|2[5DEF]|3[0-9]|4[1-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AF])", re.IGNORECASE)
_BEFORE_IDS = ("tasks", "pushNotificationConfigs")
_ID_SAFE = "~!$&'()*+,=:@-._"
_LONGEST_ID = 512

# An id that ends so would be a verb in the path that the agent gets.
_VERB = re.compile(r":(?:cancel|subscribe)\Z", re.IGNORECASE)

CARD_NAMES = ("agent-card.json", "agent.json")
FIRST_SEGMENTS = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard", "v1", ".well-known"})
"""Segments that may follow the path of an endpoint, and a tenant there."""

_LEGACY_CARD = ("agent", "authenticatedExtendedCard")


class PathCall(msgspec.Struct, frozen=True):
    """The part of a path behind an endpoint.

    Attributes:
        operation: None for the JSON-RPC endpoint, whose body has it.
        tenant: The tenant segment, or None.
        prefixed: Whether it had the 0.3 prefix `/v1`.
        card: The well-known name of a card, or None.
        legacy_card: Whether it is the 0.2 path of the extended card.
        allowed: The HTTP methods of this path, where the request's own is none of them; otherwise empty.
    """

    operation: Operation | None = None
    tenant: str | None = None
    prefixed: bool = False
    task_id: str | None = None
    config_id: str | None = None
    card: str | None = None
    legacy_card: bool = False
    allowed: tuple[str, ...] = ()


def segments(raw_path: bytes) -> tuple[str, ...]:
    """Return the segments of a request's raw path; one trailing slash does not count.

    Raises:
        BadRequest: a character, an escape or a segment that two servers could read in two ways (`safety` T10).
    """
    if _RAW.fullmatch(raw_path) is None:
        raise BadRequest("the path has a character or an empty segment that is not allowed")
    parts = raw_path.decode("ascii").split("/")[1:]
    if parts and not parts[-1]:
        parts.pop()
    if "." in parts or ".." in parts:
        raise BadRequest("the path has a dot segment")
    if b"%" in raw_path:
        _refuse_escapes(parts)
    return tuple(parts)


def _refuse_escapes(parts: list[str]) -> None:
    further = before = ""
    for part in parts:
        if "%" in part:
            # The protobuf definition of 0.3.0 has the singular, for push configurations alone (protocol trap 6).
            named = before in _BEFORE_IDS or (further, before) == ("v1", "task")
            if not named or _ESCAPED_TRAPS.search(part) is not None:
                raise BadRequest("the path has an escape that is not allowed")
        further, before = before, part


def read_rest(method: str, rest: tuple[str, ...], *, tenanted: bool) -> PathCall | None:
    """Return the meaning of the segments behind an endpoint, or None if they have none.

    Args:
        tenanted: Whether the first segment may be a tenant here.

    Raises:
        BadRequest: an id that is no UTF-8, too long, or would be read differently by the agent.
    """
    tenant: str | None = None
    if tenanted and rest and rest != _LEGACY_CARD and rest[0] not in FIRST_SEGMENTS and NAME.fullmatch(rest[0]):
        tenant, rest = rest[0], rest[1:]
    if not rest:
        return PathCall(tenant=tenant, allowed=() if method == "POST" else ("POST",))
    if rest[0] == ".well-known":
        if len(rest) == 2 and rest[1] in CARD_NAMES:
            return PathCall(Operation.GET_CARD, tenant, card=rest[1], allowed=_unless(method, "GET", "HEAD"))
        return None
    if rest == _LEGACY_CARD:
        return PathCall(Operation.GET_EXTENDED_CARD, tenant, legacy_card=True, allowed=_unless(method, "GET"))
    prefixed = rest[0] == "v1"
    found = _read_operation(method, rest[1:] if prefixed else rest, prefixed=prefixed)
    if found is None:
        return None
    operation, task_id, config_id, allowed = found
    return PathCall(operation, tenant, prefixed, task_id, config_id, allowed=allowed)


_Found = tuple[Operation, str | None, str | None, tuple[str, ...]]


def _read_operation(method: str, rest: tuple[str, ...], *, prefixed: bool) -> _Found | None:
    match rest:
        case ("message:send",):
            return Operation.SEND_MESSAGE, None, None, _unless(method, "POST")
        case ("message:stream",):
            return Operation.SEND_STREAMING_MESSAGE, None, None, _unless(method, "POST")
        case ("card",) if prefixed:
            return Operation.GET_EXTENDED_CARD, None, None, _unless(method, "GET")
        case ("extendedAgentCard",):
            return Operation.GET_EXTENDED_CARD, None, None, _unless(method, "GET")
        case ("tasks",):
            return Operation.LIST_TASKS, None, None, _unless(method, "GET")
        case ("tasks", last):
            return _read_task(method, last)
        case ("tasks", task, "subscribe"):
            return Operation.SUBSCRIBE_TO_TASK, decode_id(task), None, _unless(method, "POST", "GET")
        case ("tasks" | "task" as word, task, "pushNotificationConfigs") if prefixed or word == "tasks":
            operation = Operation.LIST_PUSH_CONFIGS if method == "GET" else Operation.CREATE_PUSH_CONFIG
            return operation, decode_id(task), None, _unless(method, "GET", "POST")
        case ("tasks", task, "pushNotificationConfigs", config):
            operation = Operation.DELETE_PUSH_CONFIG if method == "DELETE" else Operation.GET_PUSH_CONFIG
            return operation, decode_id(task), decode_id(config), _unless(method, "GET", "DELETE")
    return None


def _read_task(method: str, last: str) -> _Found | None:
    # The verb stands behind the last colon: ids may hold colons themselves (1.0 §11.3, langgraph's do).
    task, colon, verb = last.rpartition(":")
    if colon and task and verb == "cancel":
        return Operation.CANCEL_TASK, decode_id(task), None, _unless(method, "POST")
    if colon and task and verb == "subscribe":
        return Operation.SUBSCRIBE_TO_TASK, decode_id(task), None, _unless(method, "POST", "GET")
    task_id = decode_id(last)
    if _VERB.search(task_id) is not None:
        raise BadRequest("an id in the path ends like a verb of the protocol")
    return Operation.GET_TASK, task_id, None, _unless(method, "GET")


def decode_id(segment: str) -> str:
    """Return an id as a path writes it, decoded once.

    Raises:
        BadRequest: no UTF-8, a control character, a space at an end, or too long.
    """
    try:
        value = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("an id in the path is not UTF-8") from error
    if len(value) > _LONGEST_ID or not value.isprintable() or value[:1] == " " or value[-1:] == " ":
        raise BadRequest("an id in the path is too long, or has control characters or a space at an end")
    return value


def encode_id(value: str) -> str:
    """Return an id as a path writes it: the one canonical spelling."""
    return quote(value, safe=_ID_SAFE)


def rest_path(call: PathCall, version: Version) -> str:
    """Return the canonical path of an HTTP+JSON call behind an agent's interface URL, without a tenant."""
    prefix = "/v1" if version is not Version.V1_0 else ""
    task = "" if call.task_id is None else "/tasks/" + encode_id(call.task_id)
    config = "" if call.config_id is None else "/" + encode_id(call.config_id)
    match call.operation:
        case Operation.SEND_MESSAGE:
            return prefix + "/message:send"
        case Operation.SEND_STREAMING_MESSAGE:
            return prefix + "/message:stream"
        case Operation.LIST_TASKS:
            return prefix + "/tasks"
        case Operation.CANCEL_TASK:
            return prefix + task + ":cancel"
        case Operation.SUBSCRIBE_TO_TASK:
            return prefix + task + ":subscribe"
        case Operation.GET_EXTENDED_CARD:
            return "/extendedAgentCard" if version is Version.V1_0 else "/v1/card"
        case Operation.GET_TASK:
            return prefix + task
        case _:
            return prefix + task + "/pushNotificationConfigs" + config


def _unless(method: str, *allowed: str) -> tuple[str, ...]:
    return () if method in allowed else allowed
