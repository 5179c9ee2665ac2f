"""Who may call: API keys and the issuers of tokens."""

import hashlib
from datetime import date, timedelta

from gateway.config.address import is_loopback, read_url
from gateway.config.backend import check_authority_file
from gateway.config.finding import Findings
from gateway.config.model import ApiKey, Auth, Config, Issuer
from gateway.config.problem import KeyPath
from gateway.principal import ANONYMOUS_TENANT

LONGEST_LEEWAY = 30.0

_MOST_HASHES = 2
_OF_NOTHING = hashlib.sha256(b"").hexdigest()
"""What a command gives that was to hash a variable which is not set."""


def check_credentials(config: Config, findings: Findings, today: date) -> None:
    """Find what is wrong with the credentials that are accepted.

    Args:
        today: The day in UTC.
    """
    auth = config.auth
    if auth is None:
        return
    if not auth.issuers and not auth.api_keys and auth.mtls is None:
        remedy = "add `api_keys`, `issuers` or `mtls`, or remove `auth` to serve anonymous callers"
        findings.error_at_key(("auth",), "nobody can sign in: there is no key and no issuer", remedy)
    _keys(auth, findings, today)
    _issuers(auth, findings)


def _keys(auth: Auth, findings: Findings, today: date) -> None:
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
                fact = f"{first[-1]!r} has the same hash ({findings.line(first)}): whose key it is cannot be told"
                findings.error((*at, "sha256"), fact, "make a key of its own: `a2a-gateway key new NAME`")
        _anonymous(key, at, findings)
        if key.expires is not None and key.expires < today:
            remedy = "remove it, or replace it: `a2a-gateway key new NAME`"
            findings.warning((*at, "expires"), f"the key has expired: its last day was {key.expires}", remedy)
        elif key.expires is not None and key.expires - today < timedelta(days=14):
            remedy = "make the next one: `a2a-gateway key new NAME`; `sha256` may list both for a while"
            findings.warning((*at, "expires"), f"the key expires soon: its last day is {key.expires}", remedy)


def _issuers(auth: Auth, findings: Findings) -> None:
    seen: dict[str, KeyPath] = {}
    for name, issuer in auth.issuers.items():
        at: KeyPath = ("auth", "issuers", name)
        first = seen.setdefault(issuer.issuer, at)
        if first is not at:
            fact = f"{first[-1]!r} has the same issuer ({findings.line(first)})"
            findings.error((*at, "issuer"), fact, "make one of the two, with all audiences in its list")
        _urls(issuer, at, findings)
        _tls(issuer, at, findings)
        _anonymous(issuer, at, findings)
        if (issuer.tenant is None) == (issuer.tenant_claim is None):
            remedy = "write `tenant_claim` where a claim names the tenant, or `tenant` where all tokens have the same"
            findings.error_at_key(at, "it needs exactly one of `tenant` and `tenant_claim`", remedy)
        for key in ("tenant_claim", "principal_claim"):
            if getattr(issuer, key) == "":
                remedy = "write the name of a claim, such as org_id"
                findings.error((*at, key), "no claim is named", remedy)
        _tenant_map(issuer, (*at, "tenant_map"), findings)
        if not issuer.audience or "" in issuer.audience:
            remedy = "write what tokens for this gateway have in `aud`"
            findings.error((*at, "audience"), "an empty audience would accept tokens made for others", remedy)
        if not issuer.algorithms:
            findings.error((*at, "algorithms"), "no algorithm is accepted", "name some, or leave `algorithms` out")
        if issuer.leeway > LONGEST_LEEWAY:
            findings.error((*at, "leeway"), "expired tokens would be good for too long", "write at most 30s")


def _tenant_map(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.tenant_map and issuer.tenant_claim is None:
        findings.error_at_key(at, "no claim has its values", "name the claim: `tenant_claim: tid`")
    if "tenant_map" in issuer.model_fields_set and not issuer.tenant_map:
        # Without its last entry the claims of tokens would all at once be names of tenants.
        remedy = "write who is which tenant, or remove it where claims are names of tenants"
        findings.error_at_key(at, "it maps nobody to a tenant", remedy)
    for value, tenant in issuer.tenant_map.items():
        if tenant == ANONYMOUS_TENANT:
            fact = f"{ANONYMOUS_TENANT!r} is the tenant of callers without a credential"
            findings.error((*at, value), fact, "name another tenant")


def _urls(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.issuer == "":
        findings.error((*at, "issuer"), "no issuer is named", "write the exact `iss` of its tokens")
    elif issuer.jwks is None:
        _fetched(issuer.issuer, (*at, "issuer"), findings, "its keys are found below this URL: ", query=False)
    if issuer.jwks is not None:
        _fetched(issuer.jwks, (*at, "jwks"), findings, "", query=True)


def _tls(issuer: Issuer, at: KeyPath, findings: Findings) -> None:
    if issuer.tls is None:
        return
    check_authority_file(issuer.tls.ca, (*at, "tls", "ca"), findings)
    if not (issuer.jwks or issuer.issuer).lower().startswith("https:"):
        fact = "the issuer is not reached over TLS: nobody has to vouch"
        findings.warning((*at, "tls"), fact, "write its URL with https, or remove `tls`")


def _fetched(url: str, at: KeyPath, findings: Findings, why: str, *, query: bool) -> None:
    try:
        parts = read_url(url, query=query)
    except ValueError as error:
        fact, remedy = error.args
        remedy = "write the exact URL, without credentials" if "user name" in fact else remedy
        findings.error(at, f"{why}the URL {fact}", remedy)
        return
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        fact = f"{why}over plain http anyone on the way could give out keys and sign tokens"
        findings.error(at, fact, "use https")


def _anonymous(one: ApiKey | Issuer, at: KeyPath, findings: Findings) -> None:
    if one.tenant == ANONYMOUS_TENANT:
        fact = f"{ANONYMOUS_TENANT!r} is the tenant of callers without a credential"
        findings.error((*at, "tenant"), fact, "name another tenant")
