"""What the parameters of an operation say, in whichever envelope: `params` of JSON-RPC or the body of HTTP+JSON.

A sender may put the tenant in several places of them: beside the message, and into the push configuration that it
sends along (protocol §2.1), which every generation calls otherwise. Names are read in both spellings of ProtoJSON, for
a parser takes either.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from gateway.a2a import document
from gateway.a2a.document import Members
from gateway.a2a.fault import BadParams
from gateway.a2a.layout import Edit, cut, edited, insert, locate
from gateway.a2a.operation import Operation

Way: TypeAlias = tuple[tuple[str, Members], ...]


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of one call, opened as far as anything in them decides.

    Attributes:
        members: The members of the whole.
        message: Those of the message that is sent; empty for other operations.
        tenants: What each place for a tenant holds, the outer one first; None for one that is empty or null. A place
            that is absent is left out.
        inner: Where the inner ones of these places are: the names that lead to each, from the parameters down, and the
            members of the object under each name.
        envelope: The members of the request that has them as its `params`; None where they are the whole body.
        pushes: Where the objects are that hold a push configuration, or are one, as `inner`; but the parameters.
    """

    members: Members
    message: Members
    tenants: tuple[str | None, ...]
    inner: tuple[Way, ...] = ()
    envelope: Members | None = None
    pushes: tuple[Way, ...] = ()

    @property
    def tenant(self) -> str | None:
        """The tenant that they name.

        Raises:
            BadParams: two places name two.
        """
        return agreed("tenant", *self.tenants)

    def says(self, tenant: str | None) -> bool:
        """Whether every place for a tenant holds this one; for None, whether there is no place at all."""
        return not self.tenants if tenant is None else all(told == tenant for told in self.tenants)


NOTHING = Parameters({}, {}, ())
"""Those of a call that has none."""


def read(operation: Operation, members: Members, envelope: Members | None = None) -> Parameters:
    """Open the parameters of an operation.

    Raises:
        BadParams: a member is of a wrong shape, or stands in both of its spellings.
        DuplicateKey: as `document.open_body`.
    """
    message: Members = {}
    tenants = [document.text(members, "tenant")] if "tenant" in members else []
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
    tenants += [document.text(way[-1][1], "tenant") for way in inner]
    return Parameters(members, message, tuple(tenants), inner, envelope, tuple(pushes))


def refuse_strays(operation: Operation, params: Parameters) -> None:
    """Refuse a push configuration where no generation has one: an agent that looks there all the same must find none.

    Such places are the envelope, beside the parameters, and the parameters of operations that neither send nor create.

    Raises:
        BadParams: there is one, or what may hold one is no object.
        DuplicateKey: as `document.open_object`.
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
    """The parameters in a body that was read before, or that the gateway has written itself.

    Args:
        envelope: Whether they are the `params` of a JSON-RPC request; else they are the whole body.

    Raises:
        BadParams, DuplicateKey: as `read`.
    """
    members = document.open_object(msgspec.Raw(body), "the body") if body else {}
    if not envelope:
        return read(operation, members)
    raw = members.get("params", _NULL)
    return read(operation, {} if raw == _NULL else document.open_object(raw, "params"), members)


def with_tenant(params: Parameters, body: bytes, tenant: str | None) -> bytes:
    """The body with another tenant, or none, in every place that had one; all other bytes stay as they are.

    The outer place is made where there was none. What is not read for an operation is not changed either.

    Args:
        body: What the parameters were read from.
    """
    written = b"" if tenant is None else msgspec.json.encode(tenant)
    if params.envelope is not None and params.envelope.get("params", _NULL) == _NULL:
        return body if tenant is None else _with_params(params.envelope, body, b'{"tenant":' + written + b"}")
    span = _span(params, body)
    edits: list[Edit] = []
    if "tenant" in params.members:
        edits.append(_edit(body, span, params.members, written))
    elif tenant is not None:
        edits.append(insert(body, span[0], b'"tenant":' + written, alone=not params.members))
    edits += [_edit(body, _inside(body, span, params.members, way), way[-1][1], written) for way in params.inner]
    return edited(body, edits)


def with_texts(params: Parameters, body: bytes, places: Iterable[tuple[Way, str]], text: str) -> bytes:
    """The body with another string under some names; all other bytes stay as they are.

    Args:
        body: What the parameters were read from.
        places: The way to the object, from the parameters down, and the member of it, which is there.
    """
    written, span = msgspec.json.encode(text), _span(params, body)
    edits: list[Edit] = []
    for way, name in places:
        members = way[-1][1] if way else params.members
        place = locate(body, _inside(body, span, params.members, way), members, name)
        edits.append((place.value, place.end, written))
    return edited(body, edits)


def way_to_message(params: Parameters) -> Way:
    """Where the message is that is sent."""
    return (("message" if "message" in params.members else "request", params.message),)


def text(members: Members, *names: str) -> str | None:
    """A string that may stand under any of several names.

    Raises:
        BadParams: it is no string, or two of the names say two things.
    """
    there = [name for name in names if name in members]
    if len(there) <= 1:
        return document.text(members, there[0]) if there else None
    return agreed(names[0], *[document.text(members, name) for name in there])


def ids(message: Members) -> tuple[str | None, str | None]:
    """The task and the context that a message names."""
    return text(message, "taskId", "task_id"), text(message, "contextId", "context_id")


def agreed(name: str, *places: str | None) -> str | None:
    """What all places say that say anything.

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
    """Whether a resource name of 0.3 (`tasks/T/pushNotificationConfigs/C`) is that of a task, or of what is below it.

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


def _span(params: Parameters, body: bytes) -> tuple[int, int]:
    """Where the parameters start and end in the body."""
    if params.envelope is None:
        return 0, len(body)
    place = locate(body, (0, len(body)), params.envelope, "params")
    return place.value, place.end


def _inside(body: bytes, span: tuple[int, int], members: Members, way: Way) -> tuple[int, int]:
    """Where the object at the end of a way starts and ends."""
    for name, below in way:
        place = locate(body, span, members, name)
        span, members = (place.value, place.end), below
    return span


def _look(members: Members, names: frozenset[str], way: Way, found: list[Way]) -> None:
    """Find push configurations, below the members that may hold one."""
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
    """The object under the one of the names that is there, or None where there is none or a null."""
    found = None
    for name in names:
        if name in members:
            if found is not None:
                raise BadParams(f"{found} and {name} are two names of one thing")
            found = name
    if found is None or (raw := members[found]) == _NULL:
        return None
    return document.open_object(raw, found)


def _edit(body: bytes, span: tuple[int, int], members: Members, written: bytes) -> Edit:
    place = locate(body, span, members, "tenant")
    return (place.value, place.end, written) if written else cut(body, place)


def _with_params(envelope: Members, body: bytes, params: bytes) -> bytes:
    if "params" not in envelope:
        return edited(body, [insert(body, 0, b'"params":' + params, alone=not envelope)])
    place = locate(body, (0, len(body)), envelope, "params")
    return edited(body, [(place.value, place.end, params)])


_SPELLINGS = (
    ("taskPushNotificationConfig", "task_push_notification_config"),
    ("pushNotificationConfig", "push_notification_config"),
    ("pushNotification", "push_notification"),
)
"""What the generations call a push configuration that is brought along."""
_TWINS = {name: tuple(set(names) - {name}) for names in _SPELLINGS for name in names}
_IN_SEND = frozenset({"configuration", *_TWINS})
# 0.3 over HTTP+JSON and the candidates of 1.0 wrap what is created.
_IN_PUSH = frozenset({"config", *_IN_SEND})
_NULL = msgspec.Raw(b"null")
