"""Whose a certificate is, by the names on it: traffic, `route` and the tests of the file ask here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gateway.config.client import KINDS, Client
from gateway.config.client_name import ClientName, ClientPattern
from gateway.config.problem import printable
from gateway.principal import Principal

METHOD = "mtls"
"""How such a caller is proven; also what stands for its issuer, so no issuer of tokens may be called so."""

_SPIFFE = "spiffe:"
_MOST_TOLD = 4


class NobodyKnown(Exception):  # noqa: N818 - a fact about a certificate, told to operators
    """The names are those of no client, or of several."""


_Filed: TypeAlias = dict[tuple[str, ...], list[tuple[ClientPattern, str]]]


@dataclass(frozen=True, slots=True)
class _Fit:
    """A pattern that fits a name."""

    pattern: ClientPattern
    client: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose a certificate is.

    Attributes:
        client: The name of its entry in `auth.mtls.clients`.
        agents: What it reaches at most; None for what its tenant may.
        trusted: Whether its identity headers are believed.
    """

    client: str
    tenant: str
    name: ClientName
    agents: frozenset[str] | None
    trusted: bool = False

    def principal(self, claims: Mapping[str, object], expires: float = float("inf")) -> Principal:
        """The caller, with what its certificate says beside the name."""
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

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients
        # By kind and length, then by which segments are texts, then by those: thousands of entries are no search.
        self._filed: dict[tuple[str, int], dict[tuple[int, ...], _Filed]] = {}
        for client, entry in clients.items():
            for pattern in patterns(entry):
                alike = self._filed.setdefault((pattern.kind, len(pattern.segments)), {})
                texts = tuple(pattern.segments[number] for number in pattern.fixed)
                alike.setdefault(pattern.fixed, {}).setdefault(texts, []).append((pattern, client))

    def find(self, names: Sequence[ClientName]) -> Whose:
        """Whose the certificate with these names is.

        Raises:
            NobodyKnown: nobody's, or it cannot be told; the text is for the operator.
        """
        uris = [name for name in names if name.kind == "uri"]
        # X509-SVID §2: more than one URI, and it is not told which of them it is.
        if len(uris) > 1 and any(is_spiffe(name.text) for name in uris):
            raise NobodyKnown(f"the certificate has {len(uris)} URIs, and a SPIFFE ID stands alone")
        # RFC 6125 §6.4.4: the common name counts where there is no other.
        telling = [name for name in names if name.kind != "common_name"] or names
        if telling is names and len(names) > 1:
            raise NobodyKnown(f"the certificate has {len(names)} common names")
        found: dict[tuple[str, str], list[ClientName]] = {}
        for name in telling:
            fit = self._narrowest(name)
            if fit is not None:
                found.setdefault((fit.client, fit.tenant), []).append(name)
        if not found:
            shown = ", ".join(printable(name.subject) for name in telling[:_MOST_TOLD])
            raise NobodyKnown(f"no entry of auth.mtls.clients fits {shown or 'a certificate without names'}")
        if len(found) > 1:
            told = ", ".join(f"{client} (tenant {tenant})" for client, tenant in sorted(found)[:_MOST_TOLD])
            raise NobodyKnown(f"the names on the certificate are those of several: {told}")
        (client, tenant), mine = next(iter(found.items()))
        entry = self._clients[client]
        # Whatever their order on the next certificate, it is the same one.
        name = min(mine, key=lambda each: (KINDS.index(each.kind), each.text))
        agents = None if entry.agents is None else frozenset(entry.agents)
        return Whose(client, tenant, name, agents, entry.trust_identity_headers)

    def _narrowest(self, name: ClientName) -> _Fit | None:
        fits = list(self._fits(name))
        if len({(fit.client, fit.tenant) for fit in fits}) < 2:
            return fits[0] if fits else None
        for fit in fits:
            if all(fit.pattern.is_narrower(other.pattern) for other in fits if other is not fit):
                return fit
        raise NobodyKnown(f"{printable(name.subject)} is the name of several: {', '.join(fit.client for fit in fits)}")

    def _fits(self, name: ClientName) -> Iterator[_Fit]:
        segments = name.segments
        for fixed, by_texts in self._filed.get((name.kind, len(segments)), {}).items():
            for pattern, client in by_texts.get(tuple(segments[number] for number in fixed), ()):
                tenant = pattern.tenant_of(name)
                if tenant is not None:
                    yield _Fit(pattern, client, tenant or self._clients[client].tenant or "")


def is_spiffe(uri: str) -> bool:
    """Whether a URI is a SPIFFE ID, whatever trust domain it is of."""
    return uri.lower().startswith(_SPIFFE)


def patterns(client: Client) -> Iterator[ClientPattern]:
    """What the names of a client's certificates look like.

    Raises:
        ValueError: as `ClientPattern.parse`.
    """
    for kind in KINDS:
        for text in getattr(client, kind):
            yield ClientPattern.parse(kind, text)
