"""Claims of a verified token: look-up by path, and the forms that identity providers use.

A claim is named by its path. At each object the longest member name with which the path begins is taken, up to a dot or
to its end; the rest of the path continues in that member. So `https://example.com/roles` is a claim of that name,
`realm_access.roles` is the member `roles` of `realm_access` where there is no claim with the dot in its own name, and
`resource_access.my.app.roles` finds a client called `my.app`. There is no backtracking: one token and one path give one
value or none.
"""

import re
from collections.abc import Iterator, Mapping

_SPACED = frozenset({"scope", "scp"})
"""Claims whose text is a list of words (RFC 8693 §4.2; `scp` is what Entra ID and Okta call it)."""

_ROLES = ("roles", "realm_access.roles")
"""Where Entra ID and Keycloak write the roles of a caller."""


def claim_at(claims: object, path: str, default: object = None) -> object:
    """Return the value of the claim at a path, or the default where there is none."""
    if not isinstance(claims, Mapping):
        return default
    end = len(path)
    while end > 0:
        found = claims.get(path[:end], _MISSING)
        if found is not _MISSING:
            return found if end == len(path) else claim_at(found, path[end + 1 :], default)
        end = path.rfind(".", 0, end)
    return default


_MISSING = object()


def claim_values(claims: Mapping[str, object], path: str) -> tuple[object, ...]:
    """Return the values of a claim for comparisons; `typed` keeps booleans apart from 0 and 1.

    A list offers its members, an object the names of its members, `scope` and `scp` their words.
    """
    value = claim_at(claims, path)
    if isinstance(value, Mapping):
        return tuple(value)
    if isinstance(value, list | tuple):
        return tuple(typed(member) for member in value if isinstance(member, str | int))
    if isinstance(value, str) and path in _SPACED:
        return tuple(value.split())
    return (typed(value),) if isinstance(value, str | int) else ()


def typed(value: object) -> object:
    """Return the value for comparison: `true` and 1 are equal in Python but different claims."""
    return ("bool", value) if isinstance(value, bool) else value


def single(claims: Mapping[str, object], path: str) -> str | None:
    """Return the only name in a claim; None if it has none, several, or another type of value.

    That is a text. `organization`, by any path, may also be a list of exactly one text, or an object whose exactly
    one member is an object, and that member's name counts: so Keycloak writes it. Of any other claim a list of one is
    refused as well, because another token may have more of them.
    """
    value = claim_at(claims, path)
    if _ORGANIZATION.search(path):
        if isinstance(value, Mapping):
            value = [name if isinstance(about, Mapping) else None for name, about in value.items()]
        if isinstance(value, list | tuple):
            value = value[0] if len(value) == 1 else None
    return value if isinstance(value, str) else None


_ORGANIZATION = re.compile(r"(?:^|[./])organization$")


def scopes(claims: Mapping[str, object]) -> frozenset[object]:
    """Return the scopes of a token, in `scope` or `scp`."""
    return frozenset(_all_values(claims, _SPACED))


def roles(claims: Mapping[str, object]) -> frozenset[object]:
    """Return the roles of a token, in `roles` or `realm_access.roles`."""
    return frozenset(_all_values(claims, _ROLES))


def _all_values(claims: Mapping[str, object], paths: tuple[str, ...] | frozenset[str]) -> Iterator[object]:
    for path in paths:
        yield from claim_values(claims, path)
