"""Remembers what became of a token, for as long as nothing can have changed it."""

from collections import OrderedDict
from dataclasses import dataclass

from gateway.a2a.fault import Fault
from gateway.identity.jwks import KeySet
from gateway.principal import Principal


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one token.

    Attributes:
        outcome: Whose token it is; or the kind of fault, its message and its detail.
        since: Wall-clock seconds of the judgement; a clock that was set back makes it void.
        until: Wall-clock seconds at which it is over.
        key_set: The keys it rests on, or None where the token was refused before they mattered.
        version: Of the key set at the time.
    """

    outcome: Principal | tuple[type[Fault], str, str]
    since: float
    until: float
    key_set: KeySet | None
    version: int

    def holds(self, now: float) -> bool:
        """Whether it still stands at `now`, in wall-clock seconds."""
        return self.since <= now < self.until and (self.key_set is None or self.key_set.version == self.version)


class Verdicts:
    """Verdicts by the SHA-256 of the token, `most` of them at most; the oldest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, digest: bytes, now: float) -> Verdict | None:
        """The verdict on the token with this digest, where one still stands."""
        verdict = self._verdicts.get(digest)
        if verdict is None or verdict.holds(now):
            return verdict
        del self._verdicts[digest]
        return None

    def put(self, digest: bytes, verdict: Verdict) -> None:
        """Remember a verdict; the oldest is forgotten where there is no place."""
        self._verdicts.pop(digest, None)
        if len(self._verdicts) >= self._most:
            self._verdicts.popitem(last=False)
        self._verdicts[digest] = verdict
