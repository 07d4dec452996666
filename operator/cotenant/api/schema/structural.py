"""pydantic model → the structural OpenAPI v3 schema of a CRD: nothing by reference, one type per field, rules in CEL.

What Kubernetes forbids in a CRD is turned into what it has: `anyOf` with null becomes a field that may be absent, a
constant becomes an enum of one, an object that takes no other field needs no saying (the API server prunes or, asked to
be strict, refuses). Called by `crds`.
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
    """The model says something that a CRD cannot: a union of types, a reference to itself."""


class _Generator(GenerateJsonSchema):
    """Says defaults as a document would say them: "4Gi", not a number of bytes."""

    def default_schema(self, schema: WithDefaultSchema) -> Schema:
        made = super().default_schema(schema)
        serialization: Any = schema["schema"].get("serialization", {})
        if "default" in made and serialization.get("type") == "function-plain":
            made["default"] = serialization["function"](self.get_default_value(schema))
        return made


def structural(model: type[BaseModel], *, wishes: bool = True) -> Schema:
    """A status is not a wish: in it nothing is filled in, and the operator, which writes it, needs no rules."""
    raw = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    return _node(raw, raw.get("$defs", {}), model.__name__, wishes)


def _node(raw: Schema, definitions: Schema, where: str, wishes: bool) -> Schema:
    raw = _resolved(raw, definitions, where)
    node: Schema = {}
    if raw.get("description"):
        node["description"] = " ".join(raw["description"].split())
    if "const" in raw:
        node["enum"] = [raw["const"]]
    for key in _KEPT:
        if key in raw:
            node[key] = raw[key]
    if wishes and raw.get("default") not in (None, [], ""):
        # Of an object the API server fills the fields in by their own defaults.
        node["default"] = {} if isinstance(raw["default"], dict) else raw["default"]
    if "properties" in raw:
        node["properties"] = {
            name: _node(inner, definitions, f"{where}.{name}", wishes) for name, inner in raw["properties"].items()
        }
    if isinstance(raw.get("items"), dict):
        node["items"] = _node(raw["items"], definitions, f"{where}[]", wishes)
    if isinstance(raw.get("additionalProperties"), dict):
        node["additionalProperties"] = _node(raw["additionalProperties"], definitions, f"{where}{{}}", wishes)
    node |= {key: value for key, value in raw.items() if key.startswith("x-kubernetes-")}
    if not wishes:
        node.pop("x-kubernetes-validations", None)
    if "type" not in node and not node.get("x-kubernetes-int-or-string"):
        raise SchemaError(f"{where} has no single type, which a CRD needs: {raw}")
    return node


def _resolved(raw: Schema, definitions: Schema, where: str) -> Schema:
    """References and `or null` replaced by what they stand for; what is said beside them wins."""
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
