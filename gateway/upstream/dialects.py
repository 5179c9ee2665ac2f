"""The dialects that an agent supports, and the interface that a call goes to."""

from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.grpc_method import SCOPED_0_3
from gateway.a2a.call import Call
from gateway.a2a.card import CardInterface, dial_path
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, Fault, MethodNotAllowed, VersionUnsupported
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.paths import fits_path
from gateway.a2a.translation import can_ask, is_spoken


class Interface(msgspec.Struct, frozen=True):
    """The interface of an agent for one dialect.

    Attributes:
        path: Its path on the backend's origin; unused over gRPC.
        tenants: The tenants that the agent's card declares for it.
        service: The gRPC service that replaces that of the version, or None.
    """

    dialect: Dialect
    path: str
    tenants: tuple[str, ...] = ()
    service: str | None = None


class Reading(Protocol):
    """The part of a card source that has the dialects."""

    @property
    def version(self) -> int:
        """Return a number that grows with every change of the card."""

    @property
    def spoken(self) -> tuple[CardInterface, ...]:
        """Return the interfaces of the card, in its order; empty before it was read."""


class Dialects:
    """The supported dialects of one backend.

    Args:
        url: The URL in the configuration.
        relayed: The bindings of its connections; other interfaces of the card are at other addresses.
        tenant: As `Treatment.tenant`.
        binding: The configured binding, or None for those of the card.
        version: The configured version, or None for those of the card.
        public_url: The gateway's own URL, which an agent may advertise in its card.
    """

    def __init__(
        self,
        *,
        url: str,
        cards: Reading,
        relayed: tuple[Binding, ...],
        tenant: str | None = None,
        binding: Binding | None = None,
        version: Version | None = None,
        public_url: str | None = None,
    ) -> None:
        self._url = url
        self._cards = cards
        self._relayed = relayed
        self._tenant = tenant
        self._binding = binding
        self._version = version
        self._public_url = public_url
        self._path = urlsplit(url).path or "/"
        self._read: tuple[int, dict[Dialect, Interface]] | None = None

    def interfaces(self) -> dict[Dialect, Interface]:
        """Return the interfaces in the order of the card; empty before the card was read, unless configured."""
        version = self._cards.version
        if self._read is None or self._read[0] != version:
            self._read = (version, self._interfaces())
        return self._read[1]

    def interface(self, call: Call, meant: tuple[Dialect, ...]) -> Interface:
        """Return the interface for a call: of its own dialect, else of one that it can be translated to.

        Args:
            meant: The dialects that the call may be meant in (`spellings`).

        Raises:
            VersionUnsupported: the agent supports no dialect that is known here.
            MethodNotAllowed: the agent's version has no such operation.
            MethodNotAllowed, BadParams: every interface has an obstacle for this call.
        """
        spoken = self.interfaces()
        found = self._interface(call, meant, spoken)
        if found.dialect.binding is Binding.JSONRPC:
            return found
        fault = self._obstacle(call, found)
        if fault is None:
            return found
        others = {dialect: each for dialect, each in spoken.items() if self._obstacle(call, each) is None}
        if not others:
            raise fault
        return self._interface(call, meant, others)

    def _interface(self, call: Call, meant: tuple[Dialect, ...], spoken: dict[Dialect, Interface]) -> Interface:
        for dialect in meant:
            found = spoken.get(dialect)
            if found is not None:
                return found
            unread = not spoken and self._untold()
            if unread and dialect.binding in self._relayed and not self._overruled(dialect):
                # Before the card was read the client's own dialect is assumed at the backend's URL.
                return Interface(dialect, self._path)
        if not is_spoken(meant[0]) or (not spoken and not self._untold()):
            # The card names no dialect that is known here.
            raise self._unspoken(call.dialect, spoken)
        if not spoken:
            assumed = self._assumed(meant[0])
            spoken = {assumed: Interface(assumed, self._path)}
        askable = [found for dialect, found in spoken.items() if can_ask(call.operation, dialect)]
        if askable:
            return min(askable, key=lambda found: _distance(meant[0], found.dialect))
        if any(is_spoken(dialect) for dialect in spoken):
            generations = " and ".join(sorted({str(dialect.version) for dialect in spoken}))
            raise MethodNotAllowed(f"this agent speaks A2A {generations}, which has no {call.operation}")
        raise self._unspoken(call.dialect, spoken)

    def tenant(self, call: Call, interface: Interface) -> str | None:
        """Return the A2A `tenant` field that the agent gets."""
        tenant = None if call.addressed else call.tenant
        match self._tenant:
            case None:
                # A tenant that only the gateway needed is stripped; one that the agent's card declares is the agent's.
                if not interface.tenants or tenant in interface.tenants:
                    return tenant if interface.tenants else None
                return interface.tenants[0]
            case "strip":
                return None
            case "keep":
                return tenant
            case value:
                return value

    def _obstacle(self, call: Call, interface: Interface) -> Fault | None:
        """Return the reason for which a call cannot go to an interface, or None.

        Over HTTP+JSON the tenant is a path segment, so it must be plain, or declared by the agent. Over gRPC 0.3 a card
        may name another service; only the scoped one is known, and it needs a scope.
        """
        tenant = self.tenant(call, interface)
        if interface.dialect.binding is Binding.REST:
            if tenant in interface.tenants or fits_path(tenant):
                return None
            if tenant == call.tenant:
                return BadParams(_UNSAYABLE)
            return MethodNotAllowed("this agent is asked over HTTP+JSON, where no path can say its tenant")
        if interface.service is None or (interface.service == SCOPED_0_3 and tenant is not None):
            return None
        if interface.service != SCOPED_0_3:
            detail = f"transportOptions of its card: {interface.service!r}"
            return MethodNotAllowed("this agent's card asks for a gRPC service that is not known here", detail=detail)
        if self._tenant == "keep":
            return BadParams("this agent is called with a scope over gRPC: name it as the tenant")
        return MethodNotAllowed("this agent's card asks for a scope over gRPC, and the gateway has none to tell")

    def restores_tenant(self, call: Call, interface: Interface) -> bool:
        """Return whether the agent gets another `tenant` than the client wrote, so that its echo must be replaced."""
        return self.tenant(call, interface) != call.tenant

    def _interfaces(self) -> dict[Dialect, Interface]:
        found: dict[Dialect, Interface] = {}
        for spoken in self._cards.spoken:
            dialect = spoken.dialect
            if dialect.binding not in self._relayed or self._overruled(dialect):
                continue
            written = self._binding is not None
            path = self._path if written else dial_path(spoken.url, self._url, self._public_url)
            before = found.get(dialect)
            tenants = () if spoken.tenant is None or _climbs(spoken.tenant, dialect) else (spoken.tenant,)
            if before is None:
                found[dialect] = Interface(dialect, path, tenants, spoken.service)
            elif before.path == path:
                found[dialect] = replace(before, tenants=(*before.tenants, *tenants))
        if self._binding is not None and self._version is not None:
            dialect = Dialect(self._binding, self._version)
            found.setdefault(dialect, Interface(dialect, self._path))
        return found

    def _untold(self) -> bool:
        """Return whether the dialect has to be assumed."""
        # A server at a gRPC address speaks gRPC, even if its card does not say so.
        return self._relayed == GRPC or not self._cards.spoken

    def _assumed(self, wanted: Dialect) -> Dialect:
        """Return the assumed dialect: as configured, else that of the client as far as the address allows it."""
        version = wanted.version
        if self._relayed == GRPC and wanted.binding is not Binding.GRPC:
            # 0.1 has no gRPC.
            version = Version.V1_0
        binding = wanted.binding if wanted.binding in self._relayed else self._relayed[0]
        return Dialect(self._binding or binding, self._version or version)

    def _overruled(self, dialect: Dialect) -> bool:
        return self._binding not in (None, dialect.binding) or self._version not in (None, dialect.version)

    def _unspoken(self, wanted: Dialect, spoken: dict[Dialect, Interface]) -> Fault:
        words = ", ".join(f"A2A {dialect.version} over {dialect.binding}" for dialect in spoken) or "another dialect"
        message = f"this agent speaks {words}, not A2A {wanted.version} over {wanted.binding}"
        bindings = {dialect.binding for dialect in spoken} or {self._binding or wanted.binding}
        if wanted.binding in bindings:
            return VersionUnsupported(message)
        return MethodNotAllowed(message)


def _climbs(tenant: str, dialect: Dialect) -> bool:
    """Return whether a tenant of a card has `.` or `..` as a path segment."""
    segments = tenant.replace("\\", "/").split("/") if dialect.binding is Binding.REST else [tenant]
    return not {".", ".."}.isdisjoint(segments)


_UNSAYABLE = "this agent is asked over HTTP+JSON, where a tenant has 1 to 64 characters of A-Z a-z 0-9 . _ -"

HTTP = (Binding.JSONRPC, Binding.REST)
GRPC = (Binding.GRPC,)
"""The bindings of either kind of address."""


def spellings(call: Call, alias: Alias | None = None) -> tuple[Dialect, ...]:
    """Return the dialects that a call may have, the likeliest first: two versions share some method names.

    Args:
        alias: The alias of its task, if known: the call that made it shows the version.
    """
    dialect = call.dialect
    if call.path.legacy_card:
        return (_JSONRPC_0_3,)
    if dialect.binding is not Binding.JSONRPC or dialect.version is Version.V1_0:
        return (dialect,)
    if alias is not None and alias.mixed and not call.versioned and call.operation in _ABOUT_TASKS:
        return (_JSONRPC_1_0,)
    if call.method in jsonrpc.SHARED_WITH_0_1 or call.method in jsonrpc.SHARED_WITH_0_3:
        if alias is not None:
            return (_JSONRPC_0_3 if alias.newer else _JSONRPC_0_1,)
        if call.method in jsonrpc.SHARED_WITH_0_1:
            return dialect, _JSONRPC_0_1
        # Later objects under a method name of 0.1: some agents answer to it.
        newer = not _LATER.isdisjoint(call.params.members)
        return (_JSONRPC_0_3 if newer else _JSONRPC_0_1,)
    return (dialect,)


_ABOUT_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK, Operation.LIST_TASKS})
"""Operations whose parameters are the same in 0.3 and in 1.0."""
_JSONRPC_1_0 = Dialect(Binding.JSONRPC, Version.V1_0)
_JSONRPC_0_1 = Dialect(Binding.JSONRPC, Version.V0_1)
_JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
_LATER = frozenset({"taskId", "task_id", "pushNotificationConfigId"})
"""Parameters of push configurations since 0.2."""


def _distance(ours: Dialect, theirs: Dialect) -> tuple[int, bool]:
    """Return how much a translation loses: least where only the binding differs."""
    if theirs.version is ours.version:
        return 0, theirs.binding is not ours.binding
    return 1 + _GENERATIONS.index(theirs.version), theirs.binding is not ours.binding


_GENERATIONS = (Version.V1_0, Version.V0_3, Version.V0_1)
