"""A request's path: its segments, the operation that they are in HTTP+JSON, and the names that a tenant may have.

One parse gives both the decision and the forwarded path. A path is read raw, never unescaped as a whole: percent
escapes are allowed only in task and push-config ids, are decoded once, and are written again in canonical form. Clients
differ in the case of hex digits and in the marks that they escape (`:`, `!`, `~` and alike); an escaped letter, digit,
dot, slash or percent sign is never needed, and refused.

The A2A `tenant` field is an opaque string, compared exactly; only in a path has it a grammar (`NAME`).
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.spelling import SPELLINGS

HTTP_1_0 = {operation: row.http[0] for operation, row in SPELLINGS.items()}
HTTP_0_3 = {operation: (row.http_0_3 or row.http)[0] for operation, row in SPELLINGS.items()}
"""The HTTP method and the path by which an agent is asked; 0.3 has `/v1` in front."""
OPERATION_SEGMENTS = frozenset(path.split("/")[1] for _, path in HTTP_1_0.values())
"""Segments with which the path of an operation begins."""
FIRST_SEGMENTS = OPERATION_SEGMENTS | {"v1", ".well-known"}
"""Segments that may follow the path of an endpoint, and a tenant there."""

NAME = re.compile(
    r"(?!(?:-|\.|\.\.|\.well-known|v1|skills|tasks|card|extendedAgentCard)\Z)[A-Za-z0-9._-]{1,64}",
)
"""Grammar of a tenant in a path: never a path segment of the protocol, nor one that climbs (protocol §2.5)."""

WRONG_NAME = "a tenant has at most 256 bytes, no control characters, and is no word of the protocol's paths"
"""The message for an invalid tenant (`is_tenant`)."""

RESERVED = FIRST_SEGMENTS | {"-", ".", "..", "skills", "card"}
"""Names that can never be a tenant or an agent: they are path segments of the protocol."""

_LONGEST_TENANT = 256
# C0, DEL and C1; and halves of surrogate pairs, which have no UTF-8.
_NOT_IN_TENANT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_RAW = re.compile(rb"(/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+)*/?")
# Controls, `%`, `/` and `\\`; and letters, digits, `.`, `-` and `_`, which need no escape (RFC 3986 §2.3).
_ESCAPED_TRAPS = re.compile(r"%(?:[01][0-9A-F]|2[5DEF]|3[0-9]|4[1-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AF])", re.IGNORECASE)
_BEFORE_IDS = ("tasks", "pushNotificationConfigs")
_ID_SAFE = "~!$&'()*+,=:@-._"
_LONGEST_ID = 512

# An id that ends so would be a verb in the path that the agent gets.
_VERB = re.compile(r":(?:cancel|subscribe)\Z", re.IGNORECASE)

# Ids without escapes that are neither a dot segment nor a verb.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_UNSAFE = re.compile(r"[%/\\]")

CARD_NAMES = ("agent-card.json", "agent.json")

_LEGACY_CARD = ("agent", "authenticatedExtendedCard")


def is_tenant(value: str) -> bool:
    """Return whether a client, or the configuration, can use this as a tenant."""
    return is_opaque(value) and value not in RESERVED


def is_opaque(value: str) -> bool:
    """Return whether a string is not empty, has at most 256 bytes of UTF-8, and no control characters."""
    if not 0 < len(value) <= _LONGEST_TENANT or _NOT_IN_TENANT.search(value) is not None:
        return False
    return value.isascii() or len(value.encode()) <= _LONGEST_TENANT


def fits_path(tenant: str | None) -> bool:
    """Return whether a path can carry the tenant: it is one segment of `NAME`, or None."""
    return tenant is None or NAME.fullmatch(tenant) is not None


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
    spelling, task, config = list(rest), None, None
    if len(rest) > 1:
        # The verb stands behind the last colon: ids may hold colons themselves (1.0 §11.3, langgraph's do).
        before, _, verb = rest[1].rpartition(":")
        is_verb = len(rest) == 2 and before != "" and verb in ("cancel", "subscribe")
        task, spelling[1] = (before, "{task}:" + verb) if is_verb else (rest[1], "{task}")
    if len(rest) == 4:
        config, spelling[3] = rest[3], "{config}"
    methods = _OPERATIONS.get((Version.V0_3 if prefixed else Version.V1_0, "/" + "/".join(spelling)))
    if methods is None:
        return None
    operation = methods.get(method) or methods.get("POST") or methods["GET"]
    task_id = None if task is None else decode_id(task)
    if operation is Operation.GET_TASK and task_id is not None and _VERB.search(task_id) is not None:
        raise BadRequest("an id in the path ends like a verb of the protocol")
    config_id = None if config is None else decode_id(config)
    return operation, task_id, config_id, _unless(method, *methods)


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


def path_id(params: Mapping[str, Any], name: str, *, verb: bool = False) -> str:
    """Return the id under that name, which a path can carry.

    Refused are `%` and slashes, which some servers decode twice or before they route, and dot segments.

    Args:
        params: In the agent's form.
        verb: Whether the path may have a verb behind it, so that it must not end like one itself.

    Raises:
        BadParams: it is missing, or a path cannot carry it.
    """
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise BadParams(f"{name} is missing", field=name)
    if _PLAIN.fullmatch(value) is not None:
        return value
    if len(value) > _LONGEST_ID:
        raise BadParams(f"{name} has more than {_LONGEST_ID} characters", field=name)
    if value in (".", "..") or _UNSAFE.search(value) is not None or (verb and _VERB.search(value) is not None):
        raise BadParams(f"{name} has characters that a path cannot carry, or ends like a verb", field=name)
    try:
        decode_id(encode_id(value))
    except (BadRequest, UnicodeEncodeError) as error:
        raise BadParams(f"{name} has control characters or a space at an end", field=name) from error
    return value


def rest_path(call: PathCall, version: Version) -> str:
    """Return the canonical path of an HTTP+JSON call behind an agent's interface URL, without a tenant."""
    assert call.operation is not None
    task, config = (None if each is None else encode_id(each) for each in (call.task_id, call.config_id))
    path = HTTP_1_0[call.operation][1] if version is Version.V1_0 else "/v1" + HTTP_0_3[call.operation][1]
    path = path.format(task=task, config=config or "")
    return path if config else path.rstrip("/")


def _unless(method: str, *allowed: str) -> tuple[str, ...]:
    return () if method in allowed else allowed


_OPERATIONS: dict[tuple[Version, str], dict[str, Operation]] = {}
"""The operation of each HTTP method, by version and path."""
for _operation, _row in SPELLINGS.items():
    for _version, _spelled in ((Version.V1_0, _row.http), (Version.V0_3, _row.http + _row.http_0_3)):
        for _verb, _path in _spelled:
            _OPERATIONS.setdefault((_version, _path), {})[_verb] = _operation
