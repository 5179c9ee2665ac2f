"""Whose something is, asked of the ledger for the caller of one exchange; asking lets nothing through (`claims.py`)."""

from collections.abc import Iterable, Sequence

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.mention import Mentions
from gateway.a2a.progress import Progress
from gateway.a2a.within import Others, of_details
from gateway.claims import Claims
from gateway.tasks.store import OPEN, Owner, Sighting, Task
from gateway.tenure import kept


async def own(claims: Claims, tasks: Sequence[tuple[str, str, str]]) -> list[bool]:
    """Which of some tasks are the caller's; those that are over by now count no longer among the open ones.

    One that is said to stand in another's context is none: nobody knows which of the two it is.

    Args:
        tasks: The id of each, its context, and its state, of `STATES`; empty where that is not known.
    """
    scope, store = claims.tenure.scope, claims.tenure.ledger.store
    found: list[Task | None] = await store.tasks(scope, [task for task, _, _ in tasks])
    owned = [task is not None and claims.owns(task.owner) for task in found]
    for number, ((_, told, _), known) in enumerate(zip(tasks, found, strict=True)):
        context = kept(told)
        if owned[number] and known is not None and context and context != known.context:
            owner: Owner | None = await store.context(scope, context)
            owned[number] = not _is_foreign(claims, None, context, owner)
            claims.foreign = claims.foreign or not owned[number]
    for (id, _, state), known, is_own in zip(tasks, found, owned, strict=True):  # noqa: A001 - the word
        if is_own and known is not None and known.state in OPEN and state not in OPEN:
            await store.meet(scope, Sighting(claims.owner, id, "", state, now=claims.tenure.ledger.now()))
    return owned


async def count(claims: Claims) -> int:
    """How many tasks of the caller are known; of the one context that the call names, if it does."""
    owner = claims.owner if claims.tenure.by_principal else Owner(claims.owner.tenant)
    return await claims.tenure.ledger.store.count(claims.tenure.scope, owner, claims.asked)


async def is_others(claims: Claims, told: Progress) -> bool:
    """Whether an error of the agent's tells of what is known to be another's; nothing is written down.

    What nobody has met is passed: agents give errors ids of other sorts, too.
    """
    if not claims.tenure.keeps:
        return False
    if not told.legible and (told.task_id is not None or told.event == "other"):
        # Several tasks: an `id` alone that is no text is not read, either, and need be none of a task.
        claims.foreign = True
        return True
    if told.others is not None and (await claims.names_others(told.others)):
        return True
    scope, store, context = claims.tenure.scope, claims.tenure.ledger.store, kept(told.context_id or "")
    task: Task | None = None
    if told.task_id:
        (task,) = await store.tasks(scope, (told.task_id,))
    owner: Owner | None = (await store.context(scope, context)) if context else None
    claims.foreign = _is_foreign(claims, None if task is None else task.owner, context, owner)
    return claims.foreign


async def tells_of_others(claims: Claims, named: Others) -> bool:
    """Whether something of what messages, or the details of an error, name is known to be another's."""
    return claims.tenure.keeps and await claims.names_others(named)


async def refuse_others(claims: Claims, details: Iterable[object]) -> None:
    """Refuse an error over gRPC whose details name what is known to be another's.

    Raises:
        UpstreamProtocol: they do.
        StateUnavailable: nobody knows.
    """
    named = of_details(details)
    if named is not None and await tells_of_others(claims, named):
        raise UpstreamProtocol("the agent's answer is not this caller's", detail="its error tells of another's")


async def has_begun(claims: Claims, context: str) -> bool:
    """Whether a context that is known by the caller's word is the caller's."""
    if not claims.tenure.keeps:
        return True
    mark = await claims.marked()
    for spelled in (mark + context, context):
        owner: Owner | None = await claims.tenure.ledger.store.context(claims.tenure.scope, spelled)
        if owner is not None and claims.owns(owner):
            return True
    return False


async def home_of(claims: Claims, named: Mentions) -> tuple[str, bool]:
    """Which replica a call belongs to, and whether that is by a task; empty for none that is known.

    Args:
        named: What it names. Whose that is is asked later; nobody is told of it here.

    Raises:
        StateUnavailable: nobody knows.
    """
    homes = claims.tenure.homes
    if homes is None or not (named.tasks or named.context):
        return "", False
    mark = await claims.marked()
    about = tuple(each for each in named.tasks if each not in named.references)
    found: tuple[str, bool] = await homes.of(about, named.context, mark)
    if found[0] or not named.references:
        return found
    # What it only refers to it is not about: it is best asked there, and may be asked anywhere.
    best, _ = await homes.of(named.references, None, mark)
    return best, False


def _is_foreign(claims: Claims, task: Owner | None, context: str, owner: Owner | None) -> bool:
    """Whether a task, or a context, is another's.

    Args:
        owner: Whose the context is.
    """
    mark = claims.mark.text
    marked = bool(mark) and context.startswith(mark)
    return Sighting(claims.owner, context=context, apart=claims.tenure.by_principal, marked=marked).is_foreign(
        task, owner
    )
