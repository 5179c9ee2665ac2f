"""Cache of authentication results by credential, valid as long as nothing can have changed them (safety K7)."""

from collections import OrderedDict
from copy import copy
from dataclasses import dataclass

from gateway.a2a.fault import AuthMissing
from gateway.identity.jwks import KeySet
from gateway.principal import Principal


@dataclass(frozen=True, slots=True)
class _Entry:
    result: Principal | AuthMissing
    since: float
    until: float
    key_set: KeySet | None
    version: int

    def is_valid(self, now: float) -> bool:
        # A clock that was set back ends an entry, too.
        return self.since <= now < self.until and (self.key_set is None or self.key_set.version == self.version)


class TokenCache:
    """Principals and refusals by the SHA-256 of the credential.

    Args:
        most: Entries at most; the oldest is evicted first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether there is an entry, valid or not."""
        return digest in self._entries

    def find(self, digest: bytes, now: float) -> Principal | None:
        """Return the cached principal, or None where there is no valid entry.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthMissing: the credential was refused; the same fault again.
        """
        entry = self._entries.get(digest)
        if entry is None or not entry.is_valid(now):
            return None
        if isinstance(entry.result, AuthMissing):
            raise copy(entry.result)
        return entry.result

    def put(
        self,
        digest: bytes,
        result: Principal | AuthMissing,
        *,
        since: float,
        until: float,
        key_set: KeySet | None = None,
    ) -> None:
        """Remember a result until `until`, or until the keys of `key_set` change."""
        self._entries.pop(digest, None)
        if len(self._entries) >= self._most:
            self._entries.popitem(last=False)
        # A fault that was raised holds the frames it went through; its copy does not.
        kept = copy(result) if isinstance(result, AuthMissing) else result
        self._entries[digest] = _Entry(kept, since, until, key_set, 0 if key_set is None else key_set.version)

    def drop(self, digest: bytes) -> None:
        """Forget an entry, if there is one."""
        self._entries.pop(digest, None)
