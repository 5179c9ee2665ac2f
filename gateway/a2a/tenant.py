"""The A2A `tenant` field: an opaque string, compared exactly. Only in a path has it a grammar (`paths.NAME`)."""

import re

from gateway.a2a.paths import NAME

RESERVED = frozenset(
    {
        "-", ".", "..", ".well-known", "v1", "skills", "tasks", "card", "extendedAgentCard",
        "message:send", "message:stream",
    }
)  # fmt: skip
"""Names that can never be a tenant or an agent: they are path segments of the protocol."""

_LONGEST = 256
# C0, DEL and C1; and halves of surrogate pairs, which have no UTF-8.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_tenant(value: str) -> bool:
    """Return whether a client, or the configuration, can use this as a tenant."""
    return is_opaque(value) and value not in RESERVED


def is_opaque(value: str) -> bool:
    """Return whether a string is not empty, has at most 256 bytes of UTF-8, and no control characters."""
    if not 0 < len(value) <= _LONGEST or _FORBIDDEN.search(value) is not None:
        return False
    return value.isascii() or len(value.encode()) <= _LONGEST


def fits_path(tenant: str | None) -> bool:
    """Return whether a path can carry the tenant: it is one segment of `paths.NAME`, or None."""
    return tenant is None or NAME.fullmatch(tenant) is not None
