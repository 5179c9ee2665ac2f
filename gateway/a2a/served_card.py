"""The card that the gateway serves: rebuilt from an agent's portrait, never patched.

Only members that the schemas of 0.1 to 1.0 know are written. Interfaces and security are the gateway's own, and
signatures go (they covered the agent's URLs). Which generations' members are written follows from the interfaces that
are served: 1.0, 0.3 (read by 0.2 clients too), both in one document, or 0.1. Rebuilding a rebuilt card changes nothing.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from gateway.a2a.card import MAX_CARD, CardInvalid
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.portrait import Portrait
from gateway.a2a.tree import Tree

Scheme: TypeAlias = Literal["bearer", "api_key"]
"""A credential that the gateway takes; also the scheme's name on the card."""

API_KEY_HEADER = "X-API-Key"


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
        streaming: Whether streams are relayed.
        push: Whether push configurations are relayed.
        extended: Whether the extended card is relayed.
    """

    interfaces: tuple[ServedInterface, ...]
    schemes: tuple[Scheme, ...] = ()
    streaming: bool = True
    push: bool = True
    extended: bool = True


def rebuild(portrait: Portrait, served: Served, *, inside: Dialect | None = None) -> Tree:
    """The card to serve in place of the agent's; it shares the portrait's trees, so it must not be changed.

    Args:
        inside: Write what an answer in this dialect holds: the members of its generation only (strict parsers refuse
            those of another; without effect where no interface of it is served), and security schemes as its clients
            read them.
    """
    shape = _Shape.of(served, inside)
    extended = portrait.extended if served.extended else None
    tree: Tree = {"name": portrait.name, "description": portrait.description}
    if shape.modern:
        tree["supportedInterfaces"] = [_modern_interface(each) for each in shape.listed]
    if portrait.provider is not None:
        tree["provider"] = portrait.provider
    tree["version"] = portrait.version
    if portrait.documentation_url is not None:
        tree["documentationUrl"] = portrait.documentation_url
    tree["capabilities"] = _capabilities(portrait, served, shape)
    if extended is not None and shape.modern:
        tree["capabilities"]["extendedAgentCard"] = extended
    tree |= _security(served.schemes, shape)
    tree["defaultInputModes"] = list(portrait.input_modes)
    tree["defaultOutputModes"] = list(portrait.output_modes)
    tree["skills"] = list(portrait.skills)
    if portrait.icon_url is not None and not shape.ancient:
        tree["iconUrl"] = portrait.icon_url
    tree |= _legacy_interfaces(portrait, shape)
    if extended is not None and shape.legacy:
        tree["supportsAuthenticatedExtendedCard"] = extended
    return tree


def encode_card(card: Tree, *, longest: int = MAX_CARD) -> bytes:
    """The card's bytes, the same for the same card.

    Raises:
        CardInvalid: they are more than `longest`, or there are none.
    """
    try:
        encoded = msgspec.json.encode(card)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        raise CardInvalid("the card holds what JSON cannot") from error
    if len(encoded) > longest:
        raise CardInvalid(f"the card to serve is longer than {longest} bytes")
    return encoded


def etag(encoded: bytes) -> str:
    """A weak entity tag for a card's bytes, which must be unsigned: signatures differ each time they are made."""
    return f'W/"sha256-{hashlib.sha256(encoded).hexdigest()}"'


# ---- Which members, which interfaces -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """Whose members are written: `modern` is 1.0, `legacy` 0.3 and 0.2, `ancient` 0.1 alone.

    Attributes:
        proto: Whether schemes are spelled as ProtoJSON does, with a member named after their kind.
        typed: Whether they are spelled as the JSON schema of 0.3 does, with a `type`.
    """

    listed: tuple[ServedInterface, ...]
    modern: bool
    legacy: bool
    ancient: bool
    proto: bool = False
    typed: bool = False

    @classmethod
    def of(cls, served: Served, inside: Dialect | None) -> "_Shape":
        by_version = {
            version: tuple(each for each in served.interfaces if each.dialect.version is version)
            for version in (Version.V1_0, Version.V0_3, Version.V0_1)
        }
        # 0.1 shares `url` with 0.3 and has no place in `supportedInterfaces`, so it is listed only when alone.
        listed = by_version[Version.V1_0] + by_version[Version.V0_3]
        if not listed:
            old = by_version[Version.V0_1]
            return cls(old, modern=not old, legacy=False, ancient=bool(old), proto=not old)
        only = inside.version if inside is not None and by_version[inside.version] else None
        modern = bool(by_version[Version.V1_0]) and only is not Version.V0_3
        legacy = bool(by_version[Version.V0_3]) and only is not Version.V1_0
        # Over HTTP+JSON 0.3 SDKs disagree on the extended card: that of Python reads it by the JSON schema, those of
        # JavaScript and the compatibility layers of 1.x as ProtoJSON (protocol.md §12.15). One document serves both.
        proto = modern or (legacy and inside is not None and inside.binding is Binding.REST)
        return cls(listed, modern=modern, legacy=legacy, ancient=False, proto=proto, typed=legacy)


def _modern_interface(interface: ServedInterface) -> Tree:
    entry: Tree = {"url": interface.url, "protocolBinding": interface.dialect.binding.value}
    if interface.tenant is not None and interface.dialect.version is Version.V1_0:
        entry["tenant"] = interface.tenant
    entry["protocolVersion"] = interface.dialect.version.value
    return entry


def _legacy_interfaces(portrait: Portrait, shape: _Shape) -> Tree:
    if shape.ancient:
        return {"url": shape.listed[0].url}
    if not shape.legacy:
        return {}
    first, *others = (each for each in shape.listed if each.dialect.version is Version.V0_3)
    tree: Tree = {
        "url": first.url,
        "preferredTransport": first.dialect.binding.value,
        "protocolVersion": portrait.version_0_3,
    }
    if others:
        tree["additionalInterfaces"] = [{"transport": each.dialect.binding.value, "url": each.url} for each in others]
    return tree


def _capabilities(portrait: Portrait, served: Served, shape: _Shape) -> Tree:
    tree: Tree = {}
    if portrait.streaming is not None:
        tree["streaming"] = portrait.streaming and served.streaming
    if portrait.push is not None:
        tree["pushNotifications"] = portrait.push and served.push
    # 1.0 has no such member, and its strict parsers refuse it.
    if portrait.history is not None and (shape.legacy or shape.ancient):
        tree["stateTransitionHistory"] = portrait.history
    if portrait.extensions and not shape.ancient:
        tree["extensions"] = list(portrait.extensions)
    return tree


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
        # No spelling of these suits all readers: ProtoJSON's `schemes` is no list, and Python's SDK refuses the card.
        tree["security"] = [{scheme: []} for scheme in schemes]
    return tree


def _scheme(scheme: Scheme, shape: _Shape) -> Tree:
    """One scheme in every spelling that is needed, side by side (protocol.md §8.2, §12.15)."""
    tree: Tree = {}
    if scheme == "bearer":
        if shape.proto:
            tree["httpAuthSecurityScheme"] = {"scheme": "Bearer"}
        if shape.typed:
            tree |= {"type": "http", "scheme": "Bearer"}
    else:
        if shape.proto:
            tree["apiKeySecurityScheme"] = {"location": "header", "name": API_KEY_HEADER}
        if shape.typed:
            tree |= {"type": "apiKey", "in": "header", "name": API_KEY_HEADER}
    return tree


_ANCIENT_NAMES = {"bearer": "Bearer", "api_key": "ApiKey"}
