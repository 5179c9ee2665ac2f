"""Bounds what the failed credentials of one address may cost (safety H14, §5).

Each address has a bucket of failures. While there is one left, a credential is looked at; once they are used up, one
that is not known to be good is refused unseen, so that guessing is slow and a flood of bad tokens costs little. Time
gives failures back, as many in a period as the bucket holds. What serves nobody but the guesser is counted, which is
why repeating one and the same bad credential costs nothing: it is remembered.
"""

import socket
from collections import OrderedDict

_MAPPED = bytes(10) + b"\xff\xff"
_NETWORK = 8


class Failures:
    """The failures of each address, for as long as they count.

    Kept is one time per address: when its bucket will be full again (the virtual scheduling of ITU-T I.371).

    Args:
        rate: How many in how many seconds; as many may come at once.
        most: Addresses that are remembered; the one that was quiet longest is forgotten first.
    """

    def __init__(self, rate: tuple[float, float], most: int) -> None:
        count, self._period = rate
        self._each = self._period / count
        # Sums of fractions are not exact.
        self._full = self._period - self._each + min(self._each / 2, 0.001)
        self._most = most
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def delay(self, address: str, now: float) -> float:
        """Seconds until one more credential of this address is looked at; 0 for now.

        Args:
            now: Monotonic seconds.
        """
        if not self._full_at:
            return 0.0
        network = network_of(address)
        full_at = self._full_at.get(network)
        if full_at is None or full_at - now < self._full:
            return 0.0
        # Or the addresses of a wider flood would have it forgotten.
        self._full_at.move_to_end(network)
        return full_at - now - self._period + self._each

    def add(self, address: str, now: float) -> None:
        """Count a failure of this address.

        Args:
            now: Monotonic seconds.
        """
        network = network_of(address)
        full_at = self._full_at.pop(network, now)
        if len(self._full_at) >= self._most:
            self._full_at.popitem(last=False)
        self._full_at[network] = max(full_at, now) + self._each


def network_of(address: str) -> str:
    """Whose an address is, as far as can be told: its own, or the /64's in IPv6, where everybody gets a whole one.

    IPv4 within IPv6 (`::ffff:192.0.2.1`) is IPv4: otherwise the whole of it were one neighbour.
    """
    if ":" not in address:
        return address
    try:
        raw = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    if raw.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, raw[len(_MAPPED) :])
    return raw[:_NETWORK].hex()
