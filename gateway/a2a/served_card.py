"""The card that the gateway serves: rebuilt from an agent's card, never patched.

Only members that the schemas of 0.1 to 1.0 know are taken over. Interfaces and security are the gateway's own,
signatures go (they covered the agent's URLs), and no upstream host survives in any string. Which generations' members
are written follows from the interfaces that are served: 1.0, 0.3 (read by 0.2 clients too), both in one document, or
0.1. Rebuilding a rebuilt card changes nothing.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from gateway.a2a.card import MAX_CARD, CardInvalid, authorities, parse_card
from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.redaction import Redaction
from gateway.a2a.tree import Tree

Scheme: TypeAlias = Literal["bearer", "api_key"]
"""A credential that the gateway takes; also the scheme's name on the card."""

API_KEY_HEADER = "X-API-Key"

MAX_NAMES = 32
"""Names of an agent that are taken from its card's own interfaces: sixteen hosts, with and without port."""

OVERRIDABLE = frozenset(
    {
        "name", "description", "version", "provider", "documentationUrl", "iconUrl", "capabilities", "skills",
        "defaultInputModes", "defaultOutputModes", "supportsAuthenticatedExtendedCard",
    }
)  # fmt: skip
"""Members that an operator may set; the others are computed, and setting them has no effect."""


@dataclass(frozen=True, slots=True)
class ServedInterface:
    """One way to call the agent through the gateway, under the gateway's own URL.

    Attributes:
        tenant: What the client must put into the A2A `tenant` field, or None; 1.0 only, 0.3 cannot say it.
    """

    url: str
    dialect: Dialect
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What the gateway knows of an agent better than its card.

    Attributes:
        interfaces: In order of preference; on the card those of 1.0 come first all the same.
        schemes: Credentials that the gateway takes, any one of which is enough; empty where it asks for none.
        overrides: The operator's own values of whole top-level members; see `OVERRIDABLE`.
        secrets: Upstream hosts, with or without port, that must not be seen on the card.
        streaming: Whether streams are relayed.
        push: Whether push configurations are relayed.
        extended: Whether the extended card is relayed.
    """

    interfaces: tuple[ServedInterface, ...]
    schemes: tuple[Scheme, ...] = ()
    overrides: Mapping[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    streaming: bool = True
    push: bool = True
    extended: bool = True


def rebuild(card: Tree, served: Served, *, generation: Version | None = None) -> Tree:
    """The card to serve in place of the agent's.

    Members of a wrong type count as missing, and missing ones that a generation requires get a default, so any tree
    will do; cards from the wire are refused earlier, by `parse_card`.

    Args:
        generation: Write the members of this one only, for answers inside a dialect (strict parsers refuse those of
            another); without effect where no interface of it is served.

    Raises:
        CardInvalid: the result is longer than `MAX_CARD`, or holds what JSON cannot.
    """
    shape = _Shape.of(served, generation)
    redaction = Redaction((*served.secrets, *_addresses(card, served)))
    said = _said(card, served.overrides)
    provider = _provider(said.get("provider"), redaction)
    extended = _extended(said) if served.extended else None
    tree: Tree = {"name": redaction.clean(_text(said.get("name")))}
    tree["description"] = redaction.clean(_text(said.get("description")))
    if shape.modern:
        tree["supportedInterfaces"] = [_modern_interface(each) for each in shape.listed]
    if provider is not None:
        tree["provider"] = provider
    tree["version"] = redaction.clean(_text(said.get("version")))
    _link(tree, "documentationUrl", said, redaction)
    tree["capabilities"] = _capabilities(said.get("capabilities"), served, shape, redaction)
    if extended is not None and shape.modern:
        tree["capabilities"]["extendedAgentCard"] = extended
    tree |= _security(served.schemes, shape)
    for modes in ("defaultInputModes", "defaultOutputModes"):
        tree[modes] = redaction.clean_value(_texts(said.get(modes))) or ["text/plain"]
    tree["skills"] = redaction.clean_value(_skills(said.get("skills")))
    if not shape.ancient:
        _link(tree, "iconUrl", said, redaction)
    tree |= _legacy_interfaces(shape, card)
    if extended is not None and shape.legacy:
        tree["supportsAuthenticatedExtendedCard"] = extended
    encode_card(tree)
    return tree


def rebuild_extended(raw: bytes, served: Served, dialect: Dialect) -> Tree:
    """The extended card to answer with, from the agent's own answer: a JSON-RPC `result` or a REST body.

    Raises:
        CardInvalid: the agent's answer is no card.
    """
    return rebuild(parse_card(raw), served, generation=dialect.version)


def encode_card(card: Tree) -> bytes:
    """The card's bytes, the same for the same card.

    Raises:
        CardInvalid: they are more than `MAX_CARD`, or there are none.
    """
    try:
        encoded = msgspec.json.encode(card)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        raise CardInvalid("the card holds what JSON cannot") from error
    if len(encoded) > MAX_CARD:
        raise CardInvalid(f"the card to serve is longer than {MAX_CARD} bytes")
    return encoded


def etag(encoded: bytes) -> str:
    """A weak entity tag for a card's bytes, which must be unsigned: signatures differ each time they are made."""
    return f'W/"sha256-{hashlib.sha256(encoded).hexdigest()}"'


def _addresses(card: Tree, served: Served) -> list[str]:
    """Hosts, with and without port, that the card's own interfaces name: no less the agent's than the file's are.

    The first `MAX_NAMES` of them, since each costs a search of the whole card.
    """
    # The gateway's own stay, or a rebuilt card would lose them; behind its host another port is an agent's.
    public = _with_names(authorities({"supportedInterfaces": [{"url": each.url} for each in served.interfaces]}))
    found: dict[str, None] = {}
    for name in _with_names(authorities(card)):
        # Whoever looks for a host with a dot finds it with every port.
        host = _PORT.sub("", name)
        if len(host) > _LONGEST_HOST or name in public:
            continue
        if name == host or host not in found or "." not in host.rstrip("."):
            found[name] = None
    return list(found)[:MAX_NAMES]


def _with_names(hosts: tuple[str, ...]) -> list[str]:
    return [each for host in hosts for each in (_PORT.sub("", host), host)]


_LONGEST_HOST = 253  # RFC 1035: nothing longer can be dialled
_PORT = re.compile(r":[0-9]*\Z")


# ---- Which members, which interfaces -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """Whose members are written: `modern` is 1.0, `legacy` 0.3 and 0.2, `ancient` 0.1 alone."""

    listed: tuple[ServedInterface, ...]
    modern: bool
    legacy: bool
    ancient: bool

    @classmethod
    def of(cls, served: Served, generation: Version | None) -> "_Shape":
        by_version = {
            version: tuple(each for each in served.interfaces if each.dialect.version is version)
            for version in (Version.V1_0, Version.V0_3, Version.V0_1)
        }
        # 0.1 shares `url` with 0.3 and has no place in `supportedInterfaces`, so it is listed only when alone.
        listed = by_version[Version.V1_0] + by_version[Version.V0_3]
        if not listed:
            old = by_version[Version.V0_1]
            return cls(old, modern=not old, legacy=False, ancient=bool(old))
        only = generation if generation is not None and by_version[generation] else None
        modern = bool(by_version[Version.V1_0]) and only is not Version.V0_3
        legacy = bool(by_version[Version.V0_3]) and only is not Version.V1_0
        return cls(listed, modern=modern, legacy=legacy, ancient=False)


def _modern_interface(interface: ServedInterface) -> Tree:
    entry: Tree = {"url": interface.url, "protocolBinding": interface.dialect.binding.value}
    if interface.tenant is not None and interface.dialect.version is Version.V1_0:
        entry["tenant"] = interface.tenant
    entry["protocolVersion"] = interface.dialect.version.value
    return entry


def _legacy_interfaces(shape: _Shape, card: Tree) -> Tree:
    if shape.ancient:
        return {"url": shape.listed[0].url}
    if not shape.legacy:
        return {}
    first, *others = (each for each in shape.listed if each.dialect.version is Version.V0_3)
    tree: Tree = {
        "url": first.url,
        "preferredTransport": first.dialect.binding.value,
        "protocolVersion": _protocol_version(card.get("protocolVersion")),
    }
    if others:
        tree["additionalInterfaces"] = [{"transport": each.dialect.binding.value, "url": each.url} for each in others]
    return tree


def _protocol_version(said: object) -> str:
    # protocol.md §10.2 (12): clients of 1.x take a card of 0.2.x for one of 1.0, so what is spoken as 0.3 is called so.
    return said if isinstance(said, str) and _A_0_3.fullmatch(said) else "0.3.0"


_A_0_3 = re.compile(r"0\.3(\.[0-9]{1,4})?", re.ASCII)


# ---- Security ------------------------------------------------------------------------------------------------------


def _security(schemes: tuple[Scheme, ...], shape: _Shape) -> Tree:
    if shape.ancient:
        return {"authentication": {"schemes": [_ANCIENT_NAMES[scheme] for scheme in schemes]}}
    if not schemes:
        return {}
    tree: Tree = {"securitySchemes": {scheme: _scheme(scheme, shape) for scheme in schemes}}
    # A list of alternatives, in both generations: any one of the credentials is enough.
    if shape.modern:
        tree["securityRequirements"] = [{"schemes": {scheme: {}}} for scheme in schemes]
    if shape.legacy:
        tree["security"] = [{scheme: []} for scheme in schemes]
    return tree


def _scheme(scheme: Scheme, shape: _Shape) -> Tree:
    """One scheme in every spelling that is needed, side by side (protocol.md §8.2, §12.15)."""
    tree: Tree = {}
    if scheme == "bearer":
        if shape.modern:
            tree["httpAuthSecurityScheme"] = {"scheme": "Bearer"}
        if shape.legacy:
            tree |= {"type": "http", "scheme": "Bearer"}
    else:
        if shape.modern:
            tree["apiKeySecurityScheme"] = {"location": "header", "name": API_KEY_HEADER}
        if shape.legacy:
            tree |= {"type": "apiKey", "in": "header", "name": API_KEY_HEADER}
    return tree


_ANCIENT_NAMES = {"bearer": "Bearer", "api_key": "ApiKey"}


# ---- What the agent and the operator say ---------------------------------------------------------------------------


def _said(card: Tree, overrides: Mapping[str, object]) -> Tree:
    own = {name: value for name, value in overrides.items() if name in OVERRIDABLE}
    said = {**card, **own}
    # Two spellings of one flag: the operator's word, in either, must silence the agent's in the other.
    if "supportsAuthenticatedExtendedCard" in own and "capabilities" not in own:
        said["capabilities"] = _without(card.get("capabilities"), "extendedAgentCard")
    elif "capabilities" in own and "supportsAuthenticatedExtendedCard" not in own:
        said.pop("supportsAuthenticatedExtendedCard", None)
    return said


def _without(value: object, member: str) -> Tree:
    return {name: part for name, part in value.items() if name != member} if isinstance(value, dict) else {}


def _extended(said: Tree) -> bool | None:
    """Whether there is an extended card, in either spelling; None where nothing is said of it."""
    capabilities = said.get("capabilities")
    modern = capabilities.get("extendedAgentCard") if isinstance(capabilities, dict) else None
    flags = [flag for flag in (modern, said.get("supportsAuthenticatedExtendedCard")) if isinstance(flag, bool)]
    return any(flags) if flags else None


def _capabilities(value: object, served: Served, shape: _Shape, redaction: Redaction) -> Tree:
    said: Tree = value if isinstance(value, dict) else {}
    tree: Tree = {}
    for name, relayed in (("streaming", served.streaming), ("pushNotifications", served.push)):
        if isinstance(said.get(name), bool):
            tree[name] = said[name] and relayed
    history = said.get("stateTransitionHistory")
    # 1.0 has no such member, and its strict parsers refuse it.
    if isinstance(history, bool) and (shape.legacy or shape.ancient):
        tree["stateTransitionHistory"] = history
    extensions = [] if shape.ancient else _extensions(said.get("extensions"), redaction)
    if extensions:
        tree["extensions"] = extensions
    return tree


def _extensions(value: object, redaction: Redaction) -> list[Tree]:
    found: list[Tree] = []
    for said in value if isinstance(value, list) else ():
        # The URI is the extension's identity: one that names the upstream cannot be changed, so the entry goes.
        if not isinstance(said, dict) or not isinstance(said.get("uri"), str) or redaction.finds(said["uri"]):
            continue
        entry: Tree = {"uri": said["uri"]}
        for name, kind in (("description", str), ("required", bool), ("params", dict)):
            if isinstance(said.get(name), kind):
                entry[name] = redaction.clean_value(said[name])
        found.append(entry)
    return found


def _provider(value: object, redaction: Redaction) -> Tree | None:
    if not isinstance(value, dict):
        return None
    # Both members are required from 0.2 on, so a URL that must go leaves an empty one.
    url = value.get("url")
    return {
        "organization": redaction.clean(_text(value.get("organization"))),
        "url": url if isinstance(url, str) and _is_link(url) and not redaction.finds(url) else "",
    }


def _skills(value: object) -> list[Tree]:
    """Skills without their own security: what is asked of callers is the gateway's to say."""
    found: list[Tree] = []
    for said in value if isinstance(value, list) else ():
        if not isinstance(said, dict) or not isinstance(said.get("id"), str):
            continue
        skill: Tree = {"id": said["id"], "name": said["id"], "description": _text(said.get("description"))}
        if isinstance(said.get("name"), str):
            skill["name"] = said["name"]
        skill["tags"] = _texts(said.get("tags"))
        for name in ("examples", "inputModes", "outputModes"):
            if texts := _texts(said.get(name)):
                skill[name] = texts
        found.append(skill)
    return found


def _link(tree: Tree, name: str, said: Tree, redaction: Redaction) -> None:
    url = said.get(name)
    if isinstance(url, str) and _is_link(url) and not redaction.finds(url):
        tree[name] = url


def _is_link(url: str) -> bool:
    # These are clicked and loaded by people's browsers: no javascript:, no file:, no credentials.
    return _LINK.fullmatch(url) is not None


_LINK = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#][^\s\\]*)?", re.IGNORECASE | re.ASCII)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
