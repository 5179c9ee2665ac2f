"""Checks of `gateway`, `push` and `observe`: listeners, browsers, state, webhooks, certificates."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from gateway.config import effective
from gateway.config.agent import backends, is_stdio
from gateway.config.checks.findings import Findings
from gateway.config.limit import Cors
from gateway.config.model import Config, Gateway, Push
from gateway.config.problem import KeyPath, Problem
from gateway.config.values import HEADER_NAME, METADATA_NAME
from gateway.config.yaml import Marks
from gateway.network.address import Listen, ip_of, is_exposed, is_loopback, read_authority, read_listen, read_url
from gateway.network.certificate import read_authorities, read_certificate
from gateway.principal import ANONYMOUS_TENANT
from gateway.push.webhook_pattern import WebhookPattern
from gateway.telemetry.log_output import printable

# ---- listeners -------------------------------------------------------------------------------------------------------

_AT: KeyPath = ("gateway",)
_TLS: KeyPath = ("gateway", "tls")
_ADMIN_TLS: KeyPath = ("gateway", "admin", "tls")
_SHORTEST_TOKEN = 16
"""Characters of an admin token that other machines could try to guess."""


def check_gateway(config: Config, findings: Findings) -> None:
    """Find mistakes in `gateway`, `push` and `observe`."""
    _check_cors(config, findings)
    _check_state(config, findings)
    _check_push(config, findings)
    _check_validity(config, findings)
    _check_tracing(config, findings)
    gateway = config.gateway
    admin_at: KeyPath = (*_AT, "admin", "listen")
    admin = findings.read(admin_at, gateway.admin.listen, read_listen)
    listens = _check_listen(config, admin, findings)
    if gateway.listen_grpc is not None:
        _check_listen_grpc(config, gateway.listen_grpc, listens, admin, findings)
    _check_public_grpc(gateway, findings)
    if admin is not None:
        _check_admin(gateway, admin, findings)
    if gateway.admin.tls is not None:
        findings.check_certificate(_ADMIN_TLS, gateway.admin.tls.cert, gateway.admin.tls.key)
        if gateway.admin.tls.client_ca is not None:
            findings.read_file((*_ADMIN_TLS, "client_ca"), gateway.admin.tls.client_ca, read_authorities)
    _check_public_url(config, findings)
    _check_anonymous(config, findings)
    if gateway.request_id == "keep" and not gateway.trusted_proxies:
        remedy = "add `trusted_proxies` with the networks of the proxies that give ids, or remove `request_id`"
        findings.error((*_AT, "request_id"), "no id is kept: there is no proxy to trust with it", remedy)
    _check_networks("trusted_proxies", gateway.trusted_proxies, "by X-Forwarded-For", findings)
    _check_networks("proxy_protocol", gateway.proxy_protocol, "by a PROXY header", findings)
    if gateway.tls is not None:
        findings.check_certificate(_TLS, gateway.tls.cert, gateway.tls.key)


def _check_listen(config: Config, admin: Listen | None, findings: Findings) -> list[tuple[str, Listen]]:
    """Check the addresses for clients over HTTP; return those that can be read, each with its text."""
    gateway = config.gateway
    addresses: list[tuple[str, Listen]] = []
    if not gateway.listen:
        findings.error((*_AT, "listen"), "there is no address", "write HOST:PORT")
    for number, text in enumerate(gateway.listen):
        at: KeyPath = (*_AT, "listen", number)
        listen = findings.read(at, text, read_listen)
        if listen is None:
            continue
        if any(listen.collides(other) for _, other in addresses):
            findings.error(at, "another address of `gateway.listen` is there already", "remove one of the two")
        if admin is not None and listen.collides(admin):
            _report_collision(text, at, gateway, findings)
        if not listen.is_loopback:
            _check_callers_are_known(config, at, findings)
            if gateway.public_url is None:
                remedy = "add `gateway.public_url: https://…`, the URL that clients use: cards advertise it"
                findings.error(at, "there is no `public_url`, and it cannot be guessed for this address", remedy)
        addresses.append((text, listen))
    if addresses and gateway.public_url is None and all(listen.path for _, listen in addresses):
        remedy = "add `gateway.public_url: https://…`, the URL that clients use: cards advertise it"
        findings.error((*_AT, "listen"), "there is no `public_url`, and a Unix socket has none", remedy)
    return addresses


def _report_collision(text: str, at: KeyPath, gateway: Gateway, findings: Findings) -> None:
    if "listen" in gateway.admin.model_fields_set:
        fact = f"clients are served there too: `gateway.listen` is {printable(text)}"
        findings.error((*_AT, "admin", "listen"), fact, "choose another port for one of the two")
    else:
        fact = f"operators are served there too: `gateway.admin` is {gateway.admin.listen} where it is left out"
        findings.error(at, fact, "choose another port, or add `admin: 127.0.0.1:PORT` with another one")


def _check_callers_are_known(config: Config, at: KeyPath, findings: Findings) -> None:
    if config.auth is None and not config.gateway.anonymous:
        remedy = "add `auth`, listen on 127.0.0.1, or write `gateway.anonymous: true` where everyone may call"
        findings.error(at, "without `auth` every machine that reaches this address could call every agent", remedy)


def _check_listen_grpc(
    config: Config, text: str, http: list[tuple[str, Listen]], admin: Listen | None, findings: Findings
) -> None:
    """Check the listener for gRPC clients."""
    at: KeyPath = (*_AT, "listen_grpc")
    listen = findings.read(at, text, read_listen)
    if listen is None:
        return
    if listen.path:
        findings.error(at, "gRPC is served at no Unix socket", "write HOST:PORT, such as 127.0.0.1:8081")
        return
    gateway = config.gateway
    is_written = "listen" in gateway.model_fields_set
    others = (
        *(("clients are served over HTTP", "gateway.listen", shown, other, is_written) for shown, other in http),
        ("operators are served", "gateway.admin", gateway.admin.listen, admin, "admin" in gateway.model_fields_set),
    )
    for fact, key, shown, other, is_written in others:
        if other is not None and listen.collides(other):
            where = f"`{key}` is {printable(shown)}" + ("" if is_written else " where it is left out")
            findings.error(at, f"{fact} there too: {where}", "choose another port for one of the two")
    if listen.is_loopback:
        return
    _check_callers_are_known(config, at, findings)
    listed = any("grpc" in agent.expose for agent in config.agents.values())
    if listed and gateway.public_grpc is None:
        remedy = "add `gateway.public_grpc: HOST:PORT`, which clients dial: cards advertise it"
        findings.error(at, "there is no `public_grpc`, and it cannot be guessed for this address", remedy)


def _check_public_grpc(gateway: Gateway, findings: Findings) -> None:
    at: KeyPath = (*_AT, "public_grpc")
    if gateway.public_grpc is None:
        return
    if findings.read(at, gateway.public_grpc, read_authority) is not None and gateway.listen_grpc is None:
        remedy = "add `listen_grpc: ADDRESS:PORT`, or remove `public_grpc`"
        findings.error_at_key(at, "there is no `listen_grpc` that it could lead to", remedy)


def _check_admin(gateway: Gateway, admin: Listen, findings: Findings) -> None:
    at: KeyPath = (*_AT, "admin")
    token = gateway.admin.token
    if token is not None and not token.get_secret_value().strip():
        findings.error((*at, "token"), "the token is empty", "write a long random text, best as ${VAR} or ${file:…}")
    elif token is None and not admin.is_loopback and (gateway.admin.tls is None or gateway.admin.tls.client_ca is None):
        remedy = "listen on 127.0.0.1, or write `admin: { listen: …, token: … }`"
        findings.error((*at, "listen"), "other machines could read and control the gateway without a token", remedy)
    elif token is not None and not admin.is_loopback and len(token.get_secret_value().strip()) < _SHORTEST_TOKEN:
        fact = f"the token has fewer than {_SHORTEST_TOKEN} characters, and other machines could guess it"
        findings.error((*at, "token"), fact, "write a long random text, such as `openssl rand -hex 32` prints")


def _check_public_url(config: Config, findings: Findings) -> None:
    url = config.gateway.public_url
    at: KeyPath = (*_AT, "public_url")
    if url is None:
        if config.gateway.prefix_stripped:
            remedy = "add `public_url` with the path, or remove `prefix_stripped`"
            findings.error_at_key((*_AT, "prefix_stripped"), "there is no path in front that could be removed", remedy)
        return
    parts = findings.read(at, url, partial(read_url, user="remove it"), subject="the URL")
    if parts is not None and config.auth is not None and is_exposed(parts):
        fact = "cards would send clients here with their keys and tokens over plain http"
        findings.warning(at, fact, "write the https URL, and let the platform or `gateway.tls` end TLS")


def _check_anonymous(config: Config, findings: Findings) -> None:
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
            who = "callers without a credential" if name == ANONYMOUS_TENANT else "tenants without a name in the file"
            findings.error(("tenants", name, "act_for"), f"{who} would act for others", "remove `act_for`")
    everyone = config.tenants.get("*")
    if everyone is not None and everyone.agents is not None and "*" in everyone.agents:
        fact = "every authenticated tenant reaches every agent, also those that are added later"
        findings.warning(("tenants", "*"), fact, "list the agents that are for everyone")


def _check_networks(key: str, networks: Sequence[str], how: str, findings: Findings) -> None:
    for number, text in enumerate(networks):
        at: KeyPath = (*_AT, key, number)
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            remedy = "write an address or a network without host bits, such as 10.0.0.0/8 or 192.0.2.7"
            findings.error(at, f"{printable(text)!r} is no network", remedy)
            continue
        if network.prefixlen == 0:
            findings.error(at, f"everyone could say who they are {how}", "name the networks of your proxies")


# ---- browsers --------------------------------------------------------------------------------------------------------

_CORS: KeyPath = ("gateway", "cors")
_DEFAULT_PORT = {"http": 80, "https": 443}
# Headers that browsers never let a page set, and those that never pass here.
_NEVER = re.compile(
    r"(?i)(?:proxy-.*|sec-.*|access-control-.*|host|origin|cookie|connection|te|upgrade|content-length)"
)


def _check_cors(config: Config, findings: Findings) -> None:
    cors = config.gateway.cors
    if cors is None:
        return
    if not cors.origins:
        findings.error((*_CORS, "origins"), "no origin may call", "name some, or remove `cors`")
    for number, origin in enumerate(cors.origins):
        _check_origin(origin, (*_CORS, "origins", number), findings)
    _check_any_origin(cors, findings)
    for number, name in enumerate(cors.headers):
        if HEADER_NAME.fullmatch(name) is None or name == "*" or "_" in name or _NEVER.fullmatch(name) is not None:
            fact = f"{printable(name)!r} is no header that a page can send to an agent"
            findings.error((*_CORS, "headers", number), fact, "write a header name such as X-Region")


def _check_origin(origin: str, at: KeyPath, findings: Findings) -> None:
    if origin == "*":
        return
    if origin == "null":
        fact = "'null' is the origin of every sandboxed page and local file"
        findings.error(at, fact, "serve the page from an origin of its own, and name that")
        return
    try:
        parts = read_url(origin)
    except ValueError as error:
        findings.error(at, f"the origin {error.args[0]}", "write it as https://host[:port], as browsers send it")
        return
    # Origins are compared byte by byte with those of browsers.
    named = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
    port = "" if parts.port in (None, _DEFAULT_PORT[parts.scheme]) else f":{parts.port}"
    written = f"{parts.scheme}://{named.lower()}{port}"
    if origin != written:
        findings.error(at, f"no browser writes the origin {printable(origin)!r} so", f"write {written}")


def _check_any_origin(cors: Cors, findings: Findings) -> None:
    if "*" not in cors.origins:
        return
    if cors.credentials:
        fact = "every web page could call with the credentials of its visitors"
        findings.error((*_CORS, "credentials"), fact, "name the origins instead of `*`, or remove `credentials`")
    elif len(cors.origins) > 1:
        findings.error((*_CORS, "origins"), "`*` is every origin already", "keep `*` alone, or remove it")


# ---- state and audit -------------------------------------------------------------------------------------------------

_STATE: KeyPath = ("gateway", "state")
_ACCESS: KeyPath = ("observe", "log", "file")
_AUDIT: KeyPath = ("observe", "audit", "file")
# The bound of Linux.
_LONGEST_NAME = 255


def _check_state(config: Config, findings: Findings) -> None:
    """Check the places that the gateway writes to.

    Missing folders are not reported, because the file may be checked on another machine.
    """
    gateway = config.gateway
    if gateway.state is not None and gateway.state.kind == "sqlite":
        path = gateway.state.beside(findings.marks.folder(_STATE)).path
        # A name that is too long is reported when the file is opened.
        if os.path.isdir(path):  # noqa: PTH112 - that of pathlib raises
            findings.error(_STATE, "this is a folder", "name a file in it, such as state.db")
    if gateway.replicas > 1 and (gateway.state is None or not gateway.state.is_shared):
        kept = "memory" if gateway.state is not None and gateway.state.kind == "memory" else "a file"
        fact = f"each of {gateway.replicas} gateways would keep a ledger of its own in {kept}"
        findings.error(("gateway", "replicas"), fact, "write `gateway.state: redis://HOST:PORT/DB`, for all of them")
    _check_logs(config, findings)
    ledger = gateway.ledger
    if ledger.ended > ledger.open:
        key = "ended" if "ended" in ledger.model_fields_set else "open"
        fact = "ended tasks are remembered for longer than open ones and than their contexts"
        findings.warning(("gateway", "ledger", key), fact, "write an `open` that is as long as `ended`, or longer")


def _check_logs(config: Config, findings: Findings) -> None:
    log = config.observe.log
    access, audit = effective.access_log(config, findings.marks), effective.audit(config, findings.marks)
    if audit is None and log.level in ("warning", "error"):
        fact = "audit events are logged at level info, so that they are lost"
        findings.warning(("observe", "log", "level"), fact, "name a file in `observe.audit`, or write `level: info`")
    if access is not None:
        _check_log_file(config, _ACCESS, log.file or "", access, findings)
    if audit is None or audit == effective.STANDARD_OUTPUT:
        return
    _check_log_file(config, _AUDIT, "" if config.observe.audit is None else config.observe.audit.file, audit, findings)
    if access is not None and os.path.normpath(access) == os.path.normpath(audit):
        fact = f"the access log is written there ({findings.line(_ACCESS)})"
        findings.error(_AUDIT, fact, "name another file")


def _check_log_file(config: Config, at: KeyPath, written: str, file: Path, findings: Findings) -> None:
    example = "audit" if at == _AUDIT else "access"
    remedy = f"name a file, such as /var/log/a2a-gateway/{example}.jsonl, or " + (
        "- for standard output" if at == _AUDIT else "remove it for standard output"
    )
    if not written or written == "-" or written.endswith("/") or not written.isprintable():
        findings.error(at, f"{printable(written)!r} names no file", remedy)
    elif len(os.fsencode(file.name)) > _LONGEST_NAME:
        findings.error(at, f"names a file by more than {_LONGEST_NAME} bytes", remedy)
    elif os.path.isdir(file):  # noqa: PTH112 - as above
        findings.error(at, f"{printable(written)!r} is a folder", remedy)
    elif config.gateway.state is not None and config.gateway.state.kind == "sqlite":
        state = config.gateway.state.beside(findings.marks.folder(_STATE)).path
        if os.path.normpath(state) == os.path.normpath(file):
            findings.error(at, f"the state is kept there ({findings.line(_STATE)})", "name another file")


# ---- tracing ---------------------------------------------------------------------------------------------------------

_TRACING: KeyPath = ("observe", "tracing")
_PACKAGES = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
}
_OTHER_PORT = {"grpc": 4318, "http/protobuf": 4317}
"""The port at which collectors speak the other protocol."""
_METADATA_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def _check_tracing(config: Config, findings: Findings) -> None:
    written = effective.tracing(config)
    if written is None:
        return
    if not _is_installed(_PACKAGES[written.protocol]):
        fact = "the packages that export traces are not installed"
        findings.error_at_key(_TRACING, fact, "pip install 'a2a-gateway[otel]'")
    at: KeyPath = (*_TRACING, "otlp")
    read = partial(read_url, user="write the credential in `headers`")
    parts = findings.read(at, written.otlp, read, subject="the URL")
    for name, value in written.headers.items():
        here: KeyPath = (*_TRACING, "headers", name)
        # Keys of gRPC metadata are names of HTTP headers, too.
        if METADATA_NAME.fullmatch(name) is None:
            remedy = "use letters, digits and . _ -, without grpc- at its start and -bin at its end"
            findings.error_at_key(here, f"{printable(name)!r} is no header name", remedy)
        elif _METADATA_VALUE.fullmatch(value.get_secret_value()) is None:
            remedy = "use visible characters, with no space at the ends and no line end"
            findings.error(here, "the value is empty or has characters that a header cannot have", remedy)
    if parts is None:
        return
    if parts.port == _OTHER_PORT[written.protocol]:
        fact = f"collectors do not speak {written.protocol} at port {parts.port} by default"
        findings.warning(at, fact, "write the `protocol` that the collector speaks there, or its other port")
    if written.protocol == "grpc" and parts.path not in ("", "/"):
        findings.error(at, "the URL has a path, and gRPC has none", "remove it, or write `protocol: http/protobuf`")
    if written.headers and is_exposed(parts):
        findings.warning((*_TRACING, "headers"), "they go to the collector over plain http", "write the https URL")


def _is_installed(module: str) -> bool:
    try:
        # Loads its parents, which are empty, and not the package: the process may fork workers.
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# ---- push ------------------------------------------------------------------------------------------------------------

_PUSH: KeyPath = ("push",)
_ALLOW: KeyPath = (*_PUSH, "allow")
_RELAYED = frozenset({"deliver", "max_per_task", "max_per_tenant", "sign", "tls"})


def _check_push(config: Config, findings: Findings) -> None:
    push = config.push
    if "allow" in push.model_fields_set and not push.allow:
        findings.error(_ALLOW, "no webhook may be named", "write `mode: none` for that, or name some")
    for number, pattern in enumerate(push.allow):
        _check_webhook_pattern(pattern, push, (*_ALLOW, number), findings)
    if not push.block_private_networks and not push.allow:
        fact = "it opens nothing: only webhooks that `allow` lists may have private addresses"
        findings.warning((*_PUSH, "block_private_networks"), fact, "list them in `allow`, or remove it")
    if push.mode != "relay":
        for key in sorted(_RELAYED & push.model_fields_set):
            fact = f"it says how the gateway calls webhooks, and it calls none: `push.mode` is {push.mode}"
            findings.warning((*_PUSH, key), fact, "write `mode: relay`, or remove it")
    if push.mode == "none" and push.allow:
        findings.warning(_ALLOW, "no webhook may be named: `push.mode` is none", "remove one of the two")
    if push.tls is not None:
        findings.check_authorities((*_PUSH, "tls", "ca"), push.tls.ca)
    deliver = push.deliver
    if deliver.longest_pause < deliver.first_pause:
        written = "longest_pause" if "longest_pause" in deliver.model_fields_set else "first_pause"
        fact = "the longest pause would be shorter than the first"
        findings.error((*_PUSH, "deliver", written), fact, "make `longest_pause` the longer one")


def _check_webhook_pattern(pattern: WebhookPattern, push: Push, at: KeyPath, findings: Findings) -> None:
    address = ip_of(pattern.host)
    if address is not None and (address.is_link_local or address.is_multicast or address.is_unspecified):
        # Clouds serve credentials there, or it is not the address of a machine.
        findings.error(at, "no webhook is called at this address, even if listed", "name a machine's own address")
        return
    if not push.block_private_networks:
        return
    if pattern.scheme == "http":
        fact = "plain http goes nowhere while private networks are blocked"
        findings.error(at, fact, "write https, or `block_private_networks: false` where what is listed may be private")
    elif is_loopback(pattern.host) if address is None else not address.is_global:
        fact = "the address is private, and private networks are blocked"
        findings.error(at, fact, "write `block_private_networks: false` where what is listed may be private")


# ---- certificates ----------------------------------------------------------------------------------------------------

_RENEW = "renew it; the gateway reads the new one without a restart"


def _check_validity(config: Config, findings: Findings) -> None:
    """Warn of certificates of the gateway that have expired or are not valid yet."""
    # Many certificates are valid for hours only.
    now = datetime.now(UTC)
    known: dict[Path, str] = {}
    for at, file in effective.certificates(config).items():
        path = findings.marks.folder(at) / file
        if path not in known:
            known[path] = _validity_fact(path, now)
        if why := known[path]:
            findings.warning((*at, "cert"), f"{printable(file)!r} {why}", _RENEW)


def _validity_fact(file: Path, now: datetime) -> str:
    """Return the fact about the dates of the first certificate of a file; empty if it is good or cannot be read."""
    certificate = read_certificate(file)
    if certificate is None:
        return ""
    if certificate.not_valid_after_utc < now:
        return f"has expired: it was valid until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if certificate.not_valid_before_utc > now:
        return f"is not valid yet: it begins at {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    return ""


# ---- several workers -------------------------------------------------------------------------------------------------


def check_workers(config: Config, marks: Marks, processes: int) -> tuple[Problem, ...]:
    """Return the settings with which several processes cannot serve a configuration."""
    if processes == 1:
        return ()
    findings = Findings(marks)
    # A file serves all processes of a machine, and is the default.
    if effective.keeps_state(config) and config.gateway.state is not None and config.gateway.state.kind == "memory":
        fact = f"{processes} workers would each keep a ledger of their own"
        remedy = "write `gateway.state: sqlite:///PATH`, or a Redis where limits have to be exact, or serve with one"
        findings.error(("gateway", "state"), fact, remedy)
    for name, agent in config.agents.items():
        for backend, at in backends(agent, ("agents", name)):
            if is_stdio(backend.url):
                fact = f"{processes} workers would each start this command, and one does not know the other's tasks"
                findings.error(at, fact, "serve with one worker, or run the agent behind a URL")
    return tuple(findings.problems)
