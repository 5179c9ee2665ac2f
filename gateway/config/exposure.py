"""Where the gateway can be reached, and combinations of that which would open it further than its author thinks."""

import ipaddress
from pathlib import Path

from gateway.config.address import Listen, is_loopback, read_authority, read_listen, read_url
from gateway.config.certificate import CertificateUnusable, server_context
from gateway.config.finding import Findings
from gateway.config.model import Config, Gateway, Tls
from gateway.config.problem import KeyPath, printable
from gateway.principal import ANONYMOUS_TENANT

_AT: KeyPath = ("gateway",)
_SHORTEST_TOKEN = 16
"""Characters of an admin token that other machines could try to guess."""


def check_exposure(config: Config, findings: Findings) -> None:
    """Find what is wrong with the listeners and who they let in."""
    gateway = config.gateway
    listen = _listen(gateway.listen, (*_AT, "listen"), findings)
    admin_at: KeyPath = (*_AT, "admin", "listen")
    admin = _listen(gateway.admin.listen, admin_at, findings)
    if listen is not None and admin is not None and listen.collides(admin):
        _collision(gateway, findings)
    if listen is not None and not listen.is_loopback:
        _open(config, findings)
    if gateway.listen_grpc is not None:
        _grpc(config, gateway.listen_grpc, listen, admin, findings)
    _public_grpc(gateway, findings)
    if admin is not None:
        _admin(gateway, admin, findings)
    _public_url(config, findings)
    _anonymous(config, findings)
    _proxies(gateway, findings)
    if gateway.body_limit == 0:
        findings.error((*_AT, "body_limit"), "no request would fit", "write a size above 0, such as 10MiB")
    if gateway.tls is not None:
        _tls(gateway.tls, findings)


def _listen(text: str, at: KeyPath, findings: Findings) -> Listen | None:
    try:
        return read_listen(text)
    except ValueError as error:
        fact, remedy = error.args
        findings.error(at, f"{printable(text)!r} {fact}", remedy)
        return None


def _collision(gateway: Gateway, findings: Findings) -> None:
    written = "listen" in gateway.admin.model_fields_set
    if written:
        fact = f"clients are served there too: `gateway.listen` is {printable(gateway.listen)}"
        findings.error((*_AT, "admin", "listen"), fact, "choose another port for one of the two")
    else:
        fact = f"operators are served there too: `gateway.admin` is {gateway.admin.listen} where it is left out"
        findings.error((*_AT, "listen"), fact, "choose another port, or add `admin: 127.0.0.1:PORT` with another one")


def _open(config: Config, findings: Findings) -> None:
    """What a listener that other machines can reach needs."""
    at: KeyPath = (*_AT, "listen")
    _guarded(config, at, findings)
    if config.gateway.public_url is None:
        remedy = "add `gateway.public_url: https://…`, the URL that clients use: cards advertise it"
        findings.error(at, "there is no `public_url`, and it cannot be guessed for this address", remedy)


def _guarded(config: Config, at: KeyPath, findings: Findings) -> None:
    if config.auth is None and not config.gateway.anonymous:
        remedy = "add `auth`, listen on 127.0.0.1, or write `gateway.anonymous: true` where everyone may call"
        findings.error(at, "without `auth` every machine that reaches this address could call every agent", remedy)


def _grpc(config: Config, text: str, http: Listen | None, admin: Listen | None, findings: Findings) -> None:
    """The listener for clients of gRPC."""
    at: KeyPath = (*_AT, "listen_grpc")
    listen = _listen(text, at, findings)
    if listen is None:
        return
    gateway = config.gateway
    others = (
        ("clients are served over HTTP", "gateway.listen", gateway.listen, http, "listen" in gateway.model_fields_set),
        ("operators are served", "gateway.admin", gateway.admin.listen, admin, "admin" in gateway.model_fields_set),
    )
    for fact, key, shown, other, is_written in others:
        if other is not None and listen.collides(other):
            where = f"`{key}` is {printable(shown)}" + ("" if is_written else " where it is left out")
            findings.error(at, f"{fact} there too: {where}", "choose another port for one of the two")
    if listen.is_loopback:
        return
    _guarded(config, at, findings)
    listed = any("grpc" in agent.expose for agent in config.agents.values())
    if listed and gateway.public_grpc is None:
        remedy = "add `gateway.public_grpc: HOST:PORT`, which clients dial: cards advertise it"
        findings.error(at, "there is no `public_grpc`, and it cannot be guessed for this address", remedy)


def _public_grpc(gateway: Gateway, findings: Findings) -> None:
    at: KeyPath = (*_AT, "public_grpc")
    if gateway.public_grpc is None:
        return
    try:
        read_authority(gateway.public_grpc)
    except ValueError as error:
        fact, remedy = error.args
        findings.error(at, f"{printable(gateway.public_grpc)!r} {fact}", remedy)
        return
    if gateway.listen_grpc is None:
        remedy = "add `listen_grpc: ADDRESS:PORT`, or remove `public_grpc`"
        findings.error_at_key(at, "there is no `listen_grpc` that it could lead to", remedy)


def _admin(gateway: Gateway, admin: Listen, findings: Findings) -> None:
    at: KeyPath = (*_AT, "admin")
    token = gateway.admin.token
    if token is not None and not token.get_secret_value().strip():
        findings.error((*at, "token"), "the token is empty", "write a long random text, best as ${VAR} or ${file:…}")
    elif token is None and not admin.is_loopback:
        remedy = "listen on 127.0.0.1, or write `admin: { listen: …, token: … }`"
        findings.error((*at, "listen"), "other machines could read and steer the gateway without a token", remedy)
    elif token is not None and not admin.is_loopback and len(token.get_secret_value().strip()) < _SHORTEST_TOKEN:
        fact = f"the token has fewer than {_SHORTEST_TOKEN} characters, and other machines could guess it"
        findings.error((*at, "token"), fact, "write a long random text, such as `openssl rand -hex 32` prints")


def _public_url(config: Config, findings: Findings) -> None:
    url = config.gateway.public_url
    at: KeyPath = (*_AT, "public_url")
    if url is None:
        if config.gateway.prefix_stripped:
            remedy = "add `public_url` with the path, or remove `prefix_stripped`"
            findings.error_at_key((*_AT, "prefix_stripped"), "there is no path in front that could be removed", remedy)
        return
    try:
        parts = read_url(url)
    except ValueError as error:
        fact, remedy = error.args
        remedy = "remove it" if "user name" in fact else remedy
        findings.error(at, f"the URL {fact}", remedy)
        return
    if parts.scheme == "http" and config.auth is not None and not is_loopback(parts.hostname or ""):
        fact = "cards would send clients here with their keys and tokens over plain http"
        findings.warning(at, fact, "write the https URL, and let the platform or `gateway.tls` end TLS")


def _anonymous(config: Config, findings: Findings) -> None:
    named = ANONYMOUS_TENANT in config.tenants
    at: KeyPath = ("tenants", ANONYMOUS_TENANT)
    if config.auth is not None and config.gateway.anonymous and not named:
        remedy = f"add `tenants.{ANONYMOUS_TENANT}.agents: […]`, or remove `anonymous`"
        fact = f"callers without a credential reach no agent: there is no `tenants.{ANONYMOUS_TENANT}`"
        findings.warning((*_AT, "anonymous"), fact, remedy)
    if config.auth is not None and not config.gateway.anonymous and named:
        remedy = "write `gateway.anonymous: true`, or remove the tenant"
        findings.warning(at, "callers without a credential are refused before this counts", remedy)
    for name in (ANONYMOUS_TENANT, "*"):
        if name in config.tenants and config.tenants[name].act_for and config.auth is not None:
            who = "callers without a credential" if name == ANONYMOUS_TENANT else "tenants that nobody named"
            findings.error(("tenants", name, "act_for"), f"{who} would act for others", "remove `act_for`")
    everyone = config.tenants.get("*")
    if everyone is not None and everyone.agents is not None and "*" in everyone.agents:
        fact = "whoever signs in reaches every agent, also those that are added later"
        findings.warning(("tenants", "*"), fact, "list the agents that are for everyone")


def _proxies(gateway: Gateway, findings: Findings) -> None:
    for number, text in enumerate(gateway.trusted_proxies):
        at: KeyPath = (*_AT, "trusted_proxies", number)
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            remedy = "write an address or a network without host bits, such as 10.0.0.0/8 or 192.0.2.7"
            findings.error(at, f"{printable(text)!r} is no network", remedy)
            continue
        if network.prefixlen == 0:
            findings.error(
                at, "everyone could say who they are by X-Forwarded-For", "name the networks of your proxies"
            )


def _tls(tls: Tls, findings: Findings) -> None:
    at: KeyPath = (*_AT, "tls")
    folder = Path(findings.marks.place(at).file).parent
    try:
        server_context(folder / tls.cert, folder / tls.key)
    except CertificateUnusable as error:
        file = tls.cert if error.key == "cert" else tls.key
        fact = f"{printable(file)!r} {error.fact}"
        findings.error((*at, error.key), fact, f"{error.remedy}; it is relative to {folder}")
