"""Structural OpenAPI v3 schema of a CRD from a pydantic model: nothing by reference, one type per field, rules in CEL.

What Kubernetes forbids in a CRD is turned into what it has: `anyOf` with null becomes a field that may be absent, a
constant becomes an enum of one, and that an object takes no other field is left out (the API server prunes or, asked to
be strict, refuses).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import WithDefaultSchema

Schema = dict[str, Any]

_KEPT = (
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
)


class SchemaError(TypeError):
    """Part of a model that a CRD cannot express: a union of types, a reference to itself."""


class _Generator(GenerateJsonSchema):
    """Generator whose defaults are spelled as in a document: "4Gi", not a number of bytes."""

    def default_schema(self, schema: WithDefaultSchema) -> Schema:
        made = super().default_schema(schema)
        serialization: Any = schema["schema"].get("serialization", {})
        if "default" in made and serialization.get("type") == "function-plain":
            made["default"] = serialization["function"](self.get_default_value(schema))
        return made


def structural(model: type[BaseModel], *, spec: bool = True) -> Schema:
    """Schema of a spec, or of a status: without defaults and rules, since only the operator writes it."""
    raw = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    return _node(raw, raw.get("$defs", {}), model.__name__, spec)


def _node(raw: Schema, definitions: Schema, where: str, spec: bool) -> Schema:
    raw = _resolved(raw, definitions, where)
    node: Schema = {}
    if raw.get("description"):
        node["description"] = " ".join(raw["description"].split())
    if "const" in raw:
        node["enum"] = [raw["const"]]
    for key in _KEPT:
        if key in raw:
            node[key] = raw[key]
    if spec and raw.get("default") not in (None, [], ""):
        # Of an object the API server fills the fields in by their own defaults.
        node["default"] = {} if isinstance(raw["default"], dict) else raw["default"]
    if "properties" in raw:
        node["properties"] = {
            name: _node(inner, definitions, f"{where}.{name}", spec) for name, inner in raw["properties"].items()
        }
    if isinstance(raw.get("items"), dict):
        node["items"] = _node(raw["items"], definitions, f"{where}[]", spec)
    if isinstance(raw.get("additionalProperties"), dict):
        node["additionalProperties"] = _node(raw["additionalProperties"], definitions, f"{where}{{}}", spec)
    node |= {key: value for key, value in raw.items() if key.startswith("x-kubernetes-")}
    if not spec:
        node.pop("x-kubernetes-validations", None)
    if "type" not in node and not node.get("x-kubernetes-int-or-string"):
        raise SchemaError(f"{where} has no single type, which a CRD needs: {raw}")
    return node


def _resolved(raw: Schema, definitions: Schema, where: str) -> Schema:
    """Node with references and `or null` replaced by what they stand for; keys beside them win."""
    while True:
        if "$ref" in raw:
            name = raw["$ref"].rsplit("/", 1)[-1]
            beside = {key: value for key, value in raw.items() if key != "$ref"}
            raw = {**definitions[name], **beside}
        elif "anyOf" in raw:
            choices = [choice for choice in raw["anyOf"] if choice.get("type") != "null"]
            if len(choices) != 1:
                raise SchemaError(f"{where} may be one of several types, which a CRD cannot say")
            beside = {key: value for key, value in raw.items() if key != "anyOf"}
            raw = {**choices[0], **beside}
        else:
            return raw
