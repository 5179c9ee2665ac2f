"""What connections to agents read into: one piece of memory for all of them.

What was read is copied out of it before the loop does anything else, so no two ever need it at once.

Decision, 2026-11-22: `asyncio.Protocol` was refused. uvloop then reads as much as there is, up to 250 KiB at a time,
and a stream that its client does not read holds two such pieces.
"""

from typing import Final

_AT_ONCE: Final = 64 * 1024
_OF_A_STREAM: Final = 32 * 1024


class ReadBuffer:
    """Where bytes of answers arrive.

    Attributes:
        whole: For most answers: long ones come in few pieces.
        little: For streams: what is read of them waits with the gateway when the client stops reading.
        full: How much is read where there may be more.
    """

    __slots__ = ("full", "little", "whole")

    def __init__(self) -> None:
        self.whole = memoryview(bytearray(_AT_ONCE))
        self.little = self.whole[:_OF_A_STREAM]
        self.full = (_AT_ONCE, _OF_A_STREAM)
