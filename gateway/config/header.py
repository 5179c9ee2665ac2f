"""Headers that agents get beside the call: credentials of the gateway, who calls, and those of clients that pass."""

import re
from collections.abc import Iterator

from gateway.a2a.headers import NEVER_FORWARDED, TO_AGENT
from gateway.config import effective
from gateway.config.address import is_grpc
from gateway.config.agent import USUAL_HEADERS, Agent, IdentityHeaders, UpstreamAuth
from gateway.config.backend import backends
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BEARER = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")
# gRPC HTTP/2 §Requests: what a key of metadata looks like, and which belong to gRPC; `-bin` holds what is no text.
_METADATA = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)", re.IGNORECASE)
# What an upstream credential may be called; all else of NEVER_FORWARDED frames the message or names the caller, and
# what is in TO_AGENT comes from the client.
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"cookie"})
# What by custom tells an agent who calls: reserved for whoever knows that, and so for `identity_headers`.
_IDENTITY = frozenset(
    {
        b"x-a2a-tenant", b"x-a2a-subject", b"remote-user", b"x-remote-user", b"x-forwarded-user", b"x-forwarded-email",
        b"x-forwarded-groups", b"x-forwarded-preferred-username",
    }
)  # fmt: skip
# Prefixes of names that the protocol, browsers and proxies give meanings to.
_TAKEN = (b"a2a-", b"proxy-", b"sec-", b"x-forwarded-", b"access-control-", b"grpc-")


def check_headers(config: Config, findings: Findings) -> None:
    """Find what is wrong with the headers that agents get."""
    _identity_headers(config, findings)
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        over_grpc = any(is_grpc(backend.url) for backend, _ in backends(agent, at))
        for auth, here in _upstream_auths(agent, at):
            _upstream_auth(auth, here, findings)
            _not_told(auth, _told(config, agent), here, findings)
            if over_grpc:
                _metadata(auth, here, findings)
            if agent.forward_caller and _names_credential(auth):
                fact = "`forward_caller` and `upstream_auth` both set the credential that the agent gets"
                findings.error((*at, "forward_caller"), fact, "keep one of the two")
        _forward_headers(config, agent, (*at, "forward_headers"), findings)


def _upstream_auths(agent: Agent, at: KeyPath) -> Iterator[tuple[UpstreamAuth, KeyPath]]:
    if agent.upstream_auth is not None:
        yield agent.upstream_auth, (*at, "upstream_auth")
    for tenant, entry in agent.by_tenant.items():
        if entry.upstream_auth is not None:
            yield entry.upstream_auth, (*at, "by_tenant", tenant, "upstream_auth")


def _upstream_auth(auth: UpstreamAuth, at: KeyPath, findings: Findings) -> None:
    if (auth.bearer is None) == (not auth.header):
        remedy = "write `bearer: …` or `header: {NAME: VALUE}`"
        findings.error_at_key(at, "it needs exactly one of `bearer` and `header`", remedy)
        return
    if auth.bearer is not None and _BEARER.fullmatch(auth.bearer.get_secret_value()) is None:
        remedy = "write the token alone, without `Bearer`, spaces or line ends"
        findings.error((*at, "bearer"), "the token is empty or has characters that a token cannot have", remedy)
    for name, value in auth.header.items():
        here: KeyPath = (*at, "header", name)
        if _TOKEN.fullmatch(name) is None:
            findings.error_at_key(here, f"{printable(name)!r} is no header name", "write it as X-Api-Key")
        elif (_is_reserved(name) or _one_spelling(name) in TO_AGENT) and name.lower().encode() not in _CREDENTIALS:
            findings.error_at_key(here, f"the gateway sets {name!r} itself", "use another header for the credential")
        elif _VALUE.fullmatch(value.get_secret_value()) is None:
            remedy = "use visible characters, with no space at the ends and no line end"
            findings.error(here, "the value is empty or has characters that a header cannot have", remedy)
    lower = [name.lower() for name in auth.header]
    if len(set(lower)) != len(lower):
        findings.error((*at, "header"), "two names differ in case only", "keep one of them")


def _not_told(auth: UpstreamAuth, told: dict[str, str], at: KeyPath, findings: Findings) -> None:
    """See that the header of a credential is not one by which the agent is told who calls."""
    identity = {_one_spelling(name) for name in told.values()} - _IDENTITY
    for name in auth.header:
        if _one_spelling(name) in identity:
            fact = f"`identity_headers` tells by {name!r} who calls"
            findings.error_at_key((*at, "header", name), fact, "use another header for the credential")


def _metadata(auth: UpstreamAuth, at: KeyPath, findings: Findings) -> None:
    """See that gRPC, which calls headers metadata, can carry a credential."""
    for name, value in auth.header.items():
        here: KeyPath = (*at, "header", name)
        if _TOKEN.fullmatch(name) is not None and _METADATA.fullmatch(name) is None:
            findings.error_at_key(here, f"{name!r} cannot be metadata of gRPC", _METADATA_REMEDY)
        elif "\t" in value.get_secret_value():
            findings.error(here, "the value has a tab, which metadata of gRPC cannot have", "write it without")


_METADATA_REMEDY = "use a name of letters, digits and . _ -, without grpc- at its start and -bin at its end"


def _names_credential(auth: UpstreamAuth) -> bool:
    return auth.bearer is not None or any(name.lower().encode() in _CREDENTIALS for name in auth.header)


def _forward_headers(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    credentials = {_one_spelling(name) for auth, _ in _upstream_auths(agent, at[:-1]) for name in auth.header}
    identity = {_one_spelling(name) for name in _told(config, agent).values()}
    over_grpc = any(is_grpc(backend.url) for backend, _ in backends(agent, ()))
    for number, name in enumerate(agent.forward_headers):
        here: KeyPath = (*at, number)
        if _TOKEN.fullmatch(name) is None or "_" in name or "*" in name:
            # HTTP would take a * in a name, and whoever writes it here means a pattern.
            remedy = "write a whole header name such as X-Region, without an underscore"
            findings.error(here, f"{printable(name)!r} is no header name that can be forwarded", remedy)
        elif name.lower() in ("authorization", "x-api-key"):
            remedy = "remove it; `forward_caller: true` hands the caller's credential on"
            findings.error(here, f"{name!r} carries the caller's credential", remedy)
        elif _is_reserved(name):
            fact = f"{name!r} belongs to the connection, the gateway or the caller's identity"
            findings.error(here, fact, "remove it: an agent could be misled by it")
        elif _one_spelling(name) in identity:
            fact = f"`identity_headers` tells by {name!r} who calls: a client could say that it is another"
            findings.error(here, fact, "remove it")
        elif name.lower() == "content-type":
            findings.error(here, f"the gateway sets {name!r} itself", "remove it")
        elif over_grpc and _METADATA.fullmatch(name) is None:
            findings.error(here, f"{name!r} cannot be metadata of gRPC", _METADATA_REMEDY)
        elif _one_spelling(name) in credentials:
            fact = f"`upstream_auth` sets {name!r}: a client could add a credential to the gateway's own"
            findings.error(here, fact, "remove it, or use another header for the credential")


_CERTIFICATES = ("client-cert", "ssl-client-", "x-client-cert", "x-ssl-client-", "x-amzn-mtls-")
"""By which proxies tell what is on a client's certificate."""


def _one_spelling(name: str) -> bytes:
    """A header name as many servers see it, for which `X_Key` is `X-Key`."""
    return name.lower().replace("_", "-").encode("ascii", "replace")


def _is_reserved(name: str) -> bool:
    lower = name.lower().replace("_", "-")
    return (
        _one_spelling(name) in NEVER_FORWARDED
        or lower.startswith(("x-forwarded-", "x-a2a-", "proxy-", "sec-", *_CERTIFICATES))
        or lower in ("x-real-ip", "x-original-url", "x-http-method-override")
    )


# ---- identity ------------------------------------------------------------------------------------------------------


def _identity_headers(config: Config, findings: Findings) -> None:
    """See that agents are told who calls by headers that say nothing else."""
    at: KeyPath = ("defaults", "identity_headers")
    _names(config.defaults.identity_headers, at, findings)
    _once(effective.identity_headers(config), config.defaults.identity_headers, at, findings)
    for name, agent in config.agents.items():
        own: KeyPath = ("agents", name, "identity_headers")
        _names(agent.identity_headers, own, findings)
        if agent.identity_headers.model_fields_set:
            _once(effective.identity_headers(config, agent), agent.identity_headers, own, findings)
        if not any(is_grpc(backend.url) for backend, _ in backends(agent, ())):
            continue
        for key, header in _told(config, agent).items():
            if _TOKEN.fullmatch(header) is not None and _METADATA.fullmatch(header) is None:
                here = own if key in agent.identity_headers.model_fields_set else at
                findings.error((*here, key), f"{header!r} cannot be metadata of gRPC", _METADATA_REMEDY)


def _names(headers: IdentityHeaders, at: KeyPath, findings: Findings) -> None:
    for told, claim in headers.claims.items():
        if not claim:
            findings.error((*at, told), "no claim is named", "write claim: and the name of a claim, such as claim:sid")
    for key in headers.model_fields_set:
        name = getattr(headers, key) if key != "claims" else ""
        if not name:
            continue
        if _TOKEN.fullmatch(name) is None or "_" in name:
            remedy = "write a header name such as X-Tenant, without an underscore; null for none"
            findings.error((*at, key), f"{printable(name)!r} is no header name", remedy)
        elif _has_meaning(name):
            fact = f"{name!r} has a meaning of its own to agents, or on the way to them"
            findings.error((*at, key), fact, "use a header of its own, such as X-Tenant")


def _has_meaning(name: str) -> bool:
    spelling = _one_spelling(name)
    if spelling in _IDENTITY:
        return False
    return spelling in TO_AGENT | NEVER_FORWARDED or spelling.startswith(_TAKEN)


def _once(headers: IdentityHeaders, written: IdentityHeaders, at: KeyPath, findings: Findings) -> None:
    seen: dict[bytes, str] = {}
    for key, name in _names_of(headers).items():
        first = seen.setdefault(_one_spelling(name), key)
        if name and first != key:
            here, other = (key, first) if key in written.model_fields_set else (first, key)
            findings.error((*at, here), f"{name!r} is the header of `{other}` too", "give each a header of its own")


def _told(config: Config, agent: Agent) -> dict[str, str]:
    """The headers by which an agent is told who calls."""
    return {key: name for key, name in _names_of(effective.identity_headers(config, agent)).items() if name}


def _names_of(headers: IdentityHeaders) -> dict[str, str]:
    """The names of headers that are whole, by their keys."""
    return {key: getattr(headers, key) for key in USUAL_HEADERS}
