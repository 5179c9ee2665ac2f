"""A configuration that nobody uses any more is taken apart, piece by piece.

Who lets go of the last reference to something waits until all of it is gone, and so does everybody else, for Python
does not stop in the middle: with a thousand agents that takes 5 to 40 ms. Here it is an agent, or a line of the file,
at a time, in a thread that others take turns with.
"""

from gateway.config.check import Examined
from gateway.pacing import give_way
from gateway.snapshot import Snapshot


def dismantle(last: list[Snapshot]) -> None:
    """Let go of a snapshot whose calls are over; in a thread.

    Args:
        last: Holds it, and nothing does afterwards: whoever calls has no other reference.
    """
    if not last:
        return
    snapshot = last.pop()
    pieces: list[object] = [*snapshot.backings.values(), *snapshot.places.values()]
    table = snapshot.table
    pieces += (*table.agents.values(), *table.reach.values(), *table.endpoints())
    for backing in snapshot.backings.values():
        if backing.group is not None:
            # They refer to each other, and what was kept (`collector`) nobody would find.
            backing.group.members.clear()
            backing.group.names.clear()
    pieces += _of(snapshot.examined)
    del snapshot, table
    _drop(pieces)


def dismantle_file(last: list[Examined]) -> None:
    """Likewise what was read."""
    pieces = _of(last.pop())
    _drop(pieces)


def _of(examined: Examined) -> list[object]:
    """What there is more of the longer a file is."""
    marks, config = examined.marks, examined.config
    pieces: list[object] = [*examined.stamps, *examined.stamps.values()]
    for places in (marks.keys, marks.values, marks.written):
        pieces += places.keys()
        pieces += places.values()
    if config is not None:
        pieces += config.agents.values()
        pieces += config.tenants.values()
        pieces += () if config.auth is None else config.auth.api_keys.values()
    return pieces


def _drop(pieces: list[object]) -> None:
    while pieces:
        # Between two of them others may go on.
        give_way()
        pieces.pop()
