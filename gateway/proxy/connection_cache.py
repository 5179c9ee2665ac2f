"""The connection cache: results that are reused by requests with the same head on one connection.

Clients repeat the same head, except for the length of the body. The listener then reuses the same `Head`
(`listener/request_parser.py`), and the head carries this cache. It belongs to one snapshot: the first request under
another one starts a new cache, so that no credential, decision or connection of a replaced configuration is used again.

| slot | made by | valid for |
|---|---|---|
| `location` | `locate` | the head |
| `credentials` | `authenticate` | the head, from the same client address |
| `caller` | `authenticate` | the same principal, which is a trusted client |
| `decision` | `selection` | the same principal and the same A2A tenant |
| `log_fields` | `request` | requests with the same `key` |
| `prepared` | `upstream` | the same upstream, principal and client address |
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from gateway.identity.authenticator import Credentials
from gateway.principal import Principal
from gateway.resources import Resources
from gateway.routing.endpoint import Endpoint
from gateway.routing.route import Verdict
from gateway.upstream.upstream import PreparedHeaders


class Location(msgspec.Struct, frozen=True, eq=False):
    """The facts that a request head gives before the caller is authenticated.

    Attributes:
        binding: The binding in which to answer, as far as the head tells.
        version: Likewise the version.
        operation: Likewise the operation; None where only the body tells.
        endpoint: None if the path is not an endpoint.
        path: The rest of the path behind that of the endpoint; None if it has no meaning.
        unread: Why the head cannot be read, or None; at an endpoint only its callers may learn it.
        written_version: The version as the client writes it, or None.
        hint: The version that this text names, or None.
        skill: The skill that the path names instead of an agent, or None.
        is_encoded: Whether the body has a content coding.
        is_no_json: Whether the headers say that the body is not JSON.
        feed: The path of the catalog that is asked for, or None.
        page: The name of the page of the catalog that is asked for, or None.
        resource: The path whose protected resource metadata are asked for, or None.
    """

    binding: Binding
    version: Version = Version.V1_0
    operation: Operation | None = None
    endpoint: Endpoint | None = None
    path: PathCall | None = None
    unread: BadRequest | None = None
    written_version: str | None = None
    hint: Version | None = None
    skill: str | None = None
    is_encoded: bool = False
    is_no_json: bool = False
    feed: str | None = None
    page: str | None = None
    resource: tuple[str, ...] | None = None

    @property
    def is_document(self) -> bool:
        """Return whether the request reads a card or the catalog, and calls no agent."""
        return self.reads_card or self.feed is not None or self.page is not None

    @property
    def reads_card(self) -> bool:
        """Return whether the request reads a card, which needs no credential."""
        return self.path is not None and self.path.card is not None


class RouteDecision(msgspec.Struct, frozen=True, eq=False):
    """The agent that answers one caller under one A2A tenant."""

    principal: Principal
    tenant: str | None
    verdict: Verdict


class TrustedCaller(msgspec.Struct, frozen=True, eq=False):
    """The caller that a trusted client names; each request of the head has the same object."""

    client: Principal
    caller: Principal


class LogFields(msgspec.Struct, frozen=True, eq=False):
    """The fields that many lines of the access log share.

    Attributes:
        key: The values that they were made of.
        line: All fields in their order; those of one request are None.
    """

    key: tuple[object, ...]
    line: dict[str, Any]


@dataclass(slots=True, eq=False)
class ConnectionCache:
    """The cache of one head under one snapshot.

    Attributes:
        resources: The resources of that snapshot, by which it is known; the snapshot itself is not kept alive.
    """

    resources: Resources | None = None
    location: Location | None = None
    credentials: Credentials | None = None
    caller: TrustedCaller | None = None
    decision: RouteDecision | None = None
    log_fields: LogFields | None = None
    prepared: PreparedHeaders = field(default_factory=PreparedHeaders)

    def clear(self) -> None:
        """Let go of everything: a stream may last for hours."""
        self.location = self.credentials = self.caller = self.decision = self.log_fields = None
        self.prepared.lines.clear()
        self.prepared.metadata.clear()


def cache_of(head: Head, resources: Resources | None) -> ConnectionCache:
    """Return the cache of a head; a new one where it has none, or one of another snapshot."""
    cache = head.cache
    if not isinstance(cache, ConnectionCache) or cache.resources is not resources:
        cache = ConnectionCache(resources)
        head.remember(cache)
    return cache
