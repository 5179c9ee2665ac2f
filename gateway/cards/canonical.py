"""The canonical forms of a card: the bytes that its signatures cover (A2A 1.0 §8.4.1, RFC 8785).

A signature covers one version's members of a card, without `signatures`. Readers do not agree on one form of them:

- The specification keeps empty members that it requires; the SDKs of 1.0 leave out everything that is empty.
- SDKs of 0.3 also leave out members that have the default of their schema.

A verifier needs one valid signature, so the gateway signs each form, and accepts each.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import rfc8785

from gateway.a2a.card import mended
from gateway.a2a.json import Tree

_OF_BOTH = (
    "name", "description", "version", "provider", "documentationUrl", "iconUrl", "capabilities", "securitySchemes",
    "defaultInputModes", "defaultOutputModes", "skills",
)  # fmt: skip
_OF_1_0: Final = frozenset({*_OF_BOTH, "supportedInterfaces", "securityRequirements"})
_OF_0_3: Final = frozenset(
    {
        *_OF_BOTH, "url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security",
        "supportsAuthenticatedExtendedCard",
    }
)  # fmt: skip
_DEFAULTS_0_3: Final = {"preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
_KIND = "SecurityScheme"
"""The end of the member that names the kind of a security scheme in ProtoJSON."""


class NoCanonicalForm(ValueError):  # noqa: N818 - named after what is wrong, like the faults
    """A card that RFC 8785 cannot write, such as one with an integer beyond 2^53."""


def canonical(tree: Tree) -> bytes:
    """Return the RFC 8785 form of a JSON object.

    Raises:
        NoCanonicalForm: It has none.
    """
    try:
        return rfc8785.dumps(tree)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise NoCanonicalForm(str(error)) from error


def without_empty(tree: Tree) -> Tree:
    """Return an object without nulls, empty strings, lists and objects, at any depth, as the SDKs clean a card."""
    kept: Tree = _cleaned(tree) or {}
    return kept


def _cleaned(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value without its empty parts, or None if nothing is left."""
    if isinstance(value, dict):
        members = ((name, _cleaned(part)) for name, part in value.items())
        return {name: part for name, part in members if part is not None} or None
    if isinstance(value, list):
        return [part for part in map(_cleaned, value) if part is not None] or None
    return None if value == "" else value


def served_forms(card: Tree) -> Iterator[bytes]:
    """Yield the forms of a card that the gateway has rebuilt, each once; a form that cannot be written is left out."""
    forms: dict[bytes, None] = {}
    readings = [_members_0_3(card)] if "url" in card else []
    if "supportedInterfaces" in card:
        modern = _members_1_0(card)
        readings = [without_empty(modern), modern, *readings]
    for reading in readings:
        try:
            forms[canonical(doubles(reading))] = None
        except NoCanonicalForm:
            continue
    yield from forms


def received_forms(card: Tree) -> Iterator[tuple[bytes, Tree]]:
    """Yield the forms that an agent may have signed, each with the card that it covers.

    A form covers members of one version. Other members are unsigned, so they are not in the card that is yielded with
    the form.

    Args:
        card: The card as it was received, strictly read.
    """
    unsigned = _without(card, "signatures")
    yield from _message_forms(unsigned)
    for whole in (unsigned, without_empty(unsigned)):
        try:
            yield canonical(whole), whole
        except NoCanonicalForm:
            continue
    legacy = _members_0_3(mended(unsigned)[0])
    try:
        yield canonical(legacy), legacy
    except NoCanonicalForm:
        return
    # a2a-sdk 0.3 does not write RFC 8785, but JSON in ASCII.
    yield json.dumps(legacy, separators=(",", ":"), sort_keys=True).encode(), legacy


def _message_forms(card: Tree) -> Iterator[tuple[bytes, Tree]]:
    """Yield the forms of the members of 1.0 as the official class reads them: the SDKs' form and the specified one."""
    from a2a.types import a2a_pb2  # noqa: PLC0415 - it takes a tenth of a second to load, and few verify cards
    from google.protobuf.json_format import (  # type: ignore[import-untyped]  # noqa: PLC0415 - as above; it ships no types
        MessageToDict,
        ParseDict,
        ParseError,
        SerializeToJsonError,
    )

    try:
        message = ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True)
        tree: Tree = MessageToDict(message)
    except (ParseError, SerializeToJsonError, RecursionError, AttributeError, TypeError, ValueError):
        # It is not a card of 1.0; a hostile card makes the class raise undocumented exceptions.
        return
    clean = without_empty(tree)
    yield canonical(clean), clean
    specified: Tree = _with_required(tree, message.DESCRIPTOR)
    yield canonical(specified), specified


def _with_required(tree: Tree, kind: Any) -> Tree:  # noqa: ANN401 - protobuf ships no types
    """Return the ProtoJSON of a message with the empty members that its schema requires (A2A 1.0 §8.4.1)."""
    from google.api.field_behavior_pb2 import FieldBehavior, field_behavior  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    filled = dict(tree)
    for field in kind.fields:
        value, below = filled.get(field.json_name), field.message_type
        if value is None:
            if FieldBehavior.Value("REQUIRED") in field.GetOptions().Extensions[field_behavior]:
                filled[field.json_name] = [] if field.is_repeated else "" if below is None else {}
        elif below is None or below.full_name.startswith("google.protobuf."):
            continue
        elif below.GetOptions().map_entry:
            of = below.fields_by_name["value"].message_type
            if of is not None:
                filled[field.json_name] = {name: _with_required(each, of) for name, each in value.items()}
        elif field.is_repeated:
            filled[field.json_name] = [_with_required(each, below) for each in value]
        else:
            filled[field.json_name] = _with_required(value, below)
    return filled


def doubles(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value with every number as a double, as protobuf's `Struct` reads numbers of any extension."""
    if isinstance(value, dict):
        return {name: doubles(part) for name, part in value.items()}
    if isinstance(value, list):
        return [doubles(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _members_1_0(card: Tree) -> Tree:
    """Return the members that the schema of 1.0 has, of a rebuilt card."""
    members = {name: value for name, value in card.items() if name in _OF_1_0}
    members["capabilities"] = _without(card["capabilities"], "stateTransitionHistory")
    if "extensions" in members["capabilities"]:
        # These fields have no presence in protobuf, so ProtoJSON leaves out their defaults.
        extensions = [
            {name: value for name, value in each.items() if value is not False and value != ""}
            for each in members["capabilities"]["extensions"]
        ]
        members["capabilities"]["extensions"] = extensions
    if "securitySchemes" in members:
        members["securitySchemes"] = {
            name: {kind: value for kind, value in scheme.items() if kind.endswith(_KIND)}
            for name, scheme in members["securitySchemes"].items()
        }
    return members


def _members_0_3(card: Tree) -> Tree:
    """Return the members that the schema of 0.3 has, without its defaults and empty ones.

    Args:
        card: One that was rebuilt, or `mended`.
    """
    members = {name: value for name, value in card.items() if name in _OF_0_3 and _DEFAULTS_0_3.get(name) != value}
    members["capabilities"] = _without(card.get("capabilities") or {}, "extendedAgentCard")
    if "securitySchemes" in members:
        members["securitySchemes"] = {name: _scheme_0_3(each) for name, each in members["securitySchemes"].items()}
    return without_empty(members)


def _scheme_0_3(scheme: Tree) -> Tree:
    """Return a scheme as 0.3 spells it, without `type`, which is the default of its kind."""
    typed = {name: value for name, value in scheme.items() if not name.endswith(_KIND)}
    if "type" not in typed and len(scheme) == 1:
        [kind] = scheme.values()
        typed = kind if isinstance(kind, dict) else {}
        typed = {"in" if name == "location" else name: value for name, value in typed.items()}
    return _without(typed, "type")


def _without(tree: Tree, member: str) -> Tree:
    return {name: value for name, value in tree.items() if name != member}
