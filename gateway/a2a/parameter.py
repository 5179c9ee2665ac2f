"""What the parameters of an operation say, in whichever envelope: `params` of JSON-RPC or the body of HTTP+JSON.

A sender may put the tenant in two places of them: beside the message, and into the push configuration that it sends
along (protocol §2.1). Names are read in both spellings of ProtoJSON, for a parser takes either.
"""

from dataclasses import dataclass

import msgspec

from gateway.a2a import document
from gateway.a2a.document import Members
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Operation


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one call, opened as far as anything in them decides.

    Attributes:
        members: The members of the whole.
        message: Those of the message that is sent; empty for other operations.
        tenants: What each place for a tenant holds, the outer one first; None for one that is empty or null. A place
            that is absent is left out.
    """

    members: Members
    message: Members
    tenants: tuple[str | None, ...]

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


def read(operation: Operation, members: Members) -> Parameters:
    """Open the parameters of an operation.

    Raises:
        BadParams: a member is of a wrong shape, or stands in both of its spellings.
        DuplicateKey: as `document.open_body`.
    """
    message: Members = {}
    tenants = [document.text(members, "tenant")] if "tenant" in members else []
    if operation.sends:
        # 0.3 calls the message `request` in its protobuf definition, and its servers take both names.
        message = _opened(members, "message", "request") or {}
        configuration = _opened(members, "configuration") or {}
        push = _opened(configuration, *_PUSH)
        if push is not None and "tenant" in push:
            tenants.append(document.text(push, "tenant"))
    return Parameters(members, message, tuple(tenants))


def with_tenant(operation: Operation, members: Members, tenant: str | None) -> bytes:
    """Parameters with another tenant, or none, in every place that had one; other values keep their bytes.

    The outer place is made where there was none. What is not read for an operation is not changed either.

    Raises:
        BadParams, DuplicateKey: as `read`.
    """
    changed = _changed(members, tenant)
    configuration = (_opened(members, "configuration") or {}) if operation.sends else {}
    push = _opened(configuration, *_PUSH)
    if push is not None and "tenant" in push:
        name = next(name for name in _PUSH if name in configuration)
        inner = {**configuration, name: msgspec.Raw(document.write(_changed(push, tenant)))}
        changed["configuration"] = msgspec.Raw(document.write(inner))
    return document.write(changed)


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


_PUSH = ("taskPushNotificationConfig", "task_push_notification_config")


def _opened(members: Members, *names: str) -> Members | None:
    """The object under the one of the names that is there, or None where there is none or a null."""
    there = [name for name in names if name in members]
    if len(there) > 1:
        raise BadParams(f"{there[0]} and {there[1]} are two names of one thing")
    if not there or bytes(members[there[0]]) == b"null":
        return None
    return document.open_object(members[there[0]], there[0])


def _changed(members: Members, tenant: str | None) -> dict[str, msgspec.Raw | str]:
    kept = {name: value for name, value in members.items() if name != "tenant"}
    return dict(kept) if tenant is None else {"tenant": tenant, **kept}
