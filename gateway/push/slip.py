"""What the store has of a notification beside its body: short, so that many can be looked at."""

from typing import Final

import msgspec

KIND: Final = "outbox"
"""The kind of the notes that slips are."""


class Slip(msgspec.Struct, frozen=True, omit_defaults=True):
    """One notification on its way.

    Attributes:
        hook: The key of its hook.
        task: The task, as the client knows it.
        made: When it came, in Unix seconds.
        tried: Attempts that failed.
        size: Bytes of its body.
    """

    hook: str
    agent: str
    tenant: str
    task: str
    content_type: str
    made: float
    tried: int = 0
    size: int = 0

    def written(self) -> bytes:
        """As the store has it."""
        return _encode(self)


def read(value: bytes) -> Slip | None:
    """The slip that was written; None where this gateway cannot read it: another version's, or damaged."""
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError:
        return None


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Slip)
