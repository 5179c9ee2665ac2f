"""How the tasks of one backend are kept apart: its scope in the ledger, who owns what there, and the marks of callers.

It is made with a configuration and replaced with it, and knows nothing of calls: `claims.py` asks it about those.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.a2a.fault import NotAdmitted
from gateway.a2a.progress import Progress
from gateway.a2a.within import Others
from gateway.mark import NO_MARK, Mark
from gateway.principal import Principal
from gateway.tasks.homes import Homes
from gateway.tasks.ledger import Ledger
from gateway.tasks.seal import Seal
from gateway.tasks.store import LONGEST_ID, Met, Owner, Sighting

_MOST_CALLERS = 10_000
_BEGINNING = 64


class Caller(msgspec.Struct, frozen=True):
    """One of those who call a backend.

    Attributes:
        seal: What its mark was made with.
        mark: What stands before its words there; without text where they stay as they are, or it is not known yet.
    """

    owner: Owner
    seal: Seal | None
    mark: Mark = NO_MARK


@dataclass(frozen=True, slots=True)
class Tenure:
    """How a backend's tasks are kept apart.

    Attributes:
        scope: The key of the backend.
        by_principal: Whether callers of one tenant are told apart.
        adopts: Whether a task that nobody owns becomes that caller's who is first answered about it.
        shared: Whether several owners reach the backend.
        keeps: Whether owners are kept at all; where they are not, only webhooks have one.
        most_open: How many tasks of a tenant may be open at a time; under `*` those of a tenant that is not named.
        homes: Which of its replicas made what; None where that is of no matter.
    """

    ledger: Ledger
    scope: str
    by_principal: bool = False
    adopts: bool = False
    shared: bool = True
    keeps: bool = True
    most_open: Mapping[str, int | None] = field(default_factory=dict)
    homes: Homes | None = None
    # By tenant, issuer and subject: most calls are made by somebody who has called before.
    _callers: dict[tuple[str, str, str], Caller] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def filters(self) -> bool:
        """Whether a list of tasks has to be gone through: not where all that the agent has is one owner's anyway."""
        return self.keeps and (self.shared or not self.adopts)

    async def notified(self, owner: Owner, told: Progress) -> bool:
        """Write down what a notification to an owner's webhook names; whether all of that is the owner's."""
        if not self.keeps:
            return True
        context = kept(told.context_id or "")
        seal = await self.ledger.seal()
        mark = self.ledger.mark(seal, self.scope, owner, by_principal=self.by_principal)
        sighting = Sighting(
            owner, told.task_id or "", context, told.state or "",
            now=self.ledger.now(), apart=self.by_principal, marked=context.startswith(mark),
        )  # fmt: skip
        if told.others is not None and (await self.names_others(owner, told.others, mark)):
            return False
        met: Met = await self.ledger.store.meet(self.scope, sighting)
        return met.task is not None and not sighting.is_foreign(met.task, met.context)

    async def names_others(self, owner: Owner, named: Others, mark: str) -> bool:
        """Whether something of what the messages in a frame name is known to be another's than an owner's.

        What nobody has met is passed, as agents give messages ids of other sorts, too; so much that nobody can look at
        it is not.

        Args:
            mark: The owner's, with which its own contexts begin.
        """
        if named.crowded:
            return True
        scope, store = self.scope, self.ledger.store
        if named.tasks:
            found = await store.tasks(scope, named.tasks)
            if any(task is not None and not self.owned(task.owner, owner) for task in found):
                return True
        for context in named.contexts:
            holder: Owner | None = await store.context(scope, kept(context))
            if holder is not None and not self.owned(holder, owner) and not (mark and context.startswith(mark)):
                return True
        return False

    def owned(self, owner: Owner, by: Owner) -> bool:
        """Whether what is one's is another's, too."""
        return owner.tenant == by.tenant and (owner.principal == by.principal or not self.by_principal)

    def caller(self, principal: Principal) -> Caller:
        """Who a principal is to the backend.

        Raises:
            NotAdmitted: callers are told apart, and its token does not say which one it is.
        """
        key = (principal.tenant, principal.issuer, principal.who)
        caller = self._callers.get(key)
        if caller is None or caller.seal is not self.ledger.known_seal:
            caller = self._new_caller(key, principal)
        return caller

    def _new_caller(self, key: tuple[str, str, str], principal: Principal) -> Caller:
        tenant, issuer, subject = key
        if self.by_principal and principal.method == "jwt" and not subject:
            raise NotAdmitted("the token names no subject, and here tasks are a subject's own")
        owner, seal = Owner(tenant, f"{issuer}/{subject}"), self.ledger.known_seal
        mark = NO_MARK
        if self.keeps and seal is not None:
            mark = Mark.of(self.ledger.mark(seal, self.scope, owner, by_principal=self.by_principal))
        caller = Caller(owner, seal, mark)
        if len(self._callers) >= _MOST_CALLERS:
            self._callers.clear()
        self._callers[key] = caller
        return caller


def kept(context: str) -> str:
    """As what a context stands in the ledger: itself, or where it is too long for that, its beginning and its hash."""
    if len(context) <= LONGEST_ID:
        return context
    return f"{context[:_BEGINNING]}…{hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest()}"
