"""Remembers what became of a credential, for as long as nothing can have changed it."""

from collections import OrderedDict
from dataclasses import dataclass

from gateway.a2a.fault import AuthMissing
from gateway.identity.jwks import KeySet
from gateway.principal import Principal


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a credential was refused; a fault can be raised once, this as often as one likes."""

    kind: type[AuthMissing]
    message: str
    detail: str
    issuer: str = ""

    def fault(self) -> AuthMissing:
        """The same refusal once more."""
        return self.kind(self.message, detail=self.detail, issuer=self.issuer)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one credential.

    Attributes:
        outcome: Whose it is, or why it is refused.
        since: Wall-clock seconds of the judgement; a clock that was set back makes it void.
        until: Wall-clock seconds at which it is over.
        key_set: The keys it rests on, or None where the credential was refused before they mattered.
        version: Of the key set at the time.
    """

    outcome: Principal | Refusal
    since: float
    until: float
    key_set: KeySet | None = None
    version: int = 0

    def holds(self, now: float) -> bool:
        """Whether it still stands at `now`, in wall-clock seconds."""
        return self.since <= now < self.until and (self.key_set is None or self.key_set.version == self.version)


class Verdicts:
    """Verdicts by the SHA-256 of the credential, `most` of them at most; the oldest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def __contains__(self, digest: bytes) -> bool:
        """Whether there was a verdict on it, be it over or not."""
        return digest in self._verdicts

    def get(self, digest: bytes, now: float) -> Verdict | None:
        """The verdict on the credential with this digest, where one still stands."""
        verdict = self._verdicts.get(digest)
        return verdict if verdict is not None and verdict.holds(now) else None

    def put(self, digest: bytes, verdict: Verdict) -> None:
        """Remember a verdict; the oldest is forgotten where there is no place."""
        self._verdicts.pop(digest, None)
        if len(self._verdicts) >= self._most:
            self._verdicts.popitem(last=False)
        self._verdicts[digest] = verdict

    def drop(self, digest: bytes) -> None:
        """Forget a verdict, if there is one."""
        self._verdicts.pop(digest, None)
