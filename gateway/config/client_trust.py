"""Who may call with a certificate: the authorities, and whose each name is."""

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

from gateway.config.authority import read_authorities
from gateway.config.certificate import CertificateUnusable
from gateway.config.client import KINDS, Client, Mtls
from gateway.config.client_name import ClientPattern
from gateway.config.client_rule import METHOD
from gateway.config.finding import Findings
from gateway.config.model import Auth, Config
from gateway.config.problem import KeyPath, printable
from gateway.principal import ANONYMOUS_TENANT

_AT: KeyPath = ("auth", "mtls")
_Found: TypeAlias = tuple[KeyPath, str, ClientPattern]
"""Where a pattern is written, and whose it is."""


def check_clients(config: Config, findings: Findings, today: date) -> None:
    """Find what is wrong with the certificates by which callers are told.

    Args:
        today: The day in UTC.
    """
    auth = config.auth
    if auth is not None and METHOD in auth.issuers:
        # Also before there are certificates: what such tokens own would be owned by names on them some day.
        fact = f"{METHOD!r} stands for certificates, and whose is whose could not be told"
        findings.error_at_key(("auth", "issuers", METHOD), fact, "give the issuer another name")
    if auth is None or auth.mtls is None:
        return
    if config.gateway.tls is None and not findings.is_broken(("gateway", "tls")):
        fact = "without `gateway.tls` no client shows a certificate"
        remedy = "add `gateway.tls: { cert: …, key: … }`; what a proxy in front says of certificates is never believed"
        findings.error_at_key(_AT, fact, remedy)
    _authorities(auth.mtls, findings, today)
    _required(config, auth, auth.mtls, findings)
    if not auth.mtls.clients and not findings.is_broken((*_AT, "clients")):
        remedy = "add `clients` with `NAME: { uri: …, tenant: … }`"
        findings.error_at_key(_AT, "no certificate is anybody's: there are no `clients`", remedy)
    found: list[_Found] = []
    for name, client in auth.mtls.clients.items():
        found += ((at, name, pattern) for at, pattern in _patterns(name, client, findings))
    _told_apart(found, findings)


def _authorities(mtls: Mtls, findings: Findings, today: date) -> None:
    folder = Path(findings.marks.place(_AT).file).parent
    try:
        authorities = read_authorities(folder / mtls.ca)
    except CertificateUnusable as error:
        fact = f"{printable(mtls.ca)!r} {error.fact}"
        findings.error((*_AT, "ca"), fact, f"{error.remedy}; it is relative to {folder}")
        return
    for name, last in authorities.ends:
        if last < today:
            fact = f"{printable(mtls.ca)!r} has an authority that is over since {last}: {printable(name)}"
            findings.warning((*_AT, "ca"), fact, "remove it, or put in the one that has taken its place")
            return


def _required(config: Config, auth: Auth, mtls: Mtls, findings: Findings) -> None:
    others = "`issuers` and `api_keys`" if auth.issuers and auth.api_keys else "`issuers`" if auth.issuers else ""
    others = others or ("`api_keys`" if auth.api_keys else "")
    if not mtls.require:
        if others and not mtls.with_token and config.gateway.listen_grpc is not None:
            # grpcio asks for a certificate from every client or from none.
            fact = f"{others} are in vain over gRPC: there every client shows a certificate, and with one none is taken"
            findings.warning(_AT, fact, "write `with_token: true`, or leave `gateway.listen_grpc` out")
        return
    at: KeyPath = (*_AT, "require")
    if others and not mtls.with_token:
        fact = f"{others} would be in vain: all clients show a certificate, and with one no token or key is taken"
        findings.error(at, fact, "write `with_token: true`, or remove `require`")
    if config.gateway.anonymous:
        fact = "callers without a credential are let in by `gateway.anonymous`, and get no connection"
        findings.error(at, fact, "remove one of the two")
    elif config.push.mode == "relay":
        fact = "agents post notifications to `public_url`, and need a certificate of these authorities, too"
        findings.warning(at, fact, "give them one, remove `require`, or write `push.mode: passthrough`")


def _patterns(name: str, client: Client, findings: Findings) -> Iterator[tuple[KeyPath, ClientPattern]]:
    at: KeyPath = (*_AT, "clients", name)
    found: list[tuple[KeyPath, ClientPattern]] = []
    broken = findings.is_broken(at)
    for kind in KINDS:
        for number, text in enumerate(getattr(client, kind)):
            here = (*at, kind, number)
            try:
                found.append((here, ClientPattern.parse(kind, text)))
            except ValueError as error:
                fact, remedy = error.args
                findings.error(here, f"{printable(text)!r} {fact}", remedy)
                broken = True
    if client.tenant == ANONYMOUS_TENANT:
        fact = f"{ANONYMOUS_TENANT!r} is the tenant of callers without a credential"
        findings.error((*at, "tenant"), fact, "name another tenant")
    if broken:
        return
    if not found:
        remedy = "write `uri`, `dns` or `common_name`: the name on its certificates"
        findings.error_at_key(at, "by which name its certificates are known is not said", remedy)
    for here, pattern in found:
        if client.tenant is None and not pattern.has_tenant:
            remedy = "write `tenant`, or {tenant} where the name says it"
            findings.error(here, "whose certificates these are is not said", remedy)
        elif client.tenant is not None and pattern.has_tenant:
            fact = "the tenant is said twice, by {tenant} and by `tenant`"
            findings.error(here, fact, "remove `tenant`, or write * for {tenant}")
    yield from found


def _told_apart(found: list[_Found], findings: Findings) -> None:
    """See that of two patterns that fit one name one is the narrower.

    It is wherever the texts of the one stand at places of the other's, so only those are compared that stand at the
    same places, or cross.
    """
    filed: dict[tuple[str, int], dict[tuple[int, ...], list[_Found]]] = {}
    for each in found:
        pattern = each[2]
        filed.setdefault((pattern.kind, len(pattern.segments)), {}).setdefault(pattern.fixed, []).append(each)
    for alike in filed.values():
        for found_alike in alike.values():
            _apart(found_alike, (), findings)
        for (places, some), (other_places, others) in combinations(alike.items(), 2):
            shared = {*places} & {*other_places}
            if len(shared) < min(len(places), len(other_places)):
                _apart(others, some, findings, sorted(shared))


def _apart(found: Sequence[_Found], before: Sequence[_Found], findings: Findings, places: Sequence[int] = ()) -> None:
    """See that patterns differ from those before, at the places where all of them have texts.

    Args:
        before: Left out, each is compared with those that stand before it.
        places: Left out, all places of theirs.
    """
    met: dict[tuple[str, ...], list[_Found]] = {}

    def texts(pattern: ClientPattern) -> tuple[str, ...]:
        return tuple(pattern.segments[number] for number in (places if before else pattern.fixed))

    for each in before:
        met.setdefault(texts(each[2]), []).append(each)
    for each in found:
        at, client, pattern = each
        alike = met.setdefault(texts(pattern), [])
        # Those of one client are all of one tenant, unless they say it themselves.
        first = next((one for one in alike if one[1] != client or pattern.has_tenant), None)
        if first is not None:
            _same(at, first[0], first[1], findings)
        if not before:
            alike.append(each)


def _same(at: KeyPath, first: KeyPath, client: str, findings: Findings) -> None:
    fact = f"{client!r} fits some of the same certificates ({findings.line(first)}), and neither is the narrower"
    findings.error(at, fact, "write the names more exactly, or make one entry of the two")
