"""What an agent speaks, and which of it a call goes to: the same for every way in which agents are reached."""

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
from gateway.a2a.tenant import fits_path
from gateway.a2a.translation import can_ask, is_spoken


class Interface(msgspec.Struct, frozen=True):
    """Where an agent speaks one dialect.

    Attributes:
        path: Path of the interface on the backend's origin, as the card or the file has it; of no use over gRPC.
        tenants: Tenants that the agent's own card declares for it.
        service: The service of gRPC that is called in place of the generation's own, or None.
    """

    dialect: Dialect
    path: str
    tenants: tuple[str, ...] = ()
    service: str | None = None


class Reading(Protocol):
    """What has been read of an agent's card so far."""

    @property
    def version(self) -> int:
        """Grows whenever the card changes."""

    @property
    def spoken(self) -> tuple[CardInterface, ...]:
        """The interfaces of the card, in its order; empty while it is unread."""


class Repertoire:
    """The dialects of one backend.

    Args:
        url: The backend's, as the file writes it.
        relayed: The bindings that can be spoken over its connections; the card's others are for other addresses.
        tenant: `strip`, `keep` or a value for the `tenant` field; None for what the agent's card asks for.
        binding: The binding that the file writes, or None for what the card says.
        version: The version that the file writes, or None.
        public_url: The gateway's own, which an agent may advertise in its card.
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
        """What the agent speaks, in the order of its card; empty while the card is unread and the file silent."""
        version = self._cards.version
        if self._read is None or self._read[0] != version:
            self._read = (version, self._interfaces())
        return self._read[1]

    def interface(self, call: Call, meant: tuple[Dialect, ...]) -> Interface:
        """Where the call goes: where its own dialect is spoken, else where one is that it can be translated to.

        Where an interface is in the way of this call (`_obstacle`), it goes to another one.

        Args:
            meant: The dialects that it may be meant in (`spellings`).

        Raises:
            VersionUnsupported: the agent speaks no dialect that is known here.
            MethodNotAllowed: what is asked for is no operation of the agent's generation.
            MethodNotAllowed, BadParams: what is in the way, where there is no other.
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
                # The card is unread: the client's own dialect is assumed at the backend's URL.
                return Interface(dialect, self._path)
        if not is_spoken(meant[0]) or (not spoken and not self._untold()):
            # The card is read, and names nothing that is spoken here.
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
        """What the agent is told in the A2A `tenant` field."""
        said = None if call.addressed else call.tenant
        match self._tenant:
            case None:
                # What only the gateway needed is stripped; a tenant that the agent's own card asks for is the agent's.
                if not interface.tenants or said in interface.tenants:
                    return said if interface.tenants else None
                return interface.tenants[0]
            case "strip":
                return None
            case "keep":
                return said
            case value:
                return value

    def _obstacle(self, call: Call, interface: Interface) -> Fault | None:
        """Why a call cannot go to an interface, or None.

        Over HTTP+JSON a path says the tenant: one that the agent asks for itself, or a plain segment. Over gRPC of 0.3
        a card may name another service, of which only the scoped one is known; and that takes no call without a scope.
        """
        told = self.tenant(call, interface)
        if interface.dialect.binding is Binding.REST:
            if told in interface.tenants or fits_path(told):
                return None
            if told == call.tenant:
                return BadParams(_UNSAYABLE)
            return MethodNotAllowed("this agent is asked over HTTP+JSON, where no path can say its tenant")
        if interface.service is None or (interface.service == SCOPED_0_3 and told is not None):
            return None
        if interface.service != SCOPED_0_3:
            detail = f"transportOptions of its card: {interface.service!r}"
            return MethodNotAllowed("this agent's card asks for a gRPC service that is not known here", detail=detail)
        if self._tenant == "keep":
            return BadParams("this agent is called with a scope over gRPC: name it as the tenant")
        return MethodNotAllowed("this agent's card asks for a scope over gRPC, and the gateway has none to tell")

    def restores_tenant(self, call: Call, interface: Interface) -> bool:
        """Whether the agent sees another `tenant` than the client wrote, which its echo must not show."""
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
        """Whether no card has told yet how the agent speaks here."""
        # What is behind a gRPC address speaks gRPC, also where its card forgets to say so.
        return self._relayed == GRPC or not self._cards.spoken

    def _assumed(self, wanted: Dialect) -> Dialect:
        """What the file leaves open is assumed to be as the client has it, where that can be spoken at the address."""
        version = wanted.version
        if self._relayed == GRPC and wanted.binding is not Binding.GRPC:
            # 0.1 and the others have no gRPC.
            version = Version.V1_0
        binding = wanted.binding if wanted.binding in self._relayed else self._relayed[0]
        return Dialect(self._binding or binding, self._version or version)

    def _overruled(self, dialect: Dialect) -> bool:
        return (self._binding is not None and dialect.binding is not self._binding) or (
            self._version is not None and dialect.version is not self._version
        )

    def _unspoken(self, wanted: Dialect, spoken: dict[Dialect, Interface]) -> Fault:
        words = ", ".join(f"A2A {dialect.version} over {dialect.binding}" for dialect in spoken) or "another dialect"
        message = f"this agent speaks {words}, not A2A {wanted.version} over {wanted.binding}"
        bindings = {dialect.binding for dialect in spoken} or {self._binding or wanted.binding}
        if wanted.binding in bindings:
            return VersionUnsupported(message)
        return MethodNotAllowed(message)


def _climbs(tenant: str, dialect: Dialect) -> bool:
    """Whether a tenant of an agent's own card would climb in a path, where HTTP+JSON has it."""
    segments = tenant.replace("\\", "/").split("/") if dialect.binding is Binding.REST else [tenant]
    return not {".", ".."}.isdisjoint(segments)


_UNSAYABLE = "this agent is asked over HTTP+JSON, where a tenant has 1 to 64 characters of A-Z a-z 0-9 . _ -"

HTTP = (Binding.JSONRPC, Binding.REST)
GRPC = (Binding.GRPC,)
"""What can be spoken at an address of either kind."""


def spellings(call: Call, alias: Alias | None = None) -> tuple[Dialect, ...]:
    """The dialects that a call may be meant in, the likeliest first: some method names belong to two generations.

    Args:
        alias: What is known of the task that it names: who called it so before tells which generation is meant.
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
        # Later objects under a name of 0.1 are meant for agents that answer to it all the same.
        newer = not _LATER.isdisjoint(call.params.members)
        return (_JSONRPC_0_3 if newer else _JSONRPC_0_1,)
    return (dialect,)


_ABOUT_TASKS = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK, Operation.LIST_TASKS})
"""Operations whose parameters are the same in 0.3 and in 1.0."""
_JSONRPC_1_0 = Dialect(Binding.JSONRPC, Version.V1_0)
_JSONRPC_0_1 = Dialect(Binding.JSONRPC, Version.V0_1)
_JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
_LATER = frozenset({"taskId", "task_id", "pushNotificationConfigId"})
"""What parameters of push configurations have since 0.2."""


def _distance(ours: Dialect, theirs: Dialect) -> tuple[int, bool]:
    """How much is lost on the way between two dialects: least where only the envelope differs."""
    if theirs.version is ours.version:
        return 0, theirs.binding is not ours.binding
    return 1 + _GENERATIONS.index(theirs.version), theirs.binding is not ours.binding


_GENERATIONS = (Version.V1_0, Version.V0_3, Version.V0_1)
