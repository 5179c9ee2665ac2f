"""A request's query: its tenant and ids are read, and the other pairs are forwarded.

Every field that the path does not bind may be a query parameter (google.api.http), so a query is one more place for the
tenant and for ids. Names must be plain words, so that no parser reads another name. A value keeps its bytes, because
page tokens must survive, but escapes that could be read in two ways are refused. Unknown names pass.
"""

import re
from urllib.parse import quote, unquote_plus

from msgspec.structs import replace

from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.parameter import is_of
from gateway.a2a.paths import PathCall
from gateway.a2a.tenant import fits_path, is_tenant

# Visible ASCII but `#`, and no `;`, which some servers take for an `&`.
_RAW = re.compile(rb"[!\"$-:<-~]*")
# No escape, no `+`, no bracket: PHP and Rack read ` tenant`, `tenant[]` and `tenant%00` as `tenant`.
_NAME = re.compile(rb"[A-Za-z0-9._~$-]+")
# Escapes that are whole, and of no control character.
_VALUE = re.compile(rb"(?:[^%]|%(?:[2-689A-F][0-9A-F]|7[0-9A-E]))*", re.IGNORECASE)

_CREDENTIALS = frozenset({"accesstoken", "apikey", "xapikey", "authorization", "clientsecret"})
_IDS = {
    "id": ("id",),
    "taskid": ("taskId", "task_id"),
    "contextid": ("contextId", "context_id"),
    "referencetaskids": (),
    "name": ("name",),
    "parent": ("parent",),
}
"""Ids, and 0.3's names that hold one, by folded name, with the spellings that are allowed in a query."""
_PUSHES = frozenset({"taskpushnotificationconfig", "pushnotificationconfig", "pushnotification"})
# Common words, which are allowed in nested names.
_COMMON = frozenset({"id", "name", "parent"})


def split_query(query: bytes) -> tuple[str | None, bytes]:
    """Return the tenant that a query names, and the rest of the query, each value byte for byte.

    Raises:
        BadRequest: a name stands twice (in whatever spelling), is no plain word, carries a credential, leads into a
            push configuration, or is like `tenant` or an id but spelled otherwise; or a byte or an escape that two
            servers could read in two ways.
    """
    if not query:
        return None, b""
    if _RAW.fullmatch(query) is None:
        raise BadRequest("the query has a character that is not allowed")
    seen: set[str] = set()
    kept: list[bytes] = []
    tenant: str | None = None
    for pair in query.split(b"&"):
        if not pair:
            continue
        raw, _, value = pair.partition(b"=")
        if _NAME.fullmatch(raw) is None:
            raise BadRequest("a query parameter has a name that is not allowed")
        name = raw.decode("ascii")
        folded = _folded(name)
        if folded in seen:
            raise BadRequest("a query parameter stands twice")
        seen.add(folded)
        _refuse_name(name, folded)
        if b"%" in value:
            _refuse_value(value)
        if b"+" in value and (name == "tenant" or folded in _IDS):
            # A space to most, a plus to some.
            raise BadRequest("a tenant or an id in the query has a plus that is not escaped")
        if name == "tenant":
            tenant = _unquote(value) or None
        else:
            kept.append(pair)
    return tenant, b"&".join(kept)


def of_card(path: PathCall, query: bytes) -> PathCall:
    """Return the request for a card, with the tenant that its query names where no path could: `?tenant=orgs%2F42`.

    A tenant that a path can carry must be in the path. Anything else in the query of a card is ignored, so that it does
    not reveal whether there is an endpoint.
    """
    if path.tenant is not None or b"tenant=" not in query:
        return path
    try:
        tenant, _ = split_query(query)
    except BadRequest:
        return path
    if tenant is None or fits_path(tenant) or not is_tenant(tenant):
        return path
    return replace(path, tenant=tenant)


def refuse_other_ids(query: bytes, path: PathCall, *, listing: bool) -> None:
    """Refuse an id in a query that differs from the path.

    Args:
        query: What `split_query` passed.
        listing: Whether the operation takes a context from its query.

    Raises:
        BadParams: it names another task or configuration than the path, or any where the operation takes none.
    """
    for pair in query.split(b"&"):
        raw, _, value = pair.partition(b"=")
        name = raw.decode("ascii")
        if name == "id":
            bound: tuple[str | None, ...] = (path.task_id, path.config_id)
        elif name in ("taskId", "task_id"):
            bound = (path.task_id,)
        elif name in ("contextId", "context_id") and not listing:
            bound = ()
        else:
            if name.rpartition(".")[2] in ("name", "parent"):
                _refuse_other_name(name, _unquote(value), path)
            continue
        if value and _unquote(value) not in bound:
            raise BadParams(f"the query cannot name another {name} than the path")


def _refuse_other_name(name: str, said: str, path: PathCall) -> None:
    """Refuse a resource name of 0.3 that differs from the path."""
    if said and (name in _IDS or said.startswith("tasks/")) and not is_of(said, path.task_id, path.config_id):
        raise BadParams(f"the query cannot have another {name} than the path")


def named_in(query: bytes) -> tuple[str | None, str | None]:
    """Return the task and the context in the query of a JSON-RPC request, where no agent should look for them.

    Args:
        query: What `split_query` passed.
    """
    return (
        query_value(query, "taskId") or query_value(query, "task_id") or None,
        query_value(query, "contextId") or query_value(query, "context_id") or None,
    )


def with_context(query: bytes, context: str) -> bytes:
    """Return the query with another context where it names one; all other bytes stay as they are."""
    pairs = query.split(b"&")
    for number, pair in enumerate(pairs):
        name, _, value = pair.partition(b"=")
        if value and name in (b"contextId", b"context_id"):
            pairs[number] = name + b"=" + quote(context, safe="").encode("ascii")
    return b"&".join(pairs)


def query_value(query: bytes, name: str) -> str | None:
    """Return the value of one query parameter, its name compared without case; None where it is absent."""
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if _unquote(key).lower() == name.lower():
            return _unquote(value)
    return None


def _folded(name: str) -> str:
    """Return a name in the one spelling that the most lenient parser would see."""
    return name.lower().replace("_", "").replace("-", "")


def _refuse_name(name: str, folded: str) -> None:
    if folded in _CREDENTIALS:
        raise BadRequest("a credential belongs into a header, not into the query")
    if not _PUSHES.isdisjoint(folded.split(".")):
        raise BadRequest("a push configuration belongs into the body, not into the query")
    if "tenant" in folded and name != "tenant":
        # An agent may believe `Tenant`, `tenantId` or `message.tenant` as well.
        raise BadRequest("a query parameter is named like 'tenant', but not so")
    # `message.taskId` is a field path: it names what stands in the body.
    last = folded.rpartition(".")[2]
    spellings = _IDS.get(last)
    if spellings is not None and name not in spellings and (last == folded or last not in _COMMON):
        raise BadRequest("a query parameter is named like an id, but not so")


def _refuse_value(value: bytes) -> None:
    if _VALUE.fullmatch(value) is None:
        raise BadRequest("the query has an escape that is not allowed")
    _unquote(value)


def _unquote(raw: bytes) -> str:
    try:
        return unquote_plus(raw.decode("ascii"), errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the query is not UTF-8") from error
