"""Card rewriting: the served card is rebuilt from an agent's sanitized card, never patched.

Only members that the schemas of 0.1 to 1.0 know are written. Interfaces and security are the gateway's own, and
signatures are dropped (they covered the agent's URLs). Rebuilding a rebuilt card changes nothing.

The *edition* of a card is the set of versions whose members it has. At `agent-card.json` it is `DUAL`: the members of
1.0 and of 0.3 in one document, legal for the parsers of both. For a client that asks for 1.0 it is `MODERN`: 1.0 alone.
At `agent.json` it is `OLD`: the members of 0.2 and 0.3, with the authentication of 0.1 beside them. In an answer it
follows the caller's dialect.

A client of gRPC cannot send a path, so most agents are selected by a tenant. An interface of 1.0 states it. Calls of
0.3 have a field for it only in the proposed scoped service (A2A issue 1148); calls of the plain service would not reach
the agent. So the scoped service is listed in the proposed member, which other clients ignore, and not as an interface
of 0.3:

    "transportOptions": {"GRPC": {"service": "a2a.v1.ScopedA2AService", "scope": "acme", "url": "gw.example:443"}}

The proposal fixed only the service and the scope, by transport; `url` is the gateway's addition.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from gateway.a2a.bindings.grpc_method import SCOPED_0_3
from gateway.a2a.card import MAX_CARD, CardInvalid
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import SanitizedCard

Scheme: TypeAlias = Literal["bearer", "api_key", "mtls"]
"""A kind of credential that the gateway accepts; also the scheme's name on the card."""

API_KEY_HEADER = "X-API-Key"


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """An issuer of bearer tokens, by its discovery document (OpenID Connect Discovery 1.0 §3).

    Attributes:
        discovery_url: The address of the document.
        authorization_url, token_url: Its endpoints; empty where it has none.
    """

    discovery_url: str
    authorization_url: str = ""
    token_url: str = ""


@dataclass(frozen=True, slots=True)
class ServedInterface:
    """One way to call the agent through the gateway, under the gateway's own URL.

    Attributes:
        url: Over gRPC the `host:port`.
        dialect: Of 1.0 or 0.3: a client of 0.1 or 0.2 is served where those of 0.3 are, over JSON-RPC.
        tenant: The value of the A2A `tenant` field in calls, or None; 1.0 only, but over gRPC of 0.3 the `scope` of the
            scoped service.
    """

    url: str
    dialect: Dialect
    tenant: str | None = None

    @property
    def scoped(self) -> bool:
        """Return whether only the scoped service of 0.3 answers here."""
        return self.tenant is not None and self.dialect == _GRPC_0_3


_GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)


@dataclass(frozen=True, slots=True)
class Served:
    """The gateway's own facts about an agent, which replace those of its card.

    Attributes:
        interfaces: In order of preference; on the card those of 1.0 come first all the same.
        schemes: Credentials that the gateway accepts, any one of which is enough; empty where it asks for none.
        issuers: Issuers of bearer tokens whose discovery documents are known.
        scopes: Scopes that the agent requires of a token.
        streaming: Whether streams are relayed.
        push: Whether push configurations are relayed.
        extended: Whether the extended card is relayed.
    """

    interfaces: tuple[ServedInterface, ...]
    schemes: tuple[Scheme, ...] = ()
    issuers: tuple[TokenIssuer, ...] = ()
    scopes: tuple[str, ...] = ()
    streaming: bool = True
    push: bool = True
    extended: bool = True

    def of(self, version: Version) -> list[ServedInterface]:
        """Return the interfaces of one version, in order."""
        return [each for each in self.interfaces if each.dialect.version is version]


@dataclass(frozen=True, slots=True)
class Edition:
    """The versions whose members a card has; without an interface of 0.3 always 1.0 alone.

    Attributes:
        modern, legacy, ancient: Those of 1.0, of 0.3 and 0.2, of 0.1.
        typed: Whether security schemes are spelled as in the JSON schema of 0.3, with a `type`; members that only this
            schema has are written with them.
        proto: Whether they are spelled as in ProtoJSON, with a member named after their kind; both may be true.
    """

    modern: bool = False
    legacy: bool = False
    ancient: bool = False
    typed: bool = False
    proto: bool = False

    @classmethod
    def inside(cls, dialect: Dialect) -> "Edition":
        """Return the edition for an answer in this dialect: its version only, as strict parsers refuse the others."""
        if dialect.version is Version.V1_0:
            return cls(modern=True, proto=True)
        # Over HTTP+JSON 0.3 SDKs disagree on the extended card: that of Python reads it by the JSON schema, those of
        # JavaScript and the compatibility layers of 1.x as ProtoJSON (protocol.md §12.15). One document serves both.
        # Over gRPC it becomes a message, so it has the members of that and no others.
        return cls(
            legacy=True,
            typed=dialect.binding is not Binding.GRPC,
            proto=dialect.binding is not Binding.JSONRPC,
        )


DUAL = Edition(modern=True, legacy=True, typed=True, proto=True)
OLD = Edition(legacy=True, ancient=True, typed=True)
MODERN = Edition(modern=True, proto=True)


def rebuild(sanitized: SanitizedCard, served: Served, edition: Edition = DUAL) -> Tree:
    """Return the card to serve; it shares trees with the sanitized card, so it must not be changed."""
    modern, legacy = served.of(Version.V1_0), served.of(Version.V0_3)
    if not legacy:
        edition = MODERN
    extended = sanitized.extended if served.extended else None
    tree: Tree = {"name": sanitized.name, "description": sanitized.description}
    if edition.modern:
        tree["supportedInterfaces"] = [_modern_interface(each) for each in (*modern, *legacy) if not each.scoped]
    if sanitized.provider is not None:
        tree["provider"] = sanitized.provider
    tree["version"] = sanitized.version
    if sanitized.documentation_url is not None:
        tree["documentationUrl"] = sanitized.documentation_url
    tree["capabilities"] = _capabilities(sanitized, served, edition)
    if extended is not None and edition.modern:
        tree["capabilities"]["extendedAgentCard"] = extended
    tree |= _security(served, edition)
    tree["defaultInputModes"] = list(sanitized.input_modes)
    tree["defaultOutputModes"] = list(sanitized.output_modes)
    tree["skills"] = list(sanitized.skills)
    if sanitized.icon_url is not None:
        tree["iconUrl"] = sanitized.icon_url
    if edition.legacy:
        # Clients of 0.1, and those of 0.2 that know no transports, always post JSON-RPC to `url`.
        tree |= _legacy_interfaces(_jsonrpc_first(legacy) if edition.ancient else legacy)
        if edition.typed:
            tree |= _transport_options(legacy)
        if extended is not None:
            tree["supportsAuthenticatedExtendedCard"] = extended
    return tree


def encode_card(card: Tree, *, longest: int = MAX_CARD) -> bytes:
    """Encode a card, the same card always to the same bytes.

    Raises:
        CardInvalid: they are more than `longest`, or the card cannot be encoded.
    """
    try:
        encoded = msgspec.json.encode(card)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        raise CardInvalid("the card holds what JSON cannot") from error
    if len(encoded) > longest:
        raise CardInvalid(f"the card to serve is longer than {longest} bytes")
    return encoded


def etag(encoded: bytes) -> str:
    """Return a weak entity tag for a card's bytes without signatures, which differ each time they are made."""
    return f'W/"sha256-{hashlib.sha256(encoded).hexdigest()}"'


# ---- Interfaces and capabilities -----------------------------------------------------------------------------------

_VERSION_0_3 = "0.3.0"
"""The `protocolVersion` of 0.3 cards: 0.3.0 wrote patch numbers, and clients of 1.x take 0.2 for 1.0."""


def _modern_interface(interface: ServedInterface) -> Tree:
    entry: Tree = {"url": interface.url, "protocolBinding": interface.dialect.binding.value}
    if interface.tenant is not None and interface.dialect.version is Version.V1_0:
        entry["tenant"] = interface.tenant
    entry["protocolVersion"] = interface.dialect.version.value
    return entry


def _legacy_interfaces(interfaces: list[ServedInterface]) -> Tree:
    # A card of 0.3 must have a `url`; without another interface it is the URL of the scoped service.
    first, *others = [each for each in interfaces if not each.scoped] or interfaces[:1]
    tree: Tree = {
        "url": first.url,
        "preferredTransport": first.dialect.binding.value,
        "protocolVersion": _VERSION_0_3,
    }
    if others:
        tree["additionalInterfaces"] = [{"transport": each.dialect.binding.value, "url": each.url} for each in others]
    return tree


def _transport_options(interfaces: Iterable[ServedInterface]) -> Tree:
    options: Tree = {
        each.dialect.binding.value: {"service": SCOPED_0_3, "scope": each.tenant, "url": each.url}
        for each in interfaces
        if each.scoped
    }
    return {"transportOptions": options} if options else {}


def _jsonrpc_first(interfaces: Iterable[ServedInterface]) -> list[ServedInterface]:
    return sorted(interfaces, key=lambda each: each.dialect.binding is not Binding.JSONRPC)


def _capabilities(sanitized: SanitizedCard, served: Served, edition: Edition) -> Tree:
    tree: Tree = {}
    if sanitized.streaming is not None:
        tree["streaming"] = sanitized.streaming and served.streaming
    if sanitized.push is not None:
        tree["pushNotifications"] = sanitized.push and served.push
    # Neither 1.0 nor the messages of 0.3 have such a member, and strict parsers refuse it.
    if sanitized.history is not None and edition.typed:
        tree["stateTransitionHistory"] = sanitized.history
    if sanitized.extensions:
        tree["extensions"] = list(sanitized.extensions)
    return tree


# ---- Security ------------------------------------------------------------------------------------------------------


def _security(served: Served, edition: Edition) -> Tree:
    schemes = served.schemes
    if not schemes:
        return {}
    ancient = schemes
    if edition.ancient:
        # 0.2 knows no such kind, and its SDK for Python refuses a card with one.
        schemes = tuple(scheme for scheme in schemes if scheme != "mtls")
    tree: Tree = {}
    written = {scheme: _spelled(*_SCHEMES[scheme], edition) for scheme in schemes} | _of_issuers(served, edition)
    if written:
        tree = _alternatives(written, served.scopes, edition)
    if edition.ancient:
        tree["authentication"] = {"schemes": [_ANCIENT_NAMES[scheme] for scheme in ancient]}
    return tree


def _alternatives(schemes: dict[str, Tree], scopes: tuple[str, ...], edition: Edition) -> Tree:
    tree: Tree = {"securitySchemes": schemes}
    # Only a token has scopes.
    needed = {name: [] if name in ("api_key", "mtls") else list(scopes) for name in schemes}
    in_proto = {name: {"list": found} if found else {} for name, found in needed.items()}
    # A list of alternatives, in all generations: any one of the credentials is enough.
    if edition.modern:
        tree["securityRequirements"] = [{"schemes": {name: found}} for name, found in in_proto.items()]
    if edition.typed:
        # No spelling of these suits all readers: ProtoJSON's `schemes` is not a list, and Python's SDK refuses the
        # card.
        tree["security"] = [{name: found} for name, found in needed.items()]
    elif edition.legacy:
        tree["security"] = [{"schemes": {name: found}} for name, found in in_proto.items()]
    return tree


def _of_issuers(served: Served, edition: Edition) -> dict[str, Tree]:
    """Return the schemes of the issuers, by name: the OAuth flow, and the discovery document."""
    schemes: dict[str, Tree] = {}
    for number, issuer in enumerate(served.issuers, 1):
        suffix = "" if number == 1 else f"_{number}"
        flows = _flows(issuer, served.scopes)
        if flows:
            typed = {"type": "oauth2", "flows": flows}
            schemes[f"oauth2{suffix}"] = _spelled("oauth2SecurityScheme", {"flows": flows}, typed, edition)
        address = {"openIdConnectUrl": issuer.discovery_url}
        typed = {"type": "openIdConnect", **address}
        schemes[f"oidc{suffix}"] = _spelled("openIdConnectSecurityScheme", address, typed, edition)
    return schemes


def _flows(issuer: TokenIssuer, scopes: tuple[str, ...]) -> Tree:
    """Return one flow, because the messages of 1.0 and 0.3 hold only one (protocol §8.2)."""
    named = dict.fromkeys(scopes, "required by this agent")
    if not issuer.token_url:
        return {}
    if not issuer.authorization_url:
        return {"clientCredentials": {"tokenUrl": issuer.token_url, "scopes": named}}
    address = {"authorizationUrl": issuer.authorization_url, "tokenUrl": issuer.token_url}
    return {"authorizationCode": {**address, "scopes": named}}


def _spelled(member: str, in_proto: Tree, typed: Tree, edition: Edition) -> Tree:
    """Return a scheme in every spelling of the edition, side by side."""
    return {**({member: in_proto} if edition.proto else {}), **(typed if edition.typed else {})}


_SCHEMES: dict[Scheme, tuple[str, Tree, Tree]] = {
    "bearer": ("httpAuthSecurityScheme", {"scheme": "Bearer"}, {"type": "http", "scheme": "Bearer"}),
    "mtls": ("mtlsSecurityScheme", {}, {"type": "mutualTLS"}),
    "api_key": (
        "apiKeySecurityScheme",
        {"location": "header", "name": API_KEY_HEADER},
        {"type": "apiKey", "in": "header", "name": API_KEY_HEADER},
    ),
}
"""Each scheme: its member in ProtoJSON with the value, and its members in the JSON schema (protocol §8.2, §12.15)."""
_ANCIENT_NAMES = {"bearer": "Bearer", "api_key": "ApiKey", "mtls": "mutualTLS"}
