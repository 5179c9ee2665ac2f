"""Keys of notifications that take the place of others before their term is over: `a2a-gateway state rotate-key`.

Each is a note in the store, beside the keys of the terms (`signing.py`), so that every gateway of the store comes to
the same, whenever it starts. Of one term there is a *chain* of keys: the term's own, and those that came later.

    announced    it is in the key set, and the one before signs still: every gateway has looked by the time it signs
    signs
    lingers      the one behind it signs; it is in the key set for as long as anything that it signed may be on its way

One that *drops* signs as soon as it is read, and all that were there before it sign nothing more and are in no key set:
for a key that has leaked, and with it, maybe, all that the store held. What was signed by them is worth nothing then.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from gateway.tasks.store import Note, Store

LEAD: Final = 60.0
"""Seconds from when a key is announced until it signs."""
LINGER: Final = 900.0
"""Seconds for which the one before it is in the key set then: a signature is good for a third of that."""
MOST: Final = 1000
"""Keys of all terms that are looked at."""

_GROUP: Final = "push-signing"


class Rotation(msgspec.Struct, frozen=True):
    """One key that takes the place of those before it.

    Attributes:
        term: The number of the term in which it signs.
        made: In Unix seconds.
        at: When it begins to sign.
        key: As the store has keys, in Base64.
        drops: Whether those before it are worth nothing any more.
    """

    term: int
    made: float
    at: float
    key: str
    drops: bool = False

    @property
    def written(self) -> bytes:
        """The key as the store has those of the terms."""
        return b64decode(self.key)


def rotation(term: int, made: float, at: float, written: bytes, *, drops: bool) -> Rotation:
    """One that is to be kept."""
    return Rotation(term, made, at, b64encode(written).decode("ascii"), drops)


def note(one: Rotation, kind: str, until: int) -> Note:
    """As the store has it, in the order in which they were made."""
    key = f"{_GROUP}-{one.term}-{int(one.made * 1e6):020d}"
    return Note(kind, key, msgspec.json.encode(one), group=_GROUP, until=until)


async def rotations(store: Store, kind: str) -> list[Rotation]:
    """All that there are, oldest first; what cannot be read is left out.

    Raises:
        StateUnavailable: the store does not answer.
    """
    found = []
    for _, value in await store.group(kind, _GROUP, MOST):
        try:
            found.append(_decoder.decode(value))
        except msgspec.MsgspecError:
            continue
    return sorted(found, key=lambda one: one.made)


def chain(own: bytes, since: Sequence[Rotation], now: float) -> list[bytes]:
    """The keys of a term that are in the key set at a moment; the one that signs is the first.

    Args:
        own: The term's own.
        since: Those that came later in it, oldest first.
        now: Unix seconds.
    """
    # By when each begins; what was there before is not in it where one drops.
    keys: list[tuple[float, bytes]] = [(0.0, own)]
    for one in since:
        if one.drops:
            keys = [(0.0, one.written)]
        else:
            keys.append((one.at, one.written))
    signs = max(number for number, (at, _) in enumerate(keys) if at <= now)
    ended = pairwise(keys[: signs + 1])
    lingering = [key for (_, key), (end, _) in ended if end + LINGER > now]
    return [keys[signs][1], *(key for _, key in keys[signs + 1 :]), *lingering]


_decoder = msgspec.json.Decoder(Rotation)
