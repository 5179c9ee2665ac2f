"""Read an agent's card of any version, and find where its interfaces may be called.

Members, by version:

- 0.1: `url` and `authentication{schemes}`; always JSON-RPC.
- 0.2 and 0.3: `url`, `preferredTransport` (default JSONRPC), `additionalInterfaces[{url, transport}]`, all at the
  card's one `protocolVersion`.
- 1.0: `supportedInterfaces[{url, protocolBinding, tenant?, protocolVersion}]`, first is preferred.
- dual: the 0.3 and the 1.0 members in one document, legal for the parsers of both.

The URL of a gRPC interface is what its clients dial, most often a bare `host:port`.

A card is untrusted text. No URL in it is dialled or fetched: of an interface's URL only the path is used.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from gateway.a2a.bindings.grpc_method import SCOPED_0_3, SERVICE_0_3
from gateway.a2a.dialect import Binding, Dialect, Version, parse_version
from gateway.a2a.json import Tree, TreeInvalid, parse_tree
from gateway.a2a.paths import is_opaque

MAX_CARD = 256 * 1024
"""Longest card in bytes by default, read or served."""
MAX_INTERFACES = 100
"""Interfaces of each list that are read; the others are ignored."""

_MAX_URL = 2048
_MAX_SERVICE = 256

# Members since 0.2.0: a card with one of these is not a 0.1 card.
_LATER_THAN_0_1 = (
    "supportedInterfaces",
    "protocolVersion",
    "preferredTransport",
    "additionalInterfaces",
    "securitySchemes",
    "security",
    "securityRequirements",
    "supportsAuthenticatedExtendedCard",
    "iconUrl",
    "signatures",
)
_LEGACY_ONLY = (
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "transportOptions",
    "protocolVersion",
    "supportsAuthenticatedExtendedCard",
    "authentication",
)

_HTTP_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/.*)?",
    re.IGNORECASE | re.ASCII,
)
_AUTHORITY_OF_ANY = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?//+(?P<url>[^/?#\\\s]+)|(?P<bare>[^/?#\\\s]+:[0-9]{1,5}(?![^/?#\\\s,]))",
    re.IGNORECASE,
)
# Prefixes of gRPC targets: the resolver of the name, and its server.
_RESOLVER = re.compile(r"(?:dns|ipv4|ipv6|xds|passthrough):(?://[^/?#\\\s]*/(?=[^/?#\\\s]))?", re.IGNORECASE)
_TARGET = re.compile(r"[^/?#\\\s,:@\[\]]+|\[[0-9a-f:.]+\]", re.IGNORECASE)
_PATH_OF_ANY = re.compile(r"[a-z]+://[^/?#]*(?P<path>[^?#]*)", re.IGNORECASE)
# safety.md T10: what a path may hold, and escapes but of `%`, `.`, `/`, `;` and the backslash.
_CLEAN_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?!2[5EeFf]|3[Bb]|5[Cc])[0-9A-Fa-f]{2})+)*/?")
_DEFAULT_PORT = {"http": 80, "https": 443}


class CardInvalid(ValueError):  # noqa: N818 - named after what is wrong, like the faults
    """A card that cannot be used; the text says why, for operators and never for clients."""


@dataclass(frozen=True, slots=True)
class CardInterface:
    """One way to call an agent, as its card offers it.

    Attributes:
        url: As the card writes it; `dial_path` returns its usable part.
        tenant: The value that the agent wants in the A2A `tenant` field, or None; of the scoped service its scope.
        service: The service of gRPC that is called in place of 0.3's own, by its `transportOptions`; or None.
    """

    dialect: Dialect
    url: str
    tenant: str | None = None
    service: str | None = None


def parse_card(raw: bytes, *, longest: int = MAX_CARD, wrong: list[str] | None = None) -> Tree:
    """Read a card strictly, without members of a wrong type: one of them does not make an agent unusable.

    Members that a version requires but that have a sensible default may be missing; `null` counts as missing.

    Args:
        wrong: The mistakes in the members that were left out are added to it, for operators.

    Raises:
        CardInvalid: it is no strict JSON object of at most `longest` bytes, or has neither a name nor an interface.
    """
    try:
        tree = parse_tree(raw, max_bytes=longest)
    except TreeInvalid as error:
        raise CardInvalid(str(error)) from error
    card, mistakes = mended(tree)
    if card.get("name") is None and not is_callable(card):
        raise CardInvalid("it has neither a name nor an interface that can be called")
    for member in ("supportedInterfaces", "additionalInterfaces"):
        if card.get(member):
            card[member] = card[member][:MAX_INTERFACES]
    if wrong is not None:
        wrong += mistakes
    return card


def mended(card: Tree) -> tuple[Tree, tuple[str, ...]]:
    """Return a card of any version without the members of a wrong type, and the mistakes in them.

    An entry of a list is dropped if a required member is wrong. An interface is dropped for any wrong member, because
    without its tenant or version it would be another interface. Only `_MOST_WRONG` places are named. Never raises.
    """
    wrong: list[str] = []
    if card.get("name") is None:
        wrong.append("name is missing")
    kept = _mended(card, _CARD, "", wrong)
    if len(wrong) > _MOST_WRONG:
        wrong[_MOST_WRONG:] = [f"{len(wrong) - _MOST_WRONG} more"]
    return ({} if kept is None else kept), tuple(wrong)


class _Object(NamedTuple):
    """The types of an object's members.

    Attributes:
        members: Their shapes; others may be anything.
        required: Members without which the object is left out.
        whole: Whether it is left out for any member of a wrong type.
    """

    members: "Mapping[str, _Shape]"
    required: tuple[str, ...] = ()
    whole: bool = False


class _Each(NamedTuple):
    """The type of all entries of a list, or of an object with members of any name."""

    kind: type
    shape: "_Shape"


_Shape: TypeAlias = "type | _Object | _Each"

_MOST_WRONG = 20
_WORDS: Mapping[type, str] = {str: "string", dict: "object", list: "list", bool: "boolean"}
_TEXTS = _Each(list, str)
_OBJECTS = _Each(list, dict)
_INTERFACES = _Each(
    list,
    _Object(dict.fromkeys(("url", "protocolBinding", "transport", "protocolVersion", "tenant"), str), ("url",), True),
)
_CARD = _Object(
    {
        **dict.fromkeys(
            (
                "name", "description", "version", "url", "preferredTransport", "protocolVersion", "documentationUrl",
                "iconUrl",
            ),
            str,
        ),
        "supportsAuthenticatedExtendedCard": bool,
        "capabilities": _Object(
            {
                **dict.fromkeys(
                    ("streaming", "pushNotifications", "stateTransitionHistory", "extendedAgentCard"), bool
                ),
                "extensions": _Each(
                    list, _Object({"uri": str, "description": str, "required": bool, "params": dict}, ("uri",))
                ),
            }
        ),
        "provider": _Object({"organization": str, "url": str}),
        "authentication": _Object({"schemes": _TEXTS, "credentials": str}),
        "securitySchemes": _Each(dict, dict),
        "security": _OBJECTS,
        "securityRequirements": _OBJECTS,
        "transportOptions": _Each(dict, dict),
        "supportedInterfaces": _INTERFACES,
        "additionalInterfaces": _INTERFACES,
        "defaultInputModes": _TEXTS,
        "defaultOutputModes": _TEXTS,
        "skills": _Each(
            list,
            _Object(
                {
                    **dict.fromkeys(("id", "name", "description"), str),
                    **dict.fromkeys(("tags", "examples", "inputModes", "outputModes"), _TEXTS),
                    **dict.fromkeys(("security", "securityRequirements"), _OBJECTS),
                },
                ("id",),
            ),
        ),
        "signatures": _Each(list, _Object({"protected": str, "signature": str, "header": dict})),
    }
)  # fmt: skip
"""The members of a card that are checked: all that clients of some version rely on."""


def _mended(value: Any, shape: _Shape, at: str, wrong: list[str]) -> Any:  # noqa: ANN401 - any JSON
    """Return a value without parts of a wrong type, or None where it is of a wrong type itself."""
    kind: type[Any] = shape if isinstance(shape, type) else shape.kind if isinstance(shape, _Each) else dict
    if not isinstance(value, kind):
        wrong.append(f"{at} is no {_WORDS[kind]}")
        return None
    if isinstance(shape, _Object):
        return _mended_object(value, shape, at, wrong)
    if isinstance(shape, type):
        return value
    if shape.kind is list:
        every = (_mended(each, shape.shape, f"{at}[{number}]", wrong) for number, each in enumerate(value))
        return [each for each in every if each is not None]
    # By their number: names are text of the agent, which logs should not hold.
    kept = [_mended(each, shape.shape, f"{at}[{number}]", wrong) for number, each in enumerate(value.values())]
    return {name: each for name, each in zip(value, kept, strict=True) if each is not None}


def _mended_object(value: Tree, shape: _Object, at: str, wrong: list[str]) -> Tree | None:
    kept: Tree = {}
    dot = f"{at}." if at else ""
    for name, each in value.items():
        part = shape.members.get(name)
        if part is None or each is None:
            kept[name] = each
        elif (good := _mended(each, part, dot + name, wrong)) is not None:
            kept[name] = good
        elif shape.whole or name in shape.required:
            return None
    for name in shape.required:
        if kept.get(name) is None:
            wrong.append(f"{dot}{name} is missing")
            return None
    return kept


def spoken(card: Tree, *, services: bool = False) -> tuple[CardInterface, ...]:
    """Return the ways to call the agent, in the card's own order, 1.0 members before those of 0.3.

    Versions are normalised: 0.2.x is 0.3, patch numbers go, and a missing or empty one means 1.0 in
    `supportedInterfaces` and 0.3 beside `url`. A card is 0.1 only if it has `authentication` and none of the members
    that 0.2 and later brought: an agent of 0.1 without it must be declared in the configuration. Bindings and versions
    that are not known are left out, as are entries without a URL, gRPC of 0.1, which had none, and gRPC of 0.3 where
    `transportOptions` says that another service than its own answers there. Never raises, whatever the tree.

    Args:
        services: Whether that other service is listed too, with its scope.
    """
    return _spoken(card, _MAX_URL, services=services)


def is_callable(card: Tree) -> bool:
    """Return whether a card offers an interface of a dialect that is known.

    One whose URL is too long counts: the agent is called at the backend's own then, as with any that cannot be dialled.
    """
    return bool(_spoken(card, sys.maxsize, services=True))


def _spoken(card: Tree, longest_url: int, *, services: bool) -> tuple[CardInterface, ...]:
    interfaces: dict[CardInterface, None] = {}
    for entry in _entries(card, "supportedInterfaces"):
        # `transport` is what drafts of 1.0 called it.
        binding = entry.get("protocolBinding") or entry.get("transport")
        version = entry.get("protocolVersion")
        _add(interfaces, entry, _dialect(binding, version, otherwise=Version.V1_0), longest_url)
    options = _grpc_options(card)
    for entry, binding in _legacy(card):
        dialect = _dialect(binding, card.get("protocolVersion"), otherwise=_legacy_generation(card))
        scope, service = options if dialect == _GRPC_0_3 else (None, None)
        if service is not None and not services:
            continue
        _add(interfaces, {**entry, "tenant": scope}, dialect, longest_url, service)
    return tuple(interfaces)


def merge(modern: Tree, legacy: Tree) -> Tree:
    """Merge the two cards that an agent serves by `A2A-Version` into one (protocol §12.1).

    Everything is the 1.0 answer's; the members that only 0.3 and earlier have come from the other one, where the
    first has no `url` of its own.
    """
    if modern.get("url") or not legacy.get("url"):
        return modern
    return {**modern, **{member: legacy[member] for member in _LEGACY_ONLY if member in legacy}}


def authorities(card: Tree) -> tuple[str, ...]:
    """Return the host and port of every interface of a card, of any binding, in lower case."""
    places = (
        {"url": card.get("url"), "transport": card.get("preferredTransport")},
        *_entries(card, "additionalInterfaces"),
        *_entries(card, "supportedInterfaces"),
    )
    hosts: dict[str, None] = {}
    for place in places:
        url = place.get("url")
        grpc = _is_grpc(place.get("protocolBinding") or place.get("transport"))
        authority = _authority(url[:_MAX_URL], grpc=grpc) if isinstance(url, str) else None
        if authority is not None:
            hosts[authority.rpartition("@")[2].lower()] = None
    return tuple(hosts)


def _authority(url: str, *, grpc: bool) -> str | None:
    """Return the authority in a URL, or in a gRPC target: `host`, `host:port`, `dns:///host:port`."""
    if grpc and (resolver := _RESOLVER.match(url)) is not None:
        url = url[resolver.end() :]
    written = _AUTHORITY_OF_ANY.match(url)
    if written is not None:
        return written["url"] or written["bare"]
    target = _TARGET.match(url) if grpc else None
    return None if target is None else target[0]


def dial_path(interface_url: str, backend_url: str, public_url: str | None) -> str:
    """Return the request path for an interface, on the backend's own origin.

    It is the path that the card gives, with its trailing slash or without, whatever origin stands before it: only
    URLs of the configuration are dialled (design.md §8). The backend's own path, as written, serves instead:

    - where the URL is unusable: no plain http(s) URL, userinfo, query, fragment, unclean segments;
    - where it is the gateway's, since then the agent advertises what clients see. An agent on the gateway's origin is
      recognised by its path;
    - where the backend has a path of its own and the card gives one that is not below it. An agent with a path may
      share its origin with others, and must not redirect its callers and credentials to them.
    """
    own = _PATH_OF_ANY.match(backend_url)
    fallback = (own["path"] if own else "") or "/"
    offered = _HTTP_URL.fullmatch(interface_url)
    if offered is None or not is_clean_path(path := offered["path"] or "/") or not _is_below(path, fallback):
        return fallback
    public = _HTTP_URL.fullmatch(public_url) if public_url is not None else None
    if public is None or _origin(offered) != _origin(public):
        return path
    backend = _HTTP_URL.fullmatch(backend_url)
    shared = backend is not None and _origin(backend) == _origin(public)
    return path if shared and not _is_below(path, public["path"] or "/") else fallback


def _is_below(path: str, other: str) -> bool:
    above = _segments(other)
    return _segments(path)[: len(above)] == above


def is_clean_path(path: str) -> bool:
    """Return whether all readers see the same segments: none is empty, `..`, hidden or split (safety.md T10)."""
    if _CLEAN_PATH.fullmatch(path) is None or any(segment in {".", ".."} for segment in path.split("/")):
        return False
    try:
        return unquote(path, errors="strict").isprintable()
    except UnicodeDecodeError:
        return False


def _entries(card: Tree, member: str) -> list[Tree]:
    value = card.get(member)
    if not isinstance(value, list):
        return []
    return [entry for entry in value[:MAX_INTERFACES] if isinstance(entry, dict)]


def _legacy(card: Tree) -> list[tuple[Tree, object]]:
    if not card.get("url"):
        return []
    first: tuple[Tree, object] = ({"url": card["url"]}, card.get("preferredTransport") or "JSONRPC")
    others = _entries(card, "additionalInterfaces")
    return [first, *(({"url": entry.get("url")}, entry.get("transport")) for entry in others)]


def _is_grpc(binding: object) -> bool:
    return isinstance(binding, str) and _BINDINGS.get(binding.strip().upper()) is Binding.GRPC


_GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)


def _grpc_options(card: Tree) -> tuple[str | None, str | None]:
    """Return the scope and the service of gRPC that a card of 0.3 names in `transportOptions` (A2A issue 1148).

    Members of a wrong type count as missing. A scope without a service means the scoped service.
    """
    options = card.get("transportOptions")
    ours = options.get(Binding.GRPC.value) if isinstance(options, dict) else None
    if not isinstance(ours, dict):
        return None, None
    scope, service = ours.get("scope"), ours.get("service")
    if not isinstance(scope, str) or not is_opaque(scope):
        scope = None
    if not isinstance(service, str) or not service:
        service = SERVICE_0_3 if scope is None else SCOPED_0_3
    return (None, None) if service == SERVICE_0_3 else (scope, service[:_MAX_SERVICE])


def _legacy_generation(card: Tree) -> Version:
    # pydantic writes absent members as null, so a null does not show a later version.
    later = any(card.get(member) is not None for member in _LATER_THAN_0_1)
    return Version.V0_1 if isinstance(card.get("authentication"), dict) and not later else Version.V0_3


def _dialect(binding: object, version: object, *, otherwise: Version) -> Dialect | None:
    if not isinstance(binding, str):
        return None
    known = _BINDINGS.get(binding.strip().upper())
    generation: Version | None = otherwise
    if version is not None and version != "":
        generation = parse_version(version) if isinstance(version, str) else None
    if known is None or generation is None or (known is Binding.GRPC and generation is Version.V0_1):
        return None
    return Dialect(known, generation)


_BINDINGS = {binding.value: binding for binding in Binding}


def _add(
    interfaces: dict[CardInterface, None],
    entry: Tree,
    dialect: Dialect | None,
    longest_url: int,
    service: str | None = None,
) -> None:
    url, tenant = entry.get("url"), entry.get("tenant") or None
    if dialect is None or not isinstance(url, str) or not 0 < len(url) <= longest_url:
        return
    if tenant is not None and (not isinstance(tenant, str) or not is_opaque(tenant)):
        return
    interfaces.setdefault(CardInterface(dialect, url, tenant, service))


def _origin(url: re.Match[str]) -> tuple[str, str, int]:
    scheme = url["scheme"].lower()
    return scheme, url["host"].lower(), int(url["port"] or _DEFAULT_PORT[scheme])


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]
