"""Checks of `agents` and `defaults`: backends, replicas, commands, cards, headers."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

import msgspec

from gateway.a2a.card import CardInvalid, mended, parse_card
from gateway.a2a.command import CommandLine, NoCommand, command_of
from gateway.a2a.dialect import Version
from gateway.a2a.headers import NEVER_FORWARDED, TO_AGENT
from gateway.a2a.paths import fits_path, is_tenant
from gateway.config import effective
from gateway.config.agent import (
    USUAL_HEADERS,
    Affinity,
    Agent,
    AgentTls,
    Backend,
    Card,
    CardSign,
    Defaults,
    Health,
    IdentityHeaders,
    Stdio,
    TokenEndpoint,
    UpstreamAuth,
    backends,
    groups,
    is_several,
    is_stdio,
    replica_name,
    token_endpoints,
    upstream_auths,
)
from gateway.config.checks.findings import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, nearest
from gateway.config.values import HEADER_NAME, METADATA_NAME, SCOPE
from gateway.network.address import ip_of, is_exposed, is_grpc, read_backend, read_url, same_place
from gateway.network.certificate import signing_key
from gateway.telemetry.log_output import printable

# ---- backends --------------------------------------------------------------------------------------------------------


LARGEST_CARD = 256 * 1024
_LONGEST_KID = 256

_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_COMPUTED = frozenset(
    {
        "url", "supportedInterfaces", "additionalInterfaces", "preferredTransport", "signatures", "protocolVersion",
        "protocolVersions", "transportOptions",
    }
)  # fmt: skip
_SECURITY = frozenset({"securitySchemes", "security", "securityRequirements", "authentication"})
_TEXT_OF_CARD, _LIST_OF_CARD, _OBJECT_OF_CARD = ("a text", str), ("a list", list), ("a mapping", dict)
_SETTABLE: Mapping[str, tuple[str, type]] = {
    "name": _TEXT_OF_CARD,
    "description": _TEXT_OF_CARD,
    "version": _TEXT_OF_CARD,
    "provider": _OBJECT_OF_CARD,
    "documentationUrl": _TEXT_OF_CARD,
    "iconUrl": _TEXT_OF_CARD,
    "capabilities": _OBJECT_OF_CARD,
    "skills": _LIST_OF_CARD,
    "defaultInputModes": _LIST_OF_CARD,
    "defaultOutputModes": _LIST_OF_CARD,
    "supportsAuthenticatedExtendedCard": ("true or false", bool),
}
"""Fields that `card.set` may set (`a2a.sanitized_card.OVERRIDABLE`), with their types; null removes the agent's own."""


def check_agents(config: Config, findings: Findings) -> None:
    """Find mistakes in `agents` and `defaults`."""
    signing: dict[str, tuple[str, KeyPath]] = {}
    _check_settings(config, config.defaults, ("defaults",), signing, findings)
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        _check_settings(config, agent, at, signing, findings)
        _check_backends(config, agent, at, findings)
        _check_tls_is_used(agent, at, findings)
        for replicas, here in groups(agent, at):
            _check_replicas(replicas, here, findings)
        _check_settings_of_commands(agent, at, findings)
        _check_affinity_is_shared(config, agent, at, findings)
        _check_headers(config, agent, at, findings)
        if agent.card is not None:
            _check_card(agent.card, (*at, "card"), findings, insecure=effective.allow_insecure(config, agent))
            _check_verification_keys(agent, agent.card, (*at, "card", "verify"), findings)
        if agent.methods == ():
            findings.error((*at, "methods"), "the agent answers no operation", "name some, or leave `methods` out")
        _check_expose(config, agent, (*at, "expose"), findings)


def _check_settings(
    config: Config, part: Defaults | Agent, at: KeyPath, signing: dict[str, tuple[str, KeyPath]], findings: Findings
) -> None:
    """Check the settings that `defaults` and agents have in common."""
    if part.tls is not None:
        _check_tls_settings(part.tls, (*at, "tls"), findings)
    if part.card is not None and part.card.sign is not None:
        _check_signing_key(part.card.sign, (*at, "card", "sign"), signing, findings)
    _check_health(part.health, (config.defaults.health, part.health), (*at, "health"), findings)
    _check_affinity(part.affinity, (*at, "affinity"), findings)
    _check_header_names(part.identity_headers, (*at, "identity_headers"), findings)
    effective_headers = effective.identity_headers(config, part if isinstance(part, Agent) else None)
    _check_header_names_differ(effective_headers, part.identity_headers, (*at, "identity_headers"), findings)


def _check_backends(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    if agent.backend and agent.by_tenant:
        remedy = "keep `backend` for one agent, or `by_tenant` for one per tenant"
        findings.error_at_key((*at, "by_tenant"), "the agent has a `backend` too", remedy)
    if not agent.backend and not agent.by_tenant:
        findings.error_at_key(at, "the agent has no `backend`", "add `backend: https://…`, or `by_tenant`")
    for backend, here in backends(agent, at):
        _check_backend(agent, backend, here, findings, insecure=effective.allow_insecure(config, agent))
    _check_upstream_tenant(agent.upstream_tenant, tuple(one for one, _ in backends(agent, at)), at, findings)
    for tenant, entry in agent.by_tenant.items():
        _check_upstream_tenant(entry.upstream_tenant, entry.backend, (*at, "by_tenant", tenant), findings)


def _check_backend(agent: Agent, backend: Backend, at: KeyPath, findings: Findings, *, insecure: bool) -> None:
    if is_stdio(backend.url) or backend.stdio is not None or backend.card is not None:
        _check_command(agent, backend, at, findings)
        return
    allowed = insecure if backend.allow_insecure is None else backend.allow_insecure
    if _check_url(backend.url, (*at, "url"), findings, insecure=allowed, read=read_backend):
        _check_protocol(backend, at, findings)
    if backend.a2a_version is not None and backend.protocol is None:
        one = "`protocol: jsonrpc`"
        remedy = f"add {one}" if backend.a2a_version is Version.V0_1 else f"add {one} or `protocol: rest`"
        findings.error((*at, "a2a_version"), "a version alone does not say how to speak", remedy)
    if backend.a2a_version is Version.V0_1 and backend.protocol == "rest":
        findings.error((*at, "a2a_version"), "A2A 0.1 knows no HTTP+JSON", "write `protocol: jsonrpc`")
    if backend.a2a_version is Version.V0_1 and backend.protocol == "grpc":
        findings.error((*at, "a2a_version"), "A2A 0.1 knows no gRPC", 'write "0.3" or "1.0"')


def _check_protocol(backend: Backend, at: KeyPath, findings: Findings) -> None:
    """Check that the protocol fits the URL."""
    over_grpc = is_grpc(backend.url)
    if over_grpc and backend.protocol not in (None, "grpc"):
        remedy = "leave `protocol` out, or write an http or https URL"
        findings.error((*at, "protocol"), f"a gRPC URL cannot speak {backend.protocol}", remedy)
    if not over_grpc and backend.protocol == "grpc":
        remedy = "write its URL as grpcs://host:port, or grpc://host:port"
        findings.error((*at, "protocol"), "an http or https URL cannot speak gRPC", remedy)


def _check_url(
    url: str, at: KeyPath, findings: Findings, *, insecure: bool, read: Callable[[str], SplitResult] = read_url
) -> bool:
    """Return whether a URL is valid; add an error if not, or if it must not be dialled."""
    parts = findings.read(at, url, read, subject="the URL")
    if parts is None:
        return False
    if is_exposed(parts) and not insecure:
        remedy = (
            f"use {parts.scheme}s, or write `allow_insecure: true` here or in `defaults` where the network is trusted"
        )
        findings.error(at, f"the URL is plain {parts.scheme} to another machine", remedy)
    return True


def _check_tls_is_used(agent: Agent, at: KeyPath, findings: Findings) -> None:
    urls = [backend.url for backend, _ in backends(agent, ())]
    urls += [] if agent.card is None or agent.card.url is None else [agent.card.url]
    if agent.tls is not None and urls and not any(url.lower().startswith(("https:", "grpcs:")) for url in urls):
        fact = "the agent is not reached over TLS: `tls` has no effect"
        findings.warning((*at, "tls"), fact, "write its URL with https or grpcs, or remove `tls`")


def _check_tls_settings(tls: AgentTls, at: KeyPath, findings: Findings) -> None:
    if tls.server_name is not None and not _HOST.fullmatch(tls.server_name):
        fact = f"{printable(tls.server_name)!r} is no name of a host"
        findings.error((*at, "server_name"), fact, "write a name such as agent.example.com")
    if (tls.cert is None) != (tls.key is None):
        there, missing = ("key", "cert") if tls.cert is None else ("cert", "key")
        findings.error_at_key((*at, there), f"it is of no use without `{missing}`", f"add `{missing}`, or remove it")
    elif tls.cert is not None and tls.key is not None:
        findings.check_certificate(at, tls.cert, tls.key)
    findings.check_authorities((*at, "ca"), tls.ca)


def _check_upstream_tenant(tenant: str | None, to: tuple[Backend, ...], at: KeyPath, findings: Findings) -> None:
    if tenant in (None, "strip", "keep"):
        return
    here: KeyPath = (*at, "upstream_tenant")
    if not is_tenant(tenant):
        remedy = "write strip, keep, or a tenant: 1 to 256 bytes without control characters"
        findings.error(here, f"{printable(str(tenant))!r} can be no tenant", remedy)
    elif not fits_path(tenant) and any(one.protocol == "rest" for one in to):
        fact = f"no path can say {printable(str(tenant))!r}, and `protocol: rest` says the tenant in a path"
        findings.error(here, fact, "write 1 to 64 characters of A-Z a-z 0-9 . _ -, or `protocol: jsonrpc`")


# ---- card -------------------------------------------------------------------------------------------------------


def _check_card(card: Card, at: KeyPath, findings: Findings, *, insecure: bool) -> None:
    if card.url is not None:
        _check_url(card.url, (*at, "url"), findings, insecure=insecure, read=partial(read_url, query=True))
    if card.url is not None and card.file is not None:
        findings.error_at_key((*at, "file"), "the card has a `url` too", "keep one of the two")
    elif card.file is not None:
        _check_card_file(card.file, (*at, "file"), findings)
    for key, value in card.set.items():
        _check_card_member(key, value, (*at, "set", key), findings)


def _check_verification_keys(agent: Agent, card: Card, at: KeyPath, findings: Findings) -> None:
    """Check the keys that verify an agent's card."""
    verify = card.verify
    if verify is None:
        return
    if card.file is not None:
        fact = "the card is a file of yours: nobody else could have changed it"
        findings.error_at_key(at, fact, "remove `verify`, or `file`")
    elif any(is_stdio(backend.url) for backend, _ in backends(agent, ())):
        fact = "the agent is a command of yours on stdio: nobody else could have changed its card"
        findings.error_at_key(at, fact, "remove `verify`")
    if verify.is_fetched:
        reading = partial(read_url, query=True, user="write the URL without credentials")
        parts = findings.read((*at, "keys"), verify.keys, reading, subject="the URL")
        if parts is not None and is_exposed(parts):
            fact = "over plain http anyone on the way could give out keys and sign cards"
            findings.error((*at, "keys"), fact, "use https, or name a file")
    else:
        _check_key_file(verify.keys, (*at, "keys"), findings)


def _check_key_file(file: str, at: KeyPath, findings: Findings) -> None:
    try:
        data = _read_file(file, at, findings, "; a URL begins with https://")
        if data is None:
            return
        keys = msgspec.json.decode(data, type=_KeyFile).keys if len(data) <= LARGEST_CARD else []
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        reason = getattr(error, "strerror", None) or "it is no key set"
        findings.error(at, f"{printable(file)!r} cannot be used: {reason}", _KEY_FILE_REMEDY)
        return
    if any({"d", "k"} & key.keys() for key in keys):
        findings.error(at, f"{printable(file)!r} holds a private or symmetric key", "write public keys alone")
    elif not any(key.get("kid") and key.get("kty") in ("EC", "RSA", "OKP") for key in keys):
        findings.error(at, f"{printable(file)!r} has no public key with a `kid`", _KEY_FILE_REMEDY)


_KEY_FILE_REMEDY = 'write a JWKS: {"keys": [{"kty": "EC", "crv": "P-256", "kid": …, "x": …, "y": …}]}'


class _KeyFile(msgspec.Struct):
    keys: list[dict[str, Any]]


def _check_signing_key(sign: CardSign, at: KeyPath, known: dict[str, tuple[str, KeyPath]], findings: Findings) -> None:
    """Check a key that cards are signed by, beside those that are known by their names."""
    if (sign.key is None) != (sign.kid is None):
        there, missing = ("key", "kid") if sign.kid is None else ("kid", "key")
        remedy = f"add `{missing}`, or write `sign: true` for a key that the gateway makes"
        findings.error_at_key((*at, there), f"it is of no use without `{missing}`", remedy)
    elif sign.key is not None and sign.kid is not None:
        pem = sign.key.get_secret_value()
        try:
            signing_key(pem)
        except ValueError as error:
            remedy = "make one: openssl ecparam -name prime256v1 -genkey -noout, and name its file: ${file:PATH}"
            findings.error((*at, "key"), f"the key cannot be used: {error}", remedy)
        first, where = known.setdefault(sign.kid, (pem, (*at, "kid")))
        if first != pem:
            fact = f"{printable(sign.kid)!r} is the name of another key, {findings.line(where)}"
            findings.error((*at, "kid"), fact, "give one of the two another name")
        if not 0 < len(sign.kid) <= _LONGEST_KID:
            remedy = f"write 1 to {_LONGEST_KID} characters, such as cards-2026"
            findings.error((*at, "kid"), "it can be no name of a key", remedy)


def _check_card_member(key: str, value: object, at: KeyPath, findings: Findings) -> None:
    """Check that the gateway can set a member of a card."""
    if key in _COMPUTED:
        findings.error_at_key(at, f"the gateway computes `{key}` itself", "remove it")
        return
    if key in _SECURITY:
        findings.error_at_key(at, f"the gateway's credentials replace `{key}` in cards", _SECURITY_REMEDY)
        return
    if key not in _SETTABLE:
        remedy = nearest(key, _SETTABLE) or f"write one of: {', '.join(_SETTABLE)}"
        findings.error_at_key(at, f"{printable(key)!r} cannot be set in a card", remedy)
        return
    what, kind = _SETTABLE[key]
    if value is not None and not isinstance(value, kind):
        findings.error(at, f"`{key}` of a card is {what}", f"write {what}")
    elif key == "skills" and isinstance(value, list):
        for number, skill in enumerate(value):
            for member in _SECURITY.intersection(skill if isinstance(skill, dict) else ()):
                fact = f"the gateway's credentials replace `{member}` in cards"
                findings.error_at_key((*at, number, member), fact, _SECURITY_REMEDY)


_SECURITY_REMEDY = (
    "remove it: `auth` sets the credentials of callers, and `require` of the agent their scopes and claims"
)


def _check_expose(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    served = config.gateway.listen_grpc is not None
    if agent.expose == ():
        findings.error(at, "its cards would list no way to call it", "name some bindings, or leave `expose` out")
    unsayable = [
        tenant for tenant in (*(match.tenant for match in agent.match), *agent.by_tenant) if not fits_path(tenant)
    ]
    if agent.expose == ("rest",) and unsayable:
        fact = f"no path can say the tenant {printable(str(unsayable[0]))!r}: its card lists no way to call the agent"
        findings.warning(at, fact, "add jsonrpc or grpc, which say it in the message")
    before: set[str] = set()
    for number, binding in enumerate(agent.expose):
        here: KeyPath = (*at, number)
        if binding in before:
            findings.error(here, f"'{binding}' is there already", "remove one of the two")
        elif binding == "grpc" and not served:
            remedy = "add `gateway.listen_grpc: ADDRESS:PORT`, or remove it here"
            findings.error(here, "gRPC is served nowhere: there is no `gateway.listen_grpc`", remedy)
        before.add(binding)


def _read_file(file: str, at: KeyPath, findings: Findings, hint: str = "") -> bytes | None:
    """Return the contents of a file, one byte beyond `LARGEST_CARD` at most; None, and an error, if it is no file.

    Args:
        hint: The end of the remedy.
    """
    folder = findings.marks.folder(at)
    if not (folder / file).is_file():
        remedy = f"create it, or correct the path, which is relative to {folder}{hint}"
        findings.error(at, f"{printable(file)!r} is no file", remedy)
        return None
    with (folder / file).open("rb") as stream:
        return stream.read(LARGEST_CARD + 1)


def _check_card_file(file: str, at: KeyPath, findings: Findings) -> None:
    try:
        data = _read_file(file, at, findings)
        if data is None:
            return
        if len(data) > LARGEST_CARD:
            findings.error(at, f"the card is larger than {LARGEST_CARD // 1024} KiB", "make it smaller")
            return
        card = msgspec.json.decode(data)
        if not isinstance(card, dict):
            findings.error(at, "the card is no JSON object", "write the card as { … }")
            return
        for fact in mended(card)[1]:
            findings.warning(at, f"the card: {fact}", "correct the file; until then the wrong parts are left out")
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no JSON"
        findings.error(at, f"the card cannot be read: {reason}", "correct the file")


# ---- replicas and health ---------------------------------------------------------------------------------------------

_PATH_OF_CHECK = re.compile(r'/[!"$-~]*')
_OF_REQUESTS = ("every", "timeout", "fail_after", "pass_after")
"""Settings of requests that are only sent with a `path`."""


def _check_replicas(replicas: tuple[Backend, ...], at: KeyPath, findings: Findings) -> None:
    if not replicas:
        findings.error(at, "there is no replica", "name some, or write one URL")
    places: dict[str, int] = {}
    names: dict[str, int] = {}
    for number, one in enumerate(replicas):
        here: KeyPath = (*at, number) if len(replicas) > 1 else at
        _check_dns(one, here, findings)
        if is_stdio(one.url):
            # `processes` keeps track of their tasks; replicas would not.
            if len(replicas) > 1:
                remedy = "write it alone, with `processes: N` in `stdio`; or make it another agent"
                findings.error(here, "a command cannot be one of several replicas", remedy)
            continue
        if is_stdio(replicas[0].url):
            # Reported at the first replica.
            continue
        if is_grpc(one.url) != is_grpc(replicas[0].url):
            fact = "some replicas are behind gRPC and others are not"
            findings.error((*here, "url"), fact, "make them two agents, or reach them all alike")
        first = places.setdefault(same_place(one.url), number)
        if first != number:
            line = findings.line((*at, first))
            findings.error((*here, "url"), f"it is a replica already ({line})", "remove one of the two")
            continue
        first = names.setdefault(replica_name(one), number)
        if first != number:
            fact = f"another replica is called {printable(replica_name(one))!r}, too ({findings.line((*at, first))})"
            findings.error(here, fact, "give each a `label` of its own")
    if replicas and not any(one.weight for one in replicas):
        findings.error((*at, 0, "weight"), "no replica gets any call: every weight is 0", "give one a weight above 0")


def _check_settings_of_commands(agent: Agent, at: KeyPath, findings: Findings) -> None:
    """Check that an agent with commands alone has no settings that have no effect on commands."""
    replicas = [one for several, _ in groups(agent, at) for one in several]
    if not replicas or not all(is_stdio(one.url) for one in replicas):
        return
    if agent.health.path is not None:
        remedy = "remove it, and write `ping` in `stdio`"
        findings.error((*at, "health", "path"), "a command has no path", remedy)
    if agent.retry.model_fields_set:
        findings.error_at_key((*at, "retry"), "nothing is sent to a command again", "remove it")


def _check_dns(one: Backend, at: KeyPath, findings: Findings) -> None:
    if one.dns is None:
        return
    if is_stdio(one.url):
        findings.error_at_key((*at, "dns"), "a command has no name that could be looked up", "remove it")
        return
    # An invalid URL is reported elsewhere.
    with suppress(ValueError):
        if ip_of(read_backend(one.url).hostname or "") is not None:
            remedy = "write a name that has several, or remove it"
            findings.error_at_key((*at, "dns"), "the host is an address already", remedy)


def _check_affinity(written: Affinity, at: KeyPath, findings: Findings) -> None:
    if written.by == "none" and (written.gone or written.wait):
        key = "gone" if written.gone else "wait"
        fact = "no call belongs to a replica: `by` is none"
        findings.error_at_key((*at, key), fact, "remove it, or write `by: task`")


def _check_affinity_is_shared(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    several = [here for replicas, here in groups(agent, at) if is_several(replicas)]
    if not several or config.gateway.replicas == 1 or effective.affinity(config, agent).by == "none":
        return
    if not effective.keeps_owners(config, agent):
        fact = "other gateways will not know which replica made a task: no ledger is kept of this agent's"
        findings.warning(several[0], fact, "write `isolation: tenant` at the agent, or `affinity: none`")


def _check_health(written: Health, holding: tuple[Health, ...], at: KeyPath, findings: Findings) -> None:
    if written.path is not None and _PATH_OF_CHECK.fullmatch(written.path) is None:
        fact = f"{printable(written.path)!r} is no path"
        findings.error((*at, "path"), fact, "start it with /, and write no spaces and no fragment")
    if not any(one.path is not None for one in holding):
        for key in _OF_REQUESTS:
            if key in written.model_fields_set:
                fact = "there are no health checks without `path`"
                findings.error_at_key((*at, key), fact, "add `path: /.well-known/agent-card.json`, or remove it")
    eject = written.eject
    if eject.time is not None and eject.longest is not None and eject.longest < eject.time:
        findings.error((*at, "eject", "longest"), "it is less than `time`", "write at least as much")


# ---- commands --------------------------------------------------------------------------------------------------------


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHOD = re.compile(r"[A-Za-z0-9_./$-]{1,128}")
_PATH = os.defpath


def _check_command(agent: Agent, backend: Backend, at: KeyPath, findings: Findings) -> None:
    """Find mistakes in a backend that is a command."""
    below: KeyPath = (*at, "stdio")
    stdio = Stdio() if backend.stdio is None else backend.stdio
    if not is_stdio(backend.url):
        key = "stdio" if backend.stdio is not None else "card"
        findings.error_at_key((*at, key), "the backend has a `url` too", "keep one of the two")
        return
    if backend.protocol not in (None, "jsonrpc"):
        remedy = "leave `protocol` out"
        findings.error((*at, "protocol"), f"an agent on stdio cannot speak {backend.protocol}", remedy)
    if backend.card is not None and stdio.command:
        findings.error((*below, "command"), "the card names the command too", "keep one of the two")
        return
    _check_environment(stdio, below, findings)
    if stdio.uid is not None and os.geteuid() != 0:
        remedy = "leave `uid` out, or run the gateway as root"
        findings.error((*below, "uid"), "only root can run a command as another user", remedy)
    if _METHOD.fullmatch(stdio.card) is None:
        remedy = "write extended, printed, none, or the name of a method"
        findings.error((*below, "card"), f"{printable(stdio.card)!r} is no method", remedy)
    if agent.card is not None and agent.card.file is not None and backend.card is not None:
        findings.warning((*at, "card"), "the agent has a `card` of its own, which is served", "keep one of the two")
    if stdio.framing == "ndjson" and (agent.upstream_auth is not None or agent.forward_caller or agent.forward_headers):
        fact = "messages that are lines have no headers, so credentials and forwarded headers are not sent"
        findings.warning((*below, "framing"), fact, "write `framing: lsp`, if the agent reads that")
    folder = _check_folder(stdio, below, findings)
    line = _check_command_line(backend, stdio, at, findings)
    if folder is None or line is None:
        return
    environment = dict(line.assignments) | {name: value.get_secret_value() for name, value in stdio.env.items()}
    path = environment.get("PATH", os.environ.get("PATH", _PATH))
    if not _is_installed(line.words[0], folder, path):
        where: KeyPath = (*at, "card") if backend.card is not None else (*below, "command")
        fact = f"there is no program {printable(line.words[0])!r} here"
        findings.warning(where, fact, "install it where the gateway runs, or write the whole path")


def _check_command_line(backend: Backend, stdio: Stdio, at: KeyPath, findings: Findings) -> CommandLine | None:
    if backend.card is None:
        here: KeyPath = (*at, "stdio", "command") if stdio.command else (*at, "stdio")
        if not stdio.command or not stdio.command[0]:
            findings.error_at_key(here, "there is no command", "write `command: [PROGRAM, ARGUMENT, …]`")
            return None
        if any("\0" in word for word in stdio.command):
            findings.error(here, "a word has a character that no command has", "remove it")
            return None
        if len(stdio.command) == 1 and " " in stdio.command[0]:
            fact = f"{printable(stdio.command[0])!r} is one word: the name of the program"
            findings.warning(here, fact, "write a list, a word each: [PROGRAM, ARGUMENT, …]")
        return CommandLine(stdio.command)
    where: KeyPath = (*at, "card")
    folder = findings.marks.folder(where)
    path = folder / backend.card
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # Reading a pipe would wait for a writer.
            raise OSError(errno.EINVAL, "it is no ordinary file")  # noqa: TRY301 - reported as what `read_bytes` raises
        line = command_of(parse_card(path.read_bytes()))
    except OSError as error:
        fact = f"the card {printable(backend.card)!r} cannot be read: {error.strerror}"
        findings.error(where, fact, f"create it, or correct the path, which is relative to {folder}")
        return None
    except CardInvalid as error:
        findings.error(where, f"it is no card: {error}", "correct the file")
        return None
    except NoCommand as error:
        remedy = 'give it an interface with the transport "stdio" and the command as its `url`'
        findings.error(where, str(error), remedy)
        return None
    if line.shell:
        remedy = "start a shell script instead, or write `stdio: { command: [sh, -c, …] }`"
        findings.warning(where, "its command has something in it that only a shell would understand", remedy)
    return line


def _check_environment(stdio: Stdio, at: KeyPath, findings: Findings) -> None:
    for name in stdio.env:
        if _VARIABLE.fullmatch(name) is None:
            findings.error_at_key((*at, "env", name), f"{printable(name)!r} is no name of a variable", _AS_NAME)
    for name, value in stdio.env.items():
        if "\0" in value.get_secret_value():
            findings.error((*at, "env", name), "the value has a character that no variable has", "remove it")
    for number, name in enumerate(stdio.env_from):
        here: KeyPath = (*at, "env_from", number)
        if _VARIABLE.fullmatch(name) is None:
            findings.error(here, f"{printable(name)!r} is no name of a variable", _AS_NAME)
        elif name in stdio.env:
            findings.error(here, f"{name} is in `env` too", "keep one of the two")
        elif name not in os.environ:
            remedy = "set it where the gateway runs, or take the name out"
            findings.warning(here, f"there is no variable {name} here, so the command gets none", remedy)


def _check_folder(stdio: Stdio, at: KeyPath, findings: Findings) -> Path | None:
    here: KeyPath = (*at, "cwd")
    folder = findings.marks.folder(here if stdio.cwd is not None else at).absolute()
    if stdio.cwd is None:
        return folder
    if not (folder / stdio.cwd).is_dir():
        findings.error(here, f"{printable(stdio.cwd)!r} is no folder", f"create it; it is relative to {folder}")
        return None
    return folder / stdio.cwd


def _is_installed(name: str, folder: Path, path: str) -> bool:
    if "/" in name:
        return os.access(folder / name, os.X_OK) and not (folder / name).is_dir()
    return shutil.which(name, path=path) is not None


_AS_NAME = "write letters, digits and _, such as API_TOKEN"


# ---- headers ---------------------------------------------------------------------------------------------------------

_BEARER = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")
# Names of upstream credentials. The rest of NEVER_FORWARDED frames messages or names callers, and TO_AGENT comes from
# the client.
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"cookie"})
# Customary identity headers, which only `identity_headers` may set.
_IDENTITY = frozenset(
    {
        b"x-a2a-tenant", b"x-a2a-subject", b"remote-user", b"x-remote-user", b"x-forwarded-user", b"x-forwarded-email",
        b"x-forwarded-groups", b"x-forwarded-preferred-username",
    }
)  # fmt: skip
# Prefixes of names that the protocol, browsers and proxies give meanings to.
_TAKEN = (b"a2a-", b"proxy-", b"sec-", b"x-forwarded-", b"access-control-", b"grpc-")


def _check_headers(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    over_grpc = any(is_grpc(backend.url) for backend, _ in backends(agent, at))
    named = _header_names(effective.identity_headers(config, agent))
    identity = {_normalized(name) for name in named.values()}
    for key, header in named.items() if over_grpc else ():
        if HEADER_NAME.fullmatch(header) is not None and METADATA_NAME.fullmatch(header) is None:
            here = at if key in agent.identity_headers.model_fields_set else ("defaults",)
            findings.error((*here, "identity_headers", key), f"{header!r} cannot be metadata of gRPC", _METADATA_REMEDY)
    for auth, here in upstream_auths(agent, at):
        _check_upstream_auth(auth, here, findings)
        for name in auth.header:
            # Customary names of identity headers are refused already.
            if _normalized(name) in identity - _IDENTITY:
                fact = f"`identity_headers` names the caller in {name!r}"
                findings.error_at_key((*here, "header", name), fact, "use another header for the credential")
        if over_grpc:
            _check_metadata(auth, here, findings)
        if agent.forward_caller and _sets_credential(auth):
            fact = "`forward_caller` and `upstream_auth` both set the credential that the agent gets"
            findings.error((*at, "forward_caller"), fact, "keep one of the two")
    _check_token_endpoints(config, agent, at, findings)
    credentials = {_normalized(name) for auth, _ in upstream_auths(agent, at) for name in auth.header}
    for number, name in enumerate(agent.forward_headers):
        refused = _forward_refusal(name, identity, credentials, over_grpc=over_grpc)
        if refused is not None:
            fact, remedy = refused
            findings.error((*at, "forward_headers", number), fact, remedy)


def _check_upstream_auth(auth: UpstreamAuth, at: KeyPath, findings: Findings) -> None:
    by_token = auth.oauth2 is not None or auth.exchange is not None
    if [auth.bearer is not None, bool(auth.header), by_token].count(True) != 1:
        remedy = "write `bearer: …`, `header: {NAME: VALUE}`, `oauth2: {…}` or `exchange: {…}`"
        fact = "it needs exactly one of `bearer`, `header`, `oauth2` and `exchange`"
        findings.error_at_key(at, fact, remedy)
        return
    if auth.bearer is not None and _BEARER.fullmatch(auth.bearer.get_secret_value()) is None:
        remedy = "write the token alone, without `Bearer`, spaces or line ends"
        findings.error((*at, "bearer"), "the token is empty or has characters that a token cannot have", remedy)
    for name, value in auth.header.items():
        here: KeyPath = (*at, "header", name)
        if HEADER_NAME.fullmatch(name) is None:
            findings.error_at_key(here, f"{printable(name)!r} is no header name", "write it as X-Api-Key")
        elif (_is_reserved(name) or _normalized(name) in TO_AGENT) and name.lower().encode() not in _CREDENTIALS:
            findings.error_at_key(here, f"the gateway sets {name!r} itself", "use another header for the credential")
        elif _VALUE.fullmatch(value.get_secret_value()) is None:
            remedy = "use visible characters, with no space at the ends and no line end"
            findings.error(here, "the value is empty or has characters that a header cannot have", remedy)
    lower = [name.lower() for name in auth.header]
    if len(set(lower)) != len(lower):
        findings.error((*at, "header"), "two names differ in case only", "keep one of them")


def _check_token_endpoints(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
    """Check the token endpoints of an agent."""
    insecure = effective.allow_insecure(config, agent)
    for endpoint, here in token_endpoints(agent, at):
        if here[-1] == "exchange" and (config.auth is None or not config.auth.issuers):
            remedy = "name the issuer of the callers' tokens in `auth.issuers`, or use `oauth2`"
            findings.error_at_key(here, "a caller's token is to be exchanged, and no caller can show one", remedy)
        if any(is_stdio(one.url) for one, _ in backends(agent, ())):
            remedy = "give the process a credential by its `env`"
            findings.error_at_key(here, "tokens are for agents that are reached by a URL", remedy)
        _check_url(endpoint.token_url, (*here, "token_url"), findings, insecure=insecure)
        _check_token_endpoint(endpoint, here, findings)


def _check_token_endpoint(endpoint: TokenEndpoint, at: KeyPath, findings: Findings) -> None:
    written = {"client_id": endpoint.client_id, "client_secret": endpoint.client_secret.get_secret_value()}
    for key, value in written.items():
        if not value:
            findings.error((*at, key), "it is empty", "write what the authorization server gave the gateway")
    for number, scope in enumerate(endpoint.scopes):
        # RFC 6749 §3.3: a space would make two of it.
        if SCOPE.fullmatch(scope) is None:
            findings.error((*at, "scopes", number), "this is no scope", "write each one by itself, without a space")
    for key in ("audience", "resource"):
        if "" in getattr(endpoint, key):
            findings.error((*at, key), "it is empty", f"write a value, or leave `{key}` out")
    if endpoint.tls is not None:
        findings.check_authorities((*at, "tls", "ca"), endpoint.tls.ca)


def _check_metadata(auth: UpstreamAuth, at: KeyPath, findings: Findings) -> None:
    """Check that gRPC, which calls headers metadata, can carry a credential."""
    for name, value in auth.header.items():
        here: KeyPath = (*at, "header", name)
        if HEADER_NAME.fullmatch(name) is not None and METADATA_NAME.fullmatch(name) is None:
            findings.error_at_key(here, f"{name!r} cannot be metadata of gRPC", _METADATA_REMEDY)
        elif "\t" in value.get_secret_value():
            findings.error(here, "the value has a tab, which metadata of gRPC cannot have", "write it without")


_METADATA_REMEDY = "use a name of letters, digits and . _ -, without grpc- at its start and -bin at its end"


def _sets_credential(auth: UpstreamAuth) -> bool:
    named = any(name.lower().encode() in _CREDENTIALS for name in auth.header)
    return named or any(each is not None for each in (auth.bearer, auth.oauth2, auth.exchange))


def _forward_refusal(
    name: str, identity: set[bytes], credentials: set[bytes], *, over_grpc: bool
) -> tuple[str, str] | None:
    """Return the fact and the remedy for a header that must not be forwarded; None if it may be."""
    if HEADER_NAME.fullmatch(name) is None or "_" in name or "*" in name:
        # HTTP permits a * in a name, but here it is meant as a pattern.
        remedy = "write a whole header name such as X-Region, without an underscore"
        return f"{printable(name)!r} is no header name that can be forwarded", remedy
    if name.lower() in ("authorization", "x-api-key"):
        remedy = "remove it; `forward_caller: true` hands the caller's credential on"
        return f"{name!r} carries the caller's credential", remedy
    if _is_reserved(name):
        fact = f"{name!r} belongs to the connection, the gateway or the caller's identity"
        return fact, "remove it: an agent could be misled by it"
    if _normalized(name) in identity:
        return f"`identity_headers` names the caller in {name!r}: a client could say that it is another", "remove it"
    if name.lower() == "content-type":
        return f"the gateway sets {name!r} itself", "remove it"
    if over_grpc and METADATA_NAME.fullmatch(name) is None:
        return f"{name!r} cannot be metadata of gRPC", _METADATA_REMEDY
    if _normalized(name) in credentials:
        fact = f"`upstream_auth` sets {name!r}: a client could add a credential to the gateway's own"
        return fact, "remove it, or use another header for the credential"
    return None


_CERTIFICATES = ("client-cert", "ssl-client-", "x-client-cert", "x-ssl-client-", "x-amzn-mtls-")
"""Headers by which proxies forward fields of a client's certificate."""


def _normalized(name: str) -> bytes:
    """Return a header name as many servers read it: `X_Key` is `X-Key`."""
    return name.lower().replace("_", "-").encode("ascii", "replace")


def _is_reserved(name: str) -> bool:
    lower = name.lower().replace("_", "-")
    return (
        _normalized(name) in NEVER_FORWARDED
        or lower.startswith(("x-forwarded-", "x-a2a-", "proxy-", "sec-", *_CERTIFICATES))
        or lower in ("x-real-ip", "x-original-url", "x-http-method-override")
    )


# ---- identity ------------------------------------------------------------------------------------------------------


def _check_header_names(headers: IdentityHeaders, at: KeyPath, findings: Findings) -> None:
    for header, claim in headers.claims.items():
        if not claim:
            findings.error(
                (*at, header), "no claim is named", "write claim: and the name of a claim, such as claim:sid"
            )
    for key in headers.model_fields_set:
        name = getattr(headers, key) if key != "claims" else ""
        if not name:
            continue
        if HEADER_NAME.fullmatch(name) is None or "_" in name:
            remedy = "write a header name such as X-Tenant, without an underscore; null for none"
            findings.error((*at, key), f"{printable(name)!r} is no header name", remedy)
        elif _normalized(name) not in _IDENTITY and (
            _normalized(name) in TO_AGENT | NEVER_FORWARDED or _normalized(name).startswith(_TAKEN)
        ):
            fact = f"{name!r} has a meaning of its own to agents, or on the way to them"
            findings.error((*at, key), fact, "use a header of its own, such as X-Tenant")


def _check_header_names_differ(
    headers: IdentityHeaders, written: IdentityHeaders, at: KeyPath, findings: Findings
) -> None:
    seen: dict[bytes, str] = {}
    for key, name in _header_names(headers).items() if written.model_fields_set else ():
        first = seen.setdefault(_normalized(name), key)
        if first != key:
            here, other = (key, first) if key in written.model_fields_set else (first, key)
            findings.error((*at, here), f"{name!r} is the header of `{other}` too", "give each a header of its own")


def _header_names(headers: IdentityHeaders) -> dict[str, str]:
    """Return the names of the headers that are on, by their keys."""
    return {key: name for key in USUAL_HEADERS if (name := getattr(headers, key))}
