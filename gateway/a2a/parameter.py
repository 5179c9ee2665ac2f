"""The parameters of an operation, in either envelope: `params` of JSON-RPC or the body of HTTP+JSON.

A sender may put the tenant in several places of them: beside the message, and into the push configuration that it
sends along (protocol §2.1), for which every generation has another name. Names are read in both spellings of ProtoJSON,
because parsers accept either.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.fault import BadParams
from gateway.a2a.json import Members, Tree
from gateway.a2a.operation import Operation

Way: TypeAlias = tuple[tuple[str, Members], ...]
"""The path to an object: each name from the parameters down, with the members of the object under it."""


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of one call, opened as far as anything in them decides.

    Attributes:
        members: The members of the whole.
        message: The members of the message that is sent; empty for other operations.
        tenants: The value of each place for a tenant that is there, the outer one first; None for empty or null.
        inner: The ways to the objects with the inner ones of these places.
        envelope: The members of the request that has them as its `params`; None where they are the whole body.
        pushes: The ways to the objects that hold a push configuration, or are one; but the parameters themselves.
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
        return not self.tenants if tenant is None else all(told == tenant for told in self.tenants)


NOTHING = Parameters({}, {}, ())
"""The parameters of a call that has none."""


def read(operation: Operation, members: Members, envelope: Members | None = None) -> Parameters:
    """Open the parameters of an operation.

    Raises:
        BadParams: a member is of a wrong shape, or stands in both of its spellings.
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


def given(params: Parameters, *, typed: bool) -> Tree:
    """Return the members of a body, without any place for a tenant.

    Args:
        typed: Whether their values are trees. If not, they are `msgspec.Raw`, but for those with a tenant inside.

    Raises:
        ParseFailed: a value cannot be read.
    """
    if not typed and not params.inner:
        return {name: raw for name, raw in params.members.items() if name != "tenant"}
    opened = {way[0][0] for way in params.inner}
    found: Tree = {
        name: strict_json.read(raw) if typed or name in opened else raw
        for name, raw in params.members.items()
        if name != "tenant"
    }
    for way in params.inner:
        inside = found
        for name, _ in way:
            inside = inside[name]
        inside.pop("tenant", None)
    return found


def refuse_strays(operation: Operation, params: Parameters) -> None:
    """Refuse a push configuration in a place where no generation has one, but an agent might look.

    Such places are the envelope beside the parameters, and the parameters of operations that neither send nor create.

    Raises:
        BadParams: there is one, or what may hold one is no object.
        DuplicateKey: as `strict_json.open_object`.
    """
    if params.envelope is not None and not _IN_SEND.isdisjoint(params.envelope):
        raise BadParams("a push configuration must stand in params")
    if operation.sends or operation is Operation.CREATE_PUSH_CONFIG:
        return
    found: list[Way] = []
    _look(params.members, _IN_SEND, (), found)
    if found:
        raise BadParams(f"{found[0][-1][0]} has no place in this operation", field=found[0][-1][0])


def reread(operation: Operation, body: bytes, *, envelope: bool) -> Parameters:
    """Read the parameters in a body that was read before, or that the gateway has written itself.

    Args:
        envelope: Whether they are the `params` of a JSON-RPC request; otherwise they are the whole body.

    Raises:
        BadParams, DuplicateKey: as `read`.
    """
    members = strict_json.open_object(msgspec.Raw(body), "the body") if body else {}
    if not envelope:
        return read(operation, members)
    raw = members.get("params", _NULL)
    return read(operation, {} if raw == _NULL else strict_json.open_object(raw, "params"), members)


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


def text(members: Members, *names: str) -> str | None:
    """Return a string that may stand under any of several names.

    Raises:
        BadParams: it is no string, or two of the names say two things.
    """
    there = [name for name in names if name in members]
    if len(there) <= 1:
        return strict_json.text(members, there[0]) if there else None
    return agreed(names[0], *[strict_json.text(members, name) for name in there])


def ids(message: Members) -> tuple[str | None, str | None]:
    """Return the task and the context that a message names."""
    if _IDS.isdisjoint(message):
        return None, None
    return text(message, "taskId", "task_id"), text(message, "contextId", "context_id")


def agreed(name: str, *places: str | None) -> str | None:
    """Return the one value of all places that have one.

    Raises:
        BadParams: two of them say two things.
    """
    found: str | None = None
    for place in places:
        if place is None or place == found:
            continue
        if found is not None:
            raise BadParams(f"two places of the request name a different {name}")
        found = place
    return found


def is_of(name: str, task: str | None, config: str | None = None) -> bool:
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


def _look(members: Members, names: frozenset[str], way: Way, found: list[Way]) -> None:
    """Find push configurations below the members that may hold one."""
    if names.isdisjoint(members):
        return
    for name in [name for name in members if name in names]:
        inside = _opened(members, name, *_TWINS.get(name, ()))
        if inside is None:
            continue
        here = (*way, (name, inside))
        if name != "configuration":
            found.append(here)
        _look(inside, names, here, found)


def _opened(members: Members, *names: str) -> Members | None:
    """Return the object under the one of the names that is there, or None where there is none or a null."""
    found = None
    for name in names:
        if name in members:
            if found is not None:
                raise BadParams(f"{found} and {name} are two names of one thing")
            found = name
    if found is None or (raw := members[found]) == _NULL:
        return None
    return strict_json.open_object(raw, found)


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
_IDS = frozenset({"taskId", "task_id", "contextId", "context_id"})
_NULL = msgspec.Raw(b"null")
