"""Rules in CEL for the API server and in Python for the parser, side by side so that they stay equal.

`Model` is the base of everything in a spec: unknown fields are refused, `null` is the same as absent (as the API server
prunes it), and the class's `RULES` run after its fields. `schema` copies the CEL half of every rule into the CRD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError

from cotenant.api.validation.refused_names import REFUSED

VIOLATED_RULES = "broken_rules"
"""Type of the pydantic error with `(field, message)` pairs of all broken rules of one object."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule about one object. `cel` and `check` agree on every value. The refusal names `field` (relative, dotted)."""

    field: str
    cel: str
    """Expression about the object, or, with `about_field`, about the field."""
    message: str
    check: Callable[[Any], bool]
    """Function of the object."""
    about_field: bool = False
    """True if the rule looks only at `field`, which has no other rule. It is then part of the field's schema, and costs
    nothing while the field is absent.

    A rule of the object is evaluated at every write, also of a status, and each access to a field costs a copy of the
    list of all fields that the object may have.
    """
    detail: Callable[[Any], str] | None = None
    """Function of an object that breaks the rule: what is wrong with this object, shown after the message."""

    def said_of(self, broken: Any) -> str:
        """The parser's message."""
        return f"{self.message}; {self.detail(broken)}" if self.detail is not None else self.message


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """Rule about an edit, in CEL only, because only the API server has `oldSelf`."""

    field: str
    cel: str
    message: str
    message_cel: str = ""
    """Message as an expression of both objects, if it depends on them."""


def validation(rule: Rule | TransitionRule) -> dict[str, str]:
    """Entry of `x-kubernetes-validations`."""
    made = {"rule": rule.cel, "message": rule.message}
    if isinstance(rule, TransitionRule) and rule.message_cel:
        made["messageExpression"] = rule.message_cel
    return made | ({"fieldPath": f".{rule.field}"} if rule.field else {})


def violated(faults: list[tuple[str, str]]) -> PydanticCustomError:
    """Error with `(field, message)` pairs relative to the current value. A field may be an index, `[2]`."""
    return PydanticCustomError(VIOLATED_RULES, "{summary}", {"summary": faults[0][1], "broken": faults})


class ValueRefusedError(ValueError):
    """A value is refused: what the field accepts, why the value does not fit, and what was meant if that is clear."""

    def __init__(self, takes: str, missed: str, instead: Any = None) -> None:
        super().__init__(f"{takes}{missed}")
        self.takes = takes
        self.instead = instead


class Model(BaseModel):
    """Base of everything that a person writes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return cls.as_written(data)

    @classmethod
    def as_written(cls, data: Any) -> Any:
        """What its fields are read from: the object without fields that are null."""
        if isinstance(data, Mapping) and None in data.values():
            known = cls.field_names() | REFUSED.get(cls.__name__, {}).keys()
            return {key: value for key, value in data.items() if value is not None or key not in known}
        return data

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        faults = [(rule.field, rule.said_of(self)) for rule in self.RULES if not rule.check(self)]
        if faults:
            raise violated(faults)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Schema with the class's rules, wherever the class is used."""
        schema = handler.resolve_ref_schema(handler(core))
        if rules := [validation(rule) for rule in cls.RULES if not rule.about_field]:
            schema["x-kubernetes-validations"] = rules
        for rule in cls.RULES:
            if rule.about_field:
                here = {"rule": rule.cel, "message": rule.message}
                schema["properties"][rule.field]["x-kubernetes-validations"] = [here]
        return schema

    @classmethod
    def field_names(cls) -> frozenset[str]:
        """Names of the fields as documents spell them."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())

    def to_document(self) -> dict[str, Any]:
        """JSON of the model, spelled as in documents, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class StatusModel(Model):
    """Base of what operator and agent write. It is read leniently, so that an older reader accepts a newer writer."""

    model_config = ConfigDict(extra="ignore", validate_by_name=True)


LONGEST_BITS = 256


def given(value: Any) -> str:
    """Value of the document, short enough for a sentence."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > LONGEST_BITS:
        # Python refuses to write integers of thousands of digits.
        return f"an integer of {value.bit_length()} bits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    shown = text if len(text) <= 60 else f"{text[:57]}…"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)
