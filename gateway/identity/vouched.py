"""Callers for whom a trusted client speaks, as its identity headers say (`auth.mtls.clients.X.trust_identity_headers`).

A client is trusted that was proven by its certificate and by nothing beside it. Of its headers these are read, under
the names of `defaults.identity_headers`:

| header | what becomes of it |
|---|---|
| tenant | may only repeat the tenant of the certificate; any other is refused |
| subject | who the call is for, within that tenant: the agent is told it; with `isolation: principal` it owns tasks |
| session | the agent is told it |

Everybody else's are dropped unread, as is whatever is spelled with an underscore or named by `Connection`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.fault import BadRequest, NotAdmitted
from gateway.a2a.headers import pass_on
from gateway.principal import Principal

_LONGEST = 256


@dataclass(frozen=True, slots=True)
class VouchedNames:
    """The headers that a trusted client sends, in lower case."""

    tenant: bytes = b"x-a2a-tenant"
    subject: bytes = b"x-a2a-subject"
    session: bytes = b"x-a2a-session"


class _Known(msgspec.Struct, frozen=True, eq=False):
    """What a head said of one caller: the next request with the same head is of the same principal, the same object."""

    client: Principal
    names: VouchedNames
    caller: Principal


def vouched(client: Principal, head: Head, names: VouchedNames) -> Principal:
    """Return the caller for whom a trusted client speaks; the client itself where it speaks for nobody.

    Raises:
        BadRequest: a header stands twice, or its value is no name.
        NotAdmitted: the client speaks for another tenant than its own.
    """
    known = head.known.get(_Known)
    if isinstance(known, _Known) and known.client is client and known.names is names:
        return known.caller
    said = pass_on(head.headers, frozenset((names.tenant, names.subject, names.session)))
    tenant = _said(said, names.tenant)
    if tenant and tenant != client.tenant:
        raise NotAdmitted("this certificate does not speak for that tenant", detail=f"{client.subject} says {tenant!r}")
    caller = replace(client, on_behalf_of=_said(said, names.subject), session=_said(said, names.session))
    head.known[_Known] = _Known(client, names, caller)
    return caller


def _said(said: Sequence[tuple[bytes, bytes]], name: bytes) -> str:
    """The value of a header, its escapes undone, which the gateway writes itself; empty where there is none."""
    values = [value for each, value in said if each == name]
    if not values:
        return ""
    try:
        [value] = values
        text = unquote(value.decode("ascii"), errors="strict")
    except ValueError as error:
        raise BadRequest(f"the header {name.decode()} does not name one caller") from error
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise BadRequest(f"the header {name.decode()} is no name of 1 to {_LONGEST} visible characters")
    return text
