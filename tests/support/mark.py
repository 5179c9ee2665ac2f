"""The form of the gateway's own marks in ids, which no client may see."""

import json
import re

_MARK = re.compile(rb"gw-[a-z2-7]{26}-")


def shows_mark(told: object) -> bool:
    """Whether there is a mark in bytes, text or a tree.

    All of it is looked for: tokens are random, and now and then begin like one.
    """
    return _MARK.search(told if isinstance(told, bytes) else json.dumps(told).encode()) is not None
