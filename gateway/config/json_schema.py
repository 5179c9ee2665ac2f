"""The JSON Schema of the format, made from the models: editors complete keys by it and flag unknown ones.

It describes a file before references are filled in: short forms are accepted, and `${…}` in place of a number, a
boolean or one of some words.
"""

from collections.abc import Mapping
from typing import Any

from gateway.config.agent import Affinity, Agent, Backend, ByTenant, Card, CardSign, Stdio
from gateway.config.model import Admin, Audit, Config, Drain, Expect, Tenant, TestRequest, description
from gateway.config.values import Part, every_part

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{"}
_TEXT: Schema = {"type": "string"}
_REPLICAS: Schema = {"type": "array", "items": {"$ref": "#/$defs/Backend"}, "description": "Its replicas."}

_SHORT: Mapping[type[Part], tuple[Schema, ...]] = {
    Admin: ({"type": "string", "description": "Address and port."},),
    Affinity: ({"type": "string", "enum": ["task", "context", "none"], "description": "What `by` says."},),
    Agent: ({"type": "string", "description": "The URL of its backend."}, _REPLICAS),
    Audit: ({"type": "string", "description": "The file, or `-`."},),
    Backend: ({"type": "string", "description": "Its URL."},),
    ByTenant: ({"type": "string", "description": "The URL of the tenant's backend."}, _REPLICAS),
    Card: ({"type": "string", "description": "A URL, or a file."},),
    CardSign: ({"type": "boolean", "description": "Whether cards are signed."},),
    Drain: ({"type": "string", "description": "How long open calls and streams get."},),
    Expect: ({"type": "string", "description": "The agent that answers."},),
    Stdio: (
        {"type": "array", "items": _TEXT, "description": "The program and its arguments."},
        {"type": "string", "description": "The program, which has no arguments."},
    ),
    Tenant: (
        {"type": "array", "items": _TEXT, "description": "The agents it may call."},
        {"type": "string", "description": "The one agent it may call."},
        {"type": "null", "description": "It may call the agents whose `allow` names it."},
    ),
    TestRequest: ({"type": "string", "description": "The path of a POST."},),
}
"""Short forms of mappings; the models widen these."""


def schema() -> Schema:
    """Return the schema of a configuration file (JSON Schema, draft 2020-12)."""
    made = Config.model_json_schema()
    models = {part.__name__: part for part in every_part()}
    definitions = {name: _described(models[name], part) for name, part in made.pop("$defs").items()}
    # The model fills in the URL of a backend that is a command.
    backend = definitions[Backend.__name__]
    del backend["required"]
    backend["anyOf"] = [{"required": [key]} for key in ("url", "stdio", "card")]
    for part, short in _SHORT.items():
        whole = definitions[part.__name__]
        text = whole.pop("description", "")
        definitions[part.__name__] = {"description": text, "anyOf": [whole, *short]}
    return {
        "$schema": _DRAFT,
        "title": "Configuration of the A2A gateway",
        **_described(Config, made),
        "$defs": dict(sorted(definitions.items())),
    }


def _described(part: type[Part], node: Schema) -> Schema:
    keys = {field.alias or name: name for name, field in part.model_fields.items()}
    for key, below in node["properties"].items():
        below["description"] = description(part, keys[key])
    return _clean(node)


def _clean(node: Schema) -> Schema:
    """Return a schema without titles, nulls and formats, and with references wherever the value is no text."""
    kept = {key: value for key, value in node.items() if key not in ("title", "format", "writeOnly")}
    if kept.get("default", ...) in (None, {}, []) or isinstance(kept.get("default"), dict):
        del kept["default"]
    for key in ("properties", "patternProperties"):
        if key in kept:
            kept[key] = {name: _clean(below) for name, below in kept[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _clean(kept[key])
    if "anyOf" in kept:
        choices = [_clean(one) for one in kept.pop("anyOf") if one != {"type": "null"}]
        flat = [choice for one in choices for choice in (one["anyOf"] if set(one) == {"anyOf"} else [one])]
        once = [one for number, one in enumerate(flat) if one not in flat[:number]]
        kept = {**once[0], **kept} if len(once) == 1 else {**kept, "anyOf": once}
    return _with_reference(kept)


def _with_reference(node: Schema) -> Schema:
    closed = "enum" in node or (node.get("type") in ("boolean", "integer") and "const" not in node)
    if not closed:
        return node
    outer: Schema = {key: node.pop(key) for key in ("description", "default") if key in node}
    return {**outer, "anyOf": [node, _REFERENCE]}


if __name__ == "__main__":
    import sys

    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n")
