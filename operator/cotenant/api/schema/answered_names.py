"""Schemas of the names that the API server itself answers (`validation.refused_names`).

Each is refused always, with what to write instead. To the parser they are unknown fields with an answer, as all others.
The rule that refuses stands at the name's own schema, where nothing is evaluated as long as nobody writes the name: the
same rules at the object around it cost a create, and every write of a status, more than all else together.
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
"""How the description of such a name begins, by which the reference page leaves it out."""

_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SHAPES: Final[Mapping[str, Schema]] = {
    "amount": {"x-kubernetes-int-or-string": True, "maxLength": 64},
    "text": {"type": "string", "maxLength": 1024},
    "flag": {"type": "boolean"},
    "object": _OPEN,
    "objects": {"type": "array", "maxItems": 256, "items": _OPEN},
    "words": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 65536}},
}
"""What such a name is mostly given, and its schema. Anything else gets the API server's word on its type."""


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
    """Entries of `x-kubernetes-validations` that say what to write for a required field that is missing."""
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
