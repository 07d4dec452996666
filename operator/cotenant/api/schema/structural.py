"""Structural OpenAPI v3 schema of a CRD from a pydantic model: no references, one type per field, rules in CEL.

Constructs that Kubernetes forbids in a CRD are translated: `anyOf` with null becomes an optional field, a constant
becomes an enum of one, and the refusal of other fields is left out (the API server prunes them, or refuses them in
strict mode).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import WithDefaultSchema

from cotenant.api.schema import answered_names
from cotenant.api.validation.refused_names import REFUSED
from cotenant.api.validation.rules import Model

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
    """Part of a model that a CRD cannot express: a union of types, or a reference to itself."""


class _Generator(GenerateJsonSchema):
    """Generator that spells defaults as in a document: "4Gi", not a number of bytes."""

    def default_schema(self, schema: WithDefaultSchema) -> Schema:
        made = super().default_schema(schema)
        serialization: Any = schema["schema"].get("serialization", {})
        if "default" in made and serialization.get("type") == "function-plain":
            made["default"] = serialization["function"](self.get_default_value(schema))
        return made


def structural(model: type[BaseModel], *, spec: bool = True) -> Schema:
    """Schema of a spec or a status. That of a status has no defaults and rules, because only the operator writes it."""
    raw = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    return _Reader(model, raw.get("$defs", {}), spec).node(raw, model.__name__)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of pydantic's schema of one model, with what it refers to."""

    kind: type[BaseModel]
    definitions: Schema
    spec: bool

    def node(self, raw: Schema, where: str) -> Schema:
        raw = _resolved(raw, self.definitions, where)
        node: Schema = {}
        if raw.get("description"):
            node["description"] = " ".join(raw["description"].split())
        if "const" in raw:
            node["enum"] = [raw["const"]]
        for key in _KEPT:
            if key in raw:
                node[key] = raw[key]
        if self.spec and raw.get("default") not in (None, [], ""):
            # Of an object the API server fills the fields in by their own defaults.
            node["default"] = {} if isinstance(raw["default"], dict) else raw["default"]
        if raw.get("properties"):  # The API server stores no empty ones, and who applies them again would conflict.
            node["properties"] = {
                name: self.node(inner, f"{where}.{name}") for name, inner in raw["properties"].items()
            }
        if isinstance(raw.get("items"), dict):
            node["items"] = self.node(raw["items"], f"{where}[]")
        if isinstance(raw.get("additionalProperties"), dict):
            node["additionalProperties"] = self.node(raw["additionalProperties"], f"{where}{{}}")
        node |= {key: value for key, value in raw.items() if key.startswith("x-kubernetes-")}
        if self.spec:
            self._answer_names(node, str(raw.get("title")))
        else:
            node.pop("x-kubernetes-validations", None)
        if "type" not in node and not node.get("x-kubernetes-int-or-string"):
            raise SchemaError(f"{where} has no single type, which a CRD needs: {raw}")
        return node

    def _answer_names(self, node: Schema, model: str) -> None:
        fields = node.get("required", [])
        by_rule = [
            one for one in fields if model in answered_names.REQUIRED_BY_RULE or (model, one) in answered_names.UNLESS
        ]
        if by_rule:
            node["required"] = [one for one in fields if one not in by_rule]
            required = answered_names.required_rules(model, by_rule)
            node["x-kubernetes-validations"] = [*required, *node.get("x-kubernetes-validations", ())]
        if not node.get("required", True):
            del node["required"]
        if model in REFUSED and "properties" in node and issubclass(self.kind, Model):
            node["properties"] |= answered_names.properties(model, self.kind)


def _resolved(raw: Schema, definitions: Schema, where: str) -> Schema:
    """The node with references and `or null` replaced by their targets. Keys beside them take precedence."""
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
