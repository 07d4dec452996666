"""Models as schemas of a CRD: no references, one type a field, defaults spelled as in a document."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from cotenant.api.scalars.amounts import HostMemory
from cotenant.api.schema.structural import SchemaError, structural
from cotenant.api.validation.rules import Model, Rule


class Inner(Model):
    memory: HostMemory = 4 * 1024**3
    """Memory."""

    RULES = (Rule("memory", "true", "always holds", lambda it: True),)


class Outer(Model):
    inner: Inner = Inner()
    note: str | None = None


def test_references_are_resolved_and_defaults_are_spelled_as_documents_are() -> None:
    found = structural(Outer)["properties"]
    assert found["inner"]["properties"]["memory"]["default"] == "4Gi"
    assert found["inner"]["default"] == {}
    assert found["note"] == {"type": "string"}


def test_the_rules_of_a_class_travel_with_it_into_a_spec_and_not_into_a_status() -> None:
    rule = {"rule": "true", "message": "always holds", "fieldPath": ".memory"}
    assert structural(Outer)["properties"]["inner"]["x-kubernetes-validations"] == [rule]
    status = structural(Outer, spec=False)["properties"]["inner"]
    assert "x-kubernetes-validations" not in status
    assert "default" not in status["properties"]["memory"]


def test_a_model_that_a_crd_cannot_say_is_refused() -> None:
    class Either(Model):
        value: int | str

    class Anything(BaseModel):
        value: Any

    with pytest.raises(SchemaError, match=r"Either\.value may be one of several types"):
        structural(Either)
    with pytest.raises(SchemaError, match=r"Anything\.value has no single type"):
        structural(Anything)
