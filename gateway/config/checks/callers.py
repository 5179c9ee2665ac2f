"""Checks of `auth` and `tenants`: credentials, certificates of clients, rights, limits."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from typing import TypeAlias

from gateway.a2a.paths import fits_path
from gateway.config import effective
from gateway.config.agent import agent_entries
from gateway.config.checks.findings import Findings, listed
from gateway.config.limit import Limits
from gateway.config.model import ApiKey, Auth, Client, Config, Issuer, Mtls, Tenant
from gateway.config.problem import KeyPath
from gateway.config.routes import EVERYONE, Share, is_shared, lets_in, places, reach
from gateway.config.values import SCOPE
from gateway.identity.client_names import KINDS, METHOD, ClientPattern
from gateway.network.address import is_exposed, read_url
from gateway.network.certificate import read_authorities
from gateway.principal import ANONYMOUS_TENANT
from gateway.routing.route import Reach
from gateway.telemetry.log_output import printable

# ---- API keys and issuers --------------------------------------------------------------------------------------------


LONGEST_LEEWAY = 30.0

_MOST_HASHES = 2
_OF_NOTHING = hashlib.sha256(b"").hexdigest()
"""The result of a shell command that hashes an unset variable."""


def check_callers(config: Config, findings: Findings, today: date) -> None:
    """Find mistakes in `auth` and `tenants`, and between tenants and agents.

    Args:
        today: The day in UTC.
    """
    _check_clients(config, findings, today)
    _check_tenant_names(config, findings)
    _check_agent_names(config, findings)
    _check_requirements(config, findings)
    _check_access_lists_agree(config, findings)
    reached = reach(config)
    _check_match_credentials(config, reached, findings)
    _check_agents_are_reachable(config, reached, findings)
    _check_unknown_tasks(config, reached, findings)
    _check_shared_backends(config, reached, findings)
    _check_limits(config, findings)
    auth = config.auth
    if auth is None:
        return
    if not auth.issuers and not auth.api_keys and auth.mtls is None:
        remedy = "add `api_keys`, `issuers` or `mtls`, or remove `auth` to serve anonymous callers"
        findings.error_at_key(("auth",), "no caller can sign in: there is no key and no issuer", remedy)
    _check_api_keys(auth, findings, today)
    _check_issuers(auth, findings)


def _check_api_keys(auth: Auth, findings: Findings, today: date) -> None:
    seen: dict[str, KeyPath] = {}
    for name, key in auth.api_keys.items():
        at: KeyPath = ("auth", "api_keys", name)
        if len(key.sha256) > _MOST_HASHES:
            fact = f"the key has {len(key.sha256)} hashes"
            findings.error(
                (*at, "sha256"), fact, "keep one, or two while it is being replaced; more are keys of their own"
            )
        if _OF_NOTHING in key.sha256:
            remedy = "`a2a-gateway key new NAME` prints a key and its hash"
            findings.error((*at, "sha256"), "this is the SHA-256 of nothing: no key has it", remedy)
        for digest in key.sha256:
            first = seen.setdefault(digest, at)
            if first is at and key.sha256.count(digest) > 1:
                findings.error(
                    (*at, "sha256"), "the same hash is written twice", "keep one, or write the new key's hash"
                )
                break
            if first is not at:
                fact = f"{first[-1]!r} has the same hash ({findings.line(first)}): its owner would be ambiguous"
                findings.error((*at, "sha256"), fact, "make a key of its own: `a2a-gateway key new NAME`")
        if key.expires is not None and key.expires < today:
            remedy = "remove it, or replace it: `a2a-gateway key new NAME`"
            findings.warning((*at, "expires"), f"the key has expired: its last day was {key.expires}", remedy)
        elif key.expires is not None and key.expires - today < timedelta(days=14):
            remedy = "make the next one: `a2a-gateway key new NAME`; `sha256` may list both for a while"
            findings.warning((*at, "expires"), f"the key expires soon: its last day is {key.expires}", remedy)


def _check_issuers(auth: Auth, findings: Findings) -> None:
    seen: dict[str, KeyPath] = {}
    for name, issuer in auth.issuers.items():
        at: KeyPath = ("auth", "issuers", name)
        first = seen.setdefault(issuer.issuer, at)
        if first is not at:
            fact = f"{first[-1]!r} has the same issuer ({findings.line(first)})"
            findings.error((*at, "issuer"), fact, "make one of the two, with all audiences in its list")
        _check_issuer_urls(issuer, at, findings)
        _check_issuer_tls(issuer, at, findings)
        if (issuer.tenant is None) == (issuer.tenant_claim is None):
            remedy = "write `tenant_claim` where a claim names the tenant, or `tenant` where all tokens have the same"
            findings.error_at_key(at, "it needs exactly one of `tenant` and `tenant_claim`", remedy)
        for key in ("tenant_claim", "principal_claim"):
            if getattr(issuer, key) == "":
                remedy = "write the name of a claim, such as org_id"
                findings.error((*at, key), "no claim is named", remedy)
        _check_tenant_map(issuer, (*at, "tenant_map"), findings)
        if not issuer.audience or "" in issuer.audience:
            remedy = "write what tokens for this gateway have in `aud`"
            findings.error((*at, "audience"), "an empty audience would accept tokens made for others", remedy)
        if not issuer.algorithms:
            findings.error((*at, "algorithms"), "no algorithm is accepted", "name some, or leave `algorithms` out")
        if issuer.leeway > LONGEST_LEEWAY:
            findings.error((*at, "leeway"), "expired tokens would be good for too long", "write at most 30s")


def _check_tenant_map(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.tenant_map and issuer.tenant_claim is None:
        findings.error_at_key(at, "no claim has its values", "name the claim: `tenant_claim: tid`")
    if "tenant_map" in issuer.model_fields_set and not issuer.tenant_map:
        # Without its last entry the claims of tokens would all at once be names of tenants.
        remedy = "list the tenant of each caller, or remove it where claims are names of tenants"
        findings.error_at_key(at, "the map is empty", remedy)


def _check_issuer_urls(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.issuer == "":
        findings.error((*at, "issuer"), "no issuer is named", "write the exact `iss` of its tokens")
    elif issuer.jwks is None:
        _check_fetched_url(issuer.issuer, (*at, "issuer"), findings, "its keys are found below this URL: ", query=False)
    if issuer.jwks is not None:
        _check_fetched_url(issuer.jwks, (*at, "jwks"), findings, "", query=True)


def _check_issuer_tls(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.tls is None:
        return
    findings.check_authorities((*at, "tls", "ca"), issuer.tls.ca)
    if not (issuer.jwks or issuer.issuer).lower().startswith("https:"):
        fact = "the issuer is not reached over TLS: `tls` has no effect"
        findings.warning((*at, "tls"), fact, "write its URL with https, or remove `tls`")


def _check_fetched_url(url: str, at: KeyPath, findings: Findings, why: str, *, query: bool) -> None:
    reading = partial(read_url, query=query, user="write the exact URL, without credentials")
    parts = findings.read(at, url, reading, subject=f"{why}the URL")
    if parts is not None and is_exposed(parts):
        fact = f"{why}over plain http anyone on the way could give out keys and sign tokens"
        findings.error(at, fact, "use https")


# ---- certificates ----------------------------------------------------------------------------------------------------

_MTLS: KeyPath = ("auth", "mtls")
_PlacedPattern: TypeAlias = tuple[KeyPath, str, ClientPattern]
"""A pattern with its place and its client."""


def _check_clients(config: Config, findings: Findings, today: date) -> None:
    auth = config.auth
    if auth is not None and METHOD in auth.issuers:
        # Also before there are certificates: what such tokens own would be owned by names on them some day.
        fact = f"{METHOD!r} is reserved for certificates, and owners would be ambiguous"
        findings.error_at_key(("auth", "issuers", METHOD), fact, "give the issuer another name")
    if auth is None or auth.mtls is None:
        return
    if config.gateway.tls is None:
        fact = "without `gateway.tls` no client shows a certificate"
        remedy = "add `gateway.tls: { cert: …, key: … }`; certificates in a proxy's headers are never trusted"
        findings.error_at_key(_MTLS, fact, remedy)
    _check_client_authorities(auth.mtls, findings, today)
    _check_required_certificates(config, auth, auth.mtls, findings)
    if not auth.mtls.clients:
        remedy = "add `clients` with `NAME: { uri: …, tenant: … }`"
        findings.error_at_key(_MTLS, "no certificate belongs to a client: there are no `clients`", remedy)
    patterns: list[_PlacedPattern] = []
    for name, client in auth.mtls.clients.items():
        patterns += ((at, name, pattern) for at, pattern in _check_patterns(name, client, findings))
    check_patterns_differ(patterns, findings)


def _check_client_authorities(mtls: Mtls, findings: Findings, today: date) -> None:
    at: KeyPath = (*_MTLS, "ca")
    authorities = findings.read_file(at, mtls.ca, read_authorities)
    for name, last in () if authorities is None else authorities.ends:
        if last < today:
            fact = f"{printable(mtls.ca)!r} has an authority that expired: {last}: {printable(name)}"
            findings.warning(at, fact, "remove it, or put in the one that has taken its place")
            return


def _check_required_certificates(config: Config, auth: Auth, mtls: Mtls, findings: Findings) -> None:
    others = "`issuers` and `api_keys`" if auth.issuers and auth.api_keys else "`issuers`" if auth.issuers else ""
    others = others or ("`api_keys`" if auth.api_keys else "")
    if not mtls.require:
        if others and not mtls.with_token and config.gateway.listen_grpc is not None:
            # grpcio asks for a certificate from every client or from none.
            fact = f"{others} have no effect over gRPC: every client shows a certificate, which replaces them"
            findings.warning(_MTLS, fact, "write `with_token: true`, or leave `gateway.listen_grpc` out")
        return
    at: KeyPath = (*_MTLS, "require")
    if others and not mtls.with_token:
        fact = f"{others} would have no effect: all clients show a certificate, which replaces tokens and keys"
        findings.error(at, fact, "write `with_token: true`, or remove `require`")
    if config.gateway.anonymous:
        fact = "callers without a credential are let in by `gateway.anonymous`, and get no connection"
        findings.error(at, fact, "remove one of the two")
    elif config.push.mode == "relay":
        fact = "agents post notifications to `public_url`, and need a certificate of these authorities, too"
        findings.warning(at, fact, "give them one, remove `require`, or write `push.mode: passthrough`")


def _check_patterns(name: str, client: Client, findings: Findings) -> Iterator[tuple[KeyPath, ClientPattern]]:
    at: KeyPath = (*_MTLS, "clients", name)
    patterns: list[tuple[KeyPath, ClientPattern]] = []
    broken = False
    for kind in KINDS:
        for number, text in enumerate(getattr(client, kind)):
            here = (*at, kind, number)
            pattern = findings.read(here, text, partial(ClientPattern.parse, kind))
            broken = broken or pattern is None
            patterns += [] if pattern is None else [(here, pattern)]
    if broken:
        return
    if not patterns:
        remedy = "write `uri`, `dns` or `common_name`: the name on its certificates"
        findings.error_at_key(at, "there is no name for its certificates", remedy)
    for here, pattern in patterns:
        if client.tenant is None and not pattern.has_tenant:
            remedy = "write `tenant`, or {tenant} where the name says it"
            findings.error(here, "there is no tenant for these certificates", remedy)
        elif client.tenant is not None and pattern.has_tenant:
            fact = "the tenant is given twice, by {tenant} and by `tenant`"
            findings.error(here, fact, "remove `tenant`, or write * for {tenant}")
    yield from patterns


def check_patterns_differ(patterns: list[_PlacedPattern], findings: Findings) -> None:
    """Check that of two patterns that fit one name, one is the narrower.

    A pattern without wildcards is narrower than all others, so only equal ones of these meet.
    """
    whole: dict[tuple[object, ...], list[_PlacedPattern]] = {}
    wild: dict[tuple[str, int], list[_PlacedPattern]] = {}
    for each in patterns:
        pattern = each[2]
        if pattern.is_whole:
            alike = whole.setdefault((pattern.kind, pattern.segments), [])
        else:
            alike = wild.setdefault((pattern.kind, len(pattern.segments)), [])
        first = next((one for one in alike if _conflict(each, one)), None)
        if first is not None:
            where = findings.line(first[0])
            fact = f"{first[1]!r} fits some of the same certificates ({where}), and neither is the narrower"
            findings.error(each[0], fact, "write the names more exactly, or make one entry of the two")
        alike.append(each)


def _conflict(one: _PlacedPattern, other: _PlacedPattern) -> bool:
    """Return whether a name may fit both patterns, of different clients or tenants, and neither is the narrower."""
    pattern, rival = one[2], other[2]
    if one[1] == other[1] and not pattern.has_tenant and not rival.has_tenant:
        return False
    return pattern.meets(rival) and not pattern.is_narrower(rival) and not rival.is_narrower(pattern)


# ---- names ---------------------------------------------------------------------------------------------------------


def _credential_tenants(auth: Auth) -> Iterator[tuple[KeyPath, str | None]]:
    """Yield the tenant of each key, issuer and client, with its path."""
    for name, key in auth.api_keys.items():
        yield ("auth", "api_keys", name, "tenant"), key.tenant
    for name, issuer in auth.issuers.items():
        yield ("auth", "issuers", name, "tenant"), issuer.tenant
        for value, tenant in issuer.tenant_map.items():
            yield ("auth", "issuers", name, "tenant_map", value), tenant
    for name, client in ({} if auth.mtls is None else auth.mtls.clients).items():
        yield ("auth", "mtls", "clients", name, "tenant"), client.tenant


def _check_tenant_names(config: Config, findings: Findings) -> None:
    auth = config.auth
    for at, tenant in () if auth is None else _credential_tenants(auth):
        if tenant == ANONYMOUS_TENANT:
            fact = f"{ANONYMOUS_TENANT!r} is the tenant of callers without a credential"
            findings.error(at, fact, "name another tenant")
        elif tenant is not None:
            findings.check_known(at, tenant, config.tenants, "tenant")
    # A key of `by_tenant` may be a tenant without a valid name, for callers that act for it.
    acted = _known_tenants(config, (entry.act_for for entry in config.tenants.values()))
    divided = _known_tenants(config, (agent.by_tenant for agent in config.agents.values()))
    for name, entry in config.tenants.items():
        for number, other in enumerate(entry.act_for):
            findings.check_known(("tenants", name, "act_for", number), other, divided, "tenant")
    # Without `auth` and `tenants` anyone names any tenant: the keys of `by_tenant` are all the names there are.
    closed = auth is not None or bool(config.tenants)
    for name, agent in config.agents.items():
        for number, other in enumerate(agent.allow or ()):
            if other not in (EVERYONE, ANONYMOUS_TENANT):
                findings.check_known(("agents", name, "allow", number), other, config.tenants, "tenant")
        for other in agent.by_tenant if closed else ():
            findings.check_known(("agents", name, "by_tenant", other), other, acted, "tenant", at_key=True)


def _known_tenants(config: Config, written: Iterable[Iterable[str]]) -> frozenset[str]:
    """Return the names of tenants, and the A2A tenants in the file that are not valid names of tenants."""
    return frozenset(config.tenants).union(each for one in written for each in one if not fits_path(each))


def _check_agent_names(config: Config, findings: Findings) -> None:
    auth = config.auth
    holders: list[tuple[KeyPath, Mapping[str, Tenant | ApiKey | Client]]] = [(("tenants",), config.tenants)]
    if auth is not None:
        clients = {} if auth.mtls is None else auth.mtls.clients
        holders += [(("auth", "api_keys"), auth.api_keys), ((*_MTLS, "clients"), clients)]
    for at, entries in holders:
        for name, entry in entries.items():
            for number, agent in enumerate(entry.agents or ()):
                if agent != EVERYONE or at != ("tenants",):
                    findings.check_known((*at, name, "agents", number), agent, config.agents, "agent")


def _check_match_credentials(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    for name, agent in config.agents.items():
        for number, match in enumerate(agent.match):
            at: KeyPath = ("agents", name, "match", number)
            if config.auth is None:
                if match.key is not None or match.claim:
                    written = "key" if match.key is not None else "claim"
                    remedy = "add `auth`, or match by path, host or tenant"
                    findings.error((*at, written), "without `auth` no caller has a key or a claim", remedy)
                continue
            if match.key is None or not findings.check_known((*at, "key"), match.key, config.auth.api_keys, "API key"):
                continue
            key = config.auth.api_keys.get(match.key)
            if key is None:
                continue
            may = reached.get(key.tenant, reached.get(EVERYONE))
            if may is not None and (name not in may.agents or (key.agents is not None and name not in key.agents)):
                remedy = (
                    f"add {name!r} to `tenants.{key.tenant}.agents` and to the key's own `agents` where it has some"
                )
                findings.warning(
                    (*at, "key"), f"the key {match.key!r} may not call {name!r}: the match has no effect", remedy
                )


def _check_requirements(config: Config, findings: Findings) -> None:
    """Find requirements that no caller can meet."""
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name, "require")
        require = agent.require
        if require is None:
            continue
        if not require.scope and not require.role and not require.claim:
            findings.error(at, "it requires nothing", "write a `scope`, `role` or `claim`, or remove `require`")
        for number, scope in enumerate(require.scope):
            if SCOPE.fullmatch(scope) is None:
                remedy = "write one scope without spaces and quotes; several are a list"
                findings.error((*at, "scope", number), f"{printable(scope)!r} is no scope", remedy)
        if "" in require.role:
            findings.error((*at, "role"), "no role is named", "write the name of a role")
        if "" in require.claim:
            findings.error((*at, "claim"), "no claim is named", "write the name of a claim, or the path to it")
        auth = config.auth
        if auth is None:
            remedy = "add `auth` with an issuer, or remove `require`"
            findings.error(at, "without `auth` no caller has a scope, role or claim", remedy)
        elif not auth.issuers and (auth.mtls is None or require.scope or require.role):
            remedy = "add an issuer to `auth.issuers`, or remove `require`"
            findings.warning(at, "no caller can use this agent: without an issuer no caller has a token", remedy)


# ---- what tenants may call -----------------------------------------------------------------------------------------


def _check_access_lists_agree(config: Config, findings: Findings) -> None:
    """Check that `allow` and `tenants.X.agents` agree where both are given."""
    listed = {name: frozenset(entry.agents) for name, entry in config.tenants.items() if entry.agents is not None}
    for name, agent in config.agents.items():
        for number, tenant in enumerate(agent.allow or ()):
            known = listed.get(tenant, frozenset([EVERYONE]))
            if tenant == EVERYONE or name in known or EVERYONE in known:
                continue
            fact = f"the tenant {tenant!r} does not list {name!r} ({findings.line(('tenants', tenant))})"
            remedy = f"add {name!r} to `tenants.{tenant}.agents`, or remove {tenant!r} here"
            findings.error(("agents", name, "allow", number), fact, remedy)
    for tenant, entry in config.tenants.items():
        for number, name in enumerate(entry.agents or ()):
            known_agent = config.agents.get(name)
            if known_agent is None or lets_in(known_agent, tenant):
                continue
            fact = f"{name!r} does not allow {tenant!r} ({findings.line(('agents', name, 'allow'))})"
            remedy = f"add {tenant!r} to `agents.{name}.allow`, or remove {name!r} here"
            findings.error(("tenants", tenant, "agents", number), fact, remedy)


def _check_agents_are_reachable(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    called = frozenset[str]().union(*(one.agents for one in reached.values()))
    for name, agent in config.agents.items():
        if name not in called and agent.allow != ():
            remedy = f"add {name!r} to the `agents` of a tenant"
            findings.warning(("agents", name), "no tenant may call this agent", remedy)
        elif agent.allow == ():
            findings.warning(
                ("agents", name, "allow"), "no tenant may call this agent", "name tenants, or remove `allow`"
            )


# ---- owners of tasks -----------------------------------------------------------------------------------------------


def _check_unknown_tasks(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    """Warn if the first caller that names a task may not be its owner."""
    for parts in places(config, reached):
        for part in parts if is_shared(config, parts) else ():
            agent = config.agents[part.agent]
            if not effective.keeps_owners(config, agent) or effective.unknown_tasks(config, agent) != "adopt":
                continue
            at: KeyPath = (
                ("agents", part.agent, "unknown_tasks") if agent.unknown_tasks else ("defaults", "unknown_tasks")
            )
            fact = f"{_sharing_fact(parts, part)}: the first caller that names an unknown task owns it"
            findings.warning(at, fact, "write deny as soon as the tasks from before the gateway have ended")


def _check_shared_backends(config: Config, reached: Mapping[str, Reach], findings: Findings) -> None:
    """Warn if tasks that are known by one name of a backend are unknown by the other."""
    for first, *others in places(config, reached):
        callers = first.callers.union(*(part.callers for part in others))
        if len(callers) < 2 and EVERYONE not in callers:
            continue
        for part in others:
            if any(effective.keeps_owners(config, config.agents[one.agent]) for one in (first, part)):
                also = f"its backend is that of {first.key!r} too"
                fact = f"{also}: tasks of one are unknown to the other"
                findings.warning(part.at, fact, "make one agent of them, with a `match` for each, or two backends")


def _sharing_fact(parts: tuple[Share, ...], part: Share) -> str:
    callers = frozenset[str]().union(*(one.callers for one in parts))
    named = listed(sorted(callers - {EVERYONE}), 4)
    who = ", ".join([*([named] if named else []), *(["others"] if EVERYONE in callers else [])])
    others = sorted({one.agent for one in parts if one.agent != part.agent})
    also = f", which is the backend of {', '.join(others[:3])} too" if others else ""
    return f"several callers share the backend of {part.key!r} ({who}){also}"


# ---- limits ----------------------------------------------------------------------------------------------------------

_NEEDED = {"burst": "requests", "queue": "concurrency", "queue_timeout": "concurrency"}
"""Limits without effect unless another one is set."""
_MOST = 1_000_000_000
"""Calls that may come at once, as `requests` has no more either: Redis counts millionths of them."""


def _check_limits(config: Config, findings: Findings) -> None:
    """Find limits without effect."""
    for written, holding, at in _written_limits(config):
        for key, needed in _NEEDED.items():
            if key not in written.model_fields_set or any(needed in one.model_fields_set for one in holding):
                continue
            findings.error_at_key((*at, key), f"it limits nothing without `{needed}`", f"add `{needed}`, or remove it")
        _check_limit_values(config, written, at, findings)
    agents = config.agents.values()
    if any(effective.isolation(config, agent) != "none" for agent in agents) or not config.agents:
        return
    for name, tenant in config.tenants.items():
        if tenant.limits.open_tasks is not None:
            fact = "no agent's tasks have owners, so that none are counted: all agents have `isolation: none`"
            findings.warning(("tenants", name, "limits", "open_tasks"), fact, "write `isolation: tenant`, or remove it")


def _check_limit_values(config: Config, written: Limits, at: KeyPath, findings: Findings) -> None:
    gateway = config.gateway
    if written.burst is not None and written.burst > _MOST:
        fact = f"{written.burst} calls are more than {_MOST}"
        findings.error((*at, "burst"), fact, f"write {_MOST} or less, or remove `requests`")
    if written.body is not None and written.body > gateway.body_limit:
        fact = f"it limits nothing: no body is longer than `gateway.body_limit`, {gateway.body_limit} bytes"
        findings.warning((*at, "body"), fact, "write less, or raise `gateway.body_limit`")
    if written.concurrency is not None and written.concurrency < gateway.replicas:
        fact = f"each of {gateway.replicas} gateways lets one call through at least, so that it is {gateway.replicas}"
        findings.warning((*at, "concurrency"), fact, f"write {gateway.replicas} or more")


def _written_limits(config: Config) -> Iterator[tuple[Limits, list[Limits], KeyPath]]:
    """Limits that are written, those that hold together with them, and where they are."""
    for name, tenant in config.tenants.items():
        yield tenant.limits, [tenant.limits], ("tenants", name, "limits")
    default = config.defaults.limits
    written = {name: list(agent_entries(agent, ("agents", name))) for name, agent in config.agents.items()}
    yield default, [default, *(one.limits for of in written.values() for one, _ in of)], ("defaults", "limits")
    for name, agent in config.agents.items():
        for entry, at in written[name]:
            below = [one.limits for one, _ in written[name]] if entry is agent else [agent.limits, entry.limits]
            yield entry.limits, [default, *below], (*at, "limits")
