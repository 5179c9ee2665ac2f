"""The parameters of an operation, wherever a request has them: `params` of JSON-RPC, the body of HTTP+JSON, the query.

A sender may put the tenant in several places: beside the message, and into the push configuration of a send (protocol
§2.1), which has another name in every version. Names are read in both spellings of ProtoJSON, because parsers accept
either.

Every field that the path does not bind may also be a query parameter (google.api.http), so a query is one more place
for the tenant and for ids. Names there must be plain words, so that no parser reads another name. A value keeps its
bytes, because page tokens must survive, but escapes that could be read in two ways are refused. Unknown names pass.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import quote, unquote_plus

import msgspec
from msgspec.structs import replace

from gateway.a2a import json as strict_json
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.json import Members, Tree
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.paths import PathCall, fits_path, is_tenant

Way: TypeAlias = tuple[tuple[str, Members], ...]
"""The path to an object: each name from the parameters down, with the members of the object under it."""


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of one call, with the members that routing and ownership need.

    Attributes:
        members: The members of the whole.
        message: The members of the message that is sent; empty for other operations.
        tenants: The value of each place for a tenant that is there, the outer one first; None for empty or null.
        inner: The paths to the objects with the inner ones of these places.
        envelope: The members of the request that has them as its `params`; None where they are the whole body.
        pushes: The paths to the objects that hold a push configuration, or are one, except the parameters themselves.
    """

    members: Members
    message: Members
    tenants: tuple[str | None, ...]
    inner: tuple[Way, ...] = ()
    envelope: Members | None = None
    pushes: tuple[Way, ...] = ()

    @property
    def tenant(self) -> str | None:
        """Return the tenant that they name.

        Raises:
            BadParams: two places name two.
        """
        return agreed("tenant", *self.tenants)

    def says(self, tenant: str | None) -> bool:
        """Return whether every place for a tenant holds this one; for None, whether there is no such place."""
        return not self.tenants if tenant is None else all(each == tenant for each in self.tenants)


NO_PARAMS = Parameters({}, {}, ())
"""The parameters of a call that has none."""


def open_params(operation: Operation, members: Members, envelope: Members | None = None) -> Parameters:
    """Open the parameters of an operation.

    Raises:
        BadParams: a member is of a wrong type, or is there in both spellings.
        DuplicateKey: as `strict_json.open_body`.
    """
    message: Members = {}
    tenants = [strict_json.text(members, "tenant")] if "tenant" in members else []
    pushes: list[Way] = []
    if operation.sends:
        # 0.3 calls the message `request` in its protobuf definition, and its servers take both names.
        message = _opened(members, "message", "request") or {}
        _look(members, _IN_SEND, (), pushes)
        if message:
            _look(message, _IN_SEND, (("message" if "message" in members else "request", message),), pushes)
    elif operation is Operation.CREATE_PUSH_CONFIG:
        _look(members, _IN_PUSH, (), pushes)
    if not pushes:
        return Parameters(members, message, tuple(tenants), (), envelope)
    inner = tuple(way for way in pushes if "tenant" in way[-1][1])
    tenants += [strict_json.text(way[-1][1], "tenant") for way in inner]
    return Parameters(members, message, tuple(tenants), inner, envelope, tuple(pushes))


def params_without_tenant(params: Parameters) -> Tree:
    """Return the members of a body, without any place for a tenant.

    Raises:
        ParseFailed: a value cannot be read.
    """
    members: Tree = {name: strict_json.read(raw) for name, raw in params.members.items() if name != "tenant"}
    for way in params.inner:
        inside = members
        for name, _ in way:
            inside = inside[name]
        inside.pop("tenant", None)
    return members


def refuse_strays(operation: Operation, params: Parameters) -> None:
    """Refuse a push configuration in a place where no generation has one, but an agent might look.

    Such places are the envelope beside the parameters, and the parameters of operations that neither send nor create.

    Raises:
        BadParams: there is one, or a member that may hold one is no object.
        DuplicateKey: as `strict_json.open_object`.
    """
    if params.envelope is not None and not _IN_SEND.isdisjoint(params.envelope):
        raise BadParams("a push configuration must stand in params")
    if operation.sends or operation is Operation.CREATE_PUSH_CONFIG:
        return
    strays: list[Way] = []
    _look(params.members, _IN_SEND, (), strays)
    if strays:
        raise BadParams(f"{strays[0][-1][0]} has no place in this operation", field=strays[0][-1][0])


def reopen_params(operation: Operation, body: bytes, *, envelope: bool) -> Parameters:
    """Read the parameters in a body that was read before, or that the gateway has written itself.

    Args:
        envelope: Whether they are the `params` of a JSON-RPC request; otherwise they are the whole body.

    Raises:
        BadParams, DuplicateKey: as `open_params`.
    """
    members = strict_json.open_object(msgspec.Raw(body), "the body") if body else {}
    if not envelope:
        return open_params(operation, members)
    raw = members.get("params", _NULL)
    return open_params(operation, {} if raw == _NULL else strict_json.open_object(raw, "params"), members)


def with_tenant(params: Parameters, body: bytes, tenant: str | None) -> bytes:
    """Return the body with another tenant, or none, in every place that had one; all other values keep their bytes.

    The outer place is made where there was none.

    Args:
        body: The body from which the parameters were read.
    """
    written = None if tenant is None else msgspec.json.encode(tenant)
    ways: list[Way] = [*params.inner]
    if tenant is not None or "tenant" in params.members:
        ways.append(())
    for way in ways:
        body = strict_json.put(body, _path(params, way, "tenant"), written)
    return body


def with_texts(params: Parameters, body: bytes, places: Iterable[tuple[Way, str]], text: str) -> bytes:
    """Return the body with another string under some names; all other values keep their bytes.

    Args:
        body: The body from which the parameters were read.
        places: The way to each object, and the name of its member.
    """
    written = msgspec.json.encode(text)
    for way, name in places:
        body = strict_json.put(body, _path(params, way, name), written)
    return body


def _path(params: Parameters, way: Way, name: str) -> list[str]:
    """Return the path to a member, from the body down."""
    return [*(("params",) if params.envelope is not None else ()), *(step for step, _ in way), name]


def way_to_message(params: Parameters) -> Way:
    """Return the way to the message that is sent."""
    return (("message" if "message" in params.members else "request", params.message),)


def text_of(members: Members, *names: str) -> str | None:
    """Return a string that may stand under any of several names.

    Raises:
        BadParams: it is not a string, or two of the names have different values.
    """
    there = [name for name in names if name in members]
    if len(there) <= 1:
        return strict_json.text(members, there[0]) if there else None
    return agreed(names[0], *[strict_json.text(members, name) for name in there])


def ids_of(message: Members) -> tuple[str | None, str | None]:
    """Return the task and the context that a message names."""
    if _MESSAGE_IDS.isdisjoint(message):
        return None, None
    return text_of(message, "taskId", "task_id"), text_of(message, "contextId", "context_id")


def task_and_context(operation: Operation, version: Version, params: Parameters) -> tuple[str | None, str | None]:
    """Return the task and the context of a call, read by its generation's names.

    Raises:
        BadParams: one is no string, or differs in two spellings.
    """
    members = params.members
    if operation.sends:
        if version is Version.V0_1:
            return text_of(members, "id"), text_of(members, "sessionId")
        return ids_of(params.message)
    if operation is Operation.LIST_TASKS:
        return None, text_of(members, "contextId", "context_id")
    if operation is Operation.GET_EXTENDED_CARD:
        return None, None
    names_task = operation is Operation.CREATE_PUSH_CONFIG and version is not Version.V0_1
    if names_task or (operation.kind is Kind.PUSH and version is Version.V1_0):
        return text_of(members, "taskId", "task_id"), None
    return text_of(members, "id"), None


def agreed(name: str, *places: str | None) -> str | None:
    """Return the one value of all places that have one.

    Raises:
        BadParams: two of them have different values.
    """
    value: str | None = None
    for place in places:
        if place is None or place == value:
            continue
        if value is not None:
            raise BadParams(f"two places of the request name a different {name}")
        value = place
    return value


def is_resource_of(name: str, task: str | None, config: str | None = None) -> bool:
    """Return whether a resource name of 0.3 (`tasks/T/pushNotificationConfigs/C`) is in a task.

    Args:
        config: The push configuration that it may name; None for any.
    """
    whole = f"tasks/{task}"
    if task is None or name == whole:
        return task is not None
    configs = whole + "/pushNotificationConfigs"
    behind = name[len(configs) :]
    if not name.startswith(configs) or behind in ("", "/"):
        return name.startswith(configs)
    return behind[0] == "/" and (behind[1:] == config if config is not None else "/" not in behind[1:])


def _look(members: Members, names: frozenset[str], way: Way, ways: list[Way]) -> None:
    """Find push configurations below the members that may hold one."""
    if names.isdisjoint(members):
        return
    for name in [name for name in members if name in names]:
        inside = _opened(members, name, *_TWINS.get(name, ()))
        if inside is None:
            continue
        here = (*way, (name, inside))
        if name != "configuration":
            ways.append(here)
        _look(inside, names, here, ways)


def _opened(members: Members, *names: str) -> Members | None:
    """Return the object under the one of the names that is there, or None where there is none or a null."""
    spelling = None
    for name in names:
        if name in members:
            if spelling is not None:
                raise BadParams(f"{spelling} and {name} are two names of one thing")
            spelling = name
    if spelling is None or (raw := members[spelling]) == _NULL:
        return None
    return strict_json.open_object(raw, spelling)


_SPELLINGS = (
    ("taskPushNotificationConfig", "task_push_notification_config"),
    ("pushNotificationConfig", "push_notification_config"),
    ("pushNotification", "push_notification"),
)
"""The names that the generations have for a push configuration in a message's parameters."""
_TWINS = {name: tuple(set(names) - {name}) for names in _SPELLINGS for name in names}
_IN_SEND = frozenset({"configuration", *_TWINS})
# 0.3 over HTTP+JSON and the candidates of 1.0 wrap what is created.
_IN_PUSH = frozenset({"config", *_IN_SEND})
_MESSAGE_IDS = frozenset({"taskId", "task_id", "contextId", "context_id"})
_NULL = msgspec.Raw(b"null")


# ---- The query -----------------------------------------------------------------------------------------------------

# Visible ASCII but `#`, and no `;`, which some servers take for an `&`.
_RAW = re.compile(rb"[!\"$-:<-~]*")
# No escape, no `+`, no bracket: PHP and Rack read ` tenant`, `tenant[]` and `tenant%00` as `tenant`.
_NAME = re.compile(rb"[A-Za-z0-9._~$-]+")
# Escapes that are whole, and of no control character.
_VALUE = re.compile(rb"(?:[^%]|%(?:[2-689A-F][0-9A-F]|7[0-9A-E]))*", re.IGNORECASE)

_CREDENTIALS = frozenset({"accesstoken", "apikey", "xapikey", "authorization", "clientsecret"})
_IDS = {
    "id": ("id",),
    "taskid": ("taskId", "task_id"),
    "contextid": ("contextId", "context_id"),
    "referencetaskids": (),
    "name": ("name",),
    "parent": ("parent",),
}
"""Ids, and 0.3's names that hold one, by folded name, with the spellings that are allowed in a query."""
_PUSHES = frozenset(name.replace("_", "").lower() for name in _TWINS)
# Common words, which are allowed in nested names.
_COMMON = frozenset({"id", "name", "parent"})


def split_query(query: bytes) -> tuple[str | None, bytes]:
    """Return the tenant that a query names, and the rest of the query, each value byte for byte.

    Raises:
        BadRequest: a name is repeated (in any spelling), is not a plain word, carries a credential, leads into a push
            configuration, or is like `tenant` or an id but spelled otherwise; or a byte or an escape that two servers
            could read in two ways.
    """
    if not query:
        return None, b""
    if _RAW.fullmatch(query) is None:
        raise BadRequest("the query has a character that is not allowed")
    seen: set[str] = set()
    kept: list[bytes] = []
    tenant: str | None = None
    for pair in query.split(b"&"):
        if not pair:
            continue
        raw, _, value = pair.partition(b"=")
        if _NAME.fullmatch(raw) is None:
            raise BadRequest("a query parameter has a name that is not allowed")
        name = raw.decode("ascii")
        folded = _folded(name)
        if folded in seen:
            raise BadRequest("a query parameter stands twice")
        seen.add(folded)
        _refuse_name(name, folded)
        if b"%" in value and _VALUE.fullmatch(value) is None:
            raise BadRequest("the query has an escape that is not allowed")
        text = _unquote(value)
        if b"+" in value and (name == "tenant" or folded in _IDS):
            # Most servers read it as a space, some as a plus.
            raise BadRequest("a tenant or an id in the query has a plus that is not escaped")
        if name == "tenant":
            tenant = text or None
        else:
            kept.append(pair)
    return tenant, b"&".join(kept)


def of_card(path: PathCall, query: bytes) -> PathCall:
    """Return the request for a card, with the tenant of its query if no path can carry it: `?tenant=orgs%2F42`.

    A tenant that a path can carry must be in the path. Anything else in the query of a card is ignored, so that it does
    not reveal whether there is an endpoint.
    """
    if path.tenant is not None or b"tenant=" not in query:
        return path
    try:
        tenant, _ = split_query(query)
    except BadRequest:
        return path
    if tenant is None or fits_path(tenant) or not is_tenant(tenant):
        return path
    return replace(path, tenant=tenant)


def refuse_other_ids(query: bytes, path: PathCall, *, listing: bool) -> None:
    """Refuse an id in a query that differs from the path.

    Args:
        query: The result of `split_query`.
        listing: Whether the operation takes a context from its query.

    Raises:
        BadParams: it names another task or configuration than the path, or any where the operation takes none.
    """
    bound: dict[str, tuple[str | None, ...]] = {
        "id": (path.task_id, path.config_id),
        **dict.fromkeys(("taskId", "task_id"), (path.task_id,)),
        **({} if listing else dict.fromkeys(("contextId", "context_id"), ())),
    }
    for pair in query.split(b"&"):
        raw, _, value = pair.partition(b"=")
        name, text = raw.decode("ascii"), _unquote(value)
        if not text:
            continue
        last = name.rpartition(".")[2]
        if name in bound and text not in bound[name]:
            raise BadParams(f"the query cannot name another {name} than the path")
        # Resource names of 0.3.
        is_resource = name in _IDS or text.startswith("tasks/")
        if is_resource and last in ("name", "parent") and not is_resource_of(text, path.task_id, path.config_id):
            raise BadParams(f"the query cannot have another {name} than the path")


def query_with_context(query: bytes, context: str) -> bytes:
    """Return the query with another context where it names one; all other bytes stay as they are."""
    pairs = query.split(b"&")
    for number, pair in enumerate(pairs):
        name, _, value = pair.partition(b"=")
        if value and name in (b"contextId", b"context_id"):
            pairs[number] = name + b"=" + quote(context, safe="").encode("ascii")
    return b"&".join(pairs)


def query_value(query: bytes, *names: str) -> str | None:
    """Return the value of the first parameter with one of these names, compared without case; None for none."""
    spellings = {name.lower() for name in names}
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if _unquote(key).lower() in spellings:
            return _unquote(value) or None
    return None


def _folded(name: str) -> str:
    """Return a name in the one spelling that the most lenient parser would see."""
    return name.lower().replace("_", "").replace("-", "")


def _refuse_name(name: str, folded: str) -> None:
    if folded in _CREDENTIALS:
        raise BadRequest("a credential belongs into a header, not into the query")
    if not _PUSHES.isdisjoint(folded.split(".")):
        raise BadRequest("a push configuration belongs into the body, not into the query")
    if "tenant" in folded and name != "tenant":
        # An agent may also read `Tenant`, `tenantId` or `message.tenant`.
        raise BadRequest("a query parameter has the name 'tenant' in another spelling")
    # `message.taskId` is a field path: it names a member of the body.
    last = folded.rpartition(".")[2]
    spellings = _IDS.get(last)
    if spellings is not None and name not in spellings and (last == folded or last not in _COMMON):
        raise BadRequest("a query parameter has the name of an id in another spelling")


def _unquote(raw: bytes) -> str:
    try:
        return unquote_plus(raw.decode("ascii"), errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the query is not UTF-8") from error
