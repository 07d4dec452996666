"""Schemas of the wrong names that the API server itself answers (`validation.refused_names`).

Such a name is always refused, with what to write instead. To the parser it is an unknown field with an answer. The rule
that refuses is at the name's own schema, where it costs nothing while nobody writes the name. The same rules at the
object around it would cost a create, and every write of a status, more than all other rules together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.api.advice.answers import example_of_a_name, for_example
from cotenant.api.advice.tables import tables
from cotenant.api.validation.refused_names import REFUSED
from cotenant.api.validation.rules import Model

Schema = dict[str, Any]
NO_FIELD: Final = "Not a field"
"""Prefix of the description of such a name. The reference page leaves it out."""

_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SHAPES: Final[Mapping[str, Schema]] = {
    "amount": {"x-kubernetes-int-or-string": True, "maxLength": 64},
    "text": {"type": "string", "maxLength": 1024},
    "flag": {"type": "boolean"},
    "object": _OPEN,
    "objects": {"type": "array", "maxItems": 256, "items": _OPEN},
    "words": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 65536}},
}
"""The usual type of such a value, and its schema. For another type the API server's own message is shown."""


def properties(model: str, kind: type[Model]) -> Schema:
    """Schemas of the names that objects of a model are refused with."""
    return {
        name: {
            "description": f"{NO_FIELD}: {example_of_a_name(name, model, kind)}.",
            **_SHAPES[shape],
            "x-kubernetes-validations": [
                {"rule": "false", "message": f"is not a field of this object; {example_of_a_name(name, model, kind)}"}
            ],
        }
        for name, shape in REFUSED.get(model, {}).items()
    }


REQUIRED_BY_RULE: Final = {"TrainingJobSpec"}
"""Models whose required fields are asked for by a rule.

Where the schema misses a field the API server checks no rule at all: `gpus: 2` would be answered with "spec.gpu:
Required value" and nothing else.
"""


UNLESS: Final = {
    ("TrainingJobSpec", "gpu"): "profile",
    ("TrialSpec", "gpu"): "profile",
    ("SessionSpec", "gpu"): "profile",
}
"""Fields that are required where another one is absent, which the schema cannot say."""


def required_rules(model: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Entries of `x-kubernetes-validations` that say what to write for a missing required field."""
    return [
        {
            "rule": f"has(self.{field})"
            + (f" || has(self.{other})" if (other := UNLESS.get((model, field))) is not None else ""),
            "message": f"is required; {for_example(f'spec.{field}', tables().example('TrainingJobSpec', field))}",
            "fieldPath": f".{field}",
            "reason": "FieldValueRequired",
        }
        for field in fields
    ]
