"""Values with units, as operators write them: durations, sizes and rates."""

import math
import re

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_DURATION_FACTOR = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"([0-9]{1,9})/(s|min|h)")
_RATE_PERIOD = {"s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]{1,18})(B|KB|MB|GB|KiB|MiB|GiB)?")
_SIZE_FACTOR = {
    None: 1,
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `250ms`, `3s`, `10m`, `1h30m`, `2d`.

    Raises:
        ValueError: The text is not a duration; units are required, so that `30` cannot mean minutes.
    """
    seconds = 0.0
    end = 0
    for found in _DURATION.finditer(text):
        if found.start() != end:
            break
        seconds += float(found[1]) * _DURATION_FACTOR[found[2]]
        end = found.end()
    if end == 0 or end != len(text) or seconds == math.inf:
        raise ValueError("a duration has a unit: 250ms, 3s, 10m, 1h30m, 2d")
    return seconds


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `512`, `64KiB`, `10MiB`, `1GB`.

    Raises:
        ValueError: The text is not a size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("a size is a number of bytes or has a unit: 512, 64KiB, 10MiB")
    return int(found[1]) * _SIZE_FACTOR[found[2]]


def parse_rate(text: str) -> tuple[float, float]:
    """Return count and period in seconds of a rate such as `50/s`, `600/min`, `1000/h`; the count is also the burst.

    Raises:
        ValueError: The text is not a rate, or the count is 0.
    """
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise ValueError("a rate is a number per time: 50/s, 600/min, 1000/h")
    return float(found[1]), _RATE_PERIOD[found[2]]
