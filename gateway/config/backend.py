"""What lies behind an agent: its address, card and patience."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult

import msgspec

from gateway.a2a.card import mended
from gateway.a2a.dialect import Version
from gateway.a2a.tenant import fits_path, is_tenant
from gateway.config.address import is_grpc, is_loopback, read_backend, read_url
from gateway.config.agent import Agent, AgentTls, Backend, Card, Timeouts
from gateway.config.certificate import CertificateUnusable, check_authorities, server_context
from gateway.config.command import check_command
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.peer_tls import SYSTEM
from gateway.config.problem import KeyPath, nearest, printable
from gateway.config.stdio import is_stdio

LARGEST_CARD = 256 * 1024

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
"""What `card.set` may set (`a2a.portrait.OVERRIDABLE`), and what it has to be; null takes away what the agent says."""


def check_backends(config: Config, findings: Findings) -> None:
    """Find what is wrong behind each agent."""
    _timeouts(config.defaults.timeouts, ("defaults", "timeouts"), findings)
    _tls(config, findings)
    for name, agent in config.agents.items():
        at: KeyPath = ("agents", name)
        _presence(agent, at, findings)
        insecure = config.defaults.allow_insecure if agent.allow_insecure is None else agent.allow_insecure
        for backend, here in backends(agent, at):
            _backend(agent, backend, here, findings, insecure=insecure)
        for tenant, here in _upstream_tenants(agent, at):
            if not is_tenant(tenant):
                remedy = "write strip, keep, or a tenant: 1 to 256 bytes without control characters"
                findings.error(here, f"{printable(tenant)!r} can be no tenant", remedy)
            elif not fits_path(tenant) and any(one.protocol == "rest" for one in _of(agent, here)):
                fact = f"no path can say {printable(tenant)!r}, and `protocol: rest` says the tenant in a path"
                findings.error(here, fact, "write 1 to 64 characters of A-Z a-z 0-9 . _ -, or `protocol: jsonrpc`")
        if agent.card is not None:
            _card(agent.card, (*at, "card"), findings, insecure=insecure)
        if agent.methods == ():
            findings.error((*at, "methods"), "the agent answers no operation", "name some, or leave `methods` out")
        _exposed(config, agent, (*at, "expose"), findings)
        _timeouts(agent.timeouts, (*at, "timeouts"), findings)


def backends(agent: Agent, at: KeyPath) -> Iterator[tuple[Backend, KeyPath]]:
    """The backends of an agent, with where each is written."""
    yield from _numbered(agent.backend, (*at, "backend"))
    for tenant, entry in agent.by_tenant.items():
        yield from _numbered(entry.backend, (*at, "by_tenant", tenant, "backend"))


def _numbered(replicas: tuple[Backend, ...], at: KeyPath) -> Iterator[tuple[Backend, KeyPath]]:
    # One is mostly written without a list.
    several = len(replicas) > 1
    for number, backend in enumerate(replicas):
        yield backend, (*at, number) if several else at


def _presence(agent: Agent, at: KeyPath, findings: Findings) -> None:
    if agent.backend and agent.by_tenant:
        remedy = "keep `backend` for one agent, or `by_tenant` for one per tenant"
        findings.error_at_key((*at, "by_tenant"), "the agent has a `backend` too", remedy)
    if not agent.backend and not agent.by_tenant:
        findings.error_at_key(at, "the agent has no `backend`", "add `backend: https://…`, or `by_tenant`")


def _backend(agent: Agent, backend: Backend, at: KeyPath, findings: Findings, *, insecure: bool) -> None:
    if is_stdio(backend.url) or backend.stdio is not None or backend.card is not None:
        check_command(agent, backend, at, findings)
        return
    allowed = insecure if backend.allow_insecure is None else backend.allow_insecure
    if _dialled(backend.url, (*at, "url"), findings, insecure=allowed, read=read_backend):
        _binding(backend, at, findings)
    if backend.a2a_version is not None and backend.protocol is None:
        one = "`protocol: jsonrpc`"
        remedy = f"add {one}" if backend.a2a_version is Version.V0_1 else f"add {one} or `protocol: rest`"
        findings.error((*at, "a2a_version"), "a version alone does not say how to speak", remedy)
    if backend.a2a_version is Version.V0_1 and backend.protocol == "rest":
        findings.error((*at, "a2a_version"), "A2A 0.1 knows no HTTP+JSON", "write `protocol: jsonrpc`")
    if backend.a2a_version is Version.V0_1 and backend.protocol == "grpc":
        findings.error((*at, "a2a_version"), "A2A 0.1 knows no gRPC", 'write "0.3" or "1.0"')


def _binding(backend: Backend, at: KeyPath, findings: Findings) -> None:
    """See that what is spoken is what the URL is for."""
    over_grpc = is_grpc(backend.url)
    if over_grpc and backend.protocol not in (None, "grpc"):
        remedy = "leave `protocol` out, or write an http or https URL"
        findings.error((*at, "protocol"), f"nobody speaks {backend.protocol} behind a gRPC URL", remedy)
    if not over_grpc and backend.protocol == "grpc":
        remedy = "write its URL as grpcs://host:port, or grpc://host:port"
        findings.error((*at, "protocol"), "nobody speaks gRPC behind an http or https URL", remedy)


def _dialled(
    url: str, at: KeyPath, findings: Findings, *, insecure: bool, read: Callable[[str], SplitResult] = read_url
) -> bool:
    """Whether a URL is one; tells it where it is not, or where it is not to be dialled."""
    try:
        parts = read(url)
    except ValueError as error:
        fact, remedy = error.args
        findings.error(at, f"the URL {fact}", remedy)
        return False
    plain = {"http": "https", "grpc": "grpcs"}
    if parts.scheme in plain and not insecure and not is_loopback(parts.hostname or ""):
        better = plain[parts.scheme]
        remedy = f"use {better}, or write `allow_insecure: true` here or in `defaults` where the network is trusted"
        findings.error(at, f"the URL is plain {parts.scheme} to another machine", remedy)
    return True


def _tls(config: Config, findings: Findings) -> None:
    """See that the files of authorities can be used; one that many agents name is read once."""
    read: dict[Path, CertificateUnusable | None] = {}
    written: list[tuple[AgentTls | None, KeyPath]] = [(config.defaults.tls, ("defaults", "tls"))]
    written += [(agent.tls, ("agents", name, "tls")) for name, agent in config.agents.items()]
    for tls, at in written:
        if tls is None:
            continue
        folder = Path(findings.marks.place(at).file).parent
        _shown(tls, at, folder, findings)
        check_authority_file(tls.ca, (*at, "ca"), findings, read)
    for name, agent in config.agents.items():
        urls = [backend.url for backend, _ in backends(agent, ())]
        urls += [] if agent.card is None or agent.card.url is None else [agent.card.url]
        if agent.tls is not None and urls and not any(url.lower().startswith(("https:", "grpcs:")) for url in urls):
            remedy = "write its URL with https or grpcs, or remove `tls`"
            fact = "the agent is not reached over TLS: nobody has to vouch"
            findings.warning(("agents", name, "tls"), fact, remedy)


def check_authority_file(
    ca: str, at: KeyPath, findings: Findings, read: dict[Path, CertificateUnusable | None] | None = None
) -> None:
    """See that a file of authorities can be used.

    Args:
        ca: As the file writes it, or `system`.
        at: Where it is written.
        read: What is known of files by now; gets what is learned.
    """
    if ca == SYSTEM:
        return
    folder = Path(findings.marks.place(at).file).parent
    file, known = folder / ca, {} if read is None else read
    if file not in known:
        known[file] = _unusable(file)
    error = known[file]
    if error is not None:
        findings.error(at, f"{printable(ca)!r} {error.fact}", f"{error.remedy}; it is relative to {folder}")


def _shown(tls: AgentTls, at: KeyPath, folder: Path, findings: Findings) -> None:
    """See that the certificate that the gateway shows can be used, and that the name that it asks for is one."""
    if tls.server_name is not None and not _HOST.fullmatch(tls.server_name):
        fact = f"{printable(tls.server_name)!r} is no name of a host"
        findings.error((*at, "server_name"), fact, "write a name such as agent.example.com")
    if (tls.cert is None) != (tls.key is None):
        there, missing = ("key", "cert") if tls.cert is None else ("cert", "key")
        findings.error_at_key((*at, there), f"it is of no use without `{missing}`", f"add `{missing}`, or remove it")
    elif tls.cert is not None and tls.key is not None:
        try:
            # What a server can show a client can show.
            server_context(folder / tls.cert, folder / tls.key)
        except CertificateUnusable as error:
            file = tls.cert if error.key == "cert" else tls.key
            remedy = f"{error.remedy}; it is relative to {folder}"
            findings.error((*at, error.key), f"{printable(file)!r} {error.fact}", remedy)


def _unusable(file: Path) -> CertificateUnusable | None:
    try:
        check_authorities(file)
    except CertificateUnusable as error:
        return error
    return None


def _upstream_tenants(agent: Agent, at: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    written = [(agent.upstream_tenant, (*at, "upstream_tenant"))]
    written += [
        (one.upstream_tenant, (*at, "by_tenant", name, "upstream_tenant")) for name, one in agent.by_tenant.items()
    ]
    for tenant, here in written:
        if tenant not in (None, "strip", "keep"):
            yield tenant, here


def _of(agent: Agent, at: KeyPath) -> Iterator[Backend]:
    """The backends that get the tenant that is written at a place: those of the agent, or of one entry of it."""
    for backend, here in backends(agent, at[:2]):
        if len(at) == 3 or here[: len(at) - 1] == at[:-1]:
            yield backend


# ---- card and timeouts ---------------------------------------------------------------------------------------------


def _card(card: Card, at: KeyPath, findings: Findings, *, insecure: bool) -> None:
    if card.url is not None:
        _dialled(card.url, (*at, "url"), findings, insecure=insecure, read=partial(read_url, query=True))
    if card.url is not None and card.file is not None:
        findings.error_at_key((*at, "file"), "the card has a `url` too", "keep one of the two")
    elif card.file is not None:
        _card_file(card.file, (*at, "file"), findings)
    for key, value in card.set.items():
        _set(key, value, (*at, "set", key), findings)


def _set(key: str, value: object, at: KeyPath, findings: Findings) -> None:
    """See that what is set in a card is served, and not passed over."""
    if key in _COMPUTED:
        findings.error_at_key(at, f"the gateway computes `{key}` itself", "remove it")
        return
    if key in _SECURITY:
        findings.error_at_key(at, f"cards say what the gateway asks for, whatever `{key}` says", _SECURITY_REMEDY)
        return
    if key not in _SETTABLE:
        remedy = nearest(key, _SETTABLE) or f"what can be set is: {', '.join(_SETTABLE)}"
        findings.error_at_key(at, f"{printable(key)!r} cannot be set in a card", remedy)
        return
    what, kind = _SETTABLE[key]
    if value is not None and not isinstance(value, kind):
        findings.error(at, f"`{key}` of a card is {what}", f"write {what}")
    elif key == "skills" and isinstance(value, list):
        for number, skill in enumerate(value):
            for member in _SECURITY.intersection(skill if isinstance(skill, dict) else ()):
                fact = f"cards say what the gateway asks for, whatever `{member}` says"
                findings.error_at_key((*at, number, member), fact, _SECURITY_REMEDY)


_SECURITY_REMEDY = (
    "remove it: what callers must show is what `auth` takes, and `require` of the agent what it must have"
)


def _exposed(config: Config, agent: Agent, at: KeyPath, findings: Findings) -> None:
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


def _card_file(file: str, at: KeyPath, findings: Findings) -> None:
    folder = Path(findings.marks.place(at).file).parent
    path = folder / file
    try:
        if not path.is_file():
            remedy = f"create it, or correct the path, which is relative to {folder}"
            findings.error(at, f"{printable(file)!r} is no file", remedy)
            return
        with path.open("rb") as stream:
            data = stream.read(LARGEST_CARD + 1)
        if len(data) > LARGEST_CARD:
            findings.error(at, f"the card is larger than {LARGEST_CARD // 1024} KiB", "make it smaller")
            return
        card = msgspec.json.decode(data)
        if not isinstance(card, dict):
            findings.error(at, "the card is no JSON object", "write the card as { … }")
            return
        for fact in mended(card)[1]:
            findings.warning(at, f"the card: {fact}", "correct the file; what is wrong is left out")
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no JSON"
        findings.error(at, f"the card cannot be read: {reason}", "correct the file")


def _timeouts(timeouts: Timeouts, at: KeyPath, findings: Findings) -> None:
    for name in timeouts.model_fields_set:
        if getattr(timeouts, name) == 0:
            findings.error((*at, name), "nothing can be done in no time", "write a duration above 0s")
