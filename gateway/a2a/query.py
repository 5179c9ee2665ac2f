"""A request's query: read for the tenant that it may name, and passed on byte for byte."""

import re
from urllib.parse import unquote_plus

from gateway.a2a.fault import BadRequest

# Visible ASCII but `#`, and no `;`, which some servers take for an `&`.
_RAW = re.compile(rb"[!\"$-:<-~]*")


def split_query(query: bytes) -> tuple[str | None, bytes]:
    """The tenant that a query names, and the rest of the query byte for byte.

    Every field that the path does not bind may be a query parameter (google.api.http), so `?tenant=` is one more place.

    Raises:
        BadRequest: a name stands twice, `tenant` in another case, or a byte that two servers could read in two ways.
    """
    if not query:
        return None, b""
    if _RAW.fullmatch(query) is None:
        raise BadRequest("the query has a character that is not allowed")
    seen: set[str] = set()
    kept: list[bytes] = []
    tenant: str | None = None
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        plain = _unquote(name)
        if plain in seen and pair:
            raise BadRequest("a query parameter stands twice")
        if plain.casefold() == "tenant" and plain != "tenant":
            raise BadRequest("a query parameter is named like 'tenant' in another case")
        seen.add(plain)
        if plain == "tenant":
            tenant = _unquote(value) or None
        else:
            kept.append(pair)
    return tenant, b"&".join(kept)


def query_value(query: bytes, name: str) -> str | None:
    """The value of one query parameter, its name compared without case; None where it is absent."""
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if _unquote(key).lower() == name.lower():
            return _unquote(value)
    return None


def _unquote(raw: bytes) -> str:
    try:
        return unquote_plus(raw.decode("ascii"), errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the query is not UTF-8") from error
