"""The names on client certificates, the patterns that fit them, and the client of a certificate.

A name is cut into segments: a URI at its slashes, a DNS name at its dots, a common name not at all. Each segment of a
pattern is a text, or a wildcard for one segment (`*`, `{tenant}`), so the narrower of two patterns is well defined.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from gateway.a2a.paths import fits_path
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.telemetry.log_output import printable

# ---- names and patterns ----------------------------------------------------------------------------------------------

KINDS = ("uri", "dns", "common_name")
"""The names on a certificate that identify clients, as the keys of a client's entry."""

LONGEST_NAME = 2048
"""Longest name that is matched: SPIFFE ID §2.3."""

_WILDCARD, _TENANT = "*", "{tenant}"
_SEPARATORS = {"uri": "/", "dns": "."}
# RFC 3986 §3.3 without escapes, which only some readers decode; SPIFFE ID §2.2 allows less.
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~!$&'()+,;=:@-]+")
# RFC 1123 §2.1, with the underscore that some have. A wildcard on a certificate is not a name.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# RFC 5280 Appendix A.1, ub-common-name. All characters have to be visible.
_COMMON = re.compile(r".{1,64}")
_WHOLE = {"uri": _SEGMENT, "dns": _LABEL, "common_name": _COMMON}
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[!-~]+")
_AUTHORITY = 3
"""Segments of a URI before its path: `scheme:`, nothing, and the authority."""


@dataclass(frozen=True, slots=True)
class ClientName:
    """One name on a certificate.

    Attributes:
        kind: One of `KINDS`.
    """

    kind: str
    text: str

    @property
    def subject(self) -> str:
        """The name of the owner: the name itself, or `CN=…`, which no URI and no DNS name can be."""
        return f"CN={self.text}" if self.kind == "common_name" else self.text

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the name."""
        return _split(self.kind, self.text)

    @classmethod
    def read(cls, subject: str) -> Self:
        """Return the name that has this subject."""
        if subject.startswith("CN="):
            return cls("common_name", subject.removeprefix("CN="))
        return cls("uri", subject) if ":" in subject else cls("dns", subject.lower())


@dataclass(frozen=True, slots=True)
class ClientPattern:
    """A pattern of names of one kind.

    Attributes:
        segments: Texts, or `*` and `{tenant}` for any one.
    """

    kind: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, kind: str, text: str) -> Self:
        """Return the pattern that the file writes.

        Raises:
            ValueError: it is invalid; with the fact, a clause about the pattern, and the remedy.
        """
        if kind == "dns":
            text = text.lower()
        segments = _split(kind, text)
        for segment in segments:
            if segment not in (_WILDCARD, _TENANT) and not {*"*{}"}.isdisjoint(segment):
                what = {"uri": "a whole segment of the path", "dns": "a whole label"}.get(kind, "the whole name")
                raise ValueError("has a wildcard that is a part of something", f"let * or {{tenant}} stand for {what}")
        if segments.count(_TENANT) > 1:
            raise ValueError("has two tenants", "write {tenant} once, and * for the other")
        _check(kind, text, segments)
        return cls(kind, segments)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The numbers of the segments that are texts."""
        return tuple(number for number, each in enumerate(self.segments) if each not in (_WILDCARD, _TENANT))

    @property
    def is_whole(self) -> bool:
        """Whether it fits one name only."""
        return _WILDCARD not in self.segments and not self.has_tenant

    @property
    def has_tenant(self) -> bool:
        """Whether the tenant is a part of the names."""
        return _TENANT in self.segments

    def tenant_of(self, name: ClientName) -> str | None:
        """Return the tenant in a name; empty if the pattern has none, None if the name does not fit.

        A segment that is not a valid tenant does not fit {tenant}.
        """
        segments = name.segments
        if name.kind != self.kind or len(segments) != len(self.segments) or len(name.text) > LONGEST_NAME:
            return None
        whole, tenant = _WHOLE[self.kind], ""
        for pattern, segment in zip(self.segments, segments, strict=True):
            if pattern == _TENANT:
                if not fits_path(segment) or segment == ANONYMOUS_TENANT:
                    return None
                tenant = segment
            if pattern in (_WILDCARD, _TENANT):
                if whole.fullmatch(segment) is None or not segment.isprintable():
                    return None
            elif pattern != segment:
                return None
        return tenant

    def meets(self, other: "ClientPattern") -> bool:
        """Return whether there may be a name that both fit."""
        return (self.kind, len(self.segments)) == (other.kind, len(other.segments)) and all(
            one == another or one in (_WILDCARD, _TENANT) or another in (_WILDCARD, _TENANT)
            for one, another in zip(self.segments, other.segments, strict=True)
        )

    def is_narrower(self, other: "ClientPattern") -> bool:
        """Return whether the other pattern fits every name that this one fits, and more."""
        if not self.meets(other):
            return False
        pairs = [
            (one in (_WILDCARD, _TENANT), another in (_WILDCARD, _TENANT))
            for one, another in zip(self.segments, other.segments, strict=True)
        ]
        return all(another or not one for one, another in pairs) and any(another and not one for one, another in pairs)


def _split(kind: str, text: str) -> tuple[str, ...]:
    return tuple(text.split(_SEPARATORS[kind])) if kind in _SEPARATORS else (text,)


def _check(kind: str, text: str, segments: tuple[str, ...]) -> None:
    """Check that there are names that it fits.

    Raises:
        ValueError: as `ClientPattern.parse`.
    """
    if len(text) > LONGEST_NAME:
        raise ValueError("is too long for a name", f"write at most {LONGEST_NAME} characters")
    if kind == "uri":
        if _URI.fullmatch(text) is None:
            raise ValueError("is no URI", "write it whole, as in spiffe://mesh.example/ns/{tenant}/sa/*")
        if not {_WILDCARD, _TENANT}.isdisjoint(segments[:_AUTHORITY]):
            raise ValueError("has a wildcard before its path", "write scheme and authority; wildcards are for the path")
    elif kind == "dns":
        if any(segment not in (_WILDCARD, _TENANT) and _LABEL.fullmatch(segment) is None for segment in segments):
            raise ValueError("is no DNS name", "write it whole, as in batch.acme.example or *.acme.example")
        if segments[-1] in (_WILDCARD, _TENANT):
            raise ValueError("leaves its domain open", "write the domain: wildcards are for the labels before it")
    elif _COMMON.fullmatch(text) is None or not text.isprintable():
        raise ValueError("is no common name", "write 1 to 64 visible characters")


# ---- look-up ---------------------------------------------------------------------------------------------------------


METHOD = "mtls"
"""The method of such callers, and the name of their issuer: no issuer of tokens may have this name."""

_SPIFFE = "spiffe:"
_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class CertificateClient:
    """The certificates of a client: an entry of `auth.mtls.clients`.

    Attributes:
        patterns: The names on them.
        tenant: The tenant of all these certificates; None if the patterns have it.
        agents: Upper bound of the agents that they reach; None for all of the tenant.
        trusted: Whether their identity headers are trusted.
    """

    patterns: tuple[ClientPattern, ...]
    tenant: str | None = None
    agents: frozenset[str] | None = None
    trusted: bool = False


class UnknownClient(Exception):  # noqa: N818 - operators read it as a fact
    """The names match no client, or several."""


_ByTexts: TypeAlias = dict[tuple[str, ...], list[tuple[ClientPattern, str]]]


@dataclass(frozen=True, slots=True)
class ClientMatch:
    """The client of a certificate.

    Attributes:
        client: The name of its entry in `auth.mtls.clients`.
        agents: Upper bound of the agents that it reaches; None for all agents of its tenant.
        trusted: Whether its identity headers are trusted.
    """

    client: str
    tenant: str
    name: ClientName
    agents: frozenset[str] | None
    trusted: bool = False

    def principal(self, claims: Mapping[str, object], expires: float = float("inf")) -> Principal:
        """Return the caller, with the fields of its certificate beside the name."""
        return Principal(
            tenant=self.tenant,
            subject=self.name.subject,
            method=METHOD,
            issuer=METHOD,
            claims=claims,
            narrowed=self.agents,
            expires=expires,
            trusted=self.trusted,
        )


class Clients:
    """The entries of `auth.mtls.clients`.

    Of the patterns that fit a name the narrowest counts. The names of a certificate may be several, of one client and
    one tenant all of them.

    Args:
        clients: As they were checked: patterns of two clients that fit one name are one narrower than the other.
    """

    def __init__(self, clients: Mapping[str, CertificateClient]) -> None:
        self._clients = clients
        # By kind and length, then by the positions of text segments, then by their texts, so thousands of entries need
        # no search.
        self._by_shape: dict[tuple[str, int], dict[tuple[int, ...], _ByTexts]] = {}
        for client, entry in clients.items():
            for pattern in entry.patterns:
                alike = self._by_shape.setdefault((pattern.kind, len(pattern.segments)), {})
                texts = tuple(pattern.segments[number] for number in pattern.fixed)
                alike.setdefault(pattern.fixed, {}).setdefault(texts, []).append((pattern, client))

    def find(self, names: Sequence[ClientName]) -> ClientMatch:
        """Return the client of the certificate with these names.

        Raises:
            UnknownClient: No client matches, or several do; the text is for the operator.
        """
        uris = [name for name in names if name.kind == "uri"]
        # X509-SVID §2: with more than one URI it is unknown which one is the SPIFFE ID.
        if len(uris) > 1 and any(is_spiffe(name.text) for name in uris):
            raise UnknownClient(f"the certificate has {len(uris)} URIs, and a SPIFFE ID stands alone")
        # RFC 6125 §6.4.4: the common name counts only if there is no other name.
        telling = [name for name in names if name.kind != "common_name"] or names
        if telling is names and len(names) > 1:
            raise UnknownClient(f"the certificate has {len(names)} common names")
        found: dict[tuple[str, str], list[ClientName]] = {}
        for name in telling:
            fit = self._narrowest(name)
            if fit is not None:
                found.setdefault(fit, []).append(name)
        if not found:
            shown = ", ".join(printable(name.subject) for name in telling[:_MOST_SHOWN])
            raise UnknownClient(f"no entry of auth.mtls.clients fits {shown or 'a certificate without names'}")
        if len(found) > 1:
            clients = ", ".join(f"{client} (tenant {tenant})" for client, tenant in sorted(found)[:_MOST_SHOWN])
            raise UnknownClient(f"the names on the certificate match several clients: {clients}")
        (client, tenant), mine = next(iter(found.items()))
        entry = self._clients[client]
        # The order may differ on the next certificate of the same client.
        name = min(mine, key=lambda each: (KINDS.index(each.kind), each.text))
        return ClientMatch(client, tenant, name, entry.agents, entry.trusted)

    def _narrowest(self, name: ClientName) -> tuple[str, str] | None:
        """Return the client and the tenant of the narrowest pattern that fits a name; None if none does."""
        fits = list(self._fits(name))
        if len({of for _, of in fits}) < 2:
            return fits[0][1] if fits else None
        for pattern, of in fits:
            if all(pattern.is_narrower(other) for other, _ in fits if other is not pattern):
                return of
        raise UnknownClient(
            f"{printable(name.subject)} matches several clients: {', '.join(client for _, (client, _) in fits)}"
        )

    def _fits(self, name: ClientName) -> Iterator[tuple[ClientPattern, tuple[str, str]]]:
        """Yield the patterns that fit a name, each with its client and the tenant."""
        segments = name.segments
        for fixed, by_texts in self._by_shape.get((name.kind, len(segments)), {}).items():
            for pattern, client in by_texts.get(tuple(segments[number] for number in fixed), ()):
                tenant = pattern.tenant_of(name)
                if tenant is not None:
                    yield pattern, (client, tenant or self._clients[client].tenant or "")


def is_spiffe(uri: str) -> bool:
    """Return whether a URI is a SPIFFE ID of any trust domain."""
    return uri.lower().startswith(_SPIFFE)
