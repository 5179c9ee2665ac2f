"""Rules that the responders of HTTP share, whichever server reads the request."""

from gateway.a2a.fault import BodyTooLarge

BODILESS = (204, 304)
"""Statuses of answers without a body."""
SHORT = 64 * 1024
"""Bytes of a request's body for which an answer waits: many clients send it right after the head, in a separate packet,
and a refusal in between would cost them the connection."""
MOMENT = 0.25
"""Seconds for which an answer waits for it."""


def check_length(length: int, limit: int) -> None:
    """Refuse a body that is too long.

    Raises:
        BodyTooLarge: it has more than `limit` bytes.
    """
    if length > limit:
        raise BodyTooLarge(f"the body exceeds {limit} bytes")
